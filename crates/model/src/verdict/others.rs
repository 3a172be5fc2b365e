//! What other programs took of the CPUs and the disks that a flow needs, where that can explain a part of its rate.

use super::evidence::{Evidence, Route};
use super::thresholds::{CPU_NEARLY_FULL, CPU_OF_FLOW, OTHERS_EXPLAIN};
use linerate_facts::usage::CoreUse;

/// CPU time that others took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OthersOnCpu {
    /// Share of that CPU, or of all.
    pub share: f64,
    /// One that the flow needs; none: of all CPUs.
    pub cpu: Option<u32>,
    /// CPUs of the host.
    pub of: usize,
}

/// Bytes that others had a disk move.
#[derive(Clone, Debug, PartialEq)]
pub struct OthersOnDisk {
    pub name: String,
    pub bytes_per_second: f64,
    /// Of all that the disk moved.
    pub share: f64,
    /// Requests in the disk beyond those that the flow keeps in it.
    pub requests: Option<f64>,
}

impl Evidence {
    /// Share of a CPU that other programs used. Where that was not counted for each CPU: what ran there in programs,
    /// parted as their time on all CPUs is.
    pub fn others_of(&self, cpu: &CoreUse) -> f64 {
        let counted = self.others_by_cpu.iter().find(|(core, _)| *core == cpu.core).map(|(_, share)| *share);
        let parted = || {
            let users = self.cpu_users?;
            let programs = users.own + users.others;
            (programs > 0.0).then(|| (cpu.user + cpu.nice) * users.others / programs)
        };
        counted.or_else(parted).unwrap_or(0.0)
    }

    /// What others took of the CPUs that the flow needs, while those had next to nothing left.
    pub fn others_on_cpu(&self) -> Option<OthersOnCpu> {
        let (of, nearly_full) = (self.cpus.len(), |cpu: &&CoreUse| cpu.busy() >= CPU_NEARLY_FULL);
        // Where each is, so is each that the flow needs; else those of its threads, and of the kernel's work for it.
        let count = self.cpus.iter().filter(nearly_full).count();
        let all_are = count == of;
        // Where it is not known on which its threads run, one that is full is theirs only where most are.
        let likely = self.worker_cpus.is_empty() && 2 * count >= of;
        let own = |cpu: &CoreUse| likely || self.worker_cpus.contains(&cpu.core);
        let makes_as_much = self.cpu_users.is_none_or(|users| users.kernel * of as f64 >= CPU_OF_FLOW);
        let of_kernel =
            |cpu: &CoreUse| makes_as_much && cpu.system + cpu.irq + cpu.softirq >= CPU_OF_FLOW * cpu.busy();
        let needed = self.cpus.iter().filter(|cpu| all_are || own(cpu) || of_kernel(cpu));
        let taken = needed.filter(nearly_full).map(|cpu| (self.others_of(cpu), cpu.core));
        let most = taken.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(share, _)| *share >= OTHERS_EXPLAIN);
        let mean_busy = self.cpus.iter().map(CoreUse::busy).sum::<f64>() / of.max(1) as f64;
        let all = self.cpu_users.map(|users| users.others).filter(|share| *share >= OTHERS_EXPLAIN);
        let all = all.filter(|_| mean_busy >= CPU_NEARLY_FULL);
        match (most, all) {
            // Of several CPUs that are as full, naming one says no more than naming all.
            (Some((share, cpu)), all) if all.is_none_or(|all| share >= 1.5 * all) => {
                Some(OthersOnCpu { share, cpu: Some(cpu), of })
            }
            (_, all) => all.map(|share| OthersOnCpu { share, cpu: None, of }),
        }
    }

    /// What others took of the flow's disks, where the flow waited for them.
    pub fn others_on_disks(&self) -> Vec<OthersOnDisk> {
        let waits = self.workers.is_none_or(|workers| match self.route {
            Route::NetworkToDisks => workers.waiting_sink >= OTHERS_EXPLAIN,
            _ => workers.waiting_source >= OTHERS_EXPLAIN,
        });
        let taken = self.disks.iter().filter(|_| waits).filter_map(|disk| {
            let bytes_per_second = disk.others_bytes_per_second?;
            let share = bytes_per_second / disk.bytes_per_second;
            let beyond = disk.queue_depth.zip(disk.asked_depth).map(|(depth, asked)| depth - asked);
            let requests = beyond.filter(|requests| *requests >= 1.0);
            let name = disk.name.clone();
            (share >= OTHERS_EXPLAIN).then_some(OthersOnDisk { name, bytes_per_second, share, requests })
        });
        taken.collect()
    }

    /// What others took can explain a part of the rate that is worth a word.
    pub fn others_explain(&self) -> bool {
        self.others_on_cpu().is_some() || !self.others_on_disks().is_empty()
    }

    /// CPUs were busy with work of which nobody can see whose it is, and had next to nothing left: the flow's own part
    /// in that is not known.
    pub fn cpu_is_hidden(&self) -> bool {
        let mean_busy = self.cpus.iter().map(CoreUse::busy).sum::<f64>() / self.cpus.len().max(1) as f64;
        mean_busy >= CPU_NEARLY_FULL && self.hidden_cpu.is_some_and(|share| share >= OTHERS_EXPLAIN)
    }
}
