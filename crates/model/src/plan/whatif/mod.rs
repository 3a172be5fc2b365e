//! What-if: a change to the parts in the user's words, and the machine after it.
//!
//! `add=nic=100G:pcie3x16@node1`, `move nic0=slot3`, `remove nic1`, `set mtu=9000`. A change that cannot be
//! made names what is in its way: the slot that is full, the one that is too narrow, the key that there
//! is not.

mod add;
mod place;
mod set;

use super::machine_file::PartValueError;
use super::parts::{ByteDevice, JointKind, MachineParts, PartPlace};
use add::find_place;
pub use place::{CardPlacement, best_placement, cards_in_slots};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhatIfChange {
    /// `nic=100G:pcie3x16@node1`, `nic=2x10G:pcie2x8`, `disk=3.2GB/s/1.8GB/s:pcie3x4@slot2`,
    /// `disk=250MB/s@perc`, `controller=pcie2x8`, `gpu=pcie4x16`.
    Add(String),
    /// `eth0=slot3`.
    Move(String),
    /// `eth0`.
    Remove(String),
    /// Cards into slots, all at once.
    Place(CardPlacement),
    /// `mtu=9000`, `eth0.mtu=9000`, `ssd.read=500MB/s`.
    Set(String),
}

impl std::fmt::Display for WhatIfChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WhatIfChange::Add(words) => write!(f, "add {words}"),
            WhatIfChange::Move(words) => write!(f, "move {words}"),
            WhatIfChange::Remove(words) => write!(f, "remove {words}"),
            WhatIfChange::Place(found) if found.moves.is_empty() => f.write_str("put no card elsewhere"),
            WhatIfChange::Place(found) => {
                let moves: Vec<String> =
                    found.moves.iter().map(|(card, slot)| format!("{card} into {slot}")).collect();
                write!(f, "put {}", moves.join(", "))
            }
            WhatIfChange::Set(words) => write!(f, "set {words}"),
        }
    }
}

/// A change that cannot be made, and what is in its way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{change}: {hindrance}")]
pub struct WhatIfError {
    pub change: WhatIfChange,
    hindrance: Hindrance,
}

