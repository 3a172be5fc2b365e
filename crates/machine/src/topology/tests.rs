//! The tree up and down, the kinds of ports, and the condition of a link by each thing that is known of it.

use super::*;
use crate::probe::pci::DOWN;
use crate::probe::{ControllerPort, Express, PciLink};
use crate::rates::pcie::PayloadDirection;
use proptest::prelude::*;

fn function(
    address: &str,
    parent: Option<&str>,
    class: u32,
    links: Option<((f64, u32), (f64, u32))>,
) -> PciDevice {
    let link = |(gt_per_second, width)| match width {
        0 => Fact::unknown(DOWN),
        width => Fact::Known(PciLink { gt_per_second, width }),
    };
    PciDevice {
        address: address.into(),
        parent: parent.map(str::to_string),
        class: Fact::Known(class),
        link: links.map_or(Fact::default(), |(runs, _)| link(runs)),
        link_max: links.map_or(Fact::default(), |(_, most)| link(most)),
        ..Default::default()
    }
}

/// Disks and interfaces on these functions; those named `down…` have no cable.
fn with(pci: Vec<PciDevice>, disks: &[&str], nics: &[(&str, &str)]) -> Machine {
    let disk =
        |address: &&str| Disk { pci: Some(address.to_string()), kind: DiskKind::Nvme, ..Default::default() };
    let nic = |(name, address): &(&str, &str)| Nic {
        name: name.to_string(),
        pci: Some(address.to_string()),
        state: Fact::Known(if name.starts_with("down") { "down" } else { "up" }.into()),
        ..Default::default()
    };
    Machine {
        pci,
        disks: disks.iter().map(disk).collect(),
        nics: nics.iter().map(nic).collect(),
        ..Default::default()
    }
}

/// A root port, a switch with an NVMe drive and a graphics card below, a NIC in a slot of its own, an empty
/// slot.
fn server() -> Machine {
    let gen4 = |width| Some(((16.0, width), (16.0, width)));
    let pci = vec![
        function("0000:00:01.0", None, 0x060400, gen4(16)),
        function("0000:00:02.0", None, 0x060400, Some(((8.0, 4), (16.0, 8)))),
        function("0000:00:03.0", None, 0x060400, Some(((2.5, 0), (16.0, 8)))),
        function("0000:00:1f.2", None, 0x010601, None),
        function("0000:01:00.0", Some("0000:00:01.0"), 0x060400, gen4(16)),
        function("0000:02:00.0", Some("0000:01:00.0"), 0x060400, gen4(4)),
        function("0000:02:01.0", Some("0000:01:00.0"), 0x060400, Some(((2.5, 16), (16.0, 16)))),
        function("0000:03:00.0", Some("0000:02:00.0"), 0x010802, gen4(4)),
        function("0000:04:00.0", Some("0000:02:01.0"), 0x030000, Some(((2.5, 16), (16.0, 16)))),
        function("0000:04:00.1", Some("0000:02:01.0"), 0x040300, Some(((2.5, 16), (16.0, 16)))),
        function("0000:05:00.0", Some("0000:00:02.0"), 0x020000, Some(((8.0, 4), (8.0, 8)))),
    ];
    with(pci, &["0000:03:00.0"], &[("eth0", "0000:05:00.0")])
}

fn addresses(devices: &[&PciDevice]) -> Vec<String> {
    devices.iter().map(|device| device.address.clone()).collect()
}

fn get<'a>(tree: &Topology<'a>, address: &str) -> &'a PciDevice {
    tree.find(address).expect(address)
}

fn link(gt_per_second: f64, width: u32) -> PciLink {
    PciLink { gt_per_second, width }
}

#[test]
fn up_and_down_the_tree() {
    let server = server();
    let tree = Topology::new(&server);
    let above = tree.above(get(&tree, "0000:04:00.1"));
    assert_eq!(addresses(&above), ["0000:02:01.0", "0000:01:00.0", "0000:00:01.0"]);
    assert_eq!(tree.below(get(&tree, "0000:00:01.0")).len(), 6);
    assert_eq!(addresses(&tree.below(get(&tree, "0000:00:02.0"))), ["0000:05:00.0"]);
    assert!(tree.is_below(get(&tree, "0000:03:00.0"), "0000:01:00.0"));
    assert!(!tree.is_below(get(&tree, "0000:05:00.0"), "0000:01:00.0"));
    assert_eq!(addresses(&tree.cards_below(get(&tree, "0000:01:00.0"))), ["0000:03:00.0", "0000:04:00.0"]);
    assert_eq!(card("0000:04:00.1"), "0000:04:00");
    assert!(
        tree.is_empty_port(get(&tree, "0000:00:03.0")) && !tree.is_empty_port(get(&tree, "0000:00:02.0"))
    );
}

