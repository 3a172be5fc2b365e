//! Other programs beside a measurement: which they were, and what of the CPUs and disks they took.

use super::access::DeviceUse;
use super::product::{CpuShare, Measurement, WorkerResult};
use linerate_facts::counters::{HiddenProcesses, ProcessUse, ProcessesUse};
use linerate_facts::printable::printable;
use linerate_facts::usage::CoreUse;
use linerate_facts::wording::listed;
use linerate_model::verdict::thresholds::OTHERS_BEFORE;

/// Programs that are kept: so many of those with most CPU time, and of those that the storage moved most for.
const KEPT: usize = 3;
/// A program that has this share of what all others took is most of it.
const MOST: f64 = 0.5;
/// Seconds.
const SHORTEST_LOOK: f64 = 0.05;
/// Share of all CPUs from which on programs' time that no visible process has is not the clock's roughness.
const UNSEEN: f64 = 0.05;
/// What a device moved beyond the flow's own bytes, as a share of all: where nobody can say whose it was, less may be
/// the file system's own.
const UNNAMED: f64 = 0.2;

/// Other programs while something was measured.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct OthersUse {
    /// The busiest, by CPU time and then by storage.
    pub processes: Vec<ProcessUse>,
    /// Share of linerate's own CPU time that it spent in its own code.
    pub own_user_share: f64,
    /// Why these may not be all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenProcesses>,
    /// Share of all CPUs that worked for none of the processes that are visible; 0 where all are.
    pub hidden_cpu: f64,
    /// Programs whose storage counters this user may not read.
    pub unreadable: u64,
}

impl OthersUse {
    /// What these processes did while the CPUs did that.
    pub(crate) fn of(all: &ProcessesUse, cores: &[CoreUse]) -> OthersUse {
        let storage = ProcessUse::storage_bytes_per_second;
        let mut by_storage: Vec<&ProcessUse> = all.others.iter().filter(|one| storage(one) > 0.0).collect();
        by_storage.sort_by(|a, b| storage(b).total_cmp(&storage(a)));
        let mut processes: Vec<ProcessUse> =
            all.others.iter().filter(|one| one.cpus > 0.0).take(KEPT).cloned().collect();
        for one in by_storage.into_iter().take(KEPT) {
            if processes.iter().all(|kept| kept.pid != one.pid) {
                processes.push(one.clone());
            }
        }
        processes.iter_mut().for_each(|one| one.name = printable(&one.name));
        // Interrupts and the hypervisor's part belong to no process.
        let worked = |core: &CoreUse| core.user + core.nice + core.system;
        let worked: f64 = cores.iter().map(worked).sum();
        let hidden_cpu = (worked - all.visible_cpus).max(0.0) / cores.len().max(1) as f64;
        OthersUse {
            processes,
            own_user_share: (all.own_user_cpus / all.own_cpus.max(f64::MIN_POSITIVE)).min(1.0),
            hidden: all.hidden,
            hidden_cpu: if all.hidden.is_some() { hidden_cpu } else { 0.0 },
            unreadable: all.unreadable,
        }
    }

    /// `, most of it rustc (pid 1673)`; `, cc (pid 7) and ld (pid 8) among them`; empty where none is known. `total` is
    /// what all others took, in the unit of `taken`.
    pub fn named(&self, total: f64, taken: fn(&ProcessUse) -> f64) -> String {
        let mut all: Vec<&ProcessUse> = self.processes.iter().filter(|one| taken(one) > 0.0).collect();
        all.sort_by(|a, b| taken(b).total_cmp(&taken(a)));
        let name = |one: &&ProcessUse| format!("{} (pid {})", one.name, one.pid);
        let names: Vec<String> = all.iter().take(KEPT).map(name).collect();
        match (&all[..], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]) {
            ([first, ..], [name, ..]) if taken(first) >= MOST * total => format!(", most of it {name}"),
            (_, []) => String::new(),
            (_, names) => format!(", {} among them", listed(names, KEPT)),
        }
    }
}

/// What is said before anything is measured: other programs are busy. The clock of a process ticks every 10 ms, so that
/// a shorter look says nothing.
pub(crate) fn busy_before(meanwhile: &ProcessesUse, cpus: usize) -> Option<String> {
    let share = meanwhile.others_cpus() / cpus.max(1) as f64;
    let who = OthersUse::of(meanwhile, &[]).named(meanwhile.others_cpus(), |one| one.cpus);
    let busy = meanwhile.seconds >= SHORTEST_LOOK && share >= OTHERS_BEFORE;
    busy.then(|| {
        format!(
            "other programs use {:.0} % of the CPUs now{who}: figures taken beside them are what they leave",
            share * 100.0
        )
    })
}

