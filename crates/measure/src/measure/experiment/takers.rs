//! Who takes: a gate for each resource, the workers behind it, and what they really got.

use super::super::PATIENCE;
use super::program::ExperimentError;
use super::receivers::{self, Receiver};
use crate::measure::Stages;
use crate::measure::flow::{MEMORY_BLOCK_BYTES, WorkerSource};
use crate::measure::running::RunningWorkers;
use linerate_model::plan::{ResourceKind, WorkerPlan};
use linerate_model::shares::{ALL_RECEIVERS, RaisedSetting, TakenResource, TakenUnit};
use linerate_system::stop::Stop;
use linerate_system::{clock, connection, file};
use linerate_transport::agent::AgentSession;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::cpu_taker::take_cpu;
use linerate_transport::flow::rate_limit::RateLimit;
use linerate_transport::flow::source::Source;
use linerate_transport::flow::start::{Destination, WorkerStart};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Of more disks, or of more NICs, one by one no share would be known in time: they are taken from at once.
const MOST_ALIKE: usize = 4;
/// Reads in flight of a disk's taker at most: as many as a throttle may hold back until a tenth arrives. Takers of many
/// disks at once have fewer, for their blocks' memory.
const MOST_READS: usize = 24;
const FEWEST_READS: usize = 4;
/// A NIC's taker has such a part of the flow's streams there, but no more than so many: each gets as much as one of those
/// where the NIC is full, and together they must get more than a tenth.
const OF_STREAMS: f64 = 0.25;
const MOST_STREAMS: usize = 64;
/// Blocks in memory of a stream beside a program.
const SENT_BLOCKS: usize = 4;
/// What a raised worker may move: all that comes.
const UNLIMITED: f64 = 1e15;

/// What a worker of such a flow is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::measure) enum Purpose {
    /// Part of the flow in all slots.
    Flow,
    /// The same, in slots in which the flow is raised.
    Raise,
    /// Takes from the NIC of its path.
    Nic,
}

impl Purpose {
    /// What stands behind such a worker.
    pub(in crate::measure) fn source(self) -> WorkerSource {
        match self {
            Purpose::Flow | Purpose::Raise => WorkerSource::Disk,
            Purpose::Nic => WorkerSource::Memory,
        }
    }
}

/// One resource, or several of a kind at once, that is taken from.
pub(super) struct Taker {
    pub resource: TakenResource,
    /// One for each member.
    gates: Vec<Arc<RateLimit>>,
    /// What is taken of each member, as a part of all that is taken.
    parts: Vec<f64>,
    what: Taken,
}

/// What is taken from.
enum Taken {
    Disks(Vec<TakenDisk>),
    /// The NICs of these paths.
    Nics(Vec<usize>),
    Cpus {
        cores: Vec<u32>,
        taken: Arc<AtomicU64>,
    },
    /// The CPUs of these.
    Receivers(Vec<Receiver>),
}

/// A disk, by the first of the sources that lies on it.
pub(super) struct TakenDisk {
    /// By the kernel.
    pub name: String,
    source: usize,
    worker: Option<usize>,
}

impl TakenDisk {
    pub(super) fn new(name: String, source: usize) -> Self {
        TakenDisk { name, source, worker: None }
    }
}

/// All of them, and what raises the flow.
pub(super) struct Takers {
    pub all: Vec<Taker>,
    pub purposes: Vec<Purpose>,
    pub raised: Option<RaisedSetting>,
    raise: Arc<RateLimit>,
    /// Path of each worker of the flow.
    pub paths: Vec<usize>,
    /// Its source.
    sources: Vec<usize>,
    threads: Vec<std::thread::JoinHandle<()>>,
    end: Arc<Stop>,
}

