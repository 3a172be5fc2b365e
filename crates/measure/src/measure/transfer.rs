//! One flow, done and watched: data streams opened, workers started, rates read at the receivers, the figure
//! described.

use super::Stages;
use super::cached::{CACHING_TIME, bring_in, drop_again};
use super::disk::open_with;
use super::network::{Flow, WorkerSource};
use super::peers::{Far, PeerMeter, Peers};
use super::product::Measurement;
use super::running::{RunningWorkers, worker_results};
use super::trust;
use super::window::WindowObservation;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_size;
use linerate_model::plan::WorkerPlan;
use linerate_system::file;
use linerate_system::socket::tcp_info;
use linerate_transport::flow::source::{Cursor, Source};
use linerate_transport::flow::start::{Destination, WorkerStart};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// Bytes a send from memory: as large as a block of a file, so that the cost of a call is the same.
const MEMORY_BLOCK_BYTES: u64 = 1 << 20;
/// A memory worker alternates between this many blocks.
const MEMORY_BLOCKS: u32 = 2;
/// Blocks beyond the read depth: reading goes on while one is sent.
const EXTRA_BLOCKS: usize = 2;

/// What was seen of a flow, with what is needed to describe it.
struct Observed {
    workers: Vec<WorkerPlan>,
    seen: WindowObservation,
    far: Far,
    tcp: Vec<TcpAtEnd>,
    verified: Option<bool>,
    engine: String,
    segmentation: bool,
    flags: Vec<String>,
    /// What an agent lets a client move.
    rate_limit: Option<f64>,
}

/// Measures a flow; none where no worker could connect or Ctrl-C came before the first sample.
pub(super) fn run(
    stages: &mut Stages<'_>,
    peers: &mut Peers,
    flow: &Flow,
) -> Result<Option<Measurement>, String> {
    let Some(observed) = observe(stages, peers, flow)? else { return Ok(None) };
    if observed.verified == Some(false) {
        let what = format!("{} {}", flow.stage, flow.name);
        stages.failed(format!("{what}: the bytes that arrived are not those that were sent"));
    }
    Ok((!observed.seen.samples.is_empty()).then(|| describe(stages, flow, observed)))
}

fn verifies(stages: &Stages<'_>, flow: &Flow) -> bool {
    stages.goal.verify && flow.protocol == Protocol::Tcp
}

/// Opens a data stream for each worker. All connect before the first sends: the UDP window takes the round
/// trip of an idle path from the admission.
fn connect(stages: &mut Stages<'_>, peers: &mut Peers, flow: &Flow) -> (Vec<WorkerPlan>, Vec<Destination>) {
    let opened = peers.open(&flow.workers, flow.protocol, verifies(stages, flow));
    let mut connected = Vec::new();
    let mut lost = Vec::new();
    for (worker, ticket) in flow.workers.iter().zip(opened) {
        match ticket.and_then(|ticket| peers.connect(&ticket, worker, stages.plan, stages.goal)) {
            Ok(destination) => connected.push((worker.clone(), destination)),
            // The other paths go on without this one.
            Err(why) => {
                lost.push(worker.path);
                let way = way(stages, worker);
                stages.failed(format!("{} {} {way}: {why}", flow.stage, flow.name));
            }
        }
    }
    // Its other workers end with it: the agent counts the workers of a path by number.
    connected.into_iter().filter(|(worker, _)| !lost.contains(&worker.path)).unzip()
}

