//! Who uses the CPUs and the storage: the processes of `/proc` at two moments. What `/proc` does not show of them
//! (another user's, those outside of a container) is named, so that nobody takes it for idleness.

use super::process::{
    ProcessCalls, ProcessIdentity, ProcessIo, parse_process_calls, parse_process_io, parse_process_stat,
};
use super::rates::{Elapsed, Width, rounded};
use crate::sysroot::{Sysroot, UnreadReason};
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Ticks of a second (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;
/// A table of all processes takes so much CPU time at most, some ten microseconds a process.
const MOST_CPU_TIME: Duration = Duration::from_millis(50);

/// Between two tables of one look-out there are this many times the time that one takes.
const PAUSE: u32 = 50;

/// Parents of parents: a longer chain would be a circle, of readings at different moments.
const LONGEST_CHAIN: u32 = 64;

/// One reading of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessReading {
    pub at: Instant,
    pub identity: ProcessIdentity,
    /// None where it could not be read, or was not to be.
    pub io: Option<ProcessIo>,
    /// What its system calls moved, where that was read.
    pub calls: Option<ProcessCalls>,
    /// Its storage counters are for others to read.
    pub forbidden: bool,
    /// It has no such counters.
    pub uncounted: bool,
}

impl ProcessReading {
    /// With its storage counters; none where it has ended, or what is there is not a process.
    pub fn read(sysroot: &Sysroot, pid: u32) -> Option<Self> {
        let mut reading = ProcessReading::without_io(sysroot, pid)?;
        match sysroot.text(PathBuf::from(format!("/proc/{pid}/io"))) {
            Ok(text) => {
                reading.io = parse_process_io(&text);
                reading.calls = parse_process_calls(&text);
            }
            Err(why) => {
                reading.forbidden = why.reason == UnreadReason::NotPermitted;
                reading.uncounted = why.reason == UnreadReason::Absent;
            }
        }
        Some(reading)
    }

    /// Without its storage counters.
    pub fn without_io(sysroot: &Sysroot, pid: u32) -> Option<Self> {
        let identity = parse_process_stat(&sysroot.text(PathBuf::from(format!("/proc/{pid}/stat"))).ok()?)?;
        let (at, io, calls) = (clock::now(), None, None);
        Some(ProcessReading { at, identity, io, calls, forbidden: false, uncounted: false })
    }

    /// It is the same process, and not another one of its number.
    fn continues(&self, earlier: &ProcessReading) -> bool {
        self.identity.started_ticks == earlier.identity.started_ticks
    }

    /// Bytes per second that the storage read and wrote for it; none where either reading lacks them.
    pub fn storage_rates_since(&self, earlier: &ProcessReading) -> Option<[f64; 2]> {
        let (then, now) = (earlier.io.filter(|_| self.continues(earlier))?, self.io?);
        let span = Elapsed::between(earlier.at, self.at)?;
        let rate = |before: u64, now: u64| {
            let counted = span.counted(before, now, Width::Bits64)?;
            Some(rounded(counted as f64 / span.seconds()))
        };
        Some([rate(then.read_bytes, now.read_bytes)?, rate(then.written_bytes, now.written_bytes)?])
    }

    /// CPU time of its threads ÷ time: 1 is one CPU.
    pub fn cpus_since(&self, earlier: &ProcessReading) -> Option<f64> {
        let span = Elapsed::between(earlier.at, self.at).filter(|_| self.continues(earlier))?;
        let ticks = |one: &ProcessReading| one.identity.user_ticks.saturating_add(one.identity.system_ticks);
        Some(rounded(ticks(self).saturating_sub(ticks(earlier)) as f64 / TICKS_PER_SECOND / span.seconds()))
    }
}

/// Why `/proc` does not list all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HiddenProcesses {
    /// Those of other users (`hidepid`).
    OtherUsers,
    /// Those outside of this container.
    OutsideContainer,
    /// They are too many to be read in a short time.
    TooMany,
}

impl HiddenProcesses {
    /// The whole reason, for a sentence.
    pub fn why(self) -> &'static str {
        match self {
            HiddenProcesses::OtherUsers => "the processes of other users cannot be seen (hidepid of /proc)",
            HiddenProcesses::OutsideContainer => "the processes outside of this container cannot be seen",
            HiddenProcesses::TooMany => "the processes are too many to look at all of them",
        }
    }
}

/// All processes at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessTable {
    at: Instant,
    /// How long the reading took.
    took: Duration,
    all: BTreeMap<u32, ProcessReading>,
    hidden: Option<HiddenProcesses>,
}

