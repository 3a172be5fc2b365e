//! CPUs, threads and the quota of a control group as what limits a flow.

use super::super::evidence::{Evidence, QuotaEvidence};
use super::super::limit::Limit;
use super::super::thresholds::*;
use linerate_facts::usage::CoreUse;

/// All CPUs are full, and the flow's own work (its threads, interrupts, kernel threads) is the larger part.
pub(super) fn cpus_filled_by_flow(evidence: &Evidence) -> Option<Limit> {
    let all_full = !evidence.cpus.is_empty() && evidence.cpus.iter().all(is_full);
    (all_full && fill_cpus(evidence) == Some(true))
        .then(|| cpus_or_who_takes_them(evidence, |_| true))
        .flatten()
}

/// Full ones on which all its threads run and want more than they get; others may have the rest.
pub(super) fn cpus_of_starved_workers(evidence: &Evidence) -> Option<Limit> {
    let is_own = |cpu: &&CoreUse| evidence.worker_cpus.contains(&cpu.core);
    let own: Vec<&CoreUse> = evidence.cpus.iter().filter(is_own).collect();
    let wants = evidence.workers.is_some_and(|workers| workers.busy >= CPU_WANTED);
    let starves = wants && !own.is_empty() && own.iter().all(|cpu| is_full(cpu));
    // Threads that always run or wait for a CPU lack nothing else, also where that CPU rests while they are moved.
    let waiting = evidence.program.as_ref().map_or(0.0, |program| program.waiting_cpu);
    let works = evidence.workers.map_or(0.0, |workers| workers.busy);
    let lacks_cpus = waiting >= CPU_OF_OTHERS && works + waiting >= THREAD_FULL;
    (starves || lacks_cpus).then(|| full_or_who_takes_them(evidence, own)).flatten()
}

/// The flow's own work is the larger part of what the CPUs do; none where that is not known.
fn fill_cpus(evidence: &Evidence) -> Option<bool> {
    let users = evidence.cpu_users?;
    let flow = users.own + users.kernel;
    Some(flow >= CPU_OF_FLOW * (flow + users.others))
}

/// Full CPUs that the flow needs: of many, others are full of other programs' work.
pub(super) fn cpus_of_flow(evidence: &Evidence) -> Option<Limit> {
    cpus_or_who_takes_them(evidence, |cpu| is_needed(evidence, cpu))
}

/// One of its threads is on this CPU and wants more of it; or it works for the kernel, and the flow makes as much
/// of such work (interrupts of its NIC, kernel threads, a receiver that runs here). Where it is not known on which
/// CPUs its threads run, one that is full is theirs only where most are.
fn is_needed(evidence: &Evidence, cpu: &CoreUse) -> bool {
    let own = &evidence.worker_cpus;
    let interrupts = cpu.irq + cpu.softirq;
    let for_kernel = match evidence.cpu_users {
        Some(users) => {
            let makes_as_much = users.kernel * evidence.cpus.len() as f64 >= CPU_OF_FLOW;
            makes_as_much && cpu.system + interrupts >= CPU_OF_FLOW * cpu.busy()
        }
        None => interrupts >= MOSTLY_INTERRUPTS,
    };
    let wants = evidence.workers.is_none_or(|workers| workers.busiest >= CPU_WANTED);
    let full = || evidence.cpus.iter().filter(|cpu| is_full(cpu)).count();
    let likely = || 2 * full() >= evidence.cpus.len() && fill_cpus(evidence) != Some(false);
    for_kernel || own.contains(&cpu.core) && wants || own.is_empty() && likely()
}

/// Full CPUs of which the hypervisor gave a large part to others are no longer this host's to fill, and those of which
/// other programs have a large part are full by their work, and not by the flow's alone.
fn cpus_or_who_takes_them(evidence: &Evidence, which: impl Fn(&CoreUse) -> bool) -> Option<Limit> {
    let full = evidence.cpus.iter().filter(|cpu| is_full(cpu) && which(cpu)).collect();
    full_or_who_takes_them(evidence, full)
}

