//! `linerate wall control`: one request from the command line, or JSON lines from a program that steers (a
//! joystick's, a script's), whose answers are JSON lines on standard output; and how a wall does, for a
//! terminal.

use crate::cli::arguments::wall::{ControlArgs, Verb};
use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_bytes_rate};
use linerate_model::alike::median;
use linerate_report::grid::{self, number, text};
use linerate_system::clock;
use linerate_transport::agent::{KEY_VARIABLE, Key};
use linerate_wall::control::{Client, ControlMessage, ControlRequest, MovieLine};
use linerate_wall::status::{NicStatus, TileStatus, WallStatus};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

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
    let Some(verb) = &args.verb else { return relay(client, output) };
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
        message if json => output.print(&format!("{}\n", json_line(message)?)),
        ControlMessage::Status(status) => output.print(&table(status)),
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

/// A line is sent within this; messages are printed within this.
const LINE_TURN: Duration = Duration::from_millis(5);
/// After the last line: so long for the answers.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// A connection that says nothing is closed by the server after two minutes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// A message as JSON.
fn json_line(message: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(message)
        .map_err(|error| Failure::Lacks(format!("a message cannot be written as JSON: {error}")))
}

/// Until standard input ends and all is answered, or the connection ends.
fn relay(mut client: Client, output: &Output) -> Result<u8, Failure> {
    let lines = read_lines()?;
    let mut spoken = clock::now();
    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(LINE_TURN) {
            Ok(line) => {
                spoken = clock::now();
                say(&mut client, &line, output)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let end = *ended.get_or_insert_with(clock::now);
                if client.awaited() == 0 || clock::since(end) > LAST_ANSWERS {
                    return Ok(0);
                }
                clock::sleep(LINE_TURN);
            }
        }
        if ended.is_none() && clock::since(spoken) > SIGN_OF_LIFE {
            spoken = clock::now();
            // Nobody asked for its answer.
            client.ask(&ControlRequest::Status, LAST_ANSWERS)?;
        }
        while let Some(message) = client.next(Duration::ZERO)? {
            output.print(&format!("{}\n", json_line(&message)?))?;
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
            output.print(&format!("{}\n", json_line(&refused)?))
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

/// Some lines for the whole, a line for each NIC, a line for each tile, then what is wrong.
fn table(status: &WallStatus) -> String {
    let mut lines = vec![head(status), rates(status), means(status), String::new()];
    let nics = [text("NIC", 0), number("rate", 0), number("link", 0), number("tiles", 0), text("problem", 0)];
    lines.extend(grid::lines(&nics, &status.nics.iter().map(nic_row).collect::<Vec<_>>(), usize::MAX));
    lines.push(String::new());
    let skew = median(status.tiles.iter().filter_map(|tile| tile.report.as_ref()?.presented_p50_ms));
    // Only screens that have a window say how many it dropped.
    let window = status.tiles.iter().any(|tile| dropped_by_window(tile).is_some());
    let dropped = if window { "dropped disk/net/CPU/window" } else { "dropped disk/net/CPU" };
    let tiles = [
        text("tile", 0),
        text("screen", 0),
        text("NIC", 0),
        number("rate", 0),
        number("lost", 0),
        number("late", 0),
        number("torn", 0),
        number("skew p99", 0),
        text(dropped, 0),
        text("problem", 0),
    ];
    let rows: Vec<Vec<String>> = status.tiles.iter().map(|tile| tile_row(tile, skew, window)).collect();
    lines.extend(grid::lines(&tiles, &rows, usize::MAX));
    lines.push(String::new());
    lines.extend(status.held_by.iter().map(|text| format!("limited by: {}", printable(text))));
    lines.extend(status.problems.iter().map(|text| format!("problem: {}", printable(text))));
    let mut screen = lines.join("\n");
    screen.truncate(screen.trim_end().len());
    screen + "\n"
}

fn head(status: &WallStatus) -> String {
    let moves = match (status.playing, status.looping) {
        (false, _) => "paused",
        (true, true) => "playing, loops",
        (true, false) => "playing",
    };
    format!(
        "{}: {moves}, frame {} of {}, {} frames/s, speed {}, view {:.0},{:.0},{:.2}",
        printable(&status.movie),
        status.frame,
        status.frames,
        status.frames_per_second,
        status.speed,
        status.view.left,
        status.view.top,
        status.view.zoom
    )
}

fn rates(status: &WallStatus) -> String {
    let predicted = status.predicted_bytes_per_second.map_or("unknown".into(), show_bits_rate);
    format!(
        "{} of {} needed (predicted {predicted}); {} frames sent, {} dropped",
        show_bits_rate(status.bytes_per_second),
        show_bits_rate(status.needed_bytes_per_second),
        status.frames_sent,
        status.frames_dropped
    )
}

fn means(status: &WallStatus) -> String {
    let cost = status.cpu_seconds_per_gb.map_or(String::new(), |cost| format!(" ({cost:.2} s per GB)"));
    let power = match (status.power_words(), &status.watts_unknown) {
        (Some(words), _) => words,
        (None, Some(why)) => format!("power unknown: {}", printable(why)),
        (None, None) => "power unknown".into(),
    };
    format!(
        "disks {}, CPU {:.2} cores{cost}, {power}",
        show_bytes_rate(status.disk_bytes_per_second),
        status.cpu_cores
    )
}

fn nic_row(nic: &NicStatus) -> Vec<String> {
    let link = nic
        .link_bits_per_second
        .map_or("unknown".into(), |bits| show_bits_rate(bytes_per_second(bits as u64)));
    let problem = nic.problem.clone().or((!nic.carrier).then(|| "no carrier".into()));
    vec![
        nic.name.clone(),
        show_bits_rate(nic.bytes_per_second),
        link,
        nic.tiles.len().to_string(),
        problem.unwrap_or_default(),
    ]
}

fn dropped_by_window(tile: &TileStatus) -> Option<u64> {
    tile.report.as_ref()?.frames_window_dropped
}

fn tile_row(tile: &TileStatus, skew: Option<f64>, window: bool) -> Vec<String> {
    let report = tile.report.as_ref();
    let number_or_dash = |value: Option<u64>| value.map_or("–".to_string(), |value| value.to_string());
    let p99 = report.and_then(|report| report.presented_p99_ms);
    let shift = p99.zip(skew).map_or("–".into(), |(p99, skew)| format!("{:.1} ms", p99 - skew));
    let mut dropped = format!("{}/{}/{}", tile.dropped_by_disk, tile.dropped_by_network, tile.dropped_by_cpu);
    if window {
        dropped = format!("{dropped}/{}", number_or_dash(dropped_by_window(tile)));
    }
    vec![
        tile.tile.to_string(),
        tile.screen.clone(),
        tile.nic.clone().unwrap_or("–".into()),
        show_bits_rate(tile.bytes_per_second),
        number_or_dash(report.map(|report| report.datagrams_lost)),
        number_or_dash(report.map(|report| report.frames_late)),
        number_or_dash(report.map(|report| report.frames_torn)),
        shift,
        dropped,
        tile.problem.clone().unwrap_or_default(),
    ]
}
