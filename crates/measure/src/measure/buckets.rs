//! Buckets that are empty when the rounds begin.
//!
//! A cloud volume pays reads and writes out of one bucket; the cache of a drive that writes fast until it is full
//! does not matter to reads. Reads beyond what a bucket of that size can have held show that it is not theirs.
//!
//! A network that was fast before the rounds began and gives less in all of them has spent its credits by then, and the
//! windows of no single flow show the change.

use super::access::{Burst, LEAST_RATIO};
use super::product::{Measurement, Stage};
use super::statistics::median;
use std::time::Instant;

/// Reads beyond this times what the bucket allows are not of the bucket: its size is known by a look at short
/// windows only.
const BEYOND: f64 = 1.25;

/// Rounds that moved the same within this have one level.
const LEVEL: f64 = 0.9;
/// Short windows of a path, at least, that show what lasts.
const LEAST_WINDOWS: usize = 5;

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

/// Makes what lasts the figures of the rounds: of the network, and of a path that spends what comes back while others
/// have their turns. With each figure go the rates of its short windows.
pub(super) fn settle_credits(before: &[Measurement], rounds: &mut [(Measurement, &[f64])]) {
    let spent = |network: &Measurement| before.iter().find_map(|earlier| spent_credits(earlier, network));
    let found: Vec<(usize, Burst)> =
        rounds.iter().enumerate().filter_map(|(at, (figure, _))| Some((at, spent(figure)?))).collect();
    for (at, burst) in found {
        let protocol = rounds[at].0.protocol;
        let paths = rounds.iter_mut().filter(|(it, _)| it.stage == Stage::Path && it.protocol == protocol);
        for (path, rates) in paths {
            if let Some(lasts) = lasting(path, rates, &burst) {
                path.set_burst(Burst { sustained_bytes_per_second: lasts, ..burst.clone() });
            }
        }
        rounds[at].0.set_burst(burst);
    }
}

/// What a file from the page cache was sent at before the rounds, against what memory was sent at in all of them,
/// where nothing else explains that.
fn spent_credits(earlier: &Measurement, rounds: &Measurement) -> Option<Burst> {
    let is_of_it = rounds.stage == Stage::Network
        && (earlier.stage, earlier.with_file) == (Stage::Network, true)
        && (earlier.protocol, &earlier.resource) == (rounds.protocol, &rounds.resource);
    let is_unexplained = rounds.held_by.is_none() && rounds.burst.is_none() && earlier.burst.is_none();
    let [least_before, least, most] =
        [lowest(&earlier.samples), lowest(&rounds.samples), highest(&rounds.samples)];
    let fell = rounds.samples.len() >= 3 && least >= LEVEL * most && least_before >= LEAST_RATIO * most;
    (is_of_it && is_unexplained && fell && most > 0.0).then(|| Burst {
        burst_bytes_per_second: earlier.bytes_per_second,
        sustained_bytes_per_second: rounds.bytes_per_second,
        // Nobody saw when it ended.
        ..Burst::default()
    })
}

/// What a path moves once what came back is spent, where that is what the network gives; none where it does not spend
/// anything.
fn lasting(path: &Measurement, rates: &[f64], burst: &Burst) -> Option<f64> {
    let (fast, slow) = (burst.burst_bytes_per_second, burst.sustained_bytes_per_second);
    let slow_windows: Vec<f64> = rates.iter().copied().filter(|rate| *rate < (fast * slow).sqrt()).collect();
    let lasts = median(&slow_windows);
    let is_of_it = LEVEL * slow <= lasts && LEVEL * lasts <= slow && highest(&path.samples) * LEVEL > lasts;
    (slow_windows.len() >= LEAST_WINDOWS && is_of_it).then_some(lasts)
}

fn lowest(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::LimitedBy;
    use super::*;
    use linerate_facts::protocol::Protocol;
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

    fn figure(stage: Stage, with_file: bool, samples: &[f64]) -> Measurement {
        Measurement {
            stage,
            with_file,
            resource: if stage == Stage::Path { "all".into() } else { "nic:eth0".into() },
            protocol: Some(Protocol::Tcp),
            bytes_per_second: median(samples),
            samples: samples.to_vec(),
            ..Measurement::default()
        }
    }

    /// As a lab with 2.3 Gb/s until 720 MB are spent, then 380 Mb/s, shows it.
    #[test]
    fn rounds_after_the_credits_are_spent_are_what_lasts() {
        let before = [figure(Stage::Network, true, &[285.2e6, 285.6e6, 285.2e6])];
        let network = figure(Stage::Network, false, &[47.2e6, 47.1e6, 47.1e6, 47.1e6, 47.2e6, 47.1e6]);
        let path = figure(Stage::Path, false, &[47.1e6, 92e6, 47.1e6, 83.6e6, 47.1e6, 80.4e6]);
        let windows: Vec<f64> = (0..42).map(|at| if at % 7 == 6 { 285e6 } else { 47.1e6 }).collect();
        let settled = |network: Measurement, path: &Measurement| {
            let mut rounds = [(path.clone(), &windows[..]), (network, &[][..])];
            settle_credits(&before, &mut rounds);
            rounds.map(|(figure, _)| (figure.bytes_per_second, figure.burst))
        };
        let [(path_lasts, path_burst), (lasts, burst)] = settled(network.clone(), &path);
        assert_eq!([path_lasts, lasts], [47.1e6; 2]);
        assert_eq!(burst.expect("credits").burst_bytes_per_second, 285.2e6);
        assert_eq!(path_burst.expect("credits").seconds, 0.0);

        let full = Measurement { held_by: Some(LimitedBy::Cpu), ..network.clone() };
        let uneven = figure(Stage::Network, false, &[47e6, 160e6, 47e6]);
        let near = figure(Stage::Network, false, &[230e6; 3]);
        for other in [full, uneven, near] {
            let rate = other.bytes_per_second;
            let [(path_rate, none), (same, nothing)] = settled(other, &path);
            assert_eq!((path_rate, none, same, nothing), (path.bytes_per_second, None, rate, None));
        }
        let slow_disk = figure(Stage::Path, false, &[20e6; 6]);
        let mut rounds = [(slow_disk, &[20e6; 42][..]), (network, &[][..])];
        settle_credits(&before, &mut rounds);
        assert_eq!((rounds[0].0.bytes_per_second, &rounds[0].0.burst), (20e6, &None));
    }
}
