//! Memory, pressure and PCIe links.

use serde::{Deserialize, Serialize};

/// Memory, bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryUse {
    pub total: u64,
    pub free: u64,
    /// What programs could still get without swapping.
    pub available: u64,
    /// Page cache.
    pub cached: u64,
    pub buffers: u64,
    /// Waits to be written to disks.
    pub dirty: u64,
    /// Is being written to disks.
    pub writeback: u64,
    pub shared: u64,
    /// The kernel's own.
    pub slab: u64,
    pub swap_total: u64,
    pub swap_free: u64,
    /// Locked into memory (`mlock`, pinned buffers).
    pub locked: u64,
    /// Set aside as huge pages.
    pub huge_total: u64,
    /// Set aside and not in use.
    pub huge_free: u64,
    /// Huge pages that the kernel made by itself for programs.
    pub huge_transparent: u64,
    /// Bytes of one huge page.
    pub huge_page_bytes: u64,
}

/// How long tasks waited for a resource (Documentation/accounting/psi.rst).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// `cpu`, `io`, `memory`, `irq`.
    pub resource: String,
    /// Share of the last 10 s in which some task waited, 0 to 1, as the kernel says. `irq` has none.
    pub some_10s: Option<f64>,
    /// … in which all tasks waited.
    pub full_10s: Option<f64>,
    /// Share of this interval, from the kernel's total time.
    pub some_share: Option<f64>,
    /// Share of this interval.
    pub full_share: Option<f64>,
    /// Counter, microseconds.
    pub some_total_us: Option<u64>,
    /// Counter, microseconds.
    pub full_total_us: Option<u64>,
}

/// One PCIe link that changed, or runs below its best.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PcieLink {
    /// `0000:17:00.0`.
    pub address: String,
    /// The NIC or disk behind it (`eth0`, `nvme0`), where known.
    pub device: Option<String>,
    /// Now, GT/s.
    pub gigatransfers_per_second: f64,
    /// Lanes now.
    pub width: u32,
    /// What both ends can do, GT/s.
    pub best_gigatransfers_per_second: f64,
    /// Lanes that both ends have.
    pub best_width: u32,
    /// What it was when the watch began, in words, where it changed since (`32 GT/s x16`).
    pub was: Option<String>,
    /// Unix time of the last change, milliseconds.
    pub changed_at_ms: Option<i64>,
}
