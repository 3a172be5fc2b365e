//! The three forms, each alone and together: quotes of real listings, and what no text may do.

use super::*;
use crate::probe::Machine;
use crate::probe::machine::{ParallelBus, PciLink, PortKind};
use crate::topology::{LinkCondition, Topology, WeakerEnd};
use linerate_facts::fact::Fact;
use linerate_testing::lspci_of_2010::{CARD, SLOT, TREE};
use proptest::prelude::*;

fn read(text: &str) -> Vec<PciDevice> {
    from_lspci(text).expect("PCI functions")
}

fn link(gt_per_second: f64, width: u32) -> Fact<PciLink> {
    Fact::Known(PciLink { gt_per_second, width })
}

#[test]
fn the_pitfall_of_the_year_2010() {
    let devices = read(&format!("{CARD}\n```\n{TREE}\n{SLOT}"));
    let machine = Machine { pci: devices, ..Default::default() };
    let tree = Topology::new(&machine);
    let card = tree.find("0000:04:00.0").expect("the card");
    assert_eq!((&card.link, &card.link_max), (&link(2.5, 4), &link(2.5, 8)));
    assert_eq!(card.express.max_payload_bytes, Fact::Known(256));
    assert_eq!(card.express.max_read_request_bytes, Fact::Known(512));
    assert_eq!(card.express.port, Fact::Known(PortKind::Endpoint));
    assert_eq!(card.express.power_saving, Fact::Known(false));
    assert_eq!(card.express.autonomous_change, Fact::Known(false));
    assert_eq!(card.driver, Fact::Known("ixgbe".into()));
    assert_eq!(card.class, Fact::Known(0x020000));
    assert_eq!(card.parent.as_deref(), Some("0000:00:04.0"));
    let port = tree.find("0000:00:04.0").expect("the root port");
    assert_eq!((&port.link, &port.link_max), (&link(2.5, 4), &link(5.0, 4)));
    // The card is older than the slot, the slot is narrower than the card: together 2.5 GT/s x4, and that it
    // runs at.
    let ends = tree.link(card).expect("a link");
    assert_eq!((&ends.able, ends.weaker), (&link(2.5, 4).known().copied(), WeakerEnd::Each));
    assert_eq!(ends.condition, LinkCondition::Full);
}

#[test]
fn a_tree_whose_columns_are_lost() {
    // SARA D1.3 §6.2: the same machine once more, with other columns and a `+` too many.
    let other = "-[0000:00]--+-00.0 Intel Corporation 5520 I/O Hub to ESI Port
      +-+01.0-[0000:01]---+-00.0 Broadcom Corporation NetXtreme II BCM5709 Gigabit Ethernet
      |                               \\-00.1 Broadcom Corporation NetXtreme II BCM5709 Gigabit Ethernet
      +-+03.0-[0000:03]--
      +-+04.0-[0000:04]----00.0 Intel Corporation 82598EB 10-Gigabit AF Network Connection";
    for text in [TREE, other] {
        let devices = read(text);
        let shown: Vec<_> = devices.iter().map(|d| (d.address.as_str(), d.parent.as_deref())).collect();
        let expected = [
            ("0000:00:00.0", None),
            ("0000:00:01.0", None),
            ("0000:00:03.0", None),
            ("0000:00:04.0", None),
            ("0000:01:00.0", Some("0000:00:01.0")),
            ("0000:01:00.1", Some("0000:00:01.0")),
            ("0000:04:00.0", Some("0000:00:04.0")),
        ];
        assert_eq!(shown, expected);
        let nic = "Intel Corporation 82598EB 10-Gigabit AF Network Connection";
        assert_eq!(devices[6].name, Fact::Known(nic.into()));
        assert!(devices[6].link.why().is_some_and(|why| why.contains("lspci -vv as root")));
    }
}

#[test]
fn a_tree_with_domains_switches_and_several_buses_behind_a_bridge() {
    let devices = read(
        "-+-[0000:00]-+-00.0
 |           +-03.0-[02-05]----00.0-[03-05]--+-00.0-[04]----00.0  A disk [144d:a80a]
 |           |                               \\-02.0-[05]--
 |           \\-1f.3
 +-[0001:00]---02.0-[41-50]--+-[0001:42]---00.0  A card
 |                           \\-[0001:41]-+-01.0
 |                                       \\-01.1
 \\-[10000:e0]-+-06.0-[e1]----00.0  Behind a volume management device
              \\-07.0-[e2]--
",
    );
    let machine = Machine { pci: devices, ..Default::default() };
    let tree = Topology::new(&machine);
    let parent = |address: &str| tree.find(address).expect(address).parent.as_deref();
    assert_eq!(parent("0000:04:00.0"), Some("0000:03:00.0"));
    assert_eq!(parent("0000:03:02.0"), Some("0000:02:00.0"));
    assert_eq!(parent("0000:00:1f.3"), None);
    assert_eq!(parent("0001:42:00.0"), Some("0001:00:02.0"));
    assert_eq!(parent("0001:41:01.1"), Some("0001:00:02.0"));
    assert_eq!(parent("10000:e1:00.0"), Some("10000:e0:06.0"));
    assert_eq!(machine.pci.len(), 14);
    let disk = tree.find("0000:04:00.0").expect("the disk");
    assert_eq!((&disk.vendor, &disk.name), (&Fact::Known(0x144d), &Fact::Known("A disk".into())));
}