fn observe(stages: &mut Stages<'_>, peers: &mut Peers, flow: &Flow) -> Result<Option<Observed>, String> {
    let mut flags = Vec::new();
    let cursors = cursors(stages, flow);
    let (workers, destinations) = connect(stages, peers, flow);
    if workers.is_empty() {
        peers.close();
        return Ok(None);
    }
    let segmentation = destinations.iter().all(|destination| match destination {
        Destination::Udp(sender) => sender.segmentation(),
        _ => true,
    });
    let stream = |destination: &Destination| match destination {
        Destination::Tcp(stream) => stream.try_clone().ok(),
        _ => None,
    };
    let streams: Vec<Option<TcpStream>> = destinations.iter().map(stream).collect();
    let mut running = RunningWorkers::new(stages.stop);
    for (worker, destination) in workers.iter().zip(destinations) {
        let start = worker_start(stages, flow, worker, destination, &cursors, &mut flags)?;
        running.start(start).map_err(|error| format!("a worker did not start: {error}"))?;
    }
    let engine = running.method();
    let mut meter = PeerMeter::new(peers, &workers);
    let seen = stages.watch(&mut running, &mut meter, flow.windows, flow.stage);
    let far = meter.far();
    let tcp = streams.iter().map(|stream| TcpAtEnd::read(stream.as_ref())).collect();
    let errors = running.finish();
    let verified = verifies(stages, flow).then(|| peers.verify(&workers, &running.counters)).flatten();
    peers.close();
    if flow.behind == WorkerSource::Cached {
        drop_again(&stages.plan.sources);
    }
    for (position, error) in errors {
        let way = way(stages, &workers[position]);
        stages.failed(format!("{} {} {way}: {error}", flow.stage, flow.name));
    }
    Ok(Some(Observed {
        workers,
        seen: seen?,
        far,
        tcp,
        verified,
        engine,
        segmentation,
        flags,
        rate_limit: peers.rate_limit(),
    }))
}

fn describe(stages: &Stages<'_>, flow: &Flow, observed: Observed) -> Measurement {
    let Observed { workers, seen, far, tcp, verified, engine, segmentation, flags, rate_limit } = observed;
    let mut measurement = Measurement::of(flow.stage, flow.name.clone(), flow.resource.clone(), &seen);
    measurement.together = flow.together;
    measurement.protocol = Some(flow.protocol);
    measurement.with_file = flow.behind == WorkerSource::Cached;
    measurement.method = method(stages, flow, &engine, segmentation);
    measurement.workers = worker_results(&seen, |position| {
        let worker = &workers[position];
        let source = match flow.behind {
            WorkerSource::Memory => "memory".to_string(),
            WorkerSource::Cached => "page cache".to_string(),
            WorkerSource::Disk => stages.plan.sources[worker.source].resource.clone(),
        };
        (source, Some(stages.plan.paths[worker.path].resource.clone()))
    });
    for ((result, tcp), worker) in measurement.workers.iter_mut().zip(&tcp).zip(&workers) {
        result.worker = worker.index;
        result.receiver_limited = tcp.receiver_limited;
        result.retransmits = tcp.retransmits;
        result.segment_bytes = tcp.segment_bytes;
    }
    measurement.loss = loss(flow.protocol, &seen);
    measurement.receiver = far.result(&seen);
    if let Some(receiver) = &mut measurement.receiver {
        receiver.verified = verified;
    }
    measurement.held_by = trust::held_by(&seen, measurement.receiver.as_ref(), rate_limit);
    if rate_limit.is_some() {
        measurement.flags.push("agent-rate-limit".into());
    }
    measurement.lower_bound = measurement.held_by.is_some();
    measurement.flags.extend(flags);
    let cores: Vec<u32> = workers.iter().map(|worker| worker.core).collect();
    trust::flag(&mut measurement, &seen, &cores);
    measurement
}

/// Interface and peer of a worker, for a sentence.
fn way(stages: &Stages<'_>, worker: &WorkerPlan) -> String {
    let path = &stages.plan.paths[worker.path];
    format!("on {} to {}", path.name, path.peer)
}

/// One cursor a source, shared by the workers that read it; cached sources deal out only what was brought
/// into the cache.
fn cursors(stages: &Stages<'_>, flow: &Flow) -> Vec<Arc<Cursor>> {
    let patience = Instant::now() + CACHING_TIME;
    let sources = stages.plan.sources.iter().enumerate().map(|(index, source)| {
        let used = flow.workers.iter().any(|worker| worker.source == index);
        let length = match flow.behind {
            WorkerSource::Cached if used => bring_in(source, patience),
            _ => source.length_bytes,
        };
        Arc::new(Cursor::new(length, source.block_bytes))
    });
    sources.collect()
}