impl ProcessTable {
    /// Reads now; `with_io` also what the storage moved for each.
    pub fn read(sysroot: &Sysroot, with_io: bool) -> Self {
        let until = thread_cpu() + MOST_CPU_TIME;
        let (mut all, mut too_many) = (BTreeMap::new(), false);
        let at = clock::now();
        for pid in sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
            too_many = thread_cpu() > until;
            if too_many {
                break;
            }
            let one = match with_io {
                true => ProcessReading::read(sysroot, pid),
                false => ProcessReading::without_io(sysroot, pid),
            };
            all.extend(one.map(|one| (pid, one)));
        }
        let hidden = match () {
            () if too_many => Some(HiddenProcesses::TooMany),
            // Every PID namespace has a first process; that of the machine itself has the kernel's threads, too.
            () if !all.contains_key(&1) => Some(HiddenProcesses::OtherUsers),
            () if !all.values().any(|one: &ProcessReading| one.identity.of_kernel) => {
                Some(HiddenProcesses::OutsideContainer)
            }
            () => None,
        };
        ProcessTable { at, took: clock::since(at), all, hidden }
    }

    /// So long after this reading that another one costs 2 % of a CPU at most.
    pub fn may_be_read_again(&self) -> bool {
        clock::since(self.at) >= self.took * (1 + PAUSE)
    }

    /// What all did since an earlier table. `own` is the process whose work is not another program's, with all that it
    /// started; `own_agents` are others that serve it.
    pub fn since(&self, earlier: &ProcessTable, own: u32, own_agents: &[AgentProcess]) -> ProcessesUse {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let mut found =
            ProcessesUse { seconds, hidden: self.hidden.or(earlier.hidden), ..ProcessesUse::default() };
        if seconds <= 0.0 {
            return found;
        }
        let ended = self.ended_since(earlier);
        for (pid, one) in &self.all {
            let used = self.used_since(earlier, &ended, (*pid, one), seconds);
            found.visible_cpus += used.cpus;
            if one.identity.of_kernel {
                continue;
            }
            found.visible_user_cpus += used.user_cpus;
            if self.descends_from(*pid, own) {
                found.own_cpus += used.cpus;
                found.own_user_cpus += used.user_cpus;
            } else if !own_agents.iter().any(|agent| agent.is(&one.identity)) {
                found.unreadable += u64::from(one.forbidden);
                found.others.extend((used != ProcessUse::named(*pid, one)).then_some(used));
            }
        }
        found.sort();
        found
    }

    fn used_since(
        &self,
        earlier: &ProcessTable,
        ended: &BTreeMap<u32, (u64, u64)>,
        (pid, one): (u32, &ProcessReading),
        seconds: f64,
    ) -> ProcessUse {
        let before = earlier.all.get(&pid).filter(|before| one.continues(before));
        if before.is_none() && earlier.hidden == Some(HiddenProcesses::TooMany) {
            return ProcessUse::named(pid, one);
        }
        let (mut user, mut all) = ticks(&one.identity);
        let counted =
            before.map(|before| ticks(&before.identity)).into_iter().chain(ended.get(&pid).copied());
        for (user_before, all_before) in counted {
            (user, all) = (user.saturating_sub(user_before), all.saturating_sub(all_before));
        }
        let rates = before.and_then(|before| one.storage_rates_since(before));
        let cpus = |ticks: u64| ticks as f64 / TICKS_PER_SECOND / seconds;
        ProcessUse {
            cpus: cpus(all),
            user_cpus: cpus(user),
            read_bytes_per_second: rates.map_or(0.0, |[read, _]| read),
            written_bytes_per_second: rates.map_or(0.0, |[_, written]| written),
            ..ProcessUse::named(pid, one)
        }
    }

    /// What processes of an earlier table that have ended had used until then, by the one that counts it now: their
    /// nearest ancestor that is still there.
    fn ended_since(&self, earlier: &ProcessTable) -> BTreeMap<u32, (u64, u64)> {
        let lives =
            |pid: &u32, reading: &ProcessReading| self.all.get(pid).is_some_and(|now| now.continues(reading));
        let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        // Of a table that was cut short nobody knows who has ended.
        if self.hidden == Some(HiddenProcesses::TooMany) {
            return sums;
        }
        for (_, reading) in earlier.all.iter().filter(|(pid, reading)| !lives(pid, reading)) {
            let mut heir = reading.identity.parent;
            for _ in 0..LONGEST_CHAIN {
                match earlier.all.get(&heir) {
                    Some(parent) if !lives(&heir, parent) => heir = parent.identity.parent,
                    _ => break,
                }
            }
            let (user, all) = ticks(&reading.identity);
            let sum = sums.entry(heir).or_default();
            *sum = (sum.0.saturating_add(user), sum.1.saturating_add(all));
        }
        sums
    }

    fn descends_from(&self, pid: u32, ancestor: u32) -> bool {
        let mut at = pid;
        for _ in 0..LONGEST_CHAIN {
            if at == ancestor {
                return true;
            }
            let Some(one) = self.all.get(&at) else { return false };
            at = one.identity.parent;
        }
        false
    }
}

