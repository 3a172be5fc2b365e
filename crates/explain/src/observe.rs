//! Looks on while a program works: for some seconds, at what it costs 3 % of a CPU at most.

use crate::connections::{ConnectionsUse, ProgramConnections};
use crate::descriptors::{Descriptors, FileUse, TORCH, bound, lossy, mapped, parse_fdinfo};
use crate::processes::{ExplainedProcess, ProcessTree};
use crate::target::holders;
use crate::threads::{ProgramThreads, ThreadUse, ThreadsRead, WaitedPipe};
use linerate_facts::counters::parse_pressure;
use linerate_facts::host::{HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::{Throttle, groups};
use linerate_system::clock;
use linerate_system::namespace::enter_network_of;
use linerate_system::stop::Stop;
use linerate_system::user::is_root;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Between two rounds of samples. It varies, so that a program's own clock is not met in step.
const ROUND_MS: u64 = 38;
const VARIES_MS: u64 = 25;
/// Processes whose mapped files are looked at.
const MOST_MAPPED: usize = 16;
/// Mapped files that are smaller are not data.
const LEAST_MAPPED_BYTES: u64 = 1 << 20;

/// What a program did, and the host beside it.
#[derive(Debug, Default)]
pub(crate) struct Observation {
    pub(crate) seconds: f64,
    pub(crate) name: String,
    pub(crate) pids: Vec<u32>,
    /// Those of them that are there at the end.
    pub(crate) living: Vec<u32>,
    /// None of its processes is there any more.
    pub(crate) ended: bool,
    pub(crate) total: ExplainedProcess,
    pub(crate) processes: Vec<ExplainedProcess>,
    pub(crate) threads: Vec<ThreadUse>,
    pub(crate) threads_read: ThreadsRead,
    pub(crate) files: Vec<FileUse>,
    pub(crate) mapped: Vec<MappedFile>,
    /// Those of its libraries that say what it does.
    pub(crate) libraries: BTreeSet<String>,
    pub(crate) connections: ConnectionsUse,
    pub(crate) pipe_peer: Option<String>,
    pub(crate) has_rings: bool,
    pub(crate) input_is_piped: bool,
    pub(crate) group: GroupUse,
    pub(crate) allowed_cpus: Vec<u32>,
    pub(crate) host: HostUse,
    /// Sentences about what was not looked at.
    pub(crate) left_out: Vec<String>,
}

impl Observation {
    /// A library that speaks TLS in the program's own code.
    pub(crate) fn tls(&self) -> Option<&String> {
        self.libraries.iter().find(|name| !name.starts_with(TORCH))
    }

    /// Names by which the table of remedies knows a process of it: its own, and that of the runtime that it has loaded.
    pub(crate) fn known_as<'a>(&self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let has_torch = self.libraries.iter().any(|library| library.starts_with(TORCH));
        has_torch.then_some("torch").into_iter().chain([name])
    }
}

/// A file that processes of the program have mapped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MappedFile {
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    pub bytes: u64,
    pub processes: usize,
}

/// The control group of its first process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GroupUse {
    /// CPU quota in CPUs; 0: none.
    pub quota_cpus: f64,
    /// Share of the quota's periods in which it was throttled.
    pub throttled: f64,
    /// Shares of the time in which some of its tasks waited for a CPU, the storage, memory; none where the kernel does
    /// not count that.
    pub cpu_pressure: Option<f64>,
    pub io_pressure: Option<f64>,
    pub memory_pressure: Option<f64>,
}

