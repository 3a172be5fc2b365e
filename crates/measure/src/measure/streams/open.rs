//! The streams of a job opened: asked for at the agents, connected, and told apart by path and direction.

use super::StreamBench;
use super::job::{SenderSource, StreamDirection, StreamsJob};
use crate::measure::peers::largest_datagram_bytes;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{PathPlan, Pin, StreamPlacement, place_streams, spare_cores};
use linerate_transport::agent::{AgentSession, LocalBinding, OpenedStream, StreamEnds};
use linerate_transport::flow::stream::{REQUEST_BYTES, StreamRole, StreamSocket, StreamSpec};
use std::collections::HashMap;

/// One stream that is to be.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Index of its path.
    pub path: usize,
    /// Number among the agent's streams of this test.
    pub number: usize,
    /// What our end does.
    pub spec: StreamSpec,
    pub peer_core: Option<u32>,
}

impl Wanted {
    /// Which way its bulk goes.
    pub(crate) fn direction(&self) -> StreamDirection {
        if self.spec.role == StreamRole::Receive { StreamDirection::Receive } else { StreamDirection::Send }
    }

    /// It asks instead of moving bulk.
    pub(crate) fn asks(&self) -> bool {
        self.spec.role == StreamRole::Ask
    }
}

/// A stream with its connection.
pub(super) struct Connected {
    pub wanted: Wanted,
    pub socket: StreamSocket,
}

/// All streams of the job, in the order in which they are opened.
pub(super) fn wanted(bench: &StreamBench<'_>, job: &StreamsJob) -> Vec<Wanted> {
    let selected: Vec<usize> =
        (0..bench.paths.len()).filter(|path| job.path.is_none_or(|only| only == *path)).collect();
    let paths: Vec<PathPlan> = selected.iter().map(|path| bench.paths[*path].clone()).collect();
    let mut all = Vec::new();
    let roles: &[StreamRole] = match job.direction {
        StreamDirection::Send => &[StreamRole::Send],
        StreamDirection::Receive => &[StreamRole::Receive],
        StreamDirection::Both => &[StreamRole::Send, StreamRole::Receive],
    };
    let mut ways = place_streams(bench.machine, &paths, job.streams, roles.len(), &job.pin, bench.loopback);
    ways.iter_mut().flatten().for_each(|place| place.path = selected[place.path]);
    let mut spare = PeerCores::new(bench, ways.iter().flatten());
    for (role, placed) in roles.iter().zip(&ways) {
        for place in placed {
            let peer_core = if job.pin == Pin::None { None } else { spare.next(place.path) };
            all.push(Wanted {
                path: place.path,
                number: 0,
                spec: spec(bench, job, *role, place, Share { streams: placed.len(), ways: roles.len() }),
                peer_core,
            });
        }
    }
    if job.latency {
        for path in selected {
            let place = StreamPlacement { path, core: None };
            all.push(Wanted {
                path,
                number: 0,
                spec: spec(bench, job, StreamRole::Ask, &place, Share { streams: 1, ways: 1 }),
                peer_core: None,
            });
        }
    }
    number(&mut all);
    all
}

/// Each stream's number among those of its path, as the agent counts them.
fn number(all: &mut [Wanted]) {
    let mut numbers = HashMap::new();
    for wanted in all {
        let next = numbers.entry(wanted.path).or_insert(0);
        wanted.number = *next;
        *next += 1;
    }
}

/// Only so many streams of bulk.
pub(super) fn keep_first(all: &mut Vec<Wanted>, most: usize) {
    let mut kept = 0;
    all.retain(|wanted| {
        kept += usize::from(!wanted.asks());
        wanted.asks() || kept <= most
    });
    number(all);
}

/// Cores of the other ends' threads: in turn those next to the NIC there, or what our own streams leave free
/// on this machine.
struct PeerCores<'a> {
    /// The host of each path, and its cores.
    by_path: Vec<(&'a str, Vec<u32>)>,
    /// Paths to one host share its cores.
    taken: HashMap<&'a str, usize>,
}

impl<'a> PeerCores<'a> {
    fn new<'p>(bench: &StreamBench<'a>, placed: impl Iterator<Item = &'p StreamPlacement>) -> Self {
        let used: Vec<u32> = placed.filter_map(|place| place.core).collect();
        let spare = if bench.loopback { spare_cores(bench.machine, &used) } else { Vec::new() };
        let of = |session: &'a AgentSession| {
            let hello = session.hello();
            let cores = if bench.loopback { spare.clone() } else { hello.interface_cores.clone() };
            (hello.instance.as_str(), cores)
        };
        PeerCores { by_path: bench.sessions.iter().map(of).collect(), taken: HashMap::new() }
    }

    fn next(&mut self, path: usize) -> Option<u32> {
        let (host, cores) = self.by_path.get(path)?;
        let taken = self.taken.entry(host).or_insert(0);
        let core = cores.get(*taken % cores.len().max(1)).copied();
        *taken += 1;
        core
    }
}

/// Requests a second: enough for percentiles, and no load of its own.
const REQUESTS_PER_SECOND: f64 = 1000.0;

/// Streams of one direction, and directions, that share a rate.
#[derive(Clone, Copy)]
struct Share {
    streams: usize,
    ways: usize,
}

