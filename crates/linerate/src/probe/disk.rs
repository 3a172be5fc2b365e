//! Block devices: `/sys/class/block`, with what each is made of (partition, dm, md) and the PCI function it hangs on.

use super::machine::{Disk, DiskKind, PciDevice};
use super::{in_order, pci};
use crate::fact::Fact;
use crate::sysroot::Sysroot;
use std::path::{Path, PathBuf};

/// sysfs counts sizes in these, whatever the device's own block is.
const SECTOR_BYTES: u64 = 512;

/// Reads the block devices in name order.
pub fn read(sysroot: &Sysroot, devices: &[PciDevice]) -> Vec<Disk> {
    let mut found = directories(sysroot);
    // The single paths of a multipath NVMe namespace are shown, but cannot be opened.
    found.retain(|(_, directory)| sysroot.parse::<u32>(directory.join("hidden")).known() != Some(&1));
    found.sort_by(|a, b| in_order(&a.0, &b.0));
    found.into_iter().map(|(name, directory)| one(sysroot, name, &directory, devices)).collect()
}

/// Kernel name and real directory of each. Recorded trees often have only `/sys/block`: whole disks, partitions inside.
fn directories(sysroot: &Sysroot) -> Vec<(String, PathBuf)> {
    let real = |place: &str, name: &str| {
        let path = Path::new(place).join(name);
        sysroot.follow(&path).unwrap_or(path)
    };
    let class = sysroot.list("/sys/class/block");
    let mut all: Vec<_> = class.iter().map(|name| (name.clone(), real("/sys/class/block", name))).collect();
    for name in sysroot.list("/sys/block").into_iter().filter(|name| !class.contains(name)) {
        let disk = real("/sys/block", &name);
        for part in sysroot.list(&disk) {
            if sysroot.exists(disk.join(&part).join("partition")) && !class.contains(&part) {
                all.push((part.clone(), disk.join(part)));
            }
        }
        all.push((name, disk));
    }
    all
}

fn one(sysroot: &Sysroot, name: String, directory: &Path, devices: &[PciDevice]) -> Disk {
    let kind = kind(sysroot, &name, directory);
    // A partition has no queue and no device of its own: its disk's directory is above it.
    let whole = match kind {
        DiskKind::Partition => directory.parent().unwrap_or(directory),
        _ => directory,
    };
    let controller = controller(sysroot, whole);
    let pci = pci::nearest(&controller);
    let size = sysroot.parse::<u64>(directory.join("size"));
    Disk {
        kind,
        number: sysroot.fact(directory.join("dev")),
        size_bytes: size.map(|sectors| sectors.saturating_mul(SECTOR_BYTES)),
        model: model(sysroot, whole),
        rotational: sysroot.parse::<u32>(whole.join("queue/rotational")).map(|flag| flag == 1),
        logical_block_bytes: sysroot.parse(whole.join("queue/logical_block_size")),
        node: match pci.is_some() || sysroot.exists(whole.join("device")) {
            true => pci::node(sysroot, &whole.join("device"), pci.as_deref(), devices),
            false => Fact::unknown("a virtual block device is on no node"),
        },
        pci,
        members: members(sysroot, kind, directory),
        backing_file: sysroot.text(directory.join("loop/backing_file")).ok().map(PathBuf::from),
        name,
        ..Default::default()
    }
}

fn kind(sysroot: &Sysroot, name: &str, directory: &Path) -> DiskKind {
    if sysroot.exists(directory.join("partition")) {
        return DiskKind::Partition;
    }
    let subsystem = sysroot.link_name(directory.join("device/subsystem"));
    match subsystem.as_deref() {
        Some("virtio") => return DiskKind::Virtio,
        Some("scsi") => return DiskKind::Scsi,
        Some("nvme" | "nvme-subsystem") => return DiskKind::Nvme,
        _ => {}
    }
    // Without that link (stacked devices, thin recordings) the name tells: Documentation/admin-guide/devices.txt.
    let starts = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
    match () {
        () if starts("loop") => DiskKind::Loop,
        () if starts("dm-") => DiskKind::Dm,
        () if starts("md") && sysroot.exists(directory.join("md")) => DiskKind::Md,
        () if starts("md") && name[2..].starts_with(|c: char| c.is_ascii_digit() || c == '_') => DiskKind::Md,
        () if starts("nvme") => DiskKind::Nvme,
        () if starts("sd") => DiskKind::Scsi,
        () if starts("vd") => DiskKind::Virtio,
        () => DiskKind::Other,
    }
}

/// Path on which the PCI function is found. A multipath NVMe namespace hangs below no controller: its subsystem links them.
fn controller(sysroot: &Sysroot, whole: &Path) -> PathBuf {
    if pci::nearest(whole).is_some() {
        return whole.to_path_buf();
    }
    let subsystem = whole.join("device");
    sysroot
        .list(&subsystem)
        .iter()
        .filter(|name| name.strip_prefix("nvme").is_some_and(|rest| rest.parse::<u32>().is_ok()))
        .filter_map(|name| sysroot.follow(subsystem.join(name)))
        .find(|path| pci::nearest(path).is_some())
        .unwrap_or_else(|| whole.to_path_buf())
}

fn model(sysroot: &Sysroot, whole: &Path) -> Fact<String> {
    let text = sysroot.text(whole.join("device/model")).unwrap_or_default();
    let model = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Fact::from_option((!model.is_empty()).then_some(model), "the device tells no model")
}