/// Looks on until the time is over, the program has ended, or the user stops it.
pub(crate) fn observe(sysroot: &Sysroot, roots: &[u32], time: Duration, stop: &Stop) -> Observation {
    let entered = enter_network(sysroot, roots.first().copied().unwrap_or(0));
    let connections = entered
        .map_or_else(|why| ProgramConnections::unknown(why.to_string()), |()| ProgramConnections::default());
    let sampler = HostSampler::of_cpus(sysroot).and_devices();
    let host_before = sampler.begin();
    let mut observer = Observer::begin(sysroot, roots, connections);
    let (begin, group_before) = (observer.processes.begin_at(), group_now(sysroot, observer.first));
    let mut round = 0;
    while !stop.wait_until(next_round(round).min(begin + time)) && clock::since(begin) < time {
        round += 1;
        if !observer.look() {
            break;
        }
    }
    observer.last_look();
    let seconds = observer.processes.seconds();
    let group = group_now(sysroot, observer.first).since(&group_before, seconds);
    let mut host = sampler.sample();
    sampler.add_processes(&mut host);
    Observation { group, host: host.since(&host_before), ..observer.end(seconds) }
}

/// Why a program's interfaces and connections are not visible.
#[derive(Debug, Error)]
enum NetworkError {
    #[error("a recorded machine has no connections")]
    Recorded,
    #[error("its connections are in another network namespace, which only root may enter")]
    NeedsRoot,
    #[error("its connections are in another network namespace, which cannot be entered: {0}")]
    NotEntered(io::Error),
}

/// Into the network namespace of this process, where that is another one.
fn enter_network(sysroot: &Sysroot, pid: u32) -> Result<(), NetworkError> {
    let name = |process: &str| sysroot.link_name(format!("/proc/{process}/ns/net"));
    let is_other = name(&pid.to_string()).zip(name("self")).is_some_and(|(theirs, own)| theirs != own);
    match (sysroot.is_live(), is_other) {
        (false, _) => Err(NetworkError::Recorded),
        (true, false) => Ok(()),
        (true, true) if !is_root() => Err(NetworkError::NeedsRoot),
        (true, true) => enter_network_of(pid).map_err(NetworkError::NotEntered),
    }
}

fn next_round(round: u64) -> Instant {
    clock::now() + Duration::from_millis(ROUND_MS + round * 17 % VARIES_MS)
}

/// What is looked at of a program, round by round.
struct Observer<'a> {
    sysroot: &'a Sysroot,
    /// The process that the user meant, or the first of them.
    first: u32,
    processes: ProcessTree,
    descriptors: Descriptors,
    threads: ProgramThreads,
    connections: ProgramConnections,
}

impl<'a> Observer<'a> {
    fn begin(sysroot: &'a Sysroot, roots: &[u32], connections: ProgramConnections) -> Self {
        let first = roots.first().copied().unwrap_or(0);
        let mut observer = Observer {
            sysroot,
            first,
            processes: ProcessTree::begin(sysroot, roots),
            descriptors: Descriptors::default(),
            threads: ProgramThreads::default(),
            connections,
        };
        observer.descriptors.look(sysroot, &observer.processes, true);
        observer.connections.look(&observer.descriptors, true);
        observer.threads.list(sysroot, &observer.processes);
        observer
    }

    /// False: none of its processes is there any more.
    fn look(&mut self) -> bool {
        self.processes.look(self.sysroot, false);
        if self.processes.living().is_empty() {
            return false;
        }
        self.threads.list(self.sysroot, &self.processes);
        self.threads.sample(self.sysroot, &self.descriptors);
        if self.descriptors.look(self.sysroot, &self.processes, false) {
            self.connections.look(&self.descriptors, false);
        }
        true
    }

    fn last_look(&mut self) {
        self.descriptors.look(self.sysroot, &self.processes, true);
        self.connections.look(&self.descriptors, true);
        self.processes.look(self.sysroot, true);
    }

