//! Watching a running flow for some windows of time: its rates, its workers' time, what the host did meanwhile. The
//! measuring method itself, and the only sampler of a flow whose end is ours to say.
//!
//! One warm-up, then `repeats` windows back to back over the same running workers: start-up costs are paid
//! once, and a device that drifts shows as spread. A rate is taken between completions (`flow::progress`), at
//! the receiver where there is one.

mod observation;

use linerate_facts::counters::AgentProcess;
use linerate_facts::host::{HostSample, HostSampler};
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
pub use observation::{Look, WindowObservation, WorkerCounts, WorkerObservation};
pub(super) use observation::{RateGlance, WorkerWatch};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
pub trait Meter {
    /// Why nothing is known of the flow.
    type Error;

    /// One mark for each worker, in their order. None: they count no more, and the windows before are all that there
    /// are. An error ends the measurement.
    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Self::Error>;

    /// The marks are of one clock, so that those of several workers can be taken as one.
    fn has_one_clock(&self) -> bool {
        false
    }

    /// What workers of this process did with their time until now.
    fn workers(&self) -> Vec<WorkerCounts> {
        Vec::new()
    }

    /// A look every few hundredths of a second, in the counted time or before; false: the flow has ended.
    fn look(&mut self, _counted: bool) -> bool {
        true
    }

    /// The warm-up has done what it is for, though its time is not over: asked as often.
    fn is_settled(&mut self) -> bool {
        false
    }
}

/// Reads the workers' own progress.
#[derive(Debug)]
pub struct OwnMeter(pub Vec<Arc<WorkerCounters>>);

impl Meter for OwnMeter {
    type Error = Infallible;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
        Ok(Some(self.0.iter().map(|counters| counters.progress.mark()).collect()))
    }

    fn has_one_clock(&self) -> bool {
        true
    }

    fn workers(&self) -> Vec<WorkerCounts> {
        WorkerCounts::of(&self.0)
    }
}

/// Watches running workers, and their host beside them.
#[derive(Clone, Debug)]
pub struct Watch<'a> {
    pub windows: WindowSpec,
    /// The windows begin at this moment, for which others wait as well; none: when the warm-up is over.
    pub first_window: Option<Instant>,
    /// What of the host is sampled; none: nothing.
    pub host: Option<HostSampler>,
    /// CPUs that were busy before, mean of each moment; none: not known.
    pub busy_before: Option<f64>,
    /// Agents that serve the flow: where they run on this host, they are not other programs.
    pub agents: Vec<AgentProcess>,
    pub stop: &'a Stop,
}

/// Everything at the edge of a window.
struct Boundary {
    host: HostSample,
    workers: Vec<WorkerCounts>,
    look: Look,
}

impl<'a> Watch<'a> {
    /// Windows after the warm-up, over the flow alone.
    pub fn new(windows: WindowSpec, stop: &'a Stop) -> Self {
        Watch { windows, first_window: None, host: None, busy_before: None, agents: Vec::new(), stop }
    }

    /// And what its host does.
    pub fn beside(self, host: HostSampler) -> Self {
        Watch { host: Some(host), ..self }
    }

    /// Watches until the windows are over. `tick` is called every few hundredths of a second with the latest rate, and
    /// says whether to go on.
    pub fn observe<M: Meter>(
        &self,
        meter: &mut M,
        tick: &mut dyn FnMut(f64) -> bool,
    ) -> Result<WindowObservation, M::Error> {
        let mut watched = WindowObservation { cut_short: true, ..WindowObservation::default() };
        if !self.warm_up(meter, tick) {
            return Ok(watched);
        }
        let Some(first) = self.boundary(meter, true)? else { return Ok(watched) };
        watched.add_look(&first.look);
        let mut next = self.first_window.unwrap_or_else(clock::now);
        let mut last = None;
        for _ in 0..self.windows.repeats {
            next += self.windows.window;
            let rate = watched.samples.last().copied().unwrap_or(0.0);
            let goes_on = self.rest(next, meter, true, &mut || tick(rate));
            // A window cut short is not a sample; what came before it is kept.
            let Some(now) = (if goes_on { self.boundary(meter, false)? } else { None }) else { break };
            watched.add_look(&now.look);
            last = Some(now);
        }
        watched.cut_short = watched.samples.len() < self.windows.repeats as usize;
        if meter.has_one_clock() {
            watched.take_steadier();
        }
        if let Some(last) = last {
            self.fill(&mut watched, &first, last);
        }
        Ok(watched)
    }

    fn warm_up(&self, meter: &mut impl Meter, tick: &mut dyn FnMut(f64) -> bool) -> bool {
        let end = self.first_window.unwrap_or_else(|| clock::now() + self.windows.warm_up);
        while clock::now() < end && !meter.is_settled() {
            if !self.rest(end.min(clock::now() + POLL_INTERVAL), meter, false, &mut || tick(0.0)) {
                return false;
            }
        }
        true
    }

    /// False where it is not to go on.
    fn rest(
        &self,
        until: Instant,
        meter: &mut impl Meter,
        counted: bool,
        tick: &mut dyn FnMut() -> bool,
    ) -> bool {
        let mut now = clock::now();
        while now < until {
            if !meter.look(counted) || self.stop.is_ended() || !tick() {
                return false;
            }
            // As far apart as they are to be, whatever a look takes.
            self.stop.wait_until(until.min(now + POLL_INTERVAL));
            now = clock::now();
        }
        true
    }

