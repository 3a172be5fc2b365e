//! The tools that the watch is held against, beside it: started in time, and their tables read.

use crate::support::process::Running;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// No tool of this test takes longer for a line.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets this thread, and all that it starts, run before programs that take all processors: what samples has
/// to wake up in time. Without the right to it things go on as they are.
pub fn hurry() {
    let own = std::fs::read_link("/proc/thread-self").expect("/proc");
    let number = own.file_name().and_then(|name| name.to_str()).expect("a number");
    let _ = Command::new("chrt").args(["--fifo", "--pid", "10", number]).output();
}

/// A program that runs as others do, although what starts it hurries.
pub fn unhurried<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["chrt", "--other", "0"], words].concat()
}

/// A tool that runs; ended with the value.
pub struct Tool {
    child: Running,
    lines: Receiver<(Instant, String)>,
}

impl Tool {
    /// Each line is told when it is printed.
    pub fn start(words: &[&str]) -> Tool {
        let mut child = Command::new("stdbuf")
            .arg("-oL")
            .args(words)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tool starts");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if tell.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Tool { child: Running(child), lines }
    }

    /// The next line, and when it came.
    pub fn next(&self) -> (Instant, String) {
        self.lines.recv_timeout(PATIENCE).expect("the tool goes on")
    }

    /// When a line that begins with this word came, and the line.
    pub fn until(&self, first: &str) -> (Instant, String) {
        loop {
            let (at, line) = self.next();
            if line.split_whitespace().next() == Some(first) {
                return (at, line);
            }
        }
    }

    /// All that comes until it ends.
    pub fn rest(&mut self) -> Vec<(Instant, String)> {
        let mut all = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            all.push(line);
        }
        let status = self.child.wait().expect("its status");
        assert!(status.success(), "{status}");
        all
    }
}

/// One row of a table, by the names of its columns.
pub struct ToolRow {
    head: Vec<String>,
    words: Vec<String>,
}

impl ToolRow {
    pub fn new(head: &str, line: &str) -> ToolRow {
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect();
        ToolRow { head: words(head), words: words(line) }
    }

    pub fn figure(&self, column: &str) -> f64 {
        let place = self.head.iter().position(|name| name == column);
        let place = place.unwrap_or_else(|| panic!("no column {column} in {:?}", self.head));
        self.words[place].parse().unwrap_or_else(|_| panic!("{column} in {:?}", self.words))
    }

    pub fn word(&self, column: &str) -> Option<&str> {
        let place = self.head.iter().position(|name| name == column)?;
        self.words.get(place).map(String::as_str)
    }
}

/// A number behind a word, in the form of `nstat` and `ethtool -S`.
pub fn number(text: &str, name: &str) -> f64 {
    let found = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let own = words.next()?.trim_end_matches(':') == name;
        own.then(|| words.next()?.parse().ok())?
    });
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}
