//! Which process moves how much, and uses the CPUs. The work of one reading is bounded, so that it comes each
//! second: of thousands of processes those that moved something lately are read each time, the others in turn.
//!
//! Their storage bytes and CPU time are a table of all, of which each reading asks as many as its own CPU time allows.

mod connections;
#[cfg(test)]
mod tests;

use crate::model::{BUSIEST_BY_CPU, LEAST_CPUS, ProcessRates, Processes};
use connections::{Connections, Traffic};
use linerate_facts::counters::ProcessReading;
use linerate_facts::counters::rates::rounded;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A view shows fewer; a recording keeps them all.
const MOST_SHOWN: usize = 64;
/// CPU time of a reading: a little less than what a source that is asked each second may take (`pace`).
const READING: Duration = Duration::from_micros(2200);
/// Of that, until when processes are asked; the rest is for the owners of sockets.
const ASKING: Duration = Duration::from_micros(1500);
/// The first readings take more, so that all processes are known and have rates after some seconds: thousands take
/// some ten milliseconds.
pub(crate) const FIRST_READINGS: u32 = 2;
const FIRST: Duration = Duration::from_millis(50);
const NO_UDP: &str = "the kernel counts no bytes of a UDP socket";
const NOT_LIVE: &str = "a recorded machine has no connections";

/// Some ten microseconds each: more than fit into the time of a reading.
const MOST_ASKED: usize = 256;

/// Processes asked in one reading at least.
const LEAST_ASKED: usize = 8;
/// One of so many is asked because nobody asked it for the longest time: those that move bytes do not keep the
/// others from being found.
const IN_TURN: usize = 4;
/// To list thousands of processes takes milliseconds: it takes 1/800 of a core at most, half of what a source may.
const LISTING: u32 = 800;

/// A reading has the rates since the reading before.
pub(crate) fn processes(sysroot: &Sysroot) -> impl FnMut() -> Processes + Send + 'static {
    let sysroot = sysroot.clone();
    let (mut storage, mut connections) = (StorageTable::default(), Connections::default());
    let mut readings: u32 = 0;
    move || {
        let live = sysroot.is_live();
        readings = readings.saturating_add(1);
        let (asking, reading) = match live {
            false => (CpuAllowance::unlimited(), CpuAllowance::unlimited()),
            true if readings <= FIRST_READINGS => (CpuAllowance::of_all(FIRST), CpuAllowance::of(FIRST)),
            true => (CpuAllowance::of(ASKING), CpuAllowance::of(READING)),
        };
        storage.read(&sysroot, &connections.owners(), asking);
        let traffic = match live {
            true => connections.read(&sysroot, &storage, reading),
            false => Traffic { looked_at: Fact::unknown(NOT_LIVE), ..Traffic::default() },
        };
        for pid in traffic.by_process.keys() {
            if storage.name_of(*pid).is_none() {
                storage.ask(&sysroot, *pid);
            }
        }
        // Every PID namespace has a first process.
        let others_are_hidden = live && storage.count() > 0 && !storage.lists(1);
        let asked_by_root = live && linerate_system::user::is_root();
        Processes { others_are_hidden, asked_by_root, ..together(&storage, traffic) }
    }
}

fn together(storage: &StorageTable, traffic: Traffic) -> Processes {
    let mut rates: BTreeMap<u32, ProcessRates> = storage.active().map(|one| (one.pid, one)).collect();
    for (pid, [sent, received]) in traffic.by_process {
        let Some(known) = storage.name_of(pid) else { continue };
        let one = rates.entry(pid).or_insert(known);
        one.tcp_send_bytes_per_second = Some(rounded(sent));
        one.tcp_receive_bytes_per_second = Some(rounded(received));
    }
    let mut busiest: Vec<ProcessRates> = rates.into_values().collect();
    let left_out = leave_out(&mut busiest);
    Processes {
        busiest,
        left_out,
        count: Some(storage.count()),
        unreadable: storage.unreadable(),
        uncounted: storage.is_uncounted(),
        others_are_hidden: false,
        asked_by_root: false,
        connections: traffic.looked_at,
        unowned_send_bytes_per_second: traffic.unowned.map(|[sent, _]| rounded(sent)),
        unowned_receive_bytes_per_second: traffic.unowned.map(|[_, received]| rounded(received)),
        udp_bytes_per_second: Fact::unknown(NO_UDP),
    }
}

