//! What may be taken of what a program uses, and what not, with the reason of each: from what was observed of it. The
//! takers and their slots are those of `linerate run` (`linerate_measure`'s experiment); the bytes of the program are
//! counted as often as slots need it: at its connections, in its calls, or at the storage.

use crate::activity::Activity;
use crate::connections::ProgramConnections;
use crate::descriptors::Descriptors;
use crate::flow::{ProgramFlow, files_used};
use crate::observe::{Observation, allowed_cpus, allowed_cpus_of_thread, limiting_group};
use crate::processes::{FlowCount, ProcessTree};
use crate::product::NOTHING;
use crate::threads::ThreadUse;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::{counted, listed};
use linerate_machine::flow_devices::interfaces_of;
use linerate_machine::probe::Machine;
use linerate_measure::diagnose::{Bottleneck, ShareFigure};
use linerate_measure::measure::experiment::{
    AgentReach, ExperimentError, ForeignFlow, NicAgent, ProgramDisk, ProgramTakerSpec, take_from_program,
};
use linerate_model::plan::wording::in_words;
use linerate_model::shares::ShareRecord;
use linerate_model::verdict::thresholds::FAR_SECONDS;
use linerate_model::verdict::{LimitKind, Route};
use linerate_system::counters::thread_cpu;
use linerate_system::file::{open_to_read, size_of};
use linerate_system::namespace::JoinedGroup;
use linerate_system::stop::Stop;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Observing and taking together.
const LONGEST: Duration = Duration::from_secs(40);
/// A disk that reads less than this part of what the program reads of storage is not where that comes from.
const HARDLY_ANY: f64 = 0.05;
/// Of a smaller file a disk's own memory has all after a moment.
const LEAST_FILE_BYTES: u64 = 16 << 20;
/// A read beside the program is as large as its own requests at the disk, within these.
const BLOCK_BYTES: [u64; 2] = [4 << 10, 1 << 20];
/// What it waits for in less of the time has room.
const MAY_LIMIT: f64 = 0.2;
/// A program that writes this part of what it reads, or receives, stores it.
const STORES: f64 = 0.25;
/// Calls that read less than this part of what comes from files do not count it (mapped files, io_uring).
pub(crate) const OF_CALLS: f64 = 0.8;

/// Between two looks at its connections there are so many times what a look costs.
const TIMES_A_LOOK: u32 = 15;
/// Slots have several looks each.
const LONGEST_PAUSE: Duration = Duration::from_millis(60);

/// Why nothing is taken from a program. In a sentence after `Not measured: `.
#[derive(Debug, Error)]
pub enum NoExperiment {
    #[error("nothing was to be taken")]
    NotWanted,
    #[error("it has ended")]
    Ended,
    #[error("it moves nothing")]
    Nothing,
    #[error("it writes to files, and nothing can be taken of that without writing beside it")]
    Writes,
    #[error("what it moves is not readable")]
    Unreadable,
    #[error("it has too many TCP connections to count their bytes often enough for slots of a second")]
    TooManyConnections,
    #[error("{0}")]
    Experiment(#[from] ExperimentError),
}

/// Why nothing is taken of a NIC though an agent was named.
#[derive(Debug, Error)]
pub(crate) enum NicNotTaken {
    #[error("{0}")]
    NoAgent(Failure),
    #[error("the program receives, and an agent takes only of what is sent")]
    Receives,
    #[error("the program sends nothing by TCP")]
    SendsNothing,
    #[error("the agent is on this host: name one behind the NIC")]
    AgentHere,
    #[error(
        "the agent is behind NIC {agent}, and the program sends over {program}: name one behind that alone"
    )]
    Elsewhere { agent: String, program: String },
    #[error("over which NIC the agent at {0} is reached is unknown")]
    UnknownRoute(SocketAddr),
    #[error("the agent is too far away for slots of a second: name a nearer one")]
    Far,
    #[error("the agent bounds what this host may send: start it without --rate-limit")]
    Bounded,
}

