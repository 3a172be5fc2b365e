//! Block devices, controllers, file systems.

use linerate_facts::fact::Fact;
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
    /// Devices directly below: the whole disk of a partition, the `slaves` of dm and bcache, the members of
    /// md by their place in the array (without spares, where the array reports the places).
    pub members: Vec<String>,
    /// Backing file of a loop device.
    pub backing_file: Option<PathBuf>,
    /// Controller, by `Controller::name`; of a namespace with several paths the first that is live,
    /// `Controller::disks` reports all.
    pub controller: Option<String>,
    /// How an array spreads its data, where this is one (md, dm over several devices).
    pub array: Option<Array>,
    /// How far its start lies behind the last boundary of `alignment_bytes`, bytes; 0 is aligned.
    pub misaligned_bytes: Fact<u64>,
    /// Boundary that a start should lie on, bytes: the stripe of an array, else the larger of physical block
    /// and smallest good request.
    pub alignment_bytes: Fact<u64>,
    /// Physical sector, bytes: a smaller write is read, changed and written back by the drive.
    pub physical_block_bytes: Fact<u32>,
    /// Smallest request that costs no more than it has to, bytes (`queue/minimum_io_size`: the chunk of an
    /// array).
    pub minimum_io_bytes: Fact<u64>,
    /// Best size of a request, bytes (`queue/optimal_io_size`: the stripe of an array).
    pub optimal_io_bytes: Fact<u64>,
    /// It takes discards (TRIM, deallocate).
    pub discard: Fact<bool>,
    /// Anything was discarded since the host started; known where it has run for longer than the week of
    /// `fstrim.timer`, and was written.
    #[serde(default)]
    pub trimmed: Fact<bool>,
    /// I/O scheduler in use.
    pub scheduler: Fact<String>,
    /// The kernel reads so much ahead of a buffered sequential reader, bytes.
    pub read_ahead_bytes: Fact<u64>,
    /// Requests that may wait in each of its queues.
    pub requests: Fact<u32>,
    /// Largest request that the kernel sends it, bytes (`queue/max_sectors_kb`).
    pub max_request_bytes: Fact<u64>,
    /// `write back`: writes wait in a cache that a power cut empties, so that flushes cost; `write through`:
    /// there is none.
    pub write_cache: Fact<String>,
    /// Line rate of its own link (to port or expander), all lanes, bits per second; SATA and SAS. NVMe: see
    /// its controller.
    pub link_bits_per_second: Fact<u64>,
    /// The most that the drive itself can do, bits per second; SATA drives tell it in IDENTIFY word 76.
    pub link_max_bits_per_second: Fact<u64>,
    /// Name below `/dev/mapper` of a dm device (LVM: group and volume, joined by `-`).
    pub mapped_name: Option<String>,
    /// Who made a dm device: the word before the first `-` of its uuid (`LVM`, `mpath`, `CRYPT`, `part1`);
    /// none without a uuid.
    pub mapped_by: Option<String>,
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
    /// How the file system itself spreads its data over devices (btrfs, ZFS), or believes that the array
    /// below does (XFS `sunit`).
    pub array: Option<Array>,
    /// Algorithm and driver of the checksums of its data, `crc32c (crc32c-intel)`, where the kernel shows them
    /// (btrfs, since Linux 5.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Of one on local devices, on the live machine: bytes in all.
    pub size_bytes: Fact<u64>,
    /// Bytes free to those who are not root.
    pub free_bytes: Fact<u64>,
}

