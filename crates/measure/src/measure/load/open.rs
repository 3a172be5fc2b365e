//! The open loop: requests on schedule, whatever the device does, and latency from the intended start. The
//! highest rate that keeps a limit.

use super::{Keep, LoadCurve, LoadEnd, Offer, RequestServer, Searched, Steps};

/// The rate is found to within this ratio.
const CLOSE: f64 = 1.03;
/// Part of the capacity that is tried first, and what it is halved to at least.
const FIRST: f64 = 0.5;
const LEAST: f64 = 1.0 / 4096.0;
/// Up from a rate that keeps the limit.
const UP: f64 = 1.25;
/// Repeats of the lowest rate that was too much, and how often that may turn out wrong.
const LAST_WORD: usize = 7;
const MOST_DOUBTS: usize = 4;
/// The highest rate has to hold so often in all.
const HOLDS: usize = 5;
/// Back from one that did not hold in the end.
const BACK: f64 = 0.97;
/// Steps back before it is said that no rate holds.
const MOST_BACK: usize = 8;

/// One rate.
pub(crate) fn at_rate(
    server: &mut dyn RequestServer,
    keep: Keep,
    workers: u32,
    requests_per_second: f64,
) -> Searched {
    let mut steps = Steps::new(keep);
    let offer = Offer { workers, requests_per_second: Some(requests_per_second) };
    let ended = steps.measure(server, offer, 1).err();
    searched(&steps, keep, None, ended)
}

/// The highest rate under the limit, with at most so many requests in flight.
pub(crate) fn highest_rate(server: &mut dyn RequestServer, keep: Keep, workers: u32) -> Searched {
    let mut steps = Steps::new(keep);
    let mut highest = None;
    let ended = search(server, &mut steps, workers, &mut highest).err();
    searched(&steps, keep, highest, ended)
}

fn searched(steps: &Steps, keep: Keep, highest: Option<f64>, ended: Option<LoadEnd>) -> Searched {
    // What was done without a schedule only told where to begin.
    let paced = steps.points().into_iter().filter(|(offer, _)| offer.requests_per_second.is_some());
    let points: Vec<_> = paced.map(|(_, point)| point).collect();
    let at = |rate: f64| points.iter().position(|point| point.offered == Some(rate));
    let knee = highest.and_then(at);
    Searched {
        curve: LoadCurve { knee, points, highest, limit: keep.words(), ..LoadCurve::default() },
        ended,
    }
}

fn search(
    server: &mut dyn RequestServer,
    steps: &mut Steps,
    workers: u32,
    highest: &mut Option<f64>,
) -> Result<(), LoadEnd> {
    let all = Offer { workers: server.workers(workers), requests_per_second: None };
    let capacity = steps.measure(server, all, 1)?.operations_per_second;
    if capacity <= 0.0 {
        return Err(LoadEnd::Failed(
            "no request was answered, so that there is no rate to begin with".into(),
        ));
    }
    let paced = |rate: f64| Offer { workers, requests_per_second: Some(rounded(rate)) };
    let mut low = capacity * FIRST;
    let mut high = None;
    while steps.used(server, paced(low))? > 1.0 {
        high = Some(low);
        low /= 2.0;
        if low < capacity * LEAST {
            return Ok(()); // no rate keeps it
        }
    }
    *highest = Some(rounded(low));
    for _ in 0..MOST_DOUBTS {
        let mut above = match high.take() {
            Some(high) => high,
            None => loop {
                let next = low * UP;
                if steps.used(server, paced(next))? > 1.0 {
                    break next;
                }
                low = next;
                *highest = Some(rounded(low));
            },
        };
        while above / low > CLOSE {
            let middle = (low * above).sqrt();
            if steps.used(server, paced(middle))? <= 1.0 {
                low = middle
            } else {
                above = middle
            }
            *highest = Some(rounded(low));
        }
        // What lies above has to be too much once more: a neighbour's noise may have said so before.
        if !steps.measure(server, paced(above), LAST_WORD)?.within_limit {
            break;
        }
        low = above;
        *highest = Some(rounded(low));
    }
    for _ in 0..MOST_BACK {
        if steps.measure(server, paced(low), HOLDS)?.within_limit {
            break;
        }
        low *= BACK;
        *highest = Some(rounded(low));
    }
    Ok(())
}

/// Three digits that say something are enough for a schedule, and are read more easily.
fn rounded(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.max(1e-9).log10().floor() - 3.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::super::{Keep, Statistic};
    use super::*;
    use crate::measure::statistics::median;

    const P99: Keep = Keep { of: Statistic::P99, limit: 0.02 };

    #[test]
    fn the_highest_rate_lies_below_the_capacity_and_keeps_the_limit() {
        let mut disk = Simulated { noise: 0.0, ..Simulated::new(2000.0, 0.002, 1) };
        let found = highest_rate(&mut disk, P99, 128).curve;
        let highest = found.highest.expect("a rate");
        let point = &found.points[found.knee.expect("its point")];
        assert_eq!(point.offered, Some(highest));
        assert!(point.within_limit && highest < 2000.0);
        let right = disk.highest(P99.limit);
        assert!((highest / right - 1.0).abs() < 0.04, "{highest}, should be {right}");
    }

    #[test]
    fn one_rate_is_one_point() {
        let found = at_rate(&mut Simulated::new(2000.0, 0.002, 1), P99, 64, 500.0).curve;
        assert_eq!((found.points.len(), found.highest), (1, None));
        assert_eq!(found.points[0].offered, Some(500.0));
    }

    #[test]
    fn a_limit_below_the_device_is_kept_by_no_rate() {
        let keep = Keep { limit: 0.0001, ..P99 };
        let found = highest_rate(&mut Simulated::new(2000.0, 0.002, 1), keep, 64);
        assert_eq!((found.curve.highest, found.ended), (None, None));
        assert!(!found.curve.points.is_empty());
    }

    #[test]
    fn five_runs_give_the_same_rate() {
        for device in 0..60u64 {
            let capacity = 500.0 * 400f64.powf(device as f64 / 60.0);
            let runs = (0..5).map(|run| {
                let mut disk = Simulated::new(capacity, 0.002, device * 5 + run);
                highest_rate(&mut disk, P99, 256).curve.highest.expect("a rate")
            });
            let runs: Vec<f64> = runs.collect();
            let middle = median(&runs);
            assert!(runs.iter().all(|run| (run / middle - 1.0).abs() <= 0.10), "{capacity}: {runs:?}");
        }
    }
}