    /// All but what is of the host and of the control group.
    fn end(self, seconds: f64) -> Observation {
        let Observer { sysroot, first, processes, descriptors, threads, connections } = self;
        let (threads, threads_read) = threads.end(sysroot);
        let living = processes.living();
        let (mapped, libraries) = mapped_files(sysroot, &living);
        let (total, connections) = (processes.total(seconds), connections.end(sysroot, seconds));
        let mut files = descriptors.files(seconds);
        // What a file splices to a socket is in no call's bytes.
        bound(&mut files, false, total.called_read.map(|called| called.max(connections.sent)));
        bound(&mut files, true, total.called_written.map(|called| called.max(connections.received)));
        Observation {
            seconds,
            name: processes.name_of(first).to_string(),
            pids: processes.pids(),
            ended: living.is_empty(),
            living,
            total,
            processes: processes.rates(seconds),
            left_out: left_out(&processes, &descriptors, &threads_read),
            files,
            connections,
            pipe_peer: pipe_peer(sysroot, &processes, &descriptors, threads_read.pipe),
            has_rings: descriptors.have_rings(),
            input_is_piped: descriptors.input_is_piped(),
            allowed_cpus: allowed_cpus(sysroot, first),
            threads,
            threads_read,
            mapped,
            libraries,
            ..Observation::default()
        }
    }
}

fn left_out(processes: &ProcessTree, descriptors: &Descriptors, threads: &ThreadsRead) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |is: bool, what: &str| all.extend(is.then(|| what.to_string()));
    add(processes.is_full(), "it has too many processes: those beyond 4096 were not followed");
    add(descriptors.are_too_many(), "it has too many open files: those beyond 16384 were not looked at");
    add(threads.too_many, "it has too many threads: those beyond 4096 were not sampled");
    add(threads.uncounted, "the kernel counts no CPU time of threads (CONFIG_SCHED_INFO): it was sampled");
    add(processes.are_forbidden(), "what the storage moved for some of its processes is not readable");
    add(descriptors.hidden() > 0, "the open files of some of its processes are not readable");
    all
}

/// The CPUs that a process may use (`/proc/PID/status`); empty where that is not known.
pub(crate) fn allowed_cpus(sysroot: &Sysroot, pid: u32) -> Vec<u32> {
    allowed_by(sysroot, &format!("/proc/{pid}/status"))
}

/// The same of one of its threads, which may be bound to some of them.
pub(crate) fn allowed_cpus_of_thread(sysroot: &Sysroot, pid: u32, thread: u32) -> Vec<u32> {
    allowed_by(sysroot, &format!("/proc/{pid}/task/{thread}/status"))
}

fn allowed_by(sysroot: &Sysroot, status: &str) -> Vec<u32> {
    let text = sysroot.text(status).unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    parse_cpu_list(list.unwrap_or_default())
}

/// `0-3,8`.
fn parse_cpu_list(text: &str) -> Vec<u32> {
    const MOST: u32 = 8192;
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<u32>().ok()?, to.trim().parse::<u32>().ok()?);
        (to < MOST).then_some(from..=to)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Large files that they have mapped, and their libraries that are known.
fn mapped_files(sysroot: &Sysroot, pids: &[u32]) -> (Vec<MappedFile>, BTreeSet<String>) {
    let (mut all, mut libraries) = (BTreeMap::<PathBuf, (u64, usize)>::new(), BTreeSet::new());
    for pid in pids.iter().take(MOST_MAPPED) {
        let (files, known) = mapped(sysroot, *pid);
        libraries.extend(known);
        for (path, bytes) in files.into_iter().filter(|(_, bytes)| *bytes >= LEAST_MAPPED_BYTES) {
            let known = all.entry(path).or_default();
            *known = (known.0.max(bytes), known.1 + 1);
        }
    }
    let of = |(path, (bytes, processes))| MappedFile { path, bytes, processes };
    let mut files: Vec<MappedFile> = all.into_iter().map(of).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    (files, libraries)
}

