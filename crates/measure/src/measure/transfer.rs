//! One flow, done and watched: data streams opened, workers started, rates read at the receivers, the figure
//! described.

use super::access::{SHORT_WINDOW_SECONDS, Series};
use super::disk::open_with;
use super::experiment::course::{Experiment, Experimenting};
use super::flow::{
    CACHING_TIME, Flow, MEMORY_BLOCK_BYTES, WorkerSource, bring_into_cache, drop_from_cache, verifies, way,
};
use super::observed::{self, Observed, Pacing};
use super::peer_figures::PeerMeter;
use super::peers::Peers;
use super::product::{Measurement, Stage, ZeroCopyUse};
use super::running::{RunningWorkers, worker_results};
use super::tcp_figures::{FlowMeter, Settling, TcpFigures};
use super::window::WindowObservation;
use super::{PATIENCE, Stages, incoming, trust};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{WorkerPlan, spare_blocks};
use linerate_system::{clock, connection, file};
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::rate_limit::RateLimit;
use linerate_transport::flow::source::{Cursor, Source};
use linerate_transport::flow::start::{Destination, WorkerStart};
use linerate_transport::flow::stream::{StreamRole, StreamSpec};
use linerate_transport::flow::worker::WorkerError;
use linerate_transport::pace::spread_by_kernel;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A cached file is read so many blocks ahead.
const CACHED_BLOCKS: u32 = 2;
/// A source in memory has so many blocks beyond the depth.
const EXTRA_BLOCKS: usize = 2;