impl Takers {
    /// Of each disk that the flow reads, of each NIC that a taker has a stream on, of the CPUs of its workers, and of those
    /// of its receivers on other hosts.
    pub(super) fn of(
        stages: &Stages<'_>,
        workers: &[WorkerPlan],
        purposes: Vec<Purpose>,
        sessions: &[AgentSession],
    ) -> Self {
        let mut disks: Vec<(String, TakenDisk)> = Vec::new();
        for worker in workers {
            let id = &stages.plan.sources[worker.source].resource;
            if disks.iter().all(|(known, _)| known != id) {
                disks.push((id.clone(), TakenDisk::new(stages.short_name(id), worker.source)));
            }
        }
        let senders = workers.iter().zip(&purposes).filter(|(_, purpose)| **purpose == Purpose::Nic);
        let path = |worker: &WorkerPlan| (stages.plan.paths[worker.path].resource.clone(), worker.path);
        let nics = by_nic(senders.map(|(worker, _)| path(worker)));
        let own = || workers.iter().zip(&purposes).filter(|(_, purpose)| **purpose == Purpose::Flow);
        let reads: u64 = own().map(|(worker, _)| u64::from(stages.reads_of(worker))).sum();
        let receivers = match stages.plan.loopback {
            true => Vec::new(),
            false => receivers::elsewhere(stages.sysroot, &stages.plan.paths, sessions),
        };
        let cores = cores(stages, workers, receivers.is_empty());
        let mut takers = Takers::taking_from(stages.begin, disks, nics, cores, receivers);
        takers.raised =
            Some(RaisedSetting { id: "reads in flight and streams".into(), from: reads, to: 2 * reads });
        takers.paths = workers.iter().map(|worker| worker.path).collect();
        takers.sources = workers.iter().map(|worker| worker.source).collect();
        takers.purposes = purposes;
        takers
    }

    /// Of these parts, by their ids, NICs with the paths over each; nothing is raised, and no worker is there yet.
    pub(super) fn taking_from(
        begin: Instant,
        disks: Vec<(String, TakenDisk)>,
        nics: Vec<(String, Vec<usize>)>,
        cores: Vec<u32>,
        receivers: Vec<Receiver>,
    ) -> Self {
        let gate = || Arc::new(RateLimit::closed(begin));
        let mut all: Vec<Taker> = Vec::new();
        let mut add = |name: &str, ids: Vec<String>, kind, unit, count: usize, what| {
            let (id, members) = match <[String; 1]>::try_from(ids) {
                Ok([id]) => (id, Vec::new()),
                Err(ids) => (name.to_string(), ids),
            };
            let resource = TakenResource { id, members, kind, unit, pool: None, busy: None };
            let parts = vec![1.0 / count.max(1) as f64; count];
            all.push(Taker { resource, gates: parts.iter().map(|_| gate()).collect(), parts, what });
        };
        for (ids, disks) in at_once(disks) {
            let count = disks.len();
            add("disks", ids, ResourceKind::Disk, TakenUnit::Bytes, count, Taken::Disks(disks));
        }
        for (ids, paths) in at_once(nics) {
            let paths = paths.concat();
            let count = paths.len();
            add("nics", ids, ResourceKind::Nic, TakenUnit::Bytes, count, Taken::Nics(paths));
        }
        if !cores.is_empty() {
            let (count, what) = (cores.len(), Taken::Cpus { cores, taken: Arc::default() });
            add("cpu", vec!["cpu".into()], ResourceKind::Cpu, TakenUnit::CpuNanos, count, what);
        }
        let receivers = receivers.into_iter().map(|receiver| (receiver.id.clone(), receiver)).collect();
        for (ids, receivers) in at_once(receivers) {
            let (count, what) = (receivers.len(), Taken::Receivers(receivers));
            add(ALL_RECEIVERS, ids, ResourceKind::Receiver, TakenUnit::CpuNanos, count, what);
        }
        let pools = [ResourceKind::Disk, ResourceKind::Nic, ResourceKind::Receiver];
        for (kind, pool) in pools.into_iter().zip(["disks", "nics", ALL_RECEIVERS]) {
            let several = all.iter().filter(|taker| taker.resource.kind == kind).count() > 1;
            let of_kind = all.iter_mut().filter(|taker| several && taker.resource.kind == kind);
            of_kind.for_each(|taker| taker.resource.pool = Some(pool.into()));
        }
        let (purposes, paths, sources, threads) = Default::default();
        let end = Arc::default();
        Takers { all, purposes, raised: None, raise: gate(), paths, sources, threads, end }
    }

