//! The lines of block devices, the controllers above them, and file systems.

use super::branch::{Branch, grouped};
use super::{bits, joined};
use linerate_facts::fact::Fact;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Array, Controller, ControllerKind, Disk, DiskKind, FileSystem, Machine};

/// Members named in a line; more are the first and the last.
const MEMBERS: usize = 4;

/// The disks of a function, alike ones together; where several hang on one controller, below that.
pub(super) fn of_function(machine: &Machine, pci: &str) -> Vec<Branch> {
    let here = |disk: &&Disk| disk.pci.as_deref() == Some(pci) && disk.kind != DiskKind::Partition;
    let controllers = machine.controllers.iter().filter(|controller| controller.pci.as_deref() == Some(pci));
    let mut branches: Vec<Branch> = controllers.filter_map(controller).collect();
    branches.extend(machine.disks.iter().filter(here).map(|disk| with_partitions(machine, disk)));
    grouped(branches)
}

/// Controllers on no PCI function: NVMe over a network.
pub(super) fn remote_controllers(machine: &Machine) -> Vec<Branch> {
    grouped(
        machine
            .controllers
            .iter()
            .filter(|controller| controller.pci.is_none())
            .filter_map(controller)
            .collect(),
    )
}

/// The port of a controller that tells more than its disk does; an NVMe drive on PCIe is its own controller.
fn controller(controller: &Controller) -> Option<Branch> {
    let local = controller.transport.known().is_none_or(|transport| transport == "pcie");
    if controller.kind == ControllerKind::Nvme && local {
        return None;
    }
    let kind = match controller.kind {
        ControllerKind::Nvme => "NVMe",
        ControllerKind::Sata => "SATA",
        ControllerKind::Sas => "SAS",
        ControllerKind::FibreChannel => "Fibre Channel",
        ControllerKind::Scsi => "SCSI",
        ControllerKind::Other => "",
    };
    let transport = controller.transport.known().filter(|_| !local).cloned().unwrap_or_default();
    let queues = controller.queues.known().map(|queues| counted(*queues, "queue")).unwrap_or_default();
    let disks = if controller.disks.is_empty() { "nothing behind it".to_string() } else { String::new() };
    let model = controller.model.known().cloned().unwrap_or_default();
    let parts = [kind.to_string(), port_rate(controller), model, transport, queues, disks];
    // Ports without a rate and without anything behind them are many and say nothing.
    let silent = controller.disks.is_empty() && controller.link_bits_per_second.known().is_none();
    (!silent).then(|| Branch::named(&controller.name, format!(" · {}", joined(parts))))
}

/// `6 Gb/s of 12 Gb/s`.
fn port_rate(controller: &Controller) -> String {
    match (controller.link_bits_per_second.known(), controller.link_max_bits_per_second.known()) {
        (Some(now), Some(most)) if now < most => format!("{} of {}", bits(*now), bits(*most)),
        (Some(now), _) => bits(*now),
        (None, Some(most)) => format!("up to {}", bits(*most)),
        (None, None) => String::new(),
    }
}

/// A disk with those of its partitions that something is mounted from.
pub(super) fn with_partitions(machine: &Machine, disk: &Disk) -> Branch {
    let mut branch = block_device(machine, disk);
    let parts = machine
        .disks
        .iter()
        .filter(|part| part.kind == DiskKind::Partition && part.members.contains(&disk.name));
    let used = parts.filter(|part| !mounts(machine, &part.name).is_empty());
    branch.extend(used.map(|part| block_device(machine, part)));
    branch
}

fn block_device(machine: &Machine, disk: &Disk) -> Branch {
    let size = disk.size_bytes.known().map(|bytes| show_size(*bytes)).unwrap_or_default();
    let mut parts: Vec<String> = disk.mapped_name.iter().map(|name| format!("/dev/mapper/{name}")).collect();
    if disk.kind != DiskKind::Partition {
        parts.extend(disk.model.known().cloned());
        parts.extend(medium(disk));
        parts.extend(disk.logical_block_bytes.known().map(|bytes| format!("{bytes} B blocks")));
        parts.extend(disk.array.as_ref().map(array));
        parts.extend(under(disk));
        parts.extend((disk.discard.known() == Some(&true)).then(|| "discard".to_string()));
        parts.extend(
            disk.scheduler.known().filter(|name| *name != "none").map(|name| format!("scheduler {name}")),
        );
    }
    let off = disk.misaligned_bytes.known().filter(|bytes| **bytes > 0);
    parts.extend(off.map(|bytes| format!("misaligned by {bytes} B")));
    parts.push(mounts(machine, &disk.name));
    Branch::named(&disk.name, format!(" {}", joined([size].into_iter().chain(parts))))
}