/// Bytes per second of one stream: its share of the job's rate, and of what all of them may move together, of
/// which requests take theirs.
fn rate(bench: &StreamBench<'_>, job: &StreamsJob, share: Share) -> Option<f64> {
    let streams = share.streams.max(1) as f64;
    let asking = if job.latency { bench.paths.len() as f64 } else { 0.0 };
    let bulk = |limit: f64| {
        let requests = 2.0 * asking * REQUESTS_PER_SECOND * f64::from(REQUEST_BYTES);
        (limit - requests).max(limit / 2.0) / share.ways.max(1) as f64
    };
    let rates = [job.bytes_per_second, bench.rate_limit.map(bulk)];
    rates.into_iter().flatten().reduce(f64::min).map(|rate| rate / streams)
}

/// What our end of a stream does.
fn spec(
    bench: &StreamBench<'_>,
    job: &StreamsJob,
    role: StreamRole,
    place: &StreamPlacement,
    share: Share,
) -> StreamSpec {
    let path = &bench.paths[place.path];
    let either = match role {
        StreamRole::Ask => StreamSpec::asking(job.protocol, REQUESTS_PER_SECOND),
        _ => StreamSpec {
            write_bytes: job.write_bytes,
            bytes_per_second: rate(bench, job, share),
            pacing_bytes_per_second: job.pacing_bytes_per_second.filter(|_| job.protocol == Protocol::Tcp),
            send_buffer_bytes: job.send_buffer_bytes,
            receive_buffer_bytes: job.receive_buffer_bytes,
            verify: job.verify,
            discard: job.skip_receive_copy && job.protocol == Protocol::Tcp,
            ..StreamSpec::new(job.protocol, role)
        },
    };
    StreamSpec {
        method: job.method,
        datagram_bytes: job.datagram_bytes.unwrap_or_else(|| largest_datagram_bytes(path)),
        congestion_control: job.congestion_control.clone(),
        core: place.core,
        ..either
    }
}

/// What the agent's end does, given ours.
fn other_end(wanted: &Wanted, job: &StreamsJob) -> StreamSpec {
    let mut spec = StreamSpec { core: wanted.peer_core, ..wanted.spec.other_end() };
    match job.peer {
        _ if spec.role != StreamRole::Send => {}
        Some(chosen) => (spec.method, spec.write_bytes) = (chosen.method, chosen.write_bytes),
        // The agent has no file of our own: what it sends comes from its memory.
        None if job.behind != SenderSource::Memory => spec.method = super::job::usual_method(spec.protocol),
        None => {}
    }
    spec
}

/// Opens all; those that could not be are shown by path and the others go on.
pub(super) fn open(
    bench: &mut StreamBench<'_>,
    job: &StreamsJob,
    wanted: Vec<Wanted>,
) -> (Vec<Connected>, Vec<String>) {
    let (mut connected, mut failures) = (Vec::new(), Vec::new());
    bench.opened.clear();
    for (path, session) in bench.sessions.iter().enumerate() {
        let mine: Vec<&Wanted> = wanted.iter().filter(|wanted| wanted.path == path).collect();
        if mine.is_empty() {
            continue;
        }
        let ends = |wanted: &&Wanted| StreamEnds { own: wanted.spec.clone(), theirs: other_end(wanted, job) };
        let plan = &bench.paths[path];
        let device = bench.bind_device.then_some(plan.nic.as_deref()).flatten();
        let binding = LocalBinding { local: Some(plan.local_socket()), device };
        let opened = match session.open_streams(mine.iter().map(ends).collect(), binding, bench.stop) {
            Ok(opened) => opened,
            Err(failure) => {
                failures.push(format!("{}: {failure}", bench.way(path)));
                continue;
            }
        };
        bench.opened.push(path);
        for (wanted, opened) in mine.into_iter().zip(opened) {
            match opened {
                Ok(OpenedStream { spec, socket }) => {
                    connected.push(Connected { wanted: Wanted { spec, ..wanted.clone() }, socket });
                }
                Err(failure) => failures.push(format!("{}: {failure}", bench.way(path))),
            }
        }
    }
    (connected, failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::streams::Handover;
    use linerate_transport::flow::stream::SendMethod;

    #[test]
    fn what_was_tried_at_the_peer_is_asked_of_its_senders_alone() {
        let chosen = Handover { method: SendMethod::Sendfile, write_bytes: 1 << 20 };
        let job =
            StreamsJob { peer: Some(chosen), ..StreamsJob::plain(Protocol::Tcp, StreamDirection::Both) };
        let ends = [StreamRole::Send, StreamRole::Receive, StreamRole::Ask].map(|role| {
            let spec = StreamSpec {
                method: job.method,
                write_bytes: job.write_bytes,
                ..StreamSpec::new(Protocol::Tcp, role)
            };
            let end = other_end(&Wanted { path: 0, number: 0, spec, peer_core: Some(3) }, &job);
            (end.role, end.method, end.write_bytes)
        });
        assert_eq!(ends[0], (StreamRole::Receive, SendMethod::Write, 512 << 10));
        assert_eq!(ends[1], (StreamRole::Send, SendMethod::Sendfile, 1 << 20));
        assert_eq!(ends[2], (StreamRole::Echo, SendMethod::Write, 512 << 10));
    }
}