/// Opens a data stream for each worker. All connect before the first sends: the UDP window takes the round
/// trip of an idle path from the admission.
fn connect(stages: &Stages<'_>, peers: &mut Peers, flow: &Flow) -> Connected {
    let sink = flow.sink(stages.goal);
    let verify = verifies(stages, flow);
    let spec = StreamSpec { verify, ..StreamSpec::new(flow.protocol, StreamRole::Worker) };
    let opened = peers.open(&flow.workers, &spec, sink);
    let (mut connected, mut lost, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (worker, ticket) in flow.workers.iter().zip(opened) {
        // Of a path that is lost each would wait as long as the first, and the tickets of the others expire meanwhile.
        if stages.stopped() || lost.contains(&worker.path) {
            continue;
        }
        // Where the sink writes alone, nothing is sent to it.
        let destination = |ticket| match flow.behind {
            WorkerSource::Sink => Ok(Destination::Null { reads: false }),
            _ => peers.connect(&ticket, worker, stages.plan, stages.goal, stages.stop),
        };
        match ticket.and_then(destination) {
            Ok(destination) => connected.push((worker.clone(), destination)),
            // The other paths go on without this one.
            Err(why) => {
                lost.push(worker.path);
                failures.push(format!("{} {}: {why}", flow.failing(), way(stages, worker)));
            }
        }
    }
    // Its other workers end with it: the agent counts the workers of a path by number.
    let connected = connected.into_iter().filter(|(worker, _)| !lost.contains(&worker.path));
    let (workers, destinations) = connected.unzip();
    Connected { workers, destinations, failures }
}

/// Workers with an open stream each, and why others have none.
struct Connected {
    workers: Vec<WorkerPlan>,
    destinations: Vec<Destination>,
    failures: Vec<String>,
}

/// Measures a flow once; none where no worker could connect.
pub(super) fn observe(
    stages: &mut Stages<'_>,
    peers: &mut Peers,
    flow: &Flow,
) -> Result<Option<Observed>, String> {
    observe_beside(stages, peers, flow, None)
}

/// The same, while an experiment takes from it, some of the workers being the experiment's.
pub(super) fn observe_beside(
    stages: &mut Stages<'_>,
    peers: &mut Peers,
    flow: &Flow,
    mut experiment: Option<&mut Experiment>,
) -> Result<Option<Observed>, String> {
    if flow.comes_in() {
        return incoming::observe(stages, peers, flow);
    }
    let mut flags = Vec::new();
    let limit = stages.rate_limit();
    let cursors = cursors(stages, flow, limit.as_deref());
    let Connected { workers, destinations, failures } = connect(stages, peers, flow);
    // An experiment knows its workers by their places, and a peer that lets in fewer streams is not gone.
    if let (Some(_), Some(why)) = (&experiment, failures.first()) {
        return Err(why.clone());
    }
    failures.into_iter().for_each(|why| stages.failed(why));
    if workers.is_empty() {
        stages.sink_failed |= flow.sink(stages.goal).is_some();
        peers.close();
        return Ok(None);
    }
    let sends = flow.behind != WorkerSource::Sink;
    let segmentation = destinations.iter().all(|destination| match destination {
        Destination::Udp(sender) => sender.segmentation(),
        _ => true,
    });
    let stream = |destination: &Destination| match destination {
        Destination::Tcp(stream) => stream.try_clone().ok(),
        _ => None,
    };
    let streams: Vec<Option<TcpStream>> = destinations.iter().map(stream).collect();
    let own_pace = stages.lossy_streams.as_ref().and_then(|lossy| lossy.pacing_bytes_per_second);
    let pacing = match (limit.as_ref().filter(|_| sends), own_pace.filter(|_| flow.protocol == Protocol::Tcp))
    {
        (Some(limit), _) => Some(pacing(&streams, limit)),
        (None, Some(rate)) => keep_below(&streams, rate).then_some(Pacing::Streams(rate)),
        (None, None) => None,
    };
    let mut running = RunningWorkers::new(stages.stop, stages.goal.idle);
    for (at, (worker, destination)) in workers.iter().zip(destinations).enumerate().filter(|_| sends) {
        let behind = experiment.as_ref().map_or(flow.behind, |experiment| experiment.purpose(at).source());
        let start = worker_start(stages, flow, behind, (worker, destination), &cursors, &mut flags)?;
        let start = WorkerStart { rate_limit: limit.clone(), ..start };
        let start = match &experiment {
            Some(experiment) => experiment.gated(at, start),
            None => start,
        };
        running.start(start).map_err(|error| format!("a worker did not start: {error}"))?;
    }
    let engine = if sends { running.method() } else { String::new() };
    let reads_disk: Vec<bool> = (0..workers.len())
        .map(|at| experiment.as_ref().is_none_or(|it| it.purpose(at).source() == WorkerSource::Disk))
        .collect();
    if let Some(experiment) = &mut experiment {
        experiment.start(stages, &mut running, &streams).map_err(|error| error.to_string())?;
    }
    let mut meter = FlowMeter {
        peers: PeerMeter::new(peers, &workers),
        streams: &streams,
        workers: running.counters.clone(),
        begin: None,
        glances: Vec::new(),
        losses: Vec::new(),
        settling: (flow.protocol == Protocol::Udp || !stages.is_lossy()).then(Settling::default),
        started: clock::now(),
        alive_until_seconds: 0.0,
    };
    let mut series = Series::new();
    let watched = match experiment {
        Some(experiment) => {
            let mut both = Experimenting { flow: meter, experiment, running: &running };
            let watched = stages.watch(&running, &mut both, flow.windows, flow.stage, &mut series);
            meter = both.flow;
            watched
        }
        None => stages.watch(&running, &mut meter, flow.windows, flow.stage, &mut series),
    };
    let FlowMeter { peers: meter, begin, glances, losses, .. } = meter;
    let far = meter.far();
    let mut tcp = TcpFigures::of_all(&streams);
    tcp.iter_mut().zip(begin.unwrap_or_default()).for_each(|(end, begin)| end.leave_out(&begin));
    tcp.iter_mut().zip(glances).for_each(|(stream, glances)| stream.add_glances(glances));
    tcp.iter_mut().zip(losses).for_each(|(stream, losses)| stream.add_losses(losses));
    stages.count_losses(tcp.iter().map(TcpFigures::loss_count));
    let of_tcp = tcp.iter().map(|end| f64::from(end.least_round_trip_us) * 1e-6);
    let of_udp =
        watched.iter().flat_map(|watched| &watched.workers).map(|worker| worker.least_round_trip_seconds);
    stages.round_trip_seconds = of_tcp.chain(of_udp).fold(stages.round_trip_seconds, f64::max);
    if flow.behind == WorkerSource::Disk {
        // Who sends from memory reads no source.
        let of = |at: usize| if reads_disk[at] { workers[at].source } else { usize::MAX };
        let sources: Vec<usize> = (0..workers.len()).map(of).collect();
        stages.was_read(&sources, &running);
    }
    let errors = running.finish();
    let zero_copy = sends_zero_copy(stages, flow).then(|| zero_copy_use(&running.counters));
    // Before the test is closed: nobody would hear what came of it.
    let kept = match (flow.sink(stages.goal), &watched) {
        (Some(_), Ok(_)) if !stages.stopped() => peers.settle(&workers),
        _ => Ok(()),
    };
    // Ctrl-C breaks off what is waited for; what was seen until then is whole.
    let kept = if stages.stopped() { Ok(()) } else { kept };
    let verified = verifies(stages, flow).then(|| peers.verify(&workers, &running.counters)).flatten();
    let last = peers.close();
    let sink = flow.sink(stages.goal).and_then(|_| far.sink(&last)).map(Box::new);
    if flow.behind == WorkerSource::Cached {
        drop_from_cache(&stages.plan.sources);
    }
    // Where the sink has said why, that its streams ended is not news.
    let sink_said = flow.sink(stages.goal).is_some() && (watched.is_err() || kept.is_err());
    stages.sink_failed |= kept.is_err();
    let is_news = |(at, error): &(usize, WorkerError)| {
        *at < workers.len() && !(sink_said && matches!(error, WorkerError::Sink { .. }))
    };
    for (position, error) in errors.into_iter().filter(is_news) {
        let way = way(stages, &workers[position]);
        stages.failed(format!("{} {way}: {error}", flow.failing()));
    }
    let watched = watched?;
    kept.map_err(|error| error.to_string())?;
    let mut receiver = far.result(&watched);
    receiver.iter_mut().for_each(|receiver| receiver.verified = verified);
    if verified == Some(false) {
        let what = format!("{} {}", flow.stage, flow.name);
        stages.failed(format!("{what}: the bytes that arrived are not those that were sent"));
    }
    Ok(Some(Observed {
        workers,
        windows: watched,
        rates: series.rates(),
        receiver,
        sink,
        tcp,
        verified,
        zero_copy,
        engine,
        segmentation,
        flags,
        rate_limit: peers.rate_limit(),
        pacing,
        ..Observed::default()
    }))
}

/// Each stream goes below this rate, where the kernel lets it.
fn keep_below(streams: &[Option<TcpStream>], bytes_per_second: f64) -> bool {
    let set =
        |stream: &TcpStream| connection::set_pacing_rate(stream, bytes_per_second.ceil() as u64).is_ok();
    // All are asked.
    let kept = streams.iter().flatten().filter(|stream| set(stream)).count();
    kept == streams.len()
}

/// Every stream may have to carry the whole rate, where the others have nothing to send.
fn pacing(streams: &[Option<TcpStream>], limit: &RateLimit) -> Pacing {
    let rate = limit.bytes_per_second();
    let is_spread =
        |stream: &Option<TcpStream>| stream.as_ref().is_some_and(|stream| spread_by_kernel(stream, rate));
    // All are asked.
    let spread = streams.iter().filter(|stream| is_spread(stream)).count();
    if spread == streams.len() { Pacing::Kernel } else { Pacing::Workers }
}

/// The figure.
pub(super) fn describe(stages: &Stages<'_>, flow: &Flow, observed: &Observed) -> Measurement {
    if flow.comes_in() {
        return incoming::describe(stages, flow, observed);
    }
    let Observed { workers, windows: watched, receiver, tcp, flags, .. } = observed;
    let (zero_copy, rate_limit) = (observed.zero_copy, observed.rate_limit);
    let mut measurement = Measurement::of(flow.stage, flow.name.clone(), flow.resource.clone(), watched);
    let is_headline = flow.stage == Stage::Path && stages.goal.protocols.first() == Some(&flow.protocol);
    measurement.add_earlier(if is_headline { &stages.undisturbed } else { &[] });
    stages.part_members(&mut measurement);
    measurement.together = flow.together;
    measurement.protocol = Some(flow.protocol);
    measurement.with_file = flow.behind == WorkerSource::Cached;
    measurement.method = observed::method_of_transfer(stages, flow, observed);
    measurement.zero_copy = zero_copy;
    measurement.workers = worker_results(watched, |position| {
        let worker = &workers[position];
        let source = match flow.behind {
            WorkerSource::Memory => "memory".to_string(),
            WorkerSource::Cached => "page cache".to_string(),
            WorkerSource::Disk => stages.plan.sources[worker.source].resource.clone(),
            WorkerSource::Sink | WorkerSource::Peer | WorkerSource::Written => flow.resource.clone(),
        };
        (source, Some(stages.plan.paths[worker.path].resource.clone()))
    });
    let ends = tcp.iter().zip(&watched.workers).zip(workers);
    for (result, ((tcp, udp), worker)) in measurement.workers.iter_mut().zip(ends) {
        (result.worker, result.core) = (worker.index, Some(worker.core));
        if flow.behind == WorkerSource::Disk {
            (result.queue_depth, result.block_bytes) = (stages.reads_of(worker), worker.block_bytes);
        }
        match flow.protocol {
            Protocol::Tcp => tcp.tell(result),
            Protocol::Udp => udp.tell_window(result),
        }
    }
    measurement.not_seen = stages.not_seen(&measurement);
    measurement.loss = loss(flow.protocol, watched);
    measurement.receiver = receiver.clone();
    measurement.sink = observed.sink.as_deref().cloned();
    measurement.held_by = trust::held_by(&measurement, stages.rate_limits(rate_limit));
    if rate_limit.is_some() {
        measurement.flags.push("agent-rate-limit".into());
    }
    measurement.lower_bound = measurement.held_by.is_some();
    measurement.set_burst_of_flow(&observed.rates, SHORT_WINDOW_SECONDS);
    if flow.behind == WorkerSource::Sink {
        // What this host did meanwhile is not the sink's.
        return Measurement { protocol: None, workers: Vec::new(), not_seen: Vec::new(), ..measurement };
    }
    measurement.flags.extend(flags.iter().cloned());
    if is_headline {
        measurement.experiment = stages.experiment.clone().map(Box::new);
        measurement.no_experiment.clone_from(&stages.no_experiment);
        measurement.reads_in_flight.clone_from(&stages.reads_trials);
        measurement.methods.clone_from(&stages.method_trials);
    }
    if flow.stage == Stage::Path && flow.protocol == Protocol::Tcp {
        measurement.stream_trials.clone_from(&stages.stream_trials);
    }
    let cores: Vec<u32> = workers.iter().map(|worker| worker.core).collect();
    trust::flag(&mut measurement, watched, &cores);
    measurement
}

/// One cursor a source, shared by the workers that read it and going on where it was read last; cached sources
/// deal out only what was brought into the cache.
fn cursors(stages: &Stages<'_>, flow: &Flow, limit: Option<&RateLimit>) -> Vec<Arc<Cursor>> {
    let patience = clock::now() + CACHING_TIME;
    let sources = stages.plan.sources.iter().enumerate().map(|(index, source)| {
        let used = flow.workers.iter().any(|worker| worker.source == index);
        match flow.behind {
            WorkerSource::Cached if used => Arc::new(Cursor::new(
                bring_into_cache(source, patience, limit, stages.stop),
                source.block_bytes,
            )),
            _ => Arc::clone(&stages.reading[index].cursor),
        }
    });
    sources.collect()
}

fn worker_start(
    stages: &Stages<'_>,
    flow: &Flow,
    behind: WorkerSource,
    (worker, destination): (&WorkerPlan, Destination),
    cursors: &[Arc<Cursor>],
    flags: &mut Vec<String>,
) -> Result<WorkerStart, String> {
    let plan = &stages.plan.sources[worker.source];
    let cursor = &cursors[worker.source];
    let source = match behind {
        WorkerSource::Memory | WorkerSource::Sink | WorkerSource::Peer | WorkerSource::Written => {
            Source::Memory
        }
        WorkerSource::Disk => open_with(plan, flags, cursor)?,
        WorkerSource::Cached => Source::File {
            file: file::open_to_read(&plan.path, false)
                .map_err(|error| format!("{}: {error}", plan.path.display()))?,
            cursor: Arc::clone(cursor),
            label: plan.path.display().to_string(),
        },
    };
    let (block_bytes, depth, extra_blocks) = match behind {
        // From as many blocks as the path has: what is sent lies in the same cache.
        WorkerSource::Memory | WorkerSource::Sink | WorkerSource::Peer | WorkerSource::Written => {
            (MEMORY_BLOCK_BYTES.min(worker.block_bytes), stages.reads_of(worker), EXTRA_BLOCKS)
        }
        WorkerSource::Cached => (worker.block_bytes, CACHED_BLOCKS, 0),
        WorkerSource::Disk => {
            let reads = stages.reads_of(worker);
            (worker.block_bytes, reads, spare_blocks(reads) as usize)
        }
    };
    Ok(WorkerStart {
        core: Some(worker.core),
        source,
        destination,
        block_bytes: block_bytes as usize,
        depth: depth as usize,
        extra_blocks,
        verify: stages.goal.verify && flow.protocol == Protocol::Tcp,
        patience: PATIENCE,
        rate_limit: None,
        zero_copy: sends_zero_copy(stages, flow),
        io_uring: stages.io_uring,
    })
}

/// A sink or a UDP receiver is sent nothing of the kind.
fn sends_zero_copy(stages: &Stages<'_>, flow: &Flow) -> bool {
    stages.zero_copy
        && flow.protocol == Protocol::Tcp
        && flow.behind != WorkerSource::Sink
        && !flow.comes_in()
}

fn zero_copy_use(workers: &[Arc<WorkerCounters>]) -> ZeroCopyUse {
    let mut all = ZeroCopyUse::default();
    for worker in workers {
        all.join(ZeroCopyUse {
            sends: worker.zero_copy_sends.load(Ordering::Relaxed),
            copied: worker.zero_copy_copied.load(Ordering::Relaxed),
            refused: worker.zero_copy_refused.load(Ordering::Relaxed),
            unexpected: worker.unexpected_completions.load(Ordering::Relaxed),
        });
    }
    all
}

/// Share of what was sent in the windows that did not arrive.
fn loss(protocol: Protocol, observation: &WindowObservation) -> f64 {
    let sent: u64 = observation.workers.iter().map(|worker| worker.sent_bytes).sum();
    let lost: u64 = observation.workers.iter().map(|worker| worker.lost_bytes).sum();
    if protocol == Protocol::Tcp || sent == 0 { 0.0 } else { lost as f64 / sent as f64 }
}
