//! Whether a figure is to be trusted: what held the stage instead of the thing that was measured, and flags for the reader.

use super::product::{HeldBy, Measurement, ReceiverResult};
use super::window::Seen;

/// A core busier than this has nothing left.
const SATURATED: f64 = 0.95;
/// A lane's thread that used this much of its core could not have done more.
const THREAD_SATURATED: f64 = 0.90;
/// Share of a quota's periods that were throttled from which on the quota is what held.
const THROTTLED: f64 = 0.25;
/// A quota that is used to this share held us, even where few periods show throttling.
const QUOTA_USED: f64 = 0.85;
/// Steal above this means that another machine on the same host takes our time.
const STEAL: f64 = 0.05;
/// Samples wider apart than this do not deserve one number.
pub(super) const SPREAD: f64 = 0.10;
/// Datagram loss that is worth a flag.
const LOSS: f64 = 0.001;

/// What held the stage, if not the thing measured. The other host counts first: a starved receiver makes us wait, not the
/// other way round.
pub fn held_by(seen: &Seen, receiver: Option<&ReceiverResult>) -> Option<HeldBy> {
    if let Some(receiver) = receiver
        && peer_held(receiver)
    {
        return Some(HeldBy::Peer);
    }
    let cpu_cores = seen.cpu_seconds / seen.seconds.max(1e-9);
    if seen.quota_cores > 0.0 && (seen.throttled > THROTTLED || cpu_cores > QUOTA_USED * seen.quota_cores) {
        return Some(HeldBy::Quota);
    }
    if seen.workers.iter().any(|worker| worker.cpu_share > THREAD_SATURATED) {
        return Some(HeldBy::Cpu);
    }
    None
}

fn peer_held(receiver: &ReceiverResult) -> bool {
    receiver.busiest_thread > THREAD_SATURATED
        || (receiver.quota_cores > 0.0 && receiver.throttled > THROTTLED)
}

/// Sets the flags that follow from the figures themselves; the stages add their own (`page-cache`, `short-file`).
pub fn flag(measurement: &mut Measurement, seen: &Seen, cores_used: &[u32]) {
    let mut add = |condition: bool, flag: &str| {
        if condition && !measurement.flags.iter().any(|known| known == flag) {
            measurement.flags.push(flag.to_string());
        }
    };
    let used = || seen.cores.iter().filter(|core| cores_used.is_empty() || cores_used.contains(&core.core));
    add(used().any(|core| core.busy() > SATURATED), "core-saturated");
    add(used().any(|core| core.steal > STEAL), "steal");
    add(seen.quota_cores > 0.0 && seen.throttled > 0.0, "quota");
    add(measurement.spread > SPREAD, "spread");
    add(measurement.loss > LOSS, "loss");
    add(seen.cut_short, "cut-short");
}

#[cfg(test)]
mod tests {
    use super::super::window::WorkerSeen;
    use super::*;

    fn seen(cpu_share: f64, quota_cores: f64, throttled: f64) -> Seen {
        let worker = WorkerSeen { cpu_share, ..WorkerSeen::default() };
        Seen {
            seconds: 1.0,
            cpu_seconds: cpu_share,
            quota_cores,
            throttled,
            workers: vec![worker],
            ..Seen::default()
        }
    }

    #[test]
    fn who_held_the_stage() {
        assert_eq!(held_by(&seen(0.3, 0.0, 0.0), None), None);
        assert_eq!(held_by(&seen(0.97, 0.0, 0.0), None), Some(HeldBy::Cpu));
        assert_eq!(held_by(&seen(0.39, 0.4, 0.9), None), Some(HeldBy::Quota));
        assert_eq!(held_by(&seen(0.1, 0.4, 0.0), None), None);
        let starved = ReceiverResult { throttled: 0.8, quota_cores: 0.1, ..ReceiverResult::default() };
        assert_eq!(held_by(&seen(0.3, 0.0, 0.0), Some(&starved)), Some(HeldBy::Peer));
    }
}
