//! CPUs and interrupts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpus {
    /// Mean over all cores; none in the first moment.
    pub total: Option<Eight>,
    /// By CPU.
    pub each: Vec<Core>,
    /// Of all kinds.
    pub interrupts_per_second: Option<f64>,
    pub context_switches_per_second: Option<f64>,
    /// Counter.
    pub interrupts: u64,
    /// Counter.
    pub context_switches: u64,
    /// Threads that run or could, now.
    pub running: u64,
    /// Threads that wait for a disk, now.
    pub blocked: u64,
    /// Share of the periods in which this control group's CPU quota held it; none without a quota.
    pub throttled_share: Option<f64>,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Core {
    pub number: u32,
    /// NUMA node.
    pub node: Option<u32>,
    /// Shares of the interval; none in the first moment.
    pub eight: Option<Eight>,
    /// Counters, seconds in each class since boot.
    pub seconds: Eight,
    /// Device interrupts handled here.
    pub interrupts_per_second: Option<f64>,
    /// Softirqs per second by kind (`NET_RX`, `NET_TX`, `BLOCK`, `TIMER`, …); those of 0 are left out.
    pub softirqs: BTreeMap<String, f64>,
}

/// Where the time went: shares that add up to 1, or seconds. `user` has the time of guests in it, as the
/// kernel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eight {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub idle: f64,
    pub iowait: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
}

impl Eight {
    /// Share in which something was done, or another guest had the core.
    pub fn busy(&self) -> f64 {
        (1.0 - self.idle - self.iowait).clamp(0.0, 1.0)
    }
}

/// One line of `/proc/interrupts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IrqLine {
    /// `45`, `NMI`.
    pub number: String,
    /// What its driver calls it (`mlx5_comp3@pci:0000:17:00.0`, `nvme0q5`).
    pub name: String,
    pub per_second: Option<f64>,
    /// Cores that got some, busiest first: core and per second.
    pub by_core: Vec<(u32, f64)>,
    /// The NIC or disk that it is of, where its name shows that.
    pub device: Option<String>,
    /// Counter, over all cores.
    pub total: u64,
}
