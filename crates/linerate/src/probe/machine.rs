//! The product of the probe: what the server is. Data only; every field that can fail to be read is a `Fact`.

use crate::fact::Fact;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// What the server is: packages, cores, NUMA nodes, memory, PCIe tree, NICs, block devices, file systems, kernel settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: Fact<String>,
    /// Hypervisor name (`kvm`, `vmware`, …), `none` on bare metal.
    pub virtualisation: Fact<String>,
    /// Processors.
    pub cpu: Cpu,
    /// Memory and NUMA nodes.
    pub memory: Memory,
    /// PCI devices, in address order.
    pub pci: Vec<PciDevice>,
    /// Network interfaces, in name order, loopback included.
    pub nics: Vec<Nic>,
    /// Block devices (whole disks, partitions, loop, dm, md), in name order.
    pub disks: Vec<Disk>,
    /// Mounted file systems that a block device or a network stands behind, in mount order.
    pub file_systems: Vec<FileSystem>,
    /// Kernel version and the settings that bound a flow.
    pub kernel: Kernel,
}

/// Processors as the kernel shows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name of the first package.
    pub model: Fact<String>,
    /// Number of packages (sockets).
    pub packages: Fact<u32>,
    /// Number of physical cores that are online.
    pub physical_cores: Fact<u32>,
    /// Simultaneous multithreading is active.
    pub smt: Fact<bool>,
    /// Logical processors, ascending by id.
    pub logical: Vec<LogicalCpu>,
    /// CPUs that this process may run on (`Cpus_allowed_list`).
    pub allowed: Fact<Vec<u32>>,
    /// CPU time that the control group grants, in cores (cgroup v1 `cpu.cfs_*`, v2 `cpu.max`, the tightest ancestor);
    /// `0.0` stands for "no quota".
    pub quota_cores: Fact<f64>,
    /// Frequency governor of CPU 0.
    pub governor: Fact<String>,
}

/// One logical processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// Kernel number.
    pub id: u32,
    /// Package (socket) number.
    pub package: Fact<u32>,
    /// Core number within the package.
    pub core: Fact<u32>,
    /// NUMA node.
    pub node: Fact<u32>,
    /// Other threads of the same core and this one.
    pub siblings: Fact<Vec<u32>>,
    /// Online.
    pub online: bool,
}

/// Memory and its nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// `MemTotal`, bytes.
    pub total_bytes: Fact<u64>,
    /// `MemAvailable`, bytes.
    pub available_bytes: Fact<u64>,
    /// NUMA nodes that are online.
    pub nodes: Vec<NumaNode>,
    /// Bandwidth by the DIMMs' configured clock, bytes per second, all channels.
    pub rated_bytes_per_second: Fact<f64>,
}

/// One NUMA node; it may have memory and no CPU, or CPUs and no memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Kernel number; may be sparse.
    pub id: u32,
    /// Logical processors of the node.
    pub cpus: Vec<u32>,
    /// Memory of the node, bytes.
    pub total_bytes: Fact<u64>,
}

/// One PCI function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PciDevice {
    /// `domain:bus:device.function`.
    pub address: String,
    /// Address of the bridge above, if there is one.
    pub parent: Option<String>,
    /// Class code, 24 bits (`0x020000` = Ethernet controller).
    pub class: Fact<u32>,
    /// Vendor and device id.
    pub vendor: Fact<u32>,
    /// Device id.
    pub device: Fact<u32>,
    /// Kernel driver bound.
    pub driver: Fact<String>,
    /// NUMA node; −1 in sysfs is `Unknown`.
    pub node: Fact<u32>,
    /// Link as it runs now.
    pub link: Fact<PciLink>,
    /// The most that the device itself can do.
    pub link_max: Fact<PciLink>,
}

/// A PCIe link's speed and width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PciLink {
    /// Giga-transfers a second per lane: 2.5, 5, 8, 16, 32, 64, 128.
    pub gt_per_second: f64,
    /// Lanes.
    pub width: u32,
}

/// One network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    /// Interface name.
    pub name: String,
    /// Link rate, bits per second.
    pub speed_bits_per_second: Fact<u64>,
    /// MTU, bytes.
    pub mtu: Fact<u32>,
    /// `operstate` (`up`, `down`, `unknown`, …).
    pub state: Fact<String>,
    /// Kernel driver (`loopback` for lo, `veth`, …).
    pub driver: Fact<String>,
    /// Receive queues.
    pub rx_queues: Fact<u32>,
    /// Transmit queues.
    pub tx_queues: Fact<u32>,
    /// NUMA node.
    pub node: Fact<u32>,
    /// PCI function behind it, where there is one.
    pub pci: Option<String>,
    /// Addresses with prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// `lo`.
    pub loopback: bool,
}

/// One block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// Kind of block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    Nvme,
    Scsi,
    Virtio,
    Partition,
    Loop,
    Dm,
    Md,
    Other,
}

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// Kernel version and settings that bound a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Fact<String>,
    /// `kernel.io_uring_disabled`: 0 allowed, 1 group only, 2 off.
    pub io_uring_disabled: Fact<u32>,
    /// RLIMIT_MEMLOCK soft limit of this process, bytes; `u64::MAX` is unlimited, or this process has CAP_IPC_LOCK.
    pub memlock_bytes: Fact<u64>,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max_bytes: Fact<u64>,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_rmem` maximum, bytes.
    pub tcp_rmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_wmem` maximum, bytes.
    pub tcp_wmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_congestion_control`.
    pub tcp_congestion_control: Fact<String>,
    /// `net.ipv4.tcp_available_congestion_control`.
    pub tcp_available_congestion_control: Fact<Vec<String>>,
}
