//! Machines that were read: cloud switches and on-chip NICs do not bind, idle ports are slots.

use super::*;
use crate::plan::parts::from_machine;
use crate::plan::whatif::{WhatIfChange, apply};
use linerate_facts::fact::Fact;
use linerate_machine::probe::foreign::{ForeignSources, NamedText};
use linerate_machine::probe::{Disk, DiskKind, Machine, NumaNode, PciDevice, PciLink};
use linerate_testing::nic;

/// A machine that is not a guest: a guest's links are not believed.
fn machine(cpus: u32) -> Machine {
    Machine { virtualisation: Fact::Known("none".into()), ..linerate_testing::machine(cpus) }
}

#[test]
fn a_link_that_a_hypervisor_shows_never_binds() {
    let mut guest = wrong_slot();
    guest.virtualisation = Fact::Known("kvm".into());
    let plan = planned(&from_machine(&guest), "memory", "nic");
    assert_eq!(plan.likely.cut, ["nic:eth0"], "{}", plan.sentence);
    let link = resource(&plan, "pcie:0000:01:00.0");
    assert!(link.why.as_deref().is_some_and(|why| why.contains("hypervisor")), "{link:?}");
}

const BRIDGE: u32 = 0x060400;
const ETHERNET: u32 = 0x020000;

fn function(address: &str, parent: Option<&str>, class: u32, now: (f64, u32), most: (f64, u32)) -> PciDevice {
    let link = |(gt_per_second, width)| Fact::Known(PciLink { gt_per_second, width });
    PciDevice {
        address: address.into(),
        parent: parent.map(str::to_string),
        class: Fact::Known(class),
        link: link(now),
        link_max: link(most),
        ..PciDevice::default()
    }
}

fn nvme(name: &str, address: &str) -> Disk {
    Disk { name: name.into(), kind: DiskKind::Nvme, pci: Some(address.into()), ..Disk::default() }
}

/// A NIC of 2 × 200 Gb/s behind a cloud's switch, as Oracle's H100 servers show it: the uplink claims 5 GT/s
/// x16, all below it 32.
fn oci_h100() -> Machine {
    let mut machine = machine(64);
    let (uplink, down) = ((5.0, 16), (32.0, 16));
    machine.pci = vec![
        function("0000:01:00.0", None, BRIDGE, uplink, uplink),
        function("0000:02:00.0", Some("0000:01:00.0"), BRIDGE, uplink, uplink),
        function("0000:03:00.0", Some("0000:02:00.0"), BRIDGE, down, down),
        function("0000:03:01.0", Some("0000:02:00.0"), BRIDGE, down, down),
        function("0000:04:00.0", Some("0000:03:00.0"), ETHERNET, down, down),
        function("0000:04:00.1", Some("0000:03:00.0"), ETHERNET, down, down),
        function("0000:05:00.0", Some("0000:03:01.0"), 0x030200, down, down),
    ];
    machine.nics =
        vec![nic("rdma0", Some(200), Some("0000:04:00.0")), nic("rdma1", Some(200), Some("0000:04:00.1"))];
    machine
}

#[test]
fn the_uplink_of_a_clouds_switch_does_not_hold_its_nic() {
    let parts = from_machine(&oci_h100());
    let plan = planned(&parts, "memory", "nic");
    assert_eq!(plan.likely.cut, ["nic:rdma0", "nic:rdma1"]);
    assert!((rate(&plan) * 8.0 / 1e9 - 400.0 * 8948.0 / 9038.0).abs() < 0.1, "{}", plan.sentence);
    let gpu = planned(&parts, "nic", "gpu");
    assert!(gpu.likely.cut.iter().all(|id| id.starts_with("nic:")), "{}", gpu.sentence);
    assert_eq!(gpu.shares.iter().map(|share| share.sink.as_str()).next(), Some("gpu:0000:05:00.0"));
}

