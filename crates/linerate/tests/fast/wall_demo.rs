//! `linerate wall demo`: windows in the wall's own grid on an X server without a screen, whole frames in each,
//! and nothing left behind.

use crate::support::process::{Ends, PATIENCE, Started, until};
use crate::support::wall_served::busy;
use crate::wall_window::display::{DisplayedWindow, Viewer, Xvfb};
use linerate::wall::geometry::{Size, TileId};
use linerate::wall::picture::prove;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const TILE: Size = Size { width: 160, height: 96 };

/// A demo with a folder of its own for what is temporary, and with no display unless a test gives one.
fn demo(temporary: &Path, words: &[&str]) -> Command {
    let mut command = crate::support::linerate();
    command.args(["wall", "demo"]).args(words).env("TMPDIR", temporary);
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env("XAUTHORITY", "/nonexistent");
    command
}

fn done(command: &mut Command) -> (Option<i32>, String, String) {
    command.ended().parts()
}

/// A demo that plays; killed where a test fails.
struct Demo(Started);

impl Demo {
    /// Waits until it plays.
    fn start(command: &mut Command) -> Demo {
        let (demo, _) = Started::once_said(command, "linerate: it plays", 1);
        Demo(demo)
    }

    fn interrupt(&self) {
        self.0.signal("INT");
    }