/// Takers beside a program, which have not begun.
pub struct ProgramExperiment {
    pub(crate) spec: ProgramTakerSpec,
    pids: Vec<u32>,
    pub(crate) count: FlowCount,
    /// Its control group limits its disks, and linerate is to be in it; and the one to return to.
    group: Option<[PathBuf; 2]>,
    /// What cannot be taken from, and why: it may be busy.
    pub untaken: Vec<ShareFigure>,
}

impl ProgramExperiment {
    /// `agent`: behind the NIC, where one was named.
    pub(crate) fn of(
        sysroot: &Sysroot,
        machine: &Machine,
        flow: &ProgramFlow<'_>,
        inferred: &Bottleneck,
        agent: Option<Result<NicAgent, Failure>>,
    ) -> Result<Self, NoExperiment> {
        let observed = flow.observed;
        let count = flow_count(flow)?;
        let far = flow.of_connections(|one| one.least_round_trip_seconds.unwrap_or(one.round_trip_seconds));
        if count.is_of_connections() && far.is_some_and(|seconds| seconds >= FAR_SECONDS) {
            return Err(ExperimentError::FarPath.into());
        }
        let first = observed.living.first().copied().unwrap_or(0);
        let nic = agent.map(|agent| {
            let agent = agent.map_err(NicNotTaken::NoAgent)?;
            let interface = interface_to(sysroot, agent.reach);
            Ok((nic_to_take(flow, count, agent.reach, interface)?, agent))
        });
        let taken = nic.as_ref().map(|nic| nic.as_ref().map(|(name, _)| name.as_str()));
        let mut untaken = untaken_by_others(flow, count, inferred, taken);
        let limiting = limiting_group(sysroot, first);
        let group = limiting.clone().filter(|[group, _]| JoinedGroup::may_join(group));
        let mut disks = disks(sysroot, machine, flow, first, &mut untaken);
        if limiting.is_some() && group.is_none() {
            let why = "its control group limits it, and this user may not enter that";
            untaken.extend(disks.drain(..).map(|disk| unknown(format!("disk:{}", disk.name), why)));
        }
        let works = works(flow);
        let cores = cores(sysroot, flow, group.is_some(), works, &mut untaken);
        if disks.is_empty() && cores.is_empty() && !matches!(nic, Some(Ok(_))) {
            return Err(ExperimentError::NothingToTake.into());
        }
        let may_be_busy = untaken.iter().map(|figure| figure.resource.clone()).collect();
        // One that the program does not wait for leaves no doubt.
        let is_listed = untaken.iter().any(|figure| figure.resource.starts_with("nic:"));
        let refused = nic.as_ref().and_then(|nic| nic.as_ref().err()).filter(|_| !is_listed);
        untaken.extend(refused.map(|why| unknown("nic:to the agent", why.to_string())));
        let round_trip = flow.of_connections(|one| one.round_trip_seconds).unwrap_or(0.0);
        let spec = ProgramTakerSpec {
            name: observed.name.clone(),
            disks,
            nic: nic.and_then(Result::ok),
            connections: observed.connections.count,
            cores,
            cpu_busy: works,
            untaken: may_be_busy,
            threads: u32::try_from(flow.workers.len()).unwrap_or(u32::MAX),
            step_bytes: flow
                .workers
                .iter()
                .filter_map(|one| one.file_call_bytes.or(one.socket_call_bytes))
                .max()
                .unwrap_or(0),
            round_trip_seconds: if count.is_of_connections() { round_trip } else { 0.0 },
            longest: LONGEST,
        };
        Ok(ProgramExperiment { spec, pids: observed.living.clone(), count, group, untaken })
    }

