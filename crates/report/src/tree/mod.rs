//! The machine as a tree of text, what `linerate probe` prints: one screen for a virtual machine, and for a
//! large server what carries bytes, each thing below what it hangs on.

mod branch;
mod disks;
mod functions;
mod processor;
mod unknowns;

use branch::{Branch, grouped};
use linerate_facts::fact::Fact;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_machine::probe::{Kernel, Machine};
use linerate_machine::topology::{FreeSlot, Topology};

/// The machine as text, lines ended by a newline. Facts that could not be read stand at the end with their
/// reasons, grouped.
pub fn show_tree(machine: &Machine) -> String {
    let mut top = Branch::new(heading(machine));
    top.push(processor::cpu(&machine.cpu));
    top.extend(processor::memory(&machine.memory));
    top.extend(kernel(&machine.kernel));
    top.extend(free_slots(machine));
    top.extend(processor::power(&machine.power));
    let mut shown = functions::functions(machine);
    let nodes = machine.memory.nodes.iter().map(|node| {
        let mut branch = processor::node(machine, node);
        branch.extend(shown.take_node(node.id));
        branch
    });
    top.extend(grouped(nodes.collect()));
    let title = if machine.memory.nodes.is_empty() { "PCI devices" } else { "PCI devices on no known node" };
    top.push_section(title, shown.take_rest());
    top.extend(shown.left_out());
    top.push_section("Block devices stacked on others, or virtual", first(disks::stacked(machine)));
    top.push_section("Controllers on no PCI function", first(disks::remote_controllers(machine)));
    top.push_section("Virtual interfaces", first(virtual_interfaces(machine)));
    top.push_section("Network file systems", first(disks::network_file_systems(machine)));
    top.push_section("Unknown here", unknowns::lines(machine, &shown.addresses));
    top.show()
}

/// A host of containers has hundreds of virtual interfaces, a cluster's node dozens of network file systems:
/// more are counted.
const SHOWN: usize = 12;

fn first(mut branches: Vec<Branch>) -> Vec<Branch> {
    if branches.len() > SHOWN {
        let more = branches.len() - (SHOWN - 1);
        branches.truncate(SHOWN - 1);
        branches.push(Branch::new(format!("and {more} more")));
    }
    branches
}

/// Interfaces on no PCI function that the tree shows.
fn virtual_interfaces(machine: &Machine) -> Vec<Branch> {
    let shown = |pci: Option<&str>| machine.pci.iter().any(|device| Some(device.address.as_str()) == pci);
    let all = machine.nics.iter().filter(|nic| !shown(nic.pci.as_deref()));
    grouped(all.map(|nic| functions::interface(nic, None)).collect())
}

fn heading(machine: &Machine) -> String {
    let host = machine.host.known().map_or("unnamed host", String::as_str);
    let mut parts = vec![host.to_string()];
    match machine.virtualisation.known().map(String::as_str) {
        Some("none") => parts.push("bare metal".into()),
        Some(name) => parts.push(format!("virtual machine ({name})")),
        None => {}
    }
    parts.extend(machine.instance.known().cloned());
    parts.extend(machine.kernel.release.known().map(|release| format!("Linux {release}")));
    joined(parts)
}

/// Settings that bound a flow; nothing where none could be read (a thin recording).
fn kernel(kernel: &Kernel) -> Option<Branch> {
    let mut parts = Vec::new();
    parts.extend(kernel.io_uring_disabled.known().map(|switch| {
        match switch {
            0 => "io_uring allowed",
            1 => "io_uring for one group and root only",
            _ => "io_uring off",
        }
        .to_string()
    }));
    parts.extend(kernel.memlock_bytes.known().map(|bytes| format!("memlock {}", limit(*bytes))));
    if let Fact::Known(control) = &kernel.tcp_congestion_control {
        let others = kernel.tcp_available_congestion_control.known().into_iter().flatten();
        let others: Vec<&str> = others.map(String::as_str).filter(|name| name != control).collect();
        let others = if others.is_empty() { String::new() } else { format!(" (or {})", others.join(", ")) };
        parts.push(format!("TCP {control}{others}"));
    }
    let buffers: Vec<String> = [
        ("receive", &kernel.rmem_max_bytes),
        ("send", &kernel.wmem_max_bytes),
        ("TCP receive", &kernel.tcp_rmem_max_bytes),
        ("TCP send", &kernel.tcp_wmem_max_bytes),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some(format!("{name} {}", show_size(*bytes.known()?))))
    .collect();
    if parts.is_empty() && buffers.is_empty() {
        return None;
    }
    let mut branch = Branch::new(format!("Kernel   {}", joined(parts)));
    if !buffers.is_empty() {
        branch.more(format!("         socket buffers up to: {}", buffers.join(", ")));
    }
    Some(branch)
}

/// Slots that a card could be put into, where the firmware lists its slots.
fn free_slots(machine: &Machine) -> Option<Branch> {
    if machine.slots.is_empty() {
        return None;
    }
    let free = Topology::new(machine).free_slots();
    let show = |slot: &FreeSlot| {
        let link = slot.link.map_or("of unknown width".into(), |link| match slot.speed_is_taken {
            true => format!("x{}", link.width),
            false => link.to_string(),
        });
        let printed = Some(&slot.designation).filter(|printed| !printed.is_empty());
        format!("{}{} {link}", slot.name, printed.map_or(String::new(), |printed| format!(" ({printed})")))
    };
    let mut names: Vec<String> = free.iter().take(SHOWN).map(show).collect();
    names.extend((free.len() > SHOWN).then(|| format!("and {} more", free.len() - SHOWN)));
    let names = if names.is_empty() { "none".into() } else { names.join(", ") };
    Some(Branch::new(format!("Free slots for cards: {names}")))
}

fn limit(bytes: u64) -> String {
    if bytes == u64::MAX { "unlimited".into() } else { show_size(bytes) }
}

/// A link rate in bits.
fn bits(bits_per_second: u64) -> String {
    show_bits_rate(linerate_facts::units::bytes_per_second(bits_per_second))
}

/// Parts of a line; the empty ones are left out.
fn joined(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests;
