//! Sizing: which parts a flow of a given rate needs, and which slots of the machine can carry them.
//!
//! The rate is that of the network's line, as links are sold: 40 Gb/s are four ports of 10GE, whose payload
//! (39.7 Gb/s at an MTU of 9000) the rest of the server has to move. What would be bought are the parts of the machine
//! file's `[catalogue]`, else the machine's own, else what is common today. Each number is reported with its
//! arithmetic.

use super::cpu_cost::default_of;
use super::flow::{Flow, memory_touches_of};
use super::machine_file::memory_rate;
use super::parts::{
    ByteDevice, CatalogueController, CatalogueDisk, CatalogueNic, DeviceKind, Joint, JointKind, MachineParts,
    PartPlace, show_link, slower,
};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_facts::wording::counted;
use linerate_machine::probe::PciLink;
use linerate_machine::rates::ethernet::{Stack, goodput_share};
use linerate_machine::rates::pcie::{self, PayloadDirection};
use serde::Serialize;

/// What disks behind controllers give together of the sum of each alone: sixteen SSDs read 3301 of 4080 MiB/s
/// on block level (SARA, D1.3, March 2010, table 8).
const TOGETHER_BEHIND_CONTROLLERS: f64 = 0.81;
/// The same of disks with a link of their own: twelve NVMe cards read 32.9 of 12 × 2.78 GB/s (CUNY, UV 300,
/// 2016, tests 1 and 2).
const TOGETHER_WITH_OWN_LINKS: f64 = 0.98;
/// MTU where the machine has no NIC.
const DEFAULT_MTU: u32 = 1500;
/// Memory where the machine does not report its own: DDR4-3200 (JEDEC).
const DEFAULT_MT_PER_SECOND: u32 = 3200;
/// A port less than a millionth over a whole number is none more.
const DUST: f64 = 1e-6;

/// Where nothing is known: a NIC of two 100 Gb/s ports, a controller of SAS-3, a disk of PCIe 4.0 x4 at three
/// quarters of its link.
const DEFAULT_NIC: CatalogueNic =
    CatalogueNic { rate: 12.5e9, ports: 2, link: PciLink { gt_per_second: 16.0, width: 16 } };
const DEFAULT_CONTROLLER: CatalogueController =
    CatalogueController { link: PciLink { gt_per_second: 8.0, width: 8 }, disk_ports: 8, rate: None };
const DEFAULT_DISK: CatalogueDisk = CatalogueDisk {
    read: 5e9,
    write: 3e9,
    in_practice: None,
    link: Some(PciLink { gt_per_second: 16.0, width: 4 }),
};

/// What a rate needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// Line rate asked for, bytes per second.
    pub target_bytes_per_second: f64,
    /// Its payload, bytes per second.
    pub payload_bytes_per_second: f64,
    /// Parts, the network first.
    pub needs: Vec<PartNeed>,
    /// Slots of the machine and what each can carry of them.
    pub slots: Vec<SlotUse>,
    /// Cards for which no slot is left.
    pub without_slot: u32,
}

/// So many of one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartNeed {
    /// `NIC`, `disk controller`, `disk`, `memory channel`, `core`.
    pub part: &'static str,
    /// How many.
    pub count: u32,
    /// What it is: `2 × 10.0 Gb/s, PCIe 2.0 x8`.
    pub what: String,
    /// The arithmetic.
    pub why: String,
    /// The machine has as many already; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub there: Option<u32>,
}

/// The parts that a flow of this line rate needs.
pub fn size(parts: &MachineParts, flow: &Flow, target_bytes_per_second: f64) -> Sizing {
    let over_network = flow.has("nic:");
    let share = if over_network { payload_share(parts, flow) } else { 1.0 };
    let payload = target_bytes_per_second * share;
    let mut needs = Vec::new();
    let mut cards = Vec::new();
    if over_network {
        nics(parts, flow, target_bytes_per_second, share, &mut needs, &mut cards);
    }
    if flow.has("disk:") {
        disks(parts, flow, payload, &mut needs, &mut cards);
    }
    needs.push(memory(parts, flow, payload));
    needs.extend(cores(parts, flow, payload).filter(|_| over_network));
    let (slots, without_slot) = fill_slots(parts, cards);
    Sizing { target_bytes_per_second, payload_bytes_per_second: payload, needs, slots, without_slot }
}