/// Sorts them, those that move most first, and keeps as many as are shown: the last places are for those with most CPU
/// time. How many others moved bytes.
fn leave_out(busiest: &mut Vec<ProcessRates>) -> u64 {
    let cpus = |one: &ProcessRates| one.cpus.unwrap_or(0.0);
    let by_bytes = |a: &ProcessRates, b: &ProcessRates| {
        b.bytes_per_second().total_cmp(&a.bytes_per_second()).then(cpus(b).total_cmp(&cpus(a)))
    };
    busiest.sort_by(by_bytes);
    let mut rest = busiest.split_off(busiest.len().min(MOST_SHOWN - BUSIEST_BY_CPU));
    rest.sort_by(|a, b| cpus(b).total_cmp(&cpus(a)));
    let left_out = rest.split_off(rest.len().min(BUSIEST_BY_CPU));
    busiest.append(&mut rest);
    busiest.sort_by(by_bytes);
    left_out.iter().filter(|one| one.bytes_per_second() > 0.0).count() as u64
}

/// CPU time of the calling thread, which reads.
#[derive(Clone, Copy, Debug)]
struct CpuAllowance {
    /// None: as much as it takes.
    until: Option<Duration>,
    /// Processes that are asked at most.
    processes: usize,
}

impl CpuAllowance {
    /// So much from now on.
    fn of(most: Duration) -> Self {
        CpuAllowance { until: Some(thread_cpu() + most), processes: MOST_ASKED }
    }

    /// So much from now on, for as many processes as it does for.
    fn of_all(most: Duration) -> Self {
        CpuAllowance { processes: usize::MAX, ..CpuAllowance::of(most) }
    }

    /// A recorded machine stands still.
    fn unlimited() -> Self {
        CpuAllowance { until: None, processes: MOST_ASKED }
    }

    fn is_limited(self) -> bool {
        self.until.is_some()
    }

    fn is_spent(self) -> bool {
        self.until.is_some_and(|until| thread_cpu() >= until)
    }
}

/// All processes.
#[derive(Debug, Default)]
struct StorageTable {
    seen: BTreeMap<u32, Option<AskedProcess>>,
    listing_due: Option<Instant>,
}

/// The last reading of a process, and its rates since the reading before; none after the first.
#[derive(Debug)]
struct AskedProcess {
    reading: ProcessReading,
    /// Read and written per second.
    rates: Option<[f64; 2]>,
    cpus: Option<f64>,
}

impl AskedProcess {
    /// None where it has ended, or what is there is not a process.
    fn ask(sysroot: &Sysroot, pid: u32, before: Option<AskedProcess>) -> Option<Self> {
        let reading = ProcessReading::read(sysroot, pid)?;
        // Another process of the same number has no rate yet.
        let before = before.as_ref().map(|before| &before.reading);
        let rates = before.and_then(|before| reading.storage_rates_since(before));
        let cpus = before.and_then(|before| reading.cpus_since(before));
        Some(AskedProcess { reading, rates, cpus })
    }

    fn moves(&self) -> bool {
        self.rates.is_some_and(|rates| rates.iter().any(|rate| *rate > 0.0))
    }

    fn is_active(&self) -> bool {
        self.moves() || self.cpus.is_some_and(|cpus| cpus >= LEAST_CPUS)
    }

    fn shown(&self, pid: u32) -> ProcessRates {
        ProcessRates {
            pid,
            name: self.reading.identity.name.clone(),
            started_ticks: self.reading.identity.started_ticks,
            read_bytes_per_second: self.rates.map(|[read, _]| read),
            written_bytes_per_second: self.rates.map(|[_, written]| written),
            cpus: self.cpus,
            ..ProcessRates::default()
        }
    }
}

impl StorageTable {
    /// Looks who is there, and asks some of them; those that hold sockets that move bytes first.
    fn read(&mut self, sysroot: &Sysroot, owners: &BTreeSet<u32>, allowance: CpuAllowance) {
        let now = clock::now();
        if !allowance.is_limited() || self.listing_due.is_none_or(|due| now >= due) {
            let before = thread_cpu();
            self.list(sysroot);
            self.listing_due = Some(now + (thread_cpu().saturating_sub(before)) * LISTING);
        }
        for (asked, pid) in self.due(owners, allowance.processes).into_iter().enumerate() {
            if asked >= LEAST_ASKED && allowance.is_spent() {
                break;
            }
            self.ask(sysroot, pid);
        }
    }

    fn list(&mut self, sysroot: &Sysroot) {
        let mut before = std::mem::take(&mut self.seen);
        let there = sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        self.seen = there.map(|pid| (pid, before.remove(&pid).flatten())).collect();
    }

