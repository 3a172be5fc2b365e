//! Power and energy.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// One meter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PowerSource {
    pub kind: PowerKind,
    /// `package-0`, `package-0/dram`, `power_meter power1`, the first word of the command.
    pub name: String,
    /// It measures the whole machine, not a part of it.
    pub whole_machine: bool,
    /// Its figure is a part of another's (`package-0/core` of `package-0`), and is not to be added to it.
    pub part_of_another: bool,
    pub watts: Fact<f64>,
    /// The least that it showed in this watch while the machine was idle (all cores together below 5 % busy).
    pub idle_watts: Option<f64>,
    /// Now less idle.
    pub above_idle_watts: Option<f64>,
    /// Energy since the watch began, joules; counted where the meter counts, else summed up from its power.
    pub joules: Option<f64>,
}

/// Where a power figure is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum PowerKind {
    /// The processors' energy counters.
    Rapl,
    /// A sensor that the kernel lists.
    #[default]
    Hwmon,
    /// The management controller (`ipmitool dcmi power reading`).
    Ipmi,
    /// `LINERATE_POWER_COMMAND`.
    Command,
}

/// Energy per byte moved, by the best meter: of the whole machine, else the processors' packages together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Energy {
    /// Which meter, or why there is none.
    pub by: Fact<String>,
    pub watts: Option<f64>,
    /// Bytes that all NICs sent and received (`lo` and bridges' ports not twice), per second.
    pub moved_bytes_per_second: Option<f64>,
    /// Watts ÷ GB/s; none where less than 1 MB/s moves.
    pub joules_per_gb: Option<f64>,
    /// The same with what is above idle only.
    pub joules_per_gb_above_idle: Option<f64>,
}
