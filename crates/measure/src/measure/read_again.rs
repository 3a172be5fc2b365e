//! Bytes that were read again, and whether that shows a cache below the device.
//!
//! A source is read in a ring through the whole run: each byte once before any of them twice, so that what is
//! read again is what was read longest ago. The device's own counters show a cache above it; one below it (a RAID
//! card's, a hypervisor's) shows only where the second reading is faster than the first.

use super::product::Measurement;
use super::statistics::median;
use linerate_model::plan::SourcePlan;
use linerate_model::verdict::Distrust;
use linerate_model::verdict::thresholds::FASTER_AGAIN;
use linerate_transport::flow::source::Cursor;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A pass of whose bytes at most this share was read again is a first reading.
const FIRST: f64 = 0.5;
/// A pass of whose bytes at least this share was read again is one of reading again.
const AGAIN: f64 = 0.9;

/// The flags of figures of disks: a cache below may have contributed; the page cache answered; the devices read more than
/// was asked for.
pub(crate) const READ_AGAIN: &str = "read-again";
pub const PAGE_CACHE: &str = "page-cache";
pub(crate) const READ_AMPLIFICATION: &str = "read-amplification";

/// What was read again of a source while its disk was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadAgain {
    /// `disk:loop0`.
    pub resource: String,
    /// Bytes that this run had read before.
    pub bytes: u64,
    /// The rate of a first reading; none: there was none long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_bytes_per_second: Option<f64>,
    /// The rate of reading again; none: too little was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_bytes_per_second: Option<f64>,
}

/// A source through the run: where its reading goes on, and how fast its first reading was.
#[derive(Debug)]
pub(super) struct SourceReading {
    pub cursor: Arc<Cursor>,
    first: Vec<f64>,
}

impl SourceReading {
    pub(super) fn new(source: &SourcePlan) -> Self {
        let cursor = Arc::new(Cursor::new(source.length_bytes, source.block_bytes.max(1)));
        SourceReading { cursor, first: Vec::new() }
    }

    /// A pass over it has ended that began at this position, and had this rate.
    pub(super) fn pass_ended(&mut self, begin: ReadPosition, bytes_per_second: f64) -> ReadPass {
        let end = ReadPosition::now(&self.cursor);
        let (bytes, again) = (end.bytes - begin.bytes, end.again - begin.again);
        let pass = ReadPass { bytes, again, bytes_per_second };
        if pass.is_first() {
            self.first.push(bytes_per_second);
        }
        pass
    }

    /// What was read again in these passes; where none was a first reading, an earlier one of this run counts.
    pub(super) fn read_again(&self, resource: &str, passes: &[ReadPass]) -> ReadAgain {
        let rates = |of: fn(&ReadPass) -> bool| -> Vec<f64> {
            passes.iter().filter(|pass| of(pass)).map(|pass| pass.bytes_per_second).collect()
        };
        let middle = |rates: &[f64]| (!rates.is_empty()).then(|| median(rates));
        ReadAgain {
            resource: resource.to_string(),
            bytes: passes.iter().map(|pass| pass.again).fold(0, u64::saturating_add),
            first_bytes_per_second: middle(&rates(ReadPass::is_first)).or_else(|| middle(&self.first)),
            again_bytes_per_second: middle(&rates(ReadPass::is_again)),
        }
    }
}

/// How far a cursor has come: bytes in all, and those of them that were read before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadPosition {
    bytes: u64,
    again: u64,
}

impl ReadPosition {
    pub(super) fn now(cursor: &Cursor) -> Self {
        let bytes = cursor.dealt_bytes();
        ReadPosition { bytes, again: bytes.saturating_sub(cursor.length_bytes()) }
    }
}

/// One reading of a part of a source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadPass {
    bytes: u64,
    again: u64,
    bytes_per_second: f64,
}

impl ReadPass {
    fn share(&self) -> f64 {
        self.again as f64 / self.bytes.max(1) as f64
    }

    fn is_first(&self) -> bool {
        self.bytes > 0 && self.bytes_per_second > 0.0 && self.share() <= FIRST
    }

    fn is_again(&self) -> bool {
        self.bytes > 0 && self.bytes_per_second > 0.0 && self.share() >= AGAIN
    }
}

impl ReadAgain {
    /// What speaks against taking the rate for the device's, of which a share is sure: a machine that changes its
    /// speed reads again faster, or slower, without a cache.
    fn distrust(&self, sure: f64) -> Option<Distrust> {
        match (self.first_bytes_per_second, self.again_bytes_per_second) {
            _ if self.bytes == 0 => None,
            (None, _) => Some(Distrust::NoFirstReading),
            (Some(first), Some(again)) if sure * again > FASTER_AGAIN * first => Some(Distrust::FasterAgain),
            _ => None,
        }
    }
}

