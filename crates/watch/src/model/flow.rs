//! What a running linerate does, and what holds it.

use linerate_machine::flow_devices::FlowDevices;
use serde::{Deserialize, Serialize};

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
