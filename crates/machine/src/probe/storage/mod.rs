//! What block devices are made of, and the controllers that they hang on.

mod ata;
pub(super) mod disk;
mod mapper;
pub(super) mod md;
mod nvme;
mod queue;
mod sas;
mod scsi;
mod scsi_host;

use crate::probe::in_order;
use crate::probe::machine::{Controller, Disk, DiskKind, PciDevice};
use linerate_facts::sysroot::Sysroot;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Reads the controllers in the order of their names, and tells each disk its own. `disks` with their real
/// directories.
pub(super) fn controllers(
    sysroot: &Sysroot,
    disks: &mut [(Disk, PathBuf)],
    functions: &[PciDevice],
) -> Vec<Controller> {
    let mut controllers = nvme::read(sysroot, disks, functions);
    controllers.extend(scsi::read(sysroot, disks));
    controllers.extend(nvme::read_virtio(sysroot, disks));
    controllers.sort_by(|a, b| in_order(&a.name, &b.name));
    name_controllers(disks, &controllers);
    controllers
}

/// The controller of each disk: the first that lives of those that have it; of a partition that of its disk.
fn name_controllers(disks: &mut [(Disk, PathBuf)], controllers: &[Controller]) {
    let mut of: HashMap<&str, &Controller> = HashMap::new();
    let dead = |one: &Controller| one.state.known().is_some_and(|state| state != "live");
    for one in controllers {
        for disk in &one.disks {
            let chosen = of.entry(disk).or_insert(one);
            if dead(chosen) && !dead(one) {
                *chosen = one;
            }
        }
    }
    for (disk, _) in disks {
        let whole = match disk.kind {
            DiskKind::Partition => disk.members.first().unwrap_or(&disk.name),
            _ => &disk.name,
        };
        disk.controller = of.get(whole.as_str()).map(|controller| controller.name.clone());
    }
}

/// Whole disks with their places in `disks`.
fn wholes(disks: &[(Disk, PathBuf)]) -> impl Iterator<Item = (&Disk, &Path)> {
    disks
        .iter()
        .filter(|(disk, _)| disk.kind != DiskKind::Partition)
        .map(|(disk, directory)| (disk, directory.as_path()))
}

/// The nearest directory above with a kernel name of this kind (`host` → `…/host0`), itself included.
fn above<'a>(directory: &'a Path, kind: &str) -> Option<&'a Path> {
    directory.ancestors().find(|place| numbered(place, kind).is_some())
}

/// The number in a kernel name: `host12` → 12.
fn numbered<'a>(directory: &'a Path, kind: &str) -> Option<&'a str> {
    let number = directory.file_name()?.to_str()?.strip_prefix(kind)?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// The last component of a path.
