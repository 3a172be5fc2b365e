//! The two ends of a PCIe link: what both of them can do, and why the link runs below that.

use super::link::DOWN;
use super::topology::{below, children, find, is_upper_end, kind};
use crate::fact::Fact;
use crate::probe::machine::{PciDevice, PciLink, PortKind};

/// Both ends of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends<'a> {
    /// The end towards the processor: a root port or a switch's downstream port.
    pub port: Option<&'a PciDevice>,
    /// The end away from it: a card's first function, also where another one was asked for, or a switch's upstream port. None where
    /// the port is empty.
    pub card: Option<&'a PciDevice>,
    /// What both ends can do: the lower speed and the smaller width of the two.
    pub able: Fact<PciLink>,
    /// As the link runs.
    pub runs: Fact<PciLink>,
    /// The end that can less, and so is the reason why the link can not do more.
    pub weaker: Weaker,
    /// What this says.
    pub condition: Condition,
}

/// How a link runs beside what its ends can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// As fast and as wide as both ends can.
    Full,
    /// Below what both ends can.
    Below {
        /// Fewer lanes than both ends have: the slot has fewer wired, or a contact is bad.
        narrower: bool,
        /// A generation below the one that both ends know.
        slower: bool,
        /// The port was told not to go faster (target link speed): a setting of the firmware, GT/s.
        told: Option<f64>,
    },
    /// At a lower speed than both ends can and all lanes there: it saves power while idle and goes up under load.
    PoweredDown,
    /// Nothing is plugged in, or it is off.
    Down,
    /// An end does not tell what it can, and the other can more than is used; or none tells how the link runs.
    Untold,
}

/// The end of a link that can less than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weaker {
    /// They can the same, or only one end tells.
    Neither,
    /// The card is narrower or of an older generation than its slot.
    Card,
    /// The slot is narrower or of an older generation than its card.
    Port,
    /// The one is narrower, the other older.
    Each,
}

/// The link that a function is an end of; `None` where it has no link.
pub fn of<'a>(devices: &'a [PciDevice], address: &str) -> Option<Ends<'a>> {
    let device = find(devices, address)?;
    let own = kind(devices, device)?;
    let upper = |device: &PciDevice| kind(devices, device).is_some_and(is_upper_end);
    let port = match own {
        PortKind::IntegratedEndpoint | PortKind::EventCollector => return None,
        own if is_upper_end(own) => Some(device),
        _ => find(devices, device.parent.as_deref().unwrap_or("")).filter(|parent| upper(parent)),
    };
    // All that is right behind a port is one card.
    let first = |port: &PciDevice| {
        children(devices, &port.address)
            .min_by_key(|child| (child.link_max.known().is_none(), &child.address))
    };
    let card = match port {
        Some(port) => first(port),
        None if device.link.known().or(device.link_max.known()).is_none() => return None,
        None => Some(device),
    };
    let most = |end: Option<&PciDevice>| end.and_then(|end| end.link_max.known().copied());
    let able = match (most(port), most(card)) {
        (Some(port), Some(card)) => Fact::Known(lower(port, card)),
        // A port that nothing is plugged into, or an end that a capture lacks.
        (Some(one), None) | (None, Some(one)) => Fact::Known(one),
        (None, None) => Fact::unknown("neither end tells what it can do"),
    };
    let runs = card.or(port).map_or(Fact::unknown("no end of it"), |end| end.link.clone());
    let weaker = weaker(most(port), most(card));
    let condition = match (able.known(), runs.known()) {
        _ if card.is_none() || runs.why() == Some(DOWN) => Condition::Down,
        (Some(able), Some(runs)) if runs.width >= able.width && runs.gt_per_second >= able.gt_per_second => {
            Condition::Full
        }
        (Some(able), Some(runs)) if most(port).is_some() && most(card).is_some() => {
            below_able(devices, port, card, *able, *runs)
        }
        _ => Condition::Untold,
    };
    Some(Ends { port, card, able, runs, weaker, condition })
}

fn lower(one: PciLink, other: PciLink) -> PciLink {
    PciLink { gt_per_second: one.gt_per_second.min(other.gt_per_second), width: one.width.min(other.width) }
}

