//! What is at its limit in a moment, by rules that are told with the answer. It is what one sees from outside: a run that measures tells more.

use super::model::{Cpus, Disk, Moment, Nic};

/// A link this full carries no more: the rest is lost to how packets fall.
const LINK_FULL: f64 = 0.97;
/// A core this busy is full.
const CORE_FULL: f64 = 0.95;
/// Another guest has this much of the processors.
const STOLEN: f64 = 0.05;
/// Mean requests waiting at a disk that is given all it can take.
const DEEP: f64 = 4.0;
/// … and this close to the best that it did in this watch.
const NEAR_BEST: f64 = 0.9;
/// Below this a disk's best says nothing about the disk.
const LEAST_BEST: f64 = 10e6;
/// Drops per second that are no accident.
const DROPPING: f64 = 10.0;
/// Share of segments that TCP sends again.
const RETRANSMITTING: f64 = 0.001;
/// All tasks wait for memory.
const STALLED: f64 = 0.1;

/// One thing at its limit, and the rule.
pub(super) struct Limit {
    pub what: String,
    pub rule: &'static str,
}

/// The bottleneck in one sentence, if there is one, and how it was told.
pub fn of(moment: &Moment) -> (Option<String>, String) {
    let mut limits: Vec<Limit> = moment.nics.iter().flat_map(full_links).collect();
    limits.extend(quota(&moment.cpus));
    limits.extend(memory(moment));
    limits.extend(cores(&moment.cpus));
    limits.extend(moment.disks.iter().filter(|disk| !disk.is_virtual).filter_map(deep_disk));
    limits.extend(drops(moment));
    limits.extend(tcp(moment));
    limits.extend(steal(&moment.cpus));
    if limits.is_empty() {
        let nothing =
            "no link at 97 %, no core at 95 %, no disk with a deep queue at its best rate, no drops";
        return (None, nothing.into());
    }
    let what: Vec<&str> = limits.iter().map(|limit| limit.what.as_str()).take(3).collect();
    let mut rules: Vec<&str> = limits.iter().map(|limit| limit.rule).take(3).collect();
    rules.dedup();
    (Some(what.join("; ")), rules.join("; "))
}

pub(super) fn full_links(nic: &Nic) -> Vec<Limit> {
    let link = nic.link_bits_per_second.known().copied().unwrap_or(0.0);
    let one = |(way, verb): (&super::model::Way, &str)| {
        let share = way.share_of_link.filter(|share| *share >= LINK_FULL)?;
        Some(Limit {
            what: format!("{} {verb} {:.1} % of its link of {} Gb/s", nic.name, share * 100.0, link / 1e9),
            rule: "a link at 97 % or above, with preamble, gap and checksum of each packet, is full",
        })
    };
    [(&nic.send, "sends"), (&nic.receive, "receives")].into_iter().filter_map(one).collect()
}

pub(super) fn quota(cpus: &Cpus) -> Option<Limit> {
    let share = cpus.throttled_share.filter(|share| *share >= 0.05)?;
    Some(Limit {
        what: format!("the CPU quota of this control group held it in {:.0} % of its periods", share * 100.0),
        rule: "a control group that is throttled in 5 % of its periods or more is held by its quota",
    })
}

pub(super) fn memory(moment: &Moment) -> Option<Limit> {
    let memory = moment.pressure.iter().find(|one| one.resource == "memory")?;
    let share = memory.full_share.filter(|share| *share >= STALLED)?;
    Some(Limit {
        what: format!("memory is short: nothing went on in {:.0} % of the time", share * 100.0),
        rule: "all tasks waited for memory in 10 % of the interval or more (PSI)",
    })
}

/// The fullest core; with most of its time in softirq it is the network's.
pub(super) fn cores(cpus: &Cpus) -> Option<Limit> {
    let busy = |core: &super::model::Core| core.eight.map_or(0.0, |eight| eight.busy());
    let full: Vec<_> = cpus.each.iter().filter(|core| busy(core) >= CORE_FULL).collect();
    let fullest = full.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let softirq = fullest.eight.is_some_and(|eight| eight.softirq + eight.irq >= 0.5);
    let work = if softirq { ", most of it with interrupts of the network and the disks" } else { "" };
    let what = match full.len() {
        1 => format!("core {} is {:.0} % busy{work}", fullest.number, busy(fullest) * 100.0),
        many if many == cpus.each.len() => format!("all {many} cores are busy"),
        many => format!(
            "{many} of {} cores are busy, core {} for {:.0} %{work}",
            cpus.each.len(),
            fullest.number,
            busy(fullest) * 100.0
        ),
    };
    Some(Limit { what, rule: "a core that is busy for 95 % of the interval or more is full" })
}

fn deep_disk(disk: &Disk) -> Option<Limit> {
    let depth = disk.queue_depth.filter(|depth| *depth >= DEEP)?;
    let best = disk.best_bytes_per_second.filter(|best| *best >= LEAST_BEST)?;
    let moved = disk.read.bytes_per_second? + disk.write.bytes_per_second?;
    (moved >= NEAR_BEST * best).then(|| Limit {
        what: format!("{} moves {:.0} MB/s with {depth:.0} requests waiting", disk.name, moved / 1e6),
        rule: "a disk with 4 requests or more waiting, within 10 % of the best rate that this watch saw of it, gives what it can",
    })
}

pub(super) fn drops(moment: &Moment) -> Option<Limit> {
    let worst = moment
        .drops
        .iter()
        // TCP's lines are of segments sent again, and have a rule of their own; “squeezed” loses nothing.
        .filter(|line| {
            line.layer != "TCP" && line.counter != "squeezed" && !line.counter.contains("squeezed")
        })
        .filter(|line| line.per_second.is_some_and(|rate| rate >= DROPPING))
        .max_by(|a, b| a.per_second.unwrap_or(0.0).total_cmp(&b.per_second.unwrap_or(0.0)))?;
    let place = worst.interface.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    Some(Limit {
        what: format!(
            "{}{place} drops {:.0} {} per second ({})",
            worst.layer,
            worst.per_second.unwrap_or(0.0),
            worst.unit,
            worst.counter
        ),
        rule: "a counter of drops that grows by 10 per second or more names the layer that cannot follow",
    })
}

pub(super) fn tcp(moment: &Moment) -> Option<Limit> {
    let tcp = &moment.tcp;
    if let Some(rate) = tcp.zero_windows_per_second.filter(|rate| *rate >= DROPPING) {
        return Some(Limit {
            what: format!("programs here read too slowly: TCP closed its window {rate:.0} times per second"),
            rule: "TCP announces a window of 0 where the receiving program does not keep up",
        });
    }
    let share = tcp.retransmit_share.filter(|share| *share >= RETRANSMITTING)?;
    // A handful of segments on an idle machine is nobody's bottleneck.
    tcp.retransmits_per_second.filter(|rate| *rate >= DROPPING)?;
    Some(Limit {
        what: format!("TCP sends {:.2} % of its segments again", share * 100.0),
        rule: "TCP that sends 0.1 % or more again is held by loss on the path",
    })
}

fn steal(cpus: &Cpus) -> Option<Limit> {
    let share = cpus.total.filter(|total| total.steal >= STOLEN)?.steal;
    Some(Limit {
        what: format!("the hypervisor gave {:.0} % of the processors' time to others", share * 100.0),
        rule: "5 % of stolen time or more is another guest's load",
    })
}
