//! A part that is added (`KIND=WHAT[@PLACE]`), and where a part can go: the slot that was named, or the free slot that
//! serves it best.

use super::Hindrance;
use crate::plan::machine_file::{pcie, rate};
use crate::plan::parts::{
    ByteDevice, DeviceKind, Joint, JointKind, MachineParts, PartPlace, show_link, slower,
};
use crate::plan::wording::listed;
use linerate_facts::fact::Fact;
use linerate_machine::probe::PciLink;

/// Ports of a card that is added.
const MOST_PORTS: u32 = 64;
/// Disk ports of a controller where none are reported: two connectors of four.
const DEFAULT_DISK_PORTS: u32 = 8;
const HOW: Hindrance = Hindrance::Form(
    "write it like nic=100G:pcie3x16@node1, nic=2x10G:pcie2x8, disk=3.2GB/s:pcie3x4@slot2, \
disk=250MB/s/70MB/s@perc, controller=pcie2x8 or gpu=pcie4x16",
);

/// Slots that an error names at most.
const MOST_SLOTS: usize = 8;

pub(super) fn add(parts: &mut MachineParts, text: &str) -> Result<Vec<String>, Hindrance> {
    let (kind, rest) = text.split_once('=').ok_or(HOW)?;
    let (what, place) = rest.split_once('@').map_or((rest, None), |(what, place)| (what, Some(place)));
    match kind {
        "nic" => nic(parts, what, place),
        "disk" => disk(parts, what, place),
        "controller" => controller(parts, what, place),
        "gpu" => {
            let link = pcie(what)?;
            card(parts, "new-gpu", JointKind::Card, link, place, 1, &DeviceKind::Gpu)
        }
        _ => Err(HOW),
    }
}

fn nic(parts: &mut MachineParts, what: &str, place: Option<&str>) -> Result<Vec<String>, Hindrance> {
    let (port, link) = what.split_once(':').ok_or(HOW)?;
    let (ports, port) = match port.split_once('x') {
        Some((count, port)) => (count.parse::<u32>().map_err(|_| HOW)?, port),
        None => (1, port),
    };
    if !(1..=MOST_PORTS).contains(&ports) {
        return Err(Hindrance::Ports { most: MOST_PORTS });
    }
    let mtu = mtu(parts);
    let what = DeviceKind::Nic {
        rate: Fact::Known(rate(port)?),
        mtu: Fact::from_option(mtu, "no NIC of the machine has one to take"),
        tagged: false,
        ipv6: false,
        down: false,
    };
    let mut notes = card(parts, "new-nic", JointKind::Card, pcie(link)?, place, ports, &what)?;
    notes.push(match mtu {
        Some(mtu) => format!("MTU {mtu}, as the machine's other NICs have or had"),
        None => "MTU unknown: give it with --set mtu=9000".into(),
    });
    Ok(notes)
}

/// The MTU that the machine's NICs have, or those that were taken away: the network's, more likely than the standard
/// one.
fn mtu(parts: &MachineParts) -> Option<u32> {
    parts.devices.iter().filter_map(ByteDevice::mtu).chain(parts.removed_mtu).max()
}

fn disk(parts: &mut MachineParts, what: &str, place: Option<&str>) -> Result<Vec<String>, Hindrance> {
    let (rates, link) = what.split_once(':').map_or((what, None), |(rates, link)| (rates, Some(link)));
    // A rate has a slash of its own: 3GB/s/2GB/s.
    let at = rates.find("/s/").map(|at| at + 2);
    let (read, write) = at.map_or((rates, None), |at| (&rates[..at], Some(&rates[at + 1..])));
    let read = Fact::Known(rate(read)?);
    let write = match write {
        Some(write) => Fact::Known(rate(write)?),
        None => read.clone(),
    };
    let what = DeviceKind::Disk { read, write };
    match link {
        Some(link) => card(parts, "new-disk", JointKind::Card, pcie(link)?, place, 1, &what),
        None => {
            let place = for_disk(
                parts,
                place.ok_or(Hindrance::Form("say its controller, like @perc, or give it a link"))?,
            )?;
            let name = free_name(parts, "new-disk");
            parts.devices.push(ByteDevice { group: name.clone(), name, place, what });
            Ok(Vec::new())
        }
    }
}

