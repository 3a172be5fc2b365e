//! What is known of one function by its configuration space.

use super::address::Buses;
use crate::probe::machine::{Express, ParallelBus, PciLink};
use linerate_facts::fact::Fact;

/// One function's configuration space, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigSpace {
    /// Vendor id.
    pub vendor: Fact<u32>,
    /// Device id.
    pub device: Fact<u32>,
    /// Class code, 24 bits.
    pub class: Fact<u32>,
    /// Buses behind it, where it is a bridge.
    pub buses: Option<Buses>,
    /// Its PCI Express capability.
    pub express: Express,
    /// Link as it runs now.
    pub link: Fact<PciLink>,
    /// The most that this end of the link can do.
    pub link_max: Fact<PciLink>,
    /// The parallel bus that it is made for.
    pub parallel: Fact<ParallelBus>,
    /// The parallel bus behind it.
    pub parallel_below: Fact<ParallelBus>,
}
