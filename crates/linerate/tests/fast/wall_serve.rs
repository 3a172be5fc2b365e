//! `linerate wall serve` as a user runs it: movies made by hand, screens that prove every byte.

use crate::support::process::Ends;
use crate::support::served::free_port;
use crate::support::wall_served::{PATIENCE, Played, TestScreen, busy};
use linerate::agent::Key;
use linerate::wall::control::{Client, ControlMessage, ControlRequest, ScreenReport, View};
use linerate::wall::geometry::TileId;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::support::wall_movie::{TestMovie, json, number};

#[test]
fn once_through_every_frame_is_sent_once_and_is_exact() {
    // 173 × 31 × 3 bytes are not a whole number of blocks.
    let movie = TestMovie::new(2, 1, (173, 31), 50, 20);
    for (extra, io_uring) in [(&[][..], "1"), (&[], "0"), (&["--burst", "8", "--mtu", "1500"], "1")] {
        let screens = [TestScreen::new(), TestScreen::new()];
        let mut serve = movie.serve();
        for (column, screen) in screens.iter().enumerate() {
            serve.args(["--screen", &format!("r0c{column}=127.0.0.1:{}", screen.port)]);
        }
        let output = serve.arg("--once").args(extra).env("LINERATE_IO_URING", io_uring).ended();
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
            output.gives(0);
        }
    }
}

#[test]
fn a_port_nobody_listens_on_and_a_file_that_is_short_do_not_hold_the_others() {
    let movie = TestMovie::new(4, 1, (64, 16), 40, 12);
    std::fs::remove_file(movie.tile(0, 2)).expect("removed");
    let whole = std::fs::read(movie.tile(0, 3)).expect("a tile");
    std::fs::write(movie.tile(0, 3), &whole[..whole.len() / 2]).expect("cut short");
    let screen = TestScreen::new();
    let mut serve = movie.serve();
    serve.args(["--once", "--screen", &format!("r0c0=127.0.0.1:{}", screen.port)]);
    for column in 1..4 {
        serve.args(["--screen", &format!("r0c{column}=127.0.0.1:{}", free_port())]);
    }
    let output = serve.ended();
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
    let stderr = &output.stderr;
    assert!(stderr.contains("r0c2.rgb") && stderr.contains("without --key-file"), "{stderr}");
}

#[test]
fn words_that_are_wrong_are_refused() {
    let movie = TestMovie::new(2, 1, (16, 16), 24, 2);
    let fails = |words: &[&str], status: i32, says: &str| {
        movie.serve().args(words).ended().gives(status).mentions(&[says]);
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

/// A server of one screen, and the port where nobody listens yet.
fn without_screen() -> (TestMovie, u16, Played) {
    let movie = TestMovie::new(1, 1, (64, 16), 40, 12);
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let mut serve = movie.serve();
    serve.args(["--screen", &format!("r0c0=127.0.0.1:{port}")]);
    (movie, port, Played::start(serve))
}

#[test]
fn a_screen_that_comes_after_its_server_is_not_called_absent_for_ever() {
    let (_movie, port, mut played) = without_screen();
    let absent = |problem: &Option<String>| {
        problem.as_deref().is_some_and(|problem| problem.contains("does not listen"))
    };
    played.until("nobody listens", |status| absent(&status.tiles[0].problem));
    assert!(played.status().problems.iter().any(|problem| problem.contains("does not listen")));
    let screen = UdpSocket::bind(("127.0.0.1", port)).expect("the port is still free");
    let began = Instant::now();
    played.until("it listens now", |status| status.problems.is_empty());
    assert!(began.elapsed() < Duration::from_secs(4) || busy(), "{:?}", began.elapsed());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(played.status().tiles[0].problem, None);
    // At the end all of the time is told, not as if nobody had ever come.
    let status = played.end();
    let problem = status["tiles"][0]["problem"].as_str().unwrap_or_default().to_string();
    assert!(problem.contains("did not listen all the time"), "{problem}");
    drop(screen);
}

#[test]
fn a_screen_that_is_started_with_its_server_is_never_called_absent() {
    let (_movie, port, mut played) = without_screen();
    played.until("it plays", |status| status.frames_sent > 8);
    assert_eq!(played.status().problems, Vec::<String>::new(), "it may be starting");
    let screen = UdpSocket::bind(("127.0.0.1", port)).expect("the port is still free");
    // Until its host's refusals are no news any more.
    std::thread::sleep(Duration::from_millis(2500));
    let status = played.end();
    assert!(status["tiles"][0]["problem"].is_null() || busy(), "{status:#}");
    drop(screen);
}

#[test]
fn a_view_that_is_moved_or_enlarged_is_put_together_of_all_tiles_it_shows() {
    let movie = TestMovie::new(2, 2, (64, 32), 30, 20);
    let screen = TestScreen::new();
    // A wall of one screen, which shows a quarter of the movie.
    let layout = movie.path().join("wall.toml");
    let text = format!("grid = \"1x1\"\n[[screen]]\ntile = \"r0c0\"\nto = [\"127.0.0.1:{}\"]\n", screen.port);
    std::fs::write(&layout, text).expect("the layout");
    let mut serve = movie.serve();
    serve.arg("--layout").arg(&layout);
    let mut played = Played::start(serve);
    let mut shown_after = |request: ControlRequest| {
        assert!(matches!(played.ask(&request), ControlMessage::Done), "{request:?}");
        let sent = played.status().frames_sent;
        played.until("it goes on", |status| status.frames_sent > sent + 8);
        played.status().view
    };
    // All four tiles at once; the same, twice as large; and as it was.
    let moved = shown_after(ControlRequest::View(View { left: 40.0, top: 20.0, zoom: 1.0 }));
    let enlarged = shown_after(ControlRequest::Pan { right: 0.0, down: 0.0, zoom: 2.0 });
    let whole = shown_after(ControlRequest::View(View::WHOLE));
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

/// Numbers of a screen are from outside: sums of them end at the largest.
#[test]
fn screens_that_report_more_than_can_be_counted_do_not_end_the_status_of_the_others() {
    let movie = TestMovie::new(2, 1, (16, 16), 24, 4);
    let mut serve = movie.serve();
    for column in 0..2 {
        serve.args(["--screen", &format!("r0c{column}=127.0.0.1:{}", 5004 + column)]);
    }
    let mut played = Played::start(serve);
    let key = Key::find(Some(&played._key.path().join("key"))).expect("its key");
    let server = played.client.server().to_string();
    let mut screens: Vec<Client> =
        (0..2).map(|_| Client::connect(&server, &key, PATIENCE).expect("connected")).collect();
    for datagrams_lost in [0, u64::MAX] {
        for (column, screen) in screens.iter_mut().enumerate() {
            let tile = TileId { row: 0, column: column as u16 };
            screen.ask(&ControlRequest::Join { tile }, PATIENCE).expect("joined");
            let report = ScreenReport { datagrams: 1, datagrams_lost, ..ScreenReport::default() };
            screen.send(&ControlRequest::Report(report)).expect("sent");
            // Answered after it.
            screen.ask(&ControlRequest::Movies, PATIENCE).expect("an answer");
        }
    }
    let status = played.status();
    let lost: Vec<u64> =
        status.tiles.iter().filter_map(|tile| Some(tile.report.as_ref()?.datagrams_lost)).collect();
    assert_eq!(lost, [u64::MAX; 2]);
    assert!(matches!(played.ask(&ControlRequest::Open { movie: "x".repeat(9000) }),
        ControlMessage::Refused { why } if why.len() < 300));
}
