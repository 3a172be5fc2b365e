//! A group of workers of one measurement: started together, stopped together, their errors kept by worker.

use super::product::WorkerResult;
use super::window::WindowObservation;
use linerate_system::clock;
use linerate_system::process::done_idle;
use linerate_system::stop::Stop;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::start::{IncomingStart, RunningWorker, WorkerStart, start, start_incoming};
use linerate_transport::flow::worker::WorkerError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at workers that are to end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A worker that was stopped and does not hang has ended within this.
const LAST_FLUSH: Duration = Duration::from_millis(800);

/// Starts threads, idle ones where that was asked for.
pub(crate) fn started<T: Send>(idle: bool, start: impl FnOnce() -> T + Send) -> T {
    if idle { done_idle(start) } else { start() }
}

/// Workers at work. Dropping it stops them.
#[derive(Debug)]
pub struct RunningWorkers<'a> {
    /// One for each worker, in order of their start.
    pub counters: Vec<Arc<WorkerCounters>>,
    workers: Vec<RunningWorker>,
    end: Arc<Stop>,
    /// Common zero of the workers.
    pub begin: Instant,
    interrupted: &'a Stop,
    /// They take only what nobody else wants.
    idle: bool,
}

impl<'a> RunningWorkers<'a> {
    /// No workers yet.
    pub fn new(interrupted: &'a Stop, idle: bool) -> Self {
        let (end, begin) = (Arc::new(Stop::new()), clock::now());
        RunningWorkers { counters: Vec::new(), workers: Vec::new(), end, begin, interrupted, idle }
    }

    /// Starts one more worker.
    pub(crate) fn start(&mut self, worker: WorkerStart) -> std::io::Result<()> {
        let counters = Arc::new(WorkerCounters::new(self.begin));
        let running = started(self.idle, || start(worker, Arc::clone(&counters), Arc::clone(&self.end)))?;
        self.counters.push(counters);
        self.workers.push(running);
        Ok(())
    }

    /// Starts one more worker of a flow that comes in.
    pub fn start_incoming(&mut self, incoming: IncomingStart) -> std::io::Result<()> {
        let counters = Arc::new(WorkerCounters::new(self.begin));
        let start = || start_incoming(incoming, Arc::clone(&counters), Arc::clone(&self.end));
        let running = started(self.idle, start)?;
        self.counters.push(counters);
        self.workers.push(running);
        Ok(())
    }

    /// Waits until all have ended by themselves; false: they did not within this time, or Ctrl-C.
    pub fn await_end(&self, patience: Duration) -> bool {
        let deadline = clock::now() + patience;
        let ended = || self.workers.iter().all(RunningWorker::ended);
        while !ended() && clock::now() < deadline && !self.interrupted.wait(POLL_INTERVAL) {}
        ended()
    }

    /// Asks all to end soon, whatever still comes.
    pub(crate) fn stop(&self) {
        self.end.end();
    }

    /// Stops all workers and leaves those that hang in the kernel: nobody waits for them any more.
    pub(crate) fn abandon_hanging(&mut self) {
        self.stop();
        let deadline = clock::now() + LAST_FLUSH;
        while !self.workers.iter().all(RunningWorker::ended) && clock::now() < deadline {
            // They were stopped before: no stop ends this sleep.
            clock::sleep(POLL_INTERVAL);
        }
        self.workers.retain(RunningWorker::ended);
    }

    /// What moves the bytes of the first worker.
    pub fn method(&self) -> String {
        self.workers.first().and_then(RunningWorker::method).unwrap_or_else(|| "worker did not start".into())
    }

    /// One or more have ended by themselves.
    pub fn any_ended(&self) -> bool {
        self.workers.iter().any(RunningWorker::ended)
    }

    /// There is something left to watch.
    pub(crate) fn alive(&self) -> bool {
        // Without workers of ours the other host works.
        let works = self.workers.is_empty() || !self.workers.iter().all(RunningWorker::ended);
        !self.interrupted.is_ended() && works
    }

    /// Stops all workers, waits for them, and gives the errors by worker.
    pub fn finish(&mut self) -> Vec<(usize, WorkerError)> {
        self.stop();
        let ended = self.workers.drain(..).enumerate();
        ended.filter_map(|(index, worker)| Some((index, worker.join().err()?))).collect()
    }
}

impl Drop for RunningWorkers<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What was seen of each worker, with the names of its ends.
pub fn worker_results(
    observation: &WindowObservation,
    ends: impl Fn(usize) -> (String, Option<String>),
) -> Vec<WorkerResult> {
    let results = observation.workers.iter().enumerate().map(|(index, worker)| {
        let (source, path) = ends(index);
        WorkerResult {
            worker: index,
            source,
            path,
            bytes_per_second: worker.bytes_per_second,
            cpu_share: worker.cpu_share,
            waiting_source: worker.waiting_source,
            waiting_sink: worker.waiting_sink,
            ..WorkerResult::default()
        }
    });
    results.collect()
}
