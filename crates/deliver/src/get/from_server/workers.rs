//! The workers of such a flow: those of all flows that come in, each with bytes of the server.

use super::super::remote::RemoteFile;
use super::ServerFlowSpec;
use super::error::ServerFlowError;
use super::server_bytes::ServerBytes;
use crate::flow_sockets::FlowSockets;
use linerate_machine::flow_devices::FlowDevices;
use linerate_measure::measure::WorkerResult;
use linerate_measure::run::from_server::ServerFlow;
use linerate_model::plan::Plan;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::incoming::{IncomingBytes, IncomingStart, start_incoming};
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::receive::Terms;
use linerate_transport::flow::sink::SinkStore;
use linerate_transport::flow::start::RunningWorker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A disk keeps what came within this; beyond what a storing thread waits for it itself.
const SETTLING: Duration = Duration::from_secs(32);
const LOOK: Duration = Duration::from_millis(5);

/// Workers at work; dropping this stops them.
pub(super) struct ServerWorkers {
    running: Vec<RunningWorker>,
    counters: Vec<Arc<WorkerCounters>>,
    stores: Vec<Arc<SinkStore>>,
    sockets: Arc<FlowSockets>,
    stop: Arc<AtomicBool>,
    /// All was measured.
    settled: Arc<AtomicBool>,
}

/// How they ended.
pub(super) struct ServerWorkersEnd {
    /// What the first of them failed of.
    pub(super) error: Option<ServerFlowError>,
    /// The longest fsync that ended what was stored.
    pub(super) sync_seconds: f64,
}

impl ServerWorkers {
    /// One for each worker of the plan.
    pub(super) fn start(
        spec: &ServerFlowSpec,
        file: &RemoteFile,
        flow: &ServerFlow,
    ) -> Result<Self, ServerFlowError> {
        let plan = &flow.plan;
        let stores = stores(flow)?;
        let (spec, file) = (Arc::new(spec.clone()), Arc::new(file.clone()));
        let terms = Terms::paced(false, spec.goal.rate_limit);
        let begin = Instant::now();
        let mut workers = ServerWorkers {
            running: Vec::new(),
            counters: Vec::new(),
            stores: stores.iter().flatten().cloned().collect(),
            sockets: Arc::default(),
            stop: Arc::default(),
            settled: Arc::default(),
        };
        for (number, (planned, store)) in plan.workers.iter().zip(stores).enumerate() {
            let bytes = ServerBytes {
                spec: Arc::clone(&spec),
                file: Arc::clone(&file),
                sockets: Arc::clone(&workers.sockets),
                worker: number as u64,
                workers: plan.workers.len() as u64,
                settled: Arc::clone(&workers.settled),
            };
            let bytes = Some(IncomingBytes::Foreign(Box::new(bytes)));
            let start = IncomingStart { core: Some(planned.core), bytes, store, terms: terms.clone() };
            let counters = Arc::new(WorkerCounters::new(begin));
            let started = start_incoming(start, Arc::clone(&counters), Arc::clone(&workers.stop));
            workers.running.push(started.map_err(ServerFlowError::NoThread)?);
            workers.counters.push(counters);
        }
        if workers.running.is_empty() {
            return Err(ServerFlowError::NoRoom);
        }
        Ok(workers)
    }

    /// None has ended.
    pub(super) fn all_alive(&self) -> bool {
        !self.running.iter().any(RunningWorker::ended)
    }

    /// By which interfaces the bytes come.
    pub(super) fn interfaces(&self) -> FlowDevices {
        self.sockets.devices(true)
    }

    /// What becomes of the bytes.
    pub(super) fn method(&self) -> String {
        self.running.first().and_then(RunningWorker::method).unwrap_or_default()
    }

    /// How far each of them is.
    pub(super) fn marks(&self) -> WorkerMarks {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of = |one: &Arc<WorkerCounters>| WorkerMark {
            mark: one.progress.mark(),
            waited_network: read(&one.waiting_source_nanos),
            waited_disk: read(&one.waiting_sink_nanos),
            cpu: read(&one.cpu_nanos),
        };
        WorkerMarks(self.counters.iter().map(of).collect())
    }