fn full_or_who_takes_them(evidence: &Evidence, full: Vec<&CoreUse>) -> Option<Limit> {
    let mean =
        |of: &dyn Fn(&CoreUse) -> f64| full.iter().map(|cpu| of(cpu)).sum::<f64>() / full.len().max(1) as f64;
    let (stolen, others) = (mean(&|cpu| cpu.steal), mean(&|cpu| evidence.others_of(cpu)));
    if stolen >= CPU_OF_OTHERS {
        let most = full.iter().max_by(|a, b| a.steal.total_cmp(&b.steal))?;
        return Some(Limit::Steal { cpu: most.core, share: most.steal });
    }
    if others >= CPU_OF_OTHERS {
        let fullest =
            full.iter().max_by(|a, b| evidence.others_of(a).total_cmp(&evidence.others_of(b)))?.core;
        return Some(Limit::Others { full: full.len(), fullest, share: others });
    }
    busy_cpus_limit(evidence, &full)
}

pub(super) fn quota(quota: QuotaEvidence) -> Option<Limit> {
    let used = quota.used.filter(|used| *used >= QUOTA_USED);
    let limits = quota.throttled >= QUOTA_THROTTLED || used.is_some();
    limits.then_some(Limit::Quota { throttled: quota.throttled, used: quota.used })
}

pub(super) fn threads(evidence: &Evidence) -> Option<Limit> {
    let busiest = evidence.workers.map(|workers| workers.busiest).filter(|share| is_full_thread(*share));
    let own = || evidence.own_cpu.filter(|share| *share >= OWN_CPU_FULL);
    busiest.map(|share| Limit::Thread { share }).or_else(|| own().map(|share| Limit::OwnCpu { share }))
}

/// A thread that has no time left.
pub fn is_full_thread(share: f64) -> bool {
    share >= THREAD_FULL
}

/// A CPU that has no time left. All classes 0 is a CPU of which nothing was read.
pub fn is_full(cpu: &CoreUse) -> bool {
    let known = cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq + cpu.steal > 0.0;
    known && cpu.busy() >= CPU_FULL
}

/// The fullest CPU that has no time left and spends most of it with interrupts; none: there is none.
pub fn full_of_interrupts(cpus: &[CoreUse]) -> Option<(u32, f64)> {
    let of_interrupts = |cpu: &&CoreUse| is_full(cpu) && cpu.softirq + cpu.irq >= MOSTLY_INTERRUPTS;
    let fullest = cpus.iter().filter(of_interrupts).max_by(|a, b| a.busy().total_cmp(&b.busy()))?;
    Some((fullest.core, fullest.busy()))
}

/// A CPU spends most of its time with interrupts and has next to none left: they come in bursts, and the flow waits for
/// them though it is not full all the time.
pub fn is_nearly_full_of_interrupts(cpu: &CoreUse) -> bool {
    cpu.busy() >= THREAD_FULL && cpu.softirq + cpu.irq >= MOSTLY_INTERRUPTS
}

/// The hypervisor ran others on it.
pub fn is_stolen(cpu: &CoreUse) -> bool {
    cpu.steal >= STOLEN
}

pub(super) fn cpus(evidence: &Evidence, which: impl Fn(&CoreUse) -> bool) -> Option<Limit> {
    let full: Vec<&CoreUse> = evidence.cpus.iter().filter(|cpu| is_full(cpu) && which(cpu)).collect();
    busy_cpus_limit(evidence, &full)
}

fn busy_cpus_limit(evidence: &Evidence, full: &[&CoreUse]) -> Option<Limit> {
    let fullest = full.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()))?;
    let (of, users) = (evidence.cpus.len(), evidence.cpu_users);
    Some(Limit::Cpus { full: full.len(), of, fullest: **fullest, users })
}

pub(super) fn steal(all: &[CoreUse], least: f64) -> Option<Limit> {
    let most = all.iter().filter(|cpu| cpu.steal >= least).max_by(|a, b| a.steal.total_cmp(&b.steal))?;
    Some(Limit::Steal { cpu: most.core, share: most.steal })
}
