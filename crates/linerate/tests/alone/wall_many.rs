//! Walls of several servers, screens and hosts, as users run them: one clock, a barrier, servers that end and
//! come back.

use crate::support::neighbours::undisturbed;
use crate::support::wall_players::{self as players, Wall, WallServerProcess, screen, until};
use linerate::wall::control::ControlRequest;
use linerate::wall::geometry::{FrameRate, Size, TileId};
use linerate::wall::picture::prove;
use linerate::wall::rtp::parse;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

const SIZE: Size = Size { width: 160, height: 120 };

/// For a while: which frame came under which timestamp.
fn frames_of(socket: &UdpSocket, time: Duration) -> BTreeMap<u32, u32> {
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
    let (mut frames, mut pixels, mut datagram) =
        (BTreeMap::new(), vec![0; SIZE.frame_bytes()], vec![0; 65_536]);
    // Not what came while nobody listened.
    socket.set_nonblocking(true).expect("no waiting");
    while socket.recv(&mut datagram).is_ok() {}
    socket.set_nonblocking(false).expect("waiting");
    let until = Instant::now() + time;
    while Instant::now() < until {
        let Ok(length) = socket.recv(&mut datagram) else { continue };
        let packet = parse(&datagram[..length]).expect("RTP video");
        for line in packet.lines() {
            let at = (usize::from(line.number) * SIZE.width as usize + usize::from(line.offset)) * 3;
            pixels[at..at + line.bytes.len()].copy_from_slice(line.bytes);
        }
        if packet.marker
            && let Ok(proof) = prove(&pixels, SIZE)
        {
            frames.insert(packet.timestamp, proof.frame);
        }
    }
    frames
}

/// Tiles of two servers, heard at the same time: how many timestamps both have, each with the same frame.
fn in_step(sockets: &[UdpSocket; 2]) -> usize {
    let time = Duration::from_millis(800);
    let [left, right] = std::thread::scope(|scope| {
        sockets
            .each_ref()
            .map(|socket| scope.spawn(move || frames_of(socket, time)))
            .map(|heard| heard.join().expect("frames"))
    });
    let both: Vec<(u32, u32)> =
        left.iter().filter_map(|(timestamp, frame)| Some((*frame, *right.get(timestamp)?))).collect();
    assert!(both.iter().all(|(left, right)| left == right), "out of step: {both:?}");
    both.len()
}

#[test]
fn two_servers_of_one_wall_are_in_step_also_after_one_was_gone() {
    undisturbed("two servers in step", 2, || {
        let wall = Wall::new(["left", "right"]);
        let sockets = wall.sockets();
        let left = WallServerProcess::start(&wall, "left");
        let right = WallServerProcess::start(&wall, "right");
        until("both play", || {
            left.status().is_some_and(|left| left.frames_sent > 0)
                && right.status().is_some_and(|right| right.frames_sent > 0)
        });
        assert!(in_step(&sockets) > 8);
        let status = right.status().expect("a status");
        assert!(
            status.problems.is_empty() && status.servers.len() == 1 && status.servers[0].leads,
            "{status:#?}"
        );
        assert_eq!(status.frames_dropped, 0, "what it did not know of yet it did not leave out");
        // What is asked of the leader is done by both; the other sends there.
        left.control(&["seek", "30"]);
        left.control(&["view", "80,20,2"]);
        until("the view is the other's, too", || right.status().is_some_and(|right| right.view.zoom == 2.0));
        left.control(&["view", "0,0,1"]);
        assert!(right.refusal(&["pause"]).contains("ask that one"));
        assert!(in_step(&sockets) > 8);
        // One dies: the other goes on and names it.
        drop(right);
        let before = left.status().expect("a status").frames_sent;
        let says = |server: &WallServerProcess, what: &str| {
            server.status().is_some_and(|status| status.problems.iter().any(|problem| problem.contains(what)))
        };
        until("the dead server is named", || says(&left, "server right has not been heard"));
        assert!(left.status().expect("a status").frames_sent > before + 20);
        // It comes back into step; nothing is wrong any more.
        let right = WallServerProcess::start(&wall, "right");
        until("nothing is wrong", || left.status().is_some_and(|left| left.problems.is_empty()));
        assert!(in_step(&sockets) > 8);
        // The leader dies: its last word counts. It comes back: both begin again, together.
        drop(left);
        until("the leader is missed", || says(&right, "is not followed, so its last word counts"));
        let before = right.status().expect("a status").frames_sent;
        until("it goes on", || right.status().is_some_and(|right| right.frames_sent > before + 5));
        let _left = WallServerProcess::start(&wall, "left");
        until("it is followed again", || right.status().is_some_and(|right| right.problems.is_empty()));
        std::thread::sleep(Duration::from_millis(500));
        assert!(in_step(&sockets) > 8);
    });
}

