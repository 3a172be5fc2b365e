//! The two ends of a PCIe link: what both of them can do, and why the link runs below that.
//!
//! The figures of some links are a formality: they never bind, and nothing is said to run below them.

use super::{Topology, is_upper_end, line_rate, raw_rate};
use crate::probe::{Nic, PciDevice, PciLink, PortKind};
use crate::topology;
use linerate_facts::fact::Fact;
use std::collections::BTreeSet;

/// More PCI functions than any server has; of a damaged file with more the links are not listed.
const MOST_FUNCTIONS: usize = 4096;

/// Both ends of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEnds<'a> {
    /// The end away from the processor: a card's first function or a switch's upstream port. Of an empty port
    /// the port itself.
    pub device: &'a PciDevice,
    /// The end towards the processor: a root port or a switch's downstream port. None where it is not known.
    pub port: Option<&'a PciDevice>,
    /// As the link runs.
    pub runs: Option<PciLink>,
    /// What both ends can do: the lower speed and the fewer lanes of the two. Where only one end reports it,
    /// that one's.
    pub able: Option<PciLink>,
    /// The end that can do less, and so keeps the link from doing more.
    pub weaker: WeakerEnd,
    /// What follows from this.
    pub condition: LinkCondition,
}

/// How a link runs beside what its ends can do.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum LinkCondition {
    /// As fast and as wide as both ends can.
    Full,
    /// Below what both ends can do.
    Below {
        /// Fewer lanes than both ends have: the slot has fewer wired, or a contact is bad.
        narrower: bool,
        /// A generation below the one that both ends know.
        slower: bool,
        /// The port is set not to go faster (target link speed), GT/s.
        target: Option<f64>,
    },
    /// At a lower speed with all its lanes, because its device has nothing to do or saves power: it goes up
    /// under load.
    Idle,
    /// The figures are those of no real link; the reason.
    Formality(&'static str),
    /// Nothing is plugged in, or it is off.
    Down,
    /// An end does not report what it can do, and the other can do more than is used; or none reports how the
    /// link runs.
    Unknown,
}

/// The end of a link that can do less than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeakerEnd {
    /// They can do the same, or only one end reports it.
    Neither,
    /// The card is narrower or of an older generation than its slot.
    Card,
    /// The slot is narrower or of an older generation than its card.
    Port,
    /// The one is narrower, the other older.
    Each,
}

impl LinkCondition {
    /// The one word for it on every screen.
    pub fn word(&self) -> &'static str {
        self.into()
    }
}

impl LinkEnds<'_> {
    /// As the link runs; no lane where it does not.
    pub fn now(&self) -> PciLink {
        self.runs.unwrap_or(PciLink { gt_per_second: 0.0, width: 0 })
    }

    /// What the link carries under load: as it runs, or what both ends can do where it is slow only while
    /// idle.
    pub fn under_load(&self) -> Option<PciLink> {
        if self.condition == LinkCondition::Idle { self.able.or(self.runs) } else { self.runs }
    }

    /// What both ends can do, where both report it.
    pub fn both(&self) -> Option<PciLink> {
        self.port?.link_max.known()?;
        self.device.link_max.known()?;
        self.able
    }

    /// Who can do what `able` says: `both ends`, or the one that reports it.
    pub fn able_ends(&self) -> &'static str {
        match (self.both(), self.device.link_max.known()) {
            (Some(_), _) => "both ends",
            (None, Some(_)) => "the card",
            (None, None) => "the port",
        }
    }

    /// It does what it can, as far as the ends report that.
    pub fn is_as_good_as_known(&self) -> bool {
        matches!(self.condition, LinkCondition::Full | LinkCondition::Unknown)
    }
}

