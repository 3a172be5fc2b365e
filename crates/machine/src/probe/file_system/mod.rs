//! Mounted file systems that a block device or a network is behind, the block devices that hold each, and
//! how each spreads its data.

mod mount_table;
pub mod source;
mod stripes;

use crate::probe::machine::{Array, Disk, FileSystem};
use linerate_facts::fact::{Fact, NOT_RECORDED};
use linerate_facts::sysroot::Sysroot;
use mount_table::Mount;
use std::collections::HashMap;
use std::path::Path;
use stripes::Pool;

/// Reads the file systems in mount order.
pub(crate) fn read(sysroot: &Sysroot, disks: &[Disk]) -> Vec<FileSystem> {
    let mounts = mount_table::read(sysroot).unwrap_or_default();
    let below = BackingDevices::read(sysroot, disks);
    mounts
        .iter()
        .map(|mount| below.file_system(mount))
        // The devices of a ZFS pool are not readable from /sys: it is kept without them.
        .filter(|fs| !fs.devices.is_empty() || is_network(&fs.kind) || fs.kind == "zfs")
        .collect()
}

/// What file systems lie on, read once for all mounts.
struct BackingDevices<'a> {
    sysroot: &'a Sysroot,
    disks: &'a [Disk],
    by_number: HashMap<&'a str, &'a Disk>,
    pools: Vec<Pool>,
    /// Place in `pools` by device.
    pool_of: HashMap<String, usize>,
}

impl<'a> BackingDevices<'a> {
    fn read(sysroot: &'a Sysroot, disks: &'a [Disk]) -> Self {
        let numbered = disks.iter().rev().filter_map(|disk| Some((disk.number.known()?.as_str(), disk)));
        let pools = stripes::btrfs(sysroot);
        let mut pool_of = HashMap::new();
        for (at, pool) in pools.iter().enumerate() {
            for device in &pool.devices {
                pool_of.entry(device.clone()).or_insert(at);
            }
        }
        BackingDevices { sysroot, disks, by_number: numbered.collect(), pools, pool_of }
    }

    /// One mount with its block devices by kernel name.
    fn file_system(&self, mount: &Mount) -> FileSystem {
        let devices = self.devices(mount);
        let pool = devices.first().filter(|_| mount.kind == "btrfs").and_then(|device| self.pool(device));
        let space = self.space(mount, &devices);
        FileSystem {
            size_bytes: space.clone().map(|(_, all)| all),
            free_bytes: space.map(|(free, _)| free),
            mount_point: mount.mount_point.clone(),
            kind: mount.kind.clone(),
            source: mount.source.clone(),
            options: mount.options.clone(),
            array: self.array(mount, &devices),
            checksum: pool.and_then(|pool| pool.checksum.clone()),
            devices,
        }
    }

    fn devices(&self, mount: &Mount) -> Vec<String> {
        let by_number = mount.number.as_deref().and_then(|number| self.by_number.get(number));
        if let Some(disk) = by_number {
            return vec![disk.name.clone()];
        }
        // The number of btrfs, bcachefs and FUSE is anonymous: the source names a device, for bcachefs all of
        // them.
        let sources = match mount.kind.as_str() {
            "bcachefs" => mount.source.split(':').collect(),
            _ => vec![mount.source.as_str()],
        };
        let names =
            sources.into_iter().filter_map(|source| kernel_name(self.sysroot, self.disks, Path::new(source)));
        let names: Vec<String> = names.collect();
        match (mount.kind.as_str(), names.first()) {
            ("btrfs", Some(first)) => self.pool(first).map_or(names.clone(), |pool| pool.devices.clone()),
            _ => names,
        }
    }

    /// The btrfs that a device is part of.
    fn pool(&self, device: &str) -> Option<&Pool> {
        self.pool_of.get(device).map(|at| &self.pools[*at])
    }

    /// How the file system spreads its data, or believes that what is below does.
    fn array(&self, mount: &Mount, devices: &[String]) -> Option<Array> {
        match mount.kind.as_str() {
            "btrfs" => Some(self.pool(devices.first()?)?.array.clone()),
            "zfs" => Some(stripes::zfs(self.sysroot, &mount.source)),
            kind => stripes::stripe_options(kind, &mount.options, || self.block_bytes(mount)),
        }
    }