/// Devices directly below: the whole disk of a partition, the `slaves` of dm, md and bcache.
fn members(sysroot: &Sysroot, kind: DiskKind, directory: &Path) -> Vec<String> {
    if kind == DiskKind::Partition {
        let whole = directory.parent().and_then(Path::file_name);
        return whole.map(|name| name.to_string_lossy().into_owned()).into_iter().collect();
    }
    let mut members = sysroot.list(directory.join("slaves"));
    members.sort_by(|a, b| in_order(a, b));
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::Tree;

    const DRIVE: &str = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";

    fn tree() -> Tree {
        let mut tree = Tree::new(&[
            ("sys/devices/pci0000:00/0000:01:00.0/numa_node", "1\n"),
            (&format!("{DRIVE}/size"), "2000\n"),
            (&format!("{DRIVE}/dev"), "259:0\n"),
            (&format!("{DRIVE}/queue/rotational"), "0\n"),
            (&format!("{DRIVE}/queue/logical_block_size"), "4096\n"),
            (&format!("{DRIVE}/nvme0n1p1/partition"), "1\n"),
            (&format!("{DRIVE}/nvme0n1p1/size"), "1000\n"),
            ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/model", "ACME  Fast 1TB   \n"),
            ("sys/devices/virtual/block/dm-0/slaves/nvme0n1p1/x", ""),
            ("sys/devices/virtual/block/md_root/md/level", "raid0\n"),
            ("sys/devices/virtual/block/loop3/loop/backing_file", "/srv/disk image.img\n"),
            ("sys/devices/virtual/block/nvme0c0n1/hidden", "1\n"),
        ]);
        tree.link(&format!("{DRIVE}/device"), "../../nvme0");
        tree.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:01:00.0");
        tree.link("sys/class/block/nvme0n1", &format!("../../../{DRIVE}"));
        tree.link("sys/class/block/nvme0n1p1", &format!("../../../{DRIVE}/nvme0n1p1"));
        for name in ["dm-0", "md_root", "loop3", "nvme0c0n1"] {
            tree.link(&format!("sys/class/block/{name}"), &format!("../../devices/virtual/block/{name}"));
        }
        tree
    }

    #[test]
    fn a_drive_its_partition_and_what_is_stacked_on_it() {
        let tree = tree();
        let devices = pci::read(&tree.sysroot(), false);
        let disks = read(&tree.sysroot(), &devices);
        let kinds: Vec<(&str, DiskKind)> = disks.iter().map(|disk| (disk.name.as_str(), disk.kind)).collect();
        assert_eq!(
            kinds,
            [
                ("dm-0", DiskKind::Dm),
                ("loop3", DiskKind::Loop),
                ("md_root", DiskKind::Md),
                ("nvme0n1", DiskKind::Nvme),
                ("nvme0n1p1", DiskKind::Partition)
            ]
        );
        assert_eq!(disks[0].members, ["nvme0n1p1"]);
        assert_eq!(disks[1].backing_file.as_deref(), Some(Path::new("/srv/disk image.img")));
        let (drive, part) = (&disks[3], &disks[4]);
        assert_eq!(drive.model, Fact::Known("ACME Fast 1TB".into()));
        assert_eq!(drive.size_bytes, Fact::Known(1_024_000));
        assert_eq!(drive.number, Fact::Known("259:0".into()));
        assert_eq!(drive.pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!((drive.node.known(), drive.rotational.known()), (Some(&1), Some(&false)));
        assert_eq!(part.members, ["nvme0n1"]);
        assert_eq!(part.logical_block_bytes, Fact::Known(4096), "of the whole disk");
        assert_eq!(part.node, Fact::Known(1));
        assert!(disks[0].node.why().is_some());
    }

    #[test]
    fn a_multipath_namespace_is_on_the_function_of_a_controller() {
        let mut tree = Tree::new(&[
            ("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/size", "8\n"),
            ("sys/devices/pci0000:00/0000:02:00.0/nvme/nvme0/model", "X\n"),
            ("sys/devices/pci0000:00/0000:02:00.0/numa_node", "0\n"),
        ]);
        let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
        tree.link(&format!("{subsystem}/nvme0"), "../../../pci0000:00/0000:02:00.0/nvme/nvme0");
        tree.link(&format!("{subsystem}/nvme0n1/device"), "../../nvme-subsys0");
        tree.link("sys/bus/pci/devices/0000:02:00.0", "../../../devices/pci0000:00/0000:02:00.0");
        tree.link("sys/block/nvme0n1", "../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
        let disks = read(&tree.sysroot(), &pci::read(&tree.sysroot(), false));
        assert_eq!(disks[0].pci.as_deref(), Some("0000:02:00.0"));
        assert_eq!(disks[0].node, Fact::Known(0));
        assert_eq!(disks[0].kind, DiskKind::Nvme);
    }

    #[test]
    fn a_tree_without_the_class_directory() {
        let mut tree = Tree::new(&[
            ("sys/devices/x/sda/size", "18446744073709551615"),
            ("sys/devices/x/sda/sda1/partition", "1"),
        ]);
        tree.link("sys/block/sda", "../devices/x/sda");
        let disks = read(&tree.sysroot(), &[]);
        assert_eq!(disks.len(), 2);
        assert_eq!(disks[0].size_bytes, Fact::Known(u64::MAX), "an absurd size does not wrap");
        assert_eq!((disks[1].kind, disks[1].members.clone()), (DiskKind::Partition, vec!["sda".to_string()]));
    }
}