    /// What it printed. All is well exactly where it says that nothing was lost.
    fn finish(self) -> String {
        let ended = self.0.end_within(PATIENCE);
        let well = !ended.stdout.contains("problem");
        ended.gives(i32::from(!well)).shows(&[", 0 wrong", " 0 torn"]);
        ended.mentions(&["control page: http://127.0.0.1:"]);
        assert!(well || busy(), "{ended}");
        ended.stdout
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("a folder").next().is_none()
}

/// Which tile a window shows, when it shows a whole frame.
fn tile_in(viewer: &Viewer, seen: &DisplayedWindow) -> TileId {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let picture = viewer.picture(seen).unwrap_or_default();
        match prove(&picture, seen.size) {
            Ok(proof) => return proof.tile,
            Err(why) => assert!(Instant::now() < until, "{seen:?}: {why}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn windows_lie_in_the_walls_grid_and_closing_one_ends_the_demo_without_a_trace() {
    let Some(display) = Xvfb::start("640x480x24", &[]) else { return };
    let temporary = tempfile::tempdir().expect("a folder");
    let mut command = demo(temporary.path(), &["--tiles", "2x2", "--tile", "160x96"]);
    let playing = Demo::start(command.env("DISPLAY", &display.name));
    let viewer = Viewer::new(&display);
    let windows = viewer.await_windows(4, |seen| seen.size == TILE && !seen.covers);
    let (left, top) = (windows[0].left, windows[0].top);
    assert_eq!((left, top), (157, 141), "in the middle");
    for (window, (row, column)) in windows.iter().zip([(0, 0), (0, 1), (1, 0), (1, 1)]) {
        let at = (left + i32::from(column) * 166, top + i32::from(row) * 102);
        assert_eq!((window.left, window.top), at, "{windows:?}");
        assert_eq!(tile_in(&viewer, window), TileId { row, column }, "its own tile");
    }
    let made = std::fs::read_dir(temporary.path()).expect("a folder").next().expect("its folder");
    let mode = made.expect("an entry").metadata().expect("its mode").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else reads the key");
    viewer.press(windows[3].window, b'q'.into());
    let printed = playing.finish();
    assert!(printed.contains("to 4 screens, 2x2 tiles of 160x96 pixels at 24 frames/s"), "{printed}");
    assert!(is_empty(temporary.path()), "its folder is removed");
    assert!(viewer.windows().is_empty());
}

#[test]
fn without_windows_every_frame_is_proven_until_the_time_is_over() {
    let temporary = tempfile::tempdir().expect("a folder");
    let words = ["--no-windows", "--tiles", "3x1", "--tile", "160x96", "--fps", "30", "--seconds", "2"];
    let printed = Demo::start(&mut demo(temporary.path(), &words)).finish();
    assert!(printed.contains("3 screens, 3x1 tiles of 160x96 pixels at 30 frames/s"), "{printed}");
    let number = |before: &str| -> u64 {
        let text = printed.split(before).next().and_then(|text| text.split_whitespace().next_back());
        text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{before}: {printed}"))
    };
    let (shown, proven) = (number(" shown,"), number(" proven,"));
    assert!(proven > 60 && proven.abs_diff(shown) <= 3, "{printed}");
    assert!(is_empty(temporary.path()));
}

#[test]
fn ctrl_c_removes_the_movie_while_it_plays_and_while_it_is_painted() {
    let temporary = tempfile::tempdir().expect("a folder");
    let small = demo(temporary.path(), &["--no-windows", "--tiles", "2x1", "--tile", "160x96"]);
    let playing = Demo::start(&mut { small });
    std::thread::sleep(Duration::from_millis(600));
    playing.interrupt();
    playing.finish();
    assert!(is_empty(temporary.path()));
    let mut large = demo(temporary.path(), &["--no-windows", "--tiles", "4x4", "--tile", "640x400"]);
    let painting = Started::of(&mut large);
    until("it makes a folder", || !is_empty(temporary.path()));
    painting.interrupted(PATIENCE).gives(1).mentions(&["interrupted"]);
    assert!(is_empty(temporary.path()));
}

#[test]
fn a_film_is_cut_and_proven_by_the_servers_checksums() {
    let temporary = tempfile::tempdir().expect("a folder");
    let films = tempfile::tempdir().expect("a folder");
    let film = films.path().join("film.mp4");
    let source = "testsrc=size=320x192:rate=24:duration=1";
    let made = Command::new("ffmpeg").args(["-v", "error", "-f", "lavfi", "-i", source]).arg(&film).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a film in the demo: ffmpeg is not installed (apt install ffmpeg)");
        return;
    }
    let film = film.to_str().expect("a name");
    let words = [film, "--no-windows", "--tile", "160x96", "--seconds", "2"];
    let printed = Demo::start(&mut demo(temporary.path(), &words)).finish();
    assert!(printed.contains("4 screens, 2x2 tiles of 160x96 pixels at 24 frames/s"), "{printed}");
    assert!(!printed.contains(" 0 proven"), "{printed}");
    assert!(is_empty(temporary.path()));
}

#[test]
fn what_cannot_be_played_is_refused_with_the_remedy_and_leaves_nothing() {
    let temporary = tempfile::tempdir().expect("a folder");
    let films = tempfile::tempdir().expect("a folder");
    let film = films.path().join("film.mp4");
    std::fs::write(&film, "no film").expect("written");
    let film = film.to_str().expect("a name");
    let fails = |words: &[&str], display: &str, status: i32, says: &[&str]| {
        let mut command = demo(temporary.path(), words);
        let (code, _, said) = done(command.env("DISPLAY", display));
        assert_eq!(code, Some(status), "{words:?}: {said}");
        assert!(says.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        assert!(is_empty(temporary.path()), "{words:?}");
    };
    fails(&[], "", 2, &["DISPLAY is not set", "--no-windows"]);
    fails(&[], ":4711", 2, &["nothing answers", "--no-windows"]);
    fails(&["--tiles", "0x0"], "", 2, &["0x0", "is not a grid"]);
    fails(&["--no-windows", "--tiles", "9x9"], "", 2, &["9x9", "64 screens at most"]);
    fails(&["--no-windows", "--tile", "8x8"], "", 2, &["8x8", "too small"]);
    fails(&["--no-windows", "/no/such.mp4"], "", 3, &["/no/such.mp4"]);
    // Without ffmpeg nobody can look into it, and that comes first.
    let has_ffmpeg = Command::new("ffprobe").arg("-version").output().is_ok();
    let why: &[&str] = if has_ffmpeg { &["film.mp4"] } else { &["ffprobe", "install ffmpeg"] };
    fails(&["--no-windows", film], "", 3, why);
    let mut command = demo(Path::new("/no/such/folder"), &["--no-windows"]);
    let (code, _, said) = done(&mut command);
    assert!(code == Some(3) && said.contains("TMPDIR"), "{said}");
    let Some(display) = Xvfb::start("640x480x24", &[]) else { return };
    fails(&["--tile", "400x250"], &display.name, 2, &["400x250", "640x480", "--tile"]);
}
