//! `linerate wall control`: one request from the command line, or JSON lines from a program that steers (a
//! joystick's, a script's).

mod lines;
mod status;

use crate::cli::arguments::wall::{ControlArgs, Verb};
use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_transport::agent::{KEY_VARIABLE, Key};
use linerate_wall::control::{Client, ControlMessage, ControlRequest, MovieLine};
use std::time::Duration;

/// A server on this network answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

impl Verb {
    fn request(&self) -> ControlRequest {
        match self {
            Verb::Play => ControlRequest::Play,
            Verb::Pause => ControlRequest::Pause,
            Verb::Seek { frame } => ControlRequest::Seek { frame: *frame },
            Verb::Speed { speed } => ControlRequest::Speed { speed: *speed },
            Verb::Loop { switch } => ControlRequest::Loop { on: *switch },
            Verb::View { view } => ControlRequest::View(*view),
            Verb::Movies => ControlRequest::Movies,
            Verb::Open { movie } => ControlRequest::Open { movie: movie.clone() },
            Verb::Status => ControlRequest::Status,
            Verb::Watch => ControlRequest::Watch { per_second: 1.0 },
        }
    }
}

/// Asks the server.
pub(super) fn control(args: &ControlArgs, output: &Output) -> Result<u8, Failure> {
    let key = match &args.key_file {
        Some(file) => Key::read_file(file)?,
        None => Key::from_environment()?.ok_or_else(|| {
            Failure::Usage(format!(
                "wall control needs the key of the server: give --key-file FILE, or set {KEY_VARIABLE} to \
                 its digits"
            ))
        })?,
    };
    let mut client = Client::connect(&args.server, &key, PATIENCE)?;
    let Some(verb) = &args.verb else { return lines::relay(client, output) };
    let answer = client.ask(&verb.request(), PATIENCE)?;
    if let ControlMessage::Refused { why } = answer {
        return Err(Failure::Lacks(format!("the server says: {}", printable(&why))));
    }
    if !matches!(verb, Verb::Watch) {
        show(&answer, args.json, output)?;
        return Ok(0);
    }
    loop {
        // Each second one comes; a server that says nothing for longer is gone, and the connection tells so.
        match client.next(PATIENCE)? {
            Some(message @ ControlMessage::Status(_)) => show(&message, args.json, output)?,
            Some(message) if args.json => show(&message, true, output)?,
            Some(_) => {}
            None => {
                return Err(Failure::Lacks(format!(
                    "the server at {} says nothing any more",
                    client.server()
                )));
            }
        }
    }
}

fn show(message: &ControlMessage, json: bool, output: &Output) -> Result<(), Failure> {
    match message {
        message if json => output.print(&format!("{}\n", lines::json(message)?)),
        ControlMessage::Status(status) => output.print(&status::table(status)),
        ControlMessage::Movies { movies } => output.print(&movies.iter().map(movie_line).collect::<String>()),
        _ => Ok(()),
    }
}

fn movie_line(movie: &MovieLine) -> String {
    let mark = if movie.playing { "▶" } else { " " };
    format!(
        "{mark} {}  {} pixels, {} frames at {} frames/s\n",
        printable(&movie.name),
        movie.size,
        movie.frames,
        movie.frames_per_second
    )
}
