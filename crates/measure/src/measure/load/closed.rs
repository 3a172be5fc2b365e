//! The closed loop: ever more users until the limit is passed. The curve, its knee, and the most users that
//! the limit allows.
//!
//! Whether it levels off, and about where, follows from the two asymptotes of a closed system (Denning and Buzen
//! 1978): with N users no more than N ÷ R are answered, R being the time of an answer when nobody else asks, and no
//! more than the capacity C, whatever N. They meet at N* = C × R. Both are medians of many windows, R as one over
//! the rate of a single user, so that N* is the same in each run. At N* itself a real device has about half of its
//! capacity: what a user is told is the most, and the least load that has nearly all of it.

use super::{Keep, LoadCurve, LoadEnd, Offer, RequestServer, Searched, Steps};
use crate::measure::statistics::median;

/// From one step to the next.
const GROWTH: f64 = 1.5;
/// The limit is found to within this ratio.
const CLOSE: f64 = 1.04;
/// Rates within this part of the highest are the level.
const LEVEL: f64 = 0.92;
/// Two steps that together gain less than this have levelled off.
const FLAT: f64 = 1.05;
/// Repeats of the lowest number that was too much, and how often that may turn out wrong.
const LAST_WORD: usize = 7;
const MOST_DOUBTS: usize = 4;
/// At most so many times as many users at once.
const LEAP: f64 = 8.0;
/// Steps with one user: R is their median.
const ALONE: usize = 3;

/// Ever more users, at most so many.
pub fn closed(server: &mut dyn RequestServer, keep: Keep, most_workers: u32) -> Searched {
    let mut search = Search { server, steps: Steps::new(keep), keep, most: most_workers.max(1) };
    let mut highest = None;
    let ended = search.run(&mut highest).err();
    let knee_workers = search.knee();
    let points = search.steps.points().into_iter().map(|(_, point)| point).collect();
    let mut curve = LoadCurve {
        points,
        knee_workers,
        highest: highest.map(f64::from),
        limit: keep.words(),
        ..LoadCurve::default()
    };
    if knee_workers.is_some() {
        (curve.knee, curve.most) = (curve.nearly_most(), curve.highest_rate());
    }
    Searched { curve, ended }
}

struct Search<'a> {
    server: &'a mut dyn RequestServer,
    steps: Steps,
    keep: Keep,
    most: u32,
}