/// User time, and all CPU time, with that of children that have ended.
fn ticks(identity: &ProcessIdentity) -> (u64, u64) {
    let user = identity.user_ticks.saturating_add(identity.children_user_ticks);
    let system = identity.system_ticks.saturating_add(identity.children_system_ticks);
    (user, user.saturating_add(system))
}

/// An agent, as it describes itself: one that runs on this host is found by it, also in another PID namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProcess {
    pub name: String,
    pub started_ticks: u64,
}

impl AgentProcess {
    /// The calling process.
    pub fn current(sysroot: &Sysroot) -> Option<Self> {
        let identity = parse_process_stat(&sysroot.text("/proc/self/stat").ok()?)?;
        Some(AgentProcess { name: identity.name, started_ticks: identity.started_ticks })
    }

    fn is(&self, identity: &ProcessIdentity) -> bool {
        self.started_ticks == identity.started_ticks && self.name == identity.name
    }
}

/// What a process did in some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessUse {
    pub pid: u32,
    /// Name of its program as the kernel keeps it; never its arguments.
    pub name: String,
    /// CPU time ÷ time, with its children that have ended: 1 is one CPU.
    pub cpus: f64,
    /// Of that, in programs and not in the kernel.
    pub user_cpus: f64,
    /// From storage, and to it; 0 also where that could not be read.
    pub read_bytes_per_second: f64,
    pub written_bytes_per_second: f64,
}

impl ProcessUse {
    fn named(pid: u32, one: &ProcessReading) -> Self {
        ProcessUse { pid, name: one.identity.name.clone(), ..ProcessUse::default() }
    }

    /// Read and written.
    pub fn storage_bytes_per_second(&self) -> f64 {
        self.read_bytes_per_second + self.written_bytes_per_second
    }
}

/// What all processes did in some time. CPU time is in CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessesUse {
    pub seconds: f64,
    /// Other programs that did something, the one with most CPU time first.
    pub others: Vec<ProcessUse>,
    /// Of all that are visible, kernel threads among them.
    pub visible_cpus: f64,
    /// Of the programs among them, in their own code.
    pub visible_user_cpus: f64,
    /// Of the process itself, with all that it started.
    pub own_cpus: f64,
    pub own_user_cpus: f64,
    /// Why these are not all.
    pub hidden: Option<HiddenProcesses>,
    /// Other programs whose storage counters this user may not read.
    pub unreadable: u64,
}

impl ProcessesUse {
    /// CPUs that other programs used.
    pub fn others_cpus(&self) -> f64 {
        self.others.iter().map(|one| one.cpus).sum()
    }

    /// A later time: means by their lengths.
    pub fn join(&mut self, later: ProcessesUse) {
        let (now, then) = (self.seconds, later.seconds);
        if now + then <= 0.0 {
            return;
        }
        let mean = |a: f64, b: f64| (a * now + b * then) / (now + then);
        let mut all: BTreeMap<u32, ProcessUse> = BTreeMap::new();
        let mut add = |one: ProcessUse, length: f64| {
            let named = ProcessUse { pid: one.pid, name: one.name, ..ProcessUse::default() };
            let sum = all.entry(one.pid).or_insert(named);
            let part = |value: f64| value * length / (now + then);
            sum.cpus += part(one.cpus);
            sum.user_cpus += part(one.user_cpus);
            sum.read_bytes_per_second += part(one.read_bytes_per_second);
            sum.written_bytes_per_second += part(one.written_bytes_per_second);
        };
        std::mem::take(&mut self.others).into_iter().for_each(|one| add(one, now));
        later.others.into_iter().for_each(|one| add(one, then));
        *self = ProcessesUse {
            seconds: now + then,
            others: all.into_values().collect(),
            visible_cpus: mean(self.visible_cpus, later.visible_cpus),
            visible_user_cpus: mean(self.visible_user_cpus, later.visible_user_cpus),
            own_cpus: mean(self.own_cpus, later.own_cpus),
            own_user_cpus: mean(self.own_user_cpus, later.own_user_cpus),
            hidden: self.hidden.or(later.hidden),
            unreadable: self.unreadable.max(later.unreadable),
        };
        self.sort();
    }

