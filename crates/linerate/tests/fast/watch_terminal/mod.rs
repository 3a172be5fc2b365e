//! The full screen of the watch in a terminal of its own (`script` of util-linux makes one; skipped where it
//! is absent): it is taken, drawn on, and given back, whatever ends it. [`beside`] is the panel of the
//! commands that measure.

mod emulated;
mod status_panel;

use crate::support::process::Running;
use crate::support::rights::there;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// The alternate screen: taken, given back (xterm's private mode 1049).
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";
const CURSOR: &str = "\x1b[?25h";

/// A watch in a terminal; ends with this value.
struct Watch {
    child: Running,
    written: Arc<Mutex<String>>,
}

impl Watch {
    fn start(words: &str, environment: &[(&str, &str)]) -> Option<Watch> {
        Watch::of(&format!("watch {words}"), environment)
    }

    /// Any command of the program, with a shell's redirections. None where no terminal can be made. The
    /// program's own number goes first to the terminal, as `pid=N`.
    fn of(words: &str, environment: &[(&str, &str)]) -> Option<Watch> {
        if !there("script") {
            return None;
        }
        let program = env!("CARGO_BIN_EXE_linerate");
        let inside = format!("stty rows 24 cols 80; echo pid=$$; exec {program} {words}");
        let mut command = Command::new("script");
        crate::support::keep_apart(&mut command, &crate::support::kept());
        let mut child = command
            .args(["--quiet", "--return", "--command", &format!("sh -c '{inside}'"), "/dev/null"])
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script starts");
        let mut output = child.stdout.take().expect("its output");
        let written = Arc::new(Mutex::new(String::new()));
        let theirs = written.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut part) {
                theirs.lock().expect("text").push_str(&String::from_utf8_lossy(&part[..count]));
            }
        });
        Some(Watch { child: Running(child), written })
    }

    fn text(&self) -> String {
        self.written.lock().expect("text").clone()
    }

    fn until(&self, what: &str) {
        let start = Instant::now();
        while !self.text().contains(what) {
            assert!(start.elapsed() < PATIENCE, "no {what:?} in {:?}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).expect("pressed");
    }

    /// The program's own number; it is there.
    fn number(&self) -> String {
        let text = self.text();
        let number = text.split("pid=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let number = number.expect("a number").to_string();
        assert!(Path::new("/proc").join(&number).exists());
        number
    }

    /// Its exit status, when it has ended by itself.
    fn status(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            match self.child.try_wait().expect("its status") {
                Some(status) => return status.code(),
                None => assert!(start.elapsed() < PATIENCE, "it goes on: {:?}", self.text()),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its exit status, and that the terminal is as it was.
    fn ended(mut self) -> Option<i32> {
        self.until(GIVEN_BACK);
        let status = self.status();
        let text = self.text();
        let last = |mark: &str| text.rfind(mark).unwrap_or_else(|| panic!("{mark:?} in {text:?}"));
        assert!(last(TAKEN) < last(GIVEN_BACK), "{text:?}");
        assert!(last("\x1b[?25l") < last(CURSOR), "the cursor is shown again: {text:?}");
        status
    }
}

#[test]
fn it_draws_and_q_gives_the_terminal_back() {
    let Some(mut watch) = Watch::start("--interval 200ms", &[]) else { return };
    watch.until(TAKEN);
    watch.until("Network");
    watch.until("q quit");
    watch.press("4");
    watch.until("Memory");
    watch.press("?");
    watch.until("redraw");
    watch.press("q");
    assert_eq!(watch.ended(), Some(0));
}

#[test]
fn a_polite_kill_and_ctrl_c_give_it_back_too() {
    let Some(mut watch) = Watch::start("--interval 200ms", &[]) else { return };
    watch.until("Network");
    watch.press("\x03");
    assert_eq!(watch.ended(), Some(0));
    let Some(watch) = Watch::start("--interval 200ms", &[]) else { return };
    watch.until("Network");
    let pid = &watch.number();
    assert!(Command::new("kill").args(["-TERM", pid]).status().expect("kill").success());
    assert_eq!(watch.ended(), Some(0));
}

/// A window that is closed, an ssh that ends: nothing may be left that turns for ever.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    let Some(mut watch) = Watch::start("--interval 200ms", &[]) else { return };
    watch.until("Network");
    let number = watch.number();
    watch.child.kill().expect("script is killed");
    let start = Instant::now();
    // (A dead child of a dead parent may wait for somebody to look at it.)
    let is_there = || {
        let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    while is_there() {
        assert!(start.elapsed() < PATIENCE, "it goes on without a terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_colours_it_writes_none() {
    let Some(mut watch) = Watch::start("--interval 200ms", &[("NO_COLOR", "1")]) else { return };
    watch.until("Network");
    watch.press("6");
    watch.until("moved");
    watch.press("q");
    let text = watch.text();
    for code in ["\x1b[31m", "\x1b[36m", "\x1b[38;5;"] {
        assert!(!text.contains(code), "{code:?} in {text:?}");
    }
    assert_eq!(watch.ended(), Some(0));
}

#[test]
fn a_number_of_samples_is_printed_in_lines() {
    let Some(mut watch) = Watch::start("--interval 200ms --count 2", &[]) else { return };
    assert_eq!(watch.status(), Some(0));
    assert!(!watch.text().contains(TAKEN), "{:?}", watch.text());
}
