//! What was seen in windows of time: of each worker, and of the host.

use crate::measure::access::DeviceUse;
use crate::measure::others::{OthersUse, others_cpus};
use crate::measure::product::{CpuShare, QuotaUse, WorkerResult};
use linerate_facts::counters::ProcessesUse;
use linerate_facts::usage::CoreUse;

/// What was seen of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerObservation {
    /// Mean over all windows, bytes per second.
    pub bytes_per_second: f64,
    /// CPU time ÷ time.
    pub cpu_share: f64,
    /// Share of the time waiting for the source.
    pub waiting_source: f64,
    /// Share of the time waiting for the sink.
    pub waiting_sink: f64,
    /// UDP: share of the time waiting with a window as large as the receiver's buffer lets it be; round trips of the
    /// path at the end, the latest and the shortest, seconds.
    pub full_window: f64,
    pub round_trip_seconds: f64,
    pub least_round_trip_seconds: f64,
    /// Bytes that left, and those of them that did not arrive (UDP).
    pub sent_bytes: u64,
    pub lost_bytes: u64,
}

impl WorkerObservation {
    /// UDP's own window, in the place of what TCP_INFO tells of TCP's.
    pub(in crate::measure) fn tell_window(&self, result: &mut WorkerResult) {
        result.receiver_limited = self.full_window;
        result.round_trip_seconds = self.round_trip_seconds;
        result.least_round_trip_seconds = self.least_round_trip_seconds;
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowObservation {
    /// Sum over the workers, each window.
    pub samples: Vec<f64>,
    /// Bytes in all windows.
    pub bytes: u64,
    /// Length of all windows, seconds.
    pub seconds: f64,
    /// CPU time of this process, seconds.
    pub cpu_seconds: f64,
    /// CPU time of the whole host less that of other programs, seconds; 0 where it cannot be read.
    pub busy_seconds: f64,
    /// CPU time of other programs, seconds in this time.
    pub others_seconds: f64,
    /// What all processes did.
    pub processes: ProcessesUse,
    /// By core.
    pub cores: Vec<CoreUse>,
    /// By block device, of those that were to be looked at.
    pub devices: Vec<DeviceUse>,
    /// Share of the quota periods in which we were held, and the quota in cores (0: none).
    pub throttled: f64,
    pub quota_cores: f64,
    /// Each worker, in order.
    pub workers: Vec<WorkerObservation>,
    /// Ctrl-C, or all workers ended: fewer samples than asked for.
    pub cut_short: bool,
}

impl WindowObservation {
    /// Whose the busy time of the host was.
    pub(crate) fn cpu_share(&self) -> CpuShare {
        let all = self.seconds * self.cores.len() as f64;
        if all <= 0.0 {
            return CpuShare::default();
        }
        let own = self.cpu_seconds / all;
        let kernel = (self.busy_seconds / all - own).max(0.0);
        CpuShare { linerate: own, kernel, others: self.others_seconds / all }
    }

    /// What the quota did; none where there is none.
    pub(crate) fn quota(&self) -> Option<QuotaUse> {
        let used = self.cpu_seconds / self.seconds.max(1e-9) / self.quota_cores;
        let (cores, throttled) = (self.quota_cores, self.throttled);
        (cores > 0.0).then_some(QuotaUse { cores, throttled, used })
    }

    /// Parts the busy time of the host from what other programs had of it (see [`others_cpus`]).
    pub(crate) fn part_busy(&mut self, busy_before: Option<f64>, processes: ProcessesUse) {
        let own = self.cpu_seconds / self.seconds.max(1e-9);
        self.others_seconds = others_cpus(&self.cores, own, busy_before, &processes) * self.seconds;
        self.busy_seconds =
            self.cores.iter().map(CoreUse::busy).sum::<f64>() * self.seconds - self.others_seconds;
        self.processes = processes;
    }

    /// Other programs; none where nobody looked.
    pub(crate) fn others(&self) -> Option<OthersUse> {
        (self.processes.seconds > 0.0).then(|| OthersUse::of(&self.processes, &self.cores))
    }

    /// A later look at the same flow: samples one after the other, means by time.
    pub(crate) fn join(&mut self, later: WindowObservation) {
        let (now, then) = (self.seconds, later.seconds);
        if then <= 0.0 || later.samples.is_empty() {
            self.cut_short |= later.cut_short;
            return;
        }
        if now <= 0.0 || self.samples.is_empty() {
            *self = later;
            return;
        }
        let mean = |a: f64, b: f64| (a * now + b * then) / (now + then);
        self.samples.extend(later.samples);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.seconds += later.seconds;
        self.cpu_seconds += later.cpu_seconds;
        self.busy_seconds += later.busy_seconds;
        self.others_seconds += later.others_seconds;
        self.processes.join(later.processes);
        self.throttled = mean(self.throttled, later.throttled);
        self.quota_cores = later.quota_cores;
        self.cut_short = later.cut_short;
        for core in &mut self.cores {
            let Some(other) = later.cores.iter().find(|other| other.core == core.core) else { continue };
            *core = core.mean(now, other, then);
        }
        for device in &mut self.devices {
            let Some(other) = later.devices.iter().find(|other| other.name == device.name) else { continue };
            *device = device.mean(now, other, then);
        }
        for (worker, other) in self.workers.iter_mut().zip(&later.workers) {
            worker.bytes_per_second = mean(worker.bytes_per_second, other.bytes_per_second);
            worker.cpu_share = mean(worker.cpu_share, other.cpu_share);
            worker.waiting_source = mean(worker.waiting_source, other.waiting_source);
            worker.waiting_sink = mean(worker.waiting_sink, other.waiting_sink);
            worker.full_window = mean(worker.full_window, other.full_window);
            worker.round_trip_seconds = other.round_trip_seconds;
            // 0: none was seen yet.
            worker.least_round_trip_seconds =
                match (worker.least_round_trip_seconds, other.least_round_trip_seconds) {
                    (0.0, later) => later,
                    (least, 0.0) => least,
                    (least, later) => least.min(later),
                };
            worker.sent_bytes = worker.sent_bytes.saturating_add(other.sent_bytes);
            worker.lost_bytes = worker.lost_bytes.saturating_add(other.lost_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::counters::{HiddenProcesses, ProcessUse};

    /// The shortest round trip is one that was seen, whichever look saw it.
    #[test]
    fn a_look_that_saw_no_round_trip_leaves_the_shortest_as_it_is() {
        let look = |least_round_trip_seconds| WindowObservation {
            samples: vec![1.0],
            seconds: 1.0,
            workers: vec![WorkerObservation { least_round_trip_seconds, ..WorkerObservation::default() }],
            ..WindowObservation::default()
        };
        for (looks, least) in
            [([0.0, 3e-6], 3e-6), ([3e-6, 0.0], 3e-6), ([3e-6, 2e-6], 2e-6), ([0.0; 2], 0.0)]
        {
            let mut seen = look(looks[0]);
            seen.join(look(looks[1]));
            assert_eq!(seen.workers[0].least_round_trip_seconds, least, "{looks:?}");
        }
    }

    /// Two CPUs for two seconds, 60 % busy, half a second of it this process's own.
    #[test]
    fn busy_time_is_the_flows_or_others_and_never_more_than_there_was() {
        let core = |core, user| CoreUse { core, user, system: 0.6 - user, idle: 0.4, ..CoreUse::default() };
        let parted = |user, hidden, busy_before, others_cpus| {
            let mut seen = WindowObservation {
                seconds: 2.0,
                cpu_seconds: 0.5,
                cores: vec![core(0, user), core(1, user)],
                ..WindowObservation::default()
            };
            let hog = ProcessUse { cpus: others_cpus, ..ProcessUse::default() };
            let processes = ProcessesUse {
                others: vec![hog],
                visible_user_cpus: others_cpus + 0.15,
                hidden,
                ..ProcessesUse::default()
            };
            seen.part_busy(busy_before, processes);
            (seen.others_seconds, seen.busy_seconds)
        };
        let near = |(others, own): (f64, f64), (o, b): (f64, f64)| {
            assert!((others - o).abs() < 1e-9 && (own - b).abs() < 1e-9, "{others} {own}");
        };
        let (all, some) = (None, Some(HiddenProcesses::OtherUsers));
        near(parted(0.1, all, None, 0.0), (0.0, 2.4));
        near(parted(0.2, all, None, 0.3), (0.6, 1.8));
        // What was busy before is gone, as all can see.
        near(parted(0.1, all, Some(0.3), 0.0), (0.0, 2.4));
        near(parted(0.1, some, Some(0.3), 0.0), (0.6, 1.8));
        // Programs that began and ended meanwhile: 2 s of programs' own code, 0.3 s of it ours.
        near(parted(0.5, all, None, 0.0), (1.7, 0.7));
        // More than was busy at all without us was busy before: what remains is ours.
        near(parted(0.1, some, Some(1.5), 0.0), (1.9, 0.5));
    }
}
