//! What holds a running flow: what it knows of itself (its lanes' time) joined with what is seen of the machine (a [`Moment`]). Pure.
//!
//! Nothing is guessed: where the two do not tell it, `limit` is none and `limit_by` says what is missing.

use super::bottleneck::{self, Limit};
use super::model::{Disk, Flow, FlowLanes, FlowStage, Moment};

/// Lanes that wait this much of their time for one side are held by it.
const WAITING: f64 = 0.5;
/// A lane that works this much of its time has no time left.
const WORKING: f64 = 0.95;
/// Requests that wait at a disk on the average: at 1 it is never without work for long.
const ALWAYS_BUSY: f64 = 1.0;
/// Disks that move this share of the flow are those that it reads or writes.
const ITS_OWN: f64 = 0.5;

/// The flow with its limit, as the moment beside it shows.
pub fn judged(mut flow: Flow, moment: &Moment) -> Flow {
    (flow.limit, flow.limit_by) = match limit(&flow, moment) {
        Ok(Limit { what, rule }) => (Some(what), rule.into()),
        Err(missing) => (None, missing),
    };
    flow
}

/// What holds it and the rule; else what is missing to tell it.
fn limit(flow: &Flow, moment: &Moment) -> Result<Limit, String> {
    if let Some(what) = flow.held_by.clone() {
        return Ok(Limit { what, rule: "the flow's own count of what it left out, by stage" });
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
    if let Some(quota) = bottleneck::quota(&moment.cpus) {
        return Ok(quota);
    }
    match (flow.stage, &flow.lanes) {
        (FlowStage::Memory, _) => Err(
            "memory is what is measured: a core that waits for it counts as busy, so the kernel's counters cannot part the two".into(),
        ),
        (FlowStage::Wall, _) => Err("no frame is left out: the wall keeps its rate".into()),
        (_, Some(lanes)) => by_lanes(flow, lanes, moment),
        (FlowStage::Disk | FlowStage::Load, None) => by_disks(flow, moment),
        (FlowStage::Network | FlowStage::Path, None) => by_network(moment),
        (FlowStage::Step | FlowStage::Other, None) => Err("nothing is known of what this stage waits for".into()),
    }
}

/// Lanes say themselves what they wait for; the moment names the part.
fn by_lanes(flow: &Flow, lanes: &FlowLanes, moment: &Moment) -> Result<Limit, String> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let whose = if lanes.count == 1 { "the lane waits" } else { "the lanes wait" };
    if lanes.starved >= WAITING && lanes.starved >= lanes.blocked {
        let disk = busiest_disk(moment).map(|disk| format!(" ({})", described(disk))).unwrap_or_default();
        return Ok(Limit {
            what: format!("the disks: {whose} for them {} of the time{disk}", percent(lanes.starved)),
            rule: "lanes that have nothing to send for half of their time or more are held by what they read",
        });
    }
    if lanes.blocked >= WAITING {
        let part = network_part(moment).map(|part| format!(": {}", part.what)).unwrap_or_else(|| {
            ": no link and no core of this host is full, so the way there or the receiver".into()
        });
        return Ok(Limit {
            what: format!("the network: {whose} for it {} of the time{part}", percent(lanes.blocked)),
            rule: "lanes whose data is not taken for half of their time or more are held by the way to the receiver",
        });
    }
    if lanes.busiest >= WORKING {
        return Ok(Limit {
            what: format!("the processor: a lane works {} of the time on its core", percent(lanes.busiest)),
            rule: "a lane that works 95 % of its time waits for nobody: its core is full",
        });
    }
    // A reader's lane keeps its requests at the disk all the time, and works while they are there.
    if flow.stage == FlowStage::Disk {
        return by_disks(flow, moment);
    }
    if let Some(core) = bottleneck::cores(&moment.cpus) {
        return Ok(core);
    }
    Err(format!(
        "no one part: the lanes work {}, wait for the disks {} and for the network {} of the time, and none is half of it",
        percent(lanes.busy),
        percent(lanes.starved),
        percent(lanes.blocked)
    ))
}

/// Workers that keep requests at a disk: it is the disk, unless a core is full before.
fn by_disks(flow: &Flow, moment: &Moment) -> Result<Limit, String> {
    if let Some(core) = bottleneck::cores(&moment.cpus) {
        return Ok(core);
    }
    let moved: f64 = moment.disks.iter().filter(|disk| !disk.is_virtual).map(rate).sum();
    if moved < ITS_OWN * flow.bytes_per_second.unwrap_or(0.0) {
        return Err(
            "no disk of this host shows these bytes: they are of the page cache, of memory, of another host, or not yet in a moment"
                .into(),
        );
    }
    match busiest_disk(moment) {
        Some(disk) if disk.queue_depth.is_some_and(|depth| depth >= ALWAYS_BUSY) => Ok(Limit {
            what: format!("the disk: {}", described(disk)),
            rule: "a request or more waits at the disk all the time and no core is full: it answers no faster at this depth",
        }),
        Some(disk) => Err(format!(
            "{} is without a request for part of the time ({:.1} on the average), and no core is full",
            disk.name,
            disk.queue_depth.unwrap_or(0.0)
        )),
        None => Err("no disk of this host tells how many requests wait at it".into()),
    }
}

