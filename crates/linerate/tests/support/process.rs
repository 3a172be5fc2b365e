//! A program that a test starts: how it ends, what it printed, what it said, and whether that is as it must be.

use linerate_system::lock;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What a program may take that has to end by itself, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a program ended.
#[derive(Debug)]
pub struct ProcessEnd {
    /// The command as it was started, where that is known.
    command: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

/// A command, started, or a child that runs: either is taken to its end.
pub trait Ends {
    fn ended(self) -> ProcessEnd;
}

impl Ends for &mut Command {
    #[track_caller]
    fn ended(self) -> ProcessEnd {
        let began = Instant::now();
        let output = self.output().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        ProcessEnd::of(format!("{self:?}"), output, began)
    }
}

impl Ends for Child {
    #[track_caller]
    fn ended(self) -> ProcessEnd {
        let began = Instant::now();
        ProcessEnd::of(String::new(), self.wait_with_output().expect("it ends"), began)
    }
}

impl Display for ProcessEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = self.stdout.lines().count();
        let end: Vec<&str> = self.stdout.lines().skip(lines.saturating_sub(40)).collect();
        let (command, status, took, end) = (&self.command, self.status, self.took, end.join("\n"));
        write!(f, "{command}\n{status} after {took:?}\nend of stdout:\n{end}\nstderr:\n{}", self.stderr)
    }
}

impl ProcessEnd {
    fn of(command: String, output: Output, began: Instant) -> ProcessEnd {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        ProcessEnd { command, status: output.status, stdout, stderr, took: began.elapsed() }
    }

    /// The exit status; none after a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Exit status, what it printed, what it said.
    pub fn parts(self) -> (Option<i32>, String, String) {
        (self.code(), self.stdout, self.stderr)
    }

    /// Exit status, the JSON that it printed (`null`: none), what it said.
    pub fn json_parts(self) -> (Option<i32>, Value, String) {
        assert!(!self.stderr.contains("panicked"), "{self}");
        (self.code(), serde_json::from_str(&self.stdout).unwrap_or_default(), self.stderr)
    }

    /// All that it printed and said.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The exit status is this.
    #[track_caller]
    pub fn gives(&self, status: i32) -> &Self {
        assert_eq!(self.code(), Some(status), "{self}");
        self
    }

    /// What it printed: JSON and nothing else, whatever the exit status.
    #[track_caller]
    pub fn json(&self) -> Value {
        self.parsed()
    }

    /// The same, read as what it is.
    #[track_caller]
    pub fn parsed<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// What it printed; it ended well and said nothing.
    #[track_caller]
    pub fn printed(self) -> String {
        self.gives(0);
        assert!(self.stderr.is_empty(), "{self}");
        self.stdout
    }

    /// All of these are in what it printed.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.stdout.contains(part), "“{part}” is not on the screen\n{self}");
        }
        self
    }

    /// All of these are in what it said.
    #[track_caller]
    pub fn mentions(&self, parts: &[&str]) -> &Self {
        assert!(!self.stderr.contains("panicked"), "{self}");
        for part in parts {
            assert!(self.stderr.contains(part), "“{part}” is not in what it said\n{self}");
        }
        self
    }

    /// Exactly one sentence on standard error, with all of these in it.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) -> &Self {
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !line.starts_with("saved in ")).collect();
        assert!(matches!(lines[..], [line] if line.starts_with("linerate: ")), "one sentence\n{self}");
        for part in parts {
            assert!(lines[0].contains(part), "“{part}” is not in the sentence\n{self}");
        }
        self
    }

    /// This exit status, nothing printed, and one sentence with all of these in it.
    #[track_caller]
    pub fn refused(&self, status: i32, parts: &[&str]) -> &Self {
        assert!(self.stdout.is_empty(), "{self}");
        self.gives(status).says(parts)
    }

    /// Wrong words: the parser's message names the option and shows the usage.
    #[track_caller]
    pub fn refuses(&self, parts: &[&str]) -> &Self {
        assert!(self.stdout.is_empty(), "{self}");
        self.gives(2).mentions(parts)
    }

    /// Nothing was said to be wrong.
    #[track_caller]
    pub fn is_content(&self) -> &Self {
        self.gives(0);
        assert!(self.stderr.lines().all(|line| line.starts_with("saved in ")), "{self}");
        self
    }
}

