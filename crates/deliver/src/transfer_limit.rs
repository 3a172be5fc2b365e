//! What limited a transfer, in its report.

use linerate_model::verdict::LimitKind;
use serde::{Deserialize, Serialize};

/// As far as this host shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransferLimit {
    /// The words of `bottleneck.kind` in run.json; none: no single part.
    pub kind: Option<LimitKind>,
    pub sentence: String,
    /// The rule that says so.
    pub rule: Option<String>,
    /// NICs whose streams waited for the network: where that limits and there are several.
    pub nics: Vec<String>,
    /// Shares of the time of all streams.
    pub waiting_network: f64,
    pub waiting_disk: f64,
    pub working: f64,
}