/// Why a link runs below what both its ends can.
fn below_able(
    devices: &[PciDevice],
    port: Option<&PciDevice>,
    card: Option<&PciDevice>,
    able: PciLink,
    runs: PciLink,
) -> Condition {
    let (narrower, slower) = (runs.width < able.width, runs.gt_per_second < able.gt_per_second);
    let target = port.and_then(|port| port.express.target_gt_per_second.known().copied());
    let told = target.filter(|target| slower && *target < able.gt_per_second);
    let changed = |end: &PciDevice| end.express.autonomous_change == Fact::Known(true);
    let saves = [port, card].into_iter().flatten().any(changed)
        || card.is_some_and(|card| lowers_its_clock(devices, card));
    if !narrower && told.is_none() && saves {
        return Condition::PoweredDown;
    }
    Condition::Below { narrower, slower, told }
}

fn weaker(port: Option<PciLink>, card: Option<PciLink>) -> Weaker {
    let (Some(port), Some(card)) = (port, card) else { return Weaker::Neither };
    let less =
        |one: PciLink, other: PciLink| one.width < other.width || one.gt_per_second < other.gt_per_second;
    match (less(card, port), less(port, card)) {
        (false, false) => Weaker::Neither,
        (true, false) => Weaker::Card,
        (false, true) => Weaker::Port,
        (true, true) => Weaker::Each,
    }
}

/// Graphics cards and accelerators run their link at the lowest speed while they have nothing to do; also behind a switch of their own.
fn lowers_its_clock(devices: &[PciDevice], card: &PciDevice) -> bool {
    let graphics = |device: &PciDevice| {
        let class = device.class.known().copied().unwrap_or(0);
        matches!(class >> 16, 0x03 | 0x12) || class >> 8 == 0x0b40
    };
    let storage_or_network =
        |device: &PciDevice| matches!(device.class.known().copied().unwrap_or(0) >> 16, 0x01 | 0x02);
    let behind = below(devices, &card.address);
    let mut all = behind.iter().copied().chain([card]);
    graphics(card) || all.clone().any(graphics) && !all.any(storage_or_network)
}

#[cfg(test)]
mod tests {
    use super::super::topology::tests::server;
    use super::*;
    use crate::probe::machine::Express;

    #[test]
    fn what_both_ends_can_and_why_a_link_is_below() {
        let mut server = server();
        let ends_of = |server: &[PciDevice], address: &str| {
            let ends = of(server, address).expect("a link");
            (ends.able.known().map(|able| (able.gt_per_second, able.width)), ends.weaker, ends.condition)
        };
        let full = (Some((16.0, 4)), Weaker::Neither, Condition::Full);
        assert_eq!(ends_of(&server, "0000:03:00.0"), full);
        assert_eq!(ends_of(&server, "0000:02:00.0"), full, "from its other end");
        // A gen 3 NIC in a gen 4 slot: 8 GT/s is its most, but four of eight lanes are missing.
        let below = |told| Condition::Below { narrower: true, slower: false, told };
        assert_eq!(ends_of(&server, "0000:05:00.0"), (Some((8.0, 8)), Weaker::Card, below(None)));
        // A graphics card that idles, and an empty slot.
        assert_eq!(ends_of(&server, "0000:04:00.1").2, Condition::PoweredDown);
        assert_eq!(ends_of(&server, "0000:00:03.0").2, Condition::Down);
        assert_eq!(of(&server, "0000:00:1f.2"), None);

        // The same speed at an NVMe drive is a fault, unless the port was told so or the hardware did it by itself.
        server[7].link = Fact::Known(PciLink { gt_per_second: 2.5, width: 4 });
        let slower = |told| Condition::Below { narrower: false, slower: true, told };
        assert_eq!(ends_of(&server, "0000:03:00.0").2, slower(None));
        server[5].express = Express { target_gt_per_second: Fact::Known(2.5), ..Default::default() };
        assert_eq!(ends_of(&server, "0000:03:00.0").2, slower(Some(2.5)));
        server[5].express = Express { autonomous_change: Fact::Known(true), ..Default::default() };
        assert_eq!(ends_of(&server, "0000:03:00.0").2, Condition::PoweredDown);

        // A port that does not tell what it can: it may be of the generation that the link runs at.
        server[5].link_max = Fact::unknown("not told");
        server[5].link = Fact::Known(PciLink { gt_per_second: 2.5, width: 4 });
        assert_eq!(ends_of(&server, "0000:03:00.0").2, Condition::Untold);
    }
}
