//! What reports the power that the server draws.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// Sources of power readings. Present does not mean readable: RAPL is root's since CVE-2020-8694.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// RAPL domains (`package-0`, `package-0/dram`); the reason where there are none.
    pub rapl: Fact<Vec<String>>,
    /// hwmon chips with a power sensor (`power1_input`, `power1_average`).
    pub hwmon: Fact<Vec<String>>,
    /// An IPMI interface is there (`/dev/ipmi0`, `/sys/class/ipmi`).
    pub ipmi: Fact<bool>,
    /// The RAPL domains with their counters.
    pub rapl_domains: Vec<RaplDomain>,
}

/// One RAPL domain: a counter of energy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RaplDomain {
    /// `package-0`; a part of a package behind it (`package-0/dram`).
    pub name: String,
    /// The counter when it was probed, microjoules; the reason where this process may not read it.
    pub energy_microjoules: Fact<u64>,
    /// Largest value before it begins at 0 again, microjoules; some packages get there within minutes.
    pub wraps_at_microjoules: Fact<u64>,
}