    /// Free bytes and all. A server that does not answer must not hold up the probe: only local ones are asked.
    fn space(&self, mount: &Mount, devices: &[String]) -> Fact<(u64, u64)> {
        if !self.sysroot.is_live() || devices.is_empty() {
            return Fact::unknown(NOT_RECORDED);
        }
        match linerate_system::file::space_at(&mount.mount_point) {
            Ok(space) => Fact::Known(space),
            Err(error) => Fact::unknown(format!("{}: {error}", mount.mount_point.display())),
        }
    }

    /// The file system's own block; only the live system can be asked.
    fn block_bytes(&self, mount: &Mount) -> Fact<u64> {
        if !self.sysroot.is_live() {
            return Fact::unknown(NOT_RECORDED);
        }
        match linerate_system::file::block_bytes_at(&mount.mount_point) {
            Ok(bytes) => Fact::Known(bytes),
            Err(error) => Fact::unknown(format!("{}: {error}", mount.mount_point.display())),
        }
    }
}

/// The bytes of such a file system are on another machine (or on the host of a virtual one).
pub(crate) fn is_network(kind: &str) -> bool {
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

/// Kernel name of a device file: `/dev/sda1`, `/dev/mapper/vg-root`, `/dev/disk/by-id/…`; `None` where it is
/// no block device.
fn kernel_name(sysroot: &Sysroot, disks: &[Disk], device: &Path) -> Option<String> {
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
        && let Ok(Some(number)) = linerate_system::attributes::block_device_number(device)
    {
        return disks.iter().find(|disk| disk.number.known() == Some(&number)).map(|disk| disk.name.clone());
    }
    let mapped = device.strip_prefix("/dev/mapper").ok()?.to_str()?;
    disks.iter().find(|disk| disk.mapped_name.as_deref() == Some(mapped)).map(|disk| disk.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::storage::disk;
    use linerate_testing::Tree;

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
        let disks: Vec<Disk> = disk::read(&tree.sysroot(), &[]).into_iter().map(|(disk, _)| disk).collect();
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
    fn how_file_systems_spread_their_data_or_believe_it_spread() {
        let tree = Tree::new(&[
            (
                "proc/self/mountinfo",
                "27 1 9:0 / / rw - xfs /dev/md0 rw,sunit=1024,swidth=4096,noquota\n\
                 28 27 8:0 / /home rw - ext4 /dev/sda rw,stripe=512\n\
                 30 27 0:40 / /pool rw - btrfs /dev/sdb rw,subvol=/\n\
                 31 27 0:40 /sub /sub rw - btrfs /dev/sdb rw,subvol=/sub\n\
                 32 27 0:42 / /tank rw - zfs tank/data rw\n\
                 33 27 0:43 / /both rw - bcachefs /dev/sdb:/dev/sdc rw\n",
            ),
            ("sys/block/md0/dev", "9:0"),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sdb/dev", "8:16"),
            ("sys/block/sdc/dev", "8:32"),
            ("sys/fs/btrfs/0a1b/devices/sdb/x", ""),
            ("sys/fs/btrfs/0a1b/devices/sdc/x", ""),
            ("sys/fs/btrfs/0a1b/allocation/data/raid0/total_bytes", "1"),
            ("sys/fs/btrfs/0a1b/checksum", "crc32c (crc32c-generic)\n"),
            ("proc/spl/kstat/zfs/tank/state", "ONLINE\n"),
        ]);
        let disks: Vec<Disk> = disk::read(&tree.sysroot(), &[]).into_iter().map(|(disk, _)| disk).collect();
        let found = read(&tree.sysroot(), &disks);
        let checksums: Vec<&str> = found.iter().filter_map(|fs| fs.checksum.as_deref()).collect();
        assert_eq!(checksums, ["crc32c (crc32c-generic)"; 2]);
        let shown: Vec<(String, Option<u32>, Option<u64>)> = found
            .iter()
            .filter_map(|fs| fs.array.clone())
            .map(|a| (a.level, a.data_disks.known().copied(), a.stripe_bytes.known().copied()))
            .collect();
        assert_eq!(
            shown,
            [
                ("stripe".into(), Some(4), Some(2 << 20)),
                ("stripe".into(), None, None),
                ("raid0".into(), Some(2), Some(128 << 10)),
                ("raid0".into(), Some(2), Some(128 << 10)),
                ("zpool".into(), None, None)
            ]
        );
        assert_eq!(found[5].devices, ["sdb", "sdc"], "bcachefs names all of its devices");
    }

    #[test]
    fn which_kinds_are_networks() {
        assert!(is_network("nfs4") && is_network("lustre") && is_network("fuse.sshfs"));
        assert!(!is_network("ext4") && !is_network("tmpfs") && !is_network("fuse.ntfs-3g"));
    }
}
