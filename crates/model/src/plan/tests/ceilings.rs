//! `linerate plan` and `linerate run` solve one graph: over the same disks and NICs their ceilings are equal.

use super::{BRIDGE, ETHERNET, disk, goal, machine, paths, pci, resource, sources, switched};
use crate::plan::flow::{Flow, FlowEnd, Method, ends, plan_flow};
use crate::plan::parts::from_machine;
use crate::plan::{Bound, Goal, Plan, ResourceKind, plan};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::{Controller, ControllerKind, Disk, DiskKind, Machine, NumaNode, PciDevice};
use linerate_testing::nic;
use proptest::prelude::*;

/// The run's plan and the ceiling of the flow from all disks to all NICs; none where the machine lacks one.
fn both(machine: &Machine, protocol: Protocol) -> Option<(Plan, Bound)> {
    let mut parts = from_machine(machine);
    // A run measures what a byte costs the CPU and plans without the default; a cost that never binds stands for
    // that.
    parts.cpu_seconds_per_gb = Fact::Known(1e-9);
    let (from, to) = (ends(&parts, "disk").ok()?, ends(&parts, "nic").ok()?);
    let id = |end: &FlowEnd| match end {
        FlowEnd::Device(id) => id.clone(),
        FlowEnd::Memory => String::new(),
    };
    let mut own_sources = sources(from.len());
    for (source, end) in own_sources.iter_mut().zip(&from) {
        source.resource = id(end);
    }
    let mut own_paths = paths(to.len());
    for (path, end) in own_paths.iter_mut().zip(&to) {
        path.resource = id(end);
        path.nic = Some(path.resource.trim_start_matches("nic:").into());
        path.mtu = machine.nics[0].mtu.clone();
    }
    let mut goal = goal();
    goal.protocols = vec![protocol];
    // The method of the flow below.
    goal.zero_copy = Some(false);
    let run = plan(machine, &goal, own_sources, own_paths, false);
    let flow = Flow { from, to, volumes: Vec::new(), protocol, method: Method::Direct };
    Some((run, plan_flow(&parts, &flow).ceiling))
}

fn same(machine: &Machine, protocol: Protocol) -> Result<(), String> {
    let Some((run, planned)) = both(machine, protocol) else { return Ok(()) };
    let rate = |bound: &Bound| (bound.bytes_per_second.known().copied(), bound.likely_bytes_per_second);
    let mut cut: Vec<String> = planned.cut.iter().map(|id| folded(id)).collect();
    cut.dedup();
    if rate(&run.ceiling) == rate(&planned) && run.ceiling.cut == cut {
        return Ok(());
    }
    Err(format!("run {:?}, plan {planned:?}, {:#?}", run.ceiling, run.resources))
}

fn folded(id: &str) -> String {
    match id.split_once(':') {
        Some((word @ ("memory" | "cpu"), _)) => word.into(),
        _ => id.into(),
    }
}

/// Without a copy a byte crosses the memory bus twice, with one four times; which it will be is not known before.
#[test]
fn the_best_case_of_a_run_is_that_nothing_is_copied() {
    let machine = two_nodes(switched((32.0, 16), (32.0, 16)), 40e9);
    let best = |protocol, zero_copy, loopback| {
        let goal = Goal { protocols: vec![protocol], zero_copy, ..goal() };
        let run = plan(&machine, &goal, sources(1), paths(1), loopback);
        let memory = run.resources.iter().find(|part| part.kind == ResourceKind::Memory).expect("memory");
        (memory.best.expect("a best case"), memory.capacity)
    };
    let (copied, likely) = best(Protocol::Tcp, Some(false), false);
    assert_eq!(best(Protocol::Tcp, None, false), (2.0 * copied, likely));
    assert_eq!(best(Protocol::Udp, None, false), (copied, likely), "datagrams are copied");
    let [open, ruled_out] = [None, Some(false)].map(|zero_copy| best(Protocol::Tcp, zero_copy, true));
    assert_eq!(open, ruled_out, "loopback copies");
}

