//! What is behind a path that bytes are read from: its file system, the device that is mounted, and the
//! disks at the bottom.

use super::mount_table;
use crate::probe::machine::{Disk, DiskKind, FileSystem, Machine};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// What is behind a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceBacking {
    /// The file system; `None` for a block device that is named itself.
    pub file_system: Option<FileSystem>,
    /// What the file system is mounted from (`/dev/md0`, `host:/export`), or the block device itself.
    pub device: String,
    /// Kernel names of what is right behind: the devices of the file system, or the block device itself.
    pub devices: Vec<String>,
    /// Kernel names of the disks at the bottom: partitions, dm, md and multi-device btrfs are walked down, a
    /// loop device counts as a disk. Empty for networks, memory and what cannot be seen through.
    pub leaves: Vec<String>,
    /// Block that direct I/O is a multiple of, bytes: the largest of the devices that hold the file system.
    pub logical_block_bytes: Fact<u32>,
}

impl SourceBacking {
    /// What it is called as one disk: the only one below, or the volume.
    pub fn disk(&self) -> &str {
        if let [leaf] = &self.leaves[..] { leaf } else { &self.device }
    }
}

/// The devices behind a file, a directory or a block device. On the live system the path may be relative, a
/// symbolic link, or not be there yet (then its nearest directory counts); in a recorded tree it is taken as
/// it stands.
pub fn devices_behind(sysroot: &Sysroot, machine: &Machine, path: &Path) -> Fact<SourceBacking> {
    let path = if sysroot.is_live() { real_path(path) } else { path.to_path_buf() };
    if let Some(name) = raw_device(sysroot, machine, &path) {
        return Fact::Known(SourceBacking {
            file_system: None,
            device: path.display().to_string(),
            leaves: leaves(&machine.disks, std::slice::from_ref(&name)),
            logical_block_bytes: largest_block(
                &machine.disks,
                std::slice::from_ref(&name),
                "it is not a block device of this machine",
            ),
            devices: vec![name],
        });
    }
    if sysroot.is_live() && matches!(linerate_system::attributes::block_device_number(&path), Ok(Some(_))) {
        // It would be taken for a file of /dev, which lies in memory.
        return Fact::unknown(format!("{}: the probe found no such block device", path.display()));
    }
    let mounts = match mount_table::read(sysroot) {
        Ok(mounts) => mounts,
        Err(why) => return Fact::unknown(why),
    };
    let Some(mount) = mount_table::covering(&mounts, &path) else {
        return Fact::unknown(format!("{}: no file system of the mount table holds it", path.display()));
    };
    let file_system = super::BackingDevices::read(sysroot, &machine.disks).file_system(mount);
    Fact::Known(SourceBacking {
        device: file_system.source.clone(),
        leaves: leaves(&machine.disks, &file_system.devices),
        logical_block_bytes: largest_block(
            &machine.disks,
            &file_system.devices,
            &no_device(&file_system.kind),
        ),
        devices: file_system.devices.clone(),
        file_system: Some(file_system),
    })
}

/// Every block device on the way from a path to the disks at the bottom, the nearest first, and on through the
/// files of loop devices to what these lie on. Empty where no block device is seen.
pub fn devices_below(sysroot: &Sysroot, machine: &Machine, path: &Path) -> Vec<String> {
    let behind = |path: &Path| {
        devices_behind(sysroot, machine, path).known().map_or_else(Vec::new, |behind| behind.devices.clone())
    };
    let mut met: Vec<String> = Vec::new();
    let mut pending: VecDeque<String> = behind(path).into();
    while let Some(name) = pending.pop_front() {
        if met.contains(&name) {
            continue;
        }
        if let Some(disk) = machine.disk(&name) {
            pending.extend(disk.members.iter().cloned());
            pending.extend(disk.backing_file.iter().flat_map(|file| behind(file)));
        }
        met.push(name);
    }
    met
}