/// The on-chip X722 of a Skylake server shows 2.5 GT/s x1.
#[test]
fn an_on_chip_nic_is_not_held_by_the_link_that_it_shows() {
    let mut machine = machine(8);
    let formality = (2.5, 1);
    machine.pci = vec![
        function("0000:00:1c.0", None, BRIDGE, formality, formality),
        function("0000:3d:00.0", Some("0000:00:1c.0"), ETHERNET, formality, formality),
    ];
    machine.nics = vec![nic("eno1", Some(10), Some("0000:3d:00.0"))];
    let plan = planned(&from_machine(&machine), "memory", "nic");
    assert_eq!(plan.likely.cut, ["nic:eno1"]);
    assert!(resource(&plan, "pcie:0000:3d:00.0").why.as_deref().is_some_and(|why| why.contains("formality")));
    // With a slow cable the link could be real by its figures; the driver tells that it is not.
    machine.nics[0] = nic("eno1", Some(1), Some("0000:3d:00.0"));
    let next =
        |machine: &Machine| planned(&from_machine(machine), "memory", "nic").next.expect("a next limit");
    assert_eq!(next(&machine).cut, ["pcie:0000:3d:00.0"]);
    machine.pci[1].driver = Fact::Known("i40e".into());
    assert_eq!(next(&machine).cut, ["cpu"], "the link does not bind");
}

/// A card that can do 8 GT/s x8 runs at x4 in its slot; a better port is free.
fn wrong_slot() -> Machine {
    let mut machine = machine(8);
    machine.pci = vec![
        function("0000:00:01.0", None, BRIDGE, (8.0, 4), (8.0, 4)),
        function("0000:01:00.0", Some("0000:00:01.0"), ETHERNET, (8.0, 4), (8.0, 8)),
        function("0000:00:02.0", None, BRIDGE, (2.5, 0), (8.0, 16)),
        function("0000:00:03.0", None, BRIDGE, (8.0, 4), (8.0, 4)),
        function("0000:03:00.0", Some("0000:00:03.0"), 0x010802, (8.0, 4), (8.0, 4)),
    ];
    machine.pci[2].express.slot = Fact::Known(6);
    machine.pci[1].express.max_payload_bytes = Fact::Known(256);
    machine.nics = vec![nic("eth0", Some(40), Some("0000:01:00.0"))];
    machine.disks = vec![nvme("nvme0n1", "0000:03:00.0")];
    machine
}

#[test]
fn a_card_in_a_narrow_port_is_moved_to_a_free_one() {
    let mut parts = from_machine(&wrong_slot());
    let before = planned(&parts, "memory", "nic");
    assert_eq!(before.likely.cut, ["pcie:0000:01:00.0"]);
    let frames = 31.507_692 * 256.0 / 276.0 * 8948.0 / 9014.0;
    assert!((rate(&before) * 8.0 / 1e9 - frames).abs() < 0.01, "{}", before.sentence);
    assert!(
        before.sentence.contains("could use 8 lanes") || before.sentence.contains("slot gives"),
        "{}",
        before.sentence
    );
    apply(&mut parts, &WhatIfChange::Move("eth0=slot6".into())).expect("a free port");
    assert_eq!(planned(&parts, "memory", "nic").likely.cut, ["nic:eth0"]);
    let whole = planned(&parts, "disk", "nic");
    assert_eq!(
        whole.likely.cut,
        ["pcie:0000:03:00.0"],
        "the disk itself has no data sheet: its link is taken"
    );
    let why = resource(&whole, "disk:nvme0n1").why.clone().expect("why");
    assert!(why.ends_with("taken as what its link carries"), "{why}");
    // What it writes may be far less.
    assert!(planned(&parts, "memory", "disk").missing.is_some_and(|missing| missing.at_most.is_some()));
}

#[test]
fn nodes_that_are_not_reported_do_not_bind_and_those_that_are_cross() {
    let mut machine = wrong_slot();
    machine.memory.nodes.push(NumaNode { id: 1, ..NumaNode::default() });
    let parts = from_machine(&machine);
    assert!(planned(&parts, "disk", "nic").ceiling.bytes_per_second.known().is_some());
    machine.pci[1].node = Fact::Known(0);
    machine.pci[4].node = Fact::Known(1);
    let plan = planned(&from_machine(&machine), "disk", "nic");
    assert!(plan.placement.crossing_bytes_per_second > 1e9, "{:?}", plan.placement);
    assert!(resource(&plan, "socket-link:1").why.as_deref().is_some_and(|why| why.contains("no rate")));
}

#[test]
fn an_empty_machine_has_no_ends() {
    let parts = from_machine(&Machine::default());
    assert_eq!((parts.nodes.len(), parts.devices.len()), (1, 0));
    assert!(ends(&parts, "disk").is_err());
}