    /// What it will take, before anybody is asked.
    pub fn words(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for disk in &self.spec.disks {
            parts.push(format!("10 % of what disk {} reads, by reads of {}", disk.name, disk.label));
        }
        parts.extend(self.spec.nic.as_ref().map(|(name, agent)| {
            format!(
                "10 % of what it sends over NIC {name}, by sending to the agent at {}",
                agent.reach.address
            )
        }));
        let cores = self.spec.cores.len();
        parts.extend((cores > 0).then(|| {
            let which = if cores == 1 { "the CPU".into() } else { format!("the {}", counted(cores, "CPU")) };
            format!("10 % of the time of {which} that {} may run on", self.spec.name)
        }));
        let seconds = LONGEST.as_secs();
        let mut words = format!(
            "For {seconds} s at most, in slots of a tenth of a second to half of one, linerate takes {}; 20 % where that is not enough, and \
             half where the program loses a quarter. Nothing is written.\n",
            listed(&parts.iter().map(String::as_str).collect::<Vec<_>>(), 8)
        );
        if self.group.is_some() {
            words += "For that time linerate is in the program's control group, which limits its disks.\n";
        }
        for figure in &self.untaken {
            let why = figure.why.as_deref().unwrap_or_default();
            words += &format!("Nothing is taken of {}: {why}.\n", in_words(&[&figure.resource]));
        }
        words
    }

    /// Takes, until the shares are known.
    pub fn conduct(&self, sysroot: &Sysroot, stop: &Stop) -> Result<ShareRecord, NoExperiment> {
        let meter = ProgramMeter::begin(sysroot, &self.pids, self.count);
        if meter.is_too_slow() {
            return Err(NoExperiment::TooManyConnections);
        }
        let _joined = match &self.group {
            Some([group, own]) => Some(JoinedGroup::join(group, own).map_err(ExperimentError::NoTaker)?),
            None => None,
        };
        Ok(take_from_program(sysroot, &self.spec, Box::new(meter), stop)?)
    }
}

fn unknown(id: impl Into<String>, why: impl Into<String>) -> ShareFigure {
    ShareFigure { resource: id.into(), why: Some(why.into()), ..ShareFigure::default() }
}

/// Where its bytes are counted.
fn flow_count(flow: &ProgramFlow<'_>) -> Result<FlowCount, NoExperiment> {
    let (rates, total) = (&flow.rates, &flow.observed.total);
    let stores = |of: f64| rates.files_written.max(rates.storage_written) >= NOTHING.max(STORES * of);
    match flow.route {
        _ if flow.observed.living.is_empty() => Err(NoExperiment::Ended),
        Route::Unknown => Err(NoExperiment::Nothing),
        Route::NetworkToDisks if stores(rates.received) => Err(NoExperiment::Writes),
        Route::NetworkToDisks => Ok(FlowCount::Received),
        Route::DisksToNetwork => Ok(FlowCount::Sent),
        Route::Network if rates.sent >= NOTHING => Ok(FlowCount::Sent),
        _ if stores(rates.files_read) => Err(NoExperiment::Writes),
        Route::Disks => match total.called_read {
            Some(read) if read >= OF_CALLS * rates.files_read => Ok(FlowCount::CallsRead),
            _ => total.storage_read.map(|_| FlowCount::Storage).ok_or(NoExperiment::Unreadable),
        },
        _ => match (total.called_read, total.called_written) {
            (Some(read), Some(written)) if written > read => Ok(FlowCount::CallsWritten),
            (Some(_), _) => Ok(FlowCount::CallsRead),
            _ => Err(NoExperiment::Unreadable),
        },
    }
}

/// The interface by which this host sends to the agent.
fn interface_to(sysroot: &Sysroot, agent: AgentReach) -> Option<String> {
    let path = interfaces_of(sysroot, agent.local?, agent.address, 0);
    path.sends.interfaces.into_iter().next()
}