/// Why no block device is behind a file system of this kind.
fn no_device(kind: &str) -> String {
    match kind {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => {
            format!("a {kind} lies in memory: no disk is behind it")
        }
        "overlay" => "an overlay lies on another file system that the mount table does not show".into(),
        "zfs" => "the disks of a ZFS pool are not readable from /sys".into(),
        kind if super::is_network(kind) => {
            format!("{kind} comes over a network: no disk of this machine is behind it")
        }
        kind => format!("no block device was found behind this {kind} file system"),
    }
}

/// The path without links; of what is not there, the nearest directory that is.
fn real_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    absolute.ancestors().find_map(|ancestor| ancestor.canonicalize().ok()).unwrap_or(absolute)
}

/// Kernel name of a block device that is named itself.
fn raw_device(sysroot: &Sysroot, machine: &Machine, path: &Path) -> Option<String> {
    if sysroot.is_live() {
        let number = linerate_system::attributes::block_device_number(path).ok()??;
        let disk = machine.disks.iter().find(|disk| disk.number.known() == Some(&number))?;
        return Some(disk.name.clone());
    }
    path.strip_prefix("/dev").ok()?;
    super::kernel_name(sysroot, &machine.disks, path)
}

fn largest_block(disks: &[Disk], names: &[String], otherwise: &str) -> Fact<u32> {
    let mut largest: Option<u32> = None;
    for name in names {
        match disks.iter().find(|disk| &disk.name == name).map(|disk| &disk.logical_block_bytes) {
            Some(Fact::Known(bytes)) => largest = largest.max(Some(*bytes)),
            Some(Fact::Unknown { why }) => return Fact::unknown(why.clone()),
            None => return Fact::unknown(format!("{name}: the kernel shows no such block device")),
        }
    }
    Fact::from_option(largest, otherwise)
}

