//! Controllers whose disks are theirs alone. NVMe: `/sys/class/nvme` (drivers/nvme/host/sysfs.c).
//!
//! virtio-blk: disks of a virtual machine that have a virtio device each, `…/virtio1/block/vda`. virtio-scsi
//! is a SCSI host.
//!
//! With multipath a namespace of NVMe belongs to a subsystem, and each controller has a hidden path to it:
//! `nvme1c2n1` below `nvme2` is the path of `nvme2` to `nvme1n1`.

use super::{above, name, numbered, wholes};
use crate::probe::machine::{Controller, ControllerKind, Disk, DiskKind, PciDevice, PciLink};
use crate::probe::{in_order, pci};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const CLASS: &str = "/sys/class/nvme";

/// All controllers: those of the class directory, and those that only the path of a disk shows.
pub(super) fn read(sysroot: &Sysroot, disks: &[(Disk, PathBuf)], functions: &[PciDevice]) -> Vec<Controller> {
    let mut places: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in sysroot.list(CLASS) {
        let path = Path::new(CLASS).join(&entry);
        if numbered(&path, "nvme").is_some() {
            places.insert(entry, sysroot.follow(&path).unwrap_or(path));
        }
    }
    for (_, directory) in wholes(disks).filter(|(disk, _)| disk.kind == DiskKind::Nvme) {
        if let Some(place) = above(directory, "nvme") {
            places.entry(name(place)).or_insert_with(|| place.to_path_buf());
        }
    }
    places.into_iter().map(|(name, place)| read_controller(sysroot, name, &place, functions)).collect()
}

fn read_controller(sysroot: &Sysroot, name: String, place: &Path, functions: &[PciDevice]) -> Controller {
    let pci = pci::nearest(place);
    let transport = match (sysroot.fact(place.join("transport")), &pci) {
        (Fact::Unknown { .. }, Some(_)) => Fact::Known("pcie".to_string()),
        (transport, _) => transport,
    };
    let function = functions.iter().find(|function| Some(&function.address) == pci.as_ref());
    let (now, most) = links(function, &transport);
    let width = |link: &Fact<PciLink>| link.clone().map(|link| link.width);
    let rate = |link: Fact<PciLink>| {
        link.map(|link| ((link.gt_per_second * 1e9) as u64).saturating_mul(u64::from(link.width)))
    };
    Controller {
        kind: ControllerKind::Nvme,
        model: unpadded(sysroot.fact(place.join("model"))),
        firmware: unpadded(sysroot.fact(place.join("firmware_rev"))),
        address: sysroot.fact(place.join("address")),
        state: sysroot.fact(place.join("state")),
        lanes: width(&now),
        lanes_max: width(&most),
        link_bits_per_second: rate(now),
        link_max_bits_per_second: rate(most),
        ports: Vec::new(),
        // One of them is the queue of administration.
        queues: sysroot.parse::<u32>(place.join("queue_count")).map(|count| count.saturating_sub(1)),
        disks: namespaces(sysroot, place),
        name,
        pci,
        transport,
    }
}

/// The PCIe link of a controller, and the most that the card can do; for fabrics why there is none.
fn links(function: Option<&PciDevice>, transport: &Fact<String>) -> (Fact<PciLink>, Fact<PciLink>) {
    if let Some(function) = function {
        return (function.link.clone(), function.link_max.clone());
    }
    let why = match transport.known().map(String::as_str) {
        Some("tcp" | "rdma") => "it comes over a network: the NIC's rate holds",
        Some("fc") => "it comes over Fibre Channel: the rate of that port holds",
        Some("loop") => "a target of this machine itself: there is no link",
        _ => "the kernel shows no PCIe link for it",
    };
    (Fact::unknown(why), Fact::unknown(why))
}

