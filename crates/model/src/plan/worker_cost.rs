//! What workers were measured to cost in an earlier run: it comes before the default where the number of workers is
//! chosen.

use serde::{Deserialize, Serialize};

/// A worker and its stream, over one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerCost {
    /// CPU seconds of a thread per 10⁹ bytes, from the source to the network, or of the peer's that takes them where
    /// that is more.
    pub seconds_per_gb: f64,
    /// The peer's thread is the one that costs more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_peer: bool,
    /// The most that a worker moved there, bytes per second.
    pub most_bytes_per_second: f64,
    /// When that run began, RFC 3339.
    pub started: String,
}

impl WorkerCost {
    /// What one carries, bytes per second. A thread that works for a tenth of the time shows its cost, and not what
    /// else ends a stream: beyond `default` it counts only as far as one was seen to go.
    pub(super) fn bytes_per_second(&self, default: f64) -> f64 {
        (1e9 / self.seconds_per_gb).min(default.max(self.most_bytes_per_second))
    }

    /// `0.55 CPU seconds per GB, measured in the run of 2026-11-25T11:00:00Z`.
    pub(super) fn why(&self) -> String {
        let at = if self.at_peer { " at the peer" } else { "" };
        format!("{:.2} CPU seconds per GB{at}, measured in the run of {}", self.seconds_per_gb, self.started)
    }
}