#[test]
fn what_disks_have_in_common_and_others_have_not() {
    let mut machine = server();
    let disk =
        |name: &str, pci: &str| Disk { name: name.into(), pci: Some(pci.into()), ..Default::default() };
    // Two ports of one function, a drive behind the switch, and one on the chip set.
    machine.disks = vec![
        disk("a", "0000:03:00.0"),
        disk("b", "0000:03:00.0"),
        disk("c", "0000:04:00.0"),
        disk("d", "0000:00:1f.2"),
    ];
    let tree = Topology::new(&machine);
    let of = |names: &[&str], others: &[&str]| tree.shared_by(names, others).map(|shared| shared.to_string());
    assert_eq!(of(&["a", "b"], &["c"]).as_deref(), Some("the PCI function 0000:03:00.0"));
    assert_eq!(of(&["a", "c"], &[]).as_deref(), Some("the PCIe link of 0000:01:00.0"));
    assert_eq!(of(&["a", "c"], &["d"]).as_deref(), Some("the PCIe link of 0000:01:00.0"));
    assert_eq!(of(&["a", "c"], &["b"]), None, "b hangs on all that they have in common");
    assert_eq!(of(&["a", "d"], &[]), None);
    assert_eq!(of(&["a"], &[]), None);
    assert_eq!(of(&["a", "nobody"], &[]), None);
    let raid = Controller { name: "host0".into(), disks: vec!["a".into(), "d".into()], ..Default::default() };
    machine.controllers = vec![raid];
    let tree = Topology::new(&machine);
    assert_eq!(tree.shared_by(&["a", "d"], &["c"]), Some(Shared::Controller("host0".into())));
}

#[test]
fn all_that_disks_share_comes_nearest_first_with_its_rate() {
    let mut machine = server();
    let disk =
        |name: &str, pci: &str| Disk { name: name.into(), pci: Some(pci.into()), ..Default::default() };
    machine.disks = vec![disk("a", "0000:05:00.0"), disk("b", "0000:05:00.0"), disk("c", "0000:05:00.0")];
    let disks = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    let port = ControllerPort {
        name: "port-0:0".into(),
        link_bits_per_second: Fact::Known(48_000_000_000),
        disks: disks(&["a", "b"]),
        ..Default::default()
    };
    machine.controllers = vec![Controller {
        name: "host0".into(),
        disks: disks(&["a", "b", "c"]),
        ports: vec![port],
        ..Default::default()
    }];
    let tree = Topology::new(&machine);
    let names: Vec<String> =
        tree.all_shared_by(&["a", "b"], &[]).iter().map(|shared| shared.to_string()).collect();
    let function = "the PCI function 0000:05:00.0";
    let link = "the PCIe link of 0000:00:02.0";
    assert_eq!(names, ["the SAS port port-0:0", "the controller host0", function, link]);
    let rate = |shared: Shared| tree.rate_of(&shared, PayloadDirection::ToMemory);
    assert_eq!(rate(Shared::Port("port-0:0".into())), Some(4.8e9));
    assert_eq!(rate(Shared::Controller("host0".into())), None, "nothing shows how fast it is");
    let of_link = rate(Shared::Link("0000:00:02.0".into())).expect("8 GT/s x4");
    assert!((3.2e9..3.94e9).contains(&of_link), "{of_link}");
    assert_eq!(Some(of_link), rate(Shared::Function("0000:05:00.0".into())), "the other end of that link");
    assert_eq!(tree.all_shared_by(&["a", "b", "c"], &[]).len(), 3, "c is behind another port");
}

#[test]
fn kinds_follow_from_the_place_where_no_register_is_read() {
    let server = server();
    let tree = Topology::new(&server);
    let kind = |address| tree.kind(get(&tree, address));
    assert_eq!(kind("0000:00:01.0"), Some(PortKind::RootPort));
    assert_eq!(kind("0000:01:00.0"), Some(PortKind::SwitchUpstream));
    assert_eq!(kind("0000:02:01.0"), Some(PortKind::SwitchDownstream));
    assert_eq!(kind("0000:04:00.0"), Some(PortKind::Endpoint));
    assert_eq!(kind("0000:00:1f.2"), Some(PortKind::IntegratedEndpoint));
}

