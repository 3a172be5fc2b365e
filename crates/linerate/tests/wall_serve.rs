//! `linerate wall serve` as a user runs it: movies made by hand, screens that prove every byte, stock receivers.

use linerate::agent::Key;
use linerate::wall::control::{Client, Message, Request, View};
use linerate::wall::geometry::FrameRate;
use linerate::wall::rtp::parse;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(20);

fn program() -> Command {
    Command::new(std::env::var("LINERATE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_linerate").into()))
}

/// A movie whose frames are all different.
struct Movie {
    folder: tempfile::TempDir,
    width: usize,
    height: usize,
    frames: usize,
}

impl Movie {
    fn new(columns: usize, rows: usize, (width, height): (usize, usize), fps: u32, frames: usize) -> Movie {
        let movie = Movie { folder: tempfile::tempdir().expect("a folder"), width, height, frames };
        let text = format!(
            "format = 1\ngrid = \"{columns}x{rows}\"\ntile = \"{width}x{height}\"\npixels = \"rgb8\"\nframes_per_second = \"{fps}\"\nframes = {frames}\n"
        );
        std::fs::write(movie.path().join("movie.toml"), text).expect("movie.toml");
        for row in 0..rows {
            for column in 0..columns {
                let bytes: Vec<u8> = (0..frames).flat_map(|frame| movie.frame(row, column, frame)).collect();
                std::fs::write(movie.tile(row, column), bytes).expect("a tile");
            }
        }
        movie
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn tile(&self, row: usize, column: usize) -> PathBuf {
        self.path().join(format!("r{row}c{column}.rgb"))
    }

    fn pixels(&self, row: usize, column: usize, frame: usize) -> impl Iterator<Item = u8> {
        let mut state = (row * 131 + column * 17 + frame * 7919 + 1) as u32;
        (0..self.width * self.height * 3).map(move |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
    }

    fn frame(&self, row: usize, column: usize, frame: usize) -> Vec<u8> {
        self.pixels(row, column, frame).collect()
    }

    /// Which frame this is.
    fn which(&self, row: usize, column: usize, pixels: &[u8]) -> Option<usize> {
        (0..self.frames).find(|frame| self.pixels(row, column, *frame).eq(pixels.iter().copied()))
    }

    /// What the screen of r0c0 shows of a frame of 2 × 2 tiles.
    fn seen(&self, view: View, frame: usize) -> Vec<u8> {
        let tiles: Vec<Vec<u8>> = (0..4).map(|tile| self.frame(tile / 2, tile % 2, frame)).collect();
        let place = |start: f64, pixel: usize| (start + pixel as f64 / view.zoom + 1e-9).floor() as usize;
        let pixel = |x: usize, y: usize| {
            let (x, y) = (place(view.left, x), place(view.top, y));
            let at = (y % self.height * self.width + x % self.width) * 3;
            tiles[y / self.height * 2 + x / self.width][at..at + 3].to_vec()
        };
        (0..self.height)
            .flat_map(|y| (0..self.width).flat_map(move |x| pixel(x, y)).collect::<Vec<_>>())
            .collect()
    }

    fn serve(&self) -> Command {
        let mut command = program();
        command.args(["wall", "serve"]).arg(self.path()).args(["--json"]).stdin(Stdio::null());
        command.env_remove("LINERATE_KEY");
        command
    }
}

/// What a screen got.
#[derive(Default)]
struct Got {
    /// In the order in which they began: timestamp, pixels, when the first datagram came.
    frames: Vec<(u32, Vec<u8>, SystemTime)>,
    sequences: Vec<u32>,
}

/// A screen that keeps everything until it is asked.
struct TestScreen {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Got>,
}

impl TestScreen {
    fn new() -> TestScreen {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        linerate_system::socket::set_receive_buffer(&socket, 16 << 20).expect("a buffer");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let port = socket.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut got, mut datagram) = (Got::default(), vec![0; 65_536]);
            loop {
                let Ok(length) = socket.recv(&mut datagram) else {
                    if theirs.load(Ordering::Relaxed) {
                        return got;
                    }
                    continue;
                };
                let packet = parse(&datagram[..length]).expect("RTP video");
                got.sequences.push(packet.sequence);
                if got.frames.last().is_none_or(|(timestamp, ..)| *timestamp != packet.timestamp) {
                    got.frames.push((packet.timestamp, Vec::new(), SystemTime::now()));
                }
                if let Some((_, pixels, _)) = got.frames.last_mut() {
                    packet.lines().for_each(|line| pixels.extend_from_slice(line.bytes));
                }
            }
        });
        TestScreen { port, stop, thread }
    }

    fn got(self) -> Got {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the screen")
    }
}

