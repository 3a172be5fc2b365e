//! `linerate remote-command`, the other host's end of `--on`: does a command whose words come by standard input. What it
//! would print, say, show and keep goes to the host that asked, and it ends when that does.

use super::message::{Greeting, Message, read_words};
use super::terminal::RemoteTerminal;
use crate::cli::arguments::{Arguments, Command};
use crate::cli::definition::try_parse_from;
use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_system::clock;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;
use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the other end hears that this one lives.
const ALIVE: Duration = Duration::from_secs(1);
/// A host that lost its power closes no pipe: without a word for this long nobody is there any more.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// What was asked to end has this long.
const END: Duration = Duration::from_secs(10);

/// Does what the other host asks for, by `execute`; the exit status goes there, too.
pub(in crate::cli) fn remote_command(
    execute: impl FnOnce(Arguments, &Output) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let mut input = BufReader::new(io::stdin());
    let mut out = io::stdout();
    // Before anything is read: another version may write it otherwise.
    let greeted = out.write_all(Greeting::own().line().as_bytes()).and_then(|()| out.flush());
    greeted.map_err(|error| Failure::Lacks(format!("standard output: {error}")))?;
    let words = read_words(&mut input)?;
    let terminal = Arc::new(RemoteTerminal::new(out));
    let output = Output::on(Arc::clone(&terminal));
    watch_other_end(input, Arc::clone(&terminal))?;
    let status = done(words, &output, execute).unwrap_or_else(|failure| {
        output.complain(&failure.to_string());
        failure.exit_status()
    });
    terminal.send(&Message::End { status });
    Ok(status)
}

fn done(
    words: Vec<OsString>,
    output: &Output,
    execute: impl FnOnce(Arguments, &Output) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let arguments = match try_parse_from([OsString::from("linerate")].into_iter().chain(words)) {
        Ok(arguments) => arguments,
        // It was parsed at the other end: this program has not the same options.
        Err(error) => {
            error.render().to_string().lines().for_each(|line| output.tell(line));
            return Ok(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if !matches!(arguments.command, Command::Get(_) | Command::Put(_) | Command::Serve(_)) {
        return Err(Failure::usage("--on is for get, put and serve"));
    }
    execute(arguments, output)
}

/// Says again and again that this end lives, and ends with the other one.
fn watch_other_end(
    mut input: impl Read + Send + 'static,
    terminal: Arc<RemoteTerminal>,
) -> Result<(), Failure> {
    let begun = clock::now();
    let now = move || u64::try_from(clock::since(begun).as_millis()).unwrap_or(u64::MAX);
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
            clock::sleep(ALIVE);
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
    clock::sleep(END);
    exit(i32::from(Failure::Interrupted.exit_status()));
}