fn worker_start(
    stages: &Stages<'_>,
    flow: &Flow,
    worker: &WorkerPlan,
    destination: Destination,
    cursors: &[Arc<Cursor>],
    flags: &mut Vec<String>,
) -> Result<WorkerStart, String> {
    let plan = &stages.plan.sources[worker.source];
    let cursor = &cursors[worker.source];
    let source = match flow.behind {
        WorkerSource::Memory => Source::Memory,
        WorkerSource::Disk => open_with(plan, flags, cursor)?,
        WorkerSource::Cached => Source::File {
            file: file::open_to_read(&plan.path, false)
                .map_err(|error| format!("{}: {error}", plan.path.display()))?,
            cursor: Arc::clone(cursor),
            label: plan.path.display().to_string(),
        },
    };
    let (block_bytes, depth, extra_blocks) = match flow.behind {
        WorkerSource::Memory => (MEMORY_BLOCK_BYTES.min(worker.block_bytes), MEMORY_BLOCKS, 0),
        WorkerSource::Cached => (worker.block_bytes, MEMORY_BLOCKS, 0),
        WorkerSource::Disk => (worker.block_bytes, worker.queue_depth, EXTRA_BLOCKS),
    };
    Ok(WorkerStart {
        core: Some(worker.core),
        source,
        destination,
        block_bytes: block_bytes as usize,
        depth: depth as usize,
        extra_blocks,
        verify: stages.goal.verify && flow.protocol == Protocol::Tcp,
        patience: stages.patience(),
        io_uring: stages.io_uring,
    })
}

fn method(stages: &Stages<'_>, flow: &Flow, engine: &str, segmentation: bool) -> String {
    let source = match flow.behind {
        WorkerSource::Memory => format!("{} from memory", show_size(MEMORY_BLOCK_BYTES)),
        WorkerSource::Cached => "cached file".to_string(),
        WorkerSource::Disk => {
            let first = &stages.plan.sources[flow.workers[0].source];
            let how = if first.direct { "O_DIRECT" } else { "buffered" };
            format!("{how} {} × {}", show_size(first.block_bytes), flow.workers[0].queue_depth)
        }
    };
    let sink = match flow.protocol {
        Protocol::Tcp => match &stages.goal.congestion_control {
            Some(name) => format!("TCP {name}"),
            None => format!("TCP {}", stages.machine.kernel.tcp_congestion_control),
        },
        Protocol::Udp if segmentation => "UDP with segmentation offload, window by feedback".into(),
        Protocol::Udp => "UDP datagram by datagram (no segmentation offload), window by feedback".into(),
    };
    let workers = if flow.workers.len() == 1 {
        "1 worker".to_string()
    } else {
        format!("{} workers", flow.workers.len())
    };
    format!("{source} → {sink}, {workers}, {engine}")
}

/// Share of what was sent in the windows that did not arrive.
fn loss(protocol: Protocol, seen: &WindowObservation) -> f64 {
    let sent: u64 = seen.workers.iter().map(|worker| worker.sent_bytes).sum();
    let lost: u64 = seen.workers.iter().map(|worker| worker.lost_bytes).sum();
    if protocol == Protocol::Tcp || sent == 0 { 0.0 } else { lost as f64 / sent as f64 }
}

/// What TCP_INFO says of one stream at its end.
#[derive(Clone, Copy, Debug, Default)]
struct TcpAtEnd {
    receiver_limited: f64,
    retransmits: u64,
    segment_bytes: u32,
}

impl TcpAtEnd {
    fn read(stream: Option<&TcpStream>) -> Self {
        let Some(info) = stream.and_then(|stream| tcp_info(stream).ok()) else { return Self::default() };
        TcpAtEnd {
            receiver_limited: info.receiver_limited_us as f64 / info.busy_us.max(1) as f64,
            retransmits: u64::from(info.retransmits),
            segment_bytes: info.segment_bytes,
        }
    }
}