/// CPUs used by other programs; `own` is what this process used. Counted are the CPU time of the visible programs, and
/// that of programs that began and ended between two looks. Where some are hidden, it is at least what was busy before,
/// and at most what this process did not use: beside it others cannot have kept all of full CPUs.
pub(super) fn others_cpus(
    cores: &[CoreUse],
    own: f64,
    busy_before: Option<f64>,
    processes: &ProcessesUse,
) -> f64 {
    let sum = |of: fn(&CoreUse) -> f64| cores.iter().map(of).sum::<f64>();
    let unseen = sum(|core| core.user + core.nice) - processes.visible_user_cpus;
    let unseen = if unseen >= UNSEEN * cores.len() as f64 { unseen } else { 0.0 };
    let before = busy_before.filter(|_| processes.hidden.is_some()).unwrap_or(0.0);
    (processes.others_cpus() + unseen).max(before).min((sum(CoreUse::busy) - own).max(0.0))
}

impl Measurement {
    /// With whose the time of its CPUs was, this process having used `own` of them, and who the others were.
    pub fn beside(self, own: f64, processes: &ProcessesUse) -> Measurement {
        let count = self.cpu_by_core.len().max(1) as f64;
        let busy: f64 = self.cpu_by_core.iter().map(CoreUse::busy).sum();
        let others = others_cpus(&self.cpu_by_core, own, None, processes);
        let kernel = (busy - own - others).max(0.0) / count;
        Measurement {
            cpu_share: CpuShare { linerate: own / count, kernel, others: others / count },
            others: Some(OthersUse::of(processes, &self.cpu_by_core)),
            ..self
        }
    }

    /// Share of each CPU that other programs used: their time on all CPUs, split over the CPUs in proportion to the user
    /// (or system) time that is not linerate's.
    pub(crate) fn others_by_cpu(&self) -> Vec<(u32, f64)> {
        let Some(others) = &self.others else { return Vec::new() };
        let own = |core: &CoreUse| -> f64 {
            let pinned = self.workers.iter().filter(|worker| worker.core == Some(core.core));
            let by_workers: f64 = pinned.map(|worker| worker.cpu_share).sum();
            if self.workers.iter().any(|worker| worker.core.is_some()) {
                by_workers
            } else {
                self.cpu_share.linerate
            }
        };
        let used = |of: fn(&ProcessUse) -> f64| others.processes.iter().map(of).sum::<f64>();
        // Programs that nobody saw are known by their own code alone.
        let in_programs = match used(|one| one.cpus) {
            cpus if cpus > 0.0 => (used(|one| one.user_cpus) / cpus).min(1.0),
            _ => 1.0,
        };
        let user = |core: &CoreUse| (core.user + core.nice - own(core) * others.own_user_share).max(0.0);
        let system = |core: &CoreUse| (core.system - own(core) * (1.0 - others.own_user_share)).max(0.0);
        let part = |of: &dyn Fn(&CoreUse) -> f64, core: &CoreUse| {
            let all: f64 = self.cpu_by_core.iter().map(of).sum();
            if all > 0.0 { of(core) / all } else { 0.0 }
        };
        let total = self.cpu_share.others * self.cpu_by_core.len() as f64;
        let share = |core: &CoreUse| {
            let most = (core.busy() - core.irq - core.softirq - core.steal - own(core)).max(0.0);
            let part = in_programs * part(&user, core) + (1.0 - in_programs) * part(&system, core);
            (core.core, (total * part).min(most))
        };
        self.cpu_by_core.iter().map(share).collect()
    }

    /// What other programs had a disk of the flow move; none where that cannot be said. Bytes beyond the flow's own, as
    /// far as programs that moved as many are known; where not all may be asked, a good part of the disk's.
    pub(crate) fn others_bytes_of(&self, device: &DeviceUse) -> Option<f64> {
        let id = format!("disk:{}", device.name);
        let own = |worker: &&WorkerResult| worker.source == id;
        let moved: f64 = self.workers.iter().filter(own).map(|worker| worker.bytes_per_second).sum();
        // What it has under way counts for the device sooner than for the flow.
        let reads = |worker: &WorkerResult| f64::from(worker.queue_depth) * worker.block_bytes as f64;
        let under_way: f64 = self.workers.iter().filter(own).map(reads).sum();
        let at_most = moved + if self.seconds > 0.0 { under_way / self.seconds } else { 0.0 };
        (moved > 0.0).then(|| self.others_bytes(device, at_most, self.incoming)).flatten()
    }

