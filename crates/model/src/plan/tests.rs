//! Plans of machines that are written down here: small ones, uneven ones, large ones.

mod ceilings;
#[path = "../../../testing/src/plan_inputs.rs"]
mod inputs;

use super::*;
pub use inputs::{goal, paths, sources};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::{Disk, DiskKind, Machine, PciDevice, PciLink};
use linerate_testing::nic;

/// A machine that is not a guest: a guest's links are not believed.
fn machine(cpus: u32) -> Machine {
    Machine { virtualisation: Fact::Known("none".into()), ..linerate_testing::machine(cpus) }
}

fn pci(address: &str, parent: Option<&str>, class: u32, link: Option<(f64, u32)>) -> PciDevice {
    let link = link.map(|(gt_per_second, width)| PciLink { gt_per_second, width });
    PciDevice {
        address: address.into(),
        parent: parent.map(str::to_string),
        class: Fact::Known(class),
        vendor: Fact::unknown("not in this test"),
        device: Fact::unknown("not in this test"),
        driver: Fact::unknown("not in this test"),
        node: Fact::unknown("not in this test"),
        link: Fact::from_option(link, "no link shown"),
        link_max: Fact::from_option(link, "no link shown"),
        ..Default::default()
    }
}

fn disk(name: &str, kind: DiskKind, pci: Option<&str>, members: &[&str]) -> Disk {
    Disk {
        name: name.into(),
        kind,
        number: Fact::unknown("not in this test"),
        size_bytes: Fact::Known(1 << 40),
        model: Fact::unknown("not in this test"),
        rotational: Fact::Known(false),
        logical_block_bytes: Fact::Known(512),
        node: Fact::unknown("not in this test"),
        pci: pci.map(str::to_string),
        members: members.iter().map(|name| name.to_string()).collect(),
        backing_file: None,
        ..Default::default()
    }
}

const BRIDGE: u32 = 0x060400;
const ETHERNET: u32 = 0x020000;

fn resource<'a>(plan: &'a Plan, id: &str) -> &'a Resource {
    plan.resources.iter().find(|resource| resource.id == id).unwrap_or_else(|| panic!("no {id}"))
}

/// Source 0's resource leads over these to the sink (first successor at each step).
fn way(plan: &Plan) -> Vec<&str> {
    let mut at = &plan.resources[0];
    let mut ids = vec![at.id.as_str()];
    while let Some(next) = at.next.first() {
        at = resource(plan, next);
        ids.push(&at.id);
    }
    ids
}

fn cores_of(plan: &Plan) -> Vec<u32> {
    plan.workers.iter().map(|worker| worker.core).collect()
}

#[test]
fn one_file_to_loopback_is_one_worker_that_leaves_a_core_to_the_receiver() {
    let mut way_to_self = paths(1);
    way_to_self[0].resource = "nic:lo".into();
    way_to_self[0].nic = Some("lo".into());
    let plan = plan(&machine(2), &goal(), sources(1), way_to_self, true);
    assert_eq!(plan.workers.len(), 1);
    assert_eq!(
        (plan.workers[0].core, plan.workers[0].block_bytes, plan.workers[0].queue_depth),
        (0, 1 << 20, 8)
    );
    assert_eq!(plan.workers[0].share, 1.0);
    assert_eq!(spare_cores(&machine(2), &cores_of(&plan)), [1]);
    assert_eq!(way(&plan), ["disk:loop0", "memory", "cpu", "nic:lo", "receiver:peer"]);
    assert_eq!(resource(&plan, "nic:lo").why.as_deref(), Some("the host's own stack"));
    assert!(plan.ceiling.bytes_per_second.why().is_some(), "nothing has a data sheet here");
    assert_eq!(plan.pool_bytes, 16 << 20, "8 reads, and as many blocks that wait for the network");
    assert!(plan.registered && plan.notes.is_empty());
}

#[test]
fn workers_spread_over_physical_cores_first_and_stay_local() {
    let mut machine = machine(8);
    // Cores 0 to 3 are physical, 4 to 7 their second threads; even ones are node 0, odd ones node 1.
    for cpu in &mut machine.cpu.logical {
        cpu.siblings = Fact::Known(vec![cpu.id % 4, cpu.id % 4 + 4]);
        cpu.node = Fact::Known(cpu.id % 2);
    }
    let spread = plan(&machine, &goal(), sources(3), paths(2), false);
    let cores = |plan: &Plan| plan.workers.iter().map(|worker| worker.core).collect::<Vec<_>>();
    assert_eq!(cores(&spread), [0, 1, 2, 3, 4, 5]);
    let mut local = paths(2);
    local[0].node = Fact::Known(1);
    let mut near = sources(2);
    near[1].node = Fact::Known(0);
    let plan = plan(&machine, &goal(), near, local, false);
    let cores = cores(&plan);
    assert!([1, 3].contains(&cores[0]) && [1, 3].contains(&cores[2]), "NIC-local: {cores:?}");
    assert!([0, 2].contains(&cores[3]), "else on the disk's node: {cores:?}");
    assert_eq!(plan.workers[0].node, Fact::Known(1));
}

