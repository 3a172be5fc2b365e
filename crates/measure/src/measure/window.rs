//! Watching workers for some windows of time: their rates, their CPU time, the cores, the quota. The
//! measuring method itself.
//!
//! One warm-up, then `repeats` windows back to back over the same running workers: start-up costs are paid
//! once, and a device that drifts shows as spread. A rate is taken between completions (`flow::progress`), at
//! the receiver where there is one.

use super::access::{DeviceUse, Diskstats};
use super::product::{CpuShare, QuotaUse, WorkerResult};
use crate::event::WorkerShares;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::{CoreUse, CpuTimes, Throttle};
use linerate_system::counters::process_cpu;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between two looks at `stop` and at the workers.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two looks that are for the user's eyes only.
const GLANCE: Duration = Duration::from_millis(500);

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub struct WindowSpec {
    /// Settling time, not counted: as long as this at most, where the meter can tell.
    pub warm_up: Duration,
    /// One sample.
    pub window: Duration,
    /// Samples.
    pub repeats: u32,
}

impl WindowSpec {
    /// The whole time.
    pub fn total(&self) -> Duration {
        self.warm_up + self.window * self.repeats
    }
}

/// Where the rates are read: at the workers, or at the receivers of what they send.
pub(crate) trait Meter {
    /// One mark for each worker, in their order; an error ends the measurement.
    fn marks(&mut self) -> Result<Vec<Mark>, String>;

    /// What runs at the other end, read with the first and the last marks.
    fn boundary(&mut self) {}

    /// A look in the counted time, every few hundredths of a second.
    fn glance(&mut self) {}

    /// The warm-up has done what it is for, though its time is not over: asked every few hundredths of a second.
    fn is_settled(&mut self) -> bool {
        false
    }
}

/// Reads the workers' own progress.
#[derive(Debug)]
pub(crate) struct OwnMeter(pub Vec<Arc<WorkerCounters>>);

