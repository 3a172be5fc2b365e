//! What `linerate watch` shows: one [`Moment`] a sample, made of the differences of two readings of raw
//! counters. Every view (terminal, page, metrics, recording) takes a moment and nothing else, so that a
//! replayed recording looks as it did live.
//!
//! Rates are per second. A rate is `None` where it is not known: in the first moment, for a device that was
//! not there before, and where a counter went back. Totals are the kernel's counters as they are. Fields
//! are only ever added.

mod cpu;
mod disk;
mod flow;
mod host;
mod network;
mod nic;
mod power;
mod process;

pub use cpu::Cpus;
pub use cpu::IrqLine;
pub use cpu::{Core, Eight};

pub use disk::DiskRates;
pub use disk::DiskWay;
pub use flow::{FlowStage, FlowWorkers, LiveFlow};
pub use host::PcieLink;
pub use host::{MemoryUse, Pressure};
pub use network::DropLine;
pub use network::SoftnetCore;

pub use network::{Tcp, Udp};
pub use nic::{NamedCounter, NicDirection, NicQueue, NicRates, summed};
pub use power::PowerSource;
pub use power::{Energy, PowerKind};
pub use process::{BUSIEST_BY_CPU, LEAST_CPUS, ProcessRates, Processes};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of the form of [`Moment`]; another number is another form, and is refused.
pub const SCHEMA: u32 = 1;

/// Everything that was seen at one time, and the rates since the time before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Unix time of the sample, milliseconds.
    pub at_ms: i64,
    /// Time since the sample before, milliseconds; 0 in the first, which has no rates.
    pub interval_ms: f64,
    /// Name of the host.
    pub host: String,
    /// Interfaces but `lo`, in the order of their names.
    pub nics: Vec<NicRates>,
    /// Whole disks, in the order of their names.
    pub disks: Vec<DiskRates>,
    pub cpus: Cpus,
    /// Interrupts of NIC queues and disk queues, and the busiest others; busiest first.
    pub irqs: Vec<IrqLine>,
    pub memory: MemoryUse,
    /// Pressure-stall information, one for each resource that the kernel has.
    pub pressure: Vec<Pressure>,
    /// One for each CPU.
    pub softnet: Vec<SoftnetCore>,
    pub tcp: Tcp,
    pub udp: Udp,
    /// Every counter of drops that is not 0, in the order of the layers: the loss ledger, live.
    pub drops: Vec<DropLine>,
    /// PCIe links that changed since the watch began, or run below what both their ends can do.
    pub links: Vec<PcieLink>,
    /// Which program reads, writes and sends.
    pub processes: Processes,
    pub power: Vec<PowerSource>,
    pub energy: Energy,
    /// What is at its limit now, worst first in one sentence; none where nothing is near it.
    pub bottleneck: Option<String>,
    /// How the bottleneck was found: the rule and its figures; where there is none, what was looked at.
    pub bottleneck_by: String,
    /// Sources that did not answer in time; what they tell is missing or old.
    pub slow: Vec<String>,
    /// What cannot be read here, and why, by source; a view needs to show it once.
    pub unknown: BTreeMap<String, String>,
    /// What this program itself moves, where it does.
    pub flow: Option<LiveFlow>,
}