    /// What a worker of the flow may move, and what it sends; none: as any other.
    pub(super) fn gated(&self, position: usize, start: WorkerStart) -> WorkerStart {
        match self.purposes[position] {
            Purpose::Flow => start,
            Purpose::Raise => WorkerStart { rate_limit: Some(Arc::clone(&self.raise)), ..start },
            Purpose::Nic => {
                let path = self.paths[position];
                let gate = |taker: &Taker| match &taker.what {
                    Taken::Nics(paths) => {
                        paths.iter().position(|own| *own == path).map(|at| Arc::clone(&taker.gates[at]))
                    }
                    _ => None,
                };
                WorkerStart { rate_limit: self.all.iter().find_map(gate), ..start }
            }
        }
    }

    /// Starts those that take from disks, CPUs and receivers. `disk_taker`: what reads this source with so many reads in flight.
    pub(super) fn start(
        &mut self,
        running: &mut RunningWorkers<'_>,
        disk_taker: impl Fn(usize, usize, Arc<RateLimit>) -> Result<WorkerStart, ExperimentError>,
    ) -> Result<(), ExperimentError> {
        for taker in &mut self.all {
            match &mut taker.what {
                Taken::Disks(disks) => {
                    let reads = (MOST_READS * MOST_ALIKE / disks.len()).clamp(FEWEST_READS, MOST_READS);
                    for (disk, gate) in disks.iter_mut().zip(&taker.gates) {
                        disk.worker = Some(running.counters.len());
                        let start = disk_taker(disk.source, reads, Arc::clone(gate))?;
                        running.start(start).map_err(ExperimentError::NoTaker)?;
                    }
                }
                Taken::Cpus { cores, taken } => {
                    for (core, gate) in cores.iter().zip(&taker.gates) {
                        let (taken, end) = (Arc::clone(taken), Arc::clone(&self.end));
                        let thread = take_cpu(*core, Arc::clone(gate), taken, end);
                        self.threads.push(thread.map_err(ExperimentError::NoTaker)?);
                    }
                }
                Taken::Receivers(receivers) => {
                    for receiver in receivers {
                        let threads = receiver.start(&self.end).map_err(ExperimentError::NoTaker)?;
                        self.threads.extend(threads);
                    }
                }
                Taken::Nics(_) => {}
            }
        }
        Ok(())
    }

    /// Each disk is read once: what is owed for a block at a byte a second keeps any further one back.
    pub(super) fn read_once(&self, begin: Instant, end: Instant) {
        let of_disks = self.all.iter().filter(|taker| matches!(taker.what, Taken::Disks(_)));
        of_disks.flat_map(|taker| &taker.gates).for_each(|gate| gate.open(1.0, begin, end));
    }

    /// The slot takes at these rates (units a second, in the order of the takers), and raises or not.
    pub(super) fn open(&self, doses: &[f64], raises: bool, begin: Instant, end: Instant) {
        for (taker, dose) in self.all.iter().zip(doses).filter(|(_, dose)| **dose > 0.0) {
            let members = taker.gates.iter().zip(&taker.parts).enumerate();
            for (at, (gate, part)) in members.filter(|(_, (_, part))| **part > 0.0) {
                match &taker.what {
                    Taken::Receivers(receivers) => receivers[at].open(dose * part, end),
                    _ => gate.open(dose * part, begin, end),
                }
            }
        }
        if raises {
            self.raise.open(UNLIMITED, begin, end);
        }
    }

    /// Units that each taker has got so far, and nanoseconds of CPU time that it used for that.
    pub(super) fn got(
        &self,
        counters: &[Arc<WorkerCounters>],
        streams: &[Option<TcpStream>],
    ) -> (Vec<u64>, Vec<u64>) {
        let cpu =
            |position: usize| counters.get(position).map_or(0, |one| one.cpu_nanos.load(Ordering::Relaxed));
        let got = |taker: &Taker| match &taker.what {
            Taken::Disks(disks) => {
                disks.iter().filter_map(|disk| disk.worker).fold((0, 0), |(bytes, nanos), at| {
                    let read = counters.get(at).map_or(0, |one| one.progress.mark().bytes);
                    (bytes + read, nanos + cpu(at))
                })
            }
            Taken::Nics(paths) => {
                let own = (0..self.purposes.len())
                    .filter(|at| self.purposes[*at] == Purpose::Nic && paths.contains(&self.paths[*at]));
                own.fold((0, 0), |(bytes, nanos), at| {
                    (bytes + arrived(counters, streams, at), nanos + cpu(at))
                })
            }
            Taken::Cpus { taken, .. } => {
                let nanos = taken.load(Ordering::Relaxed);
                (nanos, nanos)
            }
            // None of it is of this host's CPUs.
            Taken::Receivers(receivers) => (receivers.iter().map(Receiver::taken_nanos).sum(), 0),
        };
        self.all.iter().map(got).unzip()
    }

