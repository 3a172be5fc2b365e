//! The storage bytes and the CPU time of processes: a table of all, of which each reading asks as many as its own CPU
//! time allows.

use super::CpuAllowance;
use crate::model::{LEAST_CPUS, ProcessRates};
use linerate_facts::counters::ProcessReading;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Processes asked in one reading at least.
const LEAST_ASKED: usize = 8;
/// One of so many is asked because nobody asked it for the longest time: those that move bytes do not keep the
/// others from being found.
const IN_TURN: usize = 4;
/// To list thousands of processes takes milliseconds: it takes 1/800 of a core at most, half of what a source may.
const LISTING: u32 = 800;

/// All processes.
#[derive(Debug, Default)]
pub(super) struct StorageTable {
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
    /// None where it has ended, or what is there is no process.
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
    pub(super) fn read(&mut self, sysroot: &Sysroot, owners: &BTreeSet<u32>, allowance: CpuAllowance) {
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

    pub(super) fn list(&mut self, sysroot: &Sysroot) {
        let mut before = std::mem::take(&mut self.seen);
        let there = sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        self.seen = there.map(|pid| (pid, before.remove(&pid).flatten())).collect();
    }

    /// One that has ended since it was listed is gone.
    pub(super) fn ask(&mut self, sysroot: &Sysroot, pid: u32) {
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
    pub(super) fn active(&self) -> impl Iterator<Item = ProcessRates> {
        let known = self.seen.iter().filter_map(|(pid, asked)| Some((*pid, asked.as_ref()?)));
        known.filter(|(_, asked)| asked.is_active()).map(|(pid, asked)| asked.shown(pid))
    }

    /// Who it is, with what it moves.
    pub(super) fn name_of(&self, pid: u32) -> Option<ProcessRates> {
        Some(self.seen.get(&pid)?.as_ref()?.shown(pid))
    }

    /// The young hold what their parents have opened for them.
    pub(super) fn youngest_first(&self) -> Vec<u32> {
        let mut all: Vec<(u64, u32)> =
            self.seen.keys().map(|pid| (self.started_ticks(*pid).unwrap_or(u64::MAX), *pid)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(_, pid)| pid).collect()
    }

    /// When it began, where it has been asked.
    pub(super) fn started_ticks(&self, pid: u32) -> Option<u64> {
        Some(self.seen.get(&pid)?.as_ref()?.reading.identity.started_ticks)
    }

    pub(super) fn lists(&self, pid: u32) -> bool {
        self.seen.contains_key(&pid)
    }

    pub(super) fn count(&self) -> u64 {
        self.seen.len() as u64
    }

    /// No process that was asked has counters: the kernel keeps none.
    pub(super) fn is_uncounted(&self) -> bool {
        let mut asked = self.seen.values().flatten().peekable();
        asked.peek().is_some() && asked.all(|asked| asked.reading.uncounted)
    }

    /// As far as they have been asked.
    pub(super) fn unreadable(&self) -> u64 {
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
pub(super) fn started_ticks_now(sysroot: &Sysroot, pid: u32) -> Option<u64> {
    Some(ProcessReading::without_io(sysroot, pid)?.identity.started_ticks)
}