/// The program at the other end of the pipe for which a thread waited.
fn pipe_peer(
    sysroot: &Sysroot,
    processes: &ProcessTree,
    descriptors: &Descriptors,
    waited: Option<WaitedPipe>,
) -> Option<String> {
    let waited = waited?;
    let inode = descriptors.pipe(sysroot, waited.pid, waited.descriptor)?;
    let listed = sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let own = std::process::id();
    let others = listed.filter(|pid| !processes.contains(*pid) && *pid != own);
    let is_other_end = |(pid, descriptor): &(u32, String)| {
        let text = sysroot.text(format!("/proc/{pid}/fdinfo/{descriptor}"));
        text.ok().and_then(|text| parse_fdinfo(&text)).is_some_and(|open| open.is_end(!waited.writes))
    };
    // A shell that started both may have it open as well; it is the older one.
    let found = holders(sysroot, others, &[format!("pipe:[{inode}]")].into());
    let (pid, _) = found.into_iter().filter(is_other_end).max_by_key(|(pid, _)| *pid)?;
    let name = sysroot.text(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{name} (pid {pid})"))
}

/// Counters of a control group at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct GroupCounters {
    throttle: Throttle,
    /// Microseconds in which some waited: CPU, storage, memory.
    waited_us: [Option<u64>; 3],
}

fn group_now(sysroot: &Sysroot, pid: u32) -> GroupCounters {
    // The root of all groups is the whole host.
    let is_group = |folder: &PathBuf| sysroot.exists(folder.join("cgroup.events"));
    let folders: Vec<PathBuf> =
        groups(sysroot, &pid.to_string(), "cpu").into_iter().filter(is_group).collect();
    let waited = |what: &str| {
        let text =
            folders.iter().find_map(|folder| sysroot.text(folder.join(format!("{what}.pressure"))).ok())?;
        Some(parse_pressure(&text)?.some?.total_us)
    };
    GroupCounters {
        throttle: Throttle::of(sysroot, &pid.to_string()),
        waited_us: ["cpu", "io", "memory"].map(waited),
    }
}

impl GroupCounters {
    fn since(&self, earlier: &GroupCounters, seconds: f64) -> GroupUse {
        let share = |at: usize| {
            let us = self.waited_us[at]?.checked_sub(earlier.waited_us[at]?)?;
            Some((us as f64 / 1e6 / seconds.max(1e-3)).min(1.0))
        };
        GroupUse {
            quota_cpus: self.throttle.quota_cores,
            throttled: self.throttle.share_since(&earlier.throttle),
            cpu_pressure: share(0),
            io_pressure: share(1),
            memory_pressure: share(2),
        }
    }
}

/// A control group of the program that limits its disks, where linerate is in another; and that one.
pub(crate) fn limiting_group(sysroot: &Sysroot, pid: u32) -> Option<[PathBuf; 2]> {
    let limits = |folder: &PathBuf| {
        let says = |name: &str| sysroot.text(folder.join(name)).is_ok_and(|text| !text.trim().is_empty());
        let of_reads = ["blkio.throttle.read_bps_device", "blkio.throttle.read_iops_device", "io.max"];
        of_reads.into_iter().any(says)
    };
    let own = chains(groups(sysroot, "self", "blkio"));
    chains(groups(sysroot, &pid.to_string(), "blkio")).into_iter().find_map(|chain| {
        let limiting = chain.iter().find(|folder| limits(folder))?;
        let own = own.iter().find(|own| own.last() == chain.last() && !own.contains(limiting))?;
        Some([chain[0].clone(), own[0].clone()])
    })
}

/// Folders of each hierarchy, from the group up to its root.
fn chains(folders: Vec<PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut all: Vec<Vec<PathBuf>> = Vec::new();
    for folder in folders {
        match all.last_mut() {
            Some(chain) if chain.last().is_some_and(|below| below.parent() == Some(&folder)) => {
                chain.push(folder);
            }
            _ => all.push(vec![folder]),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpu_list("\t0-2,8"), [0, 1, 2, 8]);
        assert!(parse_cpu_list("").is_empty() && parse_cpu_list("0-4294967295").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_none(text in "[0-9,\t -]{0,40}") {
            let _ = parse_cpu_list(&text);
        }
    }
}