/// The NIC over which all that the program sends goes, where the agent is reached by that interface, too.
pub(crate) fn nic_to_take(
    flow: &ProgramFlow<'_>,
    count: FlowCount,
    agent: AgentReach,
    interface: Option<String>,
) -> Result<String, NicNotTaken> {
    let interface = match (count, interface) {
        (FlowCount::Sent, Some(interface)) => interface,
        (FlowCount::Sent, None) => return Err(NicNotTaken::UnknownRoute(agent.address)),
        (FlowCount::Received, _) => return Err(NicNotTaken::Receives),
        _ => return Err(NicNotTaken::SendsNothing),
    };
    let own: BTreeSet<&str> =
        flow.moving().filter_map(|one| one.interfaces.first()).map(|name| &**name).collect();
    match () {
        () if interface == "lo" => Err(NicNotTaken::AgentHere),
        () if !own.iter().eq([&interface.as_str()]) => {
            let program = listed(&own.into_iter().collect::<Vec<_>>(), 4);
            Err(NicNotTaken::Elsewhere { agent: interface, program })
        }
        () if agent.round_trip_seconds >= FAR_SECONDS => Err(NicNotTaken::Far),
        () if agent.rate_limit.is_some() => Err(NicNotTaken::Bounded),
        () => Ok(interface),
    }
}

/// What it may be limited by beyond this host's disks and CPUs. `nic`: the one that is taken from, or why none is, where an
/// agent was named.
fn untaken_by_others(
    flow: &ProgramFlow<'_>,
    count: FlowCount,
    inferred: &Bottleneck,
    nic: Option<Result<&str, &NicNotTaken>>,
) -> Vec<ShareFigure> {
    let (observed, shares, waits) = (flow.observed, flow.shares(), flow.waits().0);
    let mut all: Vec<ShareFigure> = Vec::new();
    let of_network = waits.map_or(0.0, |waits| match count {
        FlowCount::Sent => waits.waiting_sink,
        FlowCount::Received => waits.waiting_source,
        _ => 0.0,
    });
    let taken = nic.and_then(Result::ok);
    let nics = observed.connections.devices.interfaces.iter();
    let nics = nics.filter(|name| *name != "lo" && taken != Some(name.as_str()));
    // What its threads do not wait for has room; in waits that are not known it may be.
    if of_network + shares.of(Activity::Other) >= MAY_LIMIT && count.is_of_connections() {
        let unnamed = || "no agent of linerate behind it was named (--peer)".into();
        let why = nic.and_then(Result::err).map_or_else(unnamed, NicNotTaken::to_string);
        all.extend(nics.map(|nic| unknown(format!("nic:{nic}"), &*why)));
        let closed = flow.of_connections(|one| one.busy * one.receive_window_limited).unwrap_or(0.0);
        if all.is_empty() && taken.is_none() || closed >= MAY_LIMIT {
            let peer =
                flow.moving().find_map(|one| one.peer).map_or_else(String::new, |peer| peer.to_string());
            all.push(unknown(format!("receiver:{peer}"), "it is another program"));
        }
    }
    if shares.of_all(&[Activity::PipeRead, Activity::PipeWrite]) >= MAY_LIMIT {
        let peer = observed.pipe_peer.clone().unwrap_or_else(|| "another program".into());
        all.push(unknown(format!("pipe:to {peer}"), "it is another program's, too"));
    }
    if observed.group.quota_cpus > 0.0 && observed.group.throttled > 0.0 {
        all.push(unknown("quota:of its control group", "linerate does not compute in its place"));
    }
    use LimitKind as K;
    let beyond = [K::Steal, K::Loss, K::Window, K::Sender, K::Receiver, K::Quota, K::Nic];
    let is_taken = taken.is_some() && inferred.kind == K::Nic;
    if beyond.contains(&inferred.kind) && all.is_empty() && !is_taken {
        let named = inferred.resources.first().filter(|id| *id != "cpu").cloned();
        let id = named.unwrap_or_else(|| format!("{:?}", inferred.kind).to_lowercase());
        all.push(unknown(id, "it is not taken from"));
    }
    all
}