#[test]
fn the_smallest_max_payload_on_the_way() {
    let mut server = server();
    let payload = |server: &Machine| {
        let tree = Topology::new(server);
        tree.max_payload(get(&tree, "0000:05:00.0")).able
    };
    assert!(payload(&server).why().is_some());
    for (at, bytes) in [(1, 256), (10, 512)] {
        server.pci[at].express.max_payload_supported_bytes = Fact::Known(bytes);
    }
    assert_eq!(payload(&server), Fact::Known(256));
}

/// What both ends can, which is weaker, how it runs; from any function of the card and from the port.
fn ends(machine: &Machine, address: &str) -> (Option<PciLink>, WeakerEnd, LinkCondition) {
    let tree = Topology::new(machine);
    let ends = tree.link(get(&tree, address)).expect("a link");
    let port = ends.port.map(|port| tree.link(port).expect("the same link"));
    assert!(port.is_none_or(|port| port == ends), "the same from both ends");
    (ends.able, ends.weaker, ends.condition)
}

#[test]
fn what_both_ends_can_and_why_a_link_is_below() {
    let mut server = server();
    let full = (Some(link(16.0, 4)), WeakerEnd::Neither, LinkCondition::Full);
    assert_eq!(ends(&server, "0000:03:00.0"), full);
    assert_eq!(ends(&server, "0000:02:00.0"), full, "from its other end");
    // A gen 3 NIC in a gen 4 slot: 8 GT/s is its most, but four of eight lanes are missing.
    let narrow = LinkCondition::Below { narrower: true, slower: false, target: None };
    assert_eq!(ends(&server, "0000:05:00.0"), (Some(link(8.0, 8)), WeakerEnd::Card, narrow));
    // A graphics card that idles, and an empty slot.
    assert_eq!(ends(&server, "0000:04:00.1").2, LinkCondition::Idle);
    assert_eq!(ends(&server, "0000:00:03.0").2, LinkCondition::Down);
    let tree = Topology::new(&server);
    assert_eq!(tree.link(get(&tree, "0000:00:1f.2")), None);
    let listed: Vec<String> = tree.links().iter().map(|link| link.device.address.clone()).collect();
    assert_eq!(listed, ["0000:01:00.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0"], "each link once");

    // The same speed at an NVMe drive is a fault, unless the port is set so or the hardware did it by itself.
    server.pci[7].link = Fact::Known(link(2.5, 4));
    let slower = |target| LinkCondition::Below { narrower: false, slower: true, target };
    assert_eq!(ends(&server, "0000:03:00.0").2, slower(None));
    server.pci[5].express = Express { target_gt_per_second: Fact::Known(2.5), ..Default::default() };
    assert_eq!(ends(&server, "0000:03:00.0").2, slower(Some(2.5)));
    server.pci[5].express = Express { autonomous_change: Fact::Known(true), ..Default::default() };
    assert_eq!(ends(&server, "0000:03:00.0").2, LinkCondition::Idle);
    // Its link saves power, or no disk is behind it.
    server.pci[5].express = Express::default();
    server.pci[7].express.power_saving = Fact::Known(true);
    assert_eq!(ends(&server, "0000:03:00.0").2, LinkCondition::Idle);
    server.pci[7].express.power_saving = Fact::Known(false);
    server.disks.clear();
    assert_eq!(ends(&server, "0000:03:00.0").2, LinkCondition::Idle);

    // A port that does not report what it can: it may be of the generation that the link runs at.
    server.pci[5].link_max = Fact::unknown("not reported");
    server.pci[5].link = Fact::Known(link(2.5, 4));
    assert_eq!(ends(&server, "0000:03:00.0").2, LinkCondition::Unknown);
}

/// A port of 16 GT/s x8 and a NIC of the same that runs at 2.5 GT/s: a fault where it is used, idle without a
/// cable.
#[test]
fn a_nic_without_a_cable_is_idle() {
    let runs = Some(((2.5, 8), (16.0, 8)));
    let nic = |name| {
        let port = function("0000:00:01.0", None, 0x060400, runs);
        with(
            vec![port, function("0000:01:00.0", Some("0000:00:01.0"), 0x020000, runs)],
            &[],
            &[(name, "0000:01:00.0")],
        )
    };
    assert_eq!(ends(&nic("down0"), "0000:01:00.0").2, LinkCondition::Idle);
    let slower = LinkCondition::Below { narrower: false, slower: true, target: None };
    assert_eq!(ends(&nic("eth0"), "0000:01:00.0").2, slower);
    let idle = nic("down0");
    let tree = Topology::new(&idle);
    assert_eq!(tree.links()[0].under_load(), Some(link(16.0, 8)));
}