fn payload_share(parts: &MachineParts, flow: &Flow) -> f64 {
    let mtu = parts.devices.iter().filter_map(ByteDevice::mtu).max().unwrap_or(DEFAULT_MTU);
    let stack = match flow.protocol {
        Protocol::Tcp => Stack::tcp(false),
        Protocol::Udp => Stack::udp(false),
    };
    goodput_share(mtu, stack, false).unwrap_or(1.0)
}

fn nics(
    parts: &MachineParts,
    flow: &Flow,
    target: f64,
    share: f64,
    needs: &mut Vec<PartNeed>,
    cards: &mut Vec<Cards>,
) {
    let nic = parts.catalogue.nic.clone().or_else(|| own_nic(parts)).unwrap_or(DEFAULT_NIC);
    let direction =
        if flow.comes_from("nic:") { PayloadDirection::ToMemory } else { PayloadDirection::FromMemory };
    let ports = whole(target / nic.rate);
    // A card whose link is too narrow for all its ports at once.
    let carries = link_rate(nic.link, direction);
    let used = (carries / (nic.rate * share)).floor().clamp(1.0, f64::from(nic.ports)) as u32;
    let count = ports.div_ceil(used);
    let narrow = if used < nic.ports {
        format!("; its link carries {used} of {} ports", nic.ports)
    } else {
        String::new()
    };
    needs.push(PartNeed {
        part: "NIC",
        count,
        what: format!("{} × {}, {}", nic.ports, show_bits_rate(nic.rate), show_link(nic.link)),
        why: format!(
            "{} ÷ {}: {}, {used} a card{narrow}",
            show_bits_rate(target),
            show_bits_rate(nic.rate),
            counted(ports, "port")
        ),
        there: Some(cards_with(parts, "nic:")),
    });
    let each = nic.rate * share * f64::from(used.min(ports));
    cards.push(Cards { part: "NIC", count, link: nic.link, bytes_per_second: each, direction });
}

fn disks(parts: &MachineParts, flow: &Flow, payload: f64, needs: &mut Vec<PartNeed>, cards: &mut Vec<Cards>) {
    let disk = parts.catalogue.disk.clone().or_else(|| own_disk(parts)).unwrap_or(DEFAULT_DISK);
    let reads = flow.comes_from("disk:");
    let direction = if reads { PayloadDirection::ToMemory } else { PayloadDirection::FromMemory };
    let rated = if reads { disk.read } else { disk.write };
    let practical = disk.in_practice.filter(|_| reads).unwrap_or(rated);
    let alone = disk.link.map_or(practical, |link| practical.min(link_rate(link, direction)));
    let (together, source) = match disk.link {
        Some(_) => (TOGETHER_WITH_OWN_LINKS, "CUNY, UV 300"),
        None => (TOGETHER_BEHIND_CONTROLLERS, "SARA, D1.3 table 8"),
    };
    let least = whole(payload / alone);
    let mut count = whole(payload / (alone * together));
    let mut controllers = None;
    if disk.link.is_none() {
        let card = parts.catalogue.controller.clone().or_else(|| own_controller(parts));
        let card = card.unwrap_or(DEFAULT_CONTROLLER);
        let link = link_rate(card.link, direction);
        let limit = card.rate.map_or(link, |rate| rate.min(link));
        let by_ports = count.div_ceil(card.disk_ports);
        let by_rate = whole(payload / limit);
        let number = by_ports.max(by_rate);
        // As many disks on each card: a stripe is as fast as its slowest part.
        count = count.max(number);
        let bound = if by_ports >= by_rate {
            format!("{}, {} each", counted(count, "disk"), counted(card.disk_ports, "port"))
        } else {
            format!("{} ÷ {} of one card", show_bytes_rate(payload), show_bytes_rate(limit))
        };
        controllers = Some((card, number, bound));
    }
    if let Some((card, number, why)) = controllers {
        needs.push(PartNeed {
            part: "disk controller",
            count: number,
            what: format!("{}, {}", counted(card.disk_ports, "port"), show_link(card.link)),
            why,
            there: Some(
                parts.joints.iter().filter(|joint| joint.kind == JointKind::Controller).count() as u32
            ),
        });
        let each = payload / f64::from(number.max(1));
        cards.push(Cards {
            part: "disk controller",
            count: number,
            link: card.link,
            bytes_per_second: each,
            direction,
        });
    }
    let in_practice = if practical < rated { " in practice" } else { "" };
    needs.push(PartNeed {
        part: "disk",
        count,
        what: disk_words(&disk, rated),
        why: format!(
            "{} ÷ {}{in_practice} are {least}; together they give {:.0} % of that ({source})",
            show_bytes_rate(payload),
            show_bytes_rate(alone),
            together * 100.0
        ),
        there: Some(
            parts.devices.iter().filter(|device| matches!(device.what, DeviceKind::Disk { .. })).count()
                as u32,
        ),
    });
    if let Some(link) = disk.link {
        let each = payload / f64::from(count.max(1));
        cards.push(Cards { part: "disk", count, link, bytes_per_second: each, direction });
    }
}

