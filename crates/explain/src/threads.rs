//! What the threads of a program wait for. What each ran, and waited for a CPU, the kernel counts itself
//! (`/proc/PID/task/TID/schedstat`); what it did in the rest of the time is sampled.

use crate::activity::{
    Activity, ActivityShares, DescriptorKind, SystemCall, activity, asked_bytes, parse_system_call,
};
use crate::descriptors::Descriptors;
use crate::pace::LookPace;
use crate::processes::ProcessTree;
use linerate_facts::counters::{ProcessIdentity, parse_process_stat};
use linerate_facts::sysroot::{Sysroot, UnreadReason};
use linerate_model::verdict::thresholds::CPU_OF_OTHERS;
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strum::EnumCount;

/// More are not looked at.
const MOST_THREADS: usize = 4096;
/// CPU time of one round of samples: with some twenty rounds a second 0.8 % of a CPU.
const ROUND: Duration = Duration::from_micros(400);
/// Lengths of calls from which the median of a thread is taken.
const MOST_LENGTHS: usize = 64;

/// The threads of all processes, in turn.
#[derive(Debug, Default)]
pub(crate) struct ProgramThreads {
    all: BTreeMap<(u32, u32), ThreadRecord>,
    /// The one that was sampled last.
    last: Option<(u32, u32)>,
    pace: LookPace,
    /// One that was not in that list began after it.
    listed_at: Option<Instant>,
    rounds: u64,
    /// Those in which one of them ran.
    running_rounds: u64,
    /// Samples of calls that were refused, and that were read.
    refused: u64,
    calls: u64,
    hidden_function: u64,
    too_many: bool,
    pipe: Option<WaitedPipe>,
}

/// A pipe for which a thread was waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WaitedPipe {
    pub(crate) pid: u32,
    pub(crate) descriptor: u64,
    pub(crate) writes: bool,
}

#[derive(Debug)]
struct ThreadRecord {
    name: String,
    began_at: Instant,
    /// When it last ran, or could have.
    last_alive: Instant,
    /// Nanoseconds on a CPU and waiting for one, then and now; none where the kernel does not count them.
    ran: Option<[[u64; 2]; 2]>,
    samples: [u32; Activity::COUNT],
    /// Bytes that its calls asked of files, and of sockets.
    file_lengths: Vec<u64>,
    socket_lengths: Vec<u64>,
    last_cpu: Option<u32>,
}

/// A thread at one moment.
struct ThreadSample {
    identity: ProcessIdentity,
    call: Option<SystemCall>,
    /// Of the kernel.
    function: Option<String>,
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadUse {
    pub pid: u32,
    pub thread: u32,
    pub name: String,
    pub samples: u32,
    /// How long it was there, and what it did in that time.
    pub seconds: f64,
    pub shares: ActivityShares,
    /// The CPU that it was last on.
    pub last_cpu: Option<u32>,
    /// Median of the bytes that its calls asked of files, and of sockets, where a sample met one.
    pub file_call_bytes: Option<u64>,
    pub socket_call_bytes: Option<u64>,
}

impl ThreadUse {
    /// Share of the time in which it works: so short waits for its CPU are no other's part of it.
    pub(crate) fn works(&self) -> f64 {
        let waits = self.shares.of(Activity::Runnable);
        self.shares.of(Activity::Running) + if waits < CPU_OF_OTHERS { waits } else { 0.0 }
    }
}

impl ProgramThreads {
    /// Lists those that are there, where it is time to.
    pub(crate) fn list(&mut self, sysroot: &Sysroot, processes: &ProcessTree) {
        let is_first = self.pace.is_first();
        let Some(look) = self.pace.begin(false) else { return };
        for pid in processes.living() {
            for name in sysroot.list(format!("/proc/{pid}/task")) {
                let Ok(thread) = name.parse::<u32>() else { continue };
                if self.all.contains_key(&(pid, thread)) {
                    continue;
                }
                if self.all.len() >= MOST_THREADS {
                    self.too_many = true;
                    continue;
                }
                let now = schedule(sysroot, pid, thread);
                // One that began later began at 0.
                let first = if is_first { now } else { now.map(|_| [0; 2]) };
                let began_at = if is_first { look.at } else { self.listed_at.unwrap_or(look.at) };
                let ran = first.zip(now).map(|(first, now)| [first, now]);
                self.all.insert((pid, thread), ThreadRecord::new(began_at, look.at, ran));
            }
        }
        self.listed_at = Some(look.at);
        self.pace.end(look);
    }

