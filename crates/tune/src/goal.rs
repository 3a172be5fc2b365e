//! What the machine is tuned for: a rate, a round trip, and what was probed.

use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, Nic};
use linerate_machine::topology::{DRIVERS_WITHOUT_WIRE, line_rate};
use std::time::Duration;

/// Round trip where none is given: some 2,000 km of fibre and back.
pub(crate) const DEFAULT_ROUND_TRIP: Duration = Duration::from_millis(20);

/// What the user wants the machine to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TuneGoal {
    /// Bytes per second of the flow [default: the fastest link].
    pub rate: Option<f64>,
    /// Round trip to the farthest peer.
    pub round_trip: Option<Duration>,
}

/// The rate that the network carries is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no NIC reports its link rate: give --rate")]
pub struct NoLinkRate;

/// What the wanted values follow from.
#[derive(Debug)]
pub struct GoalFacts {
    pub sysroot: Sysroot,
    pub machine: Machine,
    pub goal: TuneGoal,
}

impl GoalFacts {
    /// Bytes per second that the network carries: as given, or the fastest link's.
    pub fn rate(&self) -> Result<f64, NoLinkRate> {
        if let Some(rate) = self.goal.rate {
            return Ok(rate);
        }
        let fastest = self.machine.nics.iter().filter_map(wire_rate).fold(0.0, f64::max);
        if fastest > 0.0 { Ok(fastest) } else { Err(NoLinkRate) }
    }

    /// Round trip in seconds.
    pub fn round_trip(&self) -> f64 {
        self.goal.round_trip.unwrap_or(DEFAULT_ROUND_TRIP).as_secs_f64()
    }

    /// The rate and the round trip from which the size of a buffer follows, for a sentence.
    pub fn basis(&self) -> String {
        let rate = self.rate().map_or("an unknown rate".into(), linerate_facts::units::show_bits_rate);
        let milliseconds = self.round_trip() * 1e3;
        let assumed = if self.goal.round_trip.is_some() { "" } else { ", which is assumed: give --rtt" };
        format!("{rate} over a round trip of {milliseconds} ms{assumed}")
    }

    /// Bytes under way at full rate.
    pub(crate) fn on_the_way(&self) -> Result<u64, NoLinkRate> {
        Ok((self.rate()? * self.round_trip()).ceil() as u64)
    }

    /// CPUs of the node that a device is on; all that are online where that is not known.
    pub(crate) fn local_cpus(&self, node: Option<u32>) -> Vec<u32> {
        let online = self.machine.cpu.online().map(|cpu| cpu.id);
        let online: Vec<u32> = online.collect();
        let of_node = self.machine.memory.nodes.iter().find(|one| Some(one.id) == node);
        let local: Vec<u32> = of_node
            .map(|node| node.cpus.iter().copied().filter(|cpu| online.contains(cpu)).collect())
            .unwrap_or_default();
        if local.is_empty() { online } else { local }
    }
}

/// A link with a wire behind it, bytes per second.
pub(crate) fn wire_rate(nic: &Nic) -> Option<f64> {
    line_rate(nic).known().copied().filter(|_| !without_wire(nic))
}

/// Loopback, or an interface with only software behind it.
pub(crate) fn without_wire(nic: &Nic) -> bool {
    let driver = nic.driver.known().map_or("", String::as_str);
    nic.loopback || nic.pci.is_none() && driver != "virtio_net" || DRIVERS_WITHOUT_WIRE.contains(&driver)
}
