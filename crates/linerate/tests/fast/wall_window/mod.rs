//! `linerate wall show` in windows of an X server without a screen: what another client reads from them is,
//! pixel by pixel, what was sent.

pub mod display;

use crate::support::process::Ends;
use crate::support::sender::Sender;
use crate::support::wall_players::{ScreenProcess, listening};
use display::{Viewer, Xvfb};
use linerate::wall::geometry::{FrameRate, Size, TileId, WallGrid};
use linerate::wall::picture::{TestPicture, prove};
use linerate::wall::show::ScreenSummary;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TILE: Size = Size { width: 160, height: 96 };
const RATE: FrameRate = FrameRate { numerator: 24, denominator: 1 };
const ESCAPE: u32 = 0xff1b;

/// Screens at work.
fn screens(display: &Xvfb, count: usize, words: &[&str]) -> ScreenProcess {
    let mut command = crate::support::linerate();
    command.args(["wall", "show", "--json", "--seconds", "30"]).args(words);
    command.args(["--listen", "127.0.0.1:0"].repeat(count)).env("DISPLAY", &display.name);
    listening(command, count)
}

/// Frames of the scene that `linerate wall generate` makes.
fn scene(frames: u32) -> Vec<Vec<u8>> {
    let scene = TestPicture::new(WallGrid { columns: 1, rows: 1 }, TILE, RATE, frames).expect("large enough");
    (0..frames)
        .map(|frame| {
            let mut bytes = vec![0; TILE.frame_bytes()];
            scene.paint(TileId { row: 0, column: 0 }, frame, &mut bytes);
            bytes
        })
        .collect()
}

/// Sends frames again and again until it is dropped.
struct Playing {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Playing {
    fn start(to: SocketAddr, frames: &[Vec<u8>]) -> Playing {
        let stop = Arc::new(AtomicBool::new(false));
        let (frames, stopped) = (frames.to_vec(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            // Nobody listens any more: a screen has ended, as it was told.
            let mut sender = Sender::new(to, TILE, 1400).patiently();
            for frame in frames.iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                sender.frame(frame, |_| true);
            }
        });
        Playing { stop, thread: Some(thread) }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(matches!(done, Some(Ok(()))) || std::thread::panicking());
    }
}

/// Every frame that the screen presented is told as shown or as dropped.
fn closes(screen: &ScreenSummary) {
    let (report, window) = (&screen.report, screen.window.as_ref().expect("a window"));
    let presented = report.frames_shown + report.frames_late + report.frames_torn;
    assert_eq!(window.frames_shown + window.frames_dropped, presented, "{screen:?}");
    assert_eq!(report.frames_window_dropped, Some(window.frames_dropped), "{screen:?}");
    assert!(window.frames_shown > 0 && window.taken_p50_ms.is_some(), "{screen:?}");
}