fn by_network(moment: &Moment) -> Result<Limit, String> {
    network_part(moment).ok_or_else(|| {
        "no link at 97 % and no core at 95 % here, nothing dropped; the other host's cores and what is between are not seen from here".into()
    })
}

/// What of this host holds a flow to the network.
fn network_part(moment: &Moment) -> Option<Limit> {
    let mut links = moment.nics.iter().flat_map(bottleneck::full_links);
    links
        .next()
        .or_else(|| bottleneck::cores(&moment.cpus))
        .or_else(|| bottleneck::drops(moment))
        .or_else(|| bottleneck::tcp(moment))
}

fn rate(disk: &Disk) -> f64 {
    disk.read.bytes_per_second.unwrap_or(0.0) + disk.write.bytes_per_second.unwrap_or(0.0)
}

/// The one with most requests waiting, of those that move something.
fn busiest_disk(moment: &Moment) -> Option<&Disk> {
    let moves = moment.disks.iter().filter(|disk| !disk.is_virtual && rate(disk) > 0.0);
    moves
        .filter(|disk| disk.queue_depth.is_some())
        .max_by(|a, b| a.queue_depth.unwrap_or(0.0).total_cmp(&b.queue_depth.unwrap_or(0.0)))
}

/// `sda works on 15.8 requests at a time, 0.61 ms each`.
fn described(disk: &Disk) -> String {
    let read = disk.read.bytes_per_second.unwrap_or(0.0) >= disk.write.bytes_per_second.unwrap_or(0.0);
    let way = if read { &disk.read } else { &disk.write };
    let depth = disk.queue_depth.unwrap_or(0.0);
    let each = way.latency_ms.map(|ms| format!(", {ms:.2} ms each")).unwrap_or_default();
    format!("{} works on {depth:.1} requests at a time{each}", disk.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Fact;
    use crate::watch::model::{Core, Cpus, DiskWay, Eight, Nic, Way};

    fn flow(stage: FlowStage, lanes: Option<FlowLanes>) -> Flow {
        Flow { stage, lanes, bytes_per_second: Some(500e6), ..Flow::default() }
    }

    fn lanes(busy: f64, starved: f64, blocked: f64) -> Option<FlowLanes> {
        Some(FlowLanes { count: 2, busy, starved, blocked, busiest: busy })
    }

    fn core(number: u32, busy: f64) -> Core {
        let eight = Eight { user: busy, idle: 1.0 - busy, ..Eight::default() };
        Core { number, eight: Some(eight), ..Core::default() }
    }

    fn disk(rate: f64, depth: f64) -> Disk {
        let read = DiskWay { bytes_per_second: Some(rate), latency_ms: Some(0.5), ..DiskWay::default() };
        Disk { name: "nvme0n1".into(), read, queue_depth: Some(depth), ..Disk::default() }
    }

    /// Two cores, one disk that gives what the flow has, no link full.
    fn moment(busy: f64, disk: Disk, share_of_link: f64) -> Moment {
        let send = Way { share_of_link: Some(share_of_link), ..Way::default() };
        let link = Fact::Known(25e9);
        Moment {
            interval_ms: 1000.0,
            cpus: Cpus { each: vec![core(0, busy), core(1, 0.2)], ..Cpus::default() },
            nics: vec![Nic { name: "eth0".into(), link_bits_per_second: link, send, ..Nic::default() }],
            disks: vec![disk],
            ..Moment::default()
        }
    }

    fn told(flow: Flow, moment: &Moment) -> String {
        let judged = judged(flow, moment);
        assert!(!judged.limit_by.is_empty(), "a rule, or what is missing: {judged:?}");
        judged.limit.unwrap_or_else(|| format!("none: {}", judged.limit_by))
    }

    #[test]
    fn starved_lanes_are_held_by_the_disks_and_blocked_ones_by_the_network() {
        let calm = moment(0.3, disk(500e6, 15.8), 0.4);
        let starved = told(flow(FlowStage::Path, lanes(0.1, 0.85, 0.05)), &calm);
        assert_eq!(
            starved,
            "the disks: the lanes wait for them 85 % of the time (nvme0n1 works on 15.8 requests at a time, 0.50 ms each)"
        );
        let blocked = lanes(0.1, 0.02, 0.88);
        let link = told(flow(FlowStage::Path, blocked), &moment(0.3, disk(500e6, 2.0), 0.981));
        assert_eq!(
            link,
            "the network: the lanes wait for it 88 % of the time: eth0 sends 98.1 % of its link of 25 Gb/s"
        );
        let core = told(flow(FlowStage::Path, blocked), &moment(0.99, disk(500e6, 2.0), 0.4));
        assert!(core.ends_with(": core 0 is 99 % busy"), "{core}");
        let elsewhere = told(flow(FlowStage::Network, blocked), &calm);
        assert!(elsewhere.contains("the way there or the receiver"), "{elsewhere}");
    }

    #[test]
    fn a_lane_without_rest_is_held_by_its_core_and_an_even_share_by_nothing() {
        let calm = moment(0.3, disk(500e6, 2.0), 0.4);
        let full = told(flow(FlowStage::Path, lanes(0.97, 0.01, 0.02)), &calm);
        assert_eq!(full, "the processor: a lane works 97 % of the time on its core");
        let even = told(flow(FlowStage::Path, lanes(0.4, 0.3, 0.3)), &calm);
        assert!(
            even.starts_with("none: no one part: the lanes work 40 %, wait for the disks 30 %"),
            "{even}"
        );
        let busy = told(flow(FlowStage::Path, lanes(0.4, 0.3, 0.3)), &moment(0.96, disk(500e6, 2.0), 0.4));
        assert_eq!(busy, "core 0 is 96 % busy", "the moment tells what the lanes do not");
    }

    #[test]
    fn a_disk_with_work_all_the_time_is_the_limit_of_what_reads_it() {
        let told_of = |busy, disk| told(flow(FlowStage::Disk, None), &moment(busy, disk, 0.0));
        assert_eq!(
            told_of(0.3, disk(500e6, 15.8)),
            "the disk: nvme0n1 works on 15.8 requests at a time, 0.50 ms each"
        );
        assert_eq!(told_of(0.97, disk(500e6, 15.8)), "core 0 is 97 % busy");
        assert!(told_of(0.3, disk(500e6, 0.4)).starts_with("none: nvme0n1 is without a request"));
        // The page cache answers: the disk moves a tenth of it.
        assert!(told_of(0.3, disk(50e6, 15.8)).starts_with("none: no disk of this host shows these bytes"));
        let mut loop_device = disk(500e6, 15.8);
        loop_device.is_virtual = true;
        assert!(
            told_of(0.3, loop_device).starts_with("none: no disk of this host"),
            "its bytes are another's"
        );
    }

    #[test]
    fn the_network_alone_names_what_this_host_sees_and_says_what_it_does_not() {
        let link = told(flow(FlowStage::Network, None), &moment(0.3, disk(0.0, 0.0), 0.98));
        assert_eq!(link, "eth0 sends 98.0 % of its link of 25 Gb/s");
        let nothing = told(flow(FlowStage::Network, None), &moment(0.3, disk(0.0, 0.0), 0.4));
        assert!(nothing.contains("the other host's cores"), "{nothing}");
    }

    #[test]
    fn what_cannot_be_told_says_why() {
        let calm = moment(0.3, disk(500e6, 15.8), 0.4);
        let still = Flow { bytes_per_second: Some(0.0), ..flow(FlowStage::Disk, None) };
        assert_eq!(told(still, &calm), "none: nothing has moved yet");
        assert!(told(flow(FlowStage::Disk, None), &Moment::default()).contains("first rates"));
        assert!(told(flow(FlowStage::Memory, None), &calm).contains("counts as busy"));
        assert_eq!(told(flow(FlowStage::Step, None), &calm), "none: no measurement runs");
        assert!(told(flow(FlowStage::Wall, None), &calm).contains("keeps its rate"));
        let wall = Flow { held_by: Some("disk sda does not follow".into()), ..flow(FlowStage::Wall, None) };
        assert_eq!(told(wall, &calm), "disk sda does not follow");
        let mut throttled = calm.clone();
        throttled.cpus.throttled_share = Some(0.4);
        assert!(told(flow(FlowStage::Disk, None), &throttled).contains("CPU quota"));
    }

    #[test]
    fn a_stage_of_a_later_version_is_still_a_flow() {
        let flow: Flow =
            serde_json::from_str(r#"{"command":"gpu","stage":"gpu","limit_by":"x"}"#).expect("a flow");
        assert_eq!(flow.stage, FlowStage::Other);
        assert_eq!(serde_json::to_value(FlowStage::Network).expect("JSON"), "network");
    }
}