    /// The same of a device of which so much is the flow's own, written or read.
    pub(crate) fn others_bytes(&self, device: &DeviceUse, own: f64, writes: bool) -> Option<f64> {
        let others = self.others.as_ref()?;
        let sum = |of: fn(&ProcessUse) -> f64| others.processes.iter().map(of).sum::<f64>();
        let (named_read, named_written) =
            (sum(|one| one.read_bytes_per_second), sum(|one| one.written_bytes_per_second));
        // What a file system writes beside what it is given is the flow's, too.
        let (read, written) = match writes {
            true => (device.read_bytes_per_second, 0.0),
            false => ((device.read_bytes_per_second - own).max(0.0), device.written_bytes_per_second),
        };
        let all = device.bytes_per_second();
        let named = read.min(named_read) + written.min(named_written);
        let unnamed = others.unreadable > 0 || others.hidden.is_some();
        Some(if unnamed && read >= UNNAMED * all { read.max(named) } else { named })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use linerate_model::verdict::Route;

    pub(crate) fn program(pid: u32, name: &str, cpus: f64, read: f64) -> ProcessUse {
        let (name, user_cpus, read_bytes_per_second) = (name.into(), cpus, read);
        ProcessUse { pid, name, cpus, user_cpus, read_bytes_per_second, ..ProcessUse::default() }
    }

    pub(crate) fn core(core: u32, user: f64, system: f64) -> CoreUse {
        CoreUse { core, user, system, idle: (1.0 - user - system).max(0.0), ..CoreUse::default() }
    }

    /// Two CPUs: linerate's worker has a fifth of the first, in system calls, and a hog the rest of it.
    pub(crate) fn beside_a_hog() -> Measurement {
        Measurement {
            cpu_by_core: vec![core(0, 0.78, 0.22), core(1, 0.02, 0.08)],
            cpu_share: CpuShare { linerate: 0.11, kernel: 0.04, others: 0.4 },
            workers: vec![WorkerResult { core: Some(0), cpu_share: 0.22, ..WorkerResult::default() }],
            others: Some(OthersUse {
                processes: vec![program(1673, "rustc", 0.77, 0.0), program(9, "sh", 0.03, 0.0)],
                own_user_share: 0.02,
                ..OthersUse::default()
            }),
            ..Measurement::default()
        }
    }

    #[test]
    fn what_others_took_of_each_cpu_is_their_time_where_programs_ran() {
        let shares = beside_a_hog().others_by_cpu();
        assert!((shares[0].1 - 0.78).abs() < 0.01 && shares[1].1 < 0.03, "{shares:?}");
        let evidence = beside_a_hog().evidence();
        let taken = evidence.others_on_cpu().expect("a hog");
        assert!(taken.cpu == Some(0) && (taken.share - 0.78).abs() < 0.01, "{taken:?}");
    }

    /// `dd` works in the kernel on the first CPU, a compiler in its own code on the second.
    #[test]
    fn work_in_the_kernel_is_others_where_they_had_the_kernel_work() {
        let processes = ["dd", "cc"].map(|name| program(7, name, if name == "dd" { 0.9 } else { 0.3 }, 0.0));
        let [dd, cc] = processes;
        let found = Measurement {
            cpu_by_core: vec![core(0, 0.1, 0.8), core(1, 0.3, 0.0)],
            cpu_share: CpuShare { others: 0.6, ..CpuShare::default() },
            others: Some(OthersUse {
                processes: vec![ProcessUse { user_cpus: 0.1, ..dd }, cc],
                ..OthersUse::default()
            }),
            ..Measurement::default()
        };
        let shares = found.others_by_cpu();
        assert!((shares[0].1 - 0.9).abs() < 1e-9 && (shares[1].1 - 0.3).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn what_no_program_did_is_the_kernels() {
        let core = CoreUse { user: 0.3, system: 0.5, softirq: 0.1, idle: 0.1, ..CoreUse::default() };
        let processes = ProcessesUse {
            seconds: 1.0,
            others: vec![program(1673, "nginx", 0.25, 0.0)],
            visible_user_cpus: 0.3,
            ..ProcessesUse::default()
        };
        let found = Measurement { cpu_by_core: vec![core], ..Measurement::default() }.beside(0.2, &processes);
        let CpuShare { linerate, kernel, others } = found.cpu_share;
        assert!((linerate - 0.2).abs() < 1e-9 && (kernel - 0.45).abs() < 1e-9 && others == 0.25, "{kernel}");
        assert_eq!(found.others.expect("looked at").processes[0].name, "nginx");
    }

    #[test]
    fn the_busiest_are_named_and_never_more_than_three() {
        let of = |processes: Vec<ProcessUse>| OthersUse { processes, ..OthersUse::default() };
        let named = |of: OthersUse| of.named(1.0, |one| one.cpus);
        assert_eq!(named(of(Vec::new())), "");
        let most = vec![program(7, "cc", 0.2, 0.0), program(1673, "rustc", 0.77, 0.0)];
        assert_eq!(named(of(most)), ", most of it rustc (pid 1673)");
        assert_eq!(named(of(vec![program(7, "cc", 0.2, 0.0)])), ", cc (pid 7) among them");
        let many = (1..6).map(|pid| program(pid, "cc", 0.2, 0.0)).collect();
        assert_eq!(named(of(many)), ", cc (pid 1), cc (pid 2) and cc (pid 3) among them");
    }

    #[test]
    fn programs_that_are_busy_before_are_said_at_once() {
        let of = |cpus, seconds| {
            let others = vec![program(1673, "rustc", cpus, 0.0)];
            busy_before(&ProcessesUse { seconds, others, ..ProcessesUse::default() }, 2)
        };
        let said = of(0.9, 0.1).expect("45 %");
        assert!(
            said.starts_with("other programs use 45 % of the CPUs now, most of it rustc (pid 1673): "),
            "{said}"
        );
        assert_eq!((of(0.5, 0.1), of(1.8, 0.02)), (None, None));
    }

    #[test]
    fn those_with_most_cpu_time_and_those_that_the_storage_moves_for_are_kept_and_cannot_act_on_a_screen() {
        let mut others: Vec<ProcessUse> =
            (1..9).map(|pid| program(pid, "cc", 1.0 / f64::from(pid), 0.0)).collect();
        others.push(program(20, "dd\u{1b}[2J", 0.01, 5e8));
        let all = ProcessesUse { others, ..ProcessesUse::default() };
        let kept = OthersUse::of(&all, &[]).processes;
        assert_eq!(kept.iter().map(|one| one.pid).collect::<Vec<_>>(), [1, 2, 3, 20]);
        assert!(!kept[3].name.contains('\u{1b}'));
    }

    /// A disk that gives 500 MB/s, 300 of them to a worker.
    fn shared_disk(others: OthersUse) -> Measurement {
        Measurement {
            bytes_per_second: 300e6,
            workers: vec![WorkerResult {
                source: "disk:vda".into(),
                bytes_per_second: 300e6,
                waiting_source: 0.8,
                queue_depth: 8,
                block_bytes: 1 << 20,
                ..WorkerResult::default()
            }],
            devices: vec![DeviceUse {
                name: "vda".into(),
                read_bytes_per_second: 500e6,
                operations_per_second: 500e6 / f64::from(1 << 20),
                queue_depth: 14.0,
                utilisation: 1.0,
                ..DeviceUse::default()
            }],
            others: Some(others),
            ..Measurement::default()
        }
    }

    #[test]
    fn a_reader_of_the_same_disk_is_known_by_its_bytes_or_by_those_that_are_nobodys() {
        let bytes = |others| shared_disk(others).evidence().disks[0].others_bytes_per_second;
        let reader = vec![program(7, "dd", 0.1, 200e6)];
        assert_eq!(bytes(OthersUse { processes: reader, ..OthersUse::default() }), Some(200e6));
        // All can be asked, and none of them read so much: what the file system reads beside is the flow's.
        assert_eq!(bytes(OthersUse::default()), Some(0.0));
        assert_eq!(bytes(OthersUse { unreadable: 3, ..OthersUse::default() }), Some(200e6));
        // A reader of another disk.
        let mut other =
            shared_disk(OthersUse { processes: vec![program(7, "dd", 0.1, 900e6)], ..OthersUse::default() });
        other.devices[0].read_bytes_per_second = 302e6;
        let evidence = other.evidence();
        assert_eq!(evidence.disks[0].others_bytes_per_second, Some(2e6));
        assert!(evidence.others_on_disks().is_empty() && evidence.route != Route::NetworkToDisks);
        // Of a slow disk in short windows the reads under way are a good part, whoever reads another one.
        (other.seconds, other.devices[0].read_bytes_per_second) = (0.9, 308e6);
        assert_eq!(other.evidence().disks[0].others_bytes_per_second, Some(0.0));
    }

    #[test]
    fn work_of_processes_that_cannot_be_seen_is_nobodys() {
        let cores = [CoreUse { user: 0.3, system: 0.6, softirq: 0.1, ..CoreUse::default() }];
        let hidden = ProcessesUse {
            visible_cpus: 0.4,
            hidden: Some(HiddenProcesses::OutsideContainer),
            ..ProcessesUse::default()
        };
        assert!((OthersUse::of(&hidden, &cores).hidden_cpu - 0.5).abs() < 1e-9);
        let seen = ProcessesUse { hidden: None, ..hidden };
        assert_eq!(OthersUse::of(&seen, &cores).hidden_cpu, 0.0);
    }
}
