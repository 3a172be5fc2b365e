//! Block devices: `/sys/class/block`, with what each is made of (partition, dm, md) and the PCI function it
//! hangs on.

use super::{mapper, md, queue};
use crate::probe::machine::{Disk, DiskKind, PciDevice};
use crate::probe::{in_order, pci};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// sysfs counts sizes in these, whatever the device's own block is.
const SECTOR_BYTES: u64 = 512;

/// Reads the block devices in name order, each with its real directory.
pub(crate) fn read(sysroot: &Sysroot, devices: &[PciDevice]) -> Vec<(Disk, PathBuf)> {
    let mut found = directories(sysroot);
    // A disk comes before its partitions, which take most of their facts from it.
    found.sort_by(|a, b| in_order(&a.0, &b.0));
    let mut disks: Vec<(Disk, PathBuf)> = Vec::with_capacity(found.len());
    let mut places: HashMap<PathBuf, usize> = HashMap::new();
    for (name, directory) in found {
        let disk = match disk_of_partition(sysroot, &name, &directory) {
            Some(above) => match places.get(above) {
                Some(at) => partition(sysroot, name, &directory, &disks[*at].0),
                None => {
                    let whole = above.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    partition(sysroot, name, &directory, &whole_disk(sysroot, whole, above, devices))
                }
            },
            None if is_hidden(sysroot, &name, &directory) => continue,
            None => whole_disk(sysroot, name, &directory, devices),
        };
        places.insert(directory.clone(), disks.len());
        disks.push((disk, directory));
    }
    mapped_arrays(&mut disks);
    disks
}

/// Kernel name and real directory of each. Recorded trees often have only `/sys/block`: whole disks,
/// partitions inside.
fn directories(sysroot: &Sysroot) -> Vec<(String, PathBuf)> {
    let mut all: Vec<(String, PathBuf)> = Vec::new();
    let mut met: BTreeSet<String> = BTreeSet::new();
    for name in sysroot.list("/sys/class/block") {
        let path = Path::new("/sys/class/block").join(&name);
        let place = sysroot.follow(&path).unwrap_or(path);
        // The link of a thin recording may lead nowhere.
        if sysroot.is_live() || sysroot.is_directory(&place) {
            met.insert(name.clone());
            all.push((name, place));
        }
    }
    for name in sysroot.list("/sys/block").into_iter().filter(|name| !met.contains(name)) {
        let path = Path::new("/sys/block").join(&name);
        let disk = sysroot.follow(&path).unwrap_or(path);
        for part in sysroot.list(&disk) {
            let directory = disk.join(&part);
            if !met.contains(&part) && disk_of_partition(sysroot, &part, &directory).is_some() {
                all.push((part, directory));
            }
        }
        all.push((name, disk));
    }
    all
}

/// Directory of the disk that a partition is on: `…/sda` of `…/sda/sda1`. `None` where it is not a partition:
/// the boot areas of an eMMC have directories in the same way, and are disks of their own.
fn disk_of_partition<'a>(sysroot: &Sysroot, name: &str, directory: &'a Path) -> Option<&'a Path> {
    let above = directory.parent()?;
    let nested = name.starts_with(above.file_name()?.to_str()?);
    (nested && sysroot.exists(directory.join("partition"))).then_some(above)
}

/// The single paths of a multipath NVMe namespace are shown, but cannot be opened. Nothing else is hidden
/// (`GENHD_FL_HIDDEN`).
fn is_hidden(sysroot: &Sysroot, name: &str, directory: &Path) -> bool {
    name.starts_with("nvme") && sysroot.parse::<u32>(directory.join("hidden")).known() == Some(&1)
}

fn whole_disk(sysroot: &Sysroot, name: String, directory: &Path, devices: &[PciDevice]) -> Disk {
    let kind = kind(sysroot, &name, directory);
    let pci = pci::nearest(&function(sysroot, kind, directory));
    let no_link = "the kernel shows no link of its own for it";
    let (array, members) = match kind {
        DiskKind::Md => md::read(sysroot, directory).unzip(),
        _ => (None, None),
    };
    let (mapped_name, mapped_by) = match kind {
        DiskKind::Dm => mapper::read(sysroot, directory),
        _ => (None, None),
    };
    Disk {
        kind,
        number: sysroot.fact(directory.join("dev")),
        size_bytes: size(sysroot, directory),
        model: model(sysroot, directory),
        node: match pci.is_some() || sysroot.exists(directory.join("device")) {
            true => pci::node(sysroot, &directory.join("device"), pci.as_deref(), devices),
            false => Fact::unknown("a virtual block device is on no node"),
        },
        pci,
        // Without places (an array that does not run) all that md has taken.
        members: members.filter(|on| !on.is_empty()).unwrap_or_else(|| slaves(sysroot, kind, directory)),
        backing_file: match kind {
            DiskKind::Loop => sysroot.text(directory.join("loop/backing_file")).ok().map(PathBuf::from),
            _ => None,
        },
        controller: None,
        array,
        link_bits_per_second: Fact::unknown(no_link),
        link_max_bits_per_second: Fact::unknown(no_link),
        mapped_name,
        mapped_by,
        name,
        ..queue::read(sysroot, directory)
    }
}