/// 64 disks, 16 NICs, 16 GPUs behind eight switches of two sockets.
fn large() -> MachineParts {
    let mut text = "[processor]\nsockets = 2\n[memory]\nrate = \"300GB/s\"\n[[socket_link]]\nbetween = [0, \
                    1]\nlink = \"upi 11.2\"\nlinks = 3\n\
        [[switch]]\nname = \"sw\"\ncount = 8\non = [\"node0\", \"node1\"]\npcie = \"5x16\"\n"
        .to_string();
    let on: Vec<String> = (0..8).map(|switch| format!("\"sw{switch}\"")).collect();
    let on = on.join(", ");
    text.push_str(&format!(
        "[[disk]]\nname = \"nvme\"\ncount = 64\non = [{on}]\npcie = \"4x4\"\nread = \"6.5GB/s\"\n"
    ));
    text.push_str(&format!(
        "[[nic]]\nname = \"eth\"\ncount = 16\non = [{on}]\npcie = \"5x16\"\nrate = \"200G\"\nmtu = 9000\n"
    ));
    text.push_str(&format!("[[gpu]]\nname = \"gpu\"\ncount = 16\non = [{on}]\npcie = \"5x16\"\n"));
    parse(&text).expect("a machine")
}

#[test]
fn a_large_server_is_solved_in_milliseconds() {
    let parts = large();
    for (from, to) in [("disk", "nic"), ("nic", "gpu"), ("disk", "gpu")] {
        let flow = flow(&parts, from, to);
        let started = std::time::Instant::now();
        let rounds = 5;
        for _ in 0..rounds {
            assert!(
                crate::plan::capacity::Model::new(&flow_resources(&parts, &flow))
                    .solve()
                    .bytes_per_second
                    .known()
                    .is_some()
            );
        }
        let each_ms = started.elapsed().as_secs_f64() * 1e3 / f64::from(rounds);
        println!("{from} to {to} on 64 disks, 16 NICs, 16 GPUs: {each_ms:.2} ms");
        // 10 ms is the promise of the release build; a debug build on a busy machine gets twenty times that.
        assert!(each_ms < if cfg!(debug_assertions) { 200.0 } else { 10.0 }, "{each_ms} ms");
    }
}

/// Two NICs of 400 Gb/s, each below an inner switch with a GPU, both below one outer switch, as NCCL describes them.
fn two_switches(gpu_direct: &str) -> Machine {
    let bridge = "class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
    let pair = |bus: u32, number: u32| {
        format!(
            r#"<pci busid="0000:{bus:x}0:00.0" {bridge}>
              <pci busid="0000:{bus:x}1:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
                <gpu dev="{number}" gdr="{gpu_direct}"/></pci>
              <pci busid="0000:{bus:x}2:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
                <nic><net name="ib{number}" speed="400000" port="1" gdr="{gpu_direct}"/></nic></pci></pci>"#
        )
    };
    let text = format!(
        r#"<system version="1"><cpu numaid="0" affinity="ff"><pci busid="0000:30:02.0" {bridge}>{}{}</pci></cpu></system>"#,
        pair(4, 0),
        pair(5, 1)
    );
    let files = vec![NamedText { name: "topology.xml".into(), bytes: text.into_bytes() }];
    linerate_machine::probe::foreign::described(&ForeignSources { files, tree: None })
        .expect("a machine")
        .machine
}

#[test]
fn bytes_for_a_gpu_below_the_nics_switch_pass_no_uplink_and_no_memory() {
    let with = |gpu_direct: &str| {
        let parts = from_machine(&two_switches(gpu_direct));
        let flow = Flow { method: Method::Rdma, ..flow(&parts, "nic", "gpu") };
        plan_flow(&parts, &flow)
    };
    let direct = with("1");
    assert!((rate(&direct) * 8.0 / 1e9 - 784.0).abs() < 1.0, "{}", direct.sentence);
    assert_eq!(direct.likely.cut, ["nic:ib0", "nic:ib1"]);
    assert!(direct.flow.contains("RDMA") && direct.flow.ends_with("no memory crossing"), "{}", direct.flow);
    let through_memory = with("0");
    assert!((rate(&through_memory) * 8.0 / 1e9 - 461.0).abs() < 1.0, "{}", through_memory.sentence);
    assert_eq!(through_memory.likely.cut, ["pcie:0000:30:02.0"]);
    assert!(through_memory.flow.ends_with("2 memory crossings a byte"), "{}", through_memory.flow);
}