fn medium(disk: &Disk) -> Option<String> {
    match (disk.kind, disk.rotational.known()) {
        (DiskKind::Scsi, Some(true)) => Some("rotating".into()),
        (DiskKind::Scsi, Some(false)) => Some("solid state".into()),
        _ => None,
    }
}

/// The file or the devices that it lies on.
fn under(disk: &Disk) -> Option<String> {
    match (&disk.backing_file, disk.members.as_slice()) {
        (Some(file), _) => Some(format!("file {}", file.display())),
        (None, []) => None,
        (None, [first, .., last]) if disk.members.len() > MEMBERS => {
            Some(format!("on {} devices {first} … {last}", disk.members.len()))
        }
        (None, members) => Some(format!("on {}", members.join(", "))),
    }
}

/// `raid6 of 8, chunk 512 KiB, stripe 3 MiB, 1 missing`.
fn array(array: &Array) -> String {
    let mut parts = vec![match array.disks.known() {
        Some(disks) => format!("{} of {disks}", array.level),
        None => array.level.clone(),
    }];
    let chunk = array.chunk_bytes.known();
    parts.extend(chunk.map(|chunk| format!("chunk {}", show_size(*chunk))));
    // ext4 knows the stripe alone.
    let stripe = array.stripe_bytes.known().filter(|stripe| Some(*stripe) != chunk);
    parts.extend(stripe.map(|stripe| format!("stripe {}", show_size(*stripe))));
    parts.extend(array.degraded.known().filter(|count| **count > 0).map(|count| format!("{count} missing")));
    let action = array.sync_action.known().filter(|action| *action != "idle");
    parts.extend(action.map(|action| format!("{action} under way")));
    parts.join(", ")
}

/// `ext4 on /`; further mounts of the same device (bind mounts, subvolumes) are counted.
fn mounts(machine: &Machine, disk: &str) -> String {
    let mut here = machine.file_systems.iter().filter(|fs| fs.devices.iter().any(|device| device == disk));
    let Some(first) = here.next() else { return String::new() };
    let more = match here.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let part = if first.devices.len() > 1 { "part of " } else { "" };
    let made_for = first.array.as_ref().map(|own| format!(" (made for {})", array(own))).unwrap_or_default();
    format!("{part}{} on {}{made_for}{more}", first.kind, first.mount_point.display())
}

/// Block devices on no PCI function that the tree shows: dm, md, loop, zram, and disks of a recording without
/// its PCI.
pub(super) fn stacked(machine: &Machine) -> Vec<Branch> {
    let shown =
        |disk: &Disk| machine.pci.iter().any(|device| Some(device.address.as_str()) == disk.pci.as_deref());
    let all = machine.disks.iter().filter(|disk| disk.kind != DiskKind::Partition && !shown(disk));
    grouped(all.filter(|disk| has_bytes(disk)).map(|disk| with_partitions(machine, disk)).collect())
}

/// A loop device without a file and a disk without a medium have no bytes.
pub(super) fn has_bytes(disk: &Disk) -> bool {
    match disk.size_bytes {
        Fact::Known(bytes) => bytes > 0,
        Fact::Unknown { .. } => !matches!(disk.kind, DiskKind::Loop | DiskKind::Other),
    }
}

/// Mounts from the network.
pub(super) fn network_file_systems(machine: &Machine) -> Vec<Branch> {
    let line = |fs: &FileSystem| format!("{} on {} from {}", fs.kind, fs.mount_point.display(), fs.source);
    machine.file_systems.iter().filter(|fs| fs.devices.is_empty()).map(|fs| Branch::new(line(fs))).collect()
}
