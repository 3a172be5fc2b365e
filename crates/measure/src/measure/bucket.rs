//! Whether a disk that was written fast at first, then slower, is read so as well.
//!
//! A cloud volume pays reads and writes out of one bucket; the cache of a drive that writes fast until it is full
//! is no matter to reads. Reads beyond what a bucket of that size can have held show that it is not theirs.

use linerate_model::plan::Burst;
use std::time::Instant;

/// Reads beyond this times what the bucket allows are not of the bucket: its size is known by a look at short
/// windows only.
const BEYOND: f64 = 1.25;

/// What the writing left of the bucket, and what came back since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    sustained: f64,
    size: f64,
    level: f64,
    at: Instant,
    /// More was read than it can have held.
    pub exceeded: bool,
}

impl Bucket {
    /// Empty at `now`, where the writing has ended.
    pub(super) fn emptied(burst: &Burst, now: Instant) -> Self {
        let (sustained, size) = (burst.sustained_bytes_per_second, burst.bucket_bytes);
        Bucket { sustained, size, level: 0.0, at: now, exceeded: false }
    }

    /// So much was read from then until then.
    pub(super) fn read(&mut self, begin: Instant, end: Instant, bytes: f64) {
        let refilled = self.sustained * begin.saturating_duration_since(self.at).as_secs_f64();
        let level = (self.level + refilled).min(self.size);
        let allowed = level + self.sustained * end.saturating_duration_since(begin).as_secs_f64();
        self.exceeded |= bytes > BEYOND * allowed;
        (self.level, self.at) = ((allowed - bytes).clamp(0.0, self.size), end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn bucket(start: Instant) -> Bucket {
        let burst = Burst {
            burst_bytes_per_second: 400e6,
            sustained_bytes_per_second: 100e6,
            bucket_bytes: 600e6,
            ..Burst::default()
        };
        Bucket::emptied(&burst, start)
    }

    #[test]
    fn a_cache_of_writes_is_no_matter_to_reads() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut spared = bucket(start);
        spared.read(at(4.0), at(5.0), 400e6);
        assert!(!spared.exceeded, "four seconds have filled it for that");
        spared.read(at(5.0), at(6.0), 400e6);
        assert!(spared.exceeded, "it was empty");
    }

    proptest! {
        /// Whatever is read of a device with that bucket never seems to be more than it holds.
        #[test]
        fn a_bucket_explains_itself(
            turns in proptest::collection::vec((0.1f64..5.0, 0.1f64..3.0), 1..40),
        ) {
            let start = Instant::now();
            let (mut seen, mut now, mut level) = (bucket(start), 0.0, 0.0f64);
            for (pause, turn) in turns {
                level = (level + pause * 100e6).min(600e6);
                let fast = (level / 300e6).min(turn);
                let bytes = 400e6 * fast + 100e6 * (turn - fast);
                level -= 300e6 * fast;
                let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
                seen.read(at(now + pause), at(now + pause + turn), bytes);
                now += pause + turn;
            }
            prop_assert!(!seen.exceeded);
        }
    }
}