#[test]
fn only_allowed_cores_are_taken() {
    let mut machine = machine(8);
    machine.cpu.allowed = Fact::Known(vec![5, 6]);
    machine.cpu.logical[6].online = false;
    let plan = plan(&machine, &goal(), sources(4), paths(1), false);
    assert!(plan.workers.iter().all(|worker| worker.core == 5));
    assert_eq!(spare_cores(&machine, &cores_of(&plan)), [5]);
}

#[test]
fn unequal_nics_get_unequal_shares_and_an_unknown_one_makes_them_equal() {
    let mut machine = machine(4);
    machine.nics = vec![nic("eth0", Some(100), None), nic("eth1", Some(25), None)];
    let split = plan(&machine, &goal(), sources(2), paths(2), false);
    assert!((split.workers[0].share - 0.8).abs() < 1e-9 && (split.workers[1].share - 0.2).abs() < 1e-9);
    assert_eq!(
        split.workers[0].queue_depth, 5,
        "9 reads of a source, by Little's law, are divided over its workers"
    );
    assert_eq!(split.sources[0].queue_depth, 10);
    let eth1 = resource(&split, "nic:eth1");
    assert_eq!(eth1.rated, Some(25e9 / 8.0));
    assert_eq!(eth1.effective, Some(25e9 / 8.0 * 8948.0 / 9038.0));
    assert_eq!(eth1.origin, Origin::Effective);
    let both = resource(&split, "nic:eth0").capacity + eth1.capacity;
    assert!((both - 125e9 / 8.0 * 8948.0 / 9038.0).abs() < 2.0);
    assert_eq!(split.ceiling.likely_bytes_per_second, None, "the disk's rate is unknown");
    assert_eq!(split.ceiling.cut, ["nic:eth0", "nic:eth1"]);
    assert!((eth1.utilisation - 1.0).abs() < 1e-6);
    machine.nics[1].driver = Fact::Known("veth".into());
    let equal = plan(&machine, &goal(), sources(2), paths(2), false);
    assert!(equal.workers.iter().all(|worker| worker.share == 0.5));
    assert!(
        resource(&equal, "nic:eth1").why.as_deref().is_some_and(|why| why.contains("constant of the driver"))
    );
}

#[test]
fn the_pool_shrinks_to_memlock_depth_first_and_says_so() {
    let mut machine = machine(4);
    machine.kernel.memlock_bytes = Fact::Known(8 << 20);
    let shrunk = plan(&machine, &goal(), sources(2), paths(1), false);
    assert!(shrunk.registered && shrunk.pool_bytes <= 8 << 20);
    assert_eq!(shrunk.pool_wished_bytes, 32 << 20);
    assert_eq!((shrunk.workers[0].queue_depth, shrunk.workers[0].block_bytes), (2, 1 << 20));
    assert!(
        shrunk.notes[0].contains("shrank from 32 MiB to 8 MiB")
            && shrunk.notes[0].contains("ulimit -l 32768")
    );
    machine.kernel.memlock_bytes = Fact::Known(2 << 20);
    let small = plan(&machine, &goal(), sources(2), paths(1), false);
    assert_eq!((small.workers[0].queue_depth, small.workers[0].block_bytes), (2, 256 << 10));
    assert_eq!(small.sources[0].block_bytes, 256 << 10);
    machine.kernel.memlock_bytes = Fact::Known(64_000);
    let none = plan(&machine, &goal(), sources(2), paths(1), false);
    assert!(!none.registered, "64 kB hold no pool");
    assert_eq!(none.pool_bytes, 32 << 20, "unregistered buffers have no need to be small");
    assert!(
        none.notes[0].contains("not registered") && none.notes[0].contains("62.5 KiB"),
        "{:?}",
        none.notes
    );
}

