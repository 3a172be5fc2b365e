//! Kernel version and settings.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

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