fn name(directory: &Path) -> String {
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::probe::{Disk, Machine, probe};
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    fn disk<'a>(machine: &'a Machine, name: &str) -> &'a Disk {
        machine.disks.iter().find(|disk| disk.name == name).expect("the disk")
    }

    /// Eight drives in a RAID-6, a partition on it that no stripe begins at, and a volume striped over two
    /// partitions.
    #[test]
    fn an_array_its_partition_and_a_striped_volume() {
        let mut tree = Tree::new(&[
            ("sys/block/md0/md/level", "raid6\n"),
            ("sys/block/md0/md/raid_disks", "8\n"),
            ("sys/block/md0/md/chunk_size", "524288\n"),
            ("sys/block/md0/md/layout", "2\n"),
            ("sys/block/md0/md/degraded", "0\n"),
            ("sys/block/md0/alignment_offset", "0\n"),
            ("sys/block/md0/queue/physical_block_size", "4096\n"),
            ("sys/block/md0/queue/minimum_io_size", "524288\n"),
            ("sys/block/md0/queue/optimal_io_size", "3145728\n"),
            ("sys/block/md0/md0p1/partition", "1\n"),
            ("sys/block/md0/md0p1/start", "2048\n"),
            ("sys/block/dm-0/dm/name", "fast-scratch"),
            ("sys/block/dm-0/dm/uuid", "LVM-abc"),
            ("sys/block/dm-0/queue/minimum_io_size", "65536"),
            ("sys/block/dm-0/queue/optimal_io_size", "131072"),
            ("sys/block/dm-0/slaves/sdx/x", ""),
            ("sys/block/dm-0/slaves/sdy/x", ""),
            ("sys/block/sdx/queue/optimal_io_size", "0"),
            ("sys/block/sdy/queue/optimal_io_size", "0"),
        ]);
        for place in 0..8 {
            tree.link(&format!("sys/block/md0/md/rd{place}"), &format!("dev-sd{}", ["h", "g"][place % 2]));
        }
        let machine = probe(&tree.sysroot());
        let md = disk(&machine, "md0");
        let array = md.array.as_ref().expect("an array");
        assert_eq!((array.data_disks.known(), array.stripe_bytes.known()), (Some(&6), Some(&3_145_728)));
        assert_eq!(md.members.first().map(String::as_str), Some("sdh"));
        assert_eq!((md.misaligned_bytes.known(), md.alignment_bytes.known()), (Some(&0), Some(&3_145_728)));
        let part = disk(&machine, "md0p1");
        assert_eq!((part.misaligned_bytes.known(), &part.array), (Some(&1_048_576), &None));
        let volume = disk(&machine, "dm-0");
        assert_eq!(
            (volume.mapped_name.as_deref(), volume.mapped_by.as_deref()),
            (Some("fast-scratch"), Some("LVM"))
        );
        let array = volume.array.as_ref().expect("an array");
        assert_eq!((array.level.as_str(), array.data_disks.known()), ("striped", Some(&2)));
        assert_eq!(volume.controller, None);
        assert_eq!(volume.link_bits_per_second, Fact::unknown("the kernel shows no link of its own for it"));
    }

    /// Attributes of one of each kind; `~` stands for a device below a PCI function.
    const FILES: &str = "\
        ~/nvme/nvme0/model ~/nvme/nvme0/transport ~/nvme/nvme0/state ~/nvme/nvme0/queue_count \
        ~/nvme/nvme0/nvme0n1/size ~/nvme/nvme0/nvme0n1/alignment_offset \
        ~/nvme/nvme0/nvme0n1/queue/minimum_io_size ~/nvme/nvme0/nvme0n1/queue/optimal_io_size \
        ~/nvme/nvme0/nvme0n1/queue/physical_block_size ~/nvme/nvme0/nvme0n1/queue/scheduler \
        ~/nvme/nvme0/nvme0n1/queue/read_ahead_kb ~/nvme/nvme0/nvme0n1/nvme0n1p1/partition \
        ~/nvme/nvme0/nvme0n1/nvme0n1p1/start ~/ata1/link1/ata_link/link1/sata_spd \
        ~/ata1/link1/ata_link/link1/hw_sata_spd_limit ~/ata1/link1/dev1.0/ata_device/dev1.0/id \
        ~/ata1/host0/scsi_host/host0/proc_name ~/ata1/host0/scsi_host/host0/nr_hw_queues \
        ~/ata1/host0/target0:0:0/0:0:0:0/block/sda/size \
        ~/host1/phy-1:0/sas_phy/phy-1:0/negotiated_linkrate \
        ~/host1/phy-1:0/sas_phy/phy-1:0/maximum_linkrate \
        ~/host1/port-1:0/phy-1:0/sas_phy/phy-1:0/negotiated_linkrate \
        ~/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdb/size sys/class/sas_host/host1/x \
        sys/class/fc_host/host2/speed sys/class/fc_host/host2/supported_speeds \
        sys/class/fc_host/host2/port_state sys/class/spi_host/host3/x \
        sys/class/spi_transport/target3:0:0/period sys/class/spi_transport/target3:0:0/width \
        sys/block/md0/md/level sys/block/md0/md/raid_disks sys/block/md0/md/layout \
        sys/block/md0/md/chunk_size sys/block/dm-0/dm/uuid sys/block/dm-0/queue/minimum_io_size \
        sys/block/dm-0/queue/optimal_io_size sys/fs/btrfs/u/allocation/data/raid0/total_bytes \
        sys/fs/btrfs/u/devinfo/1/missing proc/self/mountinfo";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_text_in_any_attribute_is_read(
            texts in proptest::collection::vec(
                "[0-9]{1,20}|-1|[0-9.]{1,5} G(bit|bps)|raid(0|5|6|10)|.{0,20}|1 0 259:0 / / rw - \
                 (xfs|ext4|btrfs|zfs|bcachefs) /dev/sda rw,(sunit|stripe)=[0-9]{0,20}",
                FILES.split(' ').count(),
            ),
        ) {
            let function = "sys/devices/pci0000:00/0000:00:01.0";
            let mut tree = Tree::new(&[("sys/fs/btrfs/u/devices/sda/x", ""), ("sys/block/dm-0/slaves/sda/x", "")]);
            for (file, text) in FILES.split(' ').zip(&texts) {
                tree.put(&file.replace('~', function), text);
            }
            for (disk, place) in [
                ("nvme0n1", "nvme/nvme0/nvme0n1"),
                ("nvme0n1p1", "nvme/nvme0/nvme0n1/nvme0n1p1"),
                ("sda", "ata1/host0/target0:0:0/0:0:0:0/block/sda"),
                ("sdb", "host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdb"),
            ] {
                tree.link(&format!("sys/class/block/{disk}"), &format!("../../../{function}/{place}"));
            }
            let machine = probe(&tree.sysroot());
            prop_assert_eq!((machine.disks.len(), machine.controllers.len()), (6, 5));
            let json = serde_json::to_string(&machine).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Machine>(&json).expect("the machine again"), machine);
        }
    }
}
