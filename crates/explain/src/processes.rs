//! The processes of a program: those that the user meant, and all that they start. What they moved since the begin,
//! also where some of them end meanwhile.

use crate::pace::LookPace;
use linerate_facts::counters::{ProcessCalls, ProcessIo, ProcessReading};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// More are no longer followed one by one.
const MOST_PROCESSES: usize = 4096;
const TICKS_PER_SECOND: f64 = 100.0;

/// A program's processes.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    all: BTreeMap<u32, TrackedProcess>,
    /// Every process that was looked at, once.
    known: BTreeSet<u32>,
    begin: Instant,
    pace: LookPace,
    /// When one of them last ran, or could have.
    last_alive: Instant,
}

#[derive(Debug)]
struct TrackedProcess {
    /// When the program was first looked at; none where it began later.
    first: Option<ProcessReading>,
    last: ProcessReading,
    ended: bool,
}

/// What one process did, or all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExplainedProcess {
    pub pid: u32,
    pub name: String,
    /// CPU time ÷ time, and how much of that in its own code.
    pub cpus: f64,
    pub user_cpus: f64,
    /// What the storage read and wrote for it, bytes per second; none where that may not be read.
    pub storage_read: Option<f64>,
    pub storage_written: Option<f64>,
    /// What its system calls read and wrote, of files, pipes and, in part, sockets: bytes per second, calls per second.
    pub called_read: Option<f64>,
    pub called_written: Option<f64>,
    pub reads_per_second: Option<f64>,
    pub writes_per_second: Option<f64>,
    /// Page faults per second that waited for the storage.
    pub major_faults: f64,
}

/// Where a program's bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowCount {
    /// What its connections acknowledged, or received.
    Sent,
    Received,
    /// What its system calls read, or wrote.
    CallsRead,
    CallsWritten,
    /// What the storage read for it.
    Storage,
}

impl FlowCount {
    pub(crate) fn is_of_connections(self) -> bool {
        matches!(self, FlowCount::Sent | FlowCount::Received)
    }
}

/// Counters as signed sums: what a child had when it was waited for is its parent's from then on.
#[derive(Clone, Copy, Debug, Default)]
struct CounterSums {
    ticks: i128,
    user_ticks: i128,
    io: Option<[i128; 2]>,
    calls: Option<[i128; 4]>,
    major_faults: i128,
}

impl ProcessTree {
    /// Of these processes, with all that descend from them.
    pub(crate) fn begin(sysroot: &Sysroot, roots: &[u32]) -> Self {
        let begin = clock::now();
        // A shell that is explained may be the one that started linerate.
        let own = sysroot.is_live().then(std::process::id);
        let known = own.into_iter().filter(|own| !roots.contains(own)).collect();
        let mut processes =
            ProcessTree { all: BTreeMap::new(), known, begin, pace: LookPace::default(), last_alive: begin };
        let readings = processes.new_processes(sysroot);
        for pid in roots {
            processes.add(sysroot, *pid, true);
        }
        processes.adopt(sysroot, &readings, true);
        processes
    }

    /// Looks again where it is time to: who has ended, who is new, what they have moved.
    pub(crate) fn look(&mut self, sysroot: &Sysroot, is_last: bool) {
        let Some(look) = self.pace.begin(is_last) else { return };
        for (pid, process) in self.all.iter_mut().filter(|(_, process)| !process.ended) {
            match ProcessReading::read(sysroot, *pid) {
                Some(now) if is_same(&now, &process.last) && now.identity.state != 'Z' => process.last = now,
                // A zombie has its last counters still, but those of the storage may be gone.
                Some(now) if is_same(&now, &process.last) => {
                    process.last.identity = now.identity;
                    process.ended = true;
                }
                _ => process.ended = true,
            }
        }
        let readings = self.new_processes(sysroot);
        self.adopt(sysroot, &readings, false);
        if self.all.values().any(|process| !process.ended) {
            self.last_alive = look.at;
        }
        self.pace.end(look);
    }

    /// Those that were not looked at before, with their parents.
    fn new_processes(&mut self, sysroot: &Sysroot) -> Vec<(u32, u32)> {
        let listed = sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let new: Vec<u32> = listed.filter(|pid| self.known.insert(*pid)).collect();
        let parent = |pid: u32| Some((pid, ProcessReading::without_io(sysroot, pid)?.identity.parent));
        new.into_iter().filter_map(parent).collect()
    }

    /// Takes those whose parents are processes; a child may be listed before its parent.
    fn adopt(&mut self, sysroot: &Sysroot, readings: &[(u32, u32)], at_begin: bool) {
        loop {
            let children: Vec<u32> = readings
                .iter()
                .filter(|(pid, parent)| self.all.contains_key(parent) && !self.all.contains_key(pid))
                .map(|(pid, _)| *pid)
                .collect();
            let before = self.all.len();
            children.iter().for_each(|pid| self.add(sysroot, *pid, at_begin));
            if self.all.len() == before {
                return;
            }
        }
    }

