//! What stands at the ends of the tree: ports to the network and disks.

use super::machine;
use super::parts::{Leaf, joined};
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_size};
use linerate_machine::probe::{Disk, Machine, Nic};
use linerate_machine::topology::{disk_port_rate, frame_rate};

/// More ports or disks than these on a card become one.
const LEAVES: usize = 4;
/// A port to the network.
pub(super) fn port(nic: &Nic) -> Leaf {
    let speed = nic.speed_bits_per_second.known().map(|bits| show_bits_rate(bytes_per_second(*bits)));
    let state = nic.state.known().filter(|state| *state != "unknown").cloned();
    let live = state.as_deref().is_none_or(|state| state == "up");
    // A port without an interface has the address of its card, which stands beside it.
    let name = Some(if nic.by_class { "port".into() } else { nic.name.clone() });
    let text = joined([name, speed.clone(), state.clone().filter(|_| !live)]);
    let mtu = nic.mtu.known().map(|mtu| format!("MTU {mtu}"));
    Leaf {
        tip: joined([Some(nic.name.clone()), state, speed.clone(), mtu]),
        kind: format!("{speed:?} {live}"),
        names: vec![nic.name.clone()],
        used: None,
        rate: frame_rate(nic).unwrap_or(0.0),
        live,
        text,
    }
}

/// A disk, with what is mounted from it or its partitions.
pub(super) fn medium(machine: &Machine, disk: &Disk) -> Leaf {
    let size = disk.size_bytes.known().map(|bytes| show_size(*bytes));
    let model = disk.model.known().map(|model| model.trim().to_string());
    let port =
        machine.controllers.iter().find(|controller| Some(&controller.name) == disk.controller.as_ref());
    let alone = port.filter(|port| port.disks.len() == 1);
    let rate = alone.and_then(disk_port_rate);
    let mounted = machine::mounted(machine, disk);
    Leaf {
        text: joined([Some(disk.name.clone()), size.clone(), rate.map(show_bits_rate), mounted.clone()]),
        tip: joined([Some(disk.name.clone()), size.clone(), model.clone(), mounted]),
        rate: rate.unwrap_or(0.0),
        live: true,
        names: vec![disk.name.clone()],
        used: None,
        kind: format!("{size:?} {model:?} {:?}", rate.map(show_bits_rate)),
    }
}

/// Many ports or disks of one kind as one.
pub(super) fn folded(leaves: Vec<Leaf>) -> Vec<Leaf> {
    if leaves.len() <= LEAVES {
        return leaves;
    }
    let mut folded: Vec<Leaf> = Vec::new();
    for leaf in leaves {
        match folded.iter_mut().find(|other| other.kind == leaf.kind) {
            Some(first) => {
                first.rate += leaf.rate;
                first.tip += "\n";
                first.tip += &leaf.tip;
                first.names.extend(leaf.names);
            }
            None => folded.push(leaf),
        }
    }
    for leaf in folded.iter_mut().filter(|leaf| leaf.names.len() > 1) {
        let (first, last) =
            (leaf.names.first().cloned().unwrap_or_default(), leaf.names.last().cloned().unwrap_or_default());
        leaf.text = format!("{} × {first} – {last}", leaf.names.len());
        let rest =
            leaf.tip.lines().next().and_then(|line| line.split_once(" · ")).map(|(_, rest)| rest.to_string());
        if let Some(rest) = rest {
            leaf.text += &format!(" · {rest}");
        }
    }
    folded
}
