//! The transport protocols that linerate speaks of.

use serde::{Deserialize, Serialize};

/// Transport of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}