fn controller(parts: &mut MachineParts, what: &str, place: Option<&str>) -> Result<Vec<String>, Hindrance> {
    let (link, ports) = what.split_once(':').map_or((what, None), |(link, ports)| (link, Some(ports)));
    let ports = match ports {
        Some(ports) => ports
            .parse()
            .ok()
            .filter(|ports| (1..=1024).contains(ports))
            .ok_or(Hindrance::Form("disk ports: 1 to 1024"))?,
        None => DEFAULT_DISK_PORTS,
    };
    let link = pcie(link)?;
    let name = free_name(parts, "new-controller");
    let (up, notes) = find_place(parts, place, Some(link), &name)?;
    let mut joint = Joint::new(name, JointKind::Controller, up);
    joint.link = Some(link);
    joint.disk_ports = Some(ports);
    joint.max_payload_bytes = None;
    joint.bytes_per_second = Fact::unknown("no data sheet of the controller is given");
    parts.joints.push(joint);
    Ok(notes)
}

fn card(
    parts: &mut MachineParts,
    beginning: &str,
    kind: JointKind,
    link: PciLink,
    place: Option<&str>,
    ports: u32,
    what: &DeviceKind,
) -> Result<Vec<String>, Hindrance> {
    let name = free_name(parts, beginning);
    let (up, notes) = find_place(parts, place, Some(link), &name)?;
    let mut joint = Joint::new(&name, kind, up);
    joint.link = Some(link);
    parts.joints.push(joint);
    for port in 0..ports {
        parts.devices.push(ByteDevice {
            name: if ports == 1 { name.clone() } else { format!("{name}p{port}") },
            group: name.clone(),
            place: PartPlace::Joint(name.clone()),
            what: what.clone(),
        });
    }
    Ok(notes)
}

/// `new-nic0`, or the next that nobody has.
fn free_name(parts: &MachineParts, beginning: &str) -> String {
    let taken = |name: &str| {
        parts.joint(name).is_some()
            || parts.devices.iter().any(|device| device.name == name || device.group == name)
    };
    let mut number = 0u32;
    loop {
        let name = format!("{beginning}{number}");
        if !taken(&name) {
            return name;
        }
        number = number.saturating_add(1);
    }
}

/// Where a card with this link goes, and what to know about it. `own` is the card itself, which may be in a
/// slot already.
pub(super) fn find_place(
    parts: &MachineParts,
    word: Option<&str>,
    link: Option<PciLink>,
    own: &str,
) -> Result<(PartPlace, Vec<String>), Hindrance> {
    let Some(word) = word else { return any_slot(parts, None, link, own) };
    if let Some(node) = node(parts, word)? {
        return any_slot(parts, Some(node), link, own);
    }
    let Some(joint) = parts.joint(word) else {
        let slots: Vec<&str> = slots(parts, None).map(|slot| slot.name.as_str()).collect();
        let name = word.escape_debug().take(64).collect();
        return Err(Hindrance::NoPlace { name, there: listed(&slots, MOST_SLOTS) });
    };
    match joint.kind {
        JointKind::Slot => {
            if let Some(other) = parts.occupant(word).filter(|other| other.name != own) {
                return Err(Hindrance::SlotFull { slot: word.into(), other: other.name.clone() });
            }
            Ok((PartPlace::Joint(word.into()), narrowed(joint, link)))
        }
        JointKind::Hub | JointKind::Switch | JointKind::Bus | JointKind::Port => {
            Ok((PartPlace::Joint(word.into()), Vec::new()))
        }
        JointKind::Card | JointKind::Controller => Err(Hindrance::IsCard(word.into())),
    }
}

