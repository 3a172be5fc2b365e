//! What a screen reports of itself.

use super::screen::Screen;
use crate::control::ScreenReport;

impl Screen {
    /// What it tells of itself.
    pub fn report(&self) -> ScreenReport {
        let (counts, tally) = (self.counts(), &self.tally);
        ScreenReport {
            tile: self.tile,
            datagrams: counts.datagrams,
            bytes: tally.bytes,
            datagrams_lost: counts.lost,
            datagrams_reordered: counts.reordered,
            datagrams_doubled: counts.doubled,
            datagrams_foreign: tally.foreign + tally.malformed,
            frames_shown: tally.shown,
            frames_late: tally.late,
            frames_torn: tally.torn,
            frames_missing: tally.missing,
            frames_window_dropped: self.window().map(|window| window.frames_dropped),
            frames_proven: self.checker.as_ref().map_or(0, |checker| checker.proven),
            frames_wrong: self.checker.as_ref().map_or(0, |checker| checker.wrong),
            frame: tally.frame,
            tick: tally.tick,
            presented_ms: tally.newest_presented_ms,
            presented_p50_ms: tally.presented_ms(0.5),
            presented_p99_ms: tally.presented_ms(0.99),
        }
    }
}
