//! The workers of such a flow: those of all flows that come in, each with bytes of the server.

use super::super::remote::RemoteFile;
use super::ServerFlowSpec;
use super::server_bytes::ServerBytes;
use crate::flow_sockets::FlowSockets;
use linerate_machine::flow_devices::FlowDevices;
use linerate_measure::measure::running::RunningWorkers;
use linerate_measure::run::from_server::ServerFlow;
use linerate_system::stop::Stop;
use linerate_transport::flow::incoming::{IncomingBytes, IncomingStart};
use linerate_transport::flow::receive::Terms;
use linerate_transport::flow::sink::{SinkError, SinkStore};
use linerate_transport::flow::worker::WorkerError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thiserror::Error;

/// A disk keeps what came within this; beyond what a storing thread waits for it itself.
const SETTLING: Duration = Duration::from_secs(32);

/// Why a flow from a server was not measured, or ended early: one sentence of the result.
#[derive(Debug, Error)]
pub(super) enum ServerFlowError {
    #[error("a worker did not start: {0}")]
    NoThread(io::Error),
    #[error("no worker has room: this process may use too few CPUs, or too little memory")]
    NoRoom,
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// Workers at work; dropping this stops them.
pub(super) struct ServerWorkers<'a> {
    pub(super) running: RunningWorkers<'a>,
    stores: Vec<Arc<SinkStore>>,
    sockets: Arc<FlowSockets>,
    /// All was measured.
    settled: Arc<Stop>,
}

/// How they ended.
pub(super) struct ServerWorkersEnd {
    /// What the first of them failed of.
    pub(super) error: Option<ServerFlowError>,
    /// The longest fsync that ended what was stored.
    pub(super) sync_seconds: f64,
}

impl<'a> ServerWorkers<'a> {
    /// One for each worker of the plan.
    pub(super) fn start(
        spec: &ServerFlowSpec,
        file: &RemoteFile,
        flow: &ServerFlow,
        interrupted: &'a Stop,
    ) -> Result<Self, ServerFlowError> {
        let plan = &flow.plan;
        let stores = stores(flow)?;
        let (spec, file) = (Arc::new(spec.clone()), Arc::new(file.clone()));
        let terms = Terms::paced(false, spec.goal.rate_limit);
        let mut workers = ServerWorkers {
            running: RunningWorkers::new(interrupted, false),
            stores: stores.iter().flatten().cloned().collect(),
            sockets: Arc::default(),
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
            workers.running.start_incoming(start).map_err(ServerFlowError::NoThread)?;
        }
        if workers.running.counters.is_empty() {
            return Err(ServerFlowError::NoRoom);
        }
        Ok(workers)
    }

    /// By which interfaces the bytes come.
    pub(super) fn interfaces(&self) -> FlowDevices {
        self.sockets.devices(true)
    }

    /// Nothing more is taken, and the disks keep what came; after Ctrl-C nobody waits for that.
    pub(super) fn end(mut self) -> ServerWorkersEnd {
        self.stores.iter().for_each(|store| store.settle());
        self.settled.end();
        if !self.stores.is_empty() {
            self.running.await_end(SETTLING);
        }
        let error = self.running.finish().into_iter().next().map(|(_, error)| ServerFlowError::from(error));
        let sync = self.running.counters.iter().map(|one| one.sync_nanos.load(Ordering::Relaxed)).max();
        ServerWorkersEnd { error, sync_seconds: sync.unwrap_or(0) as f64 * 1e-9 }
    }
}

impl Drop for ServerWorkers<'_> {
    fn drop(&mut self) {
        self.settled.end();
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
