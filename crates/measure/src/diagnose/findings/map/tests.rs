//! Each finding with figures that make it speak and figures that do not, on a server written down by hand.

use super::*;
use crate::diagnose::Severity;
use linerate_facts::fact::Fact;
use linerate_machine::probe::*;
use linerate_testing::server::{card, drive, function, link, nic, port, server};
use proptest::prelude::*;

fn known<T>(value: T) -> Fact<T> {
    Fact::Known(value)
}

fn ids(machine: &Machine) -> Vec<String> {
    map_findings(machine).into_iter().map(|finding| finding.id).collect()
}

fn get(machine: &Machine, id: &str) -> Option<Finding> {
    map_findings(machine).into_iter().find(|finding| finding.id == id)
}

fn find<'a>(machine: &'a mut Machine, address: &str) -> &'a mut PciDevice {
    machine.pci.iter_mut().find(|device| device.address == address).expect("the function")
}

/// A root port with a card of these links; the port's figures, the card's.
fn plugged(class: u32, now: PciLink, slot: PciLink, most: PciLink) -> Machine {
    let mut machine = Machine { virtualisation: known("none".into()), ..Default::default() };
    machine.pci.push(port("0000:00:01.0", None, PortKind::RootPort, Some(4), Some(now), slot));
    machine.pci.push(card("0000:01:00.0", "0000:00:01.0", class, now, most, 0));
    machine
}

const NETWORK: u32 = 0x02_0000;
const NVME: u32 = 0x01_0802;
const GPU: u32 = 0x03_0200;

