//! JSON lines from standard input to the server, its messages as JSON lines on standard output: for scripts
//! and joystick programs.

use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_wall::control::{Client, ControlMessage, ControlRequest};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A line is sent within this; messages are printed within this.
const TURN: Duration = Duration::from_millis(5);
/// After the last line: so long for the answers.
const LAST: Duration = Duration::from_secs(5);
/// A connection that says nothing is closed by the server after two minutes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// A message as JSON.
pub(super) fn json(message: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(message)
        .map_err(|error| Failure::Lacks(format!("a message cannot be written as JSON: {error}")))
}

/// Until standard input ends and all is answered, or the connection ends.
pub(super) fn relay(mut client: Client, output: &Output) -> Result<u8, Failure> {
    let lines = read_lines()?;
    let mut spoken = clock::now();
    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(TURN) {
            Ok(line) => {
                spoken = clock::now();
                say(&mut client, &line, output)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let end = *ended.get_or_insert_with(clock::now);
                if client.awaited() == 0 || clock::since(end) > LAST {
                    return Ok(0);
                }
                clock::sleep(TURN);
            }
        }
        if ended.is_none() && clock::since(spoken) > SIGN_OF_LIFE {
            spoken = clock::now();
            // Nobody asked for its answer.
            client.ask(&ControlRequest::Status, LAST)?;
        }
        while let Some(message) = client.next(Duration::ZERO)? {
            output.print(&format!("{}\n", json(&message)?))?;
        }
    }
}

fn say(client: &mut Client, line: &str, output: &Output) -> Result<(), Failure> {
    if line.trim().is_empty() {
        return Ok(());
    }
    match serde_json::from_str::<ControlRequest>(line) {
        Ok(request) => client.send(&request),
        Err(error) => {
            let refused = ControlMessage::Refused { why: format!("the line is not a request: {error}") };
            output.print(&format!("{}\n", json(&refused)?))
        }
    }
}

/// On a thread of its own: a read of a terminal or a pipe has no time-out.
fn read_lines() -> Result<Receiver<String>, Failure> {
    let (sender, lines) = channel();
    let read = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("stdin".into()).spawn(read);
    started.map_err(|error| Failure::Lacks(format!("no thread to read standard input: {error}")))?;
    Ok(lines)
}