#[test]
fn sixty_four_workers_on_two_cpus_with_little_memlock_degrade_in_steps() {
    let mut machine = machine(2);
    let many = Goal { workers: Some(64), ..goal() };
    machine.kernel.memlock_bytes = Fact::Known(64 << 20);
    let shrunk = plan(&machine, &many, sources(1), paths(1), false);
    assert_eq!(shrunk.workers.len(), 64);
    assert!(shrunk.registered && shrunk.pool_bytes <= 64 << 20, "{}", shrunk.pool_bytes);
    assert_eq!((shrunk.workers[0].queue_depth, shrunk.workers[0].block_bytes), (2, 256 << 10));
    assert!(shrunk.notes[0].contains("64 workers of eth0 share 2 CPUs"), "{:?}", shrunk.notes);
    assert!(shrunk.notes[1].contains("shrank from 256 MiB to 64 MiB"), "{:?}", shrunk.notes);
    assert!((shrunk.workers.iter().map(|worker| worker.share).sum::<f64>() - 1.0).abs() < 1e-9);
    machine.kernel.memlock_bytes = Fact::Known(8 << 20);
    let unregistered = plan(&machine, &many, sources(1), paths(1), false);
    assert!(!unregistered.registered);
    assert_eq!(unregistered.pool_bytes, 256 << 20, "bounded by what the plan says");
    assert!(unregistered.notes[1].contains("not registered"), "{:?}", unregistered.notes);
}

#[test]
fn one_volume_over_two_fast_nics_gets_workers_by_their_rate() {
    let mut machine = machine(32);
    machine.nics = vec![nic("eth0", Some(200), None), nic("eth1", Some(200), None)];
    let plan = plan(&machine, &goal(), sources(1), paths(2), false);
    assert_eq!(plan.workers.len(), 10, "200 Gb/s ÷ 42 Gb/s, twice");
    let mut cores = cores_of(&plan);
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 10, "a CPU each");
    assert_eq!(
        plan.worker_map(),
        [
            "eth0: 5 workers on CPUs 0, 1, 2, 3 and 4, from loop0",
            "eth1: 5 workers on CPUs 5, 6, 7, 8 and 9, from loop0"
        ]
    );
    assert!(plan.sources[0].queue_depth >= 56, "50 GB/s × 1.2 ms: {}", plan.sources[0].queue_depth);
    assert!(plan.notes.iter().any(|note| note.starts_with("5 workers on eth1")), "{:?}", plan.notes);
}

#[test]
fn the_pool_takes_at_most_a_tenth_of_the_memory() {
    let mut machine = machine(4);
    machine.memory.total_bytes = Fact::Known(1 << 30);
    let plan = plan(&machine, &goal(), sources(16), paths(4), false);
    assert!(plan.pool_bytes <= (1 << 30) / 10 && plan.pool_bytes > 0);
    assert!(plan.notes[0].contains("a tenth of the memory"), "{:?}", plan.notes);
}

#[test]
fn nvme_disks_have_their_links_and_a_volume_those_of_its_members() {
    let mut machine = machine(4);
    machine.pci = vec![
        pci("0000:00:01.0", None, BRIDGE, Some((8.0, 4))),
        pci("0000:01:00.0", Some("0000:00:01.0"), 0x010802, Some((8.0, 4))),
        pci("0000:00:02.0", None, BRIDGE, Some((16.0, 4))),
        pci("0000:02:00.0", Some("0000:00:02.0"), 0x010802, Some((16.0, 4))),
    ];
    machine.disks = vec![
        disk("nvme0n1", DiskKind::Nvme, Some("0000:01:00.0"), &[]),
        disk("nvme0n1p1", DiskKind::Partition, None, &["nvme0n1"]),
        disk("nvme1n1", DiskKind::Nvme, Some("0000:02:00.0"), &[]),
        disk("md0", DiskKind::Md, None, &["nvme0n1p1", "nvme1n1"]),
    ];
    let mut volume = sources(1);
    volume[0].resource = "disk:md0".into();
    let plan = plan(&machine, &goal(), volume, paths(1), false);
    assert_eq!(resource(&plan, "disk:md0").next, ["pcie:0000:01:00.0", "pcie:0000:02:00.0"]);
    let link = resource(&plan, "pcie:0000:01:00.0");
    assert_eq!(link.next, ["memory"], "the root port is the other end of the same link");
    assert_eq!(link.rated.map(f64::round), Some(3_938_461_538.0));
    assert_eq!(link.effective.map(f64::round), Some((3_938_461_538.461_538f64 * 256.0 / 280.0).round()));
    assert_eq!(plan.ceiling.cut, ["pcie:0000:01:00.0", "pcie:0000:02:00.0"]);
}