    /// Looks at as many of them as the time allows, going on after the last.
    pub(crate) fn sample(&mut self, sysroot: &Sysroot, descriptors: &Descriptors) {
        self.rounds += 1;
        let until = thread_cpu() + ROUND;
        let after = self.last.map(|last| (last.0, last.1 + 1)).unwrap_or_default();
        let order: Vec<(u32, u32)> =
            self.all.range(after..).chain(self.all.range(..after)).map(|(key, _)| *key).collect();
        let mut runs = false;
        for key in order {
            runs |= self.sample_one(sysroot, descriptors, key) == Some(Activity::Running);
            self.last = Some(key);
            if thread_cpu() > until {
                break;
            }
        }
        self.running_rounds += u64::from(runs);
    }

    fn sample_one(
        &mut self,
        sysroot: &Sysroot,
        descriptors: &Descriptors,
        (pid, thread): (u32, u32),
    ) -> Option<Activity> {
        let sample = self.read_thread(sysroot, descriptors, pid, thread)?;
        let kind = |descriptor: u64| descriptors.kind_of(sysroot, pid, descriptor);
        let mut does = activity(sample.identity.state, sample.call, sample.function.as_deref(), kind);
        if let (Activity::PipeRead | Activity::PipeWrite, Some(SystemCall::Call { arguments, .. })) =
            (does, sample.call)
        {
            let (descriptor, writes) = (arguments[0], does == Activity::PipeWrite);
            match descriptors.is_pipe_within(sysroot, pid, descriptor) {
                true => does = Activity::Lock,
                false => self.pipe = Some(WaitedPipe { pid, descriptor, writes }),
            }
        }
        let now = schedule(sysroot, pid, thread);
        let record = self.all.get_mut(&(pid, thread))?;
        record.samples[does as usize] += 1;
        record.ran_until(now);
        record.last_cpu = sample.identity.last_cpu;
        if record.name != sample.identity.name {
            record.name = sample.identity.name;
        }
        if let Some((descriptor, bytes)) = sample.call.and_then(asked_bytes).filter(|(_, bytes)| *bytes > 0) {
            record.add_length(kind(descriptor), bytes);
        }
        Some(does)
    }

    /// Its state, its system call, and the function of the kernel in which it sleeps, where the call does not say for
    /// what; none where it has ended.
    fn read_thread(
        &mut self,
        sysroot: &Sysroot,
        descriptors: &Descriptors,
        pid: u32,
        thread: u32,
    ) -> Option<ThreadSample> {
        let folder = PathBuf::from(format!("/proc/{pid}/task/{thread}"));
        let stat = sysroot.text(folder.join("stat")).ok().and_then(|text| parse_process_stat(&text));
        let identity = stat.filter(|identity| !matches!(identity.state, 'Z' | 'X'))?;
        let mut call = None;
        if identity.state != 'R' {
            match sysroot.text(folder.join("syscall")) {
                Ok(text) => call = parse_system_call(&text),
                Err(why) => self.refused += u64::from(why.reason == UnreadReason::NotPermitted),
            }
        }
        self.calls += u64::from(call.is_some());
        let is_clear = match call {
            Some(SystemCall::Call { arguments, .. }) => {
                descriptors.kind_of(sysroot, pid, arguments[0]) != DescriptorKind::File
            }
            Some(SystemCall::Running) => true,
            _ => false,
        };
        let function = match identity.state {
            'R' | 'D' => None,
            _ if is_clear => None,
            _ => sysroot.text(folder.join("wchan")).ok(),
        };
        self.hidden_function += u64::from(function.as_deref() == Some("0"));
        Some(ThreadSample { identity, call, function })
    }

