//! A flow that comes in, done and watched: the peer's agents send from memory, workers of this host take the streams
//! and throw them away or store them. And the disks here written alone, as the flow writes them.

use super::access::{SHORT_WINDOW_SECONDS, Series};
use super::flow::{Flow, WorkerSource, verifies, way};
use super::observed::Observed;
use super::peers::{Peers, SETTLING};
use super::product::{Measurement, Stage};
use super::running::{RunningWorkers, worker_results};
use super::sender::SenderMeter;
use super::{Stages, trust};
use linerate_facts::protocol::Protocol;
use linerate_facts::wording::counted;
use linerate_model::plan::{RunFlow, WorkerPlan};
use linerate_transport::flow::receive::Terms;
use linerate_transport::flow::sink::{SinkError, SinkStore};
use linerate_transport::flow::start::{IncomingBytes, IncomingStart};
use linerate_transport::flow::store::BUFFER_BYTES;
use linerate_transport::flow::worker::WorkerError;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Beyond what a storing thread itself waits for its disk.
const GRACE: Duration = Duration::from_secs(2);

/// A worker, the end of its stream, and where it stores.
struct IncomingWorker {
    plan: WorkerPlan,
    stream: Option<TcpStream>,
    store: Option<Arc<SinkStore>>,
}

/// Measures such a flow once; none where no worker could connect.
pub(super) fn observe(
    stages: &mut Stages<'_>,
    peers: &mut Peers,
    flow: &Flow,
) -> Result<Option<Observed>, String> {
    let verify = verifies(stages, flow) && flow.behind == WorkerSource::Peer;
    let stores = stores(stages, flow)?;
    let incoming = connect(stages, peers, flow, stores, verify);
    if incoming.is_empty() {
        peers.close();
        return Ok(None);
    }
    let workers: Vec<WorkerPlan> = incoming.iter().map(|one| one.plan.clone()).collect();
    let stores: Vec<Arc<SinkStore>> = incoming.iter().filter_map(|one| one.store.clone()).collect();
    let mut terms = Terms::paced(verify, stages.goal.rate_limit);
    // The network alone is to cost what its part of the path does.
    if stages.goal.flow == RunFlow::NetworkToDisk {
        terms.memory_bytes = BUFFER_BYTES as usize;
    }
    let mut running = RunningWorkers::new(stages.stop, stages.goal.idle);
    for IncomingWorker { plan, stream, store } in incoming {
        let bytes = stream.map(IncomingBytes::Tcp);
        let start = IncomingStart { core: Some(plan.core), bytes, store, terms: terms.clone() };
        running.start_incoming(start).map_err(|error| format!("a worker did not start: {error}"))?;
    }
    let engine = running.method();
    let mut meter = SenderMeter::new(running.counters.clone(), peers, &workers);
    let mut series = Series::new();
    let watched = stages.watch(&running, &mut meter, flow.windows, flow.stage, &mut series);
    // Streams whose sender is gone just end.
    let watched = match watched {
        Ok(watched) if watched.cut_short && !stages.stopped() => meter.why_ended().and(Ok(watched)),
        watched => watched,
    };
    let far = meter.far();
    let (tcp, sends) = (far.tcp(), flow.behind == WorkerSource::Peer);
    for end in &tcp {
        let trip = f64::from(end.least_round_trip_us) * 1e-6;
        stages.round_trip_seconds = stages.round_trip_seconds.max(trip);
    }
    // What is checked is taken to its last byte: the senders end first. Else no more is taken, and the disk keeps what
    // came.
    let mut last = if verify { peers.close() } else { Vec::new() };
    stores.iter().for_each(|store| store.settle());
    if watched.is_err() {
        // Of a sender that is gone no stream need ever end.
        running.stop();
    }
    let in_time = !verify && stores.is_empty() || running.await_end(SETTLING + GRACE);
    if !in_time {
        running.abandon_hanging();
    }
    if !in_time && !stages.stopped() {
        stages.sink_failed |= !stores.is_empty();
        peers.close();
        return Err(watched.err().map_or_else(|| late(&stores), String::from));
    }
    let errors = running.finish();
    stages.sink_failed |= errors.iter().any(|(_, error)| matches!(error, WorkerError::SinkHangs { .. }));
    if !verify {
        last = peers.close();
    }
    // Where an end here has said why, that its stream ended is not news.
    if let Some((_, error)) = errors.first().filter(|_| !stages.stopped()) {
        return Err(error.to_string());
    }
    let watched = watched?;
    let verified = verify.then(|| far.verify(&last, &running.counters)).flatten();
    if verified == Some(false) {
        let what = format!("{} {}", flow.stage, flow.name);
        stages.failed(format!("{what}: the bytes that arrived are not those that were sent"));
    }
    let mut sender = far.result(&watched).filter(|_| sends);
    sender.iter_mut().for_each(|sender| sender.verified = verified);
    let sync = running.counters.iter().map(|counters| counters.sync_nanos.load(Ordering::Relaxed)).max();
    Ok(Some(Observed {
        sender,
        sync_seconds: sync.unwrap_or(0) as f64 * 1e-9,
        verified,
        rate_limit: peers.rate_limit().filter(|_| sends),
        rates: if sends { series.rates() } else { Vec::new() },
        workers,
        windows: watched,
        tcp,
        engine,
        ..Observed::default()
    }))
}

/// What was not done in time: by the disk, or where nothing is stored by the sender.
fn late(stores: &[Arc<SinkStore>]) -> String {
    let seconds = SETTLING.as_secs();
    let Some(store) = stores.first() else {
        return format!(
            "the sender did not end its streams within {seconds} s: is its host up, the link plugged in and its agent \
             running?"
        );
    };
    let name = &store.file().name;
    format!(
        "{name} did not keep within {seconds} s what was written (fsync): does its disk hang? Look at the kernel's \
         messages"
    )
}