/// Two NICs of 100 Gb/s in a switch behind one uplink of gen 3 x16, a third NIC elsewhere.
fn switched(uplink: (f64, u32), downlink: (f64, u32)) -> Machine {
    let mut machine = machine(4);
    machine.pci = vec![
        pci("0000:00:01.0", None, BRIDGE, Some(uplink)),
        pci("0000:01:00.0", Some("0000:00:01.0"), BRIDGE, Some(uplink)),
        pci("0000:02:00.0", Some("0000:01:00.0"), BRIDGE, Some(downlink)),
        pci("0000:02:01.0", Some("0000:01:00.0"), BRIDGE, Some(downlink)),
        pci("0000:03:00.0", Some("0000:02:00.0"), ETHERNET, Some(downlink)),
        pci("0000:04:00.0", Some("0000:02:01.0"), ETHERNET, Some(downlink)),
    ];
    machine.nics =
        vec![nic("eth0", Some(100), Some("0000:03:00.0")), nic("eth1", Some(100), Some("0000:04:00.0"))];
    machine
}

#[test]
fn two_nics_behind_one_uplink_share_it() {
    let plan = plan(&switched((8.0, 16), (8.0, 16)), &goal(), sources(1), paths(2), false);
    let parts = "disk:loop0 memory cpu pcie:0000:01:00.0 pcie:0000:03:00.0 nic:eth0 receiver:peer";
    assert_eq!(way(&plan).join(" "), parts);
    let uplink = resource(&plan, "pcie:0000:01:00.0");
    assert_eq!(uplink.next, ["pcie:0000:03:00.0", "pcie:0000:04:00.0"]);
    assert_eq!(plan.ceiling.cut, ["pcie:0000:01:00.0"]);
    // 126 Gb/s × 256 / 276: completions feed a NIC that sends; a frame of 9014 bytes holds 8948 of payload.
    let likely = uplink.capacity;
    let expected = 15.753_846e9 * 256.0 / 276.0 * 8948.0 / 9014.0;
    assert!((likely - expected).abs() < 1e4, "{likely}");
    // At best in packets of 512 bytes, and with fewer headers in the frames.
    let ceiling = plan.ceiling.bytes_per_second.known().expect("a ceiling");
    assert!((ceiling - 15.753_846e9 * 512.0 / 532.0).abs() < 1e4, "{ceiling}");
    assert_eq!(plan.resources.iter().filter(|r| r.kind == ResourceKind::Pcie).count(), 3);
}

#[test]
fn a_synthetic_uplink_never_binds() {
    // A virtual switch of a cloud: its ports say 2.5 GT/s x1, its devices 16 GT/s x16.
    let plan = plan(&switched((2.5, 1), (16.0, 16)), &goal(), sources(1), paths(2), false);
    assert_eq!(plan.ceiling.cut, ["nic:eth0", "nic:eth1"]);
}

#[test]
fn integrated_endpoints_never_bind() {
    let mut machine = switched((8.0, 16), (2.5, 1));
    machine.nics[0].speed_bits_per_second = Fact::Known(10_000_000_000);
    machine.nics[1].pci = None;
    let on_chip = plan(&machine, &goal(), sources(1), paths(1), false);
    assert_eq!(on_chip.ceiling.cut, ["nic:eth0"], "an on-chip X722 shows 2.5 GT/s x1");
    let link = resource(&on_chip, "pcie:0000:03:00.0");
    assert!(
        link.origin == Origin::Unknown && link.why.as_deref().is_some_and(|why| why.contains("formality"))
    );
    // The same link is real where the card could do more in a better slot.
    machine.pci[4].link_max = Fact::Known(PciLink { gt_per_second: 8.0, width: 4 });
    let wrong_slot = plan(&machine, &goal(), sources(1), paths(1), false);
    assert_eq!(wrong_slot.ceiling.cut, ["pcie:0000:03:00.0"]);
    machine.pci[4].parent = None;
    let root = plan(&machine, &goal(), sources(1), paths(1), false);
    assert_eq!(root.ceiling.cut, ["nic:eth0"]);
}

#[test]
fn a_card_with_two_ports_is_one_link() {
    let mut machine = switched((8.0, 16), (8.0, 8));
    machine.pci[5] = pci("0000:03:00.1", Some("0000:02:00.0"), ETHERNET, Some((8.0, 8)));
    machine.nics[1].pci = Some("0000:03:00.1".into());
    let plan = plan(&machine, &goal(), sources(1), paths(2), false);
    let link = resource(&plan, "pcie:0000:03:00.0");
    assert_eq!(link.next, ["nic:eth0", "nic:eth1"]);
    assert_eq!(plan.ceiling.cut, ["pcie:0000:03:00.0"]);
}