    /// The host and the workers just before the marks, at each edge: what the one is off by, the others are as well.
    fn boundary<M: Meter>(&self, meter: &mut M, is_first: bool) -> Result<Option<Boundary>, M::Error> {
        let sample = |host: &HostSampler| if is_first { host.begin() } else { host.sample() };
        let host = self.host.as_ref().map(sample).unwrap_or_default();
        let (workers, asked) = (meter.workers(), clock::now());
        let Some(marks) = meter.marks()? else { return Ok(None) };
        // A peer read them somewhere between the question and its answer.
        let look = Look { at: asked + clock::since(asked) / 2, marks };
        Ok(Some(Boundary { host, workers, look }))
    }

    /// What was between the first boundary and the last. With the bytes of the same moment: what a window that is cut
    /// short costs is not theirs.
    fn fill(&self, observation: &mut WindowObservation, first: &Boundary, mut last: Boundary) {
        if let Some(host) = &self.host {
            host.add_processes(&mut last.host);
            observation.host = last.host.since_beside(&first.host, &self.agents);
            observation.part_busy(self.busy_before);
        }
        observation.fill_workers(&first.workers, &last.workers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::sysroot::Sysroot;

    /// Windows as short as a test's.
    fn windows(warm_up_ms: u64, window_ms: u64, repeats: u32) -> WindowSpec {
        let [warm_up, window] = [warm_up_ms, window_ms].map(Duration::from_millis);
        WindowSpec { warm_up, window, repeats }
    }

    fn watch(windows: WindowSpec, stop: &Stop) -> Watch<'_> {
        Watch::new(windows, stop).beside(HostSampler::of_cpus(&Sysroot::live()))
    }

    #[test]
    fn a_steady_worker_is_seen_as_steady() {
        let counters = Arc::new(WorkerCounters::new(Instant::now()));
        let stop = Arc::new(Stop::new());
        let worker = {
            let (counters, stop) = (Arc::clone(&counters), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.is_ended() {
                    std::thread::sleep(Duration::from_millis(2));
                    counters.progress.add(1000);
                }
            })
        };
        let mut meter = OwnMeter(vec![counters]);
        let Ok(watched) = watch(windows(20, 100, 3), &stop).observe(&mut meter, &mut |_| true);
        stop.end();
        worker.join().expect("the worker");
        assert_eq!((watched.samples.len(), watched.looks.len(), watched.workers.len()), (3, 4, 1));
        // A sleep of 2 ms takes longer on a busy machine, never shorter.
        assert!(
            watched.samples.iter().all(|rate| *rate > 1000.0 && *rate <= 510_000.0),
            "{:?}",
            watched.samples
        );
        assert!(!watched.cut_short && watched.host.seconds >= 0.3);
    }

    #[test]
    fn a_stop_keeps_the_whole_windows_before_it() {
        // Seconds and CPU time are those of the whole windows, not of the one that was cut. A busy machine makes
        // windows longer than they were to be: one time of five it does not.
        let whole = |watched: &WindowObservation| watched.samples.len() as f64 * 0.060;
        let seconds = || {
            let watched = stopped_after(Duration::from_millis(100));
            assert!(watched.cut_short && watched.samples.len() < 10, "{:?}", watched.samples);
            assert!(watched.host.seconds >= whole(&watched), "{} s", watched.host.seconds);
            // The first window was not over in so long.
            if watched.samples.is_empty() { f64::INFINITY } else { watched.host.seconds - whole(&watched) }
        };
        let more: Vec<f64> = std::iter::repeat_with(seconds).take(5).collect();
        assert!(more.iter().any(|seconds| *seconds < 0.025), "{more:?} s more than whole windows");
    }

    fn stopped_after(time: Duration) -> WindowObservation {
        let mut meter = OwnMeter(vec![Arc::new(WorkerCounters::new(Instant::now()))]);
        let (start, stop) = (Instant::now(), Stop::new());
        let mut tick = |_| start.elapsed() < time;
        let Ok(watched) = watch(windows(0, 60, 100), &stop).observe(&mut meter, &mut tick);
        watched
    }

    /// Marks of two workers, until there are no more.
    struct Claims(Vec<u64>);

    impl Meter for Claims {
        type Error = Infallible;

        fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
            let next = (!self.0.is_empty()).then(|| self.0.remove(0));
            Ok(next.map(|bytes| vec![Mark { bytes, nanos: bytes }; 2]))
        }
    }

    fn claimed(bytes: &[u64], first_window: Option<Instant>) -> WindowObservation {
        let stop = Stop::new();
        let watch = Watch { first_window, ..Watch::new(windows(0, 10, 2), &stop) };
        let Ok(watched) = watch.observe(&mut Claims(bytes.to_vec()), &mut |_| true);
        watched
    }

    /// A peer may claim the most that a number holds.
    #[test]
    fn what_peers_claim_does_not_overflow() {
        assert_eq!(claimed(&[0, u64::MAX, u64::MAX], None).bytes, u64::MAX);
    }

    #[test]
    fn peers_that_count_no_more_leave_the_windows_before() {
        let watched = claimed(&[0, 1000], None);
        assert_eq!((watched.samples.len(), watched.bytes, watched.cut_short), (1, 2000, true));
        let watched = claimed(&[], None);
        assert_eq!((watched.samples.len(), watched.looks.len(), watched.cut_short), (0, 0, true));
    }

    /// Hosts that measure together begin together, however long each took to be ready.
    #[test]
    fn windows_begin_at_the_moment_that_was_agreed_upon() {
        let agreed = Instant::now() + Duration::from_millis(30);
        let watched = claimed(&[0, 1, 2], Some(agreed));
        let [first, _, last] = &watched.looks[..] else { panic!("{:?}", watched.looks) };
        assert!(first.at >= agreed && last.at >= agreed + Duration::from_millis(20), "{:?}", watched.looks);
        assert_eq!(watched.host.seconds, 0.0, "of a host that nobody asked for nothing is read");
    }
}