    /// Nothing more is taken, and the disks keep what came; after `interrupted` nobody waits for that.
    pub(super) fn end(mut self, interrupted: &AtomicBool) -> ServerWorkersEnd {
        self.stores.iter().for_each(|store| store.settle());
        self.settled.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + SETTLING;
        let settling = !self.stores.is_empty();
        while settling
            && !self.running.iter().all(RunningWorker::ended)
            && !interrupted.load(Ordering::Relaxed)
            && Instant::now() < deadline
        {
            std::thread::sleep(LOOK);
        }
        self.stop.store(true, Ordering::Relaxed);
        let errors = std::mem::take(&mut self.running).into_iter().filter_map(|worker| worker.join().err());
        // All of them are waited for.
        let error = errors.collect::<Vec<_>>().into_iter().next().map(ServerFlowError::from);
        let sync = self.counters.iter().map(|one| one.sync_nanos.load(Ordering::Relaxed)).max();
        ServerWorkersEnd { error, sync_seconds: sync.unwrap_or(0) as f64 * 1e-9 }
    }
}

impl Drop for ServerWorkers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A file for each worker that stores, in the order of the workers.
fn stores(flow: &ServerFlow) -> Result<Vec<Option<Arc<SinkStore>>>, ServerFlowError> {
    let workers = &flow.plan.workers;
    let mut stores: Vec<Option<Arc<SinkStore>>> = workers.iter().map(|_| None).collect();
    for (source, folder) in flow.sinks.iter().enumerate() {
        let own: Vec<usize> = (0..workers.len()).filter(|at| workers[*at].source == source).collect();
        if own.is_empty() {
            continue;
        }
        // Directories on one disk share its room with those that come after.
        let resource = |source: usize| &flow.plan.sources[source].resource;
        let sharing = workers
            .iter()
            .filter(|worker| worker.source >= source && resource(worker.source) == resource(source));
        let sharing = u32::try_from(sharing.count()).unwrap_or(u32::MAX);
        let taken = folder.take(own.len(), sharing)?;
        own.into_iter().zip(taken).for_each(|(at, store)| stores[at] = Some(Arc::new(store)));
    }
    Ok(stores)
}

#[derive(Clone, Copy, Default)]
struct WorkerMark {
    mark: Mark,
    /// Nanoseconds.
    waited_network: u64,
    waited_disk: u64,
    cpu: u64,
}

/// All workers at one time.
#[derive(Clone)]
pub(super) struct WorkerMarks(Vec<WorkerMark>);

impl WorkerMarks {
    /// Bytes per second of all together, each between its own completions.
    pub(super) fn rate_since(&self, earlier: &WorkerMarks) -> f64 {
        self.0.iter().zip(&earlier.0).map(|(now, then)| now.mark.rate_since(&then.mark)).sum()
    }

    pub(super) fn bytes_since(&self, earlier: &WorkerMarks) -> u64 {
        let bytes = |(now, then): (&WorkerMark, &WorkerMark)| now.mark.bytes.saturating_sub(then.mark.bytes);
        self.0.iter().zip(&earlier.0).map(bytes).sum()
    }

    /// Each worker's part of such a time.
    pub(super) fn workers_since(
        &self,
        earlier: &WorkerMarks,
        seconds: f64,
        plan: &Plan,
    ) -> Vec<WorkerResult> {
        let each = self.0.iter().zip(&earlier.0).zip(&plan.workers);
        let result =
            |((now, then), planned): ((&WorkerMark, &WorkerMark), &linerate_model::plan::WorkerPlan)| {
                let share = |now: u64, then: u64| {
                    (now.saturating_sub(then) as f64 * 1e-9 / seconds.max(1e-9)).min(1.0)
                };
                WorkerResult {
                    worker: planned.index,
                    source: plan.sources[planned.source].resource.clone(),
                    path: Some(plan.paths[planned.path].resource.clone()),
                    core: Some(planned.core),
                    bytes_per_second: now.mark.rate_since(&then.mark),
                    cpu_share: share(now.cpu, then.cpu),
                    // Under TLS a thread that reads also decrypts: what it computes it does not wait.
                    waiting_source: (share(now.waited_network, then.waited_network)
                        .min(1.0 - share(now.cpu, then.cpu)))
                    .max(0.0),
                    waiting_sink: share(now.waited_disk, then.waited_disk),
                    ..WorkerResult::default()
                }
            };
        each.map(result).collect()
    }
}
