//! What a screen receives and shows at this moment, for whoever watches while it runs.
//!
//! The screen's thread leaves a new snapshot here a few times a second and does not wait until a reader has drawn it; rates
//! are of the last second.

use super::deadline::{nanos, time};
use super::link::Link;
use super::screen::Screen;
use crate::control::ScreenReport;
use crate::geometry::{FrameRate, Size};
use linerate_system::clock;
use linerate_system::lock;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Rates are of this time.
const LATELY: Duration = Duration::from_secs(1);
/// A stream that is silent for so long is gone, unless the server says that it pauses, nanoseconds.
const GONE: i64 = 1_000_000_000;

/// What a screen is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScreenState {
    /// Nothing of its stream has come yet.
    Waiting,
    Playing,
    /// The server says that it pauses.
    Paused,
    /// The server says that the movie is at its end.
    Ended,
    /// The stream came once, and nothing for so many seconds.
    Gone {
        seconds: f64,
    },
}

/// A screen at one moment.
#[derive(Clone, Debug)]
pub struct ScreenSnapshot {
    pub listen: SocketAddr,
    pub state: ScreenState,
    /// Counts since the start.
    pub report: ScreenReport,
    pub size: Option<Size>,
    pub rate: Option<FrameRate>,
    /// RTP payload and headers, UDP's payload, of the last second.
    pub bytes_per_second: f64,
    /// Frames that were put on the screen, of the last second.
    pub frames_per_second: f64,
    /// Datagrams that had overtaken the one that came latest.
    pub reorder_depth: u64,
    /// How much later than its deadline the newest frame was shown, milliseconds; with a barrier it may be
    /// before.
    pub skew_ms: Option<f64>,
    /// The same of the slowest frame in a hundred.
    pub skew_p99_ms: Option<f64>,
    /// Why there is no connection to the server, where one was named.
    pub problem: Option<String>,
}

/// The newest snapshot of a screen, which its thread replaces.
#[derive(Clone, Debug, Default)]
pub struct LatestScreen(Arc<Mutex<Option<ScreenSnapshot>>>);

impl LatestScreen {
    /// The newest; none before the first.
    pub fn newest(&self) -> Option<ScreenSnapshot> {
        lock(&self.0).clone()
    }

    fn replace(&self, snapshot: ScreenSnapshot) {
        *lock(&self.0) = Some(snapshot);
    }
}

/// Makes the snapshots, on the screen's thread.
#[derive(Debug)]
pub(super) struct ScreenPublisher {
    latest: LatestScreen,
    listen: SocketAddr,
    /// When, bytes, and frames that were put on the screen.
    counted: VecDeque<(Instant, u64, u64)>,
}

impl ScreenPublisher {
    pub(crate) fn new(listen: SocketAddr) -> ScreenPublisher {
        ScreenPublisher { latest: LatestScreen::default(), listen, counted: VecDeque::new() }
    }

    /// Where its snapshots can be read.
    pub(crate) fn latest(&self) -> LatestScreen {
        self.latest.clone()
    }

    /// Leaves a new snapshot; costs something only where somebody looks.
    pub(crate) fn show(&mut self, screen: &Screen, report: &ScreenReport, link: Option<&Link>, now: Instant) {
        if Arc::strong_count(&self.latest.0) == 1 {
            return;
        }
        let (bytes_per_second, frames_per_second) =
            self.rates(now, report.bytes, screen.tally.presented_frames());
        let latency_ms = screen.deadlines.due(0) as f64 / 1e6;
        let problem = link.and_then(Link::problem);
        self.latest.replace(ScreenSnapshot {
            listen: self.listen,
            state: state(screen, problem.is_none(), nanos(clock::date())),
            report: report.clone(),
            size: screen.size.map(|(size, _)| size),
            rate: screen.rate.map(|(rate, _)| rate),
            bytes_per_second,
            frames_per_second,
            reorder_depth: screen.reorder_depth(),
            skew_ms: report.presented_ms.map(|after| after - latency_ms),
            skew_p99_ms: report.presented_p99_ms.map(|after| after - latency_ms),
            problem,
        });
    }

    fn rates(&mut self, now: Instant, bytes: u64, frames: u64) -> (f64, f64) {
        self.counted.push_back((now, bytes, frames));
        while self.counted.get(1).is_some_and(|(at, ..)| now.duration_since(*at) >= LATELY) {
            self.counted.pop_front();
        }
        let (at, had, shown) = self.counted.front().copied().unwrap_or((now, bytes, frames));
        let seconds = now.duration_since(at).as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0.0);
        }
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        (per_second(bytes, had), per_second(frames, shown))
    }
}

/// The server's word before the silence, while there is a server: a wall that pauses is silent, too.
fn state(screen: &Screen, connected: bool, now: i64) -> ScreenState {
    let Some((_, last)) = screen.tally.span else { return ScreenState::Waiting };
    let silent = now.saturating_sub(last);
    if let Some(timeline) = screen.timeline.as_ref().filter(|_| connected || silent <= GONE) {
        let tick = timeline.frames_per_second.tick_at(time(now));
        if timeline.is_over(tick) {
            return ScreenState::Ended;
        }
        if !timeline.segment_at(tick).playing {
            return ScreenState::Paused;
        }
    }
    if silent > GONE { ScreenState::Gone { seconds: silent as f64 / 1e9 } } else { ScreenState::Playing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_second_and_only_for_who_looks() {
        let mut publisher = ScreenPublisher::new("127.0.0.1:5004".parse().expect("an address"));
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        assert_eq!(publisher.rates(begin, 0, 0), (0.0, 0.0));
        assert_eq!(publisher.rates(after(250), 1000, 6), (4000.0, 24.0));
        for quarter in 2..=40 {
            publisher.rates(after(quarter * 250), quarter * 1000, quarter * 6);
        }
        assert_eq!(publisher.rates(after(10_250), 41_000, 246), (4000.0, 24.0));
        // It stops: after a second nothing is left of it.
        let rates: Vec<_> =
            (42..47).map(|quarter| publisher.rates(after(quarter * 250), 41_000, 246).0).collect();
        assert_eq!(rates, [3000.0, 2000.0, 1000.0, 0.0, 0.0]);
        assert!(publisher.counted.len() < 8);
    }
}
