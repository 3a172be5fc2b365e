//! The network stage (memory and cached file to the peers) and the path stage (disks to the peers): one kind of flow, three sources.

use super::Stages;
use super::disk::open_with;
use super::peers::{PeerMeter, Peers};
use super::product::{Measurement, Stage};
use super::running::{Running, lane_results};
use super::window::{Seen, Windows};
use crate::flow::source::{Cursor, Source};
use crate::flow::start::{Destination, LaneStart};
use crate::plan::schedule::alone_paths;
use crate::plan::{Lane, Protocol, SourcePlan};
use crate::units::show_size;
use linerate_system::file;
use linerate_system::socket::tcp_info;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes a send from memory: as large as a block of a file, so that the cost of a call is the same.
const MEMORY_BLOCK_BYTES: u64 = 1 << 20;
/// A memory lane alternates between this many blocks.
const MEMORY_BLOCKS: u32 = 2;
/// The part of a file that is brought into the page cache for the cached source; small, so that it stays there.
const CACHED_BYTES: u64 = 16 << 20;
/// Bringing the files there may take this long in all; a slow disk gives a block at least.
const CACHING_TIME: Duration = Duration::from_millis(400);
/// Blocks beyond the read depth: reading goes on while one is sent.
pub const EXTRA_BLOCKS: usize = 2;

/// What stands behind the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Buffers.
    Memory,
    /// A piece of the source that the page cache holds.
    Cached,
    /// The source itself, past the page cache.
    Disk,
}

/// One flow to measure.
struct Flow {
    stage: Stage,
    name: String,
    resource: String,
    lanes: Vec<Lane>,
    protocol: Protocol,
    behind: Behind,
    together: bool,
    windows: Windows,
}

/// Measures each path alone and all together, from memory and from the page cache, for each protocol.
pub fn measure(stages: &mut Stages<'_>, peers: &mut Peers) {
    let paths = stages.plan.paths.len();
    for protocol in stages.goal.protocols.clone() {
        for behind in [Behind::Memory, Behind::Cached] {
            let groups = alone_paths(stages.plan).map(Some).filter(|_| paths > 1).chain([None]);
            for group in groups.collect::<Vec<_>>() {
                if stages.stopped() {
                    return;
                }
                let flow = network_flow(stages, group, protocol, behind);
                if group.is_some() && !stages.has_time_for(flow.windows) {
                    stages.leave_out(&format!("{} {}", flow.stage, flow.name));
                    continue;
                }
                one(stages, peers, flow);
            }
        }
    }
}

/// Measures all lanes from disk to peer, for each protocol.
pub fn measure_path(stages: &mut Stages<'_>, peers: &mut Peers) {
    for protocol in stages.goal.protocols.clone() {
        if stages.stopped() {
            return;
        }
        let schedule = stages.plan.schedule;
        let flow = Flow {
            stage: Stage::Path,
            name: protocol.to_string(),
            resource: "all".into(),
            lanes: stages.plan.lanes.clone(),
            protocol,
            behind: Behind::Disk,
            together: true,
            windows: windows(stages, schedule.path_seconds),
        };
        one(stages, peers, flow);
    }
}

fn windows(stages: &Stages<'_>, seconds: f64) -> Windows {
    let schedule = stages.plan.schedule;
    Windows {
        // TCP and the UDP window find their rate in the warm-up.
        warm_up: Duration::from_secs_f64(schedule.warm_up_seconds),
        window: Duration::from_secs_f64(seconds),
        repeats: schedule.repeats.max(1),
    }
}

/// The flow over one path, or over all of them (`None`).
fn network_flow(stages: &Stages<'_>, path: Option<usize>, protocol: Protocol, behind: Behind) -> Flow {
    let schedule = stages.plan.schedule;
    let only = path.or((stages.plan.paths.len() == 1).then_some(0));
    let mut lanes = stages.plan.lanes.clone();
    lanes.retain(|lane| path.is_none_or(|path| lane.path == path));
    let kind = if behind == Behind::Cached { ", cached file" } else { "" };
    let name = match (path, only) {
        (Some(path), _) => format!("{} {protocol} alone{kind}", stages.plan.paths[path].name),
        (None, Some(path)) => format!("{} {protocol}{kind}", stages.plan.paths[path].name),
        (None, None) => format!("all paths {protocol}{kind}"),
    };
    Flow {
        stage: Stage::Network,
        name,
        resource: only.map_or("all".into(), |path| stages.plan.paths[path].resource.clone()),
        lanes,
        protocol,
        behind,
        together: path.is_none(),
        windows: windows(
            stages,
            if path.is_some() { schedule.alone_seconds } else { schedule.together_seconds },
        ),
    }
}