impl Search<'_> {
    fn run(&mut self, highest: &mut Option<u32>) -> Result<(), LoadEnd> {
        let alone = self.offer(1);
        self.steps.measure(self.server, alone, ALONE)?;
        let mut within = None;
        let mut workers = 1;
        for _ in 0..MOST_DOUBTS {
            let Some(above) = self.rise(workers, &mut within, highest)? else { break };
            let Some(low) = within else { break };
            let above = self.close_in(low, above, &mut within, highest)?;
            // What lies above has to be too much once more: a neighbour's noise may have said so before.
            let offer = self.offer(above);
            if !self.steps.measure(self.server, offer, LAST_WORD)?.within_limit {
                break;
            }
            workers = above;
        }
        // Where it bends, a point of its own.
        if let Some(knee) = self.knee() {
            let offer = self.offer(knee.round().max(1.0) as u32);
            self.steps.measure(self.server, offer, 1)?;
        }
        Ok(())
    }

    /// Ever more users from these on; the first number that is too many.
    fn rise(
        &mut self,
        mut workers: u32,
        within: &mut Option<u32>,
        highest: &mut Option<u32>,
    ) -> Result<Option<u32>, LoadEnd> {
        loop {
            let used = self.used(workers)?;
            if used > 1.0 {
                return Ok(Some(workers));
            }
            (*within, *highest) = (Some(workers), Some(workers));
            if workers >= self.most {
                return Ok(None);
            }
            workers = self.next(workers, used);
        }
    }

    /// Halves the ratio between what is within and what is above; gives the latter.
    fn close_in(
        &mut self,
        mut low: u32,
        mut high: u32,
        within: &mut Option<u32>,
        highest: &mut Option<u32>,
    ) -> Result<u32, LoadEnd> {
        while f64::from(high) / f64::from(low) > CLOSE && high - low > 1 {
            let middle = (f64::from(low) * f64::from(high)).sqrt().round() as u32;
            let middle = self.server.workers(middle.clamp(low + 1, high - 1));
            if middle <= low || middle >= high {
                break;
            }
            if self.used(middle)? <= 1.0 {
                low = middle;
                (*within, *highest) = (Some(low), Some(low));
            } else {
                high = middle;
            }
        }
        Ok(high)
    }

    fn offer(&self, workers: u32) -> Offer {
        Offer { workers: self.server.workers(workers), requests_per_second: None }
    }

    fn used(&mut self, workers: u32) -> Result<f64, LoadEnd> {
        let offer = self.offer(workers);
        self.steps.used(self.server, offer)
    }

    /// Half as many more; where the rate no longer grows, latency does as the users do, so that the limit's
    /// place is known.
    fn next(&self, workers: u32, used: f64) -> u32 {
        let mut next = (f64::from(workers) * GROWTH).ceil();
        let points = self.steps.points();
        if let [.., before, between, last] = &points[..]
            && [between, last].iter().all(|(_, point)| {
                (LEVEL..FLAT)
                    .contains(&(point.operations_per_second / before.1.operations_per_second.max(1e-9)))
            })
            && used > 0.0
        {
            // A little beyond it, and no further at once than the eye follows on the curve.
            next = next.max((f64::from(workers) / used * 1.02).min(f64::from(workers) * LEAP));
        }
        let next = next.min(f64::from(self.most)) as u32;
        self.server.workers(next).clamp(workers + 1, self.most.max(workers + 1))
    }

    /// N*; none where the curve never levelled off.
    fn knee(&self) -> Option<f64> {
        let points = self.steps.points();
        let alone = points.first().filter(|(offer, _)| offer.workers == 1)?.1.operations_per_second;
        let mut rates: Vec<f64> = points.iter().map(|(_, point)| point.operations_per_second).collect();
        rates.sort_by(|one, other| other.total_cmp(one));
        // The second highest: a throttle that let a bucket through at once made the highest.
        let most = rates.get(1).or(rates.first()).copied()?;
        let level: Vec<f64> = rates.into_iter().filter(|rate| *rate >= LEVEL * most).collect();
        let capacity = median(&level);
        let last = points.last().map(|(offer, _)| f64::from(offer.workers))?;
        let levelled = level.len() >= 3 || self.keep_is_passed(&points);
        (alone > 0.0 && levelled && last > capacity / alone).then(|| (capacity / alone).max(1.0))
    }

    fn keep_is_passed(&self, points: &[(Offer, super::LoadPoint)]) -> bool {
        points.last().is_some_and(|(_, point)| self.keep.used(point) > 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::super::{Keep, LoadPoint, Statistic};
    use super::*;

    fn mean(limit: f64) -> Keep {
        Keep { of: Statistic::Mean, limit }
    }

    #[test]
    fn a_disk_of_2000_requests_and_8_ms_is_found() {
        let mut disk = Simulated { noise: 0.0, ..Simulated::new(2000.0, 0.008, 1) };
        let found = closed(&mut disk, mean(0.1), 4096);
        assert_eq!(found.ended, None);
        // 2,000 × 8 ms = 16 users; 2,000 × 100 ms = 200 users.
        let knee = found.curve.knee_workers.expect("a knee");
        assert!((knee - 16.0).abs() < 0.5, "{knee}");
        let highest = found.curve.highest.expect("a limit");
        assert!((190.0..=200.0).contains(&highest), "{highest}");
        let point = found.curve.answer().expect("its point");
        assert_eq!((point.workers, found.curve.level_rate()), (16, Some(2000.0)));
        assert!(found.curve.points.windows(2).all(|pair| pair[0].workers < pair[1].workers), "by users");
    }

    /// Rates of a real device rise long after N*: 43 thousand with 4 users, 65 with 12, 77 with 48, 86 with 864.
    #[test]
    fn the_level_is_the_most_and_the_answer_has_nearly_all_of_it() {
        let mut disk = Simulated { noise: 0.0, soft: true, ..Simulated::new(86_400.0, 93e-6, 1) };
        let curve = closed(&mut disk, mean(0.05), 8192).curve;
        let most = curve.points.iter().map(|point| point.operations_per_second).fold(0.0, f64::max);
        assert_eq!(curve.most, Some(most));
        let answer = curve.answer().expect("it levels off");
        assert!((0.9..0.94).contains(&(answer.operations_per_second / most)), "{answer:?} of {most}");
        let fewer = curve.points.iter().filter(|point| point.workers < answer.workers);
        assert!(
            fewer.clone().count() > 5 && fewer.clone().all(|point| point.operations_per_second < 0.9 * most)
        );
        for point in &curve.points {
            let little = point.operations_per_second * point.latency.mean / f64::from(point.workers);
            assert!((little - 1.0).abs() < 0.05, "{little} of {point:?}");
        }
    }

    #[test]
    fn a_bucket_that_came_through_at_once_is_no_level() {
        let point = |workers, operations_per_second| LoadPoint {
            workers,
            operations_per_second,
            ..LoadPoint::default()
        };
        let points =
            vec![point(1, 900.0), point(4, 3000.0), point(16, 1700.0), point(64, 1950.0), point(256, 2000.0)];
        let curve = LoadCurve { points, knee: Some(0), ..LoadCurve::default() };
        assert_eq!((curve.level_rate(), curve.nearly_most()), (Some(2000.0), Some(3)));
    }

    #[test]
    fn a_device_that_never_levels_off_has_no_knee() {
        let mut disk = Simulated { noise: 0.0, ..Simulated::new(1e9, 0.001, 1) };
        let found = closed(&mut disk, mean(0.1), 64);
        assert_eq!((found.curve.knee, found.curve.highest), (None, Some(64.0)));
    }

    #[test]
    fn what_was_measured_before_an_error_is_kept() {
        let mut disk = Simulated { ends_after: Some(6), ..Simulated::new(2000.0, 0.008, 1) };
        let found = closed(&mut disk, mean(0.1), 64);
        assert_eq!(found.ended, Some(LoadEnd::Stopped));
        assert_eq!(found.curve.points.len(), 4, "one user three times, then 2, 3, 5");
        assert_eq!(found.curve.highest, Some(5.0));
    }

    #[test]
    fn a_limit_that_one_user_passes_allows_none() {
        let found = closed(&mut Simulated::new(2000.0, 0.2, 3), mean(0.1), 64);
        assert_eq!(found.curve.highest, None);
        assert!(!found.curve.points[0].within_limit);
    }

    /// Rates 3 % up or down, latencies 6 %, one step in twenty spoilt altogether: five runs give the same
    /// answer within a tenth.
    #[test]
    fn five_runs_give_the_same_knee() {
        for device in 0..60u64 {
            // From 500 to 200,000 requests a second, from half a millisecond to ten.
            let capacity = 500.0 * 400f64.powf(device as f64 / 60.0);
            let service = 0.0005 * 20f64.powf((device * 7 % 60) as f64 / 60.0);
            let runs = (0..5).map(|run| {
                let found =
                    closed(&mut Simulated::new(capacity, service, device * 5 + run), mean(0.1), 1 << 20)
                        .curve;
                (found.knee_workers.expect("a knee"), found.highest.expect("a limit"))
            });
            let runs: Vec<(f64, f64)> = runs.collect();
            for value in [|run: &(f64, f64)| run.0, |run: &(f64, f64)| run.1] {
                let middle = median(&runs.iter().map(value).collect::<Vec<_>>());
                for run in &runs {
                    let off = (value(run) / middle - 1.0).abs();
                    // Of one user more or less there is no tenth.
                    assert!(
                        off <= 0.10 || (value(run) - middle).abs() <= 1.0,
                        "{capacity}, {service}: {runs:?}"
                    );
                }
            }
        }
    }
}
