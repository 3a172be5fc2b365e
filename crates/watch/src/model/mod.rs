//! What `linerate watch` shows: one [`Moment`] a sample, made of the differences of two readings of raw
//! counters. Every view (terminal, page, metrics, recording) takes a moment and nothing else, so that a
//! replayed recording looks as it did live.
//!
//! Rates are per second. A rate is `None` where it is not known: in the first moment, for a device that was
//! not there before, and where a counter went back. Totals are the kernel's counters as they are. Fields are
//! only ever added.

mod host;
mod network;

pub use host::{
    BUSIEST_BY_CPU, Core, Cpus, DiskRates, DiskWay, Eight, Energy, IrqLine, LEAST_CPUS, MemoryUse, PcieLink,
    PowerKind, PowerSource, Pressure, ProcessRates, Processes,
};
pub use network::{DropLine, NamedCounter, NicDirection, NicQueue, NicRates, SoftnetCore, Tcp, Udp, summed};

use linerate_machine::flow_devices::FlowDevices;
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

/// What is being measured or played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum FlowStage {
    /// Before and after the measurements: probe, scratch files, diagnosis.
    Step,
    Memory,
    Disk,
    Network,
    /// From the disks to the network.
    Path,
    Load,
    /// A movie on a wall.
    Wall,
    /// A stage that this version does not know.
    #[default]
    #[serde(other)]
    Other,
}

/// Workers of a flow, by what they did with their time: shares of 1, means over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowWorkers {
    pub count: u32,
    /// Worked on a core.
    pub busy: f64,
    /// Had nothing to send and waited for the disks; of a flow that comes in, for the network.
    pub starved: f64,
    /// Waited for the network to take what they had; of a flow that comes in, for the disks.
    pub blocked: f64,
    /// Of the worker that works most.
    pub busiest: f64,
    /// The flow comes in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incoming: bool,
}

/// What a running linerate moves now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveFlow {
    /// `run`, `disk`, `network`, `wall serve`, …
    pub command: String,
    pub stage: FlowStage,
    /// The running measurement, the step, or the movie.
    pub name: String,
    /// Payload, of the last second or less; none where nothing has moved yet.
    pub bytes_per_second: Option<f64>,
    /// Until all of it is done, as far as that is known.
    pub seconds_left: Option<f64>,
    /// Where it has workers, and they have said how they spend their time.
    #[serde(rename = "lanes")]
    pub workers: Option<FlowWorkers>,
    /// What of this machine it uses; none: it does not say so.
    #[serde(skip)]
    pub devices: Option<FlowDevices>,
    /// What the flow itself says that holds it: a wall does.
    pub held_by: Option<String>,
    /// What holds it now, in one sentence; none where that is not known.
    pub limit: Option<String>,
    /// The rule that names the limit; where there is none, what is missing for one.
    pub limit_by: String,
}