#[test]
fn screens_prove_the_frames_of_two_servers_and_report_again_to_one_that_was_restarted() {
    undisturbed("frames of two servers", 2, || {
        let wall = Wall::new(["left", "right"]);
        let left = WallServerProcess::start(&wall, "left");
        let mut right = WallServerProcess::start(&wall, "right");
        let screens = [screen(&wall, &left, "r0c0", &[]), screen(&wall, &right, "r0c1", &[])];
        let shown = |server: &WallServerProcess| {
            server.status()?.tiles.first()?.report.as_ref().map(|report| report.frames_shown)
        };
        until("both report", || shown(&left) > Some(10) && shown(&right) > Some(10));
        drop(right);
        right = WallServerProcess::start(&wall, "right");
        until("it is reported to again", || shown(&right) > Some(10));
        let [left, right] = screens.map(players::ScreenProcess::end);
        for screen in [&left, &right] {
            assert!(screen.frames_proven > 20 && screen.frames_wrong == 0, "{screen:#?}");
        }
        assert_eq!(
            (left.frames_torn, left.datagrams_lost),
            (0, 0),
            "the other server's end is nothing to it"
        );
        let skew = left.presented_p50_ms.expect("a median") - right.presented_p50_ms.expect("a median");
        assert!(skew.abs() < 20.0, "tiles of two servers are {skew} ms apart");
    });
}

#[test]
fn screens_at_a_barrier_show_together_and_do_not_wait_for_the_dead() {
    undisturbed("screens at a barrier", 2, || {
        let wall = Wall::new(["left"]);
        let server = WallServerProcess::start(&wall, "left");
        let mut screens =
            [screen(&wall, &server, "r0c0", &["--barrier"]), screen(&wall, &server, "r0c1", &["--barrier"])];
        let reports = || -> Option<Vec<(u64, f64)>> {
            let status = server.status()?;
            let told = status.tiles.iter().map(|tile| {
                let report = tile.report.as_ref()?;
                Some((report.frames_shown, report.presented_ms?))
            });
            told.collect()
        };
        until("both show", || reports().is_some_and(|both| both.iter().all(|(shown, ..)| *shown > 20)));
        // The second tile is sent 21 ms after the first one; both are shown at one word, and not when the next
        // frame begins to come.
        until("they show together", || {
            reports()
                .is_some_and(|both| (both[0].1 - both[1].1).abs() < 8.0 && both[0].1.max(both[1].1) < 40.0)
        });
        screens[1].kill();
        let before = reports().expect("two reports")[0].0;
        until("the other goes on", || reports().is_some_and(|both| both[0].0 > before + 20));
        let [left, _] = screens;
        let left = left.end();
        assert!(left.frames_proven > 40 && left.frames_wrong == 0, "{left:#?}");
        assert_eq!((left.frames_torn, left.datagrams_lost), (0, 0));
    });
}

#[test]
fn a_barrier_holds_together_the_screens_of_all_servers() {
    undisturbed("a barrier of two servers", 2, || {
        let wall = Wall::new(["left", "right"]);
        let left = WallServerProcess::start(&wall, "left");
        let right = WallServerProcess::start(&wall, "right");
        let real = screen(&wall, &right, "r0c1", &["--barrier"]);
        let report = || right.status()?.tiles.first()?.report.clone();
        let presented = || report()?.presented_ms;
        until("alone it is shown as soon as it is whole", || {
            report().is_some_and(|report| report.frames_shown > 20)
        });
        // How long after its tick began a frame is whole is a matter of the machine.
        let whole_ms = report().expect("a report").presented_p50_ms.expect("a median");
        assert!(whole_ms < 42.0, "nobody else is waited for: {whole_ms} ms");
        // The other server's screen is played here: it holds each frame 26 ms after this one does, 15 ms before the
        // next one is whole.
        let hold_ms = whole_ms + 26.0;
        let mut slow = left.client().expect("a connection");
        let tile = TileId { row: 0, column: 0 };
        slow.ask(&ControlRequest::Join { tile }, players::PATIENCE).expect("an answer");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let rate = FrameRate { numerator: 24, denominator: 1 };
                let mut tick = rate.tick_at(SystemTime::now()) + 1;
                while !stop.load(Ordering::Relaxed) {
                    let holds = rate.start_of(tick) + Duration::from_secs_f64(hold_ms / 1e3);
                    std::thread::sleep(holds.duration_since(SystemTime::now()).unwrap_or_default());
                    slow.send(&ControlRequest::Ready { tile, tick }).expect("sent");
                    while slow.next(Duration::ZERO).expect("the connection stands").is_some() {}
                    tick += 1;
                }
                drop(slow);
            });
            let waits = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                until("it waits for the other server's", || {
                    presented().is_some_and(|after| after > hold_ms - 2.0)
                });
            }));
            stop.store(true, Ordering::Relaxed);
            waits.expect("it waited");
        });
        until("and not for one that is gone", || presented().is_some_and(|after| after < hold_ms - 8.0));
        let real = real.end();
        assert!(real.frames_proven > 20 && real.frames_wrong == 0, "{real:#?}");
        assert_eq!((real.frames_torn, real.datagrams_lost), (0, 0));
    });
}