impl Got {
    /// Nothing is missing between the first and the last datagram.
    fn is_without_gap(&self) -> bool {
        self.sequences.windows(2).all(|pair| pair[0].wrapping_add(1) == pair[1])
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&output.stderr)))
}

fn number(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or_else(|| panic!("{name}: {status:#}"))
}

#[test]
fn once_through_every_frame_is_sent_once_and_is_exact() {
    // 173 × 31 × 3 bytes are no whole number of blocks.
    let movie = Movie::new(2, 1, (173, 31), 50, 20);
    for extra in [&[][..], &["--no-io-uring"], &["--burst", "8", "--mtu", "1500"]] {
        let screens = [TestScreen::new(), TestScreen::new()];
        let mut serve = movie.serve();
        for (column, screen) in screens.iter().enumerate() {
            serve.args(["--screen", &format!("r0c{column}=127.0.0.1:{}", screen.port)]);
        }
        let output = serve.arg("--once").args(extra).output().expect("linerate");
        let status = json(&output);
        assert_eq!(number(&status, "frames_sent") + number(&status, "frames_dropped"), 40, "{status:#}");
        assert_eq!(status["schema"], 1);
        let mut timestamps = Vec::new();
        for (column, screen) in screens.into_iter().enumerate() {
            let got = screen.got();
            assert!(got.is_without_gap());
            assert_eq!(got.frames.len() as u64, number(&status["tiles"][column], "frames_sent"));
            let frames: Vec<Option<usize>> =
                got.frames.iter().map(|(_, pixels, _)| movie.which(0, column, pixels)).collect();
            assert!(frames.iter().all(Option::is_some), "a frame is wrong: {frames:?}");
            assert!(frames.is_sorted(), "{frames:?}");
            timestamps.push(got.frames.iter().map(|(timestamp, ..)| *timestamp).collect::<Vec<_>>());
        }
        if number(&status, "frames_dropped") == 0 {
            assert_eq!(timestamps[0], timestamps[1], "one timestamp for a frame on all tiles");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn a_port_nobody_listens_on_and_a_file_that_is_short_do_not_hold_the_others() {
    let movie = Movie::new(4, 1, (64, 16), 40, 12);
    let nobody =
        UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    std::fs::remove_file(movie.tile(0, 2)).expect("removed");
    let whole = std::fs::read(movie.tile(0, 3)).expect("a tile");
    std::fs::write(movie.tile(0, 3), &whole[..whole.len() / 2]).expect("cut short");
    let screen = TestScreen::new();
    let mut serve = movie.serve();
    serve.args(["--once", "--screen", &format!("r0c0=127.0.0.1:{}", screen.port)]);
    for column in 1..4 {
        serve.args(["--screen", &format!("r0c{column}=127.0.0.1:{nobody}")]);
    }
    let output = serve.output().expect("linerate");
    assert_eq!(output.status.code(), Some(1));
    let status = json(&output);
    let problem = |tile: usize| status["tiles"][tile]["problem"].as_str().unwrap_or_default().to_string();
    assert_eq!(problem(0), "");
    assert!(problem(1).contains("does not listen"), "{}", problem(1));
    assert!(
        problem(2).contains("r0c2.rgb: cannot be read") && problem(2).contains("[files]"),
        "{}",
        problem(2)
    );
    assert!(problem(3).contains("only 6 of 12 frames"), "{}", problem(3));
    let got = screen.got();
    assert!(got.is_without_gap() && !got.frames.is_empty());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("r0c2.rgb") && stderr.contains("without --key-file"), "{stderr}");
}

#[test]
fn words_that_are_wrong_are_refused() {
    let movie = Movie::new(2, 1, (16, 16), 24, 2);
    let fails = |words: &[&str], status: i32, says: &str| {
        let output = movie.serve().args(words).output().expect("linerate");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    };
    fails(&[], 2, "no screen was named");
    fails(&["--screen", "r0c5=127.0.0.1:5004"], 2, "the movie has 2x1 tiles");
    fails(&["--screen", "r0c0=127.0.0.1:5004", "--screen", "r0c0=127.0.0.1:5005"], 2, "two screens");
    fails(&["--screen", "r0c0=no-such-host.invalid:5004"], 2, "no-such-host.invalid");
    fails(&["--screen", "r0c0"], 2, "write TILE=HOST:PORT");
    fails(&["--screen", "r0c0=127.0.0.1:5004", "--nic", "no-such-nic"], 2, "there is no such NIC");
    fails(&["--screen", "r0c0=127.0.0.1:5004", "--listen", "127.0.0.1:0"], 2, "need a key");
    let layout = movie.path().join("wall.toml");
    let one = "grid = \"2x1\"\n[[screen]]\ntile = \"r0c0\"\nto = [\"127.0.0.1:5004\"]\n";
    std::fs::write(&layout, one).expect("a layout");
    fails(&["--layout", layout.to_str().expect("a path")], 2, "without a [[screen]]: r0c1");
}

/// A server with a control channel.
struct Played {
    child: Child,
    client: Client,
    _key: tempfile::TempDir,
}

impl Played {
    fn start(mut serve: Command) -> Played {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        serve.args(["--listen", &port.to_string(), "--no-page", "--key-file"]).arg(&path);
        let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("linerate");
        let since = Instant::now();
        let client = loop {
            let key = path.exists().then(|| Key::find(Some(&path)));
            if let Some(Ok(key)) = key
                && let Ok(client) = Client::connect(&port.to_string(), &key, Duration::from_secs(2))
            {
                break Some(client);
            }
            if since.elapsed() > PATIENCE {
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let Some(client) = client else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the server does not listen");
        };
        Played { child, client, _key: folder }
    }

    fn ask(&mut self, request: &Request) -> Message {
        self.client.ask(request, PATIENCE).expect("an answer")
    }

    fn status(&mut self) -> linerate::wall::status::WallStatus {
        match self.ask(&Request::Status) {
            Message::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn until(&mut self, what: &str, so: impl Fn(&linerate::wall::status::WallStatus) -> bool) {
        let since = Instant::now();
        loop {
            let status = self.status();
            if so(&status) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ctrl-C: it ends within a second (here: on a busy machine, too).
    fn end(mut self) -> Value {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let began = Instant::now();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().expect("its output"), &mut text)
            .expect("text");
        self.child.wait().expect("its end");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pause_silences_the_wire_and_a_seek_shows_its_frame_at_once() {
    const FPS: u32 = 30;
    let movie = Movie::new(1, 1, (96, 40), FPS, 60);
    let screen = TestScreen::new();
    let mut serve = movie.serve();
    serve.args(["--screen", &format!("r0c0=127.0.0.1:{}", screen.port)]);
    let mut played = Played::start(serve);
    played.until("it plays", |status| status.frames_sent > 70);
    assert!(matches!(played.ask(&Request::Pause), Message::Done));
    std::thread::sleep(Duration::from_millis(300));
    let (silent_from, sent) = (SystemTime::now(), played.status().frames_sent);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(played.status().frames_sent, sent, "the wire is silent");
    let resumed = SystemTime::now();
    played.ask(&Request::Play);
    played.until("it plays again", |status| status.frames_sent > sent + 3);
    let asked = SystemTime::now();
    played.ask(&Request::Seek { frame: 42 });
    let Message::Status(_) = played.ask(&Request::Status) else { panic!("a status") };
    let timeline = loop {
        played.ask(&Request::Watch { per_second: 1.0 });
        match played.client.next(PATIENCE).expect("a message") {
            Some(Message::Timeline(timeline)) => break timeline,
            Some(_) => {}
            None => panic!("no timeline came"),
        }
    };
    std::thread::sleep(Duration::from_millis(500));
    assert!(matches!(
        played.ask(&Request::Speed { speed: f64::NAN }),
        Message::Refused { .. } | Message::Done
    ));
    played.ask(&Request::Speed { speed: -2.0 });
    std::thread::sleep(Duration::from_millis(300));
    let status = played.end();
    assert_eq!(status["looping"], true);
    let got = screen.got();
    assert!(got.is_without_gap(), "speed, seek and loop leave no gap in the numbers");
    let rate = FrameRate { numerator: FPS, denominator: 1 };
    let quiet = got.frames.iter().filter(|(.., at)| *at > silent_from && *at < resumed).count();
    assert_eq!(quiet, 0);
    // The first frame of the sought place: by the timeline's own tick, and by the clock.
    let pixels = movie.frame(0, 0, 42);
    let (timestamp, _, at) =
        got.frames.iter().find(|(_, found, at)| *at > asked && *found == pixels).expect("the sought frame");
    let tick = rate.tick_of(*timestamp, *at);
    assert_eq!(timeline.frame_of(tick), Some(42));
    let took = at.duration_since(asked).expect("after it was asked");
    eprintln!("the sought frame came after {took:?}");
    assert!(took < Duration::from_millis(150) || busy(), "{took:?}");
    let wrong = got.frames.iter().filter(|(_, pixels, _)| movie.which(0, 0, pixels).is_none()).count();
    assert!(wrong <= 1, "{wrong} frames are wrong; only the one that was cut off by the end may be");
}

#[test]
fn a_view_that_is_moved_or_enlarged_is_put_together_of_all_tiles_it_shows() {
    let movie = Movie::new(2, 2, (64, 32), 30, 20);
    let screen = TestScreen::new();
    // A wall of one screen, which shows a quarter of the movie.
    let layout = movie.path().join("wall.toml");
    let text = format!("grid = \"1x1\"\n[[screen]]\ntile = \"r0c0\"\nto = [\"127.0.0.1:{}\"]\n", screen.port);
    std::fs::write(&layout, text).expect("the layout");
    let mut serve = movie.serve();
    serve.arg("--layout").arg(&layout);
    let mut played = Played::start(serve);
    let mut shown_after = |request: Request| {
        assert!(matches!(played.ask(&request), Message::Done), "{request:?}");
        let sent = played.status().frames_sent;
        played.until("it goes on", |status| status.frames_sent > sent + 8);
        played.status().view
    };
    // All four tiles at once; the same, twice as large; and as it was.
    let moved = shown_after(Request::View(View { left: 40.0, top: 20.0, zoom: 1.0 }));
    let enlarged = shown_after(Request::Pan { right: 0.0, down: 0.0, zoom: 2.0 });
    let whole = shown_after(Request::View(View::WHOLE));
    assert_eq!((moved.left, moved.top, moved.zoom, whole), (40.0, 20.0, 1.0, View::WHOLE));
    assert_eq!(enlarged.zoom, 2.0);
    drop(played);
    let got = screen.got();
    assert!(got.is_without_gap(), "another view leaves no gap in the numbers");
    for view in [moved, enlarged, whole] {
        let seen = (0..movie.frames).map(|frame| movie.seen(view, frame)).collect::<Vec<_>>();
        let shown = got.frames.iter().filter(|(_, pixels, _)| seen.contains(pixels)).count();
        assert!(shown >= 6, "{shown} frames of {view:?}");
    }
}

/// More runs than there are cores: times say little then.
fn busy() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    load > std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// A command that is there.
fn there(name: &str) -> bool {
    Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        || Command::new(name).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

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

/// Plays once to stock receivers. On a machine that is busy with other things their sockets overflow now and then: three attempts.
fn stock(
    movie: &Movie,
    columns: usize,
    tiles: usize,
    mtu: &str,
    receive: impl Fn(&Path, &[u16]) -> Vec<Child>,
) {
    let mut why = String::new();
    for _ in 0..3 {
        match attempt(movie, columns, tiles, mtu, &receive) {
            Ok(()) => return,
            Err(error) => why = error,
        }
    }
    panic!("{why}");
}

fn attempt(
    movie: &Movie,
    columns: usize,
    tiles: usize,
    mtu: &str,
    receive: &impl Fn(&Path, &[u16]) -> Vec<Child>,
) -> Result<(), String> {
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
    let output = movie.serve().args(&screens).args(["--mtu", mtu, "--once"]).output().expect("linerate");
    std::thread::sleep(Duration::from_millis(700));
    for receiver in &mut receivers {
        let _ = Command::new("kill").args(["-INT", &receiver.id().to_string()]).status();
    }
    for mut receiver in receivers {
        let _ = receiver.wait();
    }
    let status = json(&output);
    if number(&status, "frames_dropped") != 0 {
        return Err(format!("frames were left out: {status:#}"));
    }
    for tile in 0..tiles {
        let (row, column) = (tile / columns, tile % columns);
        let got = std::fs::read(out.join(format!("{tile}.rgb"))).unwrap_or_default();
        let sent = std::fs::read(movie.tile(row, column)).expect("the tile");
        let bytes = movie.width * movie.height * 3;
        let exact = got.chunks(bytes).zip(sent.chunks(bytes)).filter(|(got, sent)| got == sent).count();
        if exact != movie.frames {
            return Err(format!(
                "r{row}c{column}: {exact} of {} frames are exact, {} bytes came",
                movie.frames,
                got.len()
            ));
        }
    }
    Ok(())
}

fn gstreamer(width: usize, height: usize) -> impl Fn(&Path, &[u16]) -> Vec<Child> {
    move |out, ports| {
        let mut command = Command::new("gst-launch-1.0");
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

fn ffmpeg(columns: usize) -> impl Fn(&Path, &[u16]) -> Vec<Child> {
    move |out, ports| {
        let receive = |tile: usize| {
            let mut command = Command::new("ffmpeg");
            command.args([
                "-v",
                "error",
                "-nostdin",
                "-protocol_whitelist",
                "file,udp,rtp",
                "-analyzeduration",
                "0",
            ]);
            command.args(["-buffer_size", "4194304", "-i"]);
            command.arg(out.join(format!("r{}c{}.sdp", tile / columns, tile % columns)));
            command.args(["-f", "rawvideo", "-pix_fmt", "rgb24", "-y"]).arg(out.join(format!("{tile}.rgb")));
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
    let movie = Movie::new(5, 3, (320, 200), 24, 24);
    stock(&movie, 5, 15, "9000", gstreamer(320, 200));
}

#[test]
fn stock_ffmpeg_receives_fifteen_tiles() {
    if !there("ffmpeg") {
        eprintln!("skipped: ffmpeg is not installed");
        return;
    }
    let movie = Movie::new(5, 3, (320, 200), 24, 24);
    stock(&movie, 5, 15, "1500", ffmpeg(5));
}

#[test]
fn a_full_tile_over_jumbo_frames_is_exact_in_both() {
    let movie = Movie::new(1, 1, (2560, 1600), 24, 6);
    if there("gst-launch-1.0") {
        stock(&movie, 1, 1, "9000", gstreamer(2560, 1600));
    } else {
        eprintln!("skipped: gst-launch-1.0 is not installed");
    }
    if there("ffmpeg") {
        stock(&movie, 1, 1, "9000", ffmpeg(1));
    } else {
        eprintln!("skipped: ffmpeg is not installed");
    }
}