#[test]
fn a_window_shows_whole_frames_pixel_by_pixel_and_all_are_proven() {
    let Some(display) = Xvfb::start("640x480x24", &[]) else { return };
    let frames = scene(24);
    // A sender that gets no CPU for a tenth of a second within a frame tears it: not what is tested here.
    let words = ["--window", "--verify", "--until-silent", "1", "--latency", "500ms"];
    let at_work = screens(&display, 1, &words);
    let viewer = Viewer::new(&display);
    viewer.await_windows(1, |seen| !seen.covers);
    viewer.set_screen_saver(1);
    let playing = Playing::start(at_work.addresses[0], &frames);
    // It takes the size of the frames, which nobody told.
    let seen = viewer.await_windows(1, |seen| seen.size == TILE)[0];
    let (until, mut numbers, mut title) =
        (Instant::now() + Duration::from_secs(3), BTreeSet::new(), String::new());
    while Instant::now() < until {
        let picture = viewer.picture(&seen).expect("its pixels");
        if picture.iter().any(|byte| *byte != 0) {
            let proof = prove(&picture, TILE).expect("whole and exact");
            assert!(picture == frames[proof.frame as usize], "frame {}", proof.frame);
            numbers.insert(proof.frame);
        }
        title = viewer.title(seen.window);
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(numbers.len() >= 8, "it moves: {numbers:?}");
    assert!(title.contains("of 24 frames/s, "), "{title}");
    assert!(!viewer.screen_saver_is_on(), "it waits while frames are shown");
    drop(playing);
    let (ended, screens) = at_work.finish();
    let (status, said) = (ended.code(), &ended.stderr);
    assert_eq!(status, Some(0), "{screens:?} {said}");
    let until = Instant::now() + Duration::from_secs(10);
    while !viewer.screen_saver_is_on() {
        assert!(Instant::now() < until, "it comes again afterwards");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (report, window) = (&screens[0].report, screens[0].window.as_ref().expect("a window"));
    // Also what the window could not show was proven.
    assert_eq!((report.frames_wrong, report.frames_torn), (0, 0));
    assert_eq!(report.frames_proven, report.frames_shown + report.frames_late);
    assert_eq!((window.size, window.pixels_by.as_str()), (Some(TILE), "shared-memory"));
    closes(&screens[0]);
}

#[test]
fn without_shared_memory_a_larger_window_repeats_pixels_between_bars() {
    let Some(display) = Xvfb::start("640x480x24", &["-extension", "MIT-SHM"]) else { return };
    let frames = scene(1);
    let at_work = screens(&display, 1, &["--window", "320x212", "--until-silent", "1"]);
    let viewer = Viewer::new(&display);
    let _playing = Playing::start(at_work.addresses[0], &frames);
    let seen = viewer.await_windows(1, |seen| seen.size == Size { width: 320, height: 212 })[0];
    // 320x192 in the middle, 10 black lines above and below.
    let black = [0; 320 * 3 * 10];
    let line =
        |line: &[u8]| -> Vec<u8> { line.chunks(3).flat_map(|pixel| [pixel, pixel].concat()).collect() };
    let lines = frames[0].chunks(TILE.line_bytes()).flat_map(|pixels| line(pixels).repeat(2));
    let expected = [&black[..], &lines.collect::<Vec<u8>>(), &black[..]].concat();
    let until = Instant::now() + Duration::from_secs(10);
    while viewer.picture(&seen).expect("its pixels") != expected {
        assert!(Instant::now() < until, "it never showed the frame, twice as large");
        std::thread::sleep(Duration::from_millis(20));
    }
    viewer.press(seen.window, b'q'.into());
    let (ended, screens) = at_work.finish();
    let (status, said) = (ended.code(), &ended.stderr);
    assert_eq!(status, Some(0), "{screens:?} {said}");
    assert_eq!(screens[0].window.as_ref().map(|window| window.pixels_by.as_str()), Some("requests"));
    closes(&screens[0]);
}

#[test]
fn full_screen_covers_the_output_that_was_named() {
    let Some(display) = Xvfb::start("640x480x24", &[]) else { return };
    let viewer = Viewer::new(&display);
    let half = Size { width: 320, height: 480 };
    viewer.declare_output("left", 0, half);
    viewer.declare_output("right", 320, half);
    let (status, _, said) = linerate(&display.name, &["--listen", "127.0.0.1:0", "--full-screen", "beside"]);
    assert!(
        status == Some(3) && said.contains("beside: there is no such output") && said.contains("left, "),
        "{said}"
    );
    let at_work = screens(&display, 1, &["--full-screen", "right"]);
    let frames = scene(1);
    let _playing = Playing::start(at_work.addresses[0], &frames);
    let seen = viewer.await_windows(1, |seen| seen.covers)[0];
    assert_eq!((seen.left, seen.top, seen.size), (320, 0, half));
    // f: as large as the frames; and over the output that it lies on then.
    await_picture(&viewer, &seen);
    viewer.press(seen.window, b'f'.into());
    let small = viewer.await_windows(1, |seen| seen.size == TILE && !seen.covers)[0];
    assert_eq!((small.left, small.top), (0, 0));
    viewer.press(small.window, b'f'.into());
    let large = viewer.await_windows(1, |seen| seen.covers)[0];
    assert_eq!((large.left, large.size), (0, half));
    viewer.press(large.window, ESCAPE);
    let (ended, screens) = at_work.finish();
    let (status, said) = (ended.code(), &ended.stderr);
    assert_eq!(status, Some(0), "{screens:?} {said}");
    assert!(screens[0].window.as_ref().is_some_and(|window| window.full_screen && window.size == Some(half)));
}

fn await_picture(viewer: &Viewer, seen: &display::DisplayedWindow) {
    let until = Instant::now() + Duration::from_secs(10);
    while viewer.picture(seen).is_none_or(|picture| picture.iter().all(|byte| *byte == 0)) {
        assert!(Instant::now() < until, "it stays black");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn closing_one_of_two_windows_ends_its_screen_and_the_end_of_the_display_the_other() {
    let Some(mut display) = Xvfb::start("640x480x24", &[]) else { return };
    let at_work = screens(&display, 2, &["--window"]);
    let viewer = Viewer::new(&display);
    let frames = scene(4);
    let playing: Vec<Playing> = at_work.addresses.iter().map(|to| Playing::start(*to, &frames)).collect();
    let both = viewer.await_windows(2, |seen| seen.size == TILE);
    assert_eq!((both[0].left, both[1].left), (0, 160), "side by side");
    both.iter().for_each(|seen| await_picture(&viewer, seen));
    viewer.close(both[0].window);
    let rest = viewer.await_windows(1, |seen| seen.size == TILE)[0];
    assert_eq!(rest.window, both[1].window);
    std::thread::sleep(Duration::from_millis(300));
    display.end();
    let (ended, screens) = at_work.finish();
    let (status, said) = (ended.code(), &ended.stderr);
    drop(playing);
    assert_eq!(status, Some(3), "{screens:?} {said}");
    assert!(said.contains("has gone while it showed frames"), "{said}");
    let problems: Vec<usize> = screens.iter().map(|screen| screen.problems.len()).collect();
    assert_eq!(problems, [0, 1], "{screens:?}");
    screens.iter().for_each(closes);
    assert!(screens[1].report.frames_shown > screens[0].report.frames_shown, "it went on: {screens:?}");
}

/// `linerate wall show` on a display, from its start to its end: status, what it printed, what it said.
fn linerate(display: &str, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = crate::support::linerate();
    command
        .args(["wall", "show", "--seconds", "10"])
        .args(words)
        .env("DISPLAY", display)
        .env_remove("WAYLAND_DISPLAY");
    command.env("XAUTHORITY", "/nonexistent").ended().parts()
}

#[test]
fn a_display_that_cannot_be_had_is_reported_with_its_remedy() {
    let listen = ["--listen", "127.0.0.1:0", "--window"];
    for (display, why) in
        [("", "DISPLAY is not set"), (":4711", "nothing answers"), ("nonsense", "is not a display")]
    {
        let (status, _, said) = linerate(display, &listen);
        assert!(
            status == Some(3) && said.contains(why) && said.contains("--window none"),
            "{display}: {said}"
        );
    }
    // A server that wants a cookie.
    let folder = tempfile::tempdir().expect("a folder");
    let cookie = folder.path().join("cookie");
    let name = b"MIT-MAGIC-COOKIE-1";
    let entry = [&[0xff, 0xff, 0, 0, 0, 0, 0, name.len() as u8][..], name, &[0, 16], &[7; 16]].concat();
    std::fs::write(&cookie, entry).expect("written");
    let Some(guarded) = Xvfb::start("640x480x24", &["-auth", cookie.to_str().expect("a name")]) else {
        return;
    };
    let (status, _, said) = linerate(&guarded.name, &listen);
    assert!(status == Some(3) && said.contains("refuses this user") && said.contains("XAUTHORITY"), "{said}");
}
