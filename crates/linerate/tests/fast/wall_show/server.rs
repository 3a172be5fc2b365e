//! A server that plays one tile, as far as a screen can tell.

use crate::support::fake_wall::Fake;
use crate::support::sender::RATE;
use linerate::wall::control::{
    Assignment, Conductor, ControlRequest, Lead, MovieLine, Preview, Refusal, ScreenReport, View,
};
use linerate::wall::geometry::{Size, TileId};
use linerate::wall::picture::sum;
use linerate::wall::status::WallStatus;
use linerate::wall::timeline::Timeline;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

pub struct OneTile {
    size: Size,
    sums: Vec<u32>,
    timeline: Timeline,
    pub ssrc: u32,
    joined: AtomicBool,
    report: Mutex<Option<ScreenReport>>,
}

impl OneTile {
    /// Begins to play in two seconds.
    pub fn new(size: Size, frames: &[Vec<u8>]) -> OneTile {
        let first = RATE.tick_at(SystemTime::now()) + 48;
        let sums: Vec<u32> = frames.iter().map(|frame| sum(frame)).collect();
        let timeline = Timeline::new(RATE, sums.len() as u32, first, true);
        OneTile {
            size,
            sums,
            timeline,
            ssrc: 0xabcd_0000,
            joined: AtomicBool::new(false),
            report: Mutex::new(None),
        }
    }

    /// A tick that shows its first frame, and is still to come.
    pub fn first_tick(&self) -> u64 {
        let soon = RATE.tick_at(SystemTime::now()) + 2;
        (soon..).find(|tick| self.timeline.frame_of(*tick) == Some(0)).expect("it loops")
    }

    pub fn await_join(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.joined.load(Ordering::Relaxed) {
            assert!(Instant::now() < until, "the screen never asked for its tile");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn report(&self) -> Option<ScreenReport> {
        self.report.lock().expect("a lock").clone()
    }
}

impl Conductor for OneTile {
    fn ask(&self, _request: &ControlRequest) -> Result<(), Refusal> {
        Err("it only plays".into())
    }

    fn timeline(&self) -> Timeline {
        self.timeline.clone()
    }

    fn status(&self) -> WallStatus {
        let (frames, no_disks) = (self.timeline.frames, Vec::new());
        let no_more =
            WallStatus { tiles: Vec::new(), nics: Vec::new(), disks: no_disks, ..Fake::new(1, 1).status() };
        WallStatus {
            movie: "one tile".into(),
            frames,
            movie_size: self.size,
            wall_size: self.size,
            ..no_more
        }
    }

    fn movies(&self) -> Vec<MovieLine> {
        Vec::new()
    }

    fn assignment(&self, tile: TileId) -> Result<Assignment, Refusal> {
        self.joined.store(true, Ordering::Relaxed);
        let from = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let (size, ssrc, timeline) = (self.size, self.ssrc, self.timeline.clone());
        Ok(Assignment { tile, size, ssrc, from, timeline, stamped: false })
    }

    fn report(&self, report: &ScreenReport) {
        *self.report.lock().expect("a lock") = Some(report.clone());
    }

    fn lead(&self) -> Lead {
        Lead { timeline: self.timeline.clone(), from_tick: 0, movie: String::new(), view: View::WHOLE }
    }

    fn followed(&self, _server: &str) -> Result<(), Refusal> {
        Err("it leads nobody".into())
    }

    fn sums(&self, _tile: TileId, from: u32, count: u32) -> Vec<u32> {
        self.sums.iter().copied().skip(from as usize).take(count as usize).collect()
    }

    fn preview(&self, _tile: TileId) -> Option<Preview> {
        None
    }
}