    /// Reads what each ran until now, and ends; those of which there is no sample are left out.
    pub(crate) fn end(mut self, sysroot: &Sysroot) -> (Vec<ThreadUse>, ThreadsRead) {
        let uncounted = self.all.values().all(|one| one.ran.is_none());
        for ((pid, thread), record) in &mut self.all {
            // One that has ended ran until its last sample, as far as is known.
            if let Some(now) = schedule(sysroot, *pid, *thread) {
                record.ran_until(Some(now));
            }
        }
        let count = self.all.len();
        let all =
            self.all.iter().map(|(key, record)| record.used(*key)).filter(|one| one.samples > 0).collect();
        let read = ThreadsRead {
            count,
            rounds: self.rounds,
            running_rounds: self.running_rounds,
            calls_refused: self.refused > 0 && self.calls == 0,
            functions_hidden: self.hidden_function > 0 && self.calls == 0,
            uncounted,
            too_many: self.too_many,
            pipe: self.pipe,
        };
        (all, read)
    }
}

/// What could be read of the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ThreadsRead {
    /// All that there were, also those of which there is no sample.
    pub(crate) count: usize,
    pub(crate) rounds: u64,
    /// Those in which one of them ran.
    pub(crate) running_rounds: u64,
    pub(crate) calls_refused: bool,
    pub(crate) functions_hidden: bool,
    pub(crate) uncounted: bool,
    pub(crate) too_many: bool,
    pub(crate) pipe: Option<WaitedPipe>,
}

impl ThreadRecord {
    fn new(began_at: Instant, last_alive: Instant, ran: Option<[[u64; 2]; 2]>) -> Self {
        ThreadRecord {
            name: String::new(),
            began_at,
            last_alive,
            ran,
            samples: [0; Activity::COUNT],
            file_lengths: Vec::new(),
            socket_lengths: Vec::new(),
            last_cpu: None,
        }
    }

    /// It is there now, and what the kernel counted of it.
    fn ran_until(&mut self, counted: Option<[u64; 2]>) {
        self.last_alive = clock::now();
        if let (Some(ran), Some(now)) = (&mut self.ran, counted) {
            ran[1] = now;
        }
    }

    fn add_length(&mut self, kind: DescriptorKind, bytes: u64) {
        let lengths = match kind {
            DescriptorKind::File => &mut self.file_lengths,
            DescriptorKind::Socket => &mut self.socket_lengths,
            _ => return,
        };
        if lengths.len() < MOST_LENGTHS {
            lengths.push(bytes);
        }
    }

    fn used(&self, (pid, thread): (u32, u32)) -> ThreadUse {
        let seconds = (self.last_alive - self.began_at).as_secs_f64();
        let ran = self.ran.map(|[first, last]| {
            std::array::from_fn(|at| last[at].saturating_sub(first[at]) as f64 / 1e9 / seconds.max(1e-3))
        });
        ThreadUse {
            pid,
            thread,
            name: self.name.clone(),
            samples: self.samples.iter().sum(),
            seconds,
            shares: shares(&self.samples, ran),
            last_cpu: self.last_cpu,
            file_call_bytes: median(&self.file_lengths),
            socket_call_bytes: median(&self.socket_lengths),
        }
    }
}

/// Shares of the time: what the kernel counted of the CPU, and of the rest as the samples have it. Without those
/// counters all is as the samples have it.
fn shares(samples: &[u32; Activity::COUNT], ran: Option<[f64; 2]>) -> ActivityShares {
    let (running, runnable) = (Activity::Running as usize, Activity::Runnable as usize);
    let mut shares = ActivityShares::default();
    let [on, waits] = match ran {
        Some([on, waits]) => {
            let all = (on + waits).max(1.0);
            [on / all, waits / all]
        }
        None => {
            let all: u32 = samples.iter().sum();
            [f64::from(samples[running]) / f64::from(all.max(1)), 0.0]
        }
    };
    shares.set(Activity::Running, on);
    shares.set(Activity::Runnable, waits);
    let is_rest = |at: &usize| *at != running && *at != runnable;
    let asleep: u32 = (0..samples.len()).filter(is_rest).map(|at| samples[at]).sum();
    let left = 1.0 - on - waits;
    for (at, activity) in
        <Activity as strum::VariantArray>::VARIANTS.iter().enumerate().filter(|(at, _)| is_rest(at))
    {
        if asleep > 0 {
            shares.set(*activity, left * f64::from(samples[at]) / f64::from(asleep));
        }
    }
    // It was awake whenever anybody looked.
    if asleep == 0 && left > 0.0 {
        shares.set(Activity::Other, left);
    }
    shares
}