/// How data is spread over several devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// md: `raid0`, `raid1`, `raid4`, `raid5`, `raid6`, `raid10`, `linear`. dm: `striped`, `linear`, `raid1`,
    /// `raid` (an LVM RAID whose level is root's to read), `dm` (nothing is known). btrfs, its data profile:
    /// `single`, `dup`, `raid0`, `raid1c3` … ZFS: `zpool`. What XFS or ext4 believes of the array below:
    /// `stripe`.
    pub level: String,
    /// Bytes on one disk before the next begins (md's chunk, XFS' stripe unit).
    pub chunk_bytes: Fact<u64>,
    /// Devices that are part of it.
    pub disks: Fact<u32>,
    /// Chunks of data in a stripe, which is a row over all members: what a large request keeps busy. raid10
    /// counts as the kernel does for `optimal_io_size`: members ÷ near copies, all members where that is no
    /// whole number; far copies lie in other rows.
    pub data_disks: Fact<u32>,
    /// Members that are missing or failed.
    pub degraded: Fact<u32>,
    /// Bytes of data in a stripe: chunk × `data_disks`.
    pub stripe_bytes: Fact<u64>,
    /// How many times each byte is stored; parity is not a copy.
    pub copies: Fact<u32>,
    /// How chunks and copies are placed: `near=2`, `far=2`, `offset=2` of raid10, `left-symmetric` … of raid5
    /// and raid6.
    pub layout: Fact<String>,
    /// md: `clean`, `active`, `inactive` …; a ZFS pool: `ONLINE`, `DEGRADED` …
    pub state: Fact<String>,
    /// What md does beside: `idle`, or `resync`, `recover`, `check`, `reshape`, which take their share of the
    /// members' time.
    pub sync_action: Fact<String>,
}

/// A controller between PCI and disks: an NVMe controller, a SATA port, a SAS, Fibre Channel or other SCSI
/// host, a virtio disk's device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    /// Kernel name (`nvme0`, `host2`, `ata1`, `virtio1`).
    pub name: String,
    /// What it speaks.
    pub kind: ControllerKind,
    /// PCI function it is.
    pub pci: Option<String>,
    /// Model (NVMe), else the driver (`ahci`, `mpt3sas`, `lpfc`).
    pub model: Fact<String>,
    /// Firmware (NVMe).
    pub firmware: Fact<String>,
    /// NVMe: `pcie`, `tcp`, `rdma`, `fc`, `loop` …, `volume` (of a cloud, over its network); else `sata`, `sas`, `fc`, `spi` (parallel SCSI), `iscsi`,
    /// `virtio`.
    pub transport: Fact<String>,
    /// Where an NVMe controller is: a PCI address, or for fabrics `traddr=10.0.0.1,trsvcid=4420`.
    pub address: Fact<String>,
    /// NVMe `live`, `connecting`, `dead` …; Fibre Channel `Online`, `Linkdown` …; other SCSI hosts `running`,
    /// `recovery` …
    pub state: Fact<String>,
    /// Rate of its port as it runs now, line rate in bits per second, all lanes: before 8b/10b and the like.
    /// SAS: all phys that are up.
    pub link_bits_per_second: Fact<u64>,
    /// The most that the same lanes can do. SAS phys without a cable are not counted: see `lanes_max`.
    pub link_max_bits_per_second: Fact<u64>,
    /// Lanes of the link: PCIe width, SAS phys that are up, 1 for a serial port.
    pub lanes: Fact<u32>,
    /// Lanes that there are: PCIe width of the card, all SAS phys.
    pub lanes_max: Fact<u32>,
    /// Ports of a SAS host: each is shared by the disks behind it. Empty elsewhere.
    pub ports: Vec<ControllerPort>,
    /// Queues for I/O.
    pub queues: Fact<u32>,
    /// Disks (namespaces, targets) behind it, by kernel name; also namespaces that it is one of several paths
    /// to.
    pub disks: Vec<String>,
}

/// One port of a SAS host: one phy to a drive, or several (a wide port) to an expander.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerPort {
    /// Kernel name (`port-11:0`).
    pub name: String,
    /// Phys that are up in it.
    pub lanes: u32,
    /// Line rate of all its phys, bits per second.
    pub link_bits_per_second: Fact<u64>,
    /// The most that the host's end of these phys can do, bits per second.
    pub link_max_bits_per_second: Fact<u64>,
    /// Disks behind it, by kernel name.
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
