//! How soon a wall obeys.

use crate::support::neighbours::undisturbed;
use crate::support::wall_movie::TestMovie;
use crate::support::wall_served::{PATIENCE, Played, TestScreen, busy};
use linerate::wall::control::{ControlMessage, ControlRequest};
use linerate::wall::geometry::FrameRate;
use std::time::{Duration, SystemTime};

#[test]
fn pause_silences_the_wire_and_a_seek_shows_its_frame_at_once() {
    undisturbed("how soon a wall obeys", 2, || {
        const FPS: u32 = 30;
        let movie = TestMovie::new(1, 1, (96, 40), FPS, 60);
        let screen = TestScreen::new();
        let mut serve = movie.serve();
        serve.args(["--screen", &format!("r0c0=127.0.0.1:{}", screen.port)]);
        let mut played = Played::start(serve);
        played.until("it plays", |status| status.frames_sent > 70);
        assert!(matches!(played.ask(&ControlRequest::Pause), ControlMessage::Done));
        std::thread::sleep(Duration::from_millis(300));
        let (silent_from, sent) = (SystemTime::now(), played.status().frames_sent);
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(played.status().frames_sent, sent, "the wire is silent");
        let resumed = SystemTime::now();
        played.ask(&ControlRequest::Play);
        played.until("it plays again", |status| status.frames_sent > sent + 3);
        let asked = SystemTime::now();
        played.ask(&ControlRequest::Seek { frame: 42 });
        let ControlMessage::Status(_) = played.ask(&ControlRequest::Status) else { panic!("a status") };
        let timeline = loop {
            played.ask(&ControlRequest::Watch { per_second: 1.0 });
            match played.client.next(PATIENCE).expect("a message") {
                Some(ControlMessage::Timeline(timeline)) => break timeline,
                Some(_) => {}
                None => panic!("no timeline came"),
            }
        };
        std::thread::sleep(Duration::from_millis(500));
        assert!(matches!(
            played.ask(&ControlRequest::Speed { speed: f64::NAN }),
            ControlMessage::Refused { .. } | ControlMessage::Done
        ));
        played.ask(&ControlRequest::Speed { speed: -2.0 });
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
        let (timestamp, _, at) = got
            .frames
            .iter()
            .find(|(_, found, at)| *at > asked && *found == pixels)
            .expect("the sought frame");
        let tick = rate.tick_of(*timestamp, *at);
        assert_eq!(timeline.frame_of(tick), Some(42));
        let took = at.duration_since(asked).expect("after it was asked");
        eprintln!("the sought frame came after {took:?}");
        assert!(took < Duration::from_millis(150) || busy(), "{took:?}");
        let wrong = got.frames.iter().filter(|(_, pixels, _)| movie.which(0, 0, pixels).is_none()).count();
        assert!(wrong <= 1, "{wrong} frames are wrong; only the one that was cut off by the end may be");
    });
}