    fn add(&mut self, sysroot: &Sysroot, pid: u32, at_begin: bool) {
        if self.all.len() >= MOST_PROCESSES {
            return;
        }
        let Some(reading) = ProcessReading::read(sysroot, pid) else { return };
        let first = at_begin.then(|| reading.clone());
        self.all.insert(pid, TrackedProcess { first, last: reading, ended: false });
    }

    /// Those that are there.
    pub(crate) fn living(&self) -> Vec<u32> {
        self.all.iter().filter(|(_, process)| !process.ended).map(|(pid, _)| *pid).collect()
    }

    /// All that were.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.all.contains_key(&pid)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.all.len() >= MOST_PROCESSES
    }

    /// Its name; empty for another's.
    pub(crate) fn name_of(&self, pid: u32) -> &str {
        self.all.get(&pid).map_or("", |process| process.last.identity.name.as_str())
    }

    /// Their storage counters are for others to read.
    pub(crate) fn are_forbidden(&self) -> bool {
        self.all.values().any(|process| process.last.forbidden)
    }

    /// What each did until the last look; those that did nothing are left out.
    pub(crate) fn rates(&self, seconds: f64) -> Vec<ExplainedProcess> {
        let of = |(pid, process): (&u32, &TrackedProcess)| {
            let reaped = self
                .reaped_by(*pid)
                .fold(CounterSums::default(), |sum, child| sum.plus(&child.since_begin()));
            let rates = process.since_begin().minus(&reaped).rates(seconds);
            ExplainedProcess { pid: *pid, name: process.last.identity.name.clone(), ..rates }
        };
        let mut all: Vec<ExplainedProcess> = self.all.iter().map(of).collect();
        let moved = |one: &ExplainedProcess| {
            let known = [one.storage_read, one.storage_written, one.called_read, one.called_written];
            known.into_iter().flatten().sum::<f64>()
        };
        all.sort_by(|a, b| moved(b).total_cmp(&moved(a)).then(b.cpus.total_cmp(&a.cpus)));
        all
    }

    /// What all of them did together. A child that was waited for is in its parent's counters, and its own begin with
    /// what it had before.
    pub(crate) fn total(&self, seconds: f64) -> ExplainedProcess {
        self.sum().rates(seconds)
    }

    /// Bytes that all of them moved since the begin; none where that may not be read.
    pub(crate) fn moved(&self, count: FlowCount) -> Option<u64> {
        let sum = self.sum();
        let bytes = match count {
            FlowCount::Storage => sum.io?[0],
            FlowCount::CallsWritten => sum.calls?[1],
            _ => sum.calls?[0],
        };
        u64::try_from(bytes.max(0)).ok()
    }

    fn sum(&self) -> CounterSums {
        let mut sum = CounterSums::default();
        for process in self.all.values() {
            sum = match (process.ended && self.has_living_ancestor(process), &process.first) {
                (true, Some(first)) => sum.minus(&CounterSums::of(first)),
                (true, None) => sum,
                (false, _) => sum.plus(&process.since_begin()),
            };
        }
        sum
    }

    /// One above it is there, and has waited for those between that have ended.
    fn has_living_ancestor(&self, process: &TrackedProcess) -> bool {
        let parent = |of: &&TrackedProcess| self.all.get(&of.last.identity.parent);
        let above = std::iter::successors(parent(&process), |of| parent(of).filter(|_| of.ended));
        // A longer chain would be a circle, of readings at different moments.
        above.take(64).any(|one| !one.ended)
    }

    fn reaped_by(&self, pid: u32) -> impl Iterator<Item = &TrackedProcess> {
        self.all.values().filter(move |process| process.ended && process.last.identity.parent == pid)
    }

    /// How long it was there, seconds.
    pub(crate) fn seconds(&self) -> f64 {
        (self.last_alive - self.begin).as_secs_f64()
    }

    pub(crate) fn begin_at(&self) -> Instant {
        self.begin
    }
}

impl TrackedProcess {
    fn since_begin(&self) -> CounterSums {
        let last = CounterSums::of(&self.last);
        self.first.as_ref().map_or(last, |first| last.minus(&CounterSums::of(first)))
    }
}

/// It is the same process, and not another one of its number.
fn is_same(now: &ProcessReading, then: &ProcessReading) -> bool {
    now.identity.started_ticks == then.identity.started_ticks
}

impl CounterSums {
    fn of(reading: &ProcessReading) -> CounterSums {
        let identity = &reading.identity;
        let sum = |all: &[u64]| all.iter().map(|one| i128::from(*one)).sum::<i128>();
        let user = [identity.user_ticks, identity.children_user_ticks];
        let system = [identity.system_ticks, identity.children_system_ticks];
        let io = |io: ProcessIo| [io.read_bytes, io.written_bytes].map(i128::from);
        let calls = |calls: ProcessCalls| {
            [calls.read_bytes, calls.written_bytes, calls.reads, calls.writes].map(i128::from)
        };
        CounterSums {
            ticks: sum(&user) + sum(&system),
            user_ticks: sum(&user),
            io: reading.io.map(io),
            calls: reading.calls.map(calls),
            major_faults: i128::from(identity.major_faults),
        }
    }

