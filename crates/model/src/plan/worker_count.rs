//! How many workers a NIC gets, and how many reads they keep in flight: by its rate, not by the number of files. What
//! workers were measured to cost in an earlier run comes before the default.
//!
//! One volume over one fast NIC would else be one thread and one connection, which ends at what one CPU copies.

use linerate_facts::fact::Fact;
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::counted;
use linerate_machine::rates::published::CpuCost;
use serde::{Deserialize, Serialize};

/// A NIC that is so little faster than its workers gets no further one: a data sheet's rate is nobody's to a
/// percent.
const SLACK: f64 = 0.02;
/// How long a disk under load takes for a read of a megabyte: what several NVMe drives and volumes were seen at,
/// 1.2 to 1.4 ms. A trial on the path then takes fewer where fewer do.
const USUAL_READ_SECONDS: f64 = 1.2e-3;

/// What one worker carries, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkerCarries {
    pub bytes_per_second: f64,
    pub why: String,
}

impl WorkerCarries {
    /// One CPU at a cost that is a default.
    pub(super) fn likely(cost: CpuCost) -> Self {
        WorkerCarries { bytes_per_second: 1e9 / cost.seconds_per_gb, why: format!("likely: {}", cost.source) }
    }

    /// What was measured, as far as that is more than a guess; else the default.
    pub(super) fn measured_or(default: CpuCost, measured: Option<&WorkerCost>) -> Self {
        let likely = WorkerCarries::likely(default);
        let Some(cost) = measured else { return likely };
        let bytes_per_second = cost.bytes_per_second(likely.bytes_per_second);
        if bytes_per_second == likely.bytes_per_second {
            return likely;
        }
        WorkerCarries { bytes_per_second, why: cost.why() }
    }

    /// One CPU at a cost that was measured or given.
    pub(super) fn at_cost(seconds_per_gb: f64) -> Self {
        WorkerCarries {
            bytes_per_second: 1e9 / seconds_per_gb,
            why: format!("{seconds_per_gb:.2} CPU seconds per GB, measured or given"),
        }
    }

    /// Workers that a rate takes.
    pub(super) fn workers(&self, bytes_per_second: f64) -> u32 {
        let exact = bytes_per_second / self.bytes_per_second - SLACK;
        if exact.is_finite() { exact.ceil().clamp(1.0, f64::from(u16::MAX)) as u32 } else { 1 }
    }

    /// `100 Gb/s ÷ 42 Gb/s a worker (likely: …)`.
    pub(super) fn division(&self, bytes_per_second: f64) -> String {
        let (rate, one) = (show_bits_rate(bytes_per_second), show_bits_rate(self.bytes_per_second));
        format!("{rate} ÷ {one} that one carries ({})", self.why)
    }
}

/// The workers of one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NicCount {
    pub workers: u32,
    /// What a user should know of the choice.
    pub note: Option<String>,
}

/// What is known of a NIC and of what feeds it.
pub(super) struct NicNeeds<'a> {
    pub name: &'a str,
    /// Payload, bytes per second.
    pub rate: &'a Fact<f64>,
    pub carries: Option<WorkerCarries>,
    /// Sources that feed it: each is read by one worker at least.
    pub sources: u32,
    /// CPUs that its workers may have to themselves.
    pub cpus: u32,
}

/// As many as the rate takes, one a source at least and one a CPU at most; `asked`: what the user has named.
pub(super) fn of_nic(needs: &NicNeeds<'_>, asked: Option<u32>) -> NicCount {
    let NicNeeds { name, sources, cpus, .. } = *needs;
    if let Some(asked) = asked {
        let workers = asked.max(sources);
        let note = if workers > asked {
            let few = counted(asked, "worker");
            Some(format!("--workers: {few} of {name} cannot read {sources} sources: it has one for each"))
        } else if workers > cpus {
            let (workers, cpus) = (counted(workers, "worker"), counted(cpus, "CPU"));
            Some(format!("--workers: {workers} of {name} share {cpus}, and wait for one another"))
        } else {
            None
        };
        return NicCount { workers, note };
    }
    let (Some(rate), Some(carries)) = (needs.rate.known(), &needs.carries) else {
        return NicCount { workers: sources, note: None };
    };
    let wanted = carries.workers(*rate);
    let workers = wanted.min(cpus).max(sources);
    let division = carries.division(*rate);
    let note = if workers < wanted {
        let (all, there) = (counted(wanted, "worker"), counted(workers, "worker"));
        Some(format!("{there} on {name}, one on each CPU it may use; its rate takes {all}: {division}"))
    } else if workers > sources {
        Some(format!("{} on {name}: {division}; --workers sets it", counted(workers, "worker")))
    } else {
        None
    };
    NicCount { workers, note }
}

/// Reads that must be in flight to carry a rate (Little's law: what is under way is rate × time).
pub(super) fn reads_for(bytes_per_second: f64, block_bytes: u64) -> u32 {
    let reads = bytes_per_second * USUAL_READ_SECONDS / block_bytes.max(1) as f64;
    if reads.is_finite() { reads.ceil().clamp(0.0, 4096.0) as u32 } else { 0 }
}

/// A worker and its stream, over one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerCost {
    /// CPU seconds of a thread per 10⁹ bytes, from the source to the network, or of the peer's that takes them where
    /// that is more.
    pub seconds_per_gb: f64,
    /// The peer's thread is the one that costs more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_peer: bool,
    /// The most that a worker moved there, bytes per second.
    pub most_bytes_per_second: f64,
    /// When that run began, RFC 3339.
    pub started: String,
}

