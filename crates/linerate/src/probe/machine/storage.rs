//! Block devices, controllers, file systems.

use crate::fact::Fact;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Kernel name (`nvme0n1`, `sda1`, `loop0`, `dm-0`, `md0`).
    pub name: String,
    /// What kind of block device it is.
    pub kind: DiskKind,
    /// `major:minor`.
    pub number: Fact<String>,
    /// Size, bytes.
    pub size_bytes: Fact<u64>,
    /// Model string.
    pub model: Fact<String>,
    /// Rotating medium.
    pub rotational: Fact<bool>,
    /// Logical sector, bytes: direct I/O is a multiple of it.
    pub logical_block_bytes: Fact<u32>,
    /// NUMA node.
    pub node: Fact<u32>,
    /// PCI function of its controller, where there is one.
    pub pci: Option<String>,
    /// Devices directly below (the whole disk of a partition, members of dm and md).
    pub members: Vec<String>,
    /// Backing file of a loop device.
    pub backing_file: Option<PathBuf>,
    /// Controller, by `Controller::name`.
    #[serde(default)]
    pub controller: Option<String>,
    /// How an array spreads its data, where this is one (md, striped dm, LVM).
    #[serde(default)]
    pub array: Option<Array>,
    /// Offset of its start from what the device below would like, bytes; 0 is aligned.
    #[serde(default)]
    pub misaligned_bytes: Fact<u64>,
    /// Best size of a request, bytes (`queue/optimal_io_size`: the stripe of an array).
    #[serde(default)]
    pub optimal_io_bytes: Fact<u64>,
    /// It takes discards (TRIM, deallocate).
    #[serde(default)]
    pub discard: Fact<bool>,
    /// I/O scheduler in use.
    #[serde(default)]
    pub scheduler: Fact<String>,
}

/// Kind of block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    Nvme,
    Scsi,
    Virtio,
    Partition,
    Loop,
    Dm,
    Md,
    #[default]
    Other,
}

/// One mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// `xfs`, `ext4`, `btrfs`, `nfs4`, `tmpfs` …
    pub kind: String,
    /// The mount source (`/dev/vda`, `host:/export`).
    pub source: String,
    /// Mount and superblock options, comma separated.
    pub options: String,
    /// Block devices that hold it, by kernel name; several for a multi-device btrfs.
    pub devices: Vec<String>,
    /// How the file system itself spreads its data over devices (btrfs, ZFS), or believes that the array below does (XFS `sunit`).
    #[serde(default)]
    pub array: Option<Array>,
}

/// How data is spread over several devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// `raid0`, `raid1`, `raid5`, `raid6`, `raid10`, `linear`, `striped`, `raidz2` …
    pub level: String,
    /// Bytes on one disk before the next begins (md's chunk, XFS' stripe unit).
    pub chunk_bytes: Fact<u64>,
    /// Devices that are part of it.
    pub disks: Fact<u32>,
    /// Devices' worth of data in a stripe.
    pub data_disks: Fact<u32>,
    /// Members that are missing or failed.
    pub degraded: Fact<u32>,
}

/// A controller between PCI and disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    /// Kernel name (`nvme0`, `host2`, `ata1`).
    pub name: String,
    /// What it speaks.
    pub kind: ControllerKind,
    /// PCI function it is.
    pub pci: Option<String>,
    /// Model or driver.
    pub model: Fact<String>,
    /// Transport (`pcie`, `tcp`, `rdma`, `fc`) and, for NVMe over fabrics, the address.
    pub transport: Fact<String>,
    /// Rate of its port as it runs now, line rate in bits per second, all lanes.
    pub link_bits_per_second: Fact<u64>,
    /// The most that the port can do.
    pub link_max_bits_per_second: Fact<u64>,
    /// Queues for I/O.
    pub queues: Fact<u32>,
    /// Disks (namespaces, targets) behind it, by kernel name.
    pub disks: Vec<String>,
}

/// What a controller speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerKind {
    Nvme,
    Sata,
    Sas,
    FibreChannel,
    Scsi,
    #[default]
    Other,
}
