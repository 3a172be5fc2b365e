//! What was seen in windows of time: of each worker, and of the host; and workers' counters, with looks at them while they
//! work.

use crate::event::WorkerShares;
use crate::measure::others::{OthersUse, others_cpus};
use crate::measure::product::{CpuShare, QuotaUse, WorkerResult};
use crate::measure::statistics::spread;
use linerate_facts::host::HostUse;
use linerate_system::clock;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Of fewer windows the spread says little.
const LEAST_WINDOWS: usize = 3;

/// Time between two looks that are for the user's eyes only.
const GLANCE: Duration = Duration::from_millis(500);

/// What was seen of one worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerObservation {
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

/// The workers at the edge of a window.
#[derive(Clone, Debug)]
pub struct Look {
    pub at: Instant,
    pub marks: Vec<Mark>,
}

impl Look {
    /// Bytes per second, a sum over the workers.
    fn rate_since(&self, earlier: &Look) -> f64 {
        self.marks.iter().zip(&earlier.marks).map(|(now, before)| now.rate_since(before)).sum()
    }

    fn bytes_since(&self, earlier: &Look) -> u64 {
        let moved = self.marks.iter().zip(&earlier.marks);
        // The peers tell these: what cannot be true must not overflow either.
        moved.map(|(end, start)| end.bytes.saturating_sub(start.bytes)).fold(0, u64::saturating_add)
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct WindowObservation {
    /// Sum over the workers, each window.
    pub samples: Vec<f64>,
    /// Bytes in all windows.
    pub bytes: u64,
    /// The begin of the first window, and the end of each; of one watch.
    pub looks: Vec<Look>,
    /// What the host did in all windows.
    pub host: HostUse,
    /// CPU time of the whole host less that of other programs, seconds; 0 where it cannot be read.
    pub busy_seconds: f64,
    /// CPU time of other programs, seconds in this time.
    pub others_seconds: f64,
    /// Each worker, in order.
    pub workers: Vec<WorkerObservation>,
    /// Ctrl-C, or all workers ended: fewer samples than asked for.
    pub cut_short: bool,
}

impl WindowObservation {
    /// One more look; from the second on each ends a window.
    pub(super) fn add_look(&mut self, now: &Look) {
        if let (Some(first), Some(before)) = (self.looks.first(), self.looks.last()) {
            self.samples.push(now.rate_since(before));
            self.bytes = now.bytes_since(first);
        }
        self.looks.push(now.clone());
    }

    /// What each worker did with its time between the first look and the last, which its counts are of.
    pub(super) fn fill_workers(&mut self, first: &[WorkerCounts], last: &[WorkerCounts]) {
        let seconds = self.host.seconds;
        self.workers = last.iter().zip(first).map(|(late, early)| late.since(early, seconds)).collect();
        // Means, not medians: only those add up to the whole.
        if let [first, .., last] = &self.looks[..] {
            let marks = last.marks.iter().zip(&first.marks);
            for (worker, (end, start)) in self.workers.iter_mut().zip(marks) {
                worker.bytes_per_second = end.rate_since(start);
            }
        }
    }

    /// The rates of all workers taken as one, where those are steadier: what each worker completes in bursts, as many
    /// requests as a throttled disk lets by at once, is rounded to its bursts, and that of all together to what is
    /// between them. For marks of one clock.
    pub(super) fn take_steadier(&mut self) {
        let total = |look: &Look| Mark {
            bytes: look.marks.iter().map(|mark| mark.bytes).fold(0, u64::saturating_add),
            nanos: look.marks.iter().map(|mark| mark.nanos).max().unwrap_or(0),
        };
        let totals: Vec<Mark> = self.looks.iter().map(total).collect();
        let as_one: Vec<f64> = totals.windows(2).map(|pair| pair[1].rate_since(&pair[0])).collect();
        // A single window shows no spread, and which of both is off by less is not known then.
        if as_one.len() >= LEAST_WINDOWS && spread(&as_one) < spread(&self.samples) {
            self.samples = as_one;
        }
    }

    /// The rates of one worker, each window.
    pub(crate) fn samples_of(&self, worker: usize) -> Vec<f64> {
        let rate = |pair: &[Look]| pair[1].marks[worker].rate_since(&pair[0].marks[worker]);
        self.looks.windows(2).map(rate).collect()
    }

    /// Whose the busy time of the host was.
    pub(crate) fn cpu_share(&self) -> CpuShare {
        let all = self.host.seconds * self.host.cpus.len() as f64;
        if all <= 0.0 {
            return CpuShare::default();
        }
        let own = self.host.cpu_seconds / all;
        let kernel = (self.busy_seconds / all - own).max(0.0);
        CpuShare { linerate: own, kernel, others: self.others_seconds / all }
    }

    /// What the quota did; none where there is none.
    pub(crate) fn quota(&self) -> Option<QuotaUse> {
        QuotaUse::of(&self.host)
    }

    /// Parts the busy time of the host from what other programs had of it (see [`others_cpus`]).
    pub(crate) fn part_busy(&mut self, busy_before: Option<f64>) {
        let HostUse { seconds, cpu_seconds, cpus, processes, .. } = &self.host;
        let own = cpu_seconds / seconds.max(1e-9);
        self.others_seconds = others_cpus(cpus, own, busy_before, processes) * seconds;
        self.busy_seconds = self.host.busy_cpus() * seconds - self.others_seconds;
    }

    /// Other programs; none where nobody looked.
    pub(crate) fn others(&self) -> Option<OthersUse> {
        let HostUse { processes, cpus, .. } = &self.host;
        (processes.seconds > 0.0).then(|| OthersUse::of(processes, cpus))
    }

    /// A later look at the same flow: samples one after the other, means by time.
    pub(crate) fn join(&mut self, later: WindowObservation) {
        let (now, then) = (self.host.seconds, later.host.seconds);
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
        self.host.join(later.host);
        self.busy_seconds += later.busy_seconds;
        self.others_seconds += later.others_seconds;
        self.cut_short = later.cut_short;
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

/// One worker's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct WorkerCounts {
    cpu_nanos: u64,
    source_nanos: u64,
    sink_nanos: u64,
    full_window_nanos: u64,
    trip_nanos: u64,
    least_trip_nanos: u64,
    sent_bytes: u64,
    lost_bytes: u64,
}

impl WorkerCounts {
    /// Of each worker, in their order.
    pub fn of(workers: &[Arc<WorkerCounters>]) -> Vec<Self> {
        workers.iter().map(|counters| WorkerCounts::now(counters)).collect()
    }

    fn now(counters: &WorkerCounters) -> Self {
        WorkerCounts {
            cpu_nanos: counters.cpu_nanos.load(Ordering::Relaxed),
            source_nanos: counters.waiting_source_nanos.load(Ordering::Relaxed),
            sink_nanos: counters.waiting_sink_nanos.load(Ordering::Relaxed),
            full_window_nanos: counters.full_window_nanos.load(Ordering::Relaxed),
            trip_nanos: counters.trip_nanos.load(Ordering::Relaxed),
            least_trip_nanos: counters.least_trip_nanos.load(Ordering::Relaxed),
            sent_bytes: counters.progress.mark().bytes,
            lost_bytes: counters.lost_bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn since(&self, earlier: &WorkerCounts, seconds: f64) -> WorkerObservation {
        let share =
            |late: u64, early: u64| (late.saturating_sub(early) as f64 * 1e-9 / seconds.max(1e-9)).min(1.0);
        let cpu_share = share(self.cpu_nanos, earlier.cpu_nanos);
        let source = share(self.source_nanos, earlier.source_nanos);
        let sink = share(self.sink_nanos, earlier.sink_nanos);
        // io_uring moves bytes inside the call that waits: what was CPU time was no waiting.
        let waited = (1.0 - cpu_share) / (source + sink).max(1.0 - cpu_share).max(1e-9);
        WorkerObservation {
            bytes_per_second: 0.0,
            cpu_share,
            waiting_source: source * waited,
            waiting_sink: sink * waited,
            full_window: share(self.full_window_nanos, earlier.full_window_nanos) * waited,
            round_trip_seconds: self.trip_nanos as f64 * 1e-9,
            least_round_trip_seconds: self.least_trip_nanos as f64 * 1e-9,
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            lost_bytes: self.lost_bytes.saturating_sub(earlier.lost_bytes),
        }
    }
}

/// A rate now and then, for those who look on. Beside the figures, never part of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::measure) struct RateGlance {
    at: Instant,
    bytes: u64,
}

impl RateGlance {
    /// So many bytes until now.
    pub(crate) fn new(bytes: u64) -> Self {
        RateGlance { at: clock::now(), bytes }
    }

    /// So many bytes until now; their rate, where half a second has passed.
    pub(crate) fn look(&mut self, bytes: u64) -> Option<f64> {
        let passed = clock::since(self.at);
        let moved = bytes.saturating_sub(self.bytes) as f64;
        (passed >= GLANCE).then(|| {
            *self = RateGlance::new(bytes);
            moved / passed.as_secs_f64()
        })
    }
}

/// Looks at working workers now and then, for those who look on: their rate, and what they do with their
/// time. Beside the figures, never part of them.
pub(in crate::measure) struct WorkerWatch {
    at: Instant,
    counts: Vec<WorkerCounts>,
}

impl WorkerWatch {
    /// From now on.
    pub(crate) fn new(workers: &[Arc<WorkerCounters>]) -> Self {
        WorkerWatch { at: clock::now(), counts: WorkerCounts::of(workers) }
    }

    /// Bytes per second that left the workers (less what UDP is known to have lost) and their shares; none
    /// before half a second has passed.
    pub(crate) fn look(&mut self, workers: &[Arc<WorkerCounters>]) -> Option<(f64, WorkerShares)> {
        let seconds = clock::since(self.at).as_secs_f64();
        if seconds < GLANCE.as_secs_f64() || workers.is_empty() {
            return None;
        }
        let now = WorkerWatch::new(workers);
        let watched: Vec<WorkerObservation> =
            now.counts.iter().zip(&self.counts).map(|(now, then)| now.since(then, seconds)).collect();
        *self = now;
        let mean = |of: fn(&WorkerObservation) -> f64| {
            watched.iter().map(of).sum::<f64>() / watched.len().max(1) as f64
        };
        let moved: f64 = watched.iter().map(|one| one.sent_bytes.saturating_sub(one.lost_bytes) as f64).sum();
        let shares = WorkerShares {
            count: u32::try_from(watched.len()).unwrap_or(u32::MAX),
            busy: mean(|one| one.cpu_share),
            starved: mean(|one| one.waiting_source),
            blocked: mean(|one| one.waiting_sink),
            busiest: watched.iter().map(|one| one.cpu_share).fold(0.0, f64::max),
            incoming: false,
        };
        Some((moved / seconds, shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::counters::{HiddenProcesses, ProcessUse, ProcessesUse};
    use linerate_facts::usage::CoreUse;
    use std::time::Duration;

    /// Four workers each move 8 MiB at once every 0.8 s, one after the other: 40 MiB/s, in windows of half a second.
    #[test]
    fn bursts_of_workers_in_turn_are_no_rate_of_their_own() {
        let begin = Instant::now();
        let bursts = |worker: u64, at_ms: u64| (at_ms + 800 - 200 * worker) / 800;
        let mark = |worker: u64, at_ms: u64| {
            let number = bursts(worker, at_ms);
            let last_ms = (number * 800 + 200 * worker).saturating_sub(800);
            Mark { bytes: number * (8 << 20), nanos: last_ms * 1_000_000 }
        };
        let mut watched = WindowObservation::default();
        for at_ms in (1_000..4_000).step_by(500) {
            let at = begin + Duration::from_millis(at_ms);
            watched.add_look(&Look { at, marks: (0..4).map(|worker| mark(worker, at_ms)).collect() });
        }
        let true_rate = f64::from(40 << 20);
        assert!(
            watched.samples.iter().any(|rate| (rate / true_rate - 1.0).abs() > 0.2),
            "{:?}",
            watched.samples
        );
        watched.take_steadier();
        assert!(
            watched.samples.iter().all(|rate| (rate / true_rate - 1.0).abs() < 0.01),
            "{:?}",
            watched.samples
        );
    }

    /// The shortest round trip is one that was seen, whichever look saw it.
    #[test]
    fn a_look_that_saw_no_round_trip_leaves_the_shortest_as_it_is() {
        let look = |least_round_trip_seconds| WindowObservation {
            samples: vec![1.0],
            host: HostUse { seconds: 1.0, ..HostUse::default() },
            workers: vec![WorkerObservation { least_round_trip_seconds, ..WorkerObservation::default() }],
            ..WindowObservation::default()
        };
        for (looks, least) in
            [([0.0, 3e-6], 3e-6), ([3e-6, 0.0], 3e-6), ([3e-6, 2e-6], 2e-6), ([0.0; 2], 0.0)]
        {
            let mut watched = look(looks[0]);
            watched.join(look(looks[1]));
            assert_eq!(watched.workers[0].least_round_trip_seconds, least, "{looks:?}");
        }
    }

    /// Two CPUs for two seconds, 60 % busy, half a second of it this process's own.
    #[test]
    fn busy_time_is_the_flows_or_others_and_never_more_than_there_was() {
        let core = |core, user| CoreUse { core, user, system: 0.6 - user, idle: 0.4, ..CoreUse::default() };
        let parted = |user, hidden, busy_before, others_cpus| {
            let hog = ProcessUse { cpus: others_cpus, ..ProcessUse::default() };
            let processes = ProcessesUse {
                others: vec![hog],
                visible_user_cpus: others_cpus + 0.15,
                hidden,
                ..ProcessesUse::default()
            };
            let cpus = vec![core(0, user), core(1, user)];
            let host = HostUse { seconds: 2.0, cpu_seconds: 0.5, cpus, processes, ..HostUse::default() };
            let mut watched = WindowObservation { host, ..WindowObservation::default() };
            watched.part_busy(busy_before);
            (watched.others_seconds, watched.busy_seconds)
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

    #[test]
    fn a_snapshot_reports_what_workers_wait_for() {
        let workers = [(); 2].map(|()| Arc::new(WorkerCounters::new(Instant::now())));
        let mut glance = WorkerWatch::new(&workers);
        assert!(glance.look(&workers).is_none(), "too early");
        std::thread::sleep(GLANCE);
        let passed = glance.at.elapsed();
        workers[0].progress.add(1_000_000);
        workers[0].cpu_nanos.store(passed.as_nanos() as u64 / 5, Ordering::Relaxed);
        for worker in &workers {
            WorkerCounters::waited(&worker.waiting_source_nanos, passed / 2);
        }
        workers[1].lost_bytes.store(500, Ordering::Relaxed);
        let (rate, shares) = glance.look(&workers).expect("a look");
        // Half a second, or more on a busy machine.
        assert!(rate > 100e3 && rate <= 2.001e6, "{rate}");
        assert_eq!(shares.count, 2);
        assert!(
            shares.busiest > 0.1 && shares.busiest <= 0.201 && shares.busy < shares.busiest,
            "{shares:?}"
        );
        // Half of the time, less on a machine that lets this test wait.
        assert!(shares.starved > 0.2 && shares.starved <= 0.501 && shares.blocked == 0.0, "{shares:?}");
        assert!(glance.look(&workers).is_none(), "each look begins again");
    }
}
