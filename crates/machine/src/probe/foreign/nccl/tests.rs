//! A switch with a GPU and a NIC, a NIC without a function, and what is damaged.

use super::*;
use proptest::prelude::*;

const TOPOLOGY: &str = r#"<system version="1">
  <cpu numaid="1" affinity="0000000f,ffff0000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:0A:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="5.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0c:00.0" class="0x020000" vendor="0xffff" device="0x1021" link_speed="32 GT/s" link_width="8">
        <nic>
          <net name="mlx5_10" dev="0" speed="200000" port="1" guid="0x9a70500003ae6d94"/>
          <net name="mlx5_2" dev="1" speed="0" port="2" guid="0x9a70500003ae6d94"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="-1"><pci busid="0001:00:00.0" class="0x030200" link_speed="" link_width="0"/><nic><net name="eth0" speed="100000"/></nic></cpu>
</system>"#;

#[test]
fn a_switch_and_what_is_below() {
    let machine = from_nccl(TOPOLOGY).expect("a machine");
    assert_eq!(machine.memory.nodes.len(), 1);
    assert_eq!((machine.memory.nodes[0].id, machine.memory.nodes[0].cpus.len()), (1, 20));
    assert_eq!(machine.cpu.logical[0].id, 16);
    assert!(machine.cpu.model.why().is_some_and(|why| why.contains("GenuineIntel family 6 model 143")));
    let card = machine.pci.iter().find(|device| device.address == "0000:0c:00.0").expect("the card");
    assert_eq!(card.parent.as_deref(), Some("0000:0a:00.0"));
    assert_eq!(card.link, Fact::Known(PciLink { gt_per_second: 32.0, width: 8 }));
    assert_eq!((card.class.known(), card.node.known()), (Some(&0x020000), Some(&1)));
    assert!(card.vendor.why().is_some(), "0xffff is nobody");
    let hidden = machine.pci.iter().find(|device| device.address == "0001:00:00.0").expect("the GPU");
    assert!(
        hidden.link.why().is_some_and(|why| why.contains("virtual machine")) && hidden.node.why().is_some()
    );
    let names: Vec<_> = machine
        .nics
        .iter()
        .map(|nic| (nic.name.as_str(), nic.speed_bits_per_second.known().copied()))
        .collect();
    assert_eq!(
        names,
        [("eth0", Some(100_000_000_000)), ("mlx5_2", None), ("mlx5_10", Some(200_000_000_000))]
    );
    assert_eq!(machine.nics[2].pci.as_deref(), Some("0000:0c:00.0"));
}

#[test]
fn ports_of_one_device_are_two_and_gpu_direct_is_of_the_function() {
    let text = r#"<system><cpu numaid="0">
      <pci busid="0000:19:00.0" class="0x020700" link_speed="8.0 GT/s PCIe" link_width="16"><nic>
        <net name="mlx5_0" speed="100000" port="1" gdr="1"/><net name="mlx5_0" speed="100000" port="2" gdr="0"/>
      </nic></pci>
      <pci busid="0000:1a:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"><gpu dev="0" gdr="1"/></pci>
    </cpu></system>"#;
    let machine = from_nccl(text).expect("a machine");
    let names: Vec<&str> = machine.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_0/2"]);
    let direct: Vec<Option<bool>> = machine.pci.iter().map(|device| device.gpu_direct).collect();
    assert_eq!(direct, [Some(false), Some(true)]);
    // A card directly below the CPU is one in a slot: the file has no root ports.
    let tree = crate::topology::Topology::new(&machine);
    assert_eq!(tree.formality(&machine.pci[0]), None);
}

#[test]
fn what_is_damaged_says_where() {
    let why = |text: &str| from_nccl(text).expect_err("no topology").to_string();
    assert!(why("<topology/>").contains("not the <system> of NCCL"));
    assert!(why("<system/>").contains("no <cpu>"));
    assert_eq!(why("<system>\n<cpu>\n<pci/></cpu></system>"), "line 3: this <pci> has no busid");
    assert!(
        why("<system>\n<cpu numaid=\"0\" affinity=\"xyz\"/></system>").starts_with("line 2: affinity “xyz”")
    );
    let deep = format!("<system><cpu>{}{}</cpu></system>", "<nic>".repeat(1000), "</nic>".repeat(1000));
    assert!(why(&deep).contains("nested more than 200 deep"));
}

proptest! {
    #[test]
    fn a_damaged_topology_does_not_panic(at in 0usize..2000, with in ".{0,3}", length in 0usize..40) {
        let mut text = TOPOLOGY.to_string();
        let start = at % text.len();
        text.replace_range(start..(start + length).min(TOPOLOGY.len()), &with);
        let _ = from_nccl(&text);
    }
}