/// The disks that work for it, each with the file on it that moved most.
fn disks(
    sysroot: &Sysroot,
    machine: &Machine,
    flow: &ProgramFlow<'_>,
    pid: u32,
    untaken: &mut Vec<ShareFigure>,
) -> Vec<ProgramDisk> {
    if !flow.uses_disks() || flow.rates.storage_read < NOTHING {
        return Vec::new();
    }
    let mut candidates: BTreeMap<String, Vec<(PathBuf, u32, u64)>> = BTreeMap::new();
    let files = files_used(flow.observed).filter(|file| !file.writes);
    let files = files.map(|file| (file.path.clone(), file.pid, file.position));
    let mapped = flow.observed.mapped.iter().map(|file| (file.path.clone(), pid, 0));
    for (path, pid, position) in files.chain(mapped) {
        if let Some(name) = disk_of(sysroot, machine, flow, &path) {
            candidates.entry(name).or_default().push((path.clone(), pid, position));
        }
    }
    // A file that moves nothing does not say so where the others are read at positions of their own.
    let moves = |name: &str| {
        let counted = flow.observed.host.disks.iter().find(|disk| disk.name == name);
        counted.is_none_or(|disk| disk.read_bytes_per_second >= HARDLY_ANY * flow.rates.storage_read)
    };
    candidates.retain(|name, _| moves(name));
    let mut taken = Vec::new();
    for (name, files) in candidates {
        let opened = files.iter().map(|file| opened(flow.observed, &name, file));
        match opened.reduce(|first, next| if first.is_ok() { first } else { next }) {
            Some(Ok(disk)) => taken.push(disk),
            Some(Err(why)) => untaken.push(unknown(format!("disk:{name}"), why.to_string())),
            None => {}
        }
    }
    if taken.is_empty() && untaken.iter().all(|figure| !figure.resource.starts_with("disk:")) {
        untaken.push(unknown("disk:of its files", "on which disk they lie is unknown"));
    }
    taken
}

/// The disk of a file; the volume over several.
fn disk_of(sysroot: &Sysroot, machine: &Machine, flow: &ProgramFlow<'_>, path: &Path) -> Option<String> {
    let known: BTreeSet<String> = flow.disks_of.get(path).cloned().unwrap_or_default();
    let has_members =
        |name: &String| machine.disks.iter().any(|disk| disk.name == *name && disk.members.len() > 1);
    let is_part = |name: &String| machine.disks.iter().any(|disk| disk.members.contains(name));
    let volume = known.iter().find(|name| has_members(name));
    let disk = volume.or_else(|| known.iter().find(|name| is_part(name))).or(known.first());
    disk.cloned().or_else(|| {
        let name = path.strip_prefix("/dev").ok()?.to_str()?.to_string();
        sysroot.exists(format!("/sys/block/{name}")).then_some(name)
    })
}

/// Why a disk cannot be read beside a program.
#[derive(Debug, Error)]
enum UnreadFile {
    #[error("{} cannot be read past the page cache by this user: {error}", path.display())]
    NotOpened { path: PathBuf, error: io::Error },
    #[error("{} is too small to read other parts of it than the program does", .0.display())]
    Small(PathBuf),
}

fn opened(
    observed: &Observation,
    name: &str,
    (path, pid, position): &(PathBuf, u32, u64),
) -> Result<ProgramDisk, UnreadFile> {
    // As the program sees it, which may be in a mount namespace of its own.
    let own = path.strip_prefix("/").unwrap_or(path);
    let at_program = Path::new("/proc").join(pid.to_string()).join("root").join(own);
    let not_opened = |error| UnreadFile::NotOpened { path: path.clone(), error };
    let file = open_to_read(&at_program, true).map_err(not_opened)?;
    let bytes = size_of(&file).map_err(not_opened)?;
    if bytes < LEAST_FILE_BYTES {
        return Err(UnreadFile::Small(path.clone()));
    }
    let [least, most] = BLOCK_BYTES;
    let used = observed.host.disks.iter().find(|disk| disk.name == name);
    let request =
        used.map_or(most as f64, |disk| (disk.bytes_per_second()) / disk.operations_per_second.max(1e-9));
    let block_bytes = (request as u64).clamp(least, most) / least * least;
    let label = path.display().to_string();
    Ok(ProgramDisk { name: name.into(), file, label, position: *position, bytes, block_bytes })
}