/// A file for each worker that stores, in the order of the workers; none for a flow that throws away.
fn stores(stages: &mut Stages<'_>, flow: &Flow) -> Result<Vec<Option<Arc<SinkStore>>>, String> {
    let mut stores: Vec<Option<Arc<SinkStore>>> = flow.workers.iter().map(|_| None).collect();
    let stored = flow.behind == WorkerSource::Written
        || flow.stage == Stage::Path && stages.goal.flow == RunFlow::NetworkToDisk;
    for (source, folder) in stages.sinks.iter().enumerate().filter(|_| stored) {
        let own: Vec<usize> = (0..stores.len()).filter(|at| flow.workers[*at].source == source).collect();
        if own.is_empty() {
            continue;
        }
        let resource = |source: usize| &stages.plan.sources[source].resource;
        // Directories on one disk share its room with those that come after.
        let sharing = flow
            .workers
            .iter()
            .filter(|worker| worker.source >= source && resource(worker.source) == resource(source));
        let sharing = u32::try_from(sharing.count()).unwrap_or(u32::MAX);
        let taken = folder.take(own.len(), sharing).map_err(|error| {
            stages.sink_failed |= matches!(error, SinkError::Hangs { .. });
            error.to_string()
        })?;
        own.into_iter().zip(taken).for_each(|(at, store)| stores[at] = Some(Arc::new(store)));
    }
    Ok(stores)
}

/// Opens a data stream for each worker, where the flow has any.
fn connect(
    stages: &mut Stages<'_>,
    peers: &mut Peers,
    flow: &Flow,
    stores: Vec<Option<Arc<SinkStore>>>,
    verify: bool,
) -> Vec<IncomingWorker> {
    let workers = flow.workers.iter().cloned().zip(stores);
    if flow.behind == WorkerSource::Written {
        return workers.map(|(plan, store)| IncomingWorker { plan, stream: None, store }).collect();
    }
    let spec = stages.sending_spec(verify);
    let streams = peers.open_senders(&flow.workers, stages.plan, &spec, stages.stop);
    let (mut connected, mut lost) = (Vec::new(), Vec::new());
    for ((plan, store), stream) in workers.zip(streams) {
        match stream {
            Ok(stream) => connected.push(IncomingWorker { plan, stream: Some(stream), store }),
            // The other paths go on without this one.
            Err(why) => {
                lost.push(plan.path);
                let way = way(stages, &plan);
                stages.failed(format!("{} {way}: {why}", flow.failing()));
            }
        }
    }
    // Its other workers end with it: the agent counts the streams of a path by number.
    connected.retain(|one| !lost.contains(&one.plan.path));
    connected
}

/// The figure.
pub(super) fn describe(stages: &Stages<'_>, flow: &Flow, observed: &Observed) -> Measurement {
    let Observed { workers, windows: watched, tcp, .. } = observed;
    let mut figure = Measurement::of(flow.stage, flow.name.clone(), flow.resource.clone(), watched);
    let comes = flow.behind == WorkerSource::Peer;
    (figure.incoming, figure.together) = (true, flow.together);
    figure.protocol = comes.then_some(flow.protocol);
    stages.part_members(&mut figure);
    figure.method = method(stages, flow, observed);
    figure.workers = worker_results(watched, |at| {
        let worker = &workers[at];
        // The network stage ends in memory, wherever the path does.
        let end = if flow.stage == Stage::Network {
            "memory"
        } else {
            &stages.plan.sources[worker.source].resource
        };
        (end.to_string(), comes.then(|| stages.plan.paths[worker.path].resource.clone()))
    });
    let mut tcp = tcp.iter();
    for (result, worker) in figure.workers.iter_mut().zip(workers) {
        (result.worker, result.core) = (worker.index, Some(worker.core));
        if let Some(tcp) = tcp.next() {
            tcp.tell(result);
        }
    }
    figure.sender.clone_from(&observed.sender);
    figure.sync_seconds = observed.sync_seconds;
    figure.not_seen = stages.not_seen(&figure);
    figure.held_by = trust::held_by(&figure, stages.rate_limits(observed.rate_limit));
    figure.lower_bound = figure.held_by.is_some();
    figure.set_burst_of_flow(&observed.rates, SHORT_WINDOW_SECONDS);
    if observed.rate_limit.is_some() {
        figure.flags.push("agent-rate-limit".into());
    }
    let cores: Vec<u32> = workers.iter().map(|worker| worker.core).collect();
    trust::flag(&mut figure, watched, &cores);
    figure
}

fn method(stages: &Stages<'_>, flow: &Flow, observed: &Observed) -> String {
    let Observed { workers, engine, .. } = observed;
    let workers = counted(workers.len() as u64, "worker");
    if flow.behind == WorkerSource::Written {
        return format!("blocks of its own → {engine}, {workers}");
    }
    let protocol = match (flow.protocol, &stages.goal.congestion_control) {
        (Protocol::Tcp, Some(name)) => format!("TCP {name}"),
        (Protocol::Tcp, None) => "TCP".to_string(),
        (Protocol::Udp, _) => "UDP".to_string(),
    };
    format!("the peer's memory → {protocol} → {engine}, {workers}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_nothing_stores_is_late_by_its_sender() {
        let sentence = late(&[]);
        assert!(sentence.starts_with("the sender did not end its streams within 30 s"), "{sentence}");
        assert!(!sentence.contains("fsync") && !sentence.contains("disk"), "{sentence}");
    }
}
