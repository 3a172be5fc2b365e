//! Debian's GStreamer and ffmpeg receive what `linerate wall serve` sends, every frame exact. Skipped with a
//! message where they are absent.

use crate::support::neighbours::undisturbed;
use crate::support::process::{Ends, signal};
use crate::support::rights::there;
use crate::support::wall_movie::{TestMovie, json, number};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The receivers need the cores to themselves.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Their sockets overflow now and then on a machine that is busy with other things.
const ATTEMPTS: usize = 3;

/// Ports for stock receivers, free a moment ago: two for each (RTCP is the next one).
fn ports(count: usize) -> Vec<u16> {
    let mut held = Vec::new();
    while held.len() < count {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("an address").port();
        if port.is_multiple_of(2) && UdpSocket::bind(("127.0.0.1", port + 1)).is_ok() {
            held.push(socket);
        }
    }
    held.iter().filter_map(|socket| Some(socket.local_addr().ok()?.port())).collect()
}

/// Plays once to stock receivers, and again where they missed something.
fn stock(
    movie: &TestMovie,
    columns: usize,
    tiles: usize,
    mtu: &str,
    receive: impl Fn(&Path, &[u16]) -> Vec<Child>,
) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    undisturbed("exact frames in a stock receiver", ATTEMPTS, || {
        attempt(movie, columns, tiles, mtu, &receive);
    });
}

fn attempt(
    movie: &TestMovie,
    columns: usize,
    tiles: usize,
    mtu: &str,
    receive: &impl Fn(&Path, &[u16]) -> Vec<Child>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = ports(tiles);
    let screens: Vec<String> = (0..tiles)
        .flat_map(|tile| {
            ["--screen".into(), format!("r{}c{}=127.0.0.1:{}", tile / columns, tile % columns, ports[tile])]
        })
        .collect();
    let out = folder.path();
    let described =
        movie.serve().args(&screens).args(["--mtu", mtu, "--seconds", "0.01", "--sdp"]).arg(out).output();
    assert!(described.expect("linerate").status.success());
    let mut receivers = receive(out, &ports);
    std::thread::sleep(Duration::from_millis(2500));
    let output = before_others(&movie.serve()).args(&screens).args(["--mtu", mtu, "--once"]).ended();
    let bytes = movie.width * movie.height * 3;
    let whole = |tile: usize| {
        let file = std::fs::metadata(out.join(format!("{tile}.rgb")));
        file.is_ok_and(|file| file.len() >= (bytes * movie.frames) as u64)
    };
    let sent = Instant::now();
    while sent.elapsed() < Duration::from_millis(700) && !(0..tiles).all(whole) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for receiver in &mut receivers {
        signal(receiver, "INT");
    }
    for mut receiver in receivers {
        let _ = receiver.wait();
    }
    let status = json(&output);
    assert_eq!(number(&status, "frames_dropped"), 0, "frames were left out: {status:#}");
    for tile in 0..tiles {
        let (row, column) = (tile / columns, tile % columns);
        let got = std::fs::read(out.join(format!("{tile}.rgb"))).unwrap_or_default();
        let sent = std::fs::read(movie.tile(row, column)).expect("the tile");
        let exact = got.chunks(bytes).zip(sent.chunks(bytes)).filter(|(got, sent)| got == sent).count();
        assert_eq!(exact, movie.frames, "exact frames of r{row}c{column}, of which {} bytes came", got.len());
    }
}

/// The same command before whatever else wants the cores, where we may ask for that: a receiver's socket
/// holds a hundredth of a second.
fn before_others(command: &Command) -> Command {
    let real_time = Command::new("chrt").args(["--rr", "1", "true"]).stderr(Stdio::null()).status();
    let mut words = vec![command.get_program()];
    words.extend(command.get_args());
    if real_time.is_ok_and(|status| status.success()) {
        words.splice(0..0, ["chrt", "--rr", "1"].map(std::ffi::OsStr::new));
    }
    let mut prompt = Command::new(words[0]);
    prompt.args(&words[1..]).env_remove("LINERATE_KEY").stdin(Stdio::null());
    prompt
}

fn gstreamer(width: usize, height: usize) -> impl Fn(&Path, &[u16]) -> Vec<Child> {
    move |out, ports| {
        let mut command = before_others(&Command::new("gst-launch-1.0"));
        command.args(["-q", "-e"]);
        for (tile, port) in ports.iter().enumerate() {
            command.args(["udpsrc", "address=127.0.0.1", &format!("port={port}"), "buffer-size=8388608"]);
            command.arg(format!(
                "caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=RAW,sampling=(string)RGB,depth=(string)8,width=(string){width},height=(string){height},payload=96"
            ));
            let file = format!("location={}", out.join(format!("{tile}.rgb")).display());
            command.args(["!", "rtpvrawdepay", "!", "filesink", &file]);
        }
        vec![command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("gst-launch-1.0")]
    }
}

/// It ends by itself with the last frame: interrupted, it waits ten seconds for the next packet.
fn ffmpeg(columns: usize, frames: usize) -> impl Fn(&Path, &[u16]) -> Vec<Child> {
    move |out, ports| {
        let receive = |tile: usize| {
            let mut command = before_others(&Command::new("ffmpeg"));
            command.args("-v error -nostdin -protocol_whitelist file,udp,rtp -analyzeduration 0".split(' '));
            command.args(["-buffer_size", "4194304", "-i"]);
            command.arg(out.join(format!("r{}c{}.sdp", tile / columns, tile % columns)));
            command.args(["-frames:v", &frames.to_string(), "-f", "rawvideo", "-pix_fmt", "rgb24", "-y"]);
            command.arg(out.join(format!("{tile}.rgb")));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ffmpeg")
        };
        (0..ports.len()).map(receive).collect()
    }
}

#[test]
fn stock_gstreamer_receives_fifteen_tiles() {
    if !there("gst-launch-1.0") {
        eprintln!("skipped: gst-launch-1.0 is not installed");
        return;
    }
    let movie = TestMovie::new(5, 3, (320, 200), 24, 24);
    stock(&movie, 5, 15, "9000", gstreamer(320, 200));
}

#[test]
fn stock_ffmpeg_receives_fifteen_tiles() {
    if !there("ffmpeg") {
        eprintln!("skipped: ffmpeg is not installed");
        return;
    }
    let movie = TestMovie::new(5, 3, (320, 200), 24, 24);
    stock(&movie, 5, 15, "1500", ffmpeg(5, 24));
}

#[test]
fn a_full_tile_over_jumbo_frames_is_exact_in_both() {
    let movie = TestMovie::new(1, 1, (2560, 1600), 24, 6);
    if there("gst-launch-1.0") {
        stock(&movie, 1, 1, "9000", gstreamer(2560, 1600));
    } else {
        eprintln!("skipped: gst-launch-1.0 is not installed");
    }
    if there("ffmpeg") {
        stock(&movie, 1, 1, "9000", ffmpeg(1, 6));
    } else {
        eprintln!("skipped: ffmpeg is not installed");
    }
}