/// Two NICs behind a link that binds: a frame's headers cross it, too. `run` left them out, 4.4 % at this MTU.
#[test]
fn frame_headers_count_in_both_ceilings() {
    let mut machine = switched((8.0, 16), (8.0, 16));
    for nic in &mut machine.nics {
        nic.mtu = Fact::Known(1500);
    }
    machine.disks = vec![Disk { node: Fact::Known(0), ..disk("sda", DiskKind::Scsi, None, &[]) }];
    let (run, planned) = both(&machine, Protocol::Tcp).expect("disks and NICs");
    let expected = 15.753_846_153e9 * 256.0 / 276.0 * 1448.0 / 1514.0;
    let uplink = run.resources.iter().find(|part| part.id == "pcie:0000:01:00.0").expect("the uplink");
    assert!((uplink.capacity / expected - 1.0).abs() < 1e-6, "{} is not {expected}", uplink.capacity);
    for bound in [&run.ceiling, &planned] {
        assert_eq!(bound.cut, ["pcie:0000:01:00.0"]);
        assert_eq!(bound.likely_bytes_per_second, None, "the disk's rate is unknown");
    }
}

/// A SATA port stands between its disk and the controller's link in both.
#[test]
fn a_disk_port_is_on_the_way_of_both() {
    let mut machine = switched((8.0, 16), (8.0, 16));
    machine.pci.push(pci("0000:00:1f.2", None, 0x010601, None));
    let sata = |name: &str, port: &str| Disk {
        controller: Some(port.into()),
        ..disk(name, DiskKind::Scsi, Some("0000:00:1f.2"), &[])
    };
    machine.disks = vec![sata("sda", "ata1"), sata("sdb", "ata2")];
    machine.controllers = ["ata1", "ata2"].map(|name| port(name, 6_000_000_000)).to_vec();
    let (run, planned) = both(&machine, Protocol::Udp).expect("disks and NICs");
    assert_eq!(run.ceiling.bytes_per_second, Fact::Known(1.2e9));
    assert_eq!((&run.ceiling.cut, &run.ceiling), (&planned.cut, &planned));
    assert_eq!(resource(&run, "disk:sda").next, ["controller:ata1"]);
}

fn port(name: &str, bits: u64) -> Controller {
    Controller {
        name: name.into(),
        kind: ControllerKind::Sata,
        link_bits_per_second: Fact::Known(bits),
        ..Default::default()
    }
}

/// Memory of the NIC's node alone carries the flow: half of what a machine of two nodes has.
#[test]
fn nodes_bound_both_ceilings_alike() {
    let mut machine = two_nodes(switched((32.0, 16), (32.0, 16)), 40e9);
    machine.disks = vec![Disk { node: Fact::Known(1), ..disk("sda", DiskKind::Scsi, None, &[]) }];
    machine.nics.truncate(1);
    machine.nics[0].node = Fact::Known(0);
    let (run, planned) = both(&machine, Protocol::Tcp).expect("disks and NICs");
    assert_eq!(planned.cut, ["memory:0"]);
    assert_eq!(run.ceiling.cut, ["memory"]);
    assert_eq!(run.ceiling.bytes_per_second, Fact::Known(40e9 / 2.0 / 4.0));
    assert_eq!(run.ceiling.bytes_per_second, planned.bytes_per_second);
    assert!(run.resources.iter().all(|one| !one.id.starts_with("socket-link")), "{:#?}", run.resources);
    assert_eq!(resource(&run, "disk:sda").next, ["memory"], "past the link between the nodes");
}

fn two_nodes(mut machine: Machine, memory: f64) -> Machine {
    machine.memory.nodes.push(NumaNode { id: 1, ..NumaNode::default() });
    machine.memory.rated_bytes_per_second = Fact::Known(memory);
    machine
}

/// Two cards behind one switch: a NIC and a disk.
fn beside_each_other(nic: impl FnOnce(&mut PciDevice), drive: impl FnOnce(&mut PciDevice)) -> Machine {
    let mut machine = switched((8.0, 16), (8.0, 16));
    machine.nics.truncate(1);
    machine.pci[5] = pci("0000:04:00.0", Some("0000:02:01.0"), 0x010802, Some((8.0, 16)));
    machine.disks = vec![disk("nvme0n1", DiskKind::Nvme, Some("0000:04:00.0"), &[])];
    nic(&mut machine.pci[4]);
    drive(&mut machine.pci[5]);
    machine
}

