//! Who takes: a gate for each resource, the workers behind it, and what they really got.

use super::error::ExperimentError;
use crate::measure::Stages;
use crate::measure::flow::WorkerSource;
use crate::measure::running::RunningWorkers;
use linerate_model::plan::{ResourceKind, WorkerPlan};
use linerate_model::shares::{RaisedSetting, TakenResource, TakenUnit};
use linerate_system::connection;
use linerate_system::file;
use linerate_system::stop::Stop;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::cpu_taker::take_cpu;
use linerate_transport::flow::rate_limit::RateLimit;
use linerate_transport::flow::source::Source;
use linerate_transport::flow::start::{Destination, WorkerStart};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Reads in flight of a disk's taker at most: as many as a throttle may hold back until a tenth arrives.
const MOST_READS: usize = 24;
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

/// One resource that is taken from.
pub(super) struct Taker {
    pub resource: TakenResource,
    /// One for each member: a disk or a NIC has one, a pool of CPUs one a CPU.
    gates: Vec<Arc<RateLimit>>,
    what: Taken,
}

/// What is taken from.
enum Taken {
    /// A disk, by the first of the plan's sources that lies on it.
    Disk { name: String, source: usize, worker: Option<usize> },
    /// The NIC of this path.
    Nic { path: usize },
    /// Of each CPU by its part of what the pool does.
    Cpu { cores: Vec<u32>, parts: Vec<f64>, taken: Arc<AtomicU64> },
}

/// All of them, and what raises the flow.
pub(super) struct Takers {
    pub all: Vec<Taker>,
    pub purposes: Vec<Purpose>,
    pub raised: RaisedSetting,
    raise: Arc<RateLimit>,
    /// Path of each worker of the flow.
    pub paths: Vec<usize>,
    threads: Vec<std::thread::JoinHandle<()>>,
    end: Arc<Stop>,
}

impl Takers {
    /// Of each disk that the flow reads, of each NIC that a taker has a stream on, and of the CPUs of its workers.
    pub(super) fn of(stages: &Stages<'_>, workers: &[WorkerPlan], purposes: Vec<Purpose>) -> Self {
        let gate = || Arc::new(RateLimit::closed(stages.begin));
        let mut all: Vec<Taker> = Vec::new();
        let mut add = |id: &str, kind, unit, gates: Vec<Arc<RateLimit>>, what| {
            let resource = TakenResource { id: id.to_string(), kind, unit, pool: None, busy: None };
            all.push(Taker { resource, gates, what });
        };
        let mut disks: Vec<&str> = Vec::new();
        for worker in workers {
            let id = stages.plan.sources[worker.source].resource.as_str();
            if !disks.contains(&id) {
                disks.push(id);
                let name = stages.short_name(id);
                let what = Taken::Disk { name, source: worker.source, worker: None };
                add(id, ResourceKind::Disk, TakenUnit::Bytes, vec![gate()], what);
            }
        }
        let mut paths: Vec<usize> = workers
            .iter()
            .zip(&purposes)
            .filter(|(_, purpose)| **purpose == Purpose::Nic)
            .map(|(worker, _)| worker.path)
            .collect();
        paths.dedup();
        for path in paths {
            let id = &stages.plan.paths[path].resource;
            add(id, ResourceKind::Nic, TakenUnit::Bytes, vec![gate()], Taken::Nic { path });
        }
        let cores = cores(stages, workers);
        let gates = cores.iter().map(|_| gate()).collect();
        let parts = vec![1.0 / cores.len().max(1) as f64; cores.len()];
        let what = Taken::Cpu { cores, parts, taken: Arc::default() };
        add("cpu", ResourceKind::Cpu, TakenUnit::CpuNanos, gates, what);
        for kind in [ResourceKind::Disk, ResourceKind::Nic] {
            let several = all.iter().filter(|taker| taker.resource.kind == kind).count() > 1;
            let pool = if kind == ResourceKind::Disk { "disks" } else { "nics" };
            let of_kind = all.iter_mut().filter(|taker| several && taker.resource.kind == kind);
            of_kind.for_each(|taker| taker.resource.pool = Some(pool.into()));
        }
        let own = || workers.iter().zip(&purposes).filter(|(_, purpose)| **purpose == Purpose::Flow);
        let reads: u64 = own().map(|(worker, _)| u64::from(stages.reads_of(worker))).sum();
        Takers {
            all,
            raised: RaisedSetting { id: "reads in flight and streams".into(), from: reads, to: 2 * reads },
            raise: gate(),
            paths: workers.iter().map(|worker| worker.path).collect(),
            purposes,
            threads: Vec::new(),
            end: Arc::default(),
        }
    }

