//! Who takes how much of what is left, so that all ways end together: each stream takes by what it carries, one that
//! would end later than all others does not begin, and what one has that would end too late is given to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A stream takes this share of what would keep it at work to the end, so that there is always more to deal.
const SHARE: f64 = 0.5;
/// What a new request costs, and what is too short to be worth one.
const COST: Duration = Duration::from_millis(500);
/// So much sooner has another to have it to be worth the block that comes twice.
const SOONER: f64 = 2.0;

/// One stream among all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deal {
    /// Its server.
    pub(super) server: usize,
    /// Streams of all ways.
    pub(super) streams: u64,
    /// Bytes per second that it brings while it is at work; none: not known yet.
    pub(super) stream_rate: Option<f64>,
    /// Of all streams of all ways.
    pub(super) total_rate: f64,
    /// Of the fastest of them.
    pub(super) fastest_rate: f64,
}

impl Deal {
    /// The most blocks that it takes of those that are left, one at least.
    pub(super) fn most_blocks(&self, left: u64, most: u64) -> u64 {
        let even = 1.0 / self.streams.max(1) as f64;
        let own = self.stream_rate.filter(|_| self.total_rate > 0.0).map(|rate| rate / self.total_rate);
        let share = (left as f64 * own.unwrap_or(even) * SHARE) as u64;
        share.clamp(1, most.max(1))
    }

    /// The others have all that is left before it would have a block of it. The fastest is never too slow.
    pub(super) fn is_too_slow(&self, block_bytes: u64, left_bytes: u64) -> bool {
        let Some(rate) = self.stream_rate else { return false };
        let others = (self.total_rate - rate).max(1e-9);
        let together = left_bytes as f64 / others;
        let block = block_bytes as f64 / self.fastest_rate.max(rate).max(1e-9);
        block_bytes as f64 / rate.max(1e-9) > COST.as_secs_f64() + together.max(block)
    }
}

/// A piece that a stream is at.
#[derive(Debug)]
pub(super) struct PieceWatch {
    bytes: u64,
    begun: Instant,
    received: AtomicU64,
    /// Another stream is to have what is left of it.
    pub(super) revoked: Arc<AtomicBool>,
}

impl PieceWatch {
    pub(super) fn new(bytes: u64) -> Self {
        PieceWatch { bytes, begun: Instant::now(), received: AtomicU64::new(0), revoked: Arc::default() }
    }

