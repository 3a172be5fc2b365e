//! A file of any server as the source of a flow that is measured: its bytes are thrown away, or stored in files without a
//! name. Nothing of the server is known but what comes, so no part is measured alone, and the judge of transfers says
//! what limited it.

mod server_bytes;
mod workers;

use super::error::GetError;
use super::remote::{self, Remote, RemoteFile};
use crate::client::{ClientSettings, HttpConnection};
use crate::evidence::measurement_of;
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
use linerate_measure::measure::interval::Interval;
use linerate_measure::measure::running::worker_results;
use linerate_measure::measure::statistics::{median, spread};
use linerate_measure::measure::window::{OwnMeter, Watch, WindowObservation, WindowSpec};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::from_server::{ServerFlow, plan_from_server};
use linerate_measure::run::{Run, RunContext};
use linerate_model::plan::{Goal, WorkerPlan};
use linerate_system::stop::Stop;
use std::collections::BTreeSet;
use std::time::Duration;
use workers::{ServerFlowError, ServerWorkers};

/// Of a shorter file the requests would be measured.
const LEAST_BYTES: u64 = 1 << 20;
/// A server that sends nothing for so long is given up: a disk that stores waits no longer for its end.
const TIMEOUT: Duration = Duration::from_secs(10);
/// TCP and the server find their rate in so long.
const WARM_UP: Duration = Duration::from_secs(1);
/// A window, where the user names none, seconds.
const WINDOW_SECONDS: f64 = 2.0;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct ServerFlowSpec {
    pub url: HttpUrl,
    /// With its flow, sinks, workers, windows and rate limit; the URL is no source or peer of it yet.
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
        GetError::Interrupted => Failure::Interrupted,
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

/// What was seen.
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
