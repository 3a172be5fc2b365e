//! How many reads a worker keeps in flight, by trial on the path: those of the plan, unless fewer carry clearly more.
//!
//! What is in flight may no longer be in the cache when it is copied out: on a virtual machine whose neighbours fill
//! the cache a path with eight reads of 1 MiB was seen at half of the rate of one with four, for minutes, and at other
//! times not. Fewer that carry as much gain nothing, and a trial of a second cannot tell them from those that carry a
//! tenth less: on a machine whose rates change by that from one second to the next it chose two in some runs, and the
//! path then did 80 % of what the disk did.

use super::Stages;
use super::flow::Flow;
use super::network::whole_path;
use super::peers::Peers;
use super::product::ReadsTrial;
use super::statistics::median;
use super::transfer;
use super::window::WindowSpec;
use linerate_facts::units::show_bytes_rate;
use linerate_model::plan::schedule::SETTLING_TRIPS;
use std::time::Duration;

/// What a user sees of it.
pub(super) const NAME: &str = "reads in flight";
/// Each number is tried so often, in turns.
const TURNS: usize = 2;
const WINDOWS: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(150), window: Duration::from_millis(300), repeats: 1 };
/// This times the rate is clearly more.
const CLEARLY: f64 = 1.1;
/// Fewer than one being read while one waits make no pipeline.
const FEWEST: u32 = 2;
/// Carries the rate of most machines.
const USUAL: u32 = 4;

/// Tries a half and a quarter of what the plan has beside it, and takes what carries clearly more; what the user
/// has named stays. An error where the peer is gone.
pub(super) fn choose(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    let planned = stages.path_workers().iter().map(|worker| worker.queue_depth).max();
    // What comes in is read by nobody.
    let planned = planned.filter(|_| !stages.goal.flow.receives());
    let Some((planned, protocol)) = planned.zip(stages.goal.protocols.first().copied()) else {
        return Ok(());
    };
    let depths = to_try(planned);
    // Across a long path a trial would see nothing but slow start, and what is in flight there is TCP's matter.
    let far = stages.round_trip_seconds * SETTLING_TRIPS > WINDOWS.warm_up.as_secs_f64();
    if depths.len() < 2 || planned < FEWEST || far || stages.stopped() {
        return Ok(());
    }
    let mut rates = vec![Vec::new(); depths.len()];
    let flow = Flow { windows: WINDOWS, ..whole_path(stages, protocol) };
    stages.started(flow.stage, NAME, WINDOWS);
    for _ in 0..TURNS {
        for (reads, rates) in depths.iter().zip(&mut rates) {
            stages.reads = Some(*reads);
            let watched = transfer::observe(stages, peers, &flow);
            stages.reads = None;
            match watched? {
                Some(observed) if !observed.windows.samples.is_empty() => {
                    rates.extend(observed.windows.samples)
                }
                _ => return Ok(()),
            }
        }
    }
    let trials = depths.iter().zip(&rates);
    let trials: Vec<ReadsTrial> = trials
        .map(|(reads, rates)| ReadsTrial {
            queue_depth: *reads,
            bytes_per_second: median(rates),
            samples: rates.clone(),
        })
        .collect();
    if stages.goal.queue_depth.is_none()
        && let Some((chosen, more)) = better(&trials)
    {
        stages.note(format!(
            "{} reads in flight a worker carry more on the path ({}) than {} do ({})",
            chosen.queue_depth,
            show_bytes_rate(chosen.bytes_per_second),
            more.queue_depth,
            show_bytes_rate(more.bytes_per_second)
        ));
        stages.reads = Some(chosen.queue_depth);
    }
    stages.reads_trials = trials;
    Ok(())
}

/// A half and a quarter of what is planned; of many also what is enough on most machines.
fn to_try(planned: u32) -> Vec<u32> {
    let usual = if planned > 4 * USUAL { USUAL } else { planned / 4 };
    let mut depths: Vec<u32> =
        [usual, planned / 4, planned / 2, planned].map(|reads| reads.max(FEWEST)).to_vec();
    depths.dedup();
    depths
}

/// The best of fewer reads than planned where they carry clearly more, with those that were planned.
fn better(trials: &[ReadsTrial]) -> Option<(&ReadsTrial, &ReadsTrial)> {
    let (planned, fewer) = trials.split_last()?;
    let best = fewer.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
    best.carries_clearly_more_than(planned).then_some((best, planned))
}

impl ReadsTrial {
    /// Each time it was tried, and by more than a machine changes from one trial to the next.
    pub(crate) fn carries_clearly_more_than(&self, other: &ReadsTrial) -> bool {
        let least = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let most = other.samples.iter().copied().fold(0.0, f64::max);
        self.bytes_per_second > CLEARLY * other.bytes_per_second
            && least.is_finite()
            && least > most
            && other.bytes_per_second > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tried twice.
    fn of(rates: [[f64; 2]; 3]) -> u32 {
        let trial = |(queue_depth, samples): (u32, [f64; 2])| ReadsTrial {
            queue_depth,
            bytes_per_second: median(&samples),
            samples: samples.to_vec(),
        };
        let trials: Vec<ReadsTrial> = [2, 4, 8].into_iter().zip(rates).map(trial).collect();
        better(&trials).map_or(8, |(chosen, _)| chosen.queue_depth)
    }

    #[test]
    fn fewer_than_planned_where_they_carry_clearly_more() {
        // A plain machine while its neighbours fill the cache, and at another time.
        assert_eq!(of([[2.5, 2.7], [3.3, 3.4], [1.9, 1.8]]), 4);
        assert_eq!(of([[2.6, 2.6], [3.2, 3.2], [3.2, 3.2]]), 8);
        // The same machine while its rates change from trial to trial, three runs.
        assert_eq!(of([[1.59, 0.22], [1.50, 1.31], [1.39, 1.61]]), 8);
        assert_eq!(of([[1.28, 1.67], [1.42, 1.64], [1.74, 1.86]]), 8);
        assert_eq!(of([[1.69, 1.98], [2.10, 1.71], [1.56, 1.77]]), 8);
        // A disk with a latency that asks for depth, and one for which two are enough.
        assert_eq!(of([[0.2, 0.2], [0.4, 0.4], [0.8, 0.8]]), 8);
        assert_eq!(of([[0.05, 0.05], [0.0502, 0.0501], [0.0499, 0.05]]), 8);
    }

    #[test]
    fn a_depth_that_the_user_has_set_is_tried_beside_usual_ones() {
        assert_eq!(to_try(8), [2, 4, 8]);
        assert_eq!(to_try(64), [4, 16, 32, 64]);
        assert_eq!((to_try(4), to_try(2), to_try(1)), (vec![2, 4], vec![2], vec![2]));
    }
}