    /// Nothing to take from.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        let raised = RaisedSetting { id: "streams".into(), from: 1, to: 2 };
        let raise = Arc::new(RateLimit::closed(linerate_system::clock::now()));
        let (all, purposes, paths, threads) = Default::default();
        Takers { all, purposes, raised, raise, paths, threads, end: Arc::default() }
    }

    /// What a worker of the flow may move, and what it sends; none: as any other.
    pub(super) fn gated(&self, position: usize, start: WorkerStart) -> WorkerStart {
        match self.purposes[position] {
            Purpose::Flow => start,
            Purpose::Raise => WorkerStart { rate_limit: Some(Arc::clone(&self.raise)), ..start },
            Purpose::Nic => {
                let path = self.paths[position];
                let on_path = |taker: &&Taker| matches!(taker.what, Taken::Nic { path: own } if own == path);
                let gate = self.all.iter().find(on_path).map(|taker| Arc::clone(&taker.gates[0]));
                WorkerStart { rate_limit: gate, ..start }
            }
        }
    }

    /// Starts those that take from disks and CPUs.
    pub(super) fn start(
        &mut self,
        stages: &Stages<'_>,
        running: &mut RunningWorkers<'_>,
    ) -> Result<(), ExperimentError> {
        for taker in &mut self.all {
            match &mut taker.what {
                Taken::Disk { source, worker, .. } => {
                    *worker = Some(running.counters.len());
                    let start = disk_taker(stages, *source, Arc::clone(&taker.gates[0]))?;
                    running.start(start).map_err(ExperimentError::NoTaker)?;
                }
                Taken::Cpu { cores, taken, .. } => {
                    for (core, gate) in cores.iter().zip(&taker.gates) {
                        let (taken, end) = (Arc::clone(taken), Arc::clone(&self.end));
                        let thread = take_cpu(*core, Arc::clone(gate), taken, end);
                        self.threads.push(thread.map_err(ExperimentError::NoTaker)?);
                    }
                }
                Taken::Nic { .. } => {}
            }
        }
        Ok(())
    }

    /// The slot takes at these rates (units a second, in the order of the takers), and raises or not.
    pub(super) fn open(&self, doses: &[f64], raises: bool, begin: Instant, end: Instant) {
        for (taker, dose) in self.all.iter().zip(doses).filter(|(_, dose)| **dose > 0.0) {
            for (at, gate) in taker.gates.iter().enumerate() {
                let part = match &taker.what {
                    Taken::Cpu { parts, .. } => parts[at],
                    _ => 1.0,
                };
                if part > 0.0 {
                    gate.open(dose * part, begin, end);
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
            Taken::Disk { worker, .. } => {
                let position = worker.unwrap_or(usize::MAX);
                let bytes = counters.get(position).map_or(0, |one| one.progress.mark().bytes);
                (bytes, cpu(position))
            }
            Taken::Nic { path } => {
                let own = (0..self.purposes.len())
                    .filter(|at| self.purposes[*at] == Purpose::Nic && self.paths[*at] == *path);
                own.fold((0, 0), |(bytes, nanos), at| {
                    (bytes + arrived(counters, streams, at), nanos + cpu(at))
                })
            }
            Taken::Cpu { taken, .. } => {
                let nanos = taken.load(Ordering::Relaxed);
                (nanos, nanos)
            }
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

    /// The disk that a taker reads, by the kernel's name.
    pub(super) fn disk(&self, at: usize) -> Option<&str> {
        match &self.all[at].what {
            Taken::Disk { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The path whose NIC a taker takes from.
    pub(super) fn nic(&self, at: usize) -> Option<usize> {
        match self.all[at].what {
            Taken::Nic { path } => Some(path),
            _ => None,
        }
    }

    /// The CPUs of a pool.
    pub(super) fn cores(&self, at: usize) -> Option<&[u32]> {
        match &self.all[at].what {
            Taken::Cpu { cores, .. } => Some(cores),
            _ => None,
        }
    }

    /// Takes from each CPU of a pool by what it does, not from idle ones.
    pub(super) fn part_cpus(&mut self, at: usize, busy: &dyn Fn(u32) -> f64) {
        if let Taken::Cpu { cores, parts, .. } = &mut self.all[at].what {
            let all: f64 = cores.iter().map(|core| busy(*core)).sum();
            let part = |core: &u32| if all > 0.0 { busy(*core) / all } else { 0.0 };
            *parts = cores.iter().map(part).collect();
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

/// The CPUs that the flow's workers are on, one for each.
fn cores(stages: &Stages<'_>, workers: &[WorkerPlan]) -> Vec<u32> {
    // Over loopback the receiver, which the kernel puts anywhere, is as much the flow's.
    let mut cores: Vec<u32> = match stages.plan.loopback {
        true => stages.cores(),
        false => workers.iter().map(|worker| worker.core).collect(),
    };
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Reads as the flow does, half a file ahead of it.
fn disk_taker(
    stages: &Stages<'_>,
    source: usize,
    gate: Arc<RateLimit>,
) -> Result<WorkerStart, ExperimentError> {
    let plan = &stages.plan.sources[source];
    let cursor = Arc::new(stages.reading[source].cursor.opposite());
    let label = plan.path.display().to_string();
    let file = file::open_to_read(&plan.path, plan.direct)
        .map_err(|error| ExperimentError::UnreadSource { path: label.clone(), error })?;
    Ok(WorkerStart {
        core: None,
        source: Source::File { file, cursor, label },
        destination: Destination::Null { reads: false },
        block_bytes: plan.block_bytes as usize,
        depth: MOST_READS,
        extra_blocks: 0,
        verify: false,
        patience: stages.patience(),
        rate_limit: Some(gate),
        zero_copy: false,
        io_uring: stages.io_uring,
    })
}