/// The disks at the bottom of block devices, each once, in the order met.
pub fn leaves(disks: &[Disk], names: &[String]) -> Vec<String> {
    let mut bottom = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut pending: Vec<&str> = names.iter().rev().map(String::as_str).collect();
    while let Some(name) = pending.pop() {
        // Also what keeps a damaged tree, whose devices are made of each other, from turning for ever.
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        match disks.iter().find(|disk| disk.name == name) {
            // A loop device is throttled and measured as a disk: its file may be anywhere.
            Some(disk) if disk.kind != DiskKind::Loop && !disk.members.is_empty() => {
                pending.extend(disk.members.iter().rev().map(String::as_str));
            }
            _ => bottom.push(name.to_string()),
        }
    }
    bottom
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use linerate_testing::Tree;

    fn tree() -> Tree {
        Tree::new(&[
            (
                "proc/self/mountinfo",
                "27 1 253:1 / / rw - xfs /dev/mapper/vg-root rw\n\
                 30 27 0:40 / /pool rw - btrfs /dev/sdb rw\n\
                 31 27 0:41 / /net rw - nfs4 filer:/export rw\n\
                 32 27 0:42 / /tmp rw - tmpfs tmpfs rw\n\
                 33 27 7:0 / /lab rw - xfs /dev/loop0 rw\n\
                 34 27 9:0 / /md rw - xfs /dev/md0 rw\n",
            ),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/queue/logical_block_size", "512"),
            ("sys/block/sda/sda2/partition", "2"),
            ("sys/block/sda/sda2/dev", "8:2"),
            ("sys/block/sdb/dev", "8:16"),
            ("sys/block/sdb/queue/logical_block_size", "4096"),
            ("sys/block/sdc/dev", "8:32"),
            ("sys/block/sdc/queue/logical_block_size", "512"),
            ("sys/block/dm-1/dev", "253:1"),
            ("sys/block/dm-1/dm/name", "vg-root"),
            ("sys/block/dm-1/queue/logical_block_size", "512"),
            ("sys/block/dm-1/slaves/sda2/x", ""),
            ("sys/block/dm-1/slaves/sdc/x", ""),
            ("sys/block/md0/dev", "9:0"),
            ("sys/block/md0/md/level", "raid0"),
            ("sys/block/md0/slaves/dm-1/x", ""),
            ("sys/block/md0/slaves/sdb/x", ""),
            ("sys/block/loop0/dev", "7:0"),
            ("sys/block/loop0/queue/logical_block_size", "512"),
            ("sys/block/loop0/loop/backing_file", "/pool/disk.img"),
            ("sys/fs/btrfs/u/devices/sdb/x", ""),
            ("sys/fs/btrfs/u/devices/sdc/x", ""),
        ])
    }

    fn behind(path: &str) -> SourceBacking {
        let tree = tree();
        let machine = probe(&tree.sysroot());
        devices_behind(&tree.sysroot(), &machine, Path::new(path))
            .known()
            .expect("something behind it")
            .clone()
    }

    #[test]
    fn stacks_are_walked_to_the_disks() {
        let root = behind("/srv/file");
        assert_eq!(root.device, "/dev/mapper/vg-root");
        assert_eq!(root.leaves, ["sda", "sdc"]);
        assert_eq!(root.logical_block_bytes, Fact::Known(512));
        assert_eq!(behind("/md/file").leaves, ["sda", "sdc", "sdb"]);
        let pool = behind("/pool/file");
        assert_eq!(pool.leaves, ["sdb", "sdc"]);
        assert_eq!(pool.logical_block_bytes, Fact::Known(4096), "the largest of its devices");
    }

    #[test]
    fn a_loop_device_is_a_disk_of_its_own() {
        assert_eq!(behind("/lab/file").leaves, ["loop0"]);
    }

    #[test]
    fn all_devices_below_a_path_come_nearest_first_through_the_files_of_loop_devices() {
        let tree = tree();
        let machine = probe(&tree.sysroot());
        let below = |path: &str| devices_below(&tree.sysroot(), &machine, Path::new(path));
        assert_eq!(below("/md/file"), ["md0", "dm-1", "sdb", "sda2", "sdc", "sda"]);
        assert_eq!(below("/lab/file"), ["loop0", "sdb", "sdc"], "its image lies on the btrfs of /pool");
        assert_eq!(below("/dev/sda2"), ["sda2", "sda"]);
        assert!(below("/net/file").is_empty());
    }

    #[test]
    fn a_block_device_itself() {
        let raw = behind("/dev/sda2");
        assert_eq!((raw.file_system, raw.device.as_str()), (None, "/dev/sda2"));
        assert_eq!((raw.devices, raw.leaves), (vec!["sda2".to_string()], vec!["sda".to_string()]));
        assert_eq!(behind("/dev/mapper/vg-root").leaves, ["sda", "sdc"]);
    }

    #[test]
    fn networks_and_memory_have_no_disk_and_say_so() {
        let network = behind("/net/file");
        assert!(network.leaves.is_empty() && network.device == "filer:/export");
        assert!(
            network.logical_block_bytes.why().is_some_and(|why| why.contains("nfs4 comes over a network"))
        );
        let memory = behind("/tmp/x");
        assert_eq!(memory.file_system.map(|fs| fs.kind).as_deref(), Some("tmpfs"));
        assert!(memory.logical_block_bytes.why().is_some_and(|why| why.contains("in memory")));
        let empty = Tree::new(&[]);
        let unknown = devices_behind(&empty.sysroot(), &probe(&empty.sysroot()), Path::new("/x"));
        assert_eq!(unknown.why(), Some("/proc/self/mountinfo: not there"));
    }

    #[test]
    fn devices_that_are_made_of_each_other_end() {
        let tree = Tree::new(&[("sys/block/dm-0/slaves/dm-1/x", ""), ("sys/block/dm-1/slaves/dm-0/x", "")]);
        let machine = probe(&tree.sysroot());
        assert!(leaves(&machine.disks, &["dm-0".into()]).is_empty());
    }

    #[test]
    fn live_paths_that_are_not_there_yet() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let live = Sysroot::live();
        let machine = probe(&live);
        let here = devices_behind(&live, &machine, directory.path());
        let file = devices_behind(&live, &machine, &directory.path().join("no/such/file"));
        assert_eq!(here, file);
        assert!(here.known().is_some_and(|behind| behind.file_system.is_some()), "{here:?}");
    }
}
