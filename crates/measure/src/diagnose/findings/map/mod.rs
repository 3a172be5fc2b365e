//! Findings from the map: what can be said of a machine before anything is measured. Pure functions of the
//! `Machine`; a gain is what the device itself could carry more, by arithmetic, and 0 where that takes a
//! measurement. After a run what has no part in the flow, or does not hold it, is a note.

mod lanes;
mod nodes;
mod slots;
mod storage;
#[cfg(test)]
mod tests;

use super::super::product::{Finding, Severity};
use super::Context;
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::first_of;
use linerate_machine::probe::{Machine, PciDevice, PciLink};
use linerate_machine::topology::{self, FreeSlot, Topology};
pub(super) use storage::alignment as misaligned;

/// What is wrong or worth changing on a machine, by what it is alone, worst first. Pure and total: what the
/// machine does not report gives no finding.
pub fn map_findings(machine: &Machine) -> Vec<Finding> {
    let tree = Topology::new(machine);
    let of_tree: [fn(&Topology) -> Vec<Finding>; 8] = [
        lanes::below_both_ends,
        lanes::older_card,
        slots::less_than_the_card,
        slots::too_small,
        slots::shared_uplink,
        lanes::max_payload,
        lanes::max_read_request,
        nodes::queues,
    ];
    let of_machine: [fn(&Machine) -> Vec<Finding>; 14] = [
        slots::slow_nic,
        nodes::apart,
        nodes::memory_clock,
        nodes::empty_channels,
        nodes::one_node,
        storage::slow_port,
        storage::degraded,
        storage::busy,
        storage::stripe,
        storage::alignment,
        storage::checksum,
        storage::never_trimmed,
        nodes::interrupts,
        nodes::interrupts_apart,
    ];
    let mut findings: Vec<Finding> = of_tree.iter().flat_map(|find| find(&tree)).collect();
    findings.extend(of_machine.iter().flat_map(|find| find(machine)));
    super::sort(&mut findings);
    findings
}

/// What a card is called: its interfaces or disks, else its class and its maker's name, with its address.
fn card_name(tree: &Topology, device: &PciDevice) -> String {
    let nics = tree.nics(device).into_iter().filter(|nic| !nic.by_class).map(|nic| nic.name.as_str());
    let disks = tree.disks(device).into_iter().map(|disk| disk.name.as_str());
    let names: Vec<&str> = nics.chain(disks).collect();
    if !names.is_empty() {
        return format!("{} ({})", listed(&names), device.address);
    }
    let class = device.class.known().map(|class| topology::class_name(*class).unwrap_or("device"));
    let words: Vec<&str> = class.into_iter().chain(device.name.known().map(String::as_str)).collect();
    match words.is_empty() {
        true => device.address.clone(),
        false => format!("{} ({})", device.address, words.join(", ")),
    }
}

/// The first few names, and how many more.
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    first_of(names, 4)
}

/// Names that `Finding::evidence` holds as `devices`: functions, interfaces and disks of a card.
fn devices(tree: &Topology, device: &PciDevice) -> Vec<String> {
    let nics = tree.nics(device).into_iter().filter(|nic| !nic.by_class).map(|nic| nic.name.clone());
    let disks = tree.disks(device).into_iter().map(|disk| disk.name.clone());
    std::iter::once(device.address.clone()).chain(nics).chain(disks).collect()
}

/// A card that carries bytes, or a switch above such cards.
fn carries_bytes(tree: &Topology, device: &PciDevice) -> bool {
    device.class.known().is_some_and(|class| topology::carries_bytes(*class)) || tree.is_bridge(device)
}

/// Rates of links are shown in bits.
/// `8 GT/s x4 (31.5 Gb/s)`.
fn link_and_rate(what: PciLink) -> String {
    format!("{what} ({})", rate(topology::raw_rate(what).unwrap_or(0.0)))
}

fn rate(bytes_per_second: f64) -> String {
    show_bits_rate(bytes_per_second)
}

/// A slot that is free and can do at least this, nearest address first.
fn empty_slot(tree: &Topology, at_least: PciLink) -> Option<String> {
    let enough =
        |most: &PciLink| most.width >= at_least.width && most.gt_per_second >= at_least.gt_per_second;
    let named = |slot: &FreeSlot| {
        !slot.speed_is_taken && slot.port.is_none_or(|port| port.express.slot.known().is_some())
    };
    let slot =
        tree.free_slots().into_iter().find(|slot| slot.link.as_ref().is_some_and(enough) && named(slot))?;
    let can = slot.link?;
    Some(match slot.port {
        Some(port) => {
            format!("slot {} ({}) is empty and can {can}", port.express.slot.known()?, port.address)
        }
        None => {
            format!("{} (“{}” in the firmware's list) is free and can {can}", slot.name, slot.designation)
        }
    })
}

/// The map's findings with gains re-solved by the run's own prediction.
pub(super) fn of_run(context: &Context) -> Vec<Finding> {
    map_findings(context.machine).into_iter().map(|finding| weighed(context, finding)).collect()
}

fn weighed(context: &Context, mut finding: Finding) -> Finding {
    let Some(devices) = finding.evidence["devices"].as_array() else { return finding };
    let devices: Vec<&str> = devices.iter().filter_map(|device| device.as_str()).collect();
    // `nic:eth0`, `disk:sda`, `pcie:0000:03:00.0`, `pcie:0000:03:00.0/out`
    let names =
        |id: &str| id.split_once(':').map_or(id, |(_, name)| name.trim_end_matches("/out")).to_string();
    let resources = &context.headline().resources;
    let own: Vec<_> =
        resources.iter().filter(|resource| devices.contains(&names(&resource.id).as_str())).collect();
    if own.is_empty() {
        finding.severity = Severity::Note;
    }
    let raise = finding.gain;
    let links = own.iter().filter(|resource| resource.id.starts_with("pcie:") && context.binds(&resource.id));
    finding.gain = links.map(|link| context.gain_with(&link.id, link.capacity + raise)).fold(0.0, f64::max);
    finding
}