    /// Bytes of the flow on each path that have arrived.
    pub(super) fn flow(
        &self,
        counters: &[Arc<WorkerCounters>],
        streams: &[Option<TcpStream>],
        paths: usize,
    ) -> Vec<u64> {
        let mut bytes = vec![0; paths];
        for (at, purpose) in self.purposes.iter().enumerate() {
            if *purpose != Purpose::Nic {
                bytes[self.paths[at]] += arrived(counters, streams, at);
            }
        }
        bytes
    }

    /// The flow's workers that read this disk.
    pub(super) fn readers(&self, disk: &TakenDisk) -> usize {
        let is_reader = |at: &usize| self.purposes[*at] == Purpose::Flow && self.sources[*at] == disk.source;
        (0..self.sources.len()).filter(is_reader).count()
    }

    /// The disks that a taker reads.
    pub(super) fn disks(&self, at: usize) -> &[TakenDisk] {
        match &self.all[at].what {
            Taken::Disks(disks) => disks,
            _ => &[],
        }
    }

    /// Bytes that the flow and this disk's taker have read of it.
    pub(super) fn read_of(&self, disk: &TakenDisk, counters: &[Arc<WorkerCounters>]) -> u64 {
        let own = (0..self.sources.len()).filter(|at| self.sources[*at] == disk.source);
        let of_it = own.filter(|at| self.purposes[*at] != Purpose::Nic).chain(disk.worker);
        of_it.filter_map(|at| counters.get(at)).map(|one| one.progress.mark().bytes).sum()
    }

    /// The paths whose NICs a taker takes from.
    pub(super) fn nics(&self, at: usize) -> &[usize] {
        match &self.all[at].what {
            Taken::Nics(paths) => paths,
            _ => &[],
        }
    }

    /// The CPUs of a pool.
    pub(super) fn cores(&self, at: usize) -> Option<&[u32]> {
        match &self.all[at].what {
            Taken::Cpus { cores, .. } => Some(cores),
            _ => None,
        }
    }

    /// The receivers that a taker takes from.
    pub(super) fn receivers(&self, at: usize) -> &[Receiver] {
        match &self.all[at].what {
            Taken::Receivers(receivers) => receivers,
            _ => &[],
        }
    }

    /// What the hosts of all receivers do counts from now on.
    pub(super) fn look_at_receivers(&mut self) {
        for taker in &mut self.all {
            if let Taken::Receivers(receivers) = &mut taker.what {
                receivers.iter_mut().for_each(Receiver::look);
            }
        }
    }

    /// Takes from each member by what the flow uses of it, not from idle ones.
    pub(super) fn part(&mut self, at: usize, used: &[f64]) {
        let all: f64 = used.iter().sum();
        if all > 0.0 {
            self.all[at].parts = used.iter().map(|used| used / all).collect();
        }
    }

    /// Ends those that the flow's own end does not.
    pub(super) fn end(&mut self) {
        self.end.end();
        for thread in self.threads.drain(..) {
            // One that panicked has taken nothing since.
            let _ = thread.join();
        }
    }
}