/// A child that is killed with this value.
pub struct Running(pub Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// A program at work, its output read as it comes; killed with the value.
pub struct Started {
    pub child: Running,
    command: String,
    began: Instant,
    /// What of its standard error was read already.
    head: String,
    streams: [Receiver<String>; 2],
}

fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, text) = channel();
    if let Some(mut stream) = stream {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    text
}

impl Started {
    pub fn of(command: &mut Command) -> Started {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Started::with_streams(command)
    }

    /// As the command's streams were set; what is not a pipe stays unread.
    pub fn with_streams(command: &mut Command) -> Started {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let streams = [collect(child.stdout.take()), collect(child.stderr.take())];
        let (child, command) = (Running(child), format!("{command:?}"));
        Started { child, command, began: Instant::now(), head: String::new(), streams }
    }

    /// Once its standard error has had so many lines that begin with this; what followed in each.
    pub fn once_said(command: &mut Command, begin: &str, count: usize) -> (Started, Vec<String>) {
        let (began, mut head, mut found) = (Instant::now(), String::new(), Vec::new());
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = Running(spawned.unwrap_or_else(|error| panic!("{command:?}: {error}")));
        let mut stderr = BufReader::new(child.stderr.take().expect("its standard error"));
        while found.len() < count {
            let start = head.len();
            let read = stderr.read_line(&mut head).expect("a line");
            assert!(read > 0, "{command:?} ended before it said “{begin}”: {head}");
            found.extend(head[start..].trim().strip_prefix(begin).map(str::to_string));
        }
        let streams = [collect(child.stdout.take()), collect(Some(stderr))];
        (Started { child, command: format!("{command:?}"), began, head, streams }, found)
    }

    /// Sends a signal, by its name or number.
    pub fn signal(&self, name: impl Display) {
        signal(&self.child, name);
    }

    /// Ctrl-C, and its end within this time.
    pub fn interrupted(self, time: Duration) -> ProcessEnd {
        self.signal("INT");
        self.end_within(time)
    }

    /// Waits for the end; a program that does not end in time is killed, and the test fails.
    pub fn end_within(mut self, time: Duration) -> ProcessEnd {
        let deadline = Instant::now() + time;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                let [stdout, stderr] = self.read();
                panic!("{} is not at its end after {time:?}\n{stdout}\n{stderr}", self.command);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = self.began.elapsed();
        // Who still holds a stream after that is a process that was left behind.
        let [stdout, stderr] = self.read();
        ProcessEnd { command: self.command, status, stdout, stderr, took }
    }

    fn read(&self) -> [String; 2] {
        let [stdout, stderr] = &self.streams;
        let rest = |text: &Receiver<String>| text.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
        [rest(stdout), self.head.clone() + &rest(stderr)]
    }
}

/// Sends a signal, by its name or number; a child that has ended gets none.
pub fn signal(child: &Child, name: impl Display) {
    signal_process(child.id(), name);
}

/// The same for the number of a process.
pub fn signal_process(process: u32, name: impl Display) {
    let mut kill = Command::new("kill");
    kill.args(["-s", &name.to_string(), &process.to_string()]).stderr(Stdio::null());
    kill.status().expect("kill runs");
}

/// Threads of a process that bear this name.
pub fn threads_named(name: &str, process: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|own| own.trim() == name).count()
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Four scenarios at once: they mostly wait, for a pause before the next try or for a time-out.
pub fn beside_each_other<S: Send>(
    scenarios: impl IntoIterator<Item = S, IntoIter: Send>,
    check: impl Fn(S) + Sync,
) {
    let left = Mutex::new(scenarios.into_iter());
    let next = || lock(&left).next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| std::iter::from_fn(&next).for_each(&check));
        }
    });
}