/// Where a disk without a link of its own goes.
pub(super) fn for_disk(parts: &MachineParts, word: &str) -> Result<PartPlace, Hindrance> {
    let holders =
        || parts.joints.iter().filter(|joint| matches!(joint.kind, JointKind::Controller | JointKind::Bus));
    let Some(joint) = holders().find(|joint| joint.name == word) else {
        let names: Vec<&str> = holders().map(|joint| joint.name.as_str()).collect();
        let there = if names.is_empty() { "none".into() } else { listed(&names, MOST_SLOTS) };
        return Err(Hindrance::NoController { there });
    };
    let place = PartPlace::Joint(word.to_string());
    let there = parts.devices.iter().filter(|device| device.place == place).count();
    match joint.disk_ports {
        Some(ports) if there >= ports as usize => Err(Hindrance::PortsFull { name: word.into(), ports }),
        _ => Ok(place),
    }
}

/// `node1` as a number; none where the word is something else.
fn node(parts: &MachineParts, word: &str) -> Result<Option<u32>, Hindrance> {
    let Some(id) = word.strip_prefix("node").and_then(|id| id.parse().ok()) else { return Ok(None) };
    if parts.node(id).is_none() {
        let last = parts.nodes.iter().map(|node| node.id).max().unwrap_or(0);
        return Err(Hindrance::NoNode { name: word.into(), last });
    }
    Ok(Some(id))
}

fn slots(parts: &MachineParts, node: Option<u32>) -> impl Iterator<Item = &Joint> {
    parts.joints.iter().filter(move |joint| {
        joint.kind == JointKind::Slot && node.is_none_or(|node| parts.node_of(&joint.up) == Some(node))
    })
}

/// The narrowest free slot that carries the card without loss; where none does, an error that says why of
/// each.
fn any_slot(
    parts: &MachineParts,
    node: Option<u32>,
    link: Option<PciLink>,
    own: &str,
) -> Result<(PartPlace, Vec<String>), Hindrance> {
    let free = |slot: &&Joint| parts.occupant(&slot.name).is_none_or(|other| other.name == own);
    let carries = |slot: &&Joint| narrowed(slot, link).is_empty();
    let cost =
        |slot: &&Joint| slot.link.map_or(f64::INFINITY, |link| link.gt_per_second * f64::from(link.width));
    let best = slots(parts, node).filter(free).filter(carries).min_by(|a, b| cost(a).total_cmp(&cost(b)));
    if let Some(slot) = best {
        return Ok((PartPlace::Joint(slot.name.clone()), vec![format!("in {}", slot.name)]));
    }
    let whose = node.map_or_else(|| "the machine".to_string(), |node| format!("node{node}"));
    let reasons: Vec<String> = slots(parts, node)
        .map(|slot| match parts.occupant(&slot.name) {
            Some(other) => format!("{} holds {}", slot.name, other.name),
            None => format!("{} is {}", slot.name, slot.link.map_or("of unknown width".into(), show_link)),
        })
        .collect();
    let link = link.map_or_else(|| "the card".to_string(), show_link);
    match (reasons.is_empty(), node) {
        (true, Some(node)) => Ok((
            PartPlace::Node(node),
            vec![format!("no slot of node{node} is known: taken to have one that fits")],
        )),
        (true, None) => match parts.nodes.as_slice() {
            [only] => {
                Ok((PartPlace::Node(only.id), vec!["no slot is known: taken to have one that fits".into()]))
            }
            _ => Err(Hindrance::Unknown("no slot is known: say the node, like @node0")),
        },
        (false, _) => {
            let more = reasons.len().saturating_sub(MOST_SLOTS);
            let mut reasons = reasons.into_iter().take(MOST_SLOTS).collect::<Vec<_>>().join("; ");
            if more > 0 {
                reasons.push_str(&format!("; and {more} more"));
            }
            Err(Hindrance::NoSlot { whose, link, reasons })
        }
    }
}

/// What a slot takes from a card, if anything.
fn narrowed(slot: &Joint, link: Option<PciLink>) -> Vec<String> {
    match (slot.link, link) {
        (Some(slot_link), Some(link)) if slower(slot_link, link) != link => {
            vec![format!(
                "{} is {}: a card of {} runs at {} there",
                slot.name,
                show_link(slot_link),
                show_link(link),
                show_link(slower(slot_link, link))
            )]
        }
        _ => Vec::new(),
    }
}