impl Measurement {
    /// What speaks against taking a figure of disks for what the disks do themselves: bytes that they did not read,
    /// or do not count, or that were read again where nothing shows that no cache below answered.
    pub fn distrust(&self) -> Option<Distrust> {
        let uncounted = |what: &String| what.starts_with("disk:");
        if self.flags.iter().any(|flag| flag == PAGE_CACHE) {
            return Some(Distrust::Cache);
        }
        let low = self.interval.map(|[low, _]| low / self.bytes_per_second).filter(|low| low.is_finite());
        let again = self.read_again.iter().filter_map(|again| again.distrust(low.unwrap_or(1.0)));
        let faster = again.max_by_key(|why| *why == Distrust::FasterAgain);
        faster.or_else(|| self.not_seen.iter().any(uncounted).then_some(Distrust::Uncounted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(bytes: u64, again: u64, megabytes: f64) -> ReadPass {
        ReadPass { bytes, again, bytes_per_second: megabytes * 1e6 }
    }

    fn source() -> SourceReading {
        SourceReading { cursor: Arc::new(Cursor::new(100, 1)), first: Vec::new() }
    }

    /// A figure of one disk that was looked at so.
    fn figure(source: &SourceReading, passes: &[ReadPass]) -> Measurement {
        Measurement { read_again: vec![source.read_again("disk:sda", passes)], ..Measurement::default() }
    }

    #[test]
    fn a_cache_below_shows_where_the_second_reading_is_faster() {
        let source = source();
        let first = pass(100, 10, 500.0);
        assert_eq!(figure(&source, &[pass(100, 0, 500.0)]).distrust(), None, "nothing was read again");
        for (megabytes, expected) in
            [(500.0, None), (300.0, None), (560.0, None), (2000.0, Some(Distrust::FasterAgain))]
        {
            let figure = figure(&source, &[first, pass(100, 100, megabytes), pass(100, 100, megabytes)]);
            assert_eq!(figure.read_again[0].bytes, 210);
            assert_eq!(figure.distrust(), expected, "{megabytes} MB/s again");
        }
        // On a machine that changes its speed as much from round to round.
        let mut unsteady = figure(&source, &[first, pass(100, 100, 700.0)]);
        (unsteady.bytes_per_second, unsteady.interval) = (700e6, Some([510e6, 930e6]));
        assert_eq!(unsteady.distrust(), None);
        unsteady.interval = Some([680e6, 720e6]);
        assert_eq!(unsteady.distrust(), Some(Distrust::FasterAgain));
        // A look that is half of each says neither.
        let mixed = figure(&source, &[first, pass(100, 70, 900.0)]);
        assert_eq!((mixed.read_again[0].again_bytes_per_second, mixed.distrust()), (None, None));
    }

    #[test]
    fn a_first_reading_earlier_in_the_run_counts() {
        let mut source = source();
        assert_eq!(figure(&source, &[pass(100, 100, 500.0)]).distrust(), Some(Distrust::NoFirstReading));
        source.first = vec![480e6];
        assert_eq!(figure(&source, &[pass(100, 100, 500.0)]).distrust(), None);
        let own = figure(&source, &[pass(100, 0, 200.0), pass(100, 100, 500.0)]);
        assert_eq!(own.distrust(), Some(Distrust::FasterAgain), "its own comes before an earlier one");
    }

    #[test]
    fn what_devices_do_not_count_is_not_trusted() {
        let source = source();
        let mut figure = figure(&source, &[pass(100, 0, 500.0)]);
        figure.not_seen = vec!["cpu".into(), "interface: its address is gone".into()];
        assert_eq!(figure.distrust(), None, "that is not a disk");
        figure.not_seen.push("disk:sda".into());
        assert_eq!(figure.distrust(), Some(Distrust::Uncounted));
        figure.flags.push(PAGE_CACHE.into());
        assert_eq!(figure.distrust(), Some(Distrust::Cache));
    }

    #[test]
    fn passes_are_told_apart_by_what_was_dealt_before() {
        let mut source = source();
        let reads = |source: &SourceReading, blocks: usize| {
            let begin = ReadPosition::now(&source.cursor);
            for _ in 0..blocks {
                source.cursor.next_offset();
            }
            begin
        };
        let mut passes = Vec::new();
        for (blocks, rate) in [(80, 1.0), (30, 2.0), (40, 3.0)] {
            let begin = reads(&source, blocks);
            passes.push(source.pass_ended(begin, rate));
        }
        let reported = source.read_again("disk:sda", &passes);
        assert_eq!((reported.bytes, reported.again_bytes_per_second), (50, Some(3.0)));
        assert_eq!(reported.first_bytes_per_second, Some(1.5), "10 of 30 bytes again is a first reading");
    }
}