/// A partition: its disk, but for place and size.
fn partition(sysroot: &Sysroot, name: String, directory: &Path, whole: &Disk) -> Disk {
    let start =
        sysroot.parse::<u64>(directory.join("start")).map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    let misaligned_bytes = match (start, &whole.misaligned_bytes, &whole.alignment_bytes) {
        (Fact::Known(start), Fact::Known(device), Fact::Known(boundary)) => Fact::from_option(
            queue::alignment_of_partition(start, *device, *boundary),
            "the kernel reports no block size",
        ),
        (Fact::Unknown { why }, _, _) => Fact::unknown(why),
        (_, Fact::Unknown { why }, _) | (_, _, Fact::Unknown { why }) => Fact::unknown(why.clone()),
    };
    Disk {
        kind: DiskKind::Partition,
        number: sysroot.fact(directory.join("dev")),
        size_bytes: size(sysroot, directory),
        members: vec![whole.name.clone()],
        misaligned_bytes,
        link_bits_per_second: Fact::unknown("a partition has no link of its own"),
        link_max_bits_per_second: Fact::unknown("a partition has no link of its own"),
        backing_file: None,
        array: None,
        mapped_name: None,
        mapped_by: None,
        name,
        ..whole.clone()
    }
}

fn size(sysroot: &Sysroot, directory: &Path) -> Fact<u64> {
    sysroot.parse::<u64>(directory.join("size")).map(|sectors| sectors.saturating_mul(SECTOR_BYTES))
}

/// dm devices over several members; what those are has to be read before.
fn mapped_arrays(disks: &mut [(Disk, PathBuf)]) {
    let arrays: Vec<(usize, _)> = {
        let by_name: HashMap<&str, &Disk> =
            disks.iter().map(|(disk, _)| (disk.name.as_str(), disk)).collect();
        let mapped = disks.iter().enumerate().filter(|(_, (disk, _))| disk.kind == DiskKind::Dm);
        mapped
            .map(|(at, (disk, _))| {
                let members = disk.members.iter().filter_map(|name| by_name.get(name.as_str()).copied());
                (at, mapper::array(disk, &members.collect::<Vec<_>>()))
            })
            .collect()
    };
    for (at, array) in arrays {
        disks[at].0.array = array;
    }
}

/// What a whole device is.
fn kind(sysroot: &Sysroot, name: &str, directory: &Path) -> DiskKind {
    let subsystem = sysroot.link_name(directory.join("device/subsystem"));
    match subsystem.as_deref() {
        Some("virtio") => return DiskKind::Virtio,
        Some("scsi") => return DiskKind::Scsi,
        Some("nvme" | "nvme-subsystem") => return DiskKind::Nvme,
        _ => {}
    }
    // Without that link (stacked devices, thin recordings) the name shows it:
    // Documentation/admin-guide/devices.txt.
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

/// Path on which the PCI function is found. A multipath NVMe namespace hangs below no controller: its
/// subsystem links them.
fn function(sysroot: &Sysroot, kind: DiskKind, whole: &Path) -> PathBuf {
    if kind != DiskKind::Nvme || pci::nearest(whole).is_some() {
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
    Fact::from_option((!model.is_empty()).then_some(model), "the device reports no model")
}

/// Devices directly below dm, md, bcache and the like; drives have none.
fn slaves(sysroot: &Sysroot, kind: DiskKind, directory: &Path) -> Vec<String> {
    if !matches!(kind, DiskKind::Dm | DiskKind::Md | DiskKind::Other) {
        return Vec::new();
    }
    let mut members = sysroot.list(directory.join("slaves"));
    members.sort_by(|a, b| in_order(a, b));
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

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

    fn disks(tree: &Tree, devices: &[PciDevice]) -> Vec<Disk> {
        read(&tree.sysroot(), devices).into_iter().map(|(disk, _)| disk).collect()
    }

    #[test]
    fn a_drive_its_partition_and_what_is_stacked_on_it() {
        let tree = tree();
        let devices = pci::read(&tree.sysroot(), false);
        let disks = disks(&tree, &devices);
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
        let disks = disks(&tree, &pci::read(&tree.sysroot(), false));
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
        let disks = disks(&tree, &[]);
        assert_eq!(disks.len(), 2);
        assert_eq!(disks[0].size_bytes, Fact::Known(u64::MAX), "an absurd size does not wrap");
        assert_eq!((disks[1].kind, disks[1].members.clone()), (DiskKind::Partition, vec!["sda".to_string()]));
    }
}