fn disk_words(disk: &CatalogueDisk, rated: f64) -> String {
    match disk.link {
        Some(link) => format!("{}, {}", show_bytes_rate(rated), show_link(link)),
        None => show_bytes_rate(rated),
    }
}

fn memory(parts: &MachineParts, flow: &Flow, payload: f64) -> PartNeed {
    let touches = memory_touches_of(parts, flow);
    let own = parts.nodes.iter().find_map(|node| node.mt_per_second.known().copied());
    let clock = own.unwrap_or(DEFAULT_MT_PER_SECOND);
    let channel = memory_rate(clock, 1);
    let there: Option<u32> = parts.nodes.iter().map(|node| node.channels.known().copied()).sum();
    PartNeed {
        part: "memory channel",
        count: whole(payload * touches / channel),
        what: format!("{} at {clock} MT/s", show_bytes_rate(channel)),
        why: format!("{} cross the memory bus {touches} times", show_bytes_rate(payload)),
        there,
    }
}

fn cores(parts: &MachineParts, flow: &Flow, payload: f64) -> Option<PartNeed> {
    let (cost, default) = match parts.cpu_seconds_per_gb.known() {
        Some(cost) => (*cost, String::new()),
        None => {
            let default = default_of(parts, flow)?;
            (default.seconds_per_gb, format!(", a default ({})", default.source))
        }
    };
    let there: Option<f64> = parts.nodes.iter().map(|node| node.cores.known().copied()).sum();
    Some(PartNeed {
        part: "core",
        count: whole(payload * cost / 1e9),
        what: "like the machine's".into(),
        why: format!("{} at {cost:.2} CPU seconds per GB{default}", show_bytes_rate(payload)),
        there: there.map(|cores| cores as u32),
    })
}

/// Payload of a link, bytes per second; 0 where there is no such link.
fn link_rate(link: PciLink, direction: PayloadDirection) -> f64 {
    let usual = Some(pcie::usual_max_payload_bytes(link.gt_per_second));
    pcie::payload_bytes_per_second(link.gt_per_second, link.width, usual, direction).unwrap_or(0.0)
}

/// Rounded up, but for dust; nothing where it is not a number.
fn whole(count: f64) -> u32 {
    if count.is_finite() { (count - DUST).ceil().clamp(0.0, f64::from(u32::MAX)) as u32 } else { 0 }
}

fn card_link(parts: &MachineParts, place: &PartPlace) -> Option<PciLink> {
    parts.above(place).first().filter(|joint| joint.kind == JointKind::Card)?.link
}

/// The machine's own fastest NIC.
fn own_nic(parts: &MachineParts) -> Option<CatalogueNic> {
    let nics = parts.devices.iter().filter_map(|device| match &device.what {
        DeviceKind::Nic { rate, .. } => {
            let ports = parts.devices.iter().filter(|other| other.place == device.place).count();
            let link = card_link(parts, &device.place)?;
            Some(CatalogueNic { rate: *rate.known()?, ports: ports as u32, link })
        }
        _ => None,
    });
    nics.max_by(|a, b| a.rate.total_cmp(&b.rate))
}