#[test]
fn the_whole_server() {
    let findings = map_findings(&server());
    let mut told: Vec<(&str, Severity)> =
        findings.iter().map(|finding| (finding.id.as_str(), finding.severity)).collect();
    assert!(told.is_sorted_by_key(|(_, severity)| *severity), "worst first");
    told.sort_unstable();
    use Severity::{Note, Slow};
    let expected = [
        ("memory-clock", Note),
        ("node-apart", Note),
        ("pcie-idle", Note),
        ("pcie-width", Slow),
        ("shared-uplink", Note),
        ("stripe-mismatch", Note),
    ];
    assert_eq!(told, expected, "{findings:#?}");
    insta::assert_snapshot!(findings.iter().map(|one| format!("{}\n  → \
                                                               {}\n", one.text, one.remedy)).collect::<String>(), @r"
    the link of sda, sdb, sdc and 5 more (0000:31:00.0) runs at 8 GT/s x4 (31.5 Gb/s); the card and slot 2 can both do 8 GT/s x8 (63.0 Gb/s)
      → reseat the card, and look for dirt on its contacts and for a slot whose lanes the BIOS splits or shares (bifurcation) or that has fewer lanes than its length; `lspci -vv` shows LnkCap and LnkSta
    16 of 16 DIMMs are rated 3200 MT/s and run at 2933 (34.2 GB/s less of memory): with one DIMM in a channel the reason is the processor, the slowest DIMM or a BIOS setting
      → look for the memory speed in the BIOS and for the board's table of DIMMs per channel; fewer, larger DIMMs run faster
    nvme0n1, nvme1n1, nvme2n1, nvme3n1 are on node 1, the NICs (eth0, eth1) on node 0: each byte between them crosses the socket link
      → move a NIC to a slot of node 1, or the disks' controller to one of the NICs' node
    0000:b1:00.0 (GPU): the link runs at 2.5 GT/s x16 where both ends can do 16 GT/s x16: such a device slows its link down while it has nothing to do
      → look again under load; only a link that stays slow then is one
    nvme0n1 (0000:9a:00.0), nvme1n1 (0000:9b:00.0), nvme2n1 (0000:9c:00.0), nvme3n1 (0000:9d:00.0) share the link of the switch 0000:98:00.0, 16 GT/s x8: they can move 230 Gb/s together and it carries 115 Gb/s
      → move one of them to a slot of its own, below another root port
    xfs on /data believes in stripes of 64 KiB × 6, md0 (raid6) has 512 KiB × 6
      → mount it with `sunit=1024,swidth=6144` (sectors of 512 bytes)
    ");
}

#[test]
fn a_link_on_fewer_lanes_than_both_ends_have() {
    let full = plugged(NVME, link(8.0, 4), link(16.0, 16), link(8.0, 4));
    assert_eq!(ids(&full), ["pcie-card-older"]);
    let half = plugged(NVME, link(8.0, 2), link(16.0, 16), link(8.0, 4));
    let finding = get(&half, "pcie-width").expect("two lanes of four");
    assert_eq!(finding.severity, Severity::Slow);
    // Two lanes of 8 GT/s with MaxPayload 256: 8 × 2 × 128/130 × 256/280 = 14.4 Gb/s.
    assert!((finding.gain * 8.0 / 1e9 - 14.40).abs() < 0.01, "{}", finding.gain);
    // A slot of two lanes: nothing is wrong with the link, and the slot is less than the card.
    let narrow = plugged(NVME, link(8.0, 2), link(8.0, 2), link(8.0, 4));
    assert_eq!(ids(&narrow), ["pcie-slot-narrower"]);
    let finding = get(&narrow, "pcie-slot-narrower").expect("two lanes for four");
    assert!(finding.text.ends_with("the slot is narrower than the card"), "{}", finding.text);
    assert_eq!(ids(&plugged(NVME, link(8.0, 4), link(8.0, 4), link(16.0, 4))), ["pcie-slot-older"]);
    assert!(ids(&plugged(NVME, link(8.0, 4), link(8.0, 8), link(8.0, 4))).is_empty());
}

#[test]
fn a_network_port_that_needs_no_more_makes_it_a_note() {
    let mut machine = plugged(NETWORK, link(8.0, 1), link(8.0, 8), link(8.0, 4));
    machine.nics.push(nic("eth0", 1, "0000:01:00.0", 0));
    let finding = get(&machine, "pcie-width").expect("one lane of four");
    assert_eq!((finding.severity, finding.gain), (Severity::Note, 0.0));
    machine.nics[0].speed_bits_per_second = known(25_000_000_000);
    let finding = get(&machine, "pcie-width").expect("one lane of four");
    assert_eq!(finding.severity, Severity::Slow);
    // Bounded by the port: 25 Gb/s less 7.2, not the 21.6 that three more lanes carry.
    assert!((finding.gain * 8.0 / 1e9 - 17.7).abs() < 0.1, "{}", finding.gain);
}

#[test]
fn a_slow_link_and_one_that_sleeps() {
    let slow = plugged(NVME, link(8.0, 4), link(16.0, 4), link(16.0, 4));
    assert!(get(&slow, "pcie-idle").is_some(), "no disk is read through it");
    let mut used = slow.clone();
    used.disks.push(drive("nvme0n1", "0000:01:00.0", 0));
    assert_eq!(ids(&used), ["pcie-speed"]);
    find(&mut used, "0000:01:00.0").express.power_saving = known(true);
    assert_eq!(ids(&used), ["pcie-idle"]);
    let gpu = plugged(GPU, link(2.5, 16), link(16.0, 16), link(16.0, 16));
    let finding = get(&gpu, "pcie-idle").expect("an idle GPU");
    assert_eq!(finding.severity, Severity::Note);
    // On fewer lanes it is no sleep.
    assert_eq!(ids(&plugged(GPU, link(2.5, 8), link(16.0, 16), link(16.0, 16))), ["pcie-width"]);
    let mut nic_down = plugged(NETWORK, link(2.5, 8), link(8.0, 8), link(8.0, 8));
    nic_down.nics.push(Nic { state: known("down".into()), ..nic("eth0", 10, "0000:01:00.0", 0) });
    nic_down.nics[0].speed_bits_per_second = Fact::unknown("down");
    assert_eq!(ids(&nic_down), ["pcie-idle"]);
}

#[test]
fn the_slot_does_not_report() {
    let mut machine = plugged(NVME, link(8.0, 2), link(16.0, 4), link(8.0, 4));
    machine.pci[0].link_max = Fact::unknown("unknown");
    let finding = get(&machine, "pcie-width").expect("the card could do more");
    assert_eq!(finding.severity, Severity::Note);
    // In a virtual machine the port above is the hypervisor's drawing.
    let mut guest = plugged(NVME, link(8.0, 2), link(16.0, 4), link(8.0, 4));
    guest.virtualisation = known("kvm".into());
    assert!(get(&guest, "pcie-width").is_some_and(|finding| finding.text.contains("not known here")));
}

/// Port 07.0 of the ASUS P6T6: it can do 5 GT/s x16 and runs at 2.5, because its card is of that generation.
/// Empty ports show x0.
#[test]
fn a_card_that_is_older_than_its_slot() {
    let mut machine = plugged(GPU, link(2.5, 16), link(5.0, 16), link(2.5, 16));
    machine.pci.push(port("0000:00:1c.0", None, PortKind::RootPort, Some(0), None, link(2.5, 1)));
    let findings = map_findings(&machine);
    assert_eq!(findings.iter().map(|finding| finding.id.as_str()).collect::<Vec<_>>(), ["pcie-card-older"]);
    assert!(findings[0].text.ends_with("the card is older than the slot"), "{}", findings[0].text);
    assert!(findings[0].remedy.contains("carries 2 times as much"), "{}", findings[0].remedy);
    // Three generations between them, as on the lab's server in QEMU.
    let oldest = plugged(NVME, link(2.5, 1), link(16.0, 4), link(2.5, 1));
    let finding = get(&oldest, "pcie-card-older").expect("a card of the first generation");
    assert!(finding.text.contains("no more than 2.5 GT/s, and its slot could do 16 GT/s"), "{finding:?}");
    assert!(finding.remedy.contains("carries 8 times as much"), "{}", finding.remedy);
    // A card whose port needs no more is right as it is.
    let mut slow_port = plugged(NETWORK, link(2.5, 1), link(5.0, 1), link(2.5, 1));
    slow_port.nics.push(nic("eth0", 1, "0000:01:00.0", 0));
    assert!(ids(&slow_port).is_empty());
}

/// SARA's T610: 10GE cards at 2.5 GT/s x8 and one in a slot of four lanes.
#[test]
fn ports_that_carry_more_than_the_link() {
    let ports = |now, slot, most| {
        let mut machine = plugged(NETWORK, now, slot, most);
        machine.nics.push(nic("eth0", 10, "0000:01:00.0", 0));
        find(&mut machine, "0000:01:00.0").express.max_payload_bytes = known(128);
        machine
    };
    assert!(get(&ports(link(2.5, 8), link(5.0, 8), link(2.5, 8)), "pcie-ports").is_none());
    let narrow =
        get(&ports(link(2.5, 4), link(5.0, 4), link(2.5, 8)), "pcie-ports").expect("6.92 of 9.97 Gb/s");
    assert!(
        narrow.text.contains("6.92 Gb/s of payload") && narrow.text.contains("its slot no more"),
        "{}",
        narrow.text
    );
    assert_eq!(narrow.severity, Severity::Slow);
    assert!((narrow.gain * 8.0 / 1e9 - 3.06).abs() < 0.02, "{}", narrow.gain);
    let old = get(&ports(link(2.5, 4), link(5.0, 8), link(2.5, 4)), "pcie-ports").expect("the card");
    assert!(old.text.contains("the card can do no more; its slot could do 5 GT/s x8"), "{}", old.text);
    // An empty slot that would do is named.
    let mut room = ports(link(2.5, 4), link(5.0, 4), link(2.5, 8));
    room.pci.push(port("0000:00:02.0", None, PortKind::RootPort, Some(7), None, link(5.0, 8)));
    let finding = get(&room, "pcie-ports").expect("6.92 of 9.97 Gb/s");
    assert!(finding.remedy.contains("slot 7 (0000:00:02.0) is empty"), "{}", finding.remedy);
}

/// The X722 of a C620 chip set shows 2.5 GT/s x1, which is not a link (capture `32intel64-2p8co2t+8ve`).
#[test]
fn links_that_are_formalities() {
    let mut machine = plugged(NETWORK, link(2.5, 1), link(8.0, 1), link(8.0, 1));
    machine.nics.push(nic("eth0", 10, "0000:01:00.0", 0));
    assert!(!ids(&machine).is_empty());
    let chip = find(&mut machine, "0000:01:00.0");
    chip.device = known(0x37d2);
    assert!(ids(&machine).is_empty());
    find(&mut machine, "0000:01:00.0").device = known(0x1);
    let mut second = machine.pci[1].clone();
    second.address = "0000:01:00.1".into();
    machine.pci.push(second);
    assert!(ids(&machine).is_empty(), "two ports on one lane");
    // An integrated endpoint on a root bus.
    let mut root = Machine {
        pci: vec![function("0000:00:02.0", None, NETWORK, Some(link(2.5, 1)), link(5.0, 1))],
        ..Default::default()
    };
    root.nics.push(nic("eth0", 10, "0000:00:02.0", 0));
    assert!(ids(&root).is_empty());
}

/// OCI's H100: the switch's uplink claims 5 GT/s x16, everything below it 32 GT/s x16.
#[test]
fn an_uplink_that_claims_less_than_all_below() {
    let mut machine = Machine::default();
    let wide = link(32.0, 16);
    let bridge =
        |address: &str, parent: Option<&str>, now| function(address, parent, 0x06_0400, Some(now), now);
    machine.pci = vec![
        bridge("0000:08:00.0", None, link(5.0, 16)),
        bridge("0000:0a:00.0", Some("0000:08:00.0"), wide),
        function("0000:0c:00.0", Some("0000:0a:00.0"), NETWORK, Some(wide), wide),
        bridge("0000:0d:00.0", Some("0000:08:00.0"), wide),
        function("0000:0f:00.0", Some("0000:0d:00.0"), GPU, Some(wide), wide),
    ];
    machine.nics = vec![nic("eth0", 180, "0000:0c:00.0", 0), nic("eth1", 180, "0000:0c:00.0", 0)];
    assert!(ids(&machine).is_empty(), "{:?}", map_findings(&machine));
    // The same with the port above, and both ends told.
    machine.pci.push(bridge("0000:07:01.0", None, link(5.0, 16)));
    find(&mut machine, "0000:08:00.0").parent = Some("0000:07:01.0".into());
    assert!(ids(&machine).is_empty(), "{:?}", map_findings(&machine));
}

#[test]
fn two_cards_behind_one_uplink() {
    let mut machine = Machine { virtualisation: known("none".into()), ..Default::default() };
    let up = link(8.0, 8);
    machine.pci.push(port("0000:00:01.0", None, PortKind::RootPort, None, Some(up), up));
    machine.pci.push(port(
        "0000:01:00.0",
        Some("0000:00:01.0"),
        PortKind::SwitchUpstream,
        None,
        Some(up),
        up,
    ));
    for n in 1..=2 {
        let (down, own) = (format!("0000:02:0{n}.0"), format!("0000:0{}:00.0", n + 2));
        machine.pci.push(port(&down, Some("0000:01:00.0"), PortKind::SwitchDownstream, None, Some(up), up));
        machine.pci.push(card(&own, &down, NETWORK, up, up, 0));
        machine.nics.push(nic(&format!("eth{n}"), 25, &own, 0));
    }
    assert!(ids(&machine).is_empty(), "2 × 25 of 58 Gb/s");
    for nic in &mut machine.nics {
        nic.speed_bits_per_second = known(50_000_000_000);
    }
    let finding = get(&machine, "shared-uplink").expect("2 × 50 of 58 Gb/s");
    assert_eq!(finding.severity, Severity::Slow);
    assert!((finding.gain * 8.0 / 1e9 - (99.7 - 58.4)).abs() < 0.2, "{}", finding.gain * 8.0 / 1e9);
    // A disk and a NIC do not add up: one writes to memory, the other reads.
    machine.nics.pop();
    machine.disks.push(drive("nvme0n1", "0000:04:00.0", 0));
    assert!(get(&machine, "shared-uplink").is_none());
}

#[test]
fn packets_smaller_than_the_way_allows() {
    let mut machine = plugged(NETWORK, link(8.0, 8), link(8.0, 8), link(8.0, 8));
    machine.nics.push(nic("eth0", 100, "0000:01:00.0", 0));
    assert!(get(&machine, "pcie-max-payload").is_none(), "256 is set");
    find(&mut machine, "0000:01:00.0").express.max_payload_bytes = known(128);
    let finding = get(&machine, "pcie-max-payload").expect("128 where 512 is possible");
    assert_eq!(finding.severity, Severity::Slow);
    assert_eq!(finding.evidence["possible_bytes"], 512);
    find(&mut machine, "0000:00:01.0").express.max_payload_supported_bytes = known(128);
    assert!(get(&machine, "pcie-max-payload").is_none(), "the port can do no more");
    find(&mut machine, "0000:00:01.0").express.max_payload_supported_bytes = Fact::unknown("not root");
    assert!(get(&machine, "pcie-max-payload").is_none(), "the port does not report");
    assert!(get(&machine, "pcie-max-read-request").is_none(), "512 is usual");
    find(&mut machine, "0000:01:00.0").express.max_read_request_bytes = known(128);
    let finding = get(&machine, "pcie-max-read-request").expect("128");
    assert!(finding.remedy.contains("setpci -s 0000:01:00.0 CAP_EXP+8.w=5000:7000"));
}

#[test]
fn links_of_other_figures_are_findings_of_their_own() {
    let mut machine = Machine { virtualisation: known("none".into()), ..Default::default() };
    let able = link(8.0, 8);
    for (n, payload, request) in [(1, 512, 128), (2, 256, 256), (3, 512, 128)] {
        let (up, own) = (format!("0000:00:0{n}.0"), format!("0000:0{n}:00.0"));
        machine.pci.push(port(&up, None, PortKind::RootPort, None, Some(able), able));
        machine.pci.push(card(&own, &up, NETWORK, able, able, 0));
        machine.nics.push(nic(&format!("eth{n}"), 100, &own, 0));
        let express = &mut find(&mut machine, &own).express;
        express.max_payload_bytes = known(128);
        express.max_payload_supported_bytes = known(payload);
        express.max_read_request_bytes = known(request);
    }
    let all = map_findings(&machine);
    let matches = |what: &str| {
        all.iter().filter(|one| [&one.text, &one.remedy].iter().any(|text| text.contains(what))).count()
    };
    let command = |n: u32| format!("setpci -s 0000:0{n}:00.0 CAP_EXP+8.w=5000:7000");
    assert_eq!((matches("above can do 512"), matches("above can do 256")), (1, 1), "{all:#?}");
    let commands = [format!("`{}; {}`", command(1), command(3)), format!("`{}`", command(2))];
    assert_eq!((matches(&commands[0]), matches(&commands[1])), (1, 1), "{all:#?}");
    machine.nics.clear();
    for (n, device) in machine.pci.iter_mut().filter(|one| one.class == known(NETWORK)).enumerate() {
        (device.class, device.link) = (known(GPU), known(link([2.5, 5.0, 2.5][n], 8)));
    }
    let asleep: Vec<String> = map_findings(&machine).into_iter().map(|one| one.text).collect();
    let matches = |what: &str| asleep.iter().filter(|text| text.contains(what)).count();
    assert_eq!((matches("links run at 2.5 GT/s"), matches("link runs at 5 GT/s")), (1, 1), "{asleep:#?}");
}

#[test]
fn nodes_queues_and_interrupts() {
    let mut machine = server();
    machine.disks.retain(|disk| disk.kind == DiskKind::Nvme);
    let finding = get(&machine, "node-apart").expect("all disks on node 1, the NIC on node 0");
    assert_eq!(finding.severity, Severity::Slow);
    for cpu in &mut machine.cpu.logical {
        cpu.package = known(0);
    }
    assert!(get(&machine, "node-apart").is_none(), "two nodes of one package");
    machine.nics[0].details.channels = known((1, 128));
    let finding = get(&machine, "nic-queues").expect("one queue for 100 Gb/s");
    assert_eq!(
        (finding.severity, finding.remedy.contains("ethtool -L eth0 combined 64")),
        (Severity::Slow, true)
    );
    machine.nics[0].details.channels = known((4, 128));
    assert!(get(&machine, "nic-queues").is_none(), "25 Gb/s a queue");
    assert!(get(&machine, "interrupts-one-core").is_none());
    for irq in machine.interrupts.iter_mut().filter(|irq| irq.pci.as_deref() == Some("0000:17:00.0")) {
        irq.effective = known(vec![3]);
    }
    let finding = get(&machine, "interrupts-one-core").expect("32 interrupts on core 3");
    assert!(finding.text.starts_with("all 32 interrupts of eth0 go to core 3"), "{}", finding.text);
}

#[test]
fn interrupts_on_the_node_without_the_card() {
    let mut machine = server();
    assert!(get(&machine, "interrupts-other-node").is_none());
    let far = machine.cpu.logical.iter().find(|cpu| cpu.node == known(1)).expect("a CPU of node 1").id;
    for irq in machine.interrupts.iter_mut().filter(|irq| irq.pci.as_deref() == Some("0000:17:00.0")) {
        irq.effective = known(vec![far]);
    }
    let finding = get(&machine, "interrupts-other-node").expect("all on node 1, the card on node 0");
    assert!(
        finding.text.starts_with("all 32 interrupts of eth0 go to node 1, the card is on node 0"),
        "{}",
        finding.text
    );
    assert!(finding.remedy.contains("linerate tune apply --finding interrupts-other-node`"));
    machine.interrupts[0].effective = Fact::unknown("not read");
    assert!(get(&machine, "interrupts-other-node").is_none(), "one of them may be near");
    for cpu in &mut machine.cpu.logical {
        cpu.package = known(0);
    }
    assert!(get(&machine, "interrupts-other-node").is_none());
}

#[test]
fn memory_below_its_parts() {
    let mut machine = server();
    let finding = get(&machine, "memory-clock").expect("2933 of 3200");
    assert!(
        finding.text.starts_with("16 of 16 DIMMs are rated 3200 MT/s and run at 2933"),
        "{}",
        finding.text
    );
    for module in &mut machine.memory.modules {
        module.configured_mt_per_second = known(3200);
    }
    assert!(get(&machine, "memory-clock").is_none());
    assert!(get(&machine, "memory-channels").is_none());
    for module in machine
        .memory
        .modules
        .iter_mut()
        .filter(|module| module.channel.known().is_some_and(|at| at.channel > 3))
    {
        module.size_bytes = known(0);
    }
    let finding = get(&machine, "memory-channels").expect("half of the channels");
    assert!(finding.text.contains("4 of 8") && finding.text.contains("50 %"), "{}", finding.text);
    machine.memory.rated_bytes_per_second = known(50e9);
    let finding = get(&machine, "memory-channels").expect("half of the channels");
    assert_eq!(finding.severity, Severity::Slow, "200 Gb/s × 4 touches need more");
    machine.memory.channels_confidence = Confidence::Low;
    assert!(get(&machine, "memory-channels").is_none());
    assert!(get(&machine, "memory-one-node").is_none());
    machine.memory.nodes[1].total_bytes = known(0);
    assert!(get(&machine, "memory-one-node").is_some());
}

#[test]
fn disks_below_their_ports_arrays_and_alignment() {
    let mut machine = server();
    machine.file_systems[0].array.as_mut().expect("stripes").chunk_bytes = known(512 << 10);
    assert!(
        ["stripe-mismatch", "disk-port", "misaligned", "array-degraded"]
            .iter()
            .all(|id| get(&machine, id).is_none())
    );
    machine.file_systems[0].array.as_mut().expect("stripes").data_disks = known(7);
    let finding = get(&machine, "stripe-mismatch").expect("7 of 6");
    // 512 KiB are 1024 sectors, six of them a stripe.
    assert!(finding.remedy.contains("sunit=1024,swidth=6144"), "{}", finding.remedy);
    let port = machine.controllers.last_mut().expect("the HBA");
    port.link_bits_per_second = known(48_000_000_000);
    let finding = get(&machine, "disk-port").expect("48 of 96 Gb/s");
    assert_eq!((finding.severity, finding.gain), (Severity::Slow, 4.8e9));
    machine.disks[0].misaligned_bytes = known(3584);
    assert!(get(&machine, "misaligned").is_some_and(|finding| finding.text.contains("3584 bytes")));
    let md = machine.disks.iter_mut().find(|disk| disk.name == "md0").expect("the array");
    md.array.as_mut().expect("an array").degraded = known(1);
    assert!(
        get(&machine, "array-degraded").is_some_and(|finding| finding.remedy.contains("replace and add"))
    );
    assert!(get(&machine, "array-busy").is_none());
}

/// ext4's mount option names the whole stripe alone.
#[test]
fn ext4_that_believes_in_another_stripe() {
    let mut machine = server();
    let system = &mut machine.file_systems[0];
    system.kind = "ext4".into();
    let believed = system.array.as_mut().expect("stripes");
    (believed.chunk_bytes, believed.data_disks) = (Fact::unknown("not told"), Fact::unknown("not told"));
    believed.stripe_bytes = known(6 * (512 << 10));
    assert!(get(&machine, "stripe-mismatch").is_none(), "six of 512 KiB");
    machine.file_systems[0].array.as_mut().expect("stripes").stripe_bytes = known(1 << 20);
    let finding = get(&machine, "stripe-mismatch").expect("1 MiB of 3 MiB");
    assert!(
        finding.text.contains("believes in a stripe of 1 MiB, md0 (raid6) has 512 KiB × 6"),
        "{}",
        finding.text
    );
    assert!(finding.remedy.contains("tune2fs -E stride=128,stripe_width=768"), "{}", finding.remedy);
}

/// As a guest's md showed it: one of two members was failed, taken out and added again.
#[test]
fn an_array_that_is_rebuilt_or_checked() {
    let mut machine = server();
    let mut set = |degraded, action: &str| {
        let md = machine.disks.iter_mut().find(|disk| disk.name == "md0").expect("the array");
        let array = md.array.as_mut().expect("an array");
        (array.degraded, array.sync_action) = (known(degraded), known(action.into()));
        let finding = |id: &str| get(&machine, id).map(|finding| (finding.text, finding.remedy));
        (finding("array-degraded"), finding("array-busy"))
    };
    let (degraded, busy) = set(1, "recover");
    let (text, remedy) = degraded.expect("it lacks one");
    assert!(text.ends_with("lacks 1 of its disks, and it is being rebuilt"), "{text}");
    assert!(!remedy.contains("replace") && remedy.contains("/proc/mdstat"), "{remedy}");
    assert_eq!(busy, None);
    for action in ["resync", "check", "reshape"] {
        let (degraded, busy) = set(0, action);
        assert_eq!(degraded, None);
        assert!(busy.expect(action).0.contains(&format!("md's {action} takes")));
    }
    assert_eq!(set(0, "idle"), (None, None));
}

/// A damaged file: rings, doubles, functions that are their own parent, thousands of functions.
#[test]
fn damaged_trees_end() {
    let mut machine = server();
    let mut ring = machine.pci[0].clone();
    ring.parent = Some(machine.pci[1].address.clone());
    machine.pci[0] = ring.clone();
    machine.pci.push(ring);
    let own = machine.pci[2].address.clone();
    machine.pci[2].parent = Some(own);
    map_findings(&machine);
    let many = (0..20_000u32).map(|n| {
        function(
            &format!("{n:04x}:00:00.0"),
            Some("0000:00:00.0"),
            0x06_0400,
            Some(link(8.0, 4)),
            link(8.0, 8),
        )
    });
    machine.pci.extend(many);
    assert!(Topology::new(&machine).links().is_empty());
}

#[test]
fn checksums_in_software_are_slow_unless_there_are_none() {
    let with = |checksum: &str, options: &str| {
        let fs = FileSystem {
            mount_point: "/data".into(),
            kind: "btrfs".into(),
            options: options.into(),
            devices: vec!["sda".into(), "sdb".into()],
            checksum: Some(checksum.into()),
            ..FileSystem::default()
        };
        // A subvolume of the same is said once.
        Machine {
            file_systems: vec![fs.clone(), FileSystem { mount_point: "/home".into(), ..fs }],
            ..Machine::default()
        }
    };
    let generic = with("crc32c (crc32c-generic)", "rw,relatime,ssd");
    let found = get(&generic, "checksum-generic").expect("a finding");
    assert!(found.text.starts_with("btrfs on /data computes its checksums in software"), "{}", found.text);
    assert!(found.remedy.contains("modprobe crc32c_intel"), "{}", found.remedy);
    assert_eq!(ids(&generic).len(), 1);
    for (checksum, options) in [
        ("crc32c (crc32c-intel)", "rw"),
        ("crc32c (crc32c-lib)", "rw"),
        ("crc32c (crc32c-generic)", "rw,nodatasum,ssd"),
        ("crc32c (crc32c-generic)", "rw,nodatasum,nodatacow"),
    ] {
        assert!(get(&with(checksum, options), "checksum-generic").is_none(), "{checksum} {options}");
    }
}

proptest! {
    #[test]
    fn no_figure_breaks_it(gt in prop::sample::select(vec![0.0, 2.5, 8.0, 32.0, f64::NAN, f64::INFINITY, -1.0]), width in any::<u32>(), bits in any::<u64>(), mtu in any::<u32>(), bytes in any::<u64>(), small in any::<u32>()) {
        let mut machine = server();
        for device in &mut machine.pci {
            device.link = known(PciLink { gt_per_second: gt, width });
            device.express.max_payload_bytes = known(small);
            device.express.max_read_request_bytes = known(small);
        }
        for nic in &mut machine.nics {
            nic.speed_bits_per_second = known(bits);
            nic.mtu = known(mtu);
            nic.details.channels = known((small, mtu));
        }
        for module in &mut machine.memory.modules {
            module.rated_mt_per_second = known(mtu);
            module.configured_mt_per_second = known(small);
            module.channel = known(MemoryChannel { socket: small, channel: mtu });
        }
        for controller in &mut machine.controllers {
            controller.link_bits_per_second = known(bits / 3);
            controller.link_max_bits_per_second = known(bits);
        }
        for disk in &mut machine.disks {
            disk.misaligned_bytes = known(bytes);
            if let Some(array) = &mut disk.array {
                array.chunk_bytes = known(bytes);
                array.data_disks = known(small);
            }
        }
        for finding in map_findings(&machine) {
            prop_assert!(finding.gain.is_finite() && finding.gain >= 0.0, "{finding:?}");
        }
    }
}

/// After a run, what has no part in its flow is a note, and a gain is the run's own.
#[test]
fn a_run_weighs_them() {
    let mut case =
        crate::diagnose::tests::Lab { disks: vec![100.0], nics: vec![1237.5], ..Default::default() }
            .measured();
    let before = case.diagnose().findings;
    let narrow = plugged(NVME, link(8.0, 2), link(16.0, 16), link(8.0, 4));
    case.machine.pci = narrow.pci;
    case.machine.virtualisation = known("none".into());
    let told = |case: &crate::diagnose::tests::Case| {
        case.diagnose()
            .findings
            .into_iter()
            .find(|finding| finding.id == "pcie-width")
            .expect("two lanes of four")
    };
    assert_eq!((told(&case).severity, told(&case).gain), (Severity::Note, 0.0));
    assert_eq!(case.diagnose().findings.len(), before.len() + 1);
    // The disk of the flow hangs on it; what binds is the disk, so that there is no gain.
    case.machine.disks[0].pci = Some("0000:01:00.0".into());
    assert_eq!((told(&case).severity, told(&case).gain), (Severity::Slow, 0.0));
}
