//! What is at its limit in a moment: the moment as evidence, and the judge's answer in words. It is what one
//! sees from outside: a run that measures tells more.

use super::model::{Cpus, DiskRates, Moment, NicRates};
use linerate_facts::printable::printable;
use linerate_facts::usage::CoreUse;
use linerate_model::verdict::{
    DiskEvidence, DropEvidence, Evidence, Limit, LinkEvidence, QuotaEvidence, TcpEvidence, judge,
};

/// Limits that are named at once, at most.
const MOST_NAMED: usize = 3;
/// A program that uses as much of a CPU is named beside CPUs that are full.
const MUCH_OF_A_CPU: f64 = 0.2;

/// The bottleneck in one sentence, if there is one, and the rule that says so.
pub fn of(moment: &Moment) -> (Option<String>, String) {
    let judged = judge(&evidence(moment));
    if let Some(missing) = judged.missing {
        return (None, missing.to_string());
    }
    let named = || judged.limits.iter().take(MOST_NAMED);
    let what: Vec<String> = named().map(|limit| format!("{limit}{}", by_whom(limit, moment))).collect();
    let mut rules: Vec<String> = named().map(|limit| limit.rule()).collect();
    rules.dedup();
    (Some(what.join("; ")), rules.join("; "))
}

/// The program with most CPU time, of CPUs that are full.
fn by_whom(limit: &Limit, moment: &Moment) -> String {
    let Limit::Cpus { .. } = limit else { return String::new() };
    let processes = moment.processes.busiest_by_cpu();
    let busiest = processes.first().and_then(|one| Some((printable(&one.name), one.pid, one.cpus?)));
    let much = busiest.filter(|(_, _, cpus)| *cpus >= MUCH_OF_A_CPU);
    much.map_or_else(String::new, |(name, pid, cpus)| {
        format!(" (the busiest program is {name}, pid {pid}: {:.0} % of a CPU)", cpus * 100.0)
    })
}

/// What a moment shows of the machine. No flow is in it.
pub(crate) fn evidence(moment: &Moment) -> Evidence {
    let memory = moment.pressure.iter().find(|one| one.resource == "memory");
    Evidence {
        quota: moment.cpus.throttled_share.map(|throttled| QuotaEvidence { throttled, used: None }),
        cpus: cpus(&moment.cpus),
        memory_stalled: memory.and_then(|memory| memory.full_share),
        links: moment.nics.iter().flat_map(links).collect(),
        // Those of virtual disks are another's.
        disks: moment.disks.iter().filter(|disk| !disk.is_virtual).map(disk).collect(),
        drops: drops(moment),
        tcp: TcpEvidence {
            zero_windows_per_second: moment.tcp.zero_windows_per_second,
            retransmits_per_second: moment.tcp.retransmits_per_second,
            retransmit_share: moment.tcp.retransmit_share,
            ..TcpEvidence::default()
        },
        ..Evidence::default()
    }
}

fn cpus(cpus: &Cpus) -> Vec<CoreUse> {
    let known = cpus.each.iter().filter_map(|core| Some((core.number, core.eight?)));
    let one = |(core, eight): (u32, super::model::Eight)| CoreUse {
        core,
        user: eight.user,
        nice: eight.nice,
        system: eight.system,
        idle: eight.idle,
        iowait: eight.iowait,
        irq: eight.irq,
        softirq: eight.softirq,
        steal: eight.steal,
    };
    known.map(one).collect()
}

fn links(nic: &NicRates) -> impl Iterator<Item = LinkEvidence> {
    let bits_per_second = nic.link_bits_per_second.known().copied().unwrap_or(0.0);
    let one = move |(sends, share): (bool, Option<f64>)| {
        Some(LinkEvidence {
            nic: nic.name.clone(),
            sends,
            share: share?,
            bits_per_second,
            ..LinkEvidence::default()
        })
    };
    [(true, nic.send.share_of_link), (false, nic.receive.share_of_link)].into_iter().filter_map(one)
}

fn disk(disk: &DiskRates) -> DiskEvidence {
    let rate = |side: &super::model::DiskWay| side.bytes_per_second.unwrap_or(0.0);
    let (read, written) = (rate(&disk.read), rate(&disk.write));
    let side = if read >= written { &disk.read } else { &disk.write };
    DiskEvidence {
        name: disk.name.clone(),
        bytes_per_second: read + written,
        busy: disk.busy_share,
        queue_depth: disk.queue_depth,
        latency_seconds: side.latency_ms.map(|ms| ms / 1e3),
        best_bytes_per_second: disk.best_bytes_per_second,
        ..DiskEvidence::default()
    }
}

/// TCP's lines are of retransmissions, which are counted apart; “squeezed” loses nothing.
fn drops(moment: &Moment) -> Vec<DropEvidence> {
    let lost = moment.drops.iter().filter(|line| line.layer != "TCP" && !line.counter.contains("squeezed"));
    let one = |line: &super::model::DropLine| {
        Some(DropEvidence {
            layer: line.layer.clone(),
            interface: line.interface.clone(),
            counter: line.counter.clone(),
            unit: line.unit.clone(),
            per_second: line.per_second?,
        })
    };
    lost.filter_map(one).collect()
}
