//! What was observed of a program, as evidence for the one judge: from where to where its bytes go, which of its threads
//! move them, what these wait for, and which parts of the machine they use.

use crate::activity::{Activity, ActivityShares};
use crate::connections::ConnectionUse;
use crate::descriptors::FileUse;
use crate::observe::Observation;
use crate::product::{NOTHING, ProgramRates, shares_of};
use crate::threads::ThreadUse;
use linerate_facts::host::DeviceUse;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::{FlowDevices, disks_below};
use linerate_machine::probe::Machine;
use linerate_model::verdict::thresholds::{CPU_OF_OTHERS, DISK_UNUSED, THREAD_FULL};
use linerate_model::verdict::{
    CpuUsers, DiskEvidence, Evidence, LinkEvidence, ProgramEvidence, QuotaEvidence, Route, TcpEvidence,
    VolumeEvidence, WorkerEvidence,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A sender whose bytes come from a disk reads this part of them there at least; the page cache has the rest.
const MOSTLY_READ: f64 = 0.5;
/// Threads that spend this share of the time in waits for data move it …
const WAITS_FOR_DATA: f64 = 0.3;
/// … and beside them those with this share of it.
const HAS_A_PART: f64 = 0.05;
/// Where as many threads wait for others of their program, they hand work to each other …
const HAND_OVER: f64 = 0.5;
const DOES_NOTHING_ELSE: f64 = 0.97;
/// … and do these for it. Some sleep by a timer to look after the others.
const OF_POOLS: [Activity; 8] = [
    Activity::Running,
    Activity::Runnable,
    Activity::Disk,
    Activity::PageFault,
    Activity::Send,
    Activity::PipeRead,
    Activity::PipeWrite,
    Activity::Ring,
];
/// A thread that runs less does nothing.
const RUNS: f64 = 0.01;
/// Reads of which the storage delivers less than this share are the page cache's.
pub(crate) const OF_STORAGE: f64 = 0.1;
/// Files whose disks are asked for.
const MOST_FILES: usize = 64;

/// A program's bytes and what they use.
#[derive(Debug)]
pub(crate) struct ProgramFlow<'a> {
    pub(crate) observed: &'a Observation,
    pub(crate) rates: ProgramRates,
    pub(crate) route: Route,
    pub(crate) bytes_per_second: f64,
    pub(crate) workers: Vec<&'a ThreadUse>,
    pub(crate) devices: FlowDevices,
    pub(crate) disks: Vec<DiskEvidence>,
    volumes: Vec<VolumeEvidence>,
    /// The disks of each file.
    pub(crate) disks_of: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl<'a> ProgramFlow<'a> {
    pub(crate) fn of(sysroot: &Sysroot, machine: &Machine, observed: &'a Observation) -> Self {
        let rates = ProgramRates::of(observed);
        let (route, bytes_per_second) = rates.route(observed);
        let disks_of = disks_of_files(sysroot, machine, observed);
        let mut devices = observed.connections.devices.clone();
        devices.disks = disks_of.values().flatten().cloned().collect();
        let is_volume =
            |name: &str| machine.disks.iter().any(|one| one.name == name && !one.members.is_empty());
        let mut used = disks_used(observed, &rates);
        used.retain(|disk| devices.disks.contains(&disk.name));
        let (over, disks): (Vec<DiskEvidence>, Vec<DiskEvidence>) =
            used.into_iter().partition(|disk| is_volume(&disk.name));
        let disks = with_asked_depth(disks, waiting_for_disk(observed));
        let volumes = over
            .into_iter()
            .map(|disk| VolumeEvidence { members: members_of(machine, &disk.name, &disks), name: disk.name });
        ProgramFlow {
            observed,
            rates,
            route,
            bytes_per_second,
            workers: workers(&observed.threads),
            devices,
            volumes: volumes.filter(|volume| volume.members.len() > 1).collect(),
            disks,
            disks_of,
        }
    }

    /// The storage works for it, or it waits for the storage: else its disks are busy for others.
    pub(crate) fn uses_disks(&self) -> bool {
        let storage = self.rates.storage_read + self.rates.storage_written;
        let files = self.rates.files_read + self.rates.files_written;
        storage >= NOTHING.max(OF_STORAGE * files) || waiting_for_disk(self.observed) >= HAS_A_PART
    }

    /// It moves next to nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.route == Route::Unknown
    }

    /// What its workers do with their time, together where they hand their work to each other, else on the average.
    pub(crate) fn shares(&self) -> ActivityShares {
        if let Some(shares) = self.shares_of_pool() {
            return shares;
        }
        ActivityShares::mean(&self.workers.iter().map(|one| (one.shares, one.seconds)).collect::<Vec<_>>())
    }

    /// Of threads of a runtime, each of which does what comes next while the others wait for it: what all of them do
    /// together, and where none does anything, all wait for events.
    fn shares_of_pool(&self) -> Option<ActivityShares> {
        let observed = self.observed;
        // One that does nothing else waits until the others have ended.
        let waits = |one: &&ThreadUse| one.shares.of(Activity::Lock) < DOES_NOTHING_ELSE;
        let lock = |one: &ThreadUse| one.shares.of(Activity::Lock) * one.seconds;
        let waiting: f64 = observed.threads.iter().filter(waits).map(lock).sum();
        let is_pool = waiting >= HAND_OVER * observed.seconds.max(1e-3);
        let mut shares = ActivityShares::default();
        let does = OF_POOLS.map(|activity| (activity, mean_threads(observed, &[activity])));
        let all: f64 = does.iter().map(|(_, threads)| threads).sum();
        does.iter().for_each(|(activity, threads)| shares.set(*activity, threads / all.max(1.0)));
        shares.set(Activity::Poll, (1.0 - all).max(0.0));
        is_pool.then_some(shares)
    }

    /// Connections that carry something in the direction of the flow.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &ConnectionUse> {
        let incoming = self.route == Route::NetworkToDisks;
        let bytes = move |one: &&ConnectionUse| if incoming { one.received > 0.0 } else { one.sent > 0.0 };
        self.observed.connections.busiest.iter().filter(bytes)
    }

    /// The mean of a figure of its connections, by what they carry.
    pub(crate) fn of_connections(&self, figure: impl Fn(&ConnectionUse) -> f64) -> Option<f64> {
        let weight = |one: &ConnectionUse| one.sent.max(one.received);
        let all: f64 = self.moving().map(weight).sum();
        (all > 0.0).then(|| self.moving().map(|one| weight(one) * figure(one)).sum::<f64>() / all)
    }

    /// Everything for the judge.
    pub(crate) fn evidence(&self) -> Evidence {
        let observed = self.observed;
        let count = observed.host.cpus.len().max(1) as f64;
        let kernel = observed.host.cpus.iter().map(|cpu| cpu.irq + cpu.softirq).sum::<f64>() / count;
        let (busy, own) = (observed.host.busy_cpus() / count, observed.total.cpus / count);
        let (workers, program) = self.waits();
        let for_cpu = self.shares().of(Activity::Runnable);
        let for_data = workers.map_or(0.0, |workers| workers.waiting_source.max(workers.waiting_sink));
        let starves = for_cpu >= CPU_OF_OTHERS && for_cpu >= for_data;
        let (quota, allowed) = (observed.group.quota_cpus, observed.allowed_cpus.len() as f64);
        Evidence {
            route: self.route,
            bytes_per_second: (!self.is_nothing()).then_some(self.bytes_per_second),
            quota: (quota > 0.0).then(|| QuotaEvidence {
                throttled: observed.group.throttled,
                used: Some(observed.total.cpus / quota),
            }),
            own_cpu: (allowed > 0.0).then(|| observed.total.cpus / allowed),
            workers,
            program: Some(program),
            cpus: observed.host.cpus.clone(),
            // Where they wait for a CPU, it is one of those that they may use.
            worker_cpus: if starves { observed.allowed_cpus.clone() } else { Vec::new() },
            cpu_users: Some(CpuUsers { own, kernel, others: (busy - own - kernel).max(0.0) }),
            devices: Some(self.devices.clone()),
            links: self.links(),
            disks: if self.uses_disks() { self.disks.clone() } else { Vec::new() },
            volumes: if self.uses_disks() { self.volumes.clone() } else { Vec::new() },
            tcp: self.tcp(),
            ..Evidence::default()
        }
    }

    /// What its workers do: waits for the source, for the sink, and for neither.
    pub(crate) fn waits(&self) -> (Option<WorkerEvidence>, ProgramEvidence) {
        use Activity as A;
        let shares = self.shares();
        let polls = shares.of(A::Poll);
        let unread = self.of_connections(|one| one.unread).unwrap_or(0.0);
        let (source, sink, idle) = self.waits_by_side(&shares, polls, unread);
        let threads = &self.observed.threads;
        let busiest = threads.iter().map(ThreadUse::works).fold(self.turns().unwrap_or(0.0), f64::max);
        let workers = (!self.workers.is_empty()).then(|| WorkerEvidence {
            count: u32::try_from(self.workers.len()).unwrap_or(u32::MAX),
            busy: shares.of(A::Running),
            busiest,
            waiting_source: source,
            waiting_sink: sink,
            paced: false,
        });
        // What came is there, or was asked for once, and it waits for something else: its own clock.
        let paced = match self.route {
            Route::NetworkToDisks => polls * unread,
            _ => idle * self.of_connections(|one| f64::from(one.sends_unasked)).unwrap_or(0.0),
        };
        let program = ProgramEvidence {
            waiting_cpu: shares.of(A::Runnable),
            sleeping: shares.of(A::Timer) + paced,
            idle: if self.route == Route::NetworkToDisks { idle } else { idle - paced },
            pipe_empty: shares.of(A::PipeRead),
            pipe_full: shares.of(A::PipeWrite),
            pipe_peer: self.observed.pipe_peer.clone(),
        };
        (workers, program)
    }

    /// Its threads wait for each other so that one works at a time, as an interpreter's lock has it: share of the time in
    /// which one does. None: they do not.
    pub(crate) fn turns(&self) -> Option<f64> {
        let (threads, read) = (&self.observed.threads, self.observed.threads_read);
        let work = mean_threads(self.observed, &[Activity::Running]);
        let wait = threads.iter().filter(|one| one.shares.of(Activity::Lock) >= WAITS_FOR_DATA).count();
        let always = read.running_rounds as f64 >= THREAD_FULL * read.rounds as f64;
        // Threads that work at any time would at times do so together.
        let one_at_a_time = (THREAD_FULL..=1.0 / THREAD_FULL).contains(&work);
        (one_at_a_time && always && wait >= 2).then_some(work.min(1.0))
    }

    /// Shares of the time in waits for the source, for the sink, and for the next request.
    fn waits_by_side(&self, shares: &ActivityShares, polls: f64, unread: f64) -> (f64, f64, f64) {
        use Activity as A;
        let disk = shares.of_all(&[A::Disk, A::PageFault]);
        let unsent = self.of_connections(|one| one.busy).unwrap_or(0.0);
        let ring = shares.of(A::Ring);
        let disks_work = self.disks.iter().any(|disk| disk.queue_depth.is_some_and(|depth| depth >= 0.5));
        // What a control group holds back is not in a disk's queue: then it waits for a read where nothing is unsent.
        let reads_disks = self.rates.storage_read >= MOSTLY_READ * self.rates.sent.max(NOTHING);
        let ring_disk = match (disks_work, reads_disks) {
            (true, _) => ring,
            (false, true) => ring * (1.0 - unsent),
            (false, false) => 0.0,
        };
        let ring_network = ring - ring_disk;
        match self.route {
            Route::NetworkToDisks => {
                let waits = shares.of(A::Receive) + polls + ring_network;
                (waits * (1.0 - unread).max(0.0), disk + ring_disk, 0.0)
            }
            Route::DisksToNetwork | Route::Network => (
                disk + ring_disk,
                shares.of(A::Send) + (polls + ring_network) * unsent,
                shares.of(A::Receive) + (polls + ring_network) * (1.0 - unsent),
            ),
            _ => (disk + ring, shares.of(A::Send), shares.of_all(&[A::Receive, A::Poll])),
        }
    }

    fn links(&self) -> Vec<LinkEvidence> {
        let is_own = |name: &String| self.devices.interfaces.contains(name);
        let sends = self.route != Route::NetworkToDisks;
        let own = self.observed.host.links.iter().filter(|link| is_own(&link.name) && link.sends == sends);
        own.map(LinkEvidence::from).collect()
    }

    /// Of what it sends: what limits a flow that comes in, the other host's kernel counts.
    fn tcp(&self) -> TcpEvidence {
        let connections = u32::try_from(self.moving().count()).unwrap_or(u32::MAX);
        let known = |time: Option<f64>| time.filter(|seconds| *seconds > 0.0);
        let round_trip_seconds = known(self.of_connections(|one| one.round_trip_seconds));
        let least =
            known(self.of_connections(|one| one.least_round_trip_seconds.unwrap_or(one.round_trip_seconds)));
        let sends =
            matches!(self.route, Route::DisksToNetwork | Route::Network) && self.rates.sent >= NOTHING;
        if !sends {
            return TcpEvidence { connections, ..TcpEvidence::default() };
        }
        let seconds = self.observed.seconds.max(1e-3);
        let again: f64 = self.moving().map(|one| f64::from(one.retransmits)).sum();
        let segment = self.of_connections(|one| f64::from(one.segment_bytes)).filter(|bytes| *bytes > 0.0);
        TcpEvidence {
            retransmits_per_second: Some(again / seconds),
            retransmit_share: segment.map(|bytes| again * bytes / (self.rates.sent * seconds)),
            // Without data to send no window limits it.
            receive_window_share: self.of_connections(|one| one.receive_window_limited * one.busy),
            send_buffer_share: self.of_connections(|one| one.send_buffer_limited * one.busy),
            round_trip_seconds,
            least_round_trip_seconds: least,
            segment_bytes: segment,
            connections,
            ..TcpEvidence::default()
        }
    }
}

