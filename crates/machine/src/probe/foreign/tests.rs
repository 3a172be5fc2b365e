//! Several sources of one machine.

use super::*;
use crate::probe::PciLink;
use linerate_facts::fact::Fact;
use linerate_testing::Tree;

fn pile(texts: &[&str]) -> ForeignSources {
    let file = |text: &&str| NamedText { name: "given".into(), bytes: text.as_bytes().into() };
    ForeignSources { tree: None, files: texts.iter().map(file).collect() }
}

fn machine(texts: &[&str]) -> Machine {
    described(&pile(texts)).unwrap_or_else(|why| panic!("{why}")).machine
}

const LSTOPO: &str = r#"<topology version="2.0"><object type="Machine" nodeset="0x1">
  <object type="Package" os_index="0" cpuset="0x1" nodeset="0x1">
    <object type="Core" os_index="0" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object></object>
  <object type="PCIDev" pci_busid="0000:0c:00.0" pci_type="0200 [15b3:1021] [0:0] 00 00" pci_link_speed="63.0">
    <object type="OSDev" name="eth0" osdev_type="2"/></object>
</object></topology>"#;

const NCCL: &str = r#"<system><cpu numaid="0"><pci busid="0000:0c:00.0" class="0x020000" link_speed="32 GT/s" link_width="16">
  <nic><net name="mlx5_0" speed="200000"/></nic></pci></cpu></system>"#;

#[test]
fn each_reports_its_part() {
    let tree = Tree::new(&[("proc/sys/kernel/hostname", "dtn"), ("sys/class/net/eth0/mtu", "9000")]);
    let sources = ForeignSources { tree: Some(tree.sysroot()), ..pile(&[LSTOPO, NCCL]) };
    let machine = described(&sources).expect("a machine").machine;
    assert_eq!(machine.host, Fact::Known("dtn".into()));
    assert_eq!(machine.cpu.packages, Fact::Known(1));
    assert_eq!(machine.pci.len(), 1);
    assert_eq!(machine.pci[0].link_max, Fact::Known(PciLink { gt_per_second: 32.0, width: 16 }));
    assert_eq!(machine.nics.len(), 1, "eth0 is mlx5_0");
    let nic = &machine.nics[0];
    assert_eq!((nic.mtu.known(), nic.speed_bits_per_second.known()), (Some(&9000), Some(&200_000_000_000)));
    assert_eq!(nic.pci.as_deref(), Some("0000:0c:00.0"));
}

#[test]
fn what_nobody_reports_has_a_reason_and_an_error_its_file() {
    assert_eq!(machine(&[NCCL]).kernel.release.why(), Some("NCCL does not report"));
    for (text, words) in [
        ("<system>", "cut off"),
        ("nonsense", "holds no listing that is known here: “nonsense”"),
        ("", "is empty"),
        ("{\"blockdevices\": [", "ends before its end"),
        ("\0\0\0\0", "neither text nor a table"),
        ("\u{7f}ELF\0\u{1}", "neither text nor a table"),
    ] {
        let why = described(&pile(&[text])).expect_err(text);
        assert!(why.file == "given" && why.to_string().contains(words), "{why}");
        assert!(why.to_string().lines().count() == 1, "{why}");
    }
    assert_eq!(described(&ForeignSources::default()), Ok(DescribedMachine::default()));
}

const LSPCI: &str = "0c:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n\tNUMA \
                     node: 1\n\
    \tCapabilities: [60] Express (v2) Endpoint, MSI 00\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM \
    not supported\n\
    \t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16 (ok)\n";

const DMIDECODE: &str = "# dmidecode 3.3\nGetting SMBIOS data from sysfs.\nSMBIOS 3.2 present.\n\n\
    Handle 0x1100, DMI type 17, 84 bytes\nMemory Device\n\tTotal Width: 72 bits\n\tData Width: 64 \
    bits\n\tSize: 16 GB\n\
    \tForm Factor: DIMM\n\tLocator: A1\n\tBank Locator: Not Specified\n\tType: DDR4\n\tSpeed: 2933 MT/s\n\
    \tConfigured Memory Speed: 2666 MT/s\n\n";

#[test]
fn lspci_reports_links_and_dmidecode_memory() {
    let machine = machine(&[LSTOPO, DMIDECODE, LSPCI]);
    assert_eq!(machine.pci.len(), 1, "0c:00.0 is 0000:0c:00.0");
    assert_eq!(machine.pci[0].link, Fact::Known(PciLink { gt_per_second: 16.0, width: 16 }));
    assert_eq!(machine.nics[0].name, "eth0");
    let dimm = &machine.memory.modules[0];
    assert_eq!((dimm.locator.as_str(), dimm.configured_mt_per_second.known()), ("A1", Some(&2666)));
}

/// lsblk lists an array, and what lies on it, below each of its disks.
#[test]
fn a_volume_lies_on_its_array_once() {
    let array = r#"{"name":"md0","type":"raid1","children":[{"name":"vg-a","kname":"dm-0","type":"lvm"}]}"#;
    let disks =
        ["sda", "sdb"].map(|disk| format!(r#"{{"name":"{disk}","type":"disk","children":[{array}]}}"#));
    let machine = machine(&[&format!(r#"{{"blockdevices":[{}]}}"#, disks.join(","))]);
    let members = |name: &str| machine.disk(name).expect("a disk").members.join(" ");
    assert_eq!([members("md0"), members("dm-0")], ["sda sdb", "md0"]);
}
