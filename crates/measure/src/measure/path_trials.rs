//! What is chosen by trial on the path, before its rounds.
//!
//! How many reads a worker keeps in flight: those of the plan, unless fewer carry clearly more. What is in flight may
//! no longer be in the cache when it is copied out: on a virtual machine whose neighbours fill
//! the cache a path with eight reads of 1 MiB was seen at half of the rate of one with four, for minutes, and at other
//! times not. Fewer that carry as much gain nothing, and a trial of a second cannot tell them from those that carry a
//! tenth less: on a machine whose rates change by that from one second to the next it chose two in some runs, and the
//! path then did 80 % of what the disk did.
//!
//! Whether blocks go out without a copy (SEND_ZC). Each byte then crosses the memory bus twice in place of four times,
//! and no CPU reads it: at 100 Gb/s and more that is what limits. It costs as well: pages are pinned by block, a
//! completion comes twice, and what the device still reads is not a free block. Where packets pass over no wire (loopback,
//! veth) the kernel copies all the same (`skb_orphan_frags_rx`), and it is not tried.

use super::flow::Flow;
use super::network::whole_path;
use super::observed::Observed;
use super::peers::Peers;
use super::product::{ReadsTrial, ZeroCopyUse};
use super::statistics::median;
use super::streams::MethodTrial;
use super::window::WindowSpec;
use super::{Stages, transfer};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::topology::DRIVERS_WITHOUT_WIRE;
use linerate_model::plan::RunFlow;
use linerate_model::plan::schedule::SETTLING_TRIPS;
use linerate_transport::flow::stream::SendMethod;
use std::time::Duration;

/// What a user sees of the trial of reads in flight.
pub(super) const READS_TRIAL: &str = "reads in flight";
/// What a user sees of the trial of sending without a copy.
pub(super) const COPY_TRIAL: &str = "with and without a copy";
/// Each number of reads and each way of sending is tried so often, in turns.
const TURNS: usize = 2;
const WINDOWS: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(150), window: Duration::from_millis(300), repeats: 1 };

/// Fewer reads that carry this times the rate carry clearly more.
const CLEARLY_MORE: f64 = 1.1;
/// Fewer reads in flight than one being read while one waits make no pipeline.
const FEWEST_READS: u32 = 2;
/// So many reads in flight carry the rate of most machines.
const USUAL_READS: u32 = 4;

/// A way that is better by less may be the machine's own change from one trial to the next.
const CLEARLY_BETTER: f64 = 1.05;
const WAYS: [SendMethod; 2] = [SendMethod::Write, SendMethod::Zerocopy];

/// Tries a half and a quarter of what the plan has beside it, and takes what carries clearly more; what the user
/// has named stays. An error where the peer is gone.
pub(super) fn choose_reads(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    let planned = stages.path_workers().iter().map(|worker| worker.queue_depth).max();
    // What comes in is read by nobody.
    let planned = planned.filter(|_| !stages.goal.flow.receives());
    let Some((planned, protocol)) = planned.zip(stages.goal.protocols.first().copied()) else {
        return Ok(());
    };
    let depths = to_try(planned);
    // Across a long path a trial would see nothing but slow start, and what is in flight there is TCP's matter.
    let far = stages.round_trip_seconds * SETTLING_TRIPS > WINDOWS.warm_up.as_secs_f64();
    if depths.len() < 2 || planned < FEWEST_READS || far || stages.stopped() {
        return Ok(());
    }
    let flow = Flow { windows: WINDOWS, ..whole_path(stages, protocol) };
    stages.started(flow.stage, READS_TRIAL, WINDOWS);
    let observe = |reads: u32| -> Result<Option<Vec<f64>>, String> {
        stages.reads = Some(reads);
        let watched = transfer::observe(stages, peers, &flow);
        stages.reads = None;
        Ok(watched?.map(|observed| observed.windows.samples).filter(|samples| !samples.is_empty()))
    };
    let Some(trials) = try_in_turns(&depths, observe)? else { return Ok(()) };
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
    let usual = if planned > 4 * USUAL_READS { USUAL_READS } else { planned / 4 };
    let mut depths: Vec<u32> =
        [usual, planned / 4, planned / 2, planned].map(|reads| reads.max(FEWEST_READS)).to_vec();
    depths.dedup();
    depths
}

/// All depths, and once more the one that seems better beside the planned one: of three depths on a disk whose rate
/// changes from one second to the next, two turns favour fewer reads once in four times.
fn try_in_turns(
    depths: &[u32],
    mut observe: impl FnMut(u32) -> Result<Option<Vec<f64>>, String>,
) -> Result<Option<Vec<ReadsTrial>>, String> {
    let untried = |reads: &u32| ReadsTrial { queue_depth: *reads, ..ReadsTrial::default() };
    let mut trials: Vec<ReadsTrial> = depths.iter().map(untried).collect();
    let mut in_turn = depths.to_vec();
    for _ in 0..2 {
        for _ in 0..TURNS {
            for trial in trials.iter_mut().filter(|trial| in_turn.contains(&trial.queue_depth)) {
                let Some(samples) = observe(trial.queue_depth)? else { return Ok(None) };
                trial.samples.extend(samples);
                trial.bytes_per_second = median(&trial.samples);
            }
        }
        in_turn =
            better(&trials).map_or(Vec::new(), |(best, planned)| vec![best.queue_depth, planned.queue_depth]);
    }
    Ok(Some(trials))
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
        self.bytes_per_second > CLEARLY_MORE * other.bytes_per_second
            && least.is_finite()
            && least > most
            && other.bytes_per_second > 0.0
    }
}

