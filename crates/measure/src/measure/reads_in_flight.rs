//! How many reads a worker keeps in flight, by trial on the path: the fewest that carry the rate.
//!
//! More than Little's law needs buys nothing, and what is in flight may no longer be in the cache when it is
//! copied out: on a virtual machine whose neighbours fill the cache a path with eight reads of 1 MiB was seen at
//! half of the rate of one with four, for minutes, and at other times not.

use super::Stages;
use super::network::{Flow, whole_path};
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
/// The fewest that reach this share of the best are taken.
const CARRIES: f64 = 0.97;
/// Fewer than one being read while one waits make no pipeline.
const FEWEST: u32 = 2;
/// Carries the rate of most machines.
const USUAL: u32 = 4;

/// Tries a half and a quarter of what the plan has, and takes the fewest that carry the rate; what the user
/// has named stays. An error where the peer is gone.
pub(super) fn choose(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    let planned = stages.plan.workers.iter().map(|worker| worker.queue_depth).max();
    let Some((planned, protocol)) = planned.zip(stages.goal.protocols.first().copied()) else {
        return Ok(());
    };
    let tried = to_try(planned);
    // Across a long way a trial would see nothing but slow start, and what is in flight there is TCP's matter.
    let far = stages.round_trip_seconds * SETTLING_TRIPS > WINDOWS.warm_up.as_secs_f64();
    if tried.len() < 2 || planned < FEWEST || far || stages.stopped() {
        return Ok(());
    }
    let mut rates = vec![Vec::new(); tried.len()];
    let flow = Flow { windows: WINDOWS, ..whole_path(stages, protocol) };
    stages.started(flow.stage, NAME, WINDOWS);
    for _ in 0..TURNS {
        for (reads, rates) in tried.iter().zip(&mut rates) {
            stages.reads = Some(*reads);
            let seen = transfer::observe(stages, peers, &flow);
            stages.reads = None;
            match seen? {
                Some(observed) if !observed.seen.samples.is_empty() => rates.extend(observed.seen.samples),
                _ => return Ok(()),
            }
        }
    }
    let trials = tried.iter().zip(&rates);
    let trials: Vec<ReadsTrial> = trials
        .map(|(reads, rates)| ReadsTrial {
            queue_depth: *reads,
            bytes_per_second: median(rates),
            samples: rates.clone(),
        })
        .collect();
    if stages.goal.queue_depth.is_none() {
        let chosen = fewest(&trials);
        if chosen.queue_depth < planned {
            stages.note(format!(
                "{} reads in flight a worker carry the rate of the path ({}): {planned} bring no more",
                chosen.queue_depth,
                show_bytes_rate(chosen.bytes_per_second)
            ));
            stages.reads = Some(chosen.queue_depth);
        }
    }
    stages.reads_trials = trials;
    Ok(())
}

/// A half and a quarter of what is planned; of many also what is enough on most machines.
fn to_try(planned: u32) -> Vec<u32> {
    let usual = if planned > 4 * USUAL { USUAL } else { planned / 4 };
    let mut tried: Vec<u32> =
        [usual, planned / 4, planned / 2, planned].map(|reads| reads.max(FEWEST)).to_vec();
    tried.dedup();
    tried
}

fn fewest(trials: &[ReadsTrial]) -> &ReadsTrial {
    let best = trials.iter().map(|trial| trial.bytes_per_second).fold(0.0, f64::max);
    let carries = |trial: &&ReadsTrial| trial.bytes_per_second >= CARRIES * best;
    trials.iter().find(carries).unwrap_or(&trials[trials.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rates: [f64; 3]) -> u32 {
        let trial = |(queue_depth, bytes_per_second)| ReadsTrial {
            queue_depth,
            bytes_per_second,
            ..ReadsTrial::default()
        };
        fewest(&[2, 4, 8].into_iter().zip(rates).map(trial).collect::<Vec<_>>()).queue_depth
    }

    #[test]
    fn the_fewest_that_carry_the_rate() {
        // The path of a plain machine in its two states, and a disk with a latency that asks for depth.
        assert_eq!(of([2.6e9, 3.2e9, 3.2e9]), 4);
        assert_eq!(of([2.6e9, 3.3e9, 1.9e9]), 4);
        assert_eq!(of([200e6, 400e6, 800e6]), 8);
        assert_eq!(of([50e6, 50.2e6, 49.9e6]), 2);
    }

    #[test]
    fn a_depth_that_the_user_has_set_is_tried_beside_usual_ones() {
        assert_eq!(to_try(8), [2, 4, 8]);
        assert_eq!(to_try(64), [4, 16, 32, 64]);
        assert_eq!((to_try(4), to_try(2), to_try(1)), (vec![2, 4], vec![2], vec![2]));
    }
}
