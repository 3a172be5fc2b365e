//! The product of the probe: what the server is. Data only; every field that can fail to be read is a `Fact`.
//!
//! Fields may be added (with `#[serde(default)]`, so that older files still read), never renamed: `run.json`
//! holds them.

mod cpu;
mod pci;
mod storage;

pub use cpu::*;
pub use pci::*;
pub use storage::*;

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// What the server is: packages, cores, NUMA nodes, memory, PCIe tree, NICs, block devices, file systems,
/// kernel settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: Fact<String>,
    /// Hypervisor name (`kvm`, `vmware`, …), `none` on bare metal.
    pub virtualisation: Fact<String>,
    /// CPUs.
    pub cpu: Cpu,
    /// Memory and NUMA nodes.
    pub memory: Memory,
    /// PCI devices, in address order.
    pub pci: Vec<PciDevice>,
    /// Network interfaces, in name order, loopback included.
    pub nics: Vec<Nic>,
    /// Block devices (whole disks, partitions, loop, dm, md), in name order.
    pub disks: Vec<Disk>,
    /// Mounted file systems that a block device or a network is behind, in mount order.
    pub file_systems: Vec<FileSystem>,
    /// Kernel version and the settings that bound a flow.
    pub kernel: Kernel,
    /// Controllers between PCI and disks: NVMe controllers, SATA, SAS and Fibre Channel hosts.
    pub controllers: Vec<Controller>,
    /// Interrupts of devices and the CPUs that take them.
    pub interrupts: Vec<Interrupt>,
    /// What reports the power drawn.
    pub power: Power,
    /// Container that linerate runs in (`docker`, `kubernetes`, …), `none` outside of any.
    pub container: Fact<String>,
    /// Slots for cards of PCI Express by the firmware, empty ones included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<CardSlot>,
    /// Type of the instance, where a cloud's firmware names it (`m5.24xlarge`).
    #[serde(default)]
    pub instance: Fact<String>,
}

impl Machine {
    /// Of its JSON, by way of text: what reads a machine out of a file then reads this one, too, and is compiled once.
    pub fn of_json(value: &serde_json::Value) -> serde_json::Result<Self> {
        serde_json::from_slice(&serde_json::to_vec(value)?)
    }

    /// The disk of this name.
    pub fn disk(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.name == name)
    }

    /// The interface of this name.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }
}

/// Kernel version and settings that bound a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Fact<String>,
    /// `kernel.io_uring_disabled`: 0 allowed, 1 group only, 2 off.
    pub io_uring_disabled: Fact<u32>,
    /// RLIMIT_MEMLOCK soft limit of this process, bytes; `u64::MAX` is unlimited, or this process has
    /// CAP_IPC_LOCK.
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
    /// `net.core.netdev_max_backlog`: packets that wait for a CPU which another one handed them to.
    pub netdev_max_backlog: Fact<u64>,
    /// `net.core.netdev_budget`: packets that one round of receiving takes.
    pub netdev_budget: Fact<u64>,
    /// `net.core.default_qdisc`: queueing discipline of a new interface.
    pub default_qdisc: Fact<String>,
    /// `net.core.optmem_max`, bytes: bounds the notifications of zerocopy sends that a socket has open.
    pub optmem_max_bytes: Fact<u64>,
    /// `net.ipv4.tcp_mtu_probing`: 0 off, 1 after a black hole was met, 2 always.
    pub tcp_mtu_probing: Fact<u32>,
    /// Huge pages set aside, smallest first.
    pub huge_pages: Vec<HugePages>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Fact<String>,
    /// `kernel.numa_balancing` is on: the kernel moves pages to the node that uses them.
    pub numa_balancing: Fact<bool>,
    /// `vm.zone_reclaim_mode`: 0 takes memory of another node before it drops cached pages of its own.
    pub zone_reclaim_mode: Fact<u32>,
    /// How the IOMMU translates (`DMA`, `DMA-FQ`, `identity`), each way once; empty where none is in use.
    pub iommu: Fact<Vec<String>>,
    /// Boot options that bear on speed (`iommu=pt`, `isolcpus=2-5`).
    pub boot_options: Fact<Vec<String>>,
    /// irqbalance runs as a service: it moves interrupts from CPU to CPU.
    pub irqbalance: Fact<bool>,
}

/// Huge pages of one size that are set aside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of a page, bytes.
    pub page_bytes: u64,
    /// Pages set aside.
    pub total: Fact<u64>,
    /// Of these, in nobody's use.
    pub free: Fact<u64>,
}

/// Sources of power readings. Present does not mean readable: RAPL is root's since CVE-2020-8694.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// RAPL domains (`package-0`, `package-0/dram`); the reason where there are none.
    pub rapl: Fact<Vec<String>>,
    /// hwmon chips with a power sensor (`power1_input`, `power1_average`).
    pub hwmon: Fact<Vec<String>>,
    /// An IPMI interface is there (`/dev/ipmi0`, `/sys/class/ipmi`).
    pub ipmi: Fact<bool>,
    /// The RAPL domains with their counters.
    pub rapl_domains: Vec<RaplDomain>,
}

/// One RAPL domain: a counter of energy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RaplDomain {
    /// `package-0`; a part of a package behind it (`package-0/dram`).
    pub name: String,
    /// The counter when it was probed, microjoules; the reason where this process may not read it.
    pub energy_microjoules: Fact<u64>,
    /// Largest value before it begins at 0 again, microjoules; some packages get there within minutes.
    pub wraps_at_microjoules: Fact<u64>,
}
