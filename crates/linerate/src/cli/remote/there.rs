//! `linerate remote-command`, the other host's end of `--on`: does a command whose words come by standard input. What it
//! would print, say, show and keep goes to the host that asked, and it ends when that does.

use super::message::{Greeting, Message, read_words};
use crate::cli::arguments::Command;
use crate::cli::commands::{command, complain, tell};
use crate::cli::definition::try_parse_from;
use crate::cli::log;
use linerate_facts::failure::Failure;
use linerate_measure::run::Run;
use linerate_system::lock;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;
use std::ffi::OsString;
use std::io::{self, BufReader, Read, Stdout, Write};
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How often the other end hears that this one lives.
const ALIVE: Duration = Duration::from_secs(1);
/// A host that lost its power closes no pipe: without a word for this long nobody is there any more.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// What was asked to end has this long.
const END: Duration = Duration::from_secs(10);
/// A longer text goes in several messages.
const LONGEST_TEXT_BYTES: usize = 256 << 10;

static TERMINAL: OnceLock<RemoteTerminal> = OnceLock::new();

/// The terminal and the kept results of the user who asked for this process, on another host.
pub(in crate::cli) struct RemoteTerminal(Mutex<Stdout>);

/// That of this process, where it was started so.
pub(in crate::cli) fn remote_terminal() -> Option<&'static RemoteTerminal> {
    TERMINAL.get()
}

impl RemoteTerminal {
    /// For standard output there.
    pub(in crate::cli) fn print(&self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = rest.len().min(LONGEST_TEXT_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (now, later) = rest.split_at(end);
            self.send(&Message::Print(now.into()));
            rest = later;
        }
    }

    /// A line for standard error there.
    pub(in crate::cli) fn tell(&self, line: &str) {
        self.send(&Message::Tell(line.into()));
    }

    /// For the kept results there.
    pub(in crate::cli) fn keep(&self, run: &Run) {
        self.send(&Message::Keep(Box::new(run.clone())));
    }

    /// For the line of progress there.
    pub(in crate::cli) fn reached(&self, how_far: String, seconds_left: Option<f64>) {
        self.send(&Message::Reached { how_far, seconds_left });
    }

    /// Nobody may be there to hear it: the end of standard input says that.
    fn send(&self, message: &Message) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        let mut out = lock(&self.0);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// Does what the other host asks for; the exit status goes there, too.
pub(in crate::cli) fn remote_command() -> Result<u8, Failure> {
    let mut input = BufReader::new(io::stdin());
    let mut out = io::stdout();
    // Before anything is read: another version may write it otherwise.
    let greeted = out.write_all(Greeting::own().line().as_bytes()).and_then(|()| out.flush());
    greeted.map_err(|error| Failure::Lacks(format!("standard output: {error}")))?;
    let words = read_words(&mut input)?;
    let terminal = TERMINAL.get_or_init(|| RemoteTerminal(Mutex::new(out)));
    watch_other_end(input, terminal)?;
    let status = done(words).unwrap_or_else(|failure| {
        complain(&failure.to_string());
        failure.exit_status()
    });
    terminal.send(&Message::End { status });
    Ok(status)
}

fn done(words: Vec<OsString>) -> Result<u8, Failure> {
    let words = match try_parse_from([OsString::from("linerate")].into_iter().chain(words)) {
        Ok(words) => words,
        // It was parsed at the other end: this program has not the same options.
        Err(error) => {
            error.render().to_string().lines().for_each(tell);
            return Ok(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if !matches!(words.command, Command::Get(_) | Command::Put(_) | Command::Serve(_)) {
        return Err(Failure::usage("--on is for get, put and serve"));
    }
    log::start(words.log.as_deref())?;
    command(words.command)
}

/// Says again and again that this end lives, and ends with the other one.
fn watch_other_end(
    mut input: impl Read + Send + 'static,
    terminal: &'static RemoteTerminal,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let now = move || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let heard = Arc::new(AtomicU64::new(0));
    let hears = Arc::clone(&heard);
    let listen = move || {
        let mut some = [0; 64];
        while let Ok(1..) = input.read(&mut some) {
            hears.store(now(), Ordering::Relaxed);
        }
        end();
    };
    let speak = move || {
        while Duration::from_millis(now().saturating_sub(heard.load(Ordering::Relaxed))) < FORGOTTEN {
            terminal.send(&Message::Alive);
            std::thread::sleep(ALIVE);
        }
        end();
    };
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let started = thread("listener").spawn(listen).and_then(|_| thread("speaker").spawn(speak));
    started
        .map(drop)
        .map_err(|error| Failure::Lacks(format!("no thread to listen to the other host: {error}")))
}

/// As a polite kill does; what cannot look is left.
fn end() {
    let _ = raise(SIGTERM);
    std::thread::sleep(END);
    exit(i32::from(Failure::Interrupted.exit_status()));
}
