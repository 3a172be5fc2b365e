//! A file of any server as the source of a flow that is measured: its bytes are thrown away, or stored in
//! files without a name. Nothing of the server is known but what comes, so no part is measured alone, and the
//! judge of transfers says what limited it.
//!
//! Its workers are those of all flows that come in, each with bytes of the server.

mod server_bytes;

use super::remote::{self, Remote, RemoteFile};
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::evidence::measurement_of;
use crate::flow_sockets::FlowSockets;
use crate::http::url::HttpUrl;
use crate::serve::BearerToken;
use crate::tls::TlsTrust;
use linerate_facts::failure::Failure;
use linerate_facts::host::HostSampler;
use linerate_facts::room::StorageLimits;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_machine::flow_devices::{FlowDevices, disks_below};
use linerate_machine::probe::probe;
use linerate_measure::event::Event;
use linerate_measure::measure::running::{RunningWorkers, worker_results};
use linerate_measure::measure::statistics::{Interval, median, spread};
use linerate_measure::measure::window::{OwnMeter, Watch, WindowObservation, WindowSpec};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::ends::{ServerFlow, plan_from_server};
use linerate_measure::run::{Run, RunContext};
use linerate_model::plan::{Goal, WorkerPlan};
use linerate_system::stop::Stop;
use linerate_transport::flow::receive::Terms;
use linerate_transport::flow::sink::{SinkError, SinkStore};
use linerate_transport::flow::start::{IncomingBytes, IncomingStart};
use linerate_transport::flow::worker::WorkerError;
use server_bytes::ServerBytes;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thiserror::Error;

/// Of a shorter file the requests would be measured.
const LEAST_BYTES: u64 = 1 << 20;
/// A server that sends nothing for so long is given up: a disk that stores waits no longer for its end.
const TIMEOUT: Duration = Duration::from_secs(10);
/// TCP and the server find their rate in so long.
const WARM_UP: Duration = Duration::from_secs(1);
/// A disk keeps what came within this; beyond what a storing thread waits for it itself.
const SETTLING: Duration = Duration::from_secs(32);
/// A window, where the user names none, seconds.
const WINDOW_SECONDS: f64 = 2.0;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct ServerFlowSpec {
    pub url: HttpUrl,
    /// With its flow, sinks, workers, windows and rate limit; the URL is not a source or peer of it yet.
    pub goal: Goal,
    pub sink_space: StorageLimits,
    pub token: Option<BearerToken>,
    pub trust: TlsTrust,
}

impl ServerFlowSpec {
    fn settings<'a>(&self, stop: &'a Stop) -> ClientSettings<'a> {
        let token = self.token.as_ref().map(|token| (token.header(), vec![self.url.authority()]));
        ClientSettings::new(stop, TIMEOUT, super::MOST_READ_BYTES, token, self.trust.clone())
    }
}

/// Measures it. A `Failure` where not one figure came of it.
pub fn measure_server(mut context: RunContext<'_>, spec: &ServerFlowSpec) -> Result<Run, Failure> {
    let (sysroot, stop) = (context.sysroot, context.stop);
    context.listener.hear(&Event::Step("probe"));
    let file = probe_file(spec, stop)?;
    let machine = probe(sysroot);
    let server = file.address.ok_or_else(|| Failure::lacks(format!("{}: it has no address", spec.url)))?;
    context.listener.hear(&Event::Step("plan"));
    let goal = Goal { peers: vec![spec.url.authority()], ..spec.goal.clone() };
    let flow = plan_from_server(sysroot, &machine, &goal, server, spec.sink_space)?;
    flow.plan.notes.iter().for_each(|note| context.listener.hear(&Event::Note(note.clone())));
    // Without what follows the path, which may be a key to the file.
    let name = spec.url.with_target(spec.url.path()).to_string();
    let disks = disks_below(sysroot, &machine, &goal.sinks);
    let mut run = Run::begin_stage(Stage::Get, name, machine, goal);
    run.plan = Some(flow.plan.clone());
    context.listener.hear(&Event::Step("measure"));
    match observe(&mut context, spec, &file, &flow) {
        Ok((observed, failed)) => {
            let figure = observed.figure(spec, &flow, &file, disks);
            if !figure.samples.is_empty() {
                context.listener.hear(&Event::Measured(Box::new(figure.clone())));
                run.measurements.push(figure);
            }
            run.errors.extend(failed.map(|error| error.to_string()));
        }
        Err(error) => run.errors.push(error.to_string()),
    }
    context.listener.hear(&Event::Step("diagnose"));
    context.finish(run)
}

