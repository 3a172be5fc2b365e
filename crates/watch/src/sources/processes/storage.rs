//! The storage bytes of processes: a table of all, of which each reading asks a bounded number.

use crate::model::ProcessRates;
use linerate_facts::counters::rates::{Elapsed, Width, rounded};
use linerate_facts::counters::{ProcessIdentity, ProcessIo, parse_process_io, parse_process_stat};
use linerate_facts::sysroot::{Sysroot, UnreadReason};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// Processes asked in one reading: some microseconds each.
const MOST_ASKED: usize = 256;
/// Of those, the ones that are asked because nobody asked them for the longest time: those that move bytes
/// do not keep the others from being found.
const IN_TURN: usize = 64;

/// All processes.
#[derive(Debug, Default)]
pub(super) struct StorageTable {
    seen: BTreeMap<u32, Option<ProcessReading>>,
}

/// What the last reading of a process said.
#[derive(Debug)]
struct ProcessReading {
    identity: ProcessIdentity,
    at: Instant,
    io: Option<ProcessIo>,
    forbidden: bool,
    /// Read and written per second since the reading before; none after the first.
    rates: Option<[f64; 2]>,
}

impl ProcessReading {
    fn moves(&self) -> bool {
        self.rates.is_some_and(|rates| rates.iter().any(|rate| *rate > 0.0))
    }

    fn shown(&self, pid: u32) -> ProcessRates {
        ProcessRates {
            pid,
            name: self.identity.name.clone(),
            started_ticks: self.identity.started_ticks,
            read_bytes_per_second: self.rates.map(|[read, _]| read),
            written_bytes_per_second: self.rates.map(|[_, written]| written),
            ..ProcessRates::default()
        }
    }
}

impl StorageTable {
    /// Looks who is there, and asks some of them.
    pub(super) fn read(&mut self, sysroot: &Sysroot) {
        let mut before = std::mem::take(&mut self.seen);
        let there = sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        self.seen = there.map(|pid| (pid, before.remove(&pid).flatten())).collect();
        for pid in self.due() {
            let before = self.seen.remove(&pid).flatten();
            // One that has ended since it was listed is gone.
            if let Some(seen) = one(sysroot, pid, before) {
                self.seen.insert(pid, Some(seen));
            }
        }
    }

    /// Who is asked now: what moves first, then what has no rate yet, then the longest unasked.
    fn due(&self) -> Vec<u32> {
        let urgency = |seen: &Option<ProcessReading>| match seen {
            Some(seen) if seen.forbidden => (3, Some(seen.at)),
            Some(seen) if seen.moves() => (0, Some(seen.at)),
            Some(seen) if seen.rates.is_none() => (1, Some(seen.at)),
            None => (1, None),
            Some(seen) => (2, Some(seen.at)),
        };
        let mut all: Vec<_> = self.seen.iter().map(|(pid, seen)| (urgency(seen), *pid)).collect();
        all.sort_unstable();
        let mut rest = all.split_off(all.len().min(MOST_ASKED - IN_TURN));
        rest.sort_unstable_by_key(|((_, at), pid)| (*at, *pid));
        all.into_iter().chain(rest.into_iter().take(IN_TURN)).map(|(_, pid)| pid).collect()
    }

    /// Those that moved bytes between their last two readings.
    pub(super) fn moving(&self) -> impl Iterator<Item = ProcessRates> {
        let known = self.seen.iter().filter_map(|(pid, seen)| Some((*pid, seen.as_ref()?)));
        known.filter(|(_, seen)| seen.moves()).map(|(pid, seen)| seen.shown(pid))
    }

    /// Who it is, with what it moves.
    pub(super) fn name_of(&self, pid: u32) -> Option<ProcessRates> {
        Some(self.seen.get(&pid)?.as_ref()?.shown(pid))
    }

    /// The young hold what their parents have opened for them.
    pub(super) fn youngest_first(&self) -> Vec<u32> {
        let started = |seen: &Option<ProcessReading>| {
            seen.as_ref().map_or(u64::MAX, |seen| seen.identity.started_ticks)
        };
        let mut all: Vec<(u64, u32)> = self.seen.iter().map(|(pid, seen)| (started(seen), *pid)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(_, pid)| pid).collect()
    }

    pub(super) fn lists(&self, pid: u32) -> bool {
        self.seen.contains_key(&pid)
    }

    pub(super) fn count(&self) -> u64 {
        self.seen.len() as u64
    }

    /// As far as they have been asked.
    pub(super) fn unreadable(&self) -> u64 {
        self.seen.values().flatten().filter(|seen| seen.forbidden).count() as u64
    }
}

/// None where it has ended, or what is there is no process.
fn one(sysroot: &Sysroot, pid: u32, before: Option<ProcessReading>) -> Option<ProcessReading> {
    let file = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let identity = parse_process_stat(&sysroot.text(file("stat")).ok()?)?;
    let at = Instant::now();
    let (io, forbidden) = match sysroot.text(file("io")) {
        Ok(text) => (parse_process_io(&text), false),
        Err(why) => (None, why.reason == UnreadReason::NotPermitted),
    };
    // Another process of the same number has no rate yet.
    let same = before.filter(|before| before.identity.started_ticks == identity.started_ticks);
    let rates = same.and_then(|before| rates(&before, at, io?));
    Some(ProcessReading { identity, at, io, forbidden, rates })
}

fn rates(before: &ProcessReading, at: Instant, now: ProcessIo) -> Option<[f64; 2]> {
    let (then, span) = (before.io?, Elapsed::between(before.at, at)?);
    let rate = |before: u64, now: u64| {
        let counted = span.counted(before, now, Width::Bits64)?;
        Some(rounded(counted as f64 / span.seconds()))
    };
    Some([rate(then.read_bytes, now.read_bytes)?, rate(then.written_bytes, now.written_bytes)?])
}