/// Share of the time in which it needs a CPU: its busiest thread, all of them on the CPUs that it may use, or interrupts.
fn works(flow: &ProgramFlow<'_>) -> f64 {
    let observed = flow.observed;
    let of_threads = observed.threads.iter().map(ThreadUse::works);
    let interrupts = observed.host.cpus.iter().map(|cpu| cpu.irq + cpu.softirq);
    let all = observed.total.cpus / observed.allowed_cpus.len().max(1) as f64;
    of_threads.chain(interrupts).chain(flow.turns()).fold(all, f64::max)
}

/// All CPUs on which its threads may run; empty where linerate cannot take from each of them.
fn cores(
    sysroot: &Sysroot,
    flow: &ProgramFlow<'_>,
    joins: bool,
    works: f64,
    untaken: &mut Vec<ShareFigure>,
) -> Vec<u32> {
    let observed = flow.observed;
    let of_workers = flow.workers.iter().flat_map(|one| allowed_cpus_of_thread(sysroot, one.pid, one.thread));
    let mut cores: BTreeSet<u32> = of_workers.collect();
    if cores.is_empty() {
        cores = observed.allowed_cpus.iter().copied().collect();
    }
    let own: BTreeSet<u32> = allowed_cpus(sysroot, std::process::id()).into_iter().collect();
    let online = |core: &u32| observed.host.cpus.iter().any(|cpu| cpu.core == *core);
    cores.retain(online);
    let why = match () {
        // CPUs that it hardly uses cannot limit it, whoever else does.
        () if works < MAY_LIMIT => return Vec::new(),
        () if !cores.is_subset(&own) => "linerate may not run on all CPUs on which the program may",
        // What is computed in its group is taken of its quota.
        () if joins && observed.group.quota_cpus > 0.0 => "its control group has a quota of them",
        () => return cores.into_iter().collect(),
    };
    untaken.push(unknown("cpu", why));
    Vec::new()
}

pub(crate) struct ProgramMeter {
    sysroot: Sysroot,
    count: FlowCount,
    processes: ProcessTree,
    descriptors: Descriptors,
    connections: ProgramConnections,
    /// The least CPU time that it took to look at its connections.
    cost: Duration,
}

impl ProgramMeter {
    pub(crate) fn begin(sysroot: &Sysroot, pids: &[u32], count: FlowCount) -> Self {
        let processes = ProcessTree::begin(sysroot, pids);
        let (mut descriptors, mut connections) = (Descriptors::default(), ProgramConnections::default());
        let mut cost = Duration::ZERO;
        if count.is_of_connections() {
            descriptors.look(sysroot, &processes, true);
            connections.look(&descriptors, true);
            let mut look = || {
                let before = thread_cpu();
                connections.look_at_known();
                thread_cpu().saturating_sub(before)
            };
            cost = look().min(look()).min(look());
        }
        ProgramMeter { sysroot: sysroot.clone(), count, processes, descriptors, connections, cost }
    }

    /// It has so many connections that they cannot be looked at often enough.
    pub(crate) fn is_too_slow(&self) -> bool {
        self.pause() > LONGEST_PAUSE
    }
}

impl ForeignFlow for ProgramMeter {
    fn bytes(&mut self) -> Option<u64> {
        let of_connections = self.count.is_of_connections();
        // In calls children that ended meanwhile count, too: these are looked at each time.
        self.processes.look(&self.sysroot, !of_connections);
        if self.processes.living().is_empty() {
            return None;
        }
        if !of_connections {
            return self.processes.moved(self.count);
        }
        self.descriptors.look(&self.sysroot, &self.processes, false);
        self.connections.look(&self.descriptors, false);
        self.connections.look_at_known();
        Some(self.connections.moved(self.count == FlowCount::Sent))
    }

    fn pause(&self) -> Duration {
        self.cost * TIMES_A_LOOK
    }
}
