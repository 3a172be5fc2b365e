//! Watching workers for some windows of time: their rates, their CPU time, the cores, the quota. The
//! measuring method itself.
//!
//! One warm-up, then `repeats` windows back to back over the same running workers: start-up costs are paid
//! once, and a device that drifts shows as spread. A rate is taken between completions (`flow::progress`), at
//! the receiver where there is one.

mod observation;
mod worker_watch;

pub(crate) use observation::{WindowObservation, WorkerObservation};
pub(super) use worker_watch::WorkerWatch;

use super::access::Diskstats;
use linerate_facts::counters::{AgentProcess, ProcessTable};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::{CpuTimes, Throttle};
use linerate_system::counters::process_cpu;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use worker_watch::WorkerCounts;

/// Pause between two looks at `stop` and at the workers.
const LOOK: Duration = Duration::from_millis(20);

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

/// What is looked at beside the workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// CPUs that were busy before, mean of each moment; none: not known.
    pub busy_before: Option<f64>,
    /// Block devices by their names.
    pub devices: Vec<String>,
    /// Agents that serve the flow: where they run on this host, they are no other programs.
    pub agents: Vec<AgentProcess>,
}

/// The processes of this host from a moment on.
#[derive(Clone, Debug)]
pub(crate) struct ProcessWatch<'a> {
    sysroot: &'a Sysroot,
    before: ProcessTable,
}

impl<'a> ProcessWatch<'a> {
    /// From now on.
    pub(crate) fn begin(sysroot: &'a Sysroot) -> Self {
        ProcessWatch { sysroot, before: ProcessTable::read(sysroot, true) }
    }

    /// Until now: parts the busy time of what was observed meanwhile.
    pub(crate) fn end(self, seen: &mut WindowObservation, beside: &Surroundings) {
        let now = ProcessTable::read(self.sysroot, true);
        seen.part_busy(beside.busy_before, now.since(&self.before, std::process::id(), &beside.agents));
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
    let processes = ProcessWatch::begin(sysroot);
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
    processes.end(&mut seen, beside);
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
