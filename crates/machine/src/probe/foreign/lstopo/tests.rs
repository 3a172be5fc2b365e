//! Topologies of the three versions of hwloc, a few objects each.

use super::*;
use crate::probe::{DiskKind, PciLink};
use proptest::prelude::*;

/// hwloc 3: two packages of one core, a switch-less tree with a NIC and a disk.
const V3: &str = include_str!("v3.xml");

/// hwloc 1: nodes hold sockets, distances inside, kinds as numbers, no version.
const V1: &str = r#"<topology>
  <object type="Machine" os_index="0" cpuset="0x00000003" allowed_cpuset="0x00000003" nodeset="0x00000003">
    <info name="HostName" value="old"/>
    <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
      <latency value="1.000000"/><latency value="2.000000"/><latency value="2.100000"/><latency value="1.000000"/>
    </distances>
    <object type="NUMANode" os_index="0" cpuset="0x00000001" nodeset="0x00000001" local_memory="100">
      <object type="Socket" os_index="0" cpuset="0x00000001" nodeset="0x00000001">
        <object type="Cache" cpuset="0x00000001" cache_size="100" depth="3" cache_linesize="64" cache_type="0">
          <object type="Core" os_index="0" cpuset="0x00000001"><object type="PU" os_index="0" cpuset="0x00000001"/></object>
        </object>
      </object>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
        <object type="PCIDev" pci_busid="0000:00:03.0" pci_type="0200 [8086:10c9] [8086:a03c] 01" pci_link_speed="8.000000">
          <object type="OSDev" name="eth1" osdev_type="2"/>
          <object type="OSDev" name="vda" osdev_type="0"><info name="Size" value="10"/></object>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="1" cpuset="0x00000002" nodeset="0x00000002" local_memory="100">
      <object type="Socket" os_index="1" cpuset="0x00000002">
        <object type="Core" os_index="0" cpuset="0x00000002"><object type="PU" os_index="1" cpuset="0x00000002"/></object>
      </object>
    </object>
  </object>
</topology>"#;

#[test]
fn version_3() {
    let machine = from_lstopo(V3).expect("a machine");
    assert_eq!(
        (machine.host.known().map(String::as_str), machine.kernel.release.known().map(String::as_str)),
        (Some("dtn"), Some("6.1.0"))
    );
    let cpu = &machine.cpu;
    assert_eq!(
        (cpu.packages.known(), cpu.physical_cores.known(), cpu.smt.known()),
        (Some(&2), Some(&2), Some(&true))
    );
    assert_eq!(cpu.allowed, Fact::Known(vec![0, 1]));
    let third = &cpu.logical[2];
    assert_eq!(
        (third.package.known(), third.core.known(), third.node.known()),
        (Some(&1), Some(&0), Some(&2))
    );
    assert_eq!(cpu.logical[0].siblings, Fact::Known(vec![0, 1]));
    let caches: Vec<_> =
        cpu.caches.iter().map(|c| (c.level, c.kind.as_str(), c.size_bytes.known().copied())).collect();
    assert_eq!(caches, [(1, "Instruction", Some(32_768)), (2, "Unified", Some(1 << 20))]);
    assert!(cpu.caches[0].line_bytes.why().is_some() && cpu.caches[0].cpus == [0, 1]);
    let nodes: Vec<_> = machine.memory.nodes.iter().map(|node| (node.id, node.cpus.len())).collect();
    assert_eq!((nodes, machine.memory.total_bytes.known()), (vec![(0, 2), (2, 1)], Some(&1500)));
    assert_eq!(machine.memory.nodes[1].distances, Fact::Known(vec![21, 10]));
    let card = machine.pci.iter().find(|device| device.address == "0000:01:00.0").expect("the card");
    assert_eq!(card.parent.as_deref(), Some("0000:00:02.0"));
    assert_eq!(
        card.link,
        Fact::Known(PciLink { gt_per_second: 8.0, width: 16 }),
        "the processor does no more than 8 GT/s"
    );
    assert_eq!(
        (card.class.known(), card.vendor.known(), card.device.known()),
        (Some(&0x020000), Some(&0x15b3), Some(&0x1017))
    );
    assert_eq!(
        card.name.known().map(String::as_str),
        Some("Mellanox Technologies MT27800 Family [ConnectX-5]")
    );
    assert_eq!(card.node, Fact::Known(0));
    let names: Vec<_> = machine.nics.iter().map(|nic| (nic.name.as_str(), nic.pci.as_deref())).collect();
    assert_eq!(names, [("eth0", Some("0000:01:00.0"))], "an RDMA device is not an interface");
    let disk = &machine.disks[0];
    assert_eq!(
        (disk.kind, disk.size_bytes.known(), disk.model.known().map(String::as_str)),
        (DiskKind::Scsi, Some(&1_024_000), Some("ACME"))
    );
    assert_eq!((disk.number.known().map(String::as_str), disk.node.known()), (Some("8:0"), Some(&0)));
}

