//! What came of a job: rates, latencies, devices, and the checks that tell whether to believe them.

use super::{AccessJob, Burst, Latency, PinningTrial};
use serde::{Deserialize, Serialize};

/// The part of a `Measurement` that only file access has. Rates in bytes per second, times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessResult {
    pub job: AccessJob,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<SideResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<SideResult>,
    /// While all workers were still at work, and until the last had ended (its flush included).
    pub first_done_bytes_per_second: f64,
    pub last_done_bytes_per_second: f64,
    /// The block devices behind the sources, from diskstats over the same time.
    pub devices: Vec<DeviceUse>,
    pub checks: Checks,
    /// A device that was fast for a while and then slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Whether and when SNIA's steady state was reached, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Blocks that did not hold what was written there; none: not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Vec<String>>,
    /// What failed: device or file, offset, reason.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Each visit's own figures, in the order in which they were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visits: Vec<JobRound>,
    /// Whether pinned workers were slower than those that the kernel places; none: not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinning: Option<PinningTrial>,
    /// Of several sources at once: the sum of what each of them reached alone with its own workers of this job,
    /// bytes per second; none: not measured (`disk --scaling`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_bytes_per_second: Option<f64>,
}

impl AccessResult {
    /// Nothing came of a job yet.
    pub fn of(job: AccessJob) -> Self {
        AccessResult {
            job,
            reads: None,
            writes: None,
            first_done_bytes_per_second: 0.0,
            last_done_bytes_per_second: 0.0,
            devices: Vec::new(),
            checks: Checks::default(),
            burst: None,
            steady: None,
            corrupt: None,
            errors: Vec::new(),
            visits: Vec::new(),
            pinning: None,
            baseline_bytes_per_second: None,
        }
    }
}

/// What one visit of a job told beside its rate: as many samples of each as there were visits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRound {
    /// Of reads and writes the side with the longer tail, seconds.
    pub p50_seconds: f64,
    pub p99_seconds: f64,
    /// CPU seconds of linerate per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
}

/// Reads or writes of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideResult {
    pub operations: u64,
    pub bytes: u64,
    pub operations_per_second: f64,
    pub bytes_per_second: f64,
    pub latency: Latency,
}

/// One block device while the job ran (`/proc/diskstats`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    pub name: String,
    /// Share of the time with at least one request in flight.
    pub utilisation: f64,
    /// Mean requests in flight.
    pub queue_depth: f64,
    pub read_bytes_per_second: f64,
    pub written_bytes_per_second: f64,
    pub operations_per_second: f64,
}

/// Self-checks, printed with every result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Little's law: requests in flight that rate × mean latency tells …
    pub little_depth: f64,
    /// … those counted …
    pub reached_depth: f64,
    /// … and those asked for, over all workers.
    pub asked_depth: f64,
    /// Share of the CPUs' time that the generator itself used, of those it may use.
    pub generator_cpu: f64,
    /// Open loop: 99th percentile and maximum of how late requests were sent, seconds.
    pub lateness_p99: f64,
    pub lateness_maximum: f64,
    /// What does not fit together, in words; empty where all does.
    pub failed: Vec<String>,
}

/// SNIA Solid State Storage Performance Test Specification 2.0.2, steady state: over a window of rounds the
/// excursion is within 20 % of the mean and the slope within 10 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    pub reached: bool,
    pub rounds: u32,
    pub excursion: f64,
    pub slope: f64,
}

/// `linerate disk --scaling`: a curve for each cell of the grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Of the first cell; in the file its fields are those of this.
    #[serde(flatten)]
    pub first: ScalingCurve,
    /// Of the other cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<ScalingCurve>,
}

impl Scaling {
    /// Every curve, in the order of the cells.
    pub fn curves(&self) -> impl Iterator<Item = &ScalingCurve> {
        std::iter::once(&self.first).chain(&self.further)
    }
}

/// One cell with 1, 2, 3 … devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingCurve {
    /// The job of the cell with all of its devices (`title`); empty in files of before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cell: String,
    pub steps: Vec<ScalingStep>,
    /// The first number of devices from which on more of them bring less than a tenth of a device; none: it
    /// never levels off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels_off_at: Option<u32>,
    /// Rate there, and what the model or the counters blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// So many devices at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingStep {
    pub devices: u32,
    pub bytes_per_second: f64,
    /// Of the sum of the same devices alone.
    pub share: f64,
    pub spread: f64,
}

/// `linerate load`: the curve, and the answer that was looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCurve {
    pub points: Vec<LoadPoint>,
    /// Index of the knee among the points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<usize>,
    /// Closed loop: users at which the asymptotes meet, capacity × the time of an answer when nobody else
    /// asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee_workers: Option<f64>,
    /// Highest rate (open loop) or number of workers (closed loop) that kept the limit, and the limit in
    /// words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<f64>,
    pub limit: String,
    /// Requests a second at the knee of each of several runs that were joined (`linerate compare --join`);
    /// empty for one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<f64>,
}

impl LoadCurve {
    /// Requests a second at the knee.
    pub fn knee_rate(&self) -> Option<f64> {
        Some(self.points.get(self.knee?)?.operations_per_second)
    }
}

/// One step of a load test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    pub workers: u32,
    /// Offered requests per second (open loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    pub operations_per_second: f64,
    pub latency: Latency,
    /// Median over repeats was taken of so many; (max − min) ÷ median of the rates.
    pub spread: f64,
    pub within_limit: bool,
}

/// The part of a `Measurement` that only `linerate memory` has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryPoint {
    /// `read`, `write`, `copy`, `triad`, `latency`.
    pub kernel: String,
    /// `plain` or `streaming`; none for kernels that do not store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    pub stride_bytes: u64,
    /// Of all cores together, bytes.
    pub working_set_bytes: u64,
    pub cores: u32,
    /// NUMA nodes of the cores and of the memory; none where there is one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_of_cores: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_of_memory: Option<u32>,
    /// Pointer chase: seconds an access; none for bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<f64>,
    /// The smallest level that the working set fits into: `L1`, `L2`, `L3`, `memory`.
    pub level: String,
}
