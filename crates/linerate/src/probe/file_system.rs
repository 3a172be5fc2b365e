//! Mounted file systems that a block device or a network stands behind, and the block devices that hold each.

use super::machine::{Disk, FileSystem};
use super::mount_table::{self, Mount};
use crate::sysroot::Sysroot;
use std::path::Path;

/// Reads the file systems in mount order.
pub fn read(sysroot: &Sysroot, disks: &[Disk]) -> Vec<FileSystem> {
    let mounts = mount_table::read(sysroot).unwrap_or_default();
    mounts
        .iter()
        .map(|mount| from_mount(sysroot, disks, mount))
        // The devices of a ZFS pool are not readable from /sys: it is kept without them.
        .filter(|fs| !fs.devices.is_empty() || is_network(&fs.kind) || fs.kind == "zfs")
        .collect()
}

/// One mount with its block devices by kernel name.
pub(super) fn from_mount(sysroot: &Sysroot, disks: &[Disk], mount: &Mount) -> FileSystem {
    FileSystem {
        mount_point: mount.mount_point.clone(),
        kind: mount.kind.clone(),
        source: mount.source.clone(),
        options: mount.options.clone(),
        devices: devices(sysroot, disks, mount),
        ..Default::default()
    }
}

/// The bytes of such a file system are on another machine (or on the host of a virtual one).
pub fn is_network(kind: &str) -> bool {
    const FUSE: [&str; 12] = [
        "sshfs",
        "s3fs",
        "gcsfuse",
        "goofys",
        "glusterfs",
        "ceph",
        "ceph-fuse",
        "rclone",
        "juicefs",
        "mount-s3",
        "beegfs",
        "moosefs",
    ];
    match kind.strip_prefix("fuse.") {
        Some(name) => FUSE.contains(&name),
        None => matches!(
            kind,
            "nfs"
                | "nfs4"
                | "cifs"
                | "smb3"
                | "smbfs"
                | "ceph"
                | "lustre"
                | "gpfs"
                | "beegfs"
                | "glusterfs"
                | "9p"
                | "virtiofs"
                | "afs"
                | "coda"
                | "orangefs"
                | "pvfs2"
                | "panfs"
                | "wekafs"
                | "ncpfs"
        ),
    }
}

fn devices(sysroot: &Sysroot, disks: &[Disk], mount: &Mount) -> Vec<String> {
    let by_number =
        disks.iter().find(|disk| disk.number.known() == mount.number.as_ref() && mount.number.is_some());
    let first = match by_number {
        Some(disk) => disk.name.clone(),
        // The number of btrfs and of FUSE is anonymous: the source names a device.
        None => match kernel_name(sysroot, disks, Path::new(&mount.source)) {
            Some(name) => name,
            None => return Vec::new(),
        },
    };
    match mount.kind.as_str() {
        "btrfs" => btrfs_devices(sysroot, &first).unwrap_or_else(|| vec![first]),
        _ => vec![first],
    }
}

/// All devices of the btrfs that one device is part of.
fn btrfs_devices(sysroot: &Sysroot, first: &str) -> Option<Vec<String>> {
    sysroot
        .list("/sys/fs/btrfs")
        .iter()
        .map(|uuid| sysroot.list(format!("/sys/fs/btrfs/{uuid}/devices")))
        .find(|devices| devices.iter().any(|device| device == first))
}

/// Kernel name of a device file: `/dev/sda1`, `/dev/mapper/vg-root`, `/dev/disk/by-id/…`; `None` where it is no block device.
pub(super) fn kernel_name(sysroot: &Sysroot, disks: &[Disk], device: &Path) -> Option<String> {
    let known = |name: &str| disks.iter().find(|disk| disk.name == name).map(|disk| disk.name.clone());
    // sysfs writes the slash in a device name (`cciss/c0d0`) as an exclamation mark.
    let in_dev =
        |path: &Path| path.strip_prefix("/dev").ok().map(|name| name.to_string_lossy().replace('/', "!"));
    if let Some(name) = in_dev(device).and_then(|name| known(&name)) {
        return Some(name);
    }
    let target = sysroot.follow(device);
    if let Some(name) = target.and_then(|path| in_dev(&path)).and_then(|name| known(&name)) {
        return Some(name);
    }
    if sysroot.is_live()
        && let Ok(Some(number)) = linerate_system::device::block_device_number(device)
    {
        return disks.iter().find(|disk| disk.number.known() == Some(&number)).map(|disk| disk.name.clone());
    }
    let mapped = device.strip_prefix("/dev/mapper").ok()?.to_str()?;
    disks
        .iter()
        .find(|disk| {
            disk.name.starts_with("dm-")
                && ["class/block", "block"].iter().any(|place| {
                    sysroot.text(format!("/sys/{place}/{}/dm/name", disk.name)).as_deref() == Ok(mapped)
                })
        })
        .map(|disk| disk.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::disk;
    use crate::probe::tests::Tree;

    #[test]
    fn block_network_and_multi_device_file_systems() {
        let tree = Tree::new(&[
            (
                "proc/self/mountinfo",
                "27 1 254:0 / / rw - ext4 /dev/root rw\n\
                 28 27 0:5 / /proc rw - proc proc rw\n\
                 29 27 0:6 / /tmp rw - tmpfs tmpfs rw\n\
                 30 27 0:40 / /pool rw - btrfs /dev/sdb rw,subvol=/\n\
                 31 27 0:41 / /net rw - nfs4 filer:/export rw\n\
                 32 27 0:42 / /tank rw - zfs tank/data rw\n\
                 33 27 0:43 / /lv rw - fuseblk /dev/mapper/vg-root rw\n",
            ),
            ("sys/block/vda/dev", "254:0\n"),
            ("sys/block/sdb/dev", "8:16\n"),
            ("sys/block/sdc/dev", "8:32\n"),
            ("sys/block/dm-0/dm/name", "vg-root\n"),
            ("sys/fs/btrfs/features/x", ""),
            ("sys/fs/btrfs/0a1b/devices/sdb/x", ""),
            ("sys/fs/btrfs/0a1b/devices/sdc/x", ""),
        ]);
        let disks = disk::read(&tree.sysroot(), &[]);
        let found = read(&tree.sysroot(), &disks);
        let shown: Vec<String> = found
            .iter()
            .map(|fs| format!("{} {} [{}]", fs.mount_point.display(), fs.kind, fs.devices.join(" ")))
            .collect();
        assert_eq!(
            shown,
            ["/ ext4 [vda]", "/pool btrfs [sdb sdc]", "/net nfs4 []", "/tank zfs []", "/lv fuseblk [dm-0]"]
        );
    }

    #[test]
    fn which_kinds_are_networks() {
        assert!(is_network("nfs4") && is_network("lustre") && is_network("fuse.sshfs"));
        assert!(!is_network("ext4") && !is_network("tmpfs") && !is_network("fuse.ntfs-3g"));
    }
}