#[test]
fn disk_and_nic_behind_one_uplink_do_not_share_a_direction() {
    let mut machine = switched((8.0, 8), (8.0, 8));
    machine.disks = vec![disk("loop0", DiskKind::Nvme, Some("0000:04:00.0"), &[])];
    machine.nics.pop();
    let plan = plan(&machine, &goal(), sources(1), paths(1), false);
    assert_eq!(plan.ceiling.cut, ["pcie:0000:04:00.0"], "writes to memory pay 24 bytes, completions 20");
    // Each way through the switch is a resource of its own: writes with 24 bytes of headers, completions with 20.
    let uplink =
        |id| resource(&plan, id).rated.zip(resource(&plan, id).effective).map(|(all, own)| own / all);
    let into = uplink("pcie:0000:01:00.0").expect("a rate");
    assert!((into - 256.0 / 280.0).abs() < 1e-9, "{into}");
    let out = uplink("pcie:0000:01:00.0/out").expect("a rate");
    assert!((out - 256.0 / 276.0).abs() < 1e-9, "{out}");
    let out = resource(&plan, "pcie:0000:01:00.0/out");
    let payload = out.effective.expect("a rate") * 8948.0 / 9014.0;
    assert!((out.capacity - payload).abs() < 1.0, "of the frames the payload");
}

#[test]
fn memory_by_its_clock_is_divided_by_the_touches() {
    let mut machine = machine(4);
    machine.memory.rated_bytes_per_second = Fact::Known(40e9);
    let direct = plan(&machine, &goal(), sources(1), paths(1), false);
    assert_eq!(resource(&direct, "memory").effective, Some(10e9));
    assert_eq!(direct.ceiling.cut, ["memory"]);
    let mut cached = sources(1);
    cached[0].direct = false;
    let cached = plan(&machine, &goal(), cached, paths(1), false);
    assert_eq!(resource(&cached, "memory").effective, Some(40e9 / 6.0));
}

#[test]
fn nothing_given_is_a_plan_of_nothing() {
    let plan = plan(&machine(1), &goal(), Vec::new(), Vec::new(), false);
    assert!(plan.workers.is_empty() && plan.pool_bytes == 0);
    let text = serde_json::to_string(&plan).expect("JSON");
    assert!(!text.contains("null"), "{text}");
}

#[test]
fn sources_that_go_nowhere_keep_their_depth_for_the_disk_stage() {
    let depth = |goal: &Goal| plan(&machine(1), goal, sources(1), Vec::new(), false).sources[0].queue_depth;
    assert_eq!(depth(&goal()), DEFAULT_QUEUE_DEPTH);
    let mut greedy = sources(1);
    (greedy[0].block_bytes, greedy[0].queue_depth) = (1 << 30, 1024);
    let fitted = plan(&machine(1), &goal(), greedy, Vec::new(), false);
    let source = &fitted.sources[0];
    assert!(source.block_bytes * u64::from(source.queue_depth) <= (16 << 30) / 10, "a tenth of the memory");
    assert!(fitted.workers.is_empty() && !fitted.notes.is_empty());
}

/// The graph of a flow that comes in is the other way round, and ends in a disk, or in memory where a CPU copies it.
#[test]
fn a_flow_that_comes_in_leads_from_its_sender_to_what_takes_it() {
    let mut far = paths(1);
    far[0].receiver = "sender:store7".into();
    let nic = far[0].resource.clone();
    let goal = |flow| Goal { flow, protocols: vec![Protocol::Tcp], ..goal() };
    let stored = plan(&machine(2), &goal(RunFlow::NetworkToDisk), sources(1), far.clone(), false);
    assert_eq!(way(&stored), ["sender:store7", &nic, "memory", "cpu", "disk:loop0"]);
    let thrown = plan(&machine(2), &goal(RunFlow::NetworkToMemory), vec![SourcePlan::memory()], far, false);
    assert_eq!(way(&thrown), ["sender:store7", &nic, "memory", "cpu"]);
    assert_eq!((stored.workers.len(), thrown.workers.len()), (1, 1));
    // DMA, a copy, and DMA again.
    let touches = |flow, sources: &[SourcePlan]| memory_touches(&goal(flow), sources, false, 1.0);
    assert_eq!(touches(RunFlow::NetworkToDisk, &stored.sources), 4.0);
    assert_eq!(touches(RunFlow::NetworkToMemory, &thrown.sources), 3.0);
    // What a disk of another host reads is copied out of a socket before it is copied into one.
    let remote: Vec<_> =
        sources(1).into_iter().map(|own| SourcePlan { received_by_tcp: true, ..own }).collect();
    assert_eq!(touches(RunFlow::DiskToNetwork, &sources(1)), 4.0);
    assert_eq!(touches(RunFlow::DiskToNetwork, &remote), 6.0);
}