fn one(stages: &mut Stages<'_>, peers: &mut Peers, flow: Flow) {
    stages.started(flow.stage, &flow.name, flow.windows);
    let label = format!("{} {}", flow.stage, flow.name);
    match run(stages, peers, flow) {
        Ok(Some(measurement)) => stages.measured(measurement),
        Ok(None) => {}
        Err(why) => {
            // Lanes that did not start leave the test open at the agents, which then refuse the next.
            peers.close();
            stages.failed(format!("{label}: {why}"));
        }
    }
}

fn run(stages: &mut Stages<'_>, peers: &mut Peers, flow: Flow) -> Result<Option<Measurement>, String> {
    let mut flags = Vec::new();
    let cursors = cursors(stages, &flow);
    let verify = stages.goal.verify && flow.protocol == Protocol::Tcp;
    let opened = peers.open(&flow.lanes, flow.protocol, verify);
    let mut lanes = Vec::new();
    let mut destinations = Vec::new();
    let mut lost = Vec::new();
    // All connect before the first sends: the UDP window takes the round trip of an idle path from the admission.
    for (lane, ticket) in flow.lanes.iter().zip(opened) {
        match ticket.and_then(|ticket| peers.connect(&ticket, lane, stages.plan, stages.goal)) {
            Ok(destination) => {
                lanes.push(lane.clone());
                destinations.push(destination);
            }
            // The other paths go on without this one.
            Err(why) => {
                lost.push(lane.path);
                let way = way(stages, lane);
                stages.failed(format!("{} {} {way}: {why}", flow.stage, flow.name));
            }
        }
    }
    // Its other lanes end with it: the agent counts the lanes of a path by number.
    let (lanes, destinations): (Vec<Lane>, Vec<Destination>) =
        lanes.into_iter().zip(destinations).filter(|(lane, _)| !lost.contains(&lane.path)).unzip();
    let segmentation = destinations.iter().all(|destination| match destination {
        Destination::Udp(sender) => sender.segmentation(),
        _ => true,
    });
    let streams: Vec<Option<TcpStream>> = destinations
        .iter()
        .map(|destination| match destination {
            Destination::Tcp(stream) => stream.try_clone().ok(),
            _ => None,
        })
        .collect();
    let mut running = Running::new(stages.stop);
    for (lane, destination) in lanes.iter().zip(destinations) {
        let start = lane_start(stages, &flow, lane, destination, &cursors, &mut flags)?;
        running.start(start).map_err(|error| format!("a lane did not start: {error}"))?;
    }
    if lanes.is_empty() {
        peers.close();
        return Ok(None);
    }
    let engine = running.method();
    let mut meter = PeerMeter::new(peers, &lanes);
    let seen = stages.watch(&mut running, &mut meter, flow.windows, flow.stage);
    let far = meter.far();
    let tcp: Vec<TcpSeen> = streams.iter().map(|stream| TcpSeen::read(stream.as_ref())).collect();
    let errors = running.finish();
    let verified = verify.then(|| peers.verify(&lanes, &running.counters)).flatten();
    peers.close();
    drop_cached(stages, &flow);
    for (position, error) in errors {
        let way = way(stages, &lanes[position]);
        stages.failed(format!("{} {} {way}: {error}", flow.stage, flow.name));
    }
    let seen = seen?;
    if seen.samples.is_empty() {
        return Ok(None);
    }
    let mut measurement = Measurement::of(flow.stage, flow.name.clone(), flow.resource.clone(), &seen);
    measurement.together = flow.together;
    measurement.protocol = Some(flow.protocol);
    measurement.with_file = flow.behind == Behind::Cached;
    measurement.method = method(stages, &flow, &engine, segmentation);
    measurement.lanes = lane_results(&seen, |position| {
        let lane = &lanes[position];
        let source = match flow.behind {
            Behind::Memory => "memory".to_string(),
            Behind::Cached => "page cache".to_string(),
            Behind::Disk => stages.plan.sources[lane.source].resource.clone(),
        };
        (source, Some(stages.plan.paths[lane.path].resource.clone()))
    });
    for ((result, tcp), lane) in measurement.lanes.iter_mut().zip(&tcp).zip(&lanes) {
        result.lane = lane.index;
        result.receiver_limited = tcp.receiver_limited;
        result.retransmits = tcp.retransmits;
        result.segment_bytes = tcp.segment_bytes;
    }
    measurement.loss = loss(flow.protocol, &seen);
    let mut receiver = far.result(&seen);
    if let Some(receiver) = &mut receiver {
        receiver.verified = verified;
    }
    if verified == Some(false) {
        stages.failed(format!(
            "{} {}: the bytes that arrived are not those that were sent",
            flow.stage, flow.name
        ));
    }
    measurement.held_by = super::trust::held_by(&seen, receiver.as_ref());
    measurement.lower_bound = measurement.held_by.is_some();
    measurement.receiver = receiver;
    measurement.flags.extend(flags);
    let cores: Vec<u32> = lanes.iter().map(|lane| lane.core).collect();
    super::trust::flag(&mut measurement, &seen, &cores);
    Ok(Some(measurement))
}