/// The threads that move the bytes: those that wait for data, or work; where none does, the one that runs most.
fn workers(threads: &[ThreadUse]) -> Vec<&ThreadUse> {
    use Activity as A;
    let data = |one: &ThreadUse| {
        let waits = [A::Disk, A::PageFault, A::Send, A::Receive, A::PipeRead, A::PipeWrite, A::Ring];
        one.shares.of_all(&waits)
    };
    let runs = |one: &ThreadUse| one.shares.of_all(&[A::Running, A::Runnable]);
    if threads.iter().any(|one| data(one) >= WAITS_FOR_DATA) {
        return threads.iter().filter(|one| data(one) >= HAS_A_PART || runs(one) >= WAITS_FOR_DATA).collect();
    }
    // Of a pool most do next to nothing.
    let most = threads.iter().map(runs).fold(0.0, f64::max);
    let least = RUNS.max(WAITS_FOR_DATA * most);
    let running: Vec<&ThreadUse> = threads.iter().filter(|one| runs(one) >= least).collect();
    if !running.is_empty() {
        return running;
    }
    threads.iter().max_by(|a, b| runs(a).total_cmp(&runs(b))).into_iter().collect()
}

/// Those that moved; where none did, but bytes were read or written (`pread`), all that are open.
pub(crate) fn files_used(observed: &Observation) -> impl Iterator<Item = &FileUse> {
    let moved = observed.files.iter().any(|file| file.bytes_per_second > 0.0);
    let rates = ProgramRates::of(observed);
    let uses = rates.files_read.max(rates.files_written) >= NOTHING;
    let writes = rates.files_written > rates.files_read;
    let is_used =
        move |file: &&FileUse| if moved { file.bytes_per_second > 0.0 } else { file.writes == writes };
    observed.files.iter().filter(move |file| uses && is_used(file))
}