    /// One that has ended since it was listed is gone.
    fn ask(&mut self, sysroot: &Sysroot, pid: u32) {
        let before = self.seen.remove(&pid).flatten();
        if let Some(asked) = AskedProcess::ask(sysroot, pid, before) {
            self.seen.insert(pid, Some(asked));
        }
    }

    /// Who is asked now: what moves or computes first, then what has no rate yet, then the longest unasked; in between one of
    /// those that nobody asked for longest.
    fn due(&self, owners: &BTreeSet<u32>, most: usize) -> Vec<u32> {
        let urgency = |pid: &u32, asked: &Option<AskedProcess>| match asked {
            Some(asked) if asked.is_active() || owners.contains(pid) => (0, Some(asked.reading.at)),
            Some(asked) if asked.reading.forbidden => (3, Some(asked.reading.at)),
            Some(asked) if asked.rates.is_none() => (1, Some(asked.reading.at)),
            None => (1, None),
            Some(asked) => (2, Some(asked.reading.at)),
        };
        let age = |asked: &Option<AskedProcess>| asked.as_ref().map(|asked| asked.reading.at);
        let by_urgency = self.seen.iter().map(|(pid, seen)| (urgency(pid, seen), *pid));
        let by_age = self.seen.iter().map(|(pid, seen)| (age(seen), *pid));
        let (mut by_urgency, mut by_age) = (first(by_urgency, most), first(by_age, most));
        let (mut due, mut chosen) = (Vec::new(), BTreeSet::new());
        while due.len() < self.seen.len().min(most) {
            let in_turn = due.len() % IN_TURN == IN_TURN - 1;
            let is_new = |pid: &u32| !chosen.contains(pid);
            let next = if in_turn { by_age.find(is_new) } else { by_urgency.find(is_new) };
            let Some(pid) = next else { break };
            chosen.insert(pid);
            due.push(pid);
        }
        due
    }

    /// Those that moved bytes between their last two readings, or used the CPU.
    fn active(&self) -> impl Iterator<Item = ProcessRates> {
        let known = self.seen.iter().filter_map(|(pid, asked)| Some((*pid, asked.as_ref()?)));
        known.filter(|(_, asked)| asked.is_active()).map(|(pid, asked)| asked.shown(pid))
    }

    /// Who it is, with what it moves.
    fn name_of(&self, pid: u32) -> Option<ProcessRates> {
        Some(self.seen.get(&pid)?.as_ref()?.shown(pid))
    }

    /// The young hold what their parents have opened for them.
    fn youngest_first(&self) -> Vec<u32> {
        let mut all: Vec<(u64, u32)> =
            self.seen.keys().map(|pid| (self.started_ticks(*pid).unwrap_or(u64::MAX), *pid)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(_, pid)| pid).collect()
    }

    /// When it began, where it has been asked.
    fn started_ticks(&self, pid: u32) -> Option<u64> {
        Some(self.seen.get(&pid)?.as_ref()?.reading.identity.started_ticks)
    }

    fn lists(&self, pid: u32) -> bool {
        self.seen.contains_key(&pid)
    }

    fn count(&self) -> u64 {
        self.seen.len() as u64
    }

    /// No process that was asked has counters: the kernel keeps none.
    fn is_uncounted(&self) -> bool {
        let mut asked = self.seen.values().flatten().peekable();
        asked.peek().is_some() && asked.all(|asked| asked.reading.uncounted)
    }

    /// As far as they have been asked.
    fn unreadable(&self) -> u64 {
        self.seen.values().flatten().filter(|asked| asked.reading.forbidden).count() as u64
    }
}

/// So many of them, in order; of those that are alike the highest numbers, which are mostly the youngest.
fn first<K: Ord>(all: impl Iterator<Item = (K, u32)>, most: usize) -> impl Iterator<Item = u32> {
    let mut all: Vec<(K, Reverse<u32>)> = all.map(|(key, pid)| (key, Reverse(pid))).collect();
    if most < all.len() {
        all.select_nth_unstable(most);
        all.truncate(most);
    }
    all.sort_unstable();
    all.into_iter().map(|(_, Reverse(pid))| pid)
}

/// When the process of this number began; none where it has ended.
fn started_ticks_now(sysroot: &Sysroot, pid: u32) -> Option<u64> {
    Some(ProcessReading::without_io(sysroot, pid)?.identity.started_ticks)
}