/// The smaller packets count on a link that is shared: `plan` took the NIC's, `run` the disk's, each whose
/// device it met first.
#[test]
fn the_smaller_packets_count_on_a_shared_link() {
    for sizes in [[Some(512), Some(256)], [Some(256), Some(512)], [Some(256), None], [None, Some(256)]] {
        let set = |bytes: Option<u32>| {
            move |card: &mut PciDevice| card.express.max_payload_bytes = Fact::from_option(bytes, "not read")
        };
        let machine = beside_each_other(set(sizes[0]), set(sizes[1]));
        let least = sizes.map(|bytes| f64::from(bytes.unwrap_or(256))).into_iter().fold(512.0, f64::min);
        let (run, planned) = both(&machine, Protocol::Tcp).expect("a disk and a NIC");
        let link = resource(&run, "pcie:0000:01:00.0").capacity;
        let expected = 16e9 * 128.0 / 130.0 * least / (least + 24.0);
        assert!((link / expected - 1.0).abs() < 1e-9, "{sizes:?}: {link} is not {expected}");
        assert_eq!(run.ceiling, planned, "{sizes:?}");
    }
}

/// A switch hangs from one node, whatever the cards below it report and whichever of them is met first.
#[test]
fn a_switch_hangs_from_one_node_in_both() {
    for nodes in [[0, 1], [1, 0]] {
        let on = |id| move |card: &mut PciDevice| card.node = Fact::Known(id);
        let machine = two_nodes(beside_each_other(on(nodes[0]), on(nodes[1])), 2e9);
        let (run, planned) = both(&machine, Protocol::Tcp).expect("a disk and a NIC");
        assert_eq!(planned.cut, [format!("memory:{}", nodes[0])]);
        assert_eq!(run.ceiling.bytes_per_second, Fact::Known(2e9 / 2.0 / 4.0));
        assert_eq!(run.ceiling.bytes_per_second, planned.bytes_per_second);
    }
}

/// A machine of cards in root ports and behind one switch, disks with and without a port, one node or two.
fn any_machine() -> impl Strategy<Value = Machine> {
    let speed = || prop::sample::select(vec![2.5, 5.0, 8.0, 16.0, 32.0]);
    let width = || prop::sample::select(vec![1u32, 4, 8, 16]);
    let card = (any::<bool>(), speed(), width(), any::<bool>(), any::<bool>(), 0u32..2, 0usize..4);
    let cards = prop::collection::vec(card, 1..6);
    let mtu = prop::sample::select(vec![576u32, 1500, 4096, 9000, 9216, 65_535]);
    let memory = prop::option::of(1e9..400e9);
    (cards, speed(), width(), mtu, memory, any::<bool>()).prop_map(|(cards, up, lanes, mtu, memory, two)| {
        let mut made = machine(8);
        made.memory.rated_bytes_per_second = Fact::from_option(memory, "not known");
        if two {
            made = two_nodes(made, memory.unwrap_or(50e9));
        }
        made.pci.push(pci("0000:00:01.0", None, BRIDGE, Some((up, lanes))));
        made.pci.push(pci("0000:01:00.0", Some("0000:00:01.0"), BRIDGE, Some((up, lanes))));
        for (at, (is_nic, speed, width, switched, ported, node, gigabits)) in cards.into_iter().enumerate() {
            let (own, bridge) = (format!("0000:{:02x}:00.0", at + 16), format!("0000:02:{at:02x}.0"));
            let root = format!("0000:00:{:02x}.0", at + 2);
            let (parent, above) = if switched { (bridge, Some("0000:01:00.0")) } else { (root, None) };
            let link = Some((speed, width));
            made.pci.push(pci(&parent, above, BRIDGE, link));
            let mut card = pci(&own, Some(&parent), if is_nic { ETHERNET } else { 0x010802 }, link);
            card.node = Fact::Known(node);
            card.express.max_payload_bytes = Fact::from_option(ported.then_some(256), "not read");
            made.pci.push(card);
            if is_nic {
                let mut port = nic(&format!("eth{at}"), Some([10, 25, 100, 400][gigabits]), Some(&own));
                port.mtu = Fact::Known(mtu);
                made.nics.push(port);
                continue;
            }
            let mut drive = disk(&format!("nvme{at}n1"), DiskKind::Nvme, Some(&own), &[]);
            if ported {
                drive.controller = Some(format!("ata{at}"));
                made.controllers.push(port(&format!("ata{at}"), 6_000_000_000));
            }
            made.disks.push(drive);
        }
        made
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_ceilings_of_plan_and_run_are_equal(machine in any_machine(), udp in any::<bool>()) {
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        prop_assert_eq!(same(&machine, protocol), Ok(()));
    }
}