impl Drop for Takers {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bytes that the other end has acknowledged; where the kernel does not say, those that left.
fn arrived(counters: &[Arc<WorkerCounters>], streams: &[Option<TcpStream>], at: usize) -> u64 {
    let view = streams.get(at).and_then(Option::as_ref).and_then(|stream| connection::view(stream).ok());
    let acknowledged = view.map(|view| view.info.acknowledged_bytes).filter(|bytes| *bytes > 0);
    let left = |one: &Arc<WorkerCounters>| {
        one.progress.mark().bytes.saturating_sub(one.lost_bytes.load(Ordering::Relaxed))
    };
    acknowledged.or_else(|| counters.get(at).map(left)).unwrap_or(0)
}

/// NICs, each with all paths over it.
fn by_nic(paths: impl Iterator<Item = (String, usize)>) -> Vec<(String, Vec<usize>)> {
    let mut nics: Vec<(String, Vec<usize>)> = Vec::new();
    for (nic, path) in paths {
        match nics.iter_mut().find(|(known, _)| *known == nic) {
            Some((_, paths)) if paths.contains(&path) => {}
            Some((_, paths)) => paths.push(path),
            None => nics.push((nic, vec![path])),
        }
    }
    nics
}

/// Each alone, or all at once where they are many.
fn at_once<T>(members: Vec<(String, T)>) -> Vec<(Vec<String>, Vec<T>)> {
    if members.len() > MOST_ALIKE {
        vec![members.into_iter().unzip()]
    } else {
        members.into_iter().map(|(id, member)| (vec![id], vec![member])).collect()
    }
}

/// The CPUs that the flow's workers are on, one for each.
fn cores(stages: &Stages<'_>, workers: &[WorkerPlan], receives_here: bool) -> Vec<u32> {
    // A receiver on this host, which the kernel puts anywhere, is as much the flow's.
    let mut cores: Vec<u32> = match receives_here {
        true => stages.machine.cpu.usable(),
        false => workers.iter().map(|worker| worker.core).collect(),
    };
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Reads as the flow does, half a file ahead of it.
pub(super) fn disk_taker(
    stages: &Stages<'_>,
    source: usize,
    reads: usize,
    gate: Arc<RateLimit>,
) -> Result<WorkerStart, ExperimentError> {
    let plan = &stages.plan.sources[source];
    let cursor = Arc::new(stages.reading[source].cursor.opposite());
    let label = plan.path.display().to_string();
    let file = file::open_to_read(&plan.path, plan.direct)
        .map_err(|error| ExperimentError::UnreadSource { path: label.clone(), error })?;
    let source = Source::File { file, cursor, label };
    Ok(WorkerStart { io_uring: stages.io_uring, ..reader(source, plan.block_bytes as usize, reads, gate) })
}

/// Reads into nothing, as much as the gate lets by.
pub(super) fn reader(source: Source, block_bytes: usize, reads: usize, gate: Arc<RateLimit>) -> WorkerStart {
    WorkerStart {
        core: None,
        source,
        destination: Destination::Null { reads: false },
        block_bytes,
        depth: reads,
        extra_blocks: 0,
        verify: false,
        patience: PATIENCE,
        rate_limit: Some(gate),
        zero_copy: false,
        io_uring: true,
    }
}

/// Sends from memory, as much as its gate lets by.
pub(super) fn sender(stream: TcpStream) -> WorkerStart {
    let closed = Arc::new(RateLimit::closed(clock::now()));
    WorkerStart {
        destination: Destination::Tcp(stream),
        ..reader(Source::Memory, MEMORY_BLOCK_BYTES as usize, SENT_BLOCKS, closed)
    }
}

/// Streams that take from a NIC beside so many of the flow's.
pub(super) fn streams_of_taker(own: usize) -> usize {
    ((own as f64 * OF_STREAMS).ceil() as usize).min(MOST_STREAMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_several_peers_over_one_nic_are_one_taker_s() {
        let paths = [("eth0", 0), ("eth1", 1), ("eth0", 0), ("eth0", 2)];
        let nics = by_nic(paths.into_iter().map(|(nic, path)| (nic.to_string(), path)));
        assert_eq!(nics, [("eth0".to_string(), vec![0, 2]), ("eth1".to_string(), vec![1])]);
    }

    #[test]
    fn many_of_a_kind_are_taken_from_at_once() {
        let of = |count: usize| at_once((0..count).map(|at| (format!("disk:sd{at}"), at)).collect());
        assert_eq!(of(4).len(), 4);
        let [(ids, members)] = of(24).try_into().expect("one");
        assert_eq!((ids.len(), ids[23].as_str(), members[23]), (24, "disk:sd23", 23));
        assert!(of(0).is_empty());
    }
}