    fn plus(&self, other: &CounterSums) -> CounterSums {
        self.with(other, |a, b| a + b)
    }

    fn minus(&self, other: &CounterSums) -> CounterSums {
        self.with(other, |a, b| a - b)
    }

    fn with(&self, other: &CounterSums, of: fn(i128, i128) -> i128) -> CounterSums {
        fn each<const N: usize>(
            a: Option<[i128; N]>,
            b: Option<[i128; N]>,
            of: fn(i128, i128) -> i128,
        ) -> Option<[i128; N]> {
            match (a, b) {
                (None, None) => None,
                (a, b) => {
                    let (a, b) = (a.unwrap_or([0; N]), b.unwrap_or([0; N]));
                    Some(std::array::from_fn(|at| of(a[at], b[at])))
                }
            }
        }
        CounterSums {
            ticks: of(self.ticks, other.ticks),
            user_ticks: of(self.user_ticks, other.user_ticks),
            io: each(self.io, other.io, of),
            calls: each(self.calls, other.calls, of),
            major_faults: of(self.major_faults, other.major_faults),
        }
    }

    /// A counter that seems to go back (a child that ended unseen) counts as nothing.
    fn rates(&self, seconds: f64) -> ExplainedProcess {
        let rate = |count: i128| count.max(0) as f64 / seconds.max(1e-3);
        ExplainedProcess {
            cpus: rate(self.ticks) / TICKS_PER_SECOND,
            user_cpus: rate(self.user_ticks) / TICKS_PER_SECOND,
            storage_read: self.io.map(|io| rate(io[0])),
            storage_written: self.io.map(|io| rate(io[1])),
            called_read: self.calls.map(|calls| rate(calls[0])),
            called_written: self.calls.map(|calls| rate(calls[1])),
            reads_per_second: self.calls.map(|calls| rate(calls[2])),
            writes_per_second: self.calls.map(|calls| rate(calls[3])),
            major_faults: rate(self.major_faults),
            ..ExplainedProcess::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn put(tree: &mut Tree, pid: u32, parent: u32, ticks: u64, read: u64) {
        let stat = format!(
            "{pid} (cp) S {parent} 1 1 0 -1 4194560 1 2 {ticks} 4 {ticks} 0 0 0 20 0 1 0 {pid}00 1 2"
        );
        tree.put(&format!("proc/{pid}/stat"), &stat);
        let io = format!(
            "rchar: {read}\nwchar: 0\nsyscr: {}\nsyscw: 0\nread_bytes: {read}\nwrite_bytes: 0\n",
            read / 100
        );
        tree.put(&format!("proc/{pid}/io"), &io);
    }

    #[test]
    fn children_are_followed_and_one_that_was_waited_for_counts_once() {
        let mut tree = Tree::new(&[]);
        put(&mut tree, 7, 1, 100, 1000);
        put(&mut tree, 8, 7, 0, 500);
        put(&mut tree, 9, 1, 0, 77_000);
        let mut processes = ProcessTree::begin(&tree.sysroot(), &[7]);
        assert_eq!(processes.pids(), [7, 8]);
        put(&mut tree, 7, 1, 200, 1200);
        put(&mut tree, 8, 7, 0, 2500);
        put(&mut tree, 12, 8, 0, 300);
        processes.look(&tree.sysroot(), true);
        // 200 of the first, 2000 of the second, all 300 of the new one.
        assert_eq!(processes.total(1.0).storage_read, Some(2500.0));
        assert_eq!((processes.total(2.0).cpus, processes.living()), (0.5, vec![7, 8, 12]));
        // The second ends after 500 more, its parent has waited for it: 3000 in all are added there.
        std::fs::remove_dir_all(tree.path().join("proc/8")).expect("it ends");
        put(&mut tree, 7, 1, 200, 4200);
        processes.look(&tree.sysroot(), true);
        assert_eq!(processes.total(1.0).storage_read, Some(200.0 + 2500.0 + 300.0));
        assert_eq!(processes.living(), [7, 12]);
        // So does a child with its own, of which the first has the sums of both.
        put(&mut tree, 13, 7, 0, 100);
        put(&mut tree, 14, 13, 0, 50);
        processes.look(&tree.sysroot(), true);
        for pid in [13, 14] {
            std::fs::remove_dir_all(tree.path().join(format!("proc/{pid}"))).expect("it ends");
        }
        put(&mut tree, 7, 1, 200, 4350);
        processes.look(&tree.sysroot(), true);
        assert_eq!(processes.total(1.0).storage_read, Some(3000.0 + 150.0));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut tree = Tree::new(&[]);
        put(&mut tree, 7, 1, 0, 1000);
        let mut processes = ProcessTree::begin(&tree.sysroot(), &[7]);
        tree.put("proc/7/stat", "7 (tar) S 1 1 1 0 -1 4194560 1 2 0 4 0 0 0 0 20 0 1 0 99999 1 2");
        processes.look(&tree.sysroot(), true);
        assert!(processes.living().is_empty());
    }
}
