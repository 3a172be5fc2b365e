//! A screen of the wall: receives its tile, puts frames together, shows each at its time, counts what it does
//! ([`ScreenTally`]), and reports how it does.
//!
//! The way of a datagram: `socket` takes it in, `gate` says whose it is, `sequence` counts it, `frames` copies
//! its pixels to their place and knows which of them are there, `check` proves the whole frame, `deadline`
//! says when it is due, an [`Output`] shows it, such as a `window`. `screen` holds these together (`present`:
//! what is shown when) without looking at a clock; `run` gives it the socket, the clock and the server
//! (`link`, which hears what that says), and shows who looks on how it does (`live`).

mod check;
mod deadline;
mod describe;
mod frames;
mod gate;
mod link;
mod live;
mod present;
mod run;
mod screen;
mod sequence;
mod socket;
mod summary;
#[cfg(test)]
mod tests;
mod window;

use crate::control::ScreenReport;
use crate::geometry::{FrameRate, Size, TileId};
use crate::rtp::Malformed;
pub use describe::{Description, DescriptionError, describe};
use hdrhistogram::Histogram;
use linerate_facts::failure::Failure;
pub use link::ServerSpec;
pub use live::{LatestScreen, ScreenSnapshot, ScreenState};
pub use run::{Finished, Listening};
pub use screen::Screen;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
pub use summary::{ScreenSummary, ShowSummary};
pub use window::{DisplayOutput, ScreenWindow, ScreenWindowSpec, WindowPlacement, outputs};

/// Frames of an unknown rate wait so long by default.
const UNKNOWN_LATENCY: Duration = Duration::from_millis(90);

/// A frame that is shown later than this counts as so late, microseconds: a minute.
const MOST_MICROS: u64 = 60_000_000;
/// Sentences on problems that are kept.
const MOST_PROBLEMS: usize = 8;

/// One screen.
pub struct ScreenSpec {
    pub listen: SocketAddr,
    /// The NIC by which a multicast group is joined; none: the one that the routes say.
    pub interface: Option<String>,
    /// Its tile, where it has one.
    pub tile: Option<TileId>,
    /// Who tells it what to expect.
    pub server: Option<ServerSpec>,
    /// What the options say of the stream; else it is taken from the server or from the stream itself.
    pub size: Option<Size>,
    pub rate: Option<FrameRate>,
    pub payload_type: Option<u8>,
    /// Proves each frame by its stamp or by the server's checksums.
    pub verify: bool,
    /// From the start of a frame's tick until it is shown; none: two frames and a bit.
    pub latency: Option<Duration>,
    /// Shows a frame when the server says that all screens hold it.
    pub barrier: bool,
    pub end: ScreenEnd,
}

/// When a screen ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScreenEnd {
    /// After so long.
    pub after: Option<Duration>,
    /// After a stream has come and then nothing for so long.
    pub silence: Option<Duration>,
}

impl ScreenSpec {
    /// How long a frame waits at this rate. A server spreads a frame over its period and may begin up to a
    /// period after its tick, so that all tiles do not begin at once: two periods, and some time for the way.
    pub(crate) fn latency_at(&self, rate: Option<FrameRate>) -> Duration {
        let default = |rate: FrameRate| Duration::from_nanos(2 * rate.frame_nanos() + 10_000_000);
        self.latency.unwrap_or_else(|| rate.map_or(UNKNOWN_LATENCY, default))
    }
}

/// What a frame is shown on.
pub trait Output: Send {
    /// Shows a frame. The buffer may be exchanged for another of the same length, so that a window can keep
    /// it without a copy.
    fn show(&mut self, frame: &mut Vec<u8>, size: Size) -> Result<ShowResult, Failure>;

    /// Whether it is still there; asked also while no frame comes.
    fn look(&mut self) -> Result<ShowResult, Failure> {
        Ok(ShowResult::Done)
    }

    /// How the screen does, a few times a second.
    fn tell(&mut self, _report: &ScreenReport, _rate: Option<FrameRate>) {}

    /// No more frames come.
    fn finish(&mut self) {}

