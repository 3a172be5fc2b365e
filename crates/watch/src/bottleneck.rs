//! What is at its limit in a moment: the moment as evidence, and the judge's answer in words. It is what one
//! sees from outside: a run that measures tells more.
//!
//! What limits a running flow: what it knows of itself (its workers' time) joined with what is seen of the
//! machine (a [`Moment`]), and the judge's answer in words. Pure. Nothing is guessed: where the two do not tell it,
//! `limit` is none and `limit_by` says what is missing.

use crate::model::{Cpus, DiskRates, FlowStage, LiveFlow, Moment, NicRates};
use linerate_facts::printable::printable;
use linerate_facts::usage::CoreUse;
use linerate_model::verdict::{
    DiskEvidence, DropEvidence, Evidence, LeftOut, Limit, LinkEvidence, QuotaEvidence, Route, TcpEvidence,
    WorkerEvidence, judge,
};

/// Limits that are named at once, at most.
const MOST_NAMED: usize = 3;
/// A program that uses as much of a CPU is named beside CPUs that are full.
const MUCH_OF_A_CPU: f64 = 0.2;

/// The bottleneck in one sentence, if there is one, and the rule that says so.
pub fn bottleneck_of(moment: &Moment) -> (Option<String>, String) {
    let judged = judge(&evidence_of_moment(moment));
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
fn evidence_of_moment(moment: &Moment) -> Evidence {
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
    let core_use = |(core, eight): (u32, super::model::Eight)| {
        let super::model::Eight { user, nice, system, idle, iowait, irq, softirq, steal } = eight;
        CoreUse { core, user, nice, system, idle, iowait, irq, softirq, steal }
    };
    known.map(core_use).collect()
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

/// The flow with its limit, as the moment beside it shows.
pub fn judged_flow(mut flow: LiveFlow, moment: &Moment) -> LiveFlow {
    (flow.limit, flow.limit_by) = match limit_of_flow(&flow, moment) {
        Ok((what, rule)) => (Some(what), rule),
        Err(missing) => (None, missing),
    };
    flow
}

/// What limits it and the rule; else what is missing to tell it.
fn limit_of_flow(flow: &LiveFlow, moment: &Moment) -> Result<(String, String), String> {
    // A wall has asked the judge itself, and knows which disk or NIC it is.
    if let Some(what) = flow.held_by.clone() {
        return Ok((what, "the flow's own count of what it left out, by stage".into()));
    }
    if flow.stage == FlowStage::Step {
        return Err("no measurement runs".into());
    }
    if flow.bytes_per_second.is_none_or(|rate| rate <= 0.0) {
        return Err("nothing has moved yet".into());
    }
    if moment.interval_ms <= 0.0 {
        return Err("the machine's first rates come with the next second".into());
    }
    let judged = judge(&evidence_of_flow(flow, moment));
    match (judged.limit(), &judged.missing) {
        (Some(limit), _) => Ok((limit.to_string(), limit.rule())),
        (None, missing) => Err(missing.as_ref().map(ToString::to_string).unwrap_or_default()),
    }
}

/// What the flow knows of itself and the moment of the machine, together.
pub fn evidence_of_flow(flow: &LiveFlow, moment: &Moment) -> Evidence {
    let workers = flow.workers.map(|workers| WorkerEvidence {
        count: workers.count,
        busy: workers.busy,
        busiest: workers.busiest,
        waiting_source: workers.starved,
        waiting_sink: workers.blocked,
        paced: false,
    });
    Evidence {
        route: match flow.stage {
            _ if flow.workers.is_some_and(|workers| workers.incoming) => Route::NetworkToDisks,
            FlowStage::Memory => Route::Memory,
            FlowStage::Disk | FlowStage::Load => Route::Disks,
            FlowStage::Network => Route::Network,
            FlowStage::Path | FlowStage::Wall => Route::DisksToNetwork,
            FlowStage::Step | FlowStage::Other => Route::Unknown,
        },
        bytes_per_second: flow.bytes_per_second,
        // One that leaves frames out says so in `held_by`.
        left_out: (flow.stage == FlowStage::Wall).then(LeftOut::default),
        workers,
        devices: flow.devices.clone(),
        ..evidence_of_moment(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Core, Cpus, DiskRates, DiskWay, Eight, FlowWorkers, NicDirection, NicRates};
    use linerate_facts::fact::Fact;
    use linerate_machine::flow_devices::FlowDevices;
    use linerate_model::verdict::{LimitKind, QuotaEvidence};
    use linerate_testing::verdicts::{Situation, situations};
    use proptest::prelude::*;

    fn flow(stage: FlowStage, workers: Option<FlowWorkers>) -> LiveFlow {
        LiveFlow { stage, workers, bytes_per_second: Some(500e6), ..LiveFlow::default() }
    }

    fn workers(busy: f64, starved: f64, blocked: f64) -> Option<FlowWorkers> {
        Some(FlowWorkers { count: 2, busy, starved, blocked, busiest: busy, incoming: false })
    }

    fn core(number: u32, busy: f64) -> Core {
        let eight = Eight { user: busy, idle: 1.0 - busy, ..Eight::default() };
        Core { number, eight: Some(eight), ..Core::default() }
    }

    fn disk(rate: f64, depth: f64) -> DiskRates {
        let read = DiskWay { bytes_per_second: Some(rate), latency_ms: Some(0.5), ..DiskWay::default() };
        DiskRates { name: "nvme0n1".into(), read, queue_depth: Some(depth), ..DiskRates::default() }
    }

    /// Two cores, one disk that gives what the flow has, no link full.
    fn moment(busy: f64, disk: DiskRates, share_of_link: f64) -> Moment {
        let send = NicDirection { share_of_link: Some(share_of_link), ..NicDirection::default() };
        let link = Fact::Known(25e9);
        Moment {
            interval_ms: 1000.0,
            cpus: Cpus { each: vec![core(0, busy), core(1, 0.2)], ..Cpus::default() },
            nics: vec![NicRates {
                name: "eth0".into(),
                link_bits_per_second: link,
                send,
                ..NicRates::default()
            }],
            disks: vec![disk],
            ..Moment::default()
        }
    }

    fn limit_of_flow(flow: LiveFlow, moment: &Moment) -> String {
        let judged = judged_flow(flow, moment);
        assert!(!judged.limit_by.is_empty(), "a rule, or what is missing: {judged:?}");
        judged.limit.unwrap_or_else(|| format!("none: {}", judged.limit_by))
    }

    #[test]
    fn starved_workers_are_held_by_the_disks_and_blocked_ones_by_the_network() {
        let calm = moment(0.3, disk(500e6, 15.8), 0.4);
        let starved = limit_of_flow(flow(FlowStage::Path, workers(0.1, 0.85, 0.05)), &calm);
        assert_eq!(
            starved,
            "the disks: the workers wait for them 85 % of the time (nvme0n1 had 15.8 requests in \
             flight, 0.50 ms each)"
        );
        let blocked = workers(0.1, 0.02, 0.88);
        let link = limit_of_flow(flow(FlowStage::Path, blocked), &moment(0.3, disk(500e6, 2.0), 0.981));
        assert_eq!(
            link,
            "the network: the workers wait for it 88 % of the time: eth0 sends 98.1 % of its link of 25 Gb/s"
        );
        let core = limit_of_flow(flow(FlowStage::Path, blocked), &moment(0.99, disk(500e6, 2.0), 0.4));
        assert!(core.ends_with(": CPU 0 is 99 % busy"), "{core}");
        let elsewhere = limit_of_flow(flow(FlowStage::Network, blocked), &calm);
        assert!(elsewhere.contains("the way there or the receiver"), "{elsewhere}");
    }

    #[test]
    fn a_nic_that_the_flow_does_not_use_is_not_blamed() {
        let full = moment(0.3, disk(500e6, 2.0), 0.981);
        let using = |interface: &str| {
            let interfaces = [interface.to_string()].into();
            let devices = Some(FlowDevices { interfaces, ..FlowDevices::default() });
            limit_of_flow(LiveFlow { devices, ..flow(FlowStage::Path, workers(0.1, 0.02, 0.88)) }, &full)
        };
        assert!(using("eth0").ends_with("eth0 sends 98.1 % of its link of 25 Gb/s"));
        assert!(using("eth1").ends_with("the way there or the receiver"), "{}", using("eth1"));
    }

    #[test]
    fn a_worker_without_rest_is_held_by_its_core_and_an_even_share_by_nothing() {
        let calm = moment(0.3, disk(500e6, 2.0), 0.4);
        let full = limit_of_flow(flow(FlowStage::Path, workers(0.97, 0.01, 0.02)), &calm);
        assert_eq!(full, "the CPU: a worker works 97 % of the time on its CPU");
        let even = limit_of_flow(flow(FlowStage::Path, workers(0.4, 0.3, 0.3)), &calm);
        assert!(
            even.starts_with("none: no single limit: 40 % working, 30 % waiting for the disks"),
            "{even}"
        );
        let busy = limit_of_flow(
            flow(FlowStage::Path, workers(0.4, 0.3, 0.3)),
            &moment(0.96, disk(500e6, 2.0), 0.4),
        );
        assert_eq!(busy, "CPU 0 is 96 % busy", "the moment tells what the workers do not");
    }

    #[test]
    fn a_disk_with_work_all_the_time_is_the_limit_of_what_reads_it() {
        let at_disk = |busy, disk| limit_of_flow(flow(FlowStage::Disk, None), &moment(busy, disk, 0.0));
        assert_eq!(
            at_disk(0.3, disk(500e6, 15.8)),
            "the disk: nvme0n1 had 15.8 requests in flight, 0.50 ms each"
        );
        assert_eq!(at_disk(0.97, disk(500e6, 15.8)), "CPU 0 is 97 % busy");
        assert!(at_disk(0.3, disk(500e6, 0.4)).starts_with("none: nvme0n1 is without a request"));
        // The page cache answers: the disk moves a tenth of it.
        assert!(at_disk(0.3, disk(50e6, 15.8)).starts_with("none: no disk of this host shows these bytes"));
        let mut loop_device = disk(500e6, 15.8);
        loop_device.is_virtual = true;
        assert!(
            at_disk(0.3, loop_device).starts_with("none: no disk of this host"),
            "its bytes are another's"
        );
    }

    #[test]
    fn the_network_alone_names_what_this_host_sees_and_says_what_it_does_not() {
        let link = limit_of_flow(flow(FlowStage::Network, None), &moment(0.3, disk(0.0, 0.0), 0.98));
        assert_eq!(link, "eth0 sends 98.0 % of its link of 25 Gb/s");
        let nothing = limit_of_flow(flow(FlowStage::Network, None), &moment(0.3, disk(0.0, 0.0), 0.4));
        assert!(nothing.contains("the other host's CPUs"), "{nothing}");
    }

    #[test]
    fn what_is_unknown_says_why() {
        let calm = moment(0.3, disk(500e6, 15.8), 0.4);
        let still = LiveFlow { bytes_per_second: Some(0.0), ..flow(FlowStage::Disk, None) };
        assert_eq!(limit_of_flow(still, &calm), "none: nothing has moved yet");
        assert!(limit_of_flow(flow(FlowStage::Disk, None), &Moment::default()).contains("first rates"));
        assert!(limit_of_flow(flow(FlowStage::Memory, None), &calm).contains("counts as busy"));
        assert_eq!(limit_of_flow(flow(FlowStage::Step, None), &calm), "none: no measurement runs");
        assert!(limit_of_flow(flow(FlowStage::Wall, None), &calm).contains("keeps its rate"));
        let wall =
            LiveFlow { held_by: Some("disk sda does not follow".into()), ..flow(FlowStage::Wall, None) };
        assert_eq!(limit_of_flow(wall, &calm), "disk sda does not follow");
        let mut throttled = calm.clone();
        throttled.cpus.throttled_share = Some(0.4);
        assert!(limit_of_flow(flow(FlowStage::Disk, None), &throttled).contains("CPU quota"));
    }

    #[test]
    fn a_stage_of_a_later_version_is_still_a_flow() {
        let flow: LiveFlow =
            serde_json::from_str(r#"{"command":"gpu","stage":"gpu","limit_by":"x"}"#).expect("a flow");
        assert_eq!(flow.stage, FlowStage::Other);
        assert_eq!(serde_json::to_value(FlowStage::Network).expect("JSON"), "network");
    }

    /// A flow and a moment with what they can show of a situation.
    fn shown(evidence: &Evidence) -> (LiveFlow, Moment) {
        let workers = evidence.workers.unwrap_or_default();
        let workers = FlowWorkers {
            count: workers.count,
            busy: workers.busy,
            busiest: workers.busiest,
            starved: workers.waiting_source,
            blocked: workers.waiting_sink,
            incoming: false,
        };
        let throttled_share = evidence.quota.map(|quota| quota.throttled);
        let cpus = Cpus { throttled_share, ..Cpus::default() };
        let moment = Moment { interval_ms: 1000.0, cpus, ..Moment::default() };
        (flow(FlowStage::Network, Some(workers)), moment)
    }

    /// As the result of a run and the wall answer; the receiver is seen by them alone.
    #[test]
    fn the_panel_answers_as_the_judge_does() {
        for Situation { name, evidence, limited_by } in situations() {
            let used = evidence.quota.is_some_and(|quota| quota.used.is_some());
            let paced = evidence.workers.is_none_or(|workers| workers.paced);
            if evidence.receiver.is_some() || used || paced {
                continue;
            }
            let (flow, moment) = shown(&evidence);
            assert_eq!(judge(&evidence_of_flow(&flow, &moment)).kind(), limited_by, "{name}");
            assert_eq!(judged_flow(flow, &moment).limit.is_some(), limited_by.is_some(), "{name}");
            // Of the machine alone a moment knows the quota.
            let quota = limited_by == Some(LimitKind::Quota);
            assert_eq!(bottleneck_of(&moment).0.is_some(), quota, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_flow_is_judged_by_the_one_judge(
            throttled in 0.0f64..1.0, busiest in 0.0f64..1.0, starved in 0.0f64..1.0, blocked in 0.0f64..1.0,
        ) {
            let evidence = Evidence {
                route: Route::Network,
                bytes_per_second: Some(500e6),
                quota: Some(QuotaEvidence { throttled, used: None }),
                workers: Some(WorkerEvidence {
                    count: 2, busy: busiest, busiest, paced: false,
                    waiting_source: starved, waiting_sink: blocked,
                }),
                ..Evidence::default()
            };
            let (flow, moment) = shown(&evidence);
            prop_assert_eq!(evidence_of_flow(&flow, &moment), evidence);
        }
    }
}
