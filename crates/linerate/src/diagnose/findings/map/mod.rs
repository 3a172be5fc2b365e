//! Findings from the map: what can be said of a machine before anything is measured. Pure functions of the `Machine`; a gain is what
//! the device itself could carry more, by arithmetic, and 0 where that takes a measurement.

mod capacity;
mod lanes;
mod memory;
mod nodes;
mod packets;
mod ports;
mod run;
mod storage;
pub(crate) mod topology;
mod uplink;

use super::super::product::Finding;
use crate::probe::{Machine, PciDevice, PciLink};
use crate::units::show_bits_rate;
pub(super) use run::of_run;
pub(super) use storage::alignment as misaligned;
use topology::Topology;
pub use topology::{EdgeState, PcieEdge};

/// What is wrong or worth changing on a machine, by what it is alone, worst first. Pure and total: what the machine does not tell gives no
/// finding.
pub fn map_findings(machine: &Machine) -> Vec<Finding> {
    let tree = Topology::new(machine);
    let of_tree: [fn(&Topology) -> Vec<Finding>; 7] = [
        lanes::below_both_ends,
        lanes::older_card,
        ports::too_small,
        uplink::shared,
        packets::max_payload,
        packets::max_read_request,
        nodes::queues,
    ];
    let of_machine: [fn(&Machine) -> Vec<Finding>; 9] = [
        nodes::apart,
        memory::clock,
        memory::empty_channels,
        memory::one_node,
        storage::slow_port,
        storage::degraded,
        storage::stripe,
        storage::alignment,
        nodes::interrupts,
    ];
    let mut findings: Vec<Finding> = of_tree.iter().flat_map(|find| find(&tree)).collect();
    findings.extend(of_machine.iter().flat_map(|find| find(machine)));
    super::sort(&mut findings);
    findings
}

/// All PCIe links of a machine with both their ends, for who draws them.
pub fn pcie_edges(machine: &Machine) -> Vec<PcieEdge<'_>> {
    Topology::new(machine).edges()
}

/// What a card is called: its interfaces or disks, with its address.
fn named(tree: &Topology, device: &PciDevice) -> String {
    let nics = tree.nics(device).into_iter().map(|nic| nic.name.as_str());
    let disks = tree.disks(device).into_iter().map(|disk| disk.name.as_str());
    let names: Vec<&str> = nics.chain(disks).collect();
    match (names.as_slice(), device.class.known()) {
        ([], Some(class)) => format!("{} ({})", device.address, class_word(*class)),
        ([], None) => device.address.clone(),
        ([..], _) => format!("{} ({})", listed(&names), device.address),
    }
}

/// The first few names, and how many more.
fn listed(names: &[&str]) -> String {
    const NAMED: usize = 4;
    match names.len() {
        count if count <= NAMED => names.join(", "),
        count => format!("{} and {} more", names[..NAMED - 1].join(", "), count + 1 - NAMED),
    }
}

/// Names that `Finding::evidence` holds as `devices`: functions, interfaces and disks of a card.
fn devices(tree: &Topology, device: &PciDevice) -> Vec<String> {
    let nics = tree.nics(device).into_iter().map(|nic| nic.name.clone());
    let disks = tree.disks(device).into_iter().map(|disk| disk.name.clone());
    std::iter::once(device.address.clone()).chain(nics).chain(disks).collect()
}

fn class_word(class: u32) -> &'static str {
    match (class >> 16, class >> 8) {
        (_, 0x0108) => "NVMe",
        (0x01, _) => "storage",
        (_, 0x0207 | 0x0c06) => "InfiniBand",
        (0x02, _) => "network",
        (0x03, _) => "GPU",
        (0x12, _) | (_, 0x0b40) => "accelerator",
        (_, 0x0604) => "switch",
        _ => "device",
    }
}

/// Storage, network, GPUs, accelerators, and the switches above them.
fn carries_bytes(device: &PciDevice) -> bool {
    device.class.known().is_some_and(|class| class_word(*class) != "device")
}

/// `8 GT/s x4`.
fn link(link: PciLink) -> String {
    format!("{} GT/s x{}", link.gt_per_second, link.width)
}

/// Rates of links are shown in bits.
fn rate(bytes_per_second: f64) -> String {
    show_bits_rate(bytes_per_second)
}

/// A slot that is empty and whose port can do at least this, nearest address first.
fn empty_slot(tree: &Topology, at_least: PciLink) -> Option<String> {
    let fits = |port: &&PciDevice| {
        matches!(tree.place(port), topology::Place::Root | topology::Place::Downstream)
            && tree.is_bridge(port)
            && tree.children(&port.address).is_empty()
            && port.link_max.known().is_some_and(|most| {
                most.width >= at_least.width && most.gt_per_second >= at_least.gt_per_second
            })
    };
    let port = tree.machine.pci.iter().find(fits)?;
    let slot = port.express.slot.known()?;
    Some(format!("slot {slot} ({}) is empty and can {}", port.address, link(port.link_max.known().copied()?)))
}

#[cfg(test)]
mod tests;
