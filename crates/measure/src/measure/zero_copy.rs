//! Whether blocks go out without a copy (SEND_ZC), by trial on the path.
//!
//! Each byte then crosses the memory bus twice in place of four times, and no CPU reads it: at 100 Gb/s and more that
//! is what limits. It costs as well: pages are pinned by block, a completion comes twice, and what the device still
//! reads is no free block. Where packets pass over no wire (loopback, veth) the kernel copies all the same
//! (`skb_orphan_frags_rx`), and it is not tried.

use super::Stages;
use super::flow::Flow;
use super::network::whole_path;
use super::observed::Observed;
use super::peers::Peers;
use super::product::ZeroCopyUse;
use super::statistics::median;
use super::streams::MethodTrial;
use super::transfer;
use super::window::WindowSpec;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::topology::DRIVERS_WITHOUT_WIRE;
use linerate_model::plan::RunFlow;
use linerate_model::plan::schedule::SETTLING_TRIPS;
use linerate_transport::flow::stream::SendMethod;
use std::time::Duration;

/// What a user sees of it.
pub(super) const NAME: &str = "with and without a copy";
/// Each way is tried so often, in turns.
const TURNS: usize = 2;
const WINDOWS: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(150), window: Duration::from_millis(300), repeats: 1 };
/// What is better by less may be the machine's own change from one trial to the next.
const CLEARLY: f64 = 1.05;
const WAYS: [SendMethod; 2] = [SendMethod::Write, SendMethod::Zerocopy];

/// What was seen of one way, a figure for each turn.
#[derive(Default)]
struct WaySamples {
    rates: Vec<f64>,
    cpu_seconds_per_gb: Vec<f64>,
    sends: ZeroCopyUse,
}

/// Where the user has named none: the way that the path is better with. An error where the peer is gone.
pub(super) fn choose(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    if stages.goal.zero_copy.is_some() || !is_worth_a_trial(stages) || stages.stopped() {
        return Ok(());
    }
    let block_bytes = stages.plan.sources.first().map_or(0, |source| source.block_bytes);
    let flow = Flow { windows: WINDOWS, ..whole_path(stages, Protocol::Tcp) };
    stages.started(flow.stage, NAME, WINDOWS);
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
    let faster = above(&without.rates, &copy.rates, CLEARLY);
    let cheaper = above(&copy.cpu_seconds_per_gb, &without.cpu_seconds_per_gb, CLEARLY);
    let as_fast = median(&without.rates) * CLEARLY >= median(&copy.rates);
    without.sends.copied_share() < 0.5 && without.sends.sends > 0 && (faster || cheaper && as_fast)
}

#[cfg(test)]
mod tests {
    use super::*;

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