/// `/proc/PID/task/TID/schedstat`: nanoseconds on a CPU, and waiting for one.
fn schedule(sysroot: &Sysroot, pid: u32, thread: u32) -> Option<[u64; 2]> {
    parse_schedule(&sysroot.text(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?)
}

fn parse_schedule(text: &str) -> Option<[u64; 2]> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let both = [words.next()??, words.next()??];
    // A kernel that counts nothing writes 0 0 0.
    (both != [0, 0]).then_some(both)
}

fn median(all: &[u64]) -> Option<u64> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn counted_time_comes_first_and_the_samples_part_the_rest() {
        let mut samples = [0; Activity::COUNT];
        samples[Activity::Running as usize] = 90;
        samples[Activity::Disk as usize] = 9;
        samples[Activity::Send as usize] = 1;
        let of = shares(&samples, Some([0.2, 0.1]));
        let near = |activity, share: f64| (of.of(activity) - share).abs() < 1e-9;
        assert!(near(Activity::Running, 0.2) && near(Activity::Runnable, 0.1), "{of:?}");
        assert!(near(Activity::Disk, 0.63) && near(Activity::Send, 0.07), "{of:?}");
        assert!((shares(&samples, None).of(Activity::Running) - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_thread_of_a_recorded_tree_is_at_what_its_files_say() {
        let mut tree = Tree::new(&[]);
        let stat = "7 (dd) D 1 1 1 0 -1 4194560 1 2 0 4 0 0 0 0 20 0 1 0 700 1 2";
        for place in ["proc/7", "proc/7/task/7"] {
            tree.put(&format!("{place}/stat"), stat);
        }
        tree.put("proc/7/io", "rchar: 1\nwchar: 0\nsyscr: 1\nsyscw: 0\nread_bytes: 1\nwrite_bytes: 0\n");
        tree.put("proc/7/task/7/schedstat", "1000 1000 5");
        tree.put("proc/7/task/7/syscall", "-1 0x7ffd 0x7f00");
        let sysroot = tree.sysroot();
        let processes = ProcessTree::begin(&sysroot, &[7]);
        let mut threads = ProgramThreads::default();
        threads.list(&sysroot, &processes);
        for _ in 0..3 {
            threads.sample(&sysroot, &Descriptors::default());
        }
        let (all, read) = threads.end(&sysroot);
        assert_eq!((all.len(), all[0].samples, read.rounds), (1, 3, 3));
        assert!(all[0].shares.of(Activity::PageFault) > 0.99, "{all:?}");
    }

    #[test]
    fn a_thread_that_has_ended_ran_until_its_last_sample() {
        let mut tree = Tree::new(&[]);
        for place in ["proc/7", "proc/7/task/8"] {
            tree.put(
                &format!("{place}/stat"),
                "8 (dd) R 1 1 1 0 -1 4194560 1 2 0 4 0 0 0 0 20 0 1 0 700 1 2",
            );
        }
        tree.put("proc/7/task/8/schedstat", "1000 1000 5");
        let sysroot = tree.sysroot();
        let mut threads = ProgramThreads::default();
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        threads.list(&sysroot, &ProcessTree::begin(&sysroot, &[7]));
        clock.advance(Duration::from_millis(100));
        tree.put("proc/7/task/8/schedstat", "75001000 25001000 5");
        threads.sample(&sysroot, &Descriptors::default());
        std::fs::remove_dir_all(tree.path().join("proc/7/task/8")).expect("it ends");
        let (all, read) = threads.end(&sysroot);
        let of = |activity| (all[0].shares.of(activity) * 100.0).round();
        assert!(
            (of(Activity::Running), of(Activity::Runnable)) == (75.0, 25.0) && !read.uncounted,
            "{all:?}"
        );
    }

    proptest! {
        #[test]
        fn shares_are_of_one_whole(samples in prop::array::uniform14(0u32..1000), ran in prop::option::of(prop::array::uniform2(0.0..2.0f64))) {
            let of = shares(&samples, ran);
            let all: f64 = <Activity as strum::VariantArray>::VARIANTS.iter().map(|one| of.of(*one)).sum();
            prop_assert!(all < 1.000_001, "{all}");
        }

        #[test]
        fn any_text_is_a_schedule_or_none(text in "[0-9 a-z\n-]{0,60}") {
            let _ = parse_schedule(&text);
        }
    }
}