/// What was seen of one way, a figure for each turn.
#[derive(Default)]
struct WaySamples {
    rates: Vec<f64>,
    cpu_seconds_per_gb: Vec<f64>,
    sends: ZeroCopyUse,
}

/// Where the user has named none: the way that the path is better with. An error where the peer is gone.
pub(super) fn choose_copy(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    if stages.goal.zero_copy.is_some() || !is_worth_a_trial(stages) || stages.stopped() {
        return Ok(());
    }
    let block_bytes = stages.plan.sources.first().map_or(0, |source| source.block_bytes);
    let flow = Flow { windows: WINDOWS, ..whole_path(stages, Protocol::Tcp) };
    stages.started(flow.stage, COPY_TRIAL, WINDOWS);
    let mut tried = WAYS.map(|_| WaySamples::default());
    for _ in 0..TURNS {
        for (way, tried) in WAYS.iter().zip(&mut tried) {
            stages.zero_copy = *way == SendMethod::Zerocopy;
            let watched = transfer::observe(stages, peers, &flow);
            stages.zero_copy = false;
            match watched? {
                Some(observed) if !observed.windows.samples.is_empty() => tried.add(&observed),
                _ => return Ok(()),
            }
        }
    }
    stages.zero_copy = is_better(&tried);
    let chosen = if stages.zero_copy { SendMethod::Zerocopy } else { SendMethod::Write };
    let trial = |(method, tried): (SendMethod, &WaySamples)| MethodTrial {
        method,
        write_bytes: u32::try_from(block_bytes).unwrap_or(u32::MAX),
        congestion_control: None,
        bytes_per_second: median(&tried.rates),
        samples: tried.rates.clone(),
        cpu_seconds_per_gb: median(&tried.cpu_seconds_per_gb),
        by_peer: false,
        chosen: method == chosen,
    };
    if stages.zero_copy {
        stages.note(format!(
            "sends without a copy: {} at {:.3} CPU s/GB on the path, {} at {:.3} with one",
            show_bytes_rate(median(&tried[1].rates)),
            median(&tried[1].cpu_seconds_per_gb),
            show_bytes_rate(median(&tried[0].rates)),
            median(&tried[0].cpu_seconds_per_gb)
        ));
    }
    stages.method_trials = WAYS.into_iter().zip(&tried).map(trial).collect();
    Ok(())
}

/// From here to a peer that stores nothing, over TCP, through io_uring, on a wire, near enough for a trial to see more than slow start, and as fast as it goes.
fn is_worth_a_trial(stages: &Stages<'_>) -> bool {
    let Stages { goal, plan, machine, .. } = stages;
    let far = stages.round_trip_seconds * SETTLING_TRIPS > WINDOWS.warm_up.as_secs_f64();
    let wired = |name: &str| {
        let nic = machine.nic(name);
        nic.and_then(|nic| nic.driver.known())
            .is_some_and(|driver| !DRIVERS_WITHOUT_WIRE.contains(&driver.as_str()))
    };
    goal.protocols.first() == Some(&Protocol::Tcp)
        && goal.flow == RunFlow::DiskToNetwork
        && goal.rate_limit.is_none()
        && stages.io_uring
        && !plan.loopback
        && !far
        && plan.paths.iter().any(|path| path.nic.as_deref().is_some_and(wired))
}

impl WaySamples {
    fn add(&mut self, observed: &Observed) {
        self.rates.extend(&observed.windows.samples);
        let gb = observed.windows.bytes as f64 * 1e-9;
        // What the kernel copies in softirq is part of what a way costs.
        let seconds = observed.windows.busy_seconds.max(observed.windows.host.cpu_seconds);
        self.cpu_seconds_per_gb.push(if gb > 0.0 { seconds / gb } else { f64::INFINITY });
        self.sends.join(observed.zero_copy.unwrap_or_default());
    }
}