/// What is in the way of a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Hindrance {
    /// The words have another form, or a number is none that the part can have: how to write it.
    #[error("{0}")]
    Form(&'static str),
    #[error(transparent)]
    Value(#[from] PartValueError),
    #[error("a card has 1 to {most} ports")]
    Ports { most: u32 },
    #[error("no part is called “{name}”; there is {there}")]
    NoPart { name: String, there: String },
    #[error("there is nothing to set by that name: {}", set::HOW)]
    NoKey,
    #[error("{part} has no {figure}: {}", set::HOW)]
    NoFigure { part: String, figure: String },
    /// What the change is made from is not known: what to do.
    #[error("{0}")]
    Unknown(&'static str),
    #[error("there is no place “{name}”; there is {there}, and node0")]
    NoPlace { name: String, there: String },
    #[error("there is no {name}: the machine has nodes 0 to {last}")]
    NoNode { name: String, last: u32 },
    #[error("{to} hangs from {card} itself")]
    BelowItself { to: String, card: String },
    #[error("{slot} is full: {other} is in it; remove or move that first")]
    SlotFull { slot: String, other: String },
    #[error("{0} is a card: name a slot, hub or switch")]
    IsCard(String),
    #[error("a disk without a link of its own goes on a controller or bus; there is {there}")]
    NoController { there: String },
    #[error("{name} is full: its {ports} ports have disks")]
    PortsFull { name: String, ports: u32 },
    #[error("no free slot of {whose} carries {link}: {reasons}")]
    NoSlot { whose: String, link: String, reasons: String },
}

/// Makes the change; gives what to know about it (a slot that narrows a card).
pub fn apply(parts: &mut MachineParts, change: &WhatIfChange) -> Result<Vec<String>, WhatIfError> {
    let notes = match change {
        WhatIfChange::Add(text) => add::add(parts, text),
        WhatIfChange::Move(text) => shift(parts, text),
        WhatIfChange::Remove(text) => remove(parts, text),
        WhatIfChange::Place(found) => Ok(place::place(parts, found)),
        WhatIfChange::Set(text) => set::set(parts, text).map(|()| Vec::new()),
    };
    notes.map_err(|hindrance| WhatIfError { change: change.clone(), hindrance })
}

/// Moves a card to another slot, or a disk to another controller.
fn shift(parts: &mut MachineParts, text: &str) -> Result<Vec<String>, Hindrance> {
    let (name, to) = text.split_once('=').ok_or(Hindrance::Form("write it like eth0=slot3"))?;
    if let Some(card) = card_of(parts, name) {
        let link = parts.joint(&card).and_then(|joint| joint.link);
        let (place, notes) = find_place(parts, Some(to), link, &card)?;
        let below = |place: &PartPlace| parts.above(place).iter().any(|joint| joint.name == card);
        if below(&place) {
            return Err(Hindrance::BelowItself { to: to.into(), card });
        }
        let joint = parts.joints.iter_mut().find(|joint| joint.name == card);
        if let Some(joint) = joint {
            joint.up = place;
            // In another slot the link trains again.
            joint.running = None;
        }
        return Ok(notes);
    }
    let device = parts.device(name).map(|device| device.id()).ok_or_else(|| nothing_called(parts, name))?;
    let place = add::for_disk(parts, to)?;
    let device = parts.devices.iter_mut().find(|other| other.id() == device);
    device.into_iter().for_each(|device| device.place = place.clone());
    Ok(Vec::new())
}

/// The card that a name stands for: its own name, or that of what is on it.
fn card_of(parts: &MachineParts, name: &str) -> Option<String> {
    let is_card = |kind| matches!(kind, JointKind::Card | JointKind::Controller);
    let own = parts.joint(name).filter(|joint| is_card(joint.kind)).map(|joint| joint.name.clone());
    own.or_else(|| match &parts.device(name)?.place {
        PartPlace::Joint(up) => {
            parts.joint(up).filter(|joint| joint.kind == JointKind::Card).map(|j| j.name.clone())
        }
        _ => None,
    })
}

/// Takes away a part and all that hangs from it; a card whose last port went goes, too.
fn remove(parts: &mut MachineParts, name: &str) -> Result<Vec<String>, Hindrance> {
    // A name may have colons of its own (`0000:03:00.0`).
    let (kind, plain) = match name.split_once(':') {
        Some((kind, plain)) if ["disk", "nic", "gpu"].contains(&kind) => (Some(kind), plain),
        _ => (None, name),
    };
    let is_device = |device: &ByteDevice| {
        kind.is_none_or(|kind| kind == device.what.word()) && (device.name == plain || device.group == plain)
    };
    let joints: Vec<String> = parts
        .joints
        .iter()
        .filter(|joint| joint.name == plain || parts.above(&joint.up).iter().any(|up| up.name == plain))
        .map(|joint| joint.name.clone())
        .collect();
    let hangs = |place: &PartPlace| matches!(place, PartPlace::Joint(up) if joints.contains(up));
    let gone: Vec<String> = parts
        .devices
        .iter()
        .filter(|device| hangs(&device.place) || joints.is_empty() && is_device(device))
        .map(|device| device.id())
        .collect();
    if joints.is_empty() && gone.is_empty() {
        return Err(nothing_called(parts, name));
    }
    let freed: Vec<PartPlace> = parts
        .devices
        .iter()
        .filter(|device| gone.contains(&device.id()))
        .map(|device| device.place.clone())
        .collect();
    let lost = parts.devices.iter().filter(|device| gone.contains(&device.id())).filter_map(ByteDevice::mtu);
    parts.removed_mtu = lost.chain(parts.removed_mtu).max();
    parts.devices.retain(|device| !gone.contains(&device.id()));
    parts.joints.retain(|joint| !joints.contains(&joint.name));
    let in_use: Vec<PartPlace> = parts.devices.iter().map(|device| device.place.clone()).collect();
    parts.joints.retain(|joint| {
        let place = PartPlace::Joint(joint.name.clone());
        joint.kind != JointKind::Card || in_use.contains(&place) || !freed.contains(&place)
    });
    Ok(Vec::new())
}

/// Names that an error lists at most.
const MOST_NAMES: usize = 16;

fn nothing_called(parts: &MachineParts, name: &str) -> Hindrance {
    let cards = parts.joints.iter().filter(|joint| joint.kind != JointKind::Slot).map(|joint| &joint.name);
    let mut names: Vec<&str> =
        cards.chain(parts.devices.iter().map(|device| &device.name)).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let name = name.escape_debug().take(64).collect();
    Hindrance::NoPart { name, there: super::wording::listed(&names, MOST_NAMES) }
}

#[cfg(test)]
mod tests;