impl<'a> Topology<'a> {
    /// All links that run, in the order of the functions at their lower ends.
    pub fn links(&self) -> Vec<LinkEnds<'a>> {
        if self.machine.pci.len() > MOST_FUNCTIONS {
            return Vec::new();
        }
        let mut met: BTreeSet<&str> = BTreeSet::new();
        let links = self.all().filter_map(|device| self.link(device));
        let mut links: Vec<LinkEnds> =
            links.filter(|link| link.runs.is_some() && met.insert(&link.device.address)).collect();
        links.sort_by(|a, b| a.device.address.cmp(&b.device.address));
        links
    }

    /// The link that a function is an end of, whichever end; `None` where it has no link.
    pub fn link(&self, device: &PciDevice) -> Option<LinkEnds<'a>> {
        let device = self.find(&device.address)?;
        let (port, card) = self.ends(device)?;
        // A virtual machine's ports are drawn by the hypervisor; only what is passed through is real.
        let port = port.filter(|_| !self.is_virtual());
        let empty = card.is_none() || card.is_some_and(PciDevice::link_is_down);
        let lower = card.or(port)?;
        let runs = lower.link.known().or_else(|| port?.link.known()).copied().filter(|_| !empty);
        let (of_port, of_card) = (most(port), most(card));
        let able = match (of_port, of_card) {
            (Some(port), Some(card)) => Some(PciLink {
                gt_per_second: port.gt_per_second.min(card.gt_per_second),
                width: port.width.min(card.width),
            }),
            (one, other) => one.or(other),
        };
        if runs.is_none() && able.is_none() {
            return None;
        }
        let mut link = LinkEnds {
            device: lower,
            port,
            runs,
            able,
            weaker: weaker(of_port, of_card),
            condition: LinkCondition::Down,
        };
        if !empty {
            link.condition = self.condition(&link);
        }
        Some(link)
    }

    /// The port above and the card below, as far as they are in the list.
    fn ends(&self, device: &'a PciDevice) -> Option<(Option<&'a PciDevice>, Option<&'a PciDevice>)> {
        let port = match self.kind(device)? {
            PortKind::IntegratedEndpoint | PortKind::EventCollector => return None,
            kind if is_upper_end(kind) => Some(device),
            _ => self.parent(device).filter(|parent| self.kind(parent).is_some_and(is_upper_end)),
        };
        let Some(port) = port else { return Some((None, Some(self.lowest(device)))) };
        // All that is right behind a port is one card; virtual functions show no link of their own.
        let first = |child: &&'a PciDevice| (child.link_max.known().is_none(), child.address.as_str());
        let card = self.children(&port.address).iter().copied().min_by_key(first);
        let own = self.lowest(device);
        let card = match own.link.known().or(own.link_max.known()) {
            Some(_) if own.address != port.address => Some(own),
            _ => card,
        };
        // Both ends of one link show the same: where they differ, and nothing says which is which, these are
        // two sides of a switch.
        let sides = card.is_some_and(|card| {
            let differ =
                card.link.known().is_some_and(|link| port.link.known().is_some_and(|upper| upper != link));
            differ && self.is_bridge(card) && card.express.port.known().is_none()
        });
        (!sides).then_some((Some(port), card))
    }

    fn is_virtual(&self) -> bool {
        self.machine.virtualisation.known().is_some_and(|name| name != "none")
    }

    fn condition(&self, link: &LinkEnds<'a>) -> LinkCondition {
        if let Some(why) = self.formality(link.device) {
            return LinkCondition::Formality(why);
        }
        let (Some(able), Some(runs)) = (link.able, link.runs) else { return LinkCondition::Unknown };
        let (narrower, slower) = (runs.width < able.width, runs.gt_per_second < able.gt_per_second);
        if !narrower && !slower {
            return LinkCondition::Full;
        }
        if link.both().is_none() {
            // Graphics cards lower their own speed, whatever the other end can do.
            let sleeps = !narrower && self.is_gpu(link.device) && self.card_idles(link.device);
            return if sleeps { LinkCondition::Idle } else { LinkCondition::Unknown };
        }
        let target = link.port.and_then(|port| port.express.target_gt_per_second.known().copied());
        let target = target.filter(|target| slower && *target < able.gt_per_second);
        let changed = |end: &PciDevice| end.express.autonomous_change == Fact::Known(true);
        let by_itself = || changed(link.device) || link.port.is_some_and(changed) || self.idles(link.device);
        if !narrower && target.is_none() && by_itself() {
            return LinkCondition::Idle;
        }
        LinkCondition::Below { narrower, slower, target }
    }

    /// The device may have lowered its speed because it has nothing to do: graphics cards and accelerators
    /// do, others where their link saves power or nothing uses them; a switch where all behind it does.
    fn idles(&self, device: &'a PciDevice) -> bool {
        if device.express.power_saving.known() == Some(&true) {
            return true;
        }
        if !self.is_bridge(device) {
            return self.card_idles(device);
        }
        let class = |card: &PciDevice| card.class.known().copied().unwrap_or(0);
        let mut cards = self
            .cards_below(device)
            .into_iter()
            .filter(|card| topology::carries_bytes(class(card)))
            .peekable();
        cards.peek().is_some() && cards.all(|card| self.card_idles(card))
    }

    fn card_idles(&self, device: &'a PciDevice) -> bool {
        let class = device.class.known().copied().unwrap_or(0);
        let up = |nic: &Nic| nic.state.known().is_none_or(|state| state == "up" || state == "unknown");
        let unused = match class >> 16 {
            0x02 => !self.nics(device).into_iter().any(up),
            0x01 => self.disks(device).is_empty(),
            _ => false,
        };
        let accelerator =
            |one: &&PciDevice| one.class.known().is_some_and(|class| topology::is_accelerator(*class));
        unused || self.functions(device).iter().any(accelerator)
    }
}

fn most(end: Option<&PciDevice>) -> Option<PciLink> {
    end?.link_max.known().copied()
}

fn weaker(port: Option<PciLink>, card: Option<PciLink>) -> WeakerEnd {
    let (Some(port), Some(card)) = (port, card) else { return WeakerEnd::Neither };
    let less =
        |one: PciLink, other: PciLink| one.width < other.width || one.gt_per_second < other.gt_per_second;
    match (less(card, port), less(port, card)) {
        (false, false) => WeakerEnd::Neither,
        (true, false) => WeakerEnd::Card,
        (false, true) => WeakerEnd::Port,
        (true, true) => WeakerEnd::Each,
    }
}

/// Intel X722, the network part of the C620 chip set, by its numbers (`i40e_devids.h`; 0x37cc and 0x37cd in
/// pci.ids).
const X722: std::ops::RangeInclusive<u32> = 0x37cc..=0x37d3;
/// Drivers of NICs of which no card was ever built for one lane: Intel's 10 Gb/s and up. Those on the chip
/// "do not have this information and will report PCI Gen 1 x 1 by default" (`I40E_HW_NO_PCI_LINK_CHECK`,
/// drivers/net/ethernet/intel/i40e/i40e_main.c).
const NEVER_ONE_LANE: [&str; 3] = ["i40e", "ice", "ixgbe"];

/// A listing may have a card alone (`lspci -vv -s 04:00.0`): behind the first bus, and an endpoint by its own
/// word, it is not part of the chip.
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
            |one: &&PciDevice| one.class.known().is_some_and(|class| class >> 16 == topology::NETWORK);
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
