//! Links whose figures are a formality: they never bind, and nothing is said to run below them.

use super::{Topology, class, line_rate, raw_rate};
use crate::probe::{PciDevice, PortKind};

/// Intel X722, the network part of the C620 chip set, by its numbers (`i40e_devids.h`; 0x37cc and 0x37cd in
/// pci.ids).
const X722: std::ops::RangeInclusive<u32> = 0x37cc..=0x37d3;
/// Drivers of NICs of which no card was ever built for one lane: Intel's 10 Gb/s and up. Those on the chip
/// "do not have this information and will report PCI Gen 1 x 1 by default" (`I40E_HW_NO_PCI_LINK_CHECK`,
/// drivers/net/ethernet/intel/i40e/i40e_main.c).
const NEVER_ONE_LANE: [&str; 3] = ["i40e", "ice", "ixgbe"];

/// A listing may have a card alone (`lspci -vv -s 04:00.0`): behind the first bus, and an endpoint by its own
/// word, it is no part of the chip.
fn is_card_without_its_port(device: &PciDevice) -> bool {
    let card = matches!(device.express.port.known(), Some(PortKind::Endpoint | PortKind::LegacyEndpoint));
    let bus = device.address.rsplit(':').nth(1);
    card && bus.is_some_and(|bus| bus != "00")
}

impl<'a> Topology<'a> {
    /// Why the link that a function shows is none that could bind, if so.
    pub fn formality(&self, device: &'a PciDevice) -> Option<&'static str> {
        if self.is_bridge(device) {
            let claims = self.claims_less_than_all_below(device, super::DEEPEST);
            return claims.then_some("it claims less than everything behind it: a switch's formality");
        }
        if device.parent.is_none() && !is_card_without_its_port(device) {
            return Some("an integrated device on the root bus: the link it shows is a formality");
        }
        let most = device.link_max.known().or(device.link.known()).copied()?;
        if most.width == 1 && self.is_part_of_the_chip(device) {
            return Some(
                "a NIC that is part of the chip set, which shows one lane whatever it carries: a formality",
            );
        }
        // The figure that a device claims for itself; how it runs may be its slot's.
        let claims = device.link_max.known().copied().and_then(raw_rate)?;
        let ports = self.nics(device).into_iter().filter_map(|nic| line_rate(nic).known().copied());
        // Half: a card that spreads one port over two slots shows half of what it needs in each, and that
        // half is real.
        let never = ports.fold(0.0, f64::max) / 2.0 > claims;
        never.then_some("the link it shows could never carry its port: an integrated device's formality")
    }

    fn is_part_of_the_chip(&self, device: &'a PciDevice) -> bool {
        let driver = device.driver.known().is_some_and(|driver| NEVER_ONE_LANE.contains(&driver.as_str()));
        let x722 = device.vendor.known() == Some(&0x8086)
            && device.device.known().is_some_and(|id| X722.contains(id));
        let is_network =
            |one: &&PciDevice| one.class.known().is_some_and(|class| class >> 16 == class::NETWORK);
        // Nobody builds a card with several ports on one lane; parts of a chip set show themselves so.
        driver || x722 || self.functions(device).iter().filter(|one| is_network(one)).count() > 1
    }

    /// An uplink that claims less than each of its children whose link is known; so is the other end of such
    /// a link.
    fn claims_less_than_all_below(&self, bridge: &PciDevice, depth: usize) -> bool {
        let rate = |device: &PciDevice| device.link.known().copied().and_then(raw_rate);
        let Some(own) = rate(bridge) else { return false };
        let children = self.children(&bridge.address).iter();
        let mut known = children.filter_map(|child| Some((*child, rate(child)?))).peekable();
        let is_formality = |child: &PciDevice, claims: f64| {
            own < claims || own == claims && depth > 0 && self.claims_less_than_all_below(child, depth - 1)
        };
        known.peek().is_some() && known.all(|(child, claims)| is_formality(child, claims))
    }
}