/// A switch slows down while all behind it has nothing to do; one drive that is used keeps it awake.
#[test]
fn a_switch_idles_with_all_that_is_behind_it() {
    let mut server = server();
    for at in [0, 4] {
        server.pci[at].link = Fact::Known(link(2.5, 16));
    }
    assert!(matches!(ends(&server, "0000:01:00.0").2, LinkCondition::Below { slower: true, .. }));
    server.disks.clear();
    assert_eq!(ends(&server, "0000:01:00.0").2, LinkCondition::Idle);
}

/// The numbers of the chip set's NIC hold for every question: 0x37cc was a formality to the ceiling and a
/// real link to the findings.
#[test]
fn a_nic_of_the_chip_set_has_no_real_link() {
    let formality = Some(((2.5, 1), (2.5, 1)));
    for id in [0x37cc, 0x37ce, 0x37d3] {
        let mut chip = function("0000:3d:00.0", Some("0000:00:1c.0"), 0x020000, formality);
        (chip.vendor, chip.device) = (Fact::Known(0x8086), Fact::Known(id));
        let port = function("0000:00:1c.0", None, 0x060400, Some(((2.5, 1), (8.0, 1))));
        let machine = with(vec![port, chip], &[], &[("eno1", "0000:3d:00.0")]);
        assert!(matches!(ends(&machine, "0000:3d:00.0").2, LinkCondition::Formality(_)), "{id:x}");
    }
}

/// In a virtual machine the port above is the hypervisor's drawing.
#[test]
fn a_hypervisors_ports_say_nothing() {
    let mut server = server();
    server.virtualisation = Fact::Known("kvm".into());
    assert_eq!(
        ends(&server, "0000:05:00.0"),
        (Some(link(8.0, 8)), WeakerEnd::Neither, LinkCondition::Unknown)
    );
    let tree = Topology::new(&server);
    assert_eq!(tree.link(get(&tree, "0000:00:03.0")), None, "an empty port of it");
}

#[test]
fn accelerators_with_lanes_are_ends_of_flows() {
    let server = server();
    let tree = Topology::new(&server);
    let gpus: Vec<&str> = tree.all().filter(|one| tree.is_gpu(one)).map(|one| one.address.as_str()).collect();
    assert_eq!(gpus, ["0000:04:00.0"]);
}

proptest! {
    #[test]
    fn any_list_is_answered(parents in proptest::collection::vec((0usize..12, any::<bool>(), 0u32..3), 0..12)) {
        let name = |at: usize| format!("0000:{at:02x}:00.0");
        let pci: Vec<PciDevice> = parents
            .iter()
            .enumerate()
            .map(|(at, (parent, has, width))| {
                let class = if *has { 0x060400 } else { 0x020000 };
                let links = Some(((2.5, *width), (8.0, 2)));
                function(&name(at), has.then(|| name(*parent)).as_deref(), class, links)
            })
            .collect();
        let machine = Machine { pci, ..Default::default() };
        let tree = Topology::new(&machine);
        for device in &machine.pci {
            prop_assert!(tree.above(device).len() < machine.pci.len());
            prop_assert!(tree.below(device).iter().all(|other| other.address != device.address));
            tree.link(device);
            tree.max_payload(device);
        }
        prop_assert!(tree.links().len() <= machine.pci.len());
    }
}

#[test]
fn each_class_has_one_name() {
    let names = [
        (0x01_0802, "NVMe"),
        (0x01_0400, "RAID"),
        (0x01_8000, "storage"),
        (0x02_0000, "Ethernet"),
        (0x02_0700, "InfiniBand"),
        (0x0c_0400, "Fibre Channel"),
        (0x03_0000, "display"),
        (0x03_0200, "GPU"),
        (0x0b_4000, "co-processor"),
        (0x12_0000, "accelerator"),
    ];
    for (class, name) in names {
        assert_eq!((class_name(class), carries_bytes(class)), (Some(name), true), "{class:06x}");
    }
    assert_eq!((class_name(0x06_0400), carries_bytes(0x06_0400)), (Some("bridge"), false));
    assert_eq!((class_name(0x0c_0330), carries_bytes(0x0c_0330)), (None, false), "USB");
    assert!(is_accelerator(0x0b_4000) && is_accelerator(0x12_0000) && !is_accelerator(0x02_0000));
}