    pub(super) fn came(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes per second so far.
    pub(super) fn rate(&self) -> f64 {
        self.received.load(Ordering::Relaxed) as f64 / self.begun.elapsed().as_secs_f64().max(1e-9)
    }

    pub(super) fn left_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.received.load(Ordering::Relaxed))
    }

    /// Whether a stream of this rate that has nothing to do would have the rest of it much sooner.
    pub(super) fn is_late(&self, rate: f64, block_bytes: u64) -> bool {
        self.is_late_after(self.begun.elapsed(), rate, block_bytes)
    }

    fn is_late_after(&self, time: Duration, rate: f64, block_bytes: u64) -> bool {
        let left = self.left_bytes();
        if time < COST || left == 0 || rate <= 0.0 || self.revoked.load(Ordering::Relaxed) {
            return false;
        }
        let own_rate = (self.bytes - left) as f64 / time.as_secs_f64();
        let own = if own_rate > 0.0 { left as f64 / own_rate } else { f64::INFINITY };
        // The block that it is at comes again, from its beginning.
        let others = left.next_multiple_of(block_bytes) as f64 / rate;
        own > COST.as_secs_f64() + SOONER * others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = 4 << 20;

    fn deal(stream_rate: Option<f64>, total_rate: f64) -> Deal {
        let fastest_rate = stream_rate.map_or(0.0, |rate| rate.max(total_rate - rate));
        Deal { server: 0, streams: 4, stream_rate, total_rate, fastest_rate }
    }

    #[test]
    fn a_stream_takes_by_what_it_carries() {
        // Nobody knows anything yet.
        assert_eq!(deal(None, 0.0).most_blocks(80, 16), 10);
        // One of two that bring a hundred and a tenth of that.
        assert_eq!(deal(Some(100e6), 110e6).most_blocks(110, 1000), 50);
        assert_eq!(deal(Some(10e6), 110e6).most_blocks(110, 1000), 5);
        assert_eq!(deal(Some(10e6), 110e6).most_blocks(3, 1000), 1, "something at least");
        assert_eq!(deal(Some(100e6), 110e6).most_blocks(1 << 40, 16), 16, "and no more than that");
    }

    #[test]
    fn a_slow_stream_leaves_the_last_pieces_to_the_others() {
        let slow = deal(Some(1e6), 101e6);
        assert!(!slow.is_too_slow(BLOCK, 1 << 30), "ten seconds are left");
        assert!(slow.is_too_slow(BLOCK, 64 << 20), "its block needs four seconds, all of it less than one");
        assert!(!deal(Some(1e6), 1e6).is_too_slow(BLOCK, BLOCK), "it is the only one");
        let alike = Deal { fastest_rate: 1e6, ..deal(Some(1e6), 8e6) };
        assert!(!alike.is_too_slow(BLOCK, BLOCK), "nobody has the last block sooner");
        assert!(!deal(None, 100e6).is_too_slow(BLOCK, BLOCK), "it may be the fastest");
    }

    #[test]
    fn what_would_end_too_late_is_given_to_a_faster_stream() {
        let watch = PieceWatch::new(16 << 20);
        watch.came(4 << 20);
        let after = |seconds, rate| watch.is_late_after(Duration::from_secs(seconds), rate, BLOCK);
        // 1 MiB/s for 4 s, 12 MiB are left.
        assert!(after(4, 100e6) && after(4, 3e6), "12 s or 4 s");
        assert!(!after(4, 2e6), "a block comes twice for too little");
        assert!(!after(0, 100e6), "it has just begun");
        assert!(!after(4, 0.0), "nobody knows how fast the other is");
        let stalled = PieceWatch::new(BLOCK);
        assert!(stalled.is_late_after(Duration::from_secs(4), 1e6, BLOCK));
        stalled.revoked.store(true, Ordering::Relaxed);
        assert!(!stalled.is_late_after(Duration::from_secs(4), 1e6, BLOCK), "once is enough");
        let whole = PieceWatch::new(BLOCK);
        whole.came(BLOCK);
        assert!(!whole.is_late_after(Duration::from_secs(4), 1e9, BLOCK));
    }

    proptest! {
        /// Whatever the rates of the streams: dealt so, the last one ends shortly after all could have ended together,
        /// and there is always one that takes the next.
        #[test]
        fn all_streams_end_together(rates in proptest::collection::vec(0.2f64..200.0, 1..8), blocks in 50u64..2000) {
            let total_rate: f64 = rates.iter().sum();
            let fastest_rate = rates.iter().copied().fold(0.0, f64::max);
            let (mut ends, mut left) = (vec![0.0f64; rates.len()], blocks);
            while left > 0 {
                let takes = |stream: &usize| {
                    let stream_rate = Some(rates[*stream]);
                    let own = Deal { server: 0, streams: 8, stream_rate, total_rate, fastest_rate };
                    (!own.is_too_slow(1, left)).then(|| own.most_blocks(left, 16).min(left))
                };
                let willing = (0..rates.len()).filter_map(|stream| Some((stream, takes(&stream)?)));
                let next = willing.min_by(|(a, _), (b, _)| ends[*a].total_cmp(&ends[*b]));
                prop_assert!(next.is_some(), "nobody takes what is left");
                let (stream, taken) = next.unwrap_or_default();
                ends[stream] += taken as f64 / rates[stream];
                left -= taken;
            }
            let last = ends.iter().copied().fold(0.0, f64::max);
            let together = blocks as f64 / total_rate;
            prop_assert!(last <= 1.25 * together + COST.as_secs_f64() + 2.0 / fastest_rate, "{last} of {together}");
        }
    }
}
