//! What a screen counts.

use crate::rtp::Malformed;
use hdrhistogram::Histogram;

/// A frame that is shown later than this counts as so late, microseconds: a minute.
const MOST_MICROS: u64 = 60_000_000;
/// Sentences that are kept.
const MOST_PROBLEMS: usize = 8;

/// Counters of one screen.
#[derive(Debug)]
pub(crate) struct ScreenTally {
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

impl Default for ScreenTally {
    fn default() -> Self {
        // From 1 µs to a minute with three digits: never an error.
        let presented = Histogram::new_with_bounds(1, MOST_MICROS, 3).ok();
        ScreenTally {
            bytes: 0,
            foreign: 0,
            malformed: 0,
            newest_malformed: None,
            late_datagrams: 0,
            outside: 0,
            streams: 0,
            jumps: 0,
            shown: 0,
            late: 0,
            torn: 0,
            missing: 0,
            early: 0,
            crowded: 0,
            joined_within: 0,
            fullest: 0,
            frame: None,
            tick: None,
            presented,
            newest_presented_ms: None,
            span: None,
            assigned: false,
            socket_drops: 0,
            problems: Vec::new(),
        }
    }
}

impl ScreenTally {
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