/// Interface and peer of a lane, for a sentence.
fn way(stages: &Stages<'_>, lane: &Lane) -> String {
    let path = &stages.plan.paths[lane.path];
    format!("on {} to {}", path.name, path.peer)
}

/// One cursor a source, shared by the lanes that read it; cached sources deal out only what was brought into the cache.
fn cursors(stages: &Stages<'_>, flow: &Flow) -> Vec<Arc<Cursor>> {
    let patience = Instant::now() + CACHING_TIME;
    let sources = stages.plan.sources.iter().enumerate().map(|(index, source)| {
        let used = flow.lanes.iter().any(|lane| lane.source == index);
        let length = match flow.behind {
            Behind::Cached if used => bring_into_cache(source, patience),
            _ => source.length_bytes,
        };
        Arc::new(Cursor::new(length, source.block_bytes))
    });
    sources.collect()
}

/// Reads the beginning of the file through the page cache; gives how much of it is there now, at least a block.
fn bring_into_cache(source: &SourcePlan, patience: Instant) -> u64 {
    use std::os::unix::fs::FileExt;
    let Ok(file) = file::open_to_read(&source.path, false) else { return source.block_bytes };
    let mut buffer = vec![0; source.block_bytes as usize];
    let mut length = 0;
    while length < CACHED_BYTES.min(source.length_bytes) && (length == 0 || Instant::now() < patience) {
        if file.read_exact_at(&mut buffer, length).is_err() {
            break;
        }
        length += source.block_bytes;
    }
    length.max(source.block_bytes)
}

/// What was brought into the cache for the cached source goes out again, so that it answers no later read.
fn drop_cached(stages: &Stages<'_>, flow: &Flow) {
    if flow.behind != Behind::Cached {
        return;
    }
    for source in &stages.plan.sources {
        if let Ok(file) = file::open_to_read(&source.path, false) {
            let _ = file::drop_pages(&file);
        }
    }
}

fn lane_start(
    stages: &Stages<'_>,
    flow: &Flow,
    lane: &Lane,
    destination: Destination,
    cursors: &[Arc<Cursor>],
    flags: &mut Vec<String>,
) -> Result<LaneStart, String> {
    let plan = &stages.plan.sources[lane.source];
    let cursor = &cursors[lane.source];
    let source = match flow.behind {
        Behind::Memory => Source::Memory,
        Behind::Disk => open_with(plan, flags, cursor)?,
        Behind::Cached => Source::File {
            file: file::open_to_read(&plan.path, false)
                .map_err(|error| format!("{}: {error}", plan.path.display()))?,
            cursor: Arc::clone(cursor),
            label: plan.path.display().to_string(),
        },
    };
    let (block_bytes, depth, extra_blocks) = match flow.behind {
        Behind::Memory => (MEMORY_BLOCK_BYTES.min(lane.block_bytes), MEMORY_BLOCKS, 0),
        Behind::Cached => (lane.block_bytes, MEMORY_BLOCKS, 0),
        Behind::Disk => (lane.block_bytes, lane.queue_depth, EXTRA_BLOCKS),
    };
    Ok(LaneStart {
        core: Some(lane.core),
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
        Behind::Memory => format!("{} from memory", show_size(MEMORY_BLOCK_BYTES)),
        Behind::Cached => "cached file".to_string(),
        Behind::Disk => {
            let first = &stages.plan.sources[flow.lanes[0].source];
            let how = if first.direct { "O_DIRECT" } else { "buffered" };
            format!("{how} {} × {}", show_size(first.block_bytes), flow.lanes[0].queue_depth)
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
    let lanes =
        if flow.lanes.len() == 1 { "1 lane".to_string() } else { format!("{} lanes", flow.lanes.len()) };
    format!("{source} → {sink}, {lanes}, {engine}")
}

/// Share of what was sent in the windows that did not arrive.
fn loss(protocol: Protocol, seen: &Seen) -> f64 {
    let sent: u64 = seen.workers.iter().map(|worker| worker.sent_bytes).sum();
    let lost: u64 = seen.workers.iter().map(|worker| worker.lost_bytes).sum();
    if protocol == Protocol::Tcp || sent == 0 { 0.0 } else { lost as f64 / sent as f64 }
}

/// What TCP_INFO says of one stream at its end.
#[derive(Clone, Copy, Debug, Default)]
struct TcpSeen {
    receiver_limited: f64,
    retransmits: u64,
    segment_bytes: u32,
}

impl TcpSeen {
    fn read(stream: Option<&TcpStream>) -> Self {
        let Some(info) = stream.and_then(|stream| tcp_info(stream).ok()) else { return Self::default() };
        TcpSeen {
            receiver_limited: info.receiver_limited_us as f64 / info.busy_us.max(1) as f64,
            retransmits: u64::from(info.retransmits),
            segment_bytes: info.segment_bytes,
        }
    }
}