/// Below the files that moved, or all that are open where none did, and those that are mapped.
fn disks_of_files(
    sysroot: &Sysroot,
    machine: &Machine,
    observed: &Observation,
) -> BTreeMap<PathBuf, BTreeSet<String>> {
    let used = files_used(observed);
    let faults =
        observed.total.major_faults > 0.0 || shares_of(&observed.threads, Activity::PageFault) >= HAS_A_PART;
    let mapped = observed.mapped.iter().filter(|_| faults).map(|file| &file.path);
    let paths: BTreeSet<&PathBuf> = used.map(|file| &file.path).chain(mapped).take(MOST_FILES).collect();
    let of = |path: &PathBuf| (path.clone(), disks_below(sysroot, machine, std::slice::from_ref(path)));
    paths.into_iter().map(of).collect()
}

/// Threads that wait for a disk, on the average at a time.
pub(crate) fn waiting_for_disk(observed: &Observation) -> f64 {
    mean_threads(observed, &[Activity::Disk, Activity::PageFault])
}

/// Threads that do one of these, on the average at a time.
pub(crate) fn mean_threads(observed: &Observation, activities: &[Activity]) -> f64 {
    let of = |one: &ThreadUse| one.shares.of_all(activities) * one.seconds / observed.seconds.max(1e-3);
    observed.threads.iter().map(of).fold(0.0, |sum, one| sum + one)
}