#[test]
fn version_1() {
    let machine = from_lstopo(V1).expect("a machine");
    assert_eq!(machine.host, Fact::Known("old".into()));
    assert_eq!((machine.cpu.packages.known(), machine.cpu.smt.known()), (Some(&2), Some(&false)));
    assert_eq!(machine.cpu.logical[1].node, Fact::Known(1));
    assert_eq!(machine.cpu.caches[0].level, 3);
    assert_eq!(machine.memory.nodes[1].distances, Fact::Known(vec![21, 10]));
    assert_eq!(machine.pci[0].link, Fact::Known(PciLink { gt_per_second: 5.0, width: 16 }));
    assert_eq!((machine.nics[0].name.as_str(), machine.disks[0].size_bytes.known()), ("eth1", Some(&10_240)));
    assert_eq!(machine.nics[0].node, Fact::Known(0));
}

#[test]
fn what_is_damaged_says_where() {
    let why = |text: &str| from_lstopo(text).expect_err("no topology").to_string();
    assert!(why("").contains("no XML"));
    assert!(why("<topology>\n<object").contains("line 2"), "{}", why("<topology>\n<object"));
    assert!(why("\n<html/>").contains("line 2: a <html>, not the <topology>"));
    assert!(why("<topology/>").contains("neither processors"));
    let nameless = "<topology>\n<object type=\"Machine\">\n<object type=\"PU\"/></object></topology>";
    assert_eq!(why(nameless), "line 3: this PU has no os_index");
    let laughs =
        "<!DOCTYPE topology [\n<!ENTITY a \"ha\">\n<!ENTITY b \"&a;&a;\">]>\n<topology>&b;</topology>";
    assert!(why(laughs).contains("line 2: it declares entities"));
    let deep = format!(
        "<topology>{}</topology>",
        "<object type=\"Group\">".repeat(5000) + &"</object>".repeat(5000)
    );
    assert!(why(&deep).contains("nested more than 200 deep"));
    // Neither the parser nor the reader goes down with it.
    assert!(why(&"<a>".repeat(200_000)).contains("cut off"));
    let wide = format!(
        "<topology>{}</topology>",
        format!("<object type=\"Core\" nodeset=\"{}0\"/>", "ffffffff,".repeat(2000)).repeat(200)
    );
    assert!(why(&wide).contains("larger than any server's"));
}

proptest! {
    #[test]
    fn any_text_is_a_machine_or_a_sentence(text in "(<topology>|<object \
                                                    type=\"(PU|Core|Cache|NUMANode|PCIDev)\"|/>|</object>| \
                                                    os_index=\"[0-9]{0,12}\"| \
                                                    cpuset=\"[0-9a-fx,]{0,20}\"|.{0,5}){0,30}") {
        if let Err(why) = from_lstopo(&text) {
            prop_assert!(!why.to_string().is_empty());
        }
    }

    #[test]
    fn a_damaged_topology_does_not_panic(at in 0usize..4000, with in ".{0,3}", length in 0usize..40) {
        let mut text = V3.to_string();
        let start = (0..=at % text.len()).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let end = (start + length).min(text.len());
        if text.is_char_boundary(end) {
            text.replace_range(start..end, &with);
        }
        if let Ok(machine) = from_lstopo(&text) {
            let json = serde_json::to_string(&machine).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Machine>(&json).expect("the machine again"), machine);
        }
    }
}