/// What the server says of the file.
fn probe_file(spec: &ServerFlowSpec, stop: &Stop) -> Result<RemoteFile, Failure> {
    let settings = spec.settings(stop);
    let mut connection: Option<HttpConnection<'_>> = None;
    let found = remote::probe(&mut connection, &settings, &spec.url).map_err(|error| match error {
        TransferError::Interrupted => Failure::Interrupted,
        error => Failure::lacks(format!("source {error}")),
    })?;
    let file = match found {
        Remote::File(file) => file,
        Remote::Folder(folder) => {
            let url = folder.url;
            return Err(Failure::lacks(format!("source {url}: it is a folder; name a large file of it")));
        }
    };
    if file.bytes < LEAST_BYTES {
        return Err(Failure::lacks(format!(
            "source {}: {} are too little, the requests would be measured; name a file of {} or more, better of some \
             hundred MiB",
            spec.url,
            show_size(file.bytes),
            show_size(LEAST_BYTES)
        )));
    }
    Ok(file)
}

/// What the windows showed, and how the bytes came.
struct ServerObservation {
    window: WindowObservation,
    /// The interfaces that its connections used.
    devices: FlowDevices,
    method: String,
    sync_seconds: f64,
}

/// Lets it come, window after window; what was seen, and what failed on the way.
fn observe(
    context: &mut RunContext<'_>,
    spec: &ServerFlowSpec,
    file: &RemoteFile,
    flow: &ServerFlow,
) -> Result<(ServerObservation, Option<ServerFlowError>), ServerFlowError> {
    let window_time = Duration::from_secs_f64(spec.goal.seconds.unwrap_or(WINDOW_SECONDS));
    let repeats = spec.goal.repeats.max(1);
    let seconds = (WARM_UP + window_time * repeats).as_secs_f64();
    context.listener.hear(&Event::Started { stage: Stage::Get, name: "server".into(), seconds });
    let workers = ServerWorkers::start(spec, file, flow, context.stop)?;
    let mut shown = 0.0;
    let mut tick = |rate: f64| {
        if rate != shown {
            shown = rate;
            context.listener.hear(&Event::Progress { stage: Stage::Get, bytes_per_second: rate });
        }
        !workers.running.any_ended()
    };
    let windows = WindowSpec { warm_up: WARM_UP, window: window_time, repeats };
    let host = HostSampler::of_cpus(context.sysroot).and_devices();
    let watch = Watch::new(windows, context.stop).beside(host);
    let Ok(window) = watch.observe(&mut OwnMeter(workers.running.counters.clone()), &mut tick);
    let method = workers.running.method();
    let devices = workers.interfaces();
    let ended = workers.end();
    let failed = ended.error.filter(|_| !context.stop.is_ended());
    match failed {
        Some(error) if window.samples.is_empty() => Err(error),
        failed => {
            Ok((ServerObservation { window, devices, method, sync_seconds: ended.sync_seconds }, failed))
        }
    }
}

impl ServerObservation {
    fn figure(
        self,
        spec: &ServerFlowSpec,
        flow: &ServerFlow,
        file: &RemoteFile,
        disks: BTreeSet<String>,
    ) -> Measurement {
        let plan = &flow.plan;
        let mut workers = worker_results(&self.window, |index| {
            let WorkerPlan { source, path, .. } = &plan.workers[index];
            (plan.sources[*source].resource.clone(), Some(plan.paths[*path].resource.clone()))
        });
        for (worker, planned) in workers.iter_mut().zip(&plan.workers) {
            worker.core = Some(planned.core);
        }
        let WindowObservation { samples, bytes, host, .. } = self.window;
        let streams = counted(workers.len() as u64, "stream");
        let devices = FlowDevices { disks, ..self.devices };
        let figure = measurement_of(&host, Stage::Get, workers, bytes, &devices);
        let protocol = if file.url.secure { "HTTP/1.1 under TLS" } else { "HTTP/1.1" };
        let interval = Interval::of(&samples).map(|interval| [interval.low, interval.high]);
        Measurement {
            name: spec.goal.flow.ends().into(),
            incoming: true,
            bytes_per_second: median(&samples),
            interval,
            spread: spread(&samples),
            method: format!("{protocol}, {streams}, {}", self.method),
            sync_seconds: self.sync_seconds,
            samples,
            ..figure
        }
    }
}

/// Why a flow from a server was not measured, or ended early: one sentence of the result.
#[derive(Debug, Error)]
enum ServerFlowError {
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
struct ServerWorkers<'a> {
    running: RunningWorkers<'a>,
    stores: Vec<Arc<SinkStore>>,
    sockets: Arc<FlowSockets>,
    /// Ends once all was measured: the readers stop then.
    settled: Arc<Stop>,
}

/// How they ended.
struct ServerWorkersEnd {
    /// What the first of them failed of.
    error: Option<ServerFlowError>,
    /// The longest fsync that ended what was stored.
    sync_seconds: f64,
}

impl<'a> ServerWorkers<'a> {
    /// One for each worker of the plan.
    fn start(
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
    fn interfaces(&self) -> FlowDevices {
        self.sockets.devices(true)
    }

    /// Nothing more is taken, and the disks keep what came; after Ctrl-C nobody waits for that.
    fn end(mut self) -> ServerWorkersEnd {
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