#[test]
fn what_lspci_of_2006_printed() {
    let devices = read(
        "0a:00.0 SCSI storage controller: LSI Logic / Symbios Logic SAS1068E PCI-Express Fusion-MPT SAS (rev \
         08)
\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR-
\tCapabilities: [68] Express Endpoint IRQ 0
\t\tDevice: Supported: MaxPayload 4096 bytes, PhantFunc 0, ExtTag+
\t\tDevice: Latency L0s <64ns, L1 <1us
\t\tDevice: MaxPayload 128 bytes, MaxReadReq 4096 bytes
\t\tLink: Supported Speed 2.5Gb/s, Width x8, ASPM L0s L1, Port 0
\t\tLink: ASPM Disabled RCB 64 bytes CommClk- ExtSynch-
\t\tLink: Speed 2.5Gb/s, Width x8
",
    );
    let disk = &devices[0];
    assert_eq!((&disk.link, &disk.link_max), (&link(2.5, 8), &link(2.5, 8)));
    assert_eq!(disk.express.max_payload_supported_bytes, Fact::Known(4096));
    assert_eq!(disk.express.max_payload_bytes, Fact::Known(128));
    assert_eq!(disk.express.power_saving, Fact::Known(false));
}

#[test]
fn marks_behind_a_speed_and_a_slot() {
    let devices = read(
        "0000:17:00.0 Non-Volatile memory controller [0108]: Samsung NVMe [144d:a80a] (prog-if 02 [NVM \
         Express])
\tPhysical Slot: 3
\tFlags: bus master, fast devsel, latency 0, IRQ 33, NUMA node 1
\tCapabilities: [70] Express (v2) Endpoint, IntMsgNum 0
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM L1, Exit Latency L1 <64us
\t\tLnkCtl:\tASPM L1 Enabled; RCB 64 bytes, LnkDisable- CommClk+
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x2 (downgraded)
\t\tLnkCap2: Supported Link Speeds: 2.5-16GT/s, Crosslink- Retimer+ 2Retimers+ DRS-
\t\tLnkCtl2: Target Link Speed: 16GT/s, EnterCompliance- SpeedDis-
00:01.0 PCI bridge: Maker Port
\tStatus: Cap+ 66MHz- UDF-
\tCapabilities: <access denied>
ff:00.0 Bridge: Maker Gone (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
",
    );
    let [port, disk, gone] = devices.as_slice() else { panic!("{devices:?}") };
    assert_eq!((&disk.link, &disk.link_max), (&link(8.0, 2), &link(16.0, 4)));
    assert_eq!(disk.class, Fact::Known(0x010802));
    assert_eq!((&disk.node, &disk.express.slot), (&Fact::Known(1), &Fact::Known(3)));
    assert_eq!(disk.express.power_saving, Fact::Known(true));
    assert_eq!(disk.express.target_gt_per_second, Fact::Known(16.0));
    assert!(port.link.why().is_some_and(|why| why.contains("without root")), "{port:?}");
    assert!(gone.link.why().is_some_and(|why| why.contains("does not answer")), "{gone:?}");
}

#[test]
fn pci_x_and_conventional_pci_in_words() {
    let devices = read(
        "00:02.0 PCI bridge: IBM EADS-X PCI-X to PCI-X Bridge (rev 02) (prog-if 0f)
\tStatus: Cap+ 66MHz+ UDF- FastB2B- ParErr- DEVSEL=slow >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
\tBus: primary=00, secondary=01, subordinate=10, sec-latency=248
\tSecondary status: 66MHz+ FastB2B- ParErr- DEVSEL=slow >TAbort- <TAbort- <MAbort- <SERR- <PERR-
\tCapabilities: [a0] PCI-X bridge device
\t\tSecondary Status: 64bit+ 133MHz+ SCD- USC- SCO- SRD- Freq=100MHz
\t\tStatus: Dev=00:02.0 64bit+ 133MHz+ SCD- USC- SCO- SRD-
01:01.0 SCSI storage controller: LSI 53c1010 66MHz Ultra3 SCSI Adapter (rev 01)
\tStatus: Cap+ 66MHz+ UDF- FastB2B- ParErr- DEVSEL=medium >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
00:1f.1 IDE interface: Maker Chip set
\tStatus: Cap+ 66MHz- UDF- FastB2B+ ParErr- DEVSEL=medium >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
",
    );
    let [bridge, chip_set, card] = devices.as_slice() else { panic!("{devices:?}") };
    let bus = |pci_x, megahertz, bits| ParallelBus { pci_x, megahertz: Fact::Known(megahertz), bits };
    assert_eq!(bridge.parallel, Fact::Known(bus(true, 133, Fact::Known(64))));
    assert_eq!(bridge.parallel_below, Fact::Known(bus(true, 100, Fact::Known(64))));
    assert_eq!(card.parent.as_deref(), Some("0000:00:02.0"));
    let own = card.parallel.known().expect("a bus");
    assert_eq!((own.pci_x, &own.megahertz, own.bits.known()), (false, &Fact::Known(66), None));
    assert!(chip_set.parallel.why().is_some_and(|why| why.contains("on a root bus")));
}

#[test]
fn a_text_without_any_function_says_what_it_is() {
    assert_eq!(from_lspci(" \n\n"), Err(LspciError::Empty));
    let error = from_lspci("\n\nArchitecture: x86_64\nCPUs: 4\n").expect_err("lscpu");
    assert_eq!(
        error.to_string(),
        "line 3: no PCI device begins here or later: “Architecture: x86_64”; wanted is what `lspci -vv`, \
         `lspci -vt` or \
         `lspci -xxx` prints"
    );
}

#[test]
fn the_forms_for_programs() {
    let mm = "04:00.1 \"Ethernet controller [0200]\" \"Intel Corporation [8086]\" \"82599ES [10fb]\" -r01 \"Dell [1028]\" \"A card\"\n";
    let vmm = "Slot:\t04:00.1\nClass:\tEthernet controller [0200]\nVendor:\tIntel Corporation [8086]\nDevice:\t82599ES [10fb]\n\
        Rev:\t01\nDriver:\tixgbe\nNUMANode:\t1\n";
    for text in [mm, vmm, &format!("{mm}{vmm}")] {
        let devices = read(text);
        assert_eq!(devices.len(), 1, "{text}");
        let device = &devices[0];
        assert_eq!(device.address, "0000:04:00.1");
        assert_eq!(
            (device.class.known(), device.vendor.known(), device.device.known()),
            (Some(&0x02_0000), Some(&0x8086), Some(&0x10fb))
        );
        assert_eq!(device.name.known().map(String::as_str), Some("Intel Corporation 82599ES"));
    }
    let device = &read(vmm)[0];
    assert_eq!((device.driver.known().map(String::as_str), device.node.known()), (Some("ixgbe"), Some(&1)));
    assert_eq!(read("00:00.0 \"0600\" \"8086\" \"3405\" -r12 \"\" \"\"\n")[0].device.known(), Some(&0x3405));
}

#[test]
fn too_many_functions_are_refused() {
    let text: String = (0..0x3_0000u32)
        .map(|n| format!("{:04x}:{:02x}:{:02x}.{} x\n", n >> 16, n >> 8 & 0xff, n >> 3 & 0x1f, n & 7))
        .collect();
    let error = from_lspci(&text).expect_err("too many");
    assert!(error.to_string().starts_with("line 65538: more than 65536"), "{error}");
}

/// Pieces of all three forms, between tildes.
const PIECES: &str = "-+-[~-[~]~+-~\\-~|~----~ ~0000:00~00~01-05~00.0~1f.7~\t~00:01.0 ~LnkSta: ~LnkCap: ~\
     Speed 8GT/s, ~Width x16~Bus: ~primary=00, ~secondary=01, ~subordinate=ff~Capabilities: ~[40] ~\
     Express ~(v2) ~Root Port (Slot+)~Slot #~99999999999~MaxPayload ~40: ~ff ~00: ~10 ~é~(prog-if ";

/// Lines of pieces in any order.
fn line() -> impl Strategy<Value = String> {
    let pieces: Vec<&str> = PIECES.split('~').collect();
    proptest::collection::vec(proptest::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_lines_give_a_tree_without_rings(lines in proptest::collection::vec(line(), 0..40)) {
        let text = lines.join("\n");
        if let Ok(devices) = from_lspci(&text) {
            let machine = Machine { pci: devices, ..Default::default() };
            let tree = Topology::new(&machine);
            for device in &machine.pci {
                prop_assert!(!tree.above(device).iter().any(|above| above.address == device.address));
                if let Some(parent) = &device.parent {
                    prop_assert!(parent < &device.address, "{parent} above {}", device.address);
                    prop_assert!(tree.find(parent).is_some());
                }
                tree.link(device);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,300}") {
        let _ = from_lspci(&text);
    }
}

#[test]
fn lines_of_a_dump() {
    assert_eq!(dump_line("40: 10 e0 42"), Some((0x40, vec![0x10, 0xe0, 0x42])));
    assert_eq!(dump_line("100: 01"), Some((0x100, vec![1])));
    for line in ["40: 10 e0 4", "40: zz", "4: 10", "Bus: primary=00", "40 10"] {
        assert_eq!(dump_line(line), None, "{line}");
    }
}

#[test]
fn a_dump_with_a_gap_ends_there() {
    let mut block = Block::default();
    for line in ["00: 86 80", "02: 05 34", "10: ff", "04: 01"] {
        block.line(line);
    }
    assert_eq!(block.bytes, [0x86, 0x80, 0x05, 0x34, 0x01]);
    block.line("00: de 10");
    assert_eq!(block.bytes, [0xde, 0x10], "the same function again");
}