#[test]
fn an_unlisted_disk_is_unknown_and_what_else_holds_disks_is_named() {
    let mut machine = machine(2);
    let storage = |address: &str, class: u32, name: &str| PciDevice {
        address: address.into(),
        class: Fact::Known(class),
        name: Fact::Known(name.into()),
        ..PciDevice::default()
    };
    machine.pci = vec![storage("0000:00:04.0", 0x010802, "NVMe EBS Controller")];
    machine.nics = vec![nic("eth0", Some(10), None)];
    let plan = planned(&from_machine(&machine), "disk", "nic");
    let missing = plan.missing.clone().expect("the disk's rate");
    assert_eq!(
        (missing.resources, missing.set),
        (vec!["disk:0000:00:04.0".into()], vec!["0000:00:04.0.read=500MB/s".into()])
    );
    let why = resource(&plan, "disk:0000:00:04.0").why.clone().expect("why");
    assert!(why.contains("comes over the network"), "{why}");
    machine.pci = vec![storage("0000:02:00.0", 0x010400, "MegaRAID SAS-3 3108")];
    let none = ends(&from_machine(&machine), "disk").expect_err("no disk is listed").to_string();
    assert!(none.contains("1 storage controller") && none.contains("0000:02:00.0 (MegaRAID"), "{none}");
    machine.pci.clear();
    assert!(
        ends(&from_machine(&machine), "disk")
            .expect_err("none")
            .to_string()
            .contains("the machine has no disk")
    );
}

#[test]
fn volumes_of_an_instance_share_what_is_promised() {
    let mut machine = machine(2);
    machine.instance = Fact::Known("m5.24xlarge".into());
    machine.nics = vec![nic("eth0", Some(50), None)];
    let volume = |name: &str| Disk {
        name: name.into(),
        kind: DiskKind::Nvme,
        model: Fact::Known("Amazon Elastic Block Store".into()),
        ..Disk::default()
    };
    machine.disks = vec![volume("nvme1n1"), volume("nvme2n1")];
    let planned_with = |machine: &Machine| {
        let mut parts = from_machine(machine);
        for set in ["nvme1n1.read=2GB/s", "nvme2n1.read=2GB/s"] {
            apply(&mut parts, &WhatIfChange::Set(set.into())).expect("a rate");
        }
        planned(&parts, "disk", "nic")
    };
    let plan = planned_with(&machine);
    assert_eq!((rate(&plan), plan.likely.cut.clone()), (19e9 / 8.0, vec!["controller:volumes".into()]));
    machine.instance = Fact::Known("m5.large".into());
    let why = resource(&planned_with(&machine), "controller:volumes").why.clone().expect("why");
    assert!(why.contains("81.2 MB/s always, up to 594 MB/s while credits last"), "{why}");
}

#[test]
fn with_disk_and_nic_unknown_nothing_is_likely() {
    let mut machine = machine(2);
    machine.nics = vec![nic("eth0", None, None)];
    machine.disks = vec![Disk { name: "vda".into(), kind: DiskKind::Virtio, ..Disk::default() }];
    let plan = planned(&from_machine(&machine), "disk", "nic");
    let missing = plan.missing.clone().expect("both rates");
    assert_eq!(plan.ceiling.likely_bytes_per_second, None);
    assert_eq!(missing.resources, ["disk:vda", "nic:eth0"]);
    assert_eq!(missing.at_most_words(linerate_facts::units::show_bits_rate), "at most 84.0 Gb/s by the CPU");
    assert_eq!(missing.options(), "--set vda.read=500MB/s --set eth0.rate=10G");
    assert!(plan.gains.is_empty() && plan.data_plane.is_none() && plan.shares.is_empty());
    // With both the answer is there.
    let mut parts = from_machine(&machine);
    for set in ["vda.read=500MB/s", "eth0.rate=10G"] {
        apply(&mut parts, &WhatIfChange::Set(set.into())).expect("a rate");
    }
    assert_eq!(rate(&planned(&parts, "disk", "nic")), 5e8);
    // An end that cannot change the answer does not hide it.
    parts.devices.iter_mut().filter(|device| device.name == "eth0").for_each(|eth0| {
        if let crate::plan::parts::DeviceKind::Nic { rate, .. } = &mut eth0.what {
            *rate = Fact::unknown("no rate");
        }
    });
    assert!(planned(&parts, "disk", "nic").missing.is_some(), "a NIC alone may be slower than the disk");
}