/// What waits is at the disk that moves most; of several that are as busy nothing is known of each.
fn with_asked_depth(mut disks: Vec<DiskEvidence>, asked: f64) -> Vec<DiskEvidence> {
    if let [disk] = &mut disks[..] {
        disk.asked_depth = (asked > 0.0).then_some(asked);
    }
    disks
}

/// All disks of the host, with what others had of each. Of a program that has ended the last bytes are not known.
pub(crate) fn disks_used(observed: &Observation, rates: &ProgramRates) -> Vec<DiskEvidence> {
    let own = observed.total.storage_read.filter(|_| !observed.ended);
    let own = own.map(|_| rates.storage_read + rates.storage_written);
    observed.host.disks.iter().map(|disk| disk_evidence(disk, own)).collect()
}

/// `own`: what the storage moved for the program.
fn disk_evidence(disk: &DeviceUse, own: Option<f64>) -> DiskEvidence {
    let bytes_per_second = disk.bytes_per_second();
    DiskEvidence {
        name: disk.name.clone(),
        bytes_per_second,
        busy: Some(disk.utilisation),
        queue_depth: Some(disk.queue_depth),
        latency_seconds: disk.latency_seconds(),
        others_bytes_per_second: own.map(|own| (bytes_per_second - own).max(0.0)),
        ..DiskEvidence::default()
    }
}

/// Disks below a volume, with all that is between.
fn members_of(machine: &Machine, volume: &str, disks: &[DiskEvidence]) -> Vec<DiskEvidence> {
    let (mut pending, mut met) = (vec![volume.to_string()], BTreeSet::new());
    while let Some(name) = pending.pop() {
        if let Some(disk) = machine.disk(&name).filter(|_| met.insert(name.clone())) {
            pending.extend(disk.members.iter().cloned());
        }
    }
    let used =
        |disk: &&DiskEvidence| met.contains(&disk.name) && disk.busy.is_some_and(|busy| busy >= DISK_UNUSED);
    disks.iter().filter(used).cloned().collect()
}
