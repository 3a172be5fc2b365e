//! Interfaces and their queues.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicRates {
    /// Its name now (`eth0`); one that was renamed is a new one.
    pub name: String,
    /// Name of the driver (`mlx5_core`, `veth`).
    pub driver: Option<String>,
    /// Rate of its link, bits per second in each direction.
    pub link_bits_per_second: Fact<f64>,
    /// Payload that a run of linerate has sent over it on this host, bits per second; none where no such run is
    /// kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bits_per_second: Option<f64>,
    /// It has a link partner.
    pub carrier: Option<bool>,
    /// The kernel's `operstate` is `up` (or `unknown`, as virtual interfaces have).
    pub up: Option<bool>,
    pub receive: NicDirection,
    pub send: NicDirection,
    /// Queues that the driver counts, or else that have an interrupt of their own. Empty where neither is
    /// known.
    pub queues: Vec<NicQueue>,
    /// What the driver counts (`ethtool -S`) of drops, errors, pauses and lack of buffers: those that are not
    /// 0.
    pub ethtool: Vec<NamedCounter>,
    /// Interfaces whose packets are also its own: the members of a bond, team or bridge, what a VLAN or
    /// macvlan lies on.
    pub built_on: Vec<String>,
}

/// Those that a sum over interfaces is of: one that is built on others of them would be counted twice.
pub fn summed(nics: &[NicRates]) -> impl Iterator<Item = &NicRates> {
    let other =
        |nic: &NicRates, name: &String| *name != nic.name && nics.iter().any(|other| other.name == *name);
    nics.iter().filter(move |nic| !nic.built_on.iter().any(|name| other(nic, name)))
}

/// One direction of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicDirection {
    /// As the interface counts: frames without preamble, gap and (usually) checksum.
    pub bytes_per_second: Option<f64>,
    /// The same in bits.
    pub bits_per_second: Option<f64>,
    pub packets_per_second: Option<f64>,
    pub drops_per_second: Option<f64>,
    pub errors_per_second: Option<f64>,
    /// What of the link that is, with the preamble, gap and checksum of each packet: 0 to 1. None where the
    /// link's rate is unknown.
    pub share_of_link: Option<f64>,
    /// Counter, bytes.
    pub bytes: u64,
    /// Counter.
    pub packets: u64,
    /// Counter.
    pub drops: u64,
    /// Counter.
    pub errors: u64,
}

/// One queue of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicQueue {
    /// `0`, `1`, …; of a driver that names them otherwise, its own name.
    pub name: String,
    pub receive_packets_per_second: Option<f64>,
    pub receive_bytes_per_second: Option<f64>,
    pub send_packets_per_second: Option<f64>,
    pub send_bytes_per_second: Option<f64>,
    /// Packets that this queue dropped, both directions.
    pub drops_per_second: Option<f64>,
    pub interrupts_per_second: Option<f64>,
    /// The core that most of its interrupts went to.
    pub core: Option<u32>,
    /// Where the figures are from: `ethtool`, `interrupts`, or both.
    pub source: String,
}

/// One counter by its driver's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedCounter {
    pub name: String,
    pub per_second: Option<f64>,
    pub total: u64,
}