/// Namespaces by the names of their block devices.
fn namespaces(sysroot: &Sysroot, place: &Path) -> Vec<String> {
    let mut disks: Vec<String> = sysroot.list(place).iter().filter_map(|entry| block_device(entry)).collect();
    disks.sort_by(|a, b| in_order(a, b));
    disks.dedup();
    disks
}

/// `nvme0n1` is itself, the path `nvme1c2n1` belongs to `nvme1n1`; `ng0n1` and attributes are not disks.
fn block_device(entry: &str) -> Option<String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (subsystem, namespace) = entry.strip_prefix("nvme")?.split_once('n')?;
    let subsystem = match subsystem.split_once('c') {
        Some((subsystem, controller)) => digits(controller).then_some(subsystem)?,
        None => subsystem,
    };
    (digits(subsystem) && digits(namespace)).then(|| format!("nvme{subsystem}n{namespace}"))
}

/// Text without the blanks that fixed fields are padded with.
fn unpadded(text: Fact<String>) -> Fact<String> {
    text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// One controller for each disk.
pub(super) fn read_virtio(sysroot: &Sysroot, disks: &[(Disk, PathBuf)]) -> Vec<Controller> {
    wholes(disks)
        .filter(|(disk, _)| disk.kind == DiskKind::Virtio)
        .filter_map(|(disk, directory)| {
            Some(read_virtio_controller(sysroot, disk, directory, above(directory, "virtio")?))
        })
        .collect()
}

fn read_virtio_controller(sysroot: &Sysroot, disk: &Disk, directory: &Path, device: &Path) -> Controller {
    let why = "a virtual disk has no link";
    let queues = u32::try_from(sysroot.list(directory.join("mq")).len()).unwrap_or(u32::MAX);
    Controller {
        name: name(device),
        kind: ControllerKind::Other,
        pci: pci::nearest(device),
        model: Fact::Known("virtio_blk".into()),
        firmware: Fact::unknown("a virtual disk has no firmware"),
        transport: Fact::Known("virtio".into()),
        address: Fact::unknown("only NVMe over fabrics has one"),
        state: Fact::unknown("a virtual disk reports no state"),
        link_bits_per_second: Fact::unknown(why),
        link_max_bits_per_second: Fact::unknown(why),
        lanes: Fact::unknown(why),
        lanes_max: Fact::unknown(why),
        ports: Vec::new(),
        queues: Fact::from_option((queues > 0).then_some(queues), "the kernel shows no queues of this disk"),
        disks: vec![disk.name.clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn a_drive_on_pcie() {
        let function = "sys/devices/pci0000:00/0000:01:00.0";
        let drive = format!("{function}/nvme/nvme0");
        let mut tree = Tree::new(&[
            (&format!("{function}/current_link_speed"), "8.0 GT/s PCIe"),
            (&format!("{function}/current_link_width"), "4"),
            (&format!("{function}/max_link_speed"), "16.0 GT/s PCIe"),
            (&format!("{function}/max_link_width"), "4"),
            (&format!("{drive}/model"), "ACME  Fast 1TB    \n"),
            (&format!("{drive}/firmware_rev"), "1.2     \n"),
            (&format!("{drive}/transport"), "pcie\n"),
            (&format!("{drive}/state"), "live\n"),
            (&format!("{drive}/queue_count"), "65\n"),
            (&format!("{drive}/nvme0n1/size"), "8\n"),
            (&format!("{drive}/nvme0n1/nvme0n1p1/partition"), "1\n"),
            (&format!("{drive}/ng0n1/dev"), "240:1\n"),
        ]);
        tree.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:01:00.0");
        tree.link("sys/class/nvme/nvme0", &format!("../../../{drive}"));
        tree.link("sys/block/nvme0n1", &format!("../../{drive}/nvme0n1"));
        let machine = probe(&tree.sysroot());
        let controller = &machine.controllers[0];
        assert_eq!((controller.name.as_str(), controller.kind), ("nvme0", ControllerKind::Nvme));
        assert_eq!(controller.model, Fact::Known("ACME Fast 1TB".into()));
        assert_eq!(controller.link_bits_per_second, Fact::Known(32_000_000_000));
        assert_eq!(controller.link_max_bits_per_second, Fact::Known(64_000_000_000));
        assert_eq!((controller.lanes.known(), controller.queues.known()), (Some(&4), Some(&64)));
        assert_eq!(controller.pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!(controller.disks, ["nvme0n1"]);
        for disk in &machine.disks {
            assert_eq!(disk.controller.as_deref(), Some("nvme0"), "{}", disk.name);
        }
    }

    #[test]
    fn a_namespace_over_tcp_has_two_paths_of_which_one_lives() {
        let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys1";
        let mut tree = Tree::new(&[(&format!("{subsystem}/nvme1n1/size"), "8\n")]);
        for (controller, path, state) in
            [("nvme1", "nvme1c1n1", "connecting"), ("nvme2", "nvme1c2n1", "live")]
        {
            let place = format!("sys/devices/virtual/nvme-fabrics/ctl/{controller}");
            tree.put(&format!("{place}/transport"), "tcp\n");
            tree.put(&format!("{place}/address"), "traddr=192.0.2.7,trsvcid=4420\n");
            tree.put(&format!("{place}/state"), state);
            tree.put(&format!("{place}/{path}/hidden"), "1");
            tree.link(&format!("sys/class/nvme/{controller}"), &format!("../../../{place}"));
            tree.link(&format!("sys/class/block/{path}"), &format!("../../../{place}/{path}"));
        }
        tree.link(&format!("{subsystem}/nvme1n1/device"), "../../nvme-subsys1");
        tree.link("sys/class/block/nvme1n1", &format!("../../../{subsystem}/nvme1n1"));
        let machine = probe(&tree.sysroot());
        let shown: Vec<_> =
            machine.controllers.iter().map(|one| (one.name.as_str(), one.disks.as_slice())).collect();
        let both = ["nvme1n1".to_string()];
        assert_eq!(shown, [("nvme1", both.as_slice()), ("nvme2", both.as_slice())]);
        assert_eq!(machine.disks.len(), 1, "the paths themselves are not disks");
        assert_eq!(machine.disks[0].controller.as_deref(), Some("nvme2"));
        let one = &machine.controllers[1];
        assert_eq!(one.address, Fact::Known("traddr=192.0.2.7,trsvcid=4420".into()));
        assert!(one.link_bits_per_second.why().is_some_and(|why| why.contains("NIC")));
    }

    proptest! {
        #[test]
        fn any_entry_is_a_disk_or_none(entry in "nvme[0-9]{0,3}c?[0-9]{0,2}n?[0-9]{0,2}(p1)?|.{0,12}") {
            if let Some(disk) = block_device(&entry) {
                prop_assert_eq!(block_device(&disk), Some(disk.clone()));
            }
        }
    }

    #[test]
    fn a_disk_with_two_queues() {
        let place = "sys/devices/pci0000:00/0000:00:02.0/virtio1";
        let mut tree = Tree::new(&[
            (&format!("{place}/block/vda/size"), "8"),
            (&format!("{place}/block/vda/mq/0/cpu_list"), "0"),
            (&format!("{place}/block/vda/mq/1/cpu_list"), "1"),
        ]);
        tree.link("sys/block/vda", &format!("../../{place}/block/vda"));
        tree.link(&format!("{place}/block/vda/device/subsystem"), "../../../../bus/virtio");
        let machine = probe(&tree.sysroot());
        let [device] = machine.controllers.as_slice() else { panic!("{:?}", machine.controllers) };
        assert_eq!((device.name.as_str(), device.pci.as_deref()), ("virtio1", Some("0000:00:02.0")));
        assert_eq!(
            (device.queues.clone(), device.transport.clone()),
            (Fact::Known(2), Fact::Known("virtio".into()))
        );
        assert_eq!(machine.disks[0].controller.as_deref(), Some("virtio1"));
    }
}