    fn sort(&mut self) {
        self.others.sort_by(|a, b| b.cpus.total_cmp(&a.cpus).then(a.pid.cmp(&b.pid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::LazyLock;

    /// Writes a process into a recorded tree: parent, flags, user and system ticks, those of children, start.
    fn put(root: &Path, pid: u32, name: &str, [parent, flags, user, system, children, started]: [u64; 6]) {
        let folder = root.join(format!("proc/{pid}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {user} {system} {children} 0 20 0 1 0 {started} 0\n"
        );
        std::fs::write(folder.join("stat"), text).expect("a file");
    }

    fn table(root: &Path, seconds: u64) -> ProcessTable {
        // However long the reading took.
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        let read = ProcessTable::read(&Sysroot::recorded(root), true);
        ProcessTable { at: *BEGUN + Duration::from_secs(seconds), ..read }
    }

    const KERNEL: u64 = 0x0020_0000;

    #[test]
    fn names_who_used_the_cpus_beside_the_flow_its_children_and_its_agents() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let all = |later: u64| {
            put(root, 1, "init", [0, 0, 10, 10, 0, 0]);
            put(root, 2, "kthreadd", [0, KERNEL, 0, 0, 0, 0]);
            put(root, 7, "kworker/0:1", [2, KERNEL, 0, 30 * later, 0, 1]);
            put(root, 50, "linerate", [1, 0, 10 * later, 90 * later, 0, 400]);
            put(root, 51, "linerate", [50, 0, 0, 40 * later, 0, 401]);
            put(root, 60, "linerate", [1, 0, 0, 70 * later, 0, 300]);
            put(root, 70, "sha256sum", [1, 0, 160 * later, 0, 0, 500]);
            put(root, 80, "sh", [1, 0, 0, 20 * later, 0, 501]);
        };
        all(0);
        let before = table(root, 0);
        all(1);
        let agent = AgentProcess { name: "linerate".into(), started_ticks: 300 };
        let found = table(root, 2).since(&before, 50, &[agent]);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 0.01, "{a} is not {b}: {found:?}");
        let names: Vec<&str> = found.others.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, found.hidden), (vec!["sha256sum", "sh"], None));
        near(found.others[0].cpus, 0.8);
        near(found.others[1].cpus, 0.1);
        near(found.own_cpus, 0.7);
        near(found.own_user_cpus, 0.05);
        near(found.visible_cpus, 2.1);
    }

    /// A compiler starts a process for each file: none of them lives at both moments.
    #[test]
    fn what_short_lived_children_did_is_their_parents() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        put(root, 1, "init", [0, 0, 0, 0, 0, 0]);
        put(root, 2, "kthreadd", [0, KERNEL, 0, 0, 0, 0]);
        put(root, 90, "make", [1, 0, 0, 0, 1000, 10]);
        put(root, 91, "cc", [90, 0, 300, 0, 0, 20]);
        let before = table(root, 0);
        // The child ended with 50 ticks more than it had, and a further one of 100 came and went.
        std::fs::remove_dir_all(root.join("proc/91")).expect("removed");
        put(root, 90, "make", [1, 0, 0, 0, 1450, 10]);
        let found = table(root, 1).since(&before, 5, &[]);
        assert_eq!(found.others.len(), 1);
        assert!((found.others[0].cpus - 1.5).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        put(root, 9, "old", [1, 0, 900, 0, 0, 10]);
        let before = table(root, 0);
        put(root, 9, "new", [1, 0, 50, 0, 0, 20]);
        let found = table(root, 1).since(&before, 5, &[]);
        assert!((found.others[0].cpus - 0.5).abs() < 0.01 && found.others[0].name == "new", "{found:?}");
    }

    #[test]
    fn says_which_processes_cannot_be_seen() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        put(root, 40, "mine", [1, 0, 0, 0, 0, 0]);
        assert_eq!(table(root, 0).hidden, Some(HiddenProcesses::OtherUsers));
        put(root, 1, "sh", [0, 0, 0, 0, 0, 0]);
        assert_eq!(table(root, 0).hidden, Some(HiddenProcesses::OutsideContainer));
        put(root, 2, "kthreadd", [0, KERNEL, 0, 0, 0, 0]);
        assert_eq!(table(root, 0).hidden, None);
    }

    #[test]
    fn times_one_after_the_other_are_means_by_their_lengths() {
        let of = |seconds, cpus| ProcessesUse {
            seconds,
            others: vec![ProcessUse { pid: 7, name: "rustc".into(), cpus, ..ProcessUse::default() }],
            ..ProcessesUse::default()
        };
        let mut first = of(1.0, 0.9);
        first.join(of(2.0, 0.3));
        first.join(ProcessesUse { seconds: 3.0, ..ProcessesUse::default() });
        assert!((first.others[0].cpus - 0.25).abs() < 1e-9 && first.seconds == 6.0, "{first:?}");
    }
}
