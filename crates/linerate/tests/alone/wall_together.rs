//! One server and fifteen screens on this machine: every frame is proven, none is lost, and the tiles of a
//! frame are shown together.
//!
//! A few seconds; LINERATE_LONG_SECONDS=60 plays a minute, 3600 an hour, and watches the memory of both ends
//! meanwhile.

use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const SCREENS: usize = 15;
const FRAMES_PER_SECOND: u64 = 24;
/// Frames of the movie; longer plays repeat it.
const FRAMES: u64 = 48;
/// A frame of a neighbour's time may be missing: the figures of a busy machine are taken again so often, and
/// the last must hold.
const MOST_RUNS: usize = 3;

fn seconds() -> u64 {
    std::env::var("LINERATE_LONG_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3)
}

fn start(words: &[String]) -> Child {
    let mut command = crate::support::linerate();
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

fn end(child: Child) -> Value {
    child.ended().json()
}

/// Resident memory of a process, kB.
fn resident(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What both ends say of one play, and the server's memory after a fifth of the time and at its end.
struct Play {
    server: Value,
    screens: Vec<Value>,
    resident_kb: (u64, u64),
}

fn play(movie: &str) -> Play {
    let text = |words: String| words.split(' ').map(String::from).collect::<Vec<_>>();
    let seconds = seconds();
    // Ports that the kernel calls free now.
    let sockets: Vec<_> =
        (0..SCREENS).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<u16> =
        sockets.iter().map(|socket| socket.local_addr().expect("an address").port()).collect();
    drop(sockets);
    let screens: Vec<Child> = ports
        .iter()
        .map(|port| format!("wall show --listen 127.0.0.1:{port} --verify --json --until-silent 1.5"))
        .map(|words| start(&text(words)))
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let mut words = text(format!("wall serve --json --page none --seconds {seconds}"));
    words.push(movie.to_string());
    for (tile, port) in ports.iter().enumerate() {
        words.extend(text(format!("--screen r{}c{}=127.0.0.1:{port}", tile / 5, tile % 5)));
    }
    let server = start(&words);
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds) / 5 + Duration::from_millis(400));
    let early = resident(&server);
    std::thread::sleep(
        Duration::from_secs(seconds).saturating_sub(begin.elapsed() + Duration::from_millis(200)),
    );
    let late = resident(&server);
    let server = end(server);
    Play { server, screens: screens.into_iter().map(end).collect(), resident_kb: (early, late) }
}

/// What is wrong with a play; empty where every frame that was sent was proven and shown in time.
fn wrong(play: &Play) -> Vec<String> {
    let mut wrong = Vec::new();
    let tiles = play.server["tiles"].as_array().expect("tiles");
    for (tile, screen) in tiles.iter().zip(&play.screens) {
        let screen = &screen["screens"][0];
        let of = |name: &str| screen[name].as_u64().unwrap_or_else(|| panic!("no {name}: {screen:#}"));
        let sent = tile["frames_sent"].as_u64().expect("a count");
        if of("frames_proven") != sent || of("frames_shown") + of("frames_late") != sent {
            wrong.push(format!("{}: {sent} frames sent: {screen:#}", tile["tile"]));
        }
        for none in ["datagrams_lost", "frames_torn", "frames_wrong", "frames_missing", "datagrams_foreign"] {
            if of(none) != 0 {
                wrong.push(format!("{}: {none} {}", tile["tile"], of(none)));
            }
        }
        // No frame is shown before its deadline, so this bounds how far apart two tiles of a frame are.
        let late = screen["presented_p99_ms"].as_f64().expect("a time")
            - screen["latency_ms"].as_f64().expect("a time");
        if late > 1000.0 / FRAMES_PER_SECOND as f64 {
            wrong
                .push(format!("{}: 1 % of the frames are shown {late:.1} ms after the others", tile["tile"]));
        }
    }
    // The server's opening is in its seconds.
    let least = (seconds() - 1) * FRAMES_PER_SECOND * SCREENS as u64;
    let sent = play.server["frames_sent"].as_u64().expect("a count");
    if sent < least || play.server["frames_dropped"] != 0 {
        wrong.push(format!("{sent} frames sent of {least}, {} left out", play.server["frames_dropped"]));
    }
    wrong
}

#[test]
fn fifteen_screens_prove_every_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let movie = folder.path().join("movie").display().to_string();
    let frames = FRAMES.to_string();
    crate::support::linerate()
        .args([
            "wall", "generate", &movie, "--grid", "5x3", "--tile", "640x400", "--fps", "24", "--frames",
            &frames,
        ])
        .ended()
        .gives(0);
    undisturbed("fifteen screens", MOST_RUNS, || {
        let play = play(&movie);
        let (early, late) = play.resident_kb;
        assert!(late < early + early / 10 + 4096, "the server's memory grew from {early} to {late} kB");
        let wrong = wrong(&play);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
