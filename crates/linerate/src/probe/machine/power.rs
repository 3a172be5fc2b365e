//! What tells the power that the server draws.

use crate::fact::Fact;
use serde::{Deserialize, Serialize};

/// Sources of power readings. Present does not mean readable: RAPL is root's since CVE-2020-8694.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// RAPL domains (`package-0`, `dram`); the reason where there are none or they cannot be read.
    pub rapl: Fact<Vec<String>>,
    /// hwmon chips with a power sensor (`power1_input`, `power1_average`).
    pub hwmon: Fact<Vec<String>>,
    /// An IPMI interface is there (`/dev/ipmi0`, `/sys/class/ipmi`).
    pub ipmi: Fact<bool>,
}