impl Meter for OwnMeter {
    fn marks(&mut self) -> Result<Vec<Mark>, String> {
        Ok(self.0.iter().map(|counters| counters.progress.mark()).collect())
    }
}

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
    pub(super) fn tell_window(&self, result: &mut WorkerResult) {
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
    /// CPU time of the whole host less what was busy before, seconds; 0 where it cannot be read.
    pub busy_seconds: f64,
    /// What others used of all CPUs before the measurements, seconds in this time.
    pub others_seconds: f64,
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

    /// Parts the busy time of the host from what others had of it: what was busy before, and whatever programs have
    /// had since then in their own code, of which none but this process's is the flow's. What others used of full
    /// CPUs before they cannot have had whole beside a flow: at most what the process itself did not use.
    fn part_busy(&mut self, busy_before: Option<f64>) {
        let Some(before) = busy_before else { return };
        let sum = |of: fn(&CoreUse) -> f64| self.cores.iter().map(of).sum::<f64>() * self.seconds;
        let busy = sum(CoreUse::busy);
        let programs = sum(|core| core.user + core.nice) - self.cpu_seconds;
        let others = (before * self.seconds).max(programs).min((busy - self.cpu_seconds).max(0.0));
        (self.others_seconds, self.busy_seconds) = (others, busy - others);
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

/// What is looked at beside the workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// CPUs that were busy before, mean of each moment; none: not known.
    pub busy_before: Option<f64>,
    /// Block devices by their names.
    pub devices: Vec<String>,
}

/// One worker's counters at one moment.
struct WorkerCounts {
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

    fn since(&self, earlier: &WorkerCounts, seconds: f64) -> WorkerObservation {
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

/// Looks at working workers now and then, for those who look on: their rate, and what they do with their
/// time. Beside the figures, never part of them.
pub(super) struct WorkerWatch {
    at: Instant,
    counts: Vec<WorkerCounts>,
}

impl WorkerWatch {
    /// From now on.
    pub(crate) fn new(workers: &[Arc<WorkerCounters>]) -> Self {
        let counts = workers.iter().map(|counters| WorkerCounts::now(counters)).collect();
        WorkerWatch { at: Instant::now(), counts }
    }

    /// Bytes per second that left the workers (less what UDP is known to have lost) and their shares; none
    /// before half a second has passed.
    pub(crate) fn look(&mut self, workers: &[Arc<WorkerCounters>]) -> Option<(f64, WorkerShares)> {
        let seconds = self.at.elapsed().as_secs_f64();
        if seconds < GLANCE.as_secs_f64() || workers.is_empty() {
            return None;
        }
        let now = WorkerWatch::new(workers);
        let seen: Vec<WorkerObservation> =
            now.counts.iter().zip(&self.counts).map(|(now, then)| now.since(then, seconds)).collect();
        *self = now;
        let mean =
            |of: fn(&WorkerObservation) -> f64| seen.iter().map(of).sum::<f64>() / seen.len().max(1) as f64;
        let moved: f64 = seen.iter().map(|one| one.sent_bytes.saturating_sub(one.lost_bytes) as f64).sum();
        let shares = WorkerShares {
            count: u32::try_from(seen.len()).unwrap_or(u32::MAX),
            busy: mean(|one| one.cpu_share),
            starved: mean(|one| one.waiting_source),
            blocked: mean(|one| one.waiting_sink),
            busiest: seen.iter().map(|one| one.cpu_share).fold(0.0, f64::max),
            incoming: false,
        };
        Some((moved / seconds, shares))
    }
}

/// Readings at one moment.
pub(super) struct Reading {
    at: Instant,
    cpu: Duration,
    times: CpuTimes,
    throttle: Throttle,
    disks: Diskstats,
    workers: Vec<WorkerCounts>,
}

impl Reading {
    /// Reads now.
    pub(super) fn now(sysroot: &Sysroot, workers: &[Arc<WorkerCounters>]) -> Self {
        Reading::with(sysroot, workers, &[])
    }

    /// The same with what these block devices count.
    fn with(sysroot: &Sysroot, workers: &[Arc<WorkerCounters>], devices: &[String]) -> Self {
        Reading {
            disks: if devices.is_empty() { Diskstats::none() } else { Diskstats::read(sysroot, devices) },
            workers: workers.iter().map(|counters| WorkerCounts::now(counters)).collect(),
            at: Instant::now(),
            cpu: process_cpu(),
            times: CpuTimes::read(sysroot),
            throttle: Throttle::read(sysroot),
        }
    }
}

/// Watches running workers. `tick` is called every few hundredths of a second with the rate so far, and says
/// whether to go on.
pub(crate) fn watch(
    sysroot: &Sysroot,
    workers: &[Arc<WorkerCounters>],
    meter: &mut dyn Meter,
    windows: WindowSpec,
    beside: &Surroundings,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(f64) -> bool,
) -> Result<WindowObservation, String> {
    let mut seen = WindowObservation::default();
    let mut rest = |until: Instant, rate: f64, glance: &mut dyn FnMut()| {
        while Instant::now() < until {
            glance();
            if stop.load(Ordering::Relaxed) || !tick(rate) {
                return false;
            }
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        true
    };
    let warm = Instant::now() + windows.warm_up;
    while Instant::now() < warm && !meter.is_settled() {
        if !rest(warm.min(Instant::now() + LOOK), 0.0, &mut || {}) {
            seen.cut_short = true;
            return Ok(seen);
        }
    }
    meter.boundary();
    let reading = || Reading::with(sysroot, workers, &beside.devices);
    let first = reading();
    let beginning = meter.marks()?;
    let mut before = beginning.clone();
    let mut next = Instant::now();
    let mut last = None;
    for _ in 0..windows.repeats {
        next += windows.window;
        let whole = rest(next, seen.samples.last().copied().unwrap_or(0.0), &mut || meter.glance());
        if !whole {
            // A window cut short by Ctrl-C is no sample; what came before it is kept.
            seen.cut_short = true;
            break;
        }
        let now = meter.marks()?;
        seen.samples.push(now.iter().zip(&before).map(|(now, before)| now.rate_since(before)).sum());
        before = now;
        // With the bytes of the same moment: what a window that is cut short costs is not theirs.
        last = Some(reading());
    }
    meter.boundary();
    let moved = before.iter().zip(&beginning).map(|(end, start)| end.bytes.saturating_sub(start.bytes));
    // The peers tell these: what cannot be true must not overflow either.
    seen.bytes = moved.fold(0, u64::saturating_add);
    fill_between(&mut seen, &first, last.as_ref().unwrap_or(&first));
    seen.part_busy(beside.busy_before);
    // Means, not medians: only those add up to the whole.
    for (worker, (end, start)) in seen.workers.iter_mut().zip(before.iter().zip(&beginning)) {
        worker.bytes_per_second = end.rate_since(start);
    }
    Ok(seen)
}

/// What was between two readings.
pub(super) fn fill_between(seen: &mut WindowObservation, first: &Reading, last: &Reading) {
    seen.seconds = last.at.duration_since(first.at).as_secs_f64();
    seen.cpu_seconds = last.cpu.saturating_sub(first.cpu).as_secs_f64();
    seen.cores = last.times.since(&first.times);
    seen.devices = last.disks.since(&first.disks);
    seen.throttled = last.throttle.share_since(&first.throttle);
    seen.quota_cores = last.throttle.quota_cores;
    let pairs = last.workers.iter().zip(&first.workers);
    seen.workers = pairs.map(|(late, early)| late.since(early, seen.seconds)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_worker_is_seen_as_steady() {
        let counters = Arc::new(WorkerCounters::new(Instant::now()));
        let stop = Arc::new(AtomicBool::new(false));
        let worker = {
            let (counters, stop) = (Arc::clone(&counters), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(2));
                    counters.progress.add(1000);
                }
            })
        };
        let windows =
            WindowSpec { warm_up: Duration::from_millis(20), window: Duration::from_millis(100), repeats: 3 };
        let workers = [Arc::clone(&counters)];
        let mut meter = OwnMeter(workers.to_vec());
        let seen = watch(
            &Sysroot::live(),
            &workers,
            &mut meter,
            windows,
            &Surroundings::default(),
            &stop,
            &mut |_| true,
        )
        .expect("seen");
        stop.store(true, Ordering::Relaxed);
        worker.join().expect("the worker");
        assert_eq!(seen.samples.len(), 3);
        // A sleep of 2 ms takes longer on a busy machine, never shorter.
        assert!(seen.samples.iter().all(|rate| *rate > 1000.0 && *rate <= 510_000.0), "{:?}", seen.samples);
        assert!(!seen.cut_short && seen.seconds >= 0.3);
    }

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
        let parted = |user, busy_before| {
            let mut seen = WindowObservation {
                seconds: 2.0,
                cpu_seconds: 0.5,
                cores: vec![core(0, user), core(1, user)],
                ..WindowObservation::default()
            };
            seen.part_busy(busy_before);
            (seen.others_seconds, seen.busy_seconds)
        };
        let near = |(others, own): (f64, f64), (o, b): (f64, f64)| {
            assert!((others - o).abs() < 1e-9 && (own - b).abs() < 1e-9, "{others} {own}");
        };
        near(parted(0.1, None), (0.0, 0.0));
        near(parted(0.1, Some(0.0)), (0.0, 2.4));
        near(parted(0.1, Some(0.3)), (0.6, 1.8));
        // A program that began meanwhile: 2 s of programs' own code, a half second of it ours.
        near(parted(0.5, Some(0.3)), (1.5, 0.9));
        // More than was busy at all without us was busy before: what remains is ours.
        near(parted(0.1, Some(1.5)), (1.9, 0.5));
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

    #[test]
    fn a_stop_keeps_the_whole_windows_before_it() {
        // Seconds and CPU time are those of the whole windows, not of the one that was cut. A busy machine makes
        // windows longer than they were to be: one time of five it does not.
        let whole = |seen: &WindowObservation| seen.samples.len() as f64 * 0.060;
        let seconds = || {
            let seen = stopped_after(Duration::from_millis(100));
            assert!(
                seen.cut_short && !seen.samples.is_empty() && seen.samples.len() < 10,
                "{:?}",
                seen.samples
            );
            assert!(seen.seconds >= whole(&seen), "{} s of {}", seen.seconds, whole(&seen));
            seen.seconds - whole(&seen)
        };
        let more: Vec<f64> = std::iter::repeat_with(seconds).take(5).collect();
        assert!(more.iter().any(|seconds| *seconds < 0.025), "{more:?} s more than whole windows");
    }

    fn stopped_after(time: Duration) -> WindowObservation {
        let workers = [Arc::new(WorkerCounters::new(Instant::now()))];
        let mut meter = OwnMeter(workers.to_vec());
        let windows = WindowSpec { warm_up: Duration::ZERO, window: Duration::from_millis(60), repeats: 100 };
        let start = Instant::now();
        let mut tick = |_| start.elapsed() < time;
        let surroundings = Surroundings::default();
        let stop = AtomicBool::new(false);
        watch(&Sysroot::live(), &workers, &mut meter, windows, &surroundings, &stop, &mut tick).expect("seen")
    }

    /// A peer that claims the most that a number holds, on each of two workers.
    struct Boaster(bool);

    impl Meter for Boaster {
        fn marks(&mut self) -> Result<Vec<Mark>, String> {
            let bytes = if std::mem::replace(&mut self.0, true) { u64::MAX } else { 0 };
            Ok(vec![Mark { bytes, nanos: bytes }; 2])
        }
    }

    #[test]
    fn what_peers_claim_does_not_overflow() {
        let windows = WindowSpec { warm_up: Duration::ZERO, window: Duration::from_millis(10), repeats: 2 };
        let stop = AtomicBool::new(false);
        let seen = watch(
            &Sysroot::live(),
            &[],
            &mut Boaster(false),
            windows,
            &Surroundings::default(),
            &stop,
            &mut |_| true,
        )
        .expect("seen");
        assert_eq!(seen.bytes, u64::MAX);
    }
}