fn own_disk(parts: &MachineParts) -> Option<CatalogueDisk> {
    let disks = parts.devices.iter().filter_map(|device| match &device.what {
        DeviceKind::Disk { read, write } => {
            let read = *read.known()?;
            let write = write.known().copied().unwrap_or(read);
            Some(CatalogueDisk { read, write, in_practice: None, link: card_link(parts, &device.place) })
        }
        _ => None,
    });
    disks.max_by(|a, b| a.read.total_cmp(&b.read))
}

fn own_controller(parts: &MachineParts) -> Option<CatalogueController> {
    parts.joints.iter().filter(|joint| joint.kind == JointKind::Controller).find_map(|joint| {
        Some(CatalogueController {
            link: joint.link?,
            disk_ports: joint.disk_ports.unwrap_or(DEFAULT_CONTROLLER.disk_ports),
            rate: joint.bytes_per_second.known().copied(),
        })
    })
}

/// Cards that hold devices of a kind.
fn cards_with(parts: &MachineParts, word: &str) -> u32 {
    let mut places: Vec<&PartPlace> = Vec::new();
    for device in parts.devices.iter().filter(|device| device.id().starts_with(word)) {
        if !places.contains(&&device.place) {
            places.push(&device.place);
        }
    }
    places.len() as u32
}

/// A slot and the part that it takes, or why it takes none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlotUse {
    pub slot: String,
    /// `PCIe 2.0 x8`.
    pub link: String,
    /// What goes in; none where it can carry nothing that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<&'static str>,
    /// Why it takes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Cards of one kind, and what each has to carry.
struct Cards {
    pub part: &'static str,
    pub count: u32,
    pub link: PciLink,
    pub bytes_per_second: f64,
    pub direction: PayloadDirection,
}

/// Cards into slots: what has to carry most first, each into the narrowest slot that carries it. What is in
/// the slots now does not count: the machine is filled again.
fn fill_slots(parts: &MachineParts, mut cards: Vec<Cards>) -> (Vec<SlotUse>, u32) {
    let mut slots: Vec<(&Joint, PciLink, Option<&'static str>)> = parts
        .joints
        .iter()
        .filter(|joint| joint.kind == JointKind::Slot)
        .filter_map(|slot| Some((slot, slot.link?, None)))
        .collect();
    cards.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second));
    let mut without = 0u32;
    for card in &cards {
        for placed in 0..card.count {
            let free = slots.iter_mut().filter(|(_, link, takes)| takes.is_none() && carries(*link, card));
            let width = |link: PciLink| link.gt_per_second * f64::from(link.width);
            match free.min_by(|a, b| width(a.1).total_cmp(&width(b.1))) {
                Some((_, _, takes)) => *takes = Some(card.part),
                // Nor do the others of its kind: there may be millions.
                None => {
                    without = without.saturating_add(card.count - placed);
                    break;
                }
            }
        }
    }
    let used = slots
        .iter()
        .map(|(slot, link, takes)| SlotUse {
            slot: slot.name.clone(),
            link: show_link(*link),
            takes: *takes,
            why: takes.is_none().then(|| why_empty(*link, &cards)),
        })
        .collect();
    (used, without)
}

fn carries(slot: PciLink, card: &Cards) -> bool {
    link_rate(slower(slot, card.link), card.direction) >= card.bytes_per_second
}

fn why_empty(slot: PciLink, cards: &[Cards]) -> String {
    let short = |card: &&Cards| !carries(slot, card);
    let reasons: Vec<String> = cards
        .iter()
        .filter(short)
        .map(|card| {
            format!(
                "leaves a {} {} of the {} that it has to carry",
                card.part,
                show_bits_rate(link_rate(slower(slot, card.link), card.direction)),
                show_bits_rate(card.bytes_per_second)
            )
        })
        .collect();
    if reasons.is_empty() { "not needed".into() } else { reasons.join("; ") }
}