/// No copy is better where there really is none, and it carries clearly more or costs clearly less CPU time without
/// carrying less; each time that it was tried.
fn is_better([copy, without]: &[WaySamples; 2]) -> bool {
    let above = |a: &[f64], b: &[f64], times: f64| {
        let least = a.iter().copied().fold(f64::INFINITY, f64::min);
        let most = b.iter().copied().fold(0.0, f64::max);
        !a.is_empty() && !b.is_empty() && least > times * most
    };
    let faster = above(&without.rates, &copy.rates, CLEARLY_BETTER);
    let cheaper = above(&copy.cpu_seconds_per_gb, &without.cpu_seconds_per_gb, CLEARLY_BETTER);
    let as_fast = median(&without.rates) * CLEARLY_BETTER >= median(&copy.rates);
    without.sends.copied_share() < 0.5 && without.sends.sends > 0 && (faster || cheaper && as_fast)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of 2, 4 and 8 reads that give these rates in turn, the last of them from then on.
    fn trials<const TRIALS: usize>(rates: [[f64; TRIALS]; 3]) -> Vec<ReadsTrial> {
        let mut rates = rates.map(|rates| rates.into_iter().chain(std::iter::repeat(rates[TRIALS - 1])));
        let observe = |reads: u32| Ok(rates[reads.ilog2() as usize - 1].next().map(|rate| vec![rate]));
        try_in_turns(&[2, 4, 8], observe).ok().flatten().unwrap_or_default()
    }

    fn chosen<const TRIALS: usize>(rates: [[f64; TRIALS]; 3]) -> u32 {
        better(&trials(rates)).map_or(8, |(chosen, _)| chosen.queue_depth)
    }

    #[test]
    fn fewer_than_planned_where_they_carry_clearly_more() {
        // A plain machine while its neighbours fill the cache, and at another time.
        assert_eq!(chosen([[2.5, 2.7], [3.3, 3.4], [1.9, 1.8]]), 4);
        assert_eq!(chosen([[2.6, 2.6], [3.2, 3.2], [3.2, 3.2]]), 8);
        // The same machine while its rates change from trial to trial, three runs.
        assert_eq!(chosen([[1.59, 0.22], [1.50, 1.31], [1.39, 1.61]]), 8);
        assert_eq!(chosen([[1.28, 1.67], [1.42, 1.64], [1.74, 1.86]]), 8);
        assert_eq!(chosen([[1.69, 1.98], [2.10, 1.71], [1.56, 1.77]]), 8);
        // A disk with a latency that asks for depth, and one for which two are enough.
        assert_eq!(chosen([[0.2, 0.2], [0.4, 0.4], [0.8, 0.8]]), 8);
        assert_eq!(chosen([[0.05, 0.05], [0.0502, 0.0501], [0.0499, 0.05]]), 8);
    }

    #[test]
    fn fewer_reads_that_seem_better_are_tried_again_and_nothing_else_is() {
        // Two turns of a disk at half of its rate by chance, and the rate of before in the next.
        assert_eq!(chosen([[2.2, 2.4, 1.9, 2.0], [1.9, 2.0, 1.9, 2.0], [1.2, 1.8, 2.2, 2.1]]), 8);
        assert_eq!(chosen([[2.2, 2.4, 2.3, 2.2], [1.9, 2.0, 1.9, 2.0], [1.2, 1.8, 1.4, 1.3]]), 2);
        let tried = |rates| trials(rates).iter().map(|trial| trial.samples.len()).collect::<Vec<_>>();
        assert_eq!(tried([[2.0], [2.0], [2.0]]), [2, 2, 2]);
        assert_eq!(tried([[2.0], [2.6], [2.0]]), [2, 4, 4]);
        assert_eq!(try_in_turns(&[2, 4], |_| Ok(None)), Ok(None), "a trial without a window");
    }

    #[test]
    fn a_depth_that_the_user_has_set_is_tried_beside_usual_ones() {
        assert_eq!(to_try(8), [2, 4, 8]);
        assert_eq!(to_try(64), [4, 16, 32, 64]);
        assert_eq!((to_try(4), to_try(2), to_try(1)), (vec![2, 4], vec![2], vec![2]));
    }

    fn tried(rates: [f64; 2], cpu: [f64; 2], sends: u64, copied: u64) -> WaySamples {
        let sends = ZeroCopyUse { sends, copied, ..ZeroCopyUse::default() };
        WaySamples { rates: rates.to_vec(), cpu_seconds_per_gb: cpu.to_vec(), sends }
    }

    #[test]
    fn no_copy_is_taken_where_it_is_none_and_pays() {
        let copy = || tried([11e9, 11.2e9], [0.20, 0.21], 0, 0);
        assert!(is_better(&[copy(), tried([11e9, 11.1e9], [0.10, 0.11], 100, 0)]), "costs half");
        assert!(is_better(&[copy(), tried([14e9, 14.2e9], [0.20, 0.21], 100, 2)]), "carries more");
        assert!(!is_better(&[copy(), tried([14e9, 14.2e9], [0.10, 0.11], 100, 100)]), "copied all the same");
        assert!(!is_better(&[copy(), tried([14e9, 14.2e9], [0.10, 0.11], 0, 0)]), "refused");
        assert!(!is_better(&[copy(), tried([8e9, 8.2e9], [0.10, 0.11], 100, 0)]), "carries less");
        assert!(!is_better(&[copy(), tried([11.3e9, 10.9e9], [0.19, 0.22], 100, 0)]), "within the noise");
        assert!(!is_better(&[WaySamples::default(), WaySamples::default()]));
    }
}