impl WorkerCost {
    /// What one carries, bytes per second. A thread that works for a tenth of the time shows its cost, and not what
    /// else ends a stream: beyond `default` it counts only as far as one was seen to go.
    pub(super) fn bytes_per_second(&self, default: f64) -> f64 {
        (1e9 / self.seconds_per_gb).min(default.max(self.most_bytes_per_second))
    }

    /// `0.55 CPU seconds per GB, measured in the run of 2026-11-25T11:00:00Z`.
    pub(super) fn why(&self) -> String {
        let at = if self.at_peer { " at the peer" } else { "" };
        format!("{:.2} CPU seconds per GB{at}, measured in the run of {}", self.seconds_per_gb, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cpu_cost;
    use super::*;
    use linerate_facts::protocol::Protocol;
    use proptest::prelude::*;

    fn needs(rate: &Fact<f64>, sources: u32, cpus: u32) -> NicNeeds<'_> {
        let carries = cpu_cost::sending(None, false, Protocol::Tcp, None).map(WorkerCarries::likely);
        NicNeeds { name: "eth0", rate, carries, sources, cpus }
    }

    #[test]
    fn a_fast_nic_gets_as_many_workers_as_its_rate_takes() {
        let rate = Fact::Known(200e9 / 8.0 * 0.99);
        let found = of_nic(&needs(&rate, 1, 64), None);
        assert_eq!(found.workers, 5);
        let note = found.note.expect("a reason");
        assert!(note.contains("÷ 42.0 Gb/s") && note.contains("likely"), "{note}");
        assert_eq!(of_nic(&needs(&rate, 8, 64), None).workers, 8, "one a source at least");
        let few = of_nic(&needs(&rate, 1, 2), None);
        assert_eq!(few.workers, 2);
        assert!(few.note.expect("a reason").contains("takes 5 workers"));
    }

    #[test]
    fn what_a_worker_was_measured_to_carry_comes_before_the_default() {
        let rate = Fact::Known(100e9 / 8.0 * 0.99);
        let of = |seconds_per_gb: f64, most_gigabits: f64| {
            let cost = WorkerCost {
                seconds_per_gb,
                at_peer: false,
                most_bytes_per_second: most_gigabits / 8.0 * 1e9,
                started: "2026-11-25T11:00:00Z".into(),
            };
            let default = cpu_cost::sending(None, false, Protocol::Tcp, None).expect("a default");
            let carries = Some(WorkerCarries::measured_or(default, Some(&cost)));
            of_nic(&NicNeeds { carries, ..needs(&rate, 1, 64) }, None)
        };
        let slow = of(0.8, 9.0);
        assert_eq!(slow.workers, 10, "10 Gb/s a CPU");
        let note = slow.note.expect("a reason");
        assert!(note.contains("÷ 10.0 Gb/s that one carries"), "{note}");
        assert!(note.contains("0.80 CPU seconds per GB, measured in the run of 2026-11-25"), "{note}");
        let cheap = of(0.02, 5.0);
        assert_eq!(cheap.workers, 3, "a slow worker's low cost is not proof that it carries 400 Gb/s");
        assert!(cheap.note.expect("a reason").contains("likely"), "the default counts");
        assert_eq!(of(0.02, 99.0).workers, 1, "one has carried it");
        assert_eq!(of(0.02, 60.0).workers, 2);
    }

    #[test]
    fn a_slow_or_unknown_nic_has_one_a_source() {
        let slow = Fact::Known(25e9 / 8.0);
        assert_eq!(of_nic(&needs(&slow, 1, 64), None), NicCount { workers: 1, note: None });
        let unknown = Fact::unknown("no data sheet");
        assert_eq!(of_nic(&needs(&unknown, 3, 64), None), NicCount { workers: 3, note: None });
    }

    #[test]
    fn what_the_user_names_is_taken_and_too_many_are_named() {
        let rate = Fact::Known(1e9);
        assert_eq!(of_nic(&needs(&rate, 1, 8), Some(2)), NicCount { workers: 2, note: None });
        let few = of_nic(&needs(&rate, 4, 8), Some(2));
        assert_eq!(few.workers, 4, "a source without a worker is not read");
        assert!(few.note.expect("a reason").contains("2 workers of eth0 cannot read 4 sources"));
        let many = of_nic(&needs(&rate, 1, 2), Some(64));
        assert_eq!(many.workers, 64);
        assert!(many.note.expect("a warning").contains("64 workers of eth0 share 2 CPUs"));
    }

    #[test]
    fn reads_in_flight_follow_littles_law() {
        assert_eq!(reads_for(50e9, 1 << 20), 58, "50 GB/s × 1.2 ms = 60 MB");
        assert_eq!(reads_for(50e9, 4 << 20), 15);
        assert_eq!(reads_for(1e9, 1 << 20), 2);
    }

    proptest! {
        #[test]
        fn odd_rates_do_no_harm(rate: f64, seconds: f64, block: u64) {
            let carries = WorkerCarries::at_cost(seconds);
            prop_assert!((1..=u32::from(u16::MAX)).contains(&carries.workers(rate)));
            prop_assert!(reads_for(rate, block) <= 4096);
        }
    }
}