    /// What became of the frames in its window, where it is one.
    fn window(&self) -> Option<WindowSummary> {
        None
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowResult {
    Done,
    /// anyone who looked has gone: the window was closed, the reader of the pipe has ended.
    Closed,
}

/// What became of a screen's frames in its window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowSummary {
    /// Pixels of the window.
    pub size: Option<Size>,
    pub full_screen: bool,
    /// `shared-memory`, or `requests` where the display is remote or takes no shared memory.
    pub pixels_by: String,
    /// Frames that the display has taken.
    pub frames_shown: u64,
    /// Frames that it could not take before the next one was due.
    pub frames_dropped: u64,
    /// From a frame's deadline until the display had taken its pixels, milliseconds: the median and the 99th
    /// percentile.
    pub taken_p50_ms: Option<f64>,
    pub taken_p99_ms: Option<f64>,
}

/// `--write`: raw frames, end to end.
pub struct Raw {
    name: String,
    to: Box<dyn Write + Send>,
}

impl Raw {
    /// To a file, made again, or to standard output (`-`).
    pub fn create(path: &Path) -> Result<Raw, Failure> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            return Ok(Raw { name, to: Box::new(io::stdout()) });
        }
        let file = File::create(path).map_err(|error| Failure::Lacks(format!("--write {name}: {error}")))?;
        Ok(Raw { name, to: Box::new(file) })
    }
}

impl Output for Raw {
    fn show(&mut self, frame: &mut Vec<u8>, _size: Size) -> Result<ShowResult, Failure> {
        match self.to.write_all(frame).and_then(|()| self.to.flush()) {
            Ok(()) => Ok(ShowResult::Done),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ShowResult::Closed),
            Err(error) => Err(Failure::Lacks(format!(
                "--write {}: {error}; frames were written until then, the last one perhaps in part",
                self.name
            ))),
        }
    }
}

/// Counters of one screen.
#[derive(Debug, Default)]
struct ScreenTally {
    pub bytes: u64,
    pub foreign: u64,
    pub malformed: u64,
    pub newest_malformed: Option<Malformed>,
    /// Datagrams of frames that had been shown.
    pub late_datagrams: u64,
    /// Datagrams with pixels beyond the frame.
    pub outside: u64,
    /// Streams that were believed, one after the other.
    pub streams: u64,
    /// Times that timestamps began again within a stream.
    pub jumps: u64,
    pub shown: u64,
    pub late: u64,
    pub torn: u64,
    pub missing: u64,
    /// Shown before their time, because a newer one needed the buffer, or at an end.
    pub early: u64,
    /// Times that every buffer had a frame.
    pub crowded: u64,
    /// Frames that had begun before we listened, and are not counted as torn.
    pub joined_within: u64,
    /// Most datagrams that a frame had.
    pub fullest: u64,
    pub frame: Option<u32>,
    pub tick: Option<u64>,
    presented: Option<Histogram<u64>>,
    pub newest_presented_ms: Option<f64>,
    /// When the first and the last datagram of a stream came, nanoseconds since 1970.
    pub span: Option<(i64, i64)>,
    /// The server has announced what to expect.
    pub assigned: bool,
    pub socket_drops: u64,
    pub problems: Vec<String>,
}

impl ScreenTally {
    /// Nothing came yet.
    fn new() -> Self {
        // From 1 µs to a minute with three digits: never an error.
        let presented = Histogram::new_with_bounds(1, MOST_MICROS, 3).ok();
        ScreenTally { presented, ..ScreenTally::default() }
    }

    /// A datagram came.
    pub(crate) fn heard(&mut self, now: i64) {
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
    }

    /// A frame was shown so many nanoseconds after its tick began.
    pub(crate) fn presented(&mut self, nanos: i64) {
        let micros = u64::try_from(nanos / 1000).unwrap_or(0);
        if let Some(presented) = &mut self.presented {
            presented.saturating_record(micros.clamp(1, MOST_MICROS));
        }
        self.newest_presented_ms = Some(nanos as f64 / 1e6);
    }

    /// A quantile of that, milliseconds.
    pub(crate) fn presented_ms(&self, quantile: f64) -> Option<f64> {
        let presented = self.presented.as_ref().filter(|presented| !presented.is_empty())?;
        Some(presented.value_at_quantile(quantile) as f64 / 1000.0)
    }

    /// Frames that were put on the screen.
    pub(crate) fn presented_frames(&self) -> u64 {
        self.shown + self.late + self.torn
    }

    /// Keeps a sentence, once.
    pub(crate) fn problem(&mut self, sentence: String) {
        if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(&sentence) {
            self.problems.push(sentence);
        }
    }
}
