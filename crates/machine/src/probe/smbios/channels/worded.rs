//! What the name of a slot says of its channel. Much, where the channel is there in words:
//! `P0_Node0_Channel1_Dimm0`, `P0 CHANNEL A`, `ChannelB-DIMM1`, `CPU0_C1D0`.
//!
//! Little, where the slots have a running number only (`PROC 1 DIMM 9`, `CPU0_DIMM_3`), and what follows from
//! full sockets where no name has a channel.

use super::{ChannelEvidence, Name, Partition, Reading, Slot};
use crate::probe::Confidence;
use crate::probe::smbios::locator::{Label, LocatorParts};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the channels' words; the reason is empty where there are none.
pub(super) fn read(board: &ChannelEvidence) -> Reading {
    let names: Vec<Option<Name>> = board
        .slots
        .iter()
        .map(|slot| {
            let of = |words: &LocatorParts| {
                Some((words.node.unwrap_or(0), words.controller.unwrap_or(0), words.channel?))
            };
            let by_letter = || Some((0, 0, Label::Letter(slot.bank_letter?)));
            of(&slot.bank).or_else(|| of(&slot.name)).or_else(by_letter)
        })
        .collect();
    if board.slots.iter().zip(&names).any(|(slot, name)| slot.populated && name.is_none()) {
        return Err(String::new());
    }
    let sockets = sockets(board, &names);
    let mut partition: Partition =
        sockets.into_iter().zip(&names).map(|(socket, name)| Some((socket?, (*name)?))).collect();
    let letters_agree = empty_slots(board, &mut partition);
    let confidence = if letters_agree { Confidence::High } else { Confidence::Medium };
    Ok((partition, confidence))
}

/// Sockets by words, by nodes or arrays, or by the letters, which run on from socket to socket (channels A–D
/// and E–H).
fn sockets(board: &ChannelEvidence, names: &[Option<Name>]) -> Vec<Option<u32>> {
    if let Some(sockets) = board.sockets_by_words() {
        return sockets;
    }
    if board.sockets == 1 {
        return vec![Some(0); board.slots.len()];
    }
    if let Some(sockets) = board.sockets_by_groups() {
        return sockets;
    }
    let each = board.channels.own();
    names
        .iter()
        .map(|name| match (*name, each) {
            (Some((_, _, Label::Letter(letter))), Some(each)) => Some(letter / each),
            (Some((node, _, _)), _) => Some(node),
            (None, _) => None,
        })
        .collect()
}

/// The letter of a slot's name that may be its channel's.
fn letter(name: &LocatorParts) -> Option<u32> {
    match name.channel {
        Some(Label::Letter(letter)) => Some(letter),
        Some(Label::Number(_)) => None,
        None => name.letter.filter(|_| !name.number_first),
    }
}

/// Some boards blank the words of empty slots (`NO DIMM`): there the letter of the slot's name counts, where
/// the populated slots have shown which letter is which channel. False where letters and words contradict
/// each other.
fn empty_slots(board: &ChannelEvidence, partition: &mut Partition) -> bool {
    let key = |name: &LocatorParts| Some((name.socket, name.controller, letter(name)?));
    let mut by_letter: BTreeMap<_, BTreeSet<(u32, Name)>> = BTreeMap::new();
    let mut letters: BTreeMap<(u32, Name), BTreeSet<u32>> = BTreeMap::new();
    for (slot, place) in board.slots.iter().zip(partition.iter()) {
        let (Some(key), Some(place)) = (key(&slot.name), place) else { continue };
        by_letter.entry(key).or_default().insert(*place);
        letters.entry(*place).or_default().insert(key.2);
    }
    for (slot, place) in board.slots.iter().zip(partition.iter_mut()).filter(|(_, place)| place.is_none()) {
        let places = key(&slot.name).and_then(|key| by_letter.get(&key));
        *place = places.filter(|places| places.len() == 1).and_then(|places| places.first().copied());
    }
    by_letter.values().all(|one| one.len() == 1) && letters.values().all(|one| one.len() == 1)
}

/// Reads running numbers; the reason is empty where the slots have none.
pub(super) fn read_numbers(board: &ChannelEvidence) -> Reading {
    let populated = || board.slots.iter().filter(|slot| slot.populated);
    if populated().any(|slot| slot.name.number.is_none() || slot.name.letter.is_some()) {
        return Err(String::new());
    }
    let Some(each) = board.channels.own() else { return Err(String::new()) };
    let Some(groups) = by_socket(board) else { return Err(String::new()) };
    let mut partition: Partition = vec![None; board.slots.len()];
    let mut confidence = if board.complete { Confidence::Medium } else { Confidence::Low };
    for (socket, slots) in &groups {
        let empty = !slots.iter().any(|(_, slot)| slot.populated);
        let numbers: BTreeSet<u32> = slots.iter().filter_map(|(_, slot)| slot.name.number).collect();
        let total = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let fills_all_channels = numbers.len() == slots.len() && total % each == 0;
        let Some(share) = fills_all_channels.then(|| sharing(board, total / each)).flatten() else {
            if empty {
                continue;
            }
            return Err(
                "the slots are only numbered; which of them share a channel depends on the board".into()
            );
        };
        let first = numbers.first().copied().unwrap_or(0);
        if numbers.last().copied().unwrap_or(0) - first >= total {
            confidence = Confidence::Low;
        }
        for (at, slot) in slots {
            let number = slot.name.number.unwrap_or(first) - first;
            let channel = match share {
                Sharing::Neighbours(on_a_channel) => number / on_a_channel.max(1),
                Sharing::Round => number % each,
            };
            partition[*at] = Some((*socket, (0, 0, Label::Number(channel))));
        }
    }
    Ok((partition, confidence))
}

/// Which numbers share a channel.
enum Sharing {
    /// So many that follow each other.
    Neighbours(u32),
    /// First slots of all channels, then the second ones.
    Round,
}

/// One slot a channel needs no rule. HP numbers along the board, so that neighbours share a channel (user
/// guides: DL380 Gen9 has 1–3, 4–6, …; Gen10 1–2, 3–4, …); Dell numbers the first slots of all channels
/// first, as it does where it puts letters before them.
fn sharing(board: &ChannelEvidence, on_a_channel: u32) -> Option<Sharing> {
    match on_a_channel {
        1 => Some(Sharing::Neighbours(1)),
        _ if board.hewlett_packard => Some(Sharing::Neighbours(on_a_channel)),
        _ if board.dell => Some(Sharing::Round),
        _ => None,
    }
}

/// Slots by socket, with their places in the table; `None` where the sockets cannot be told apart.
fn by_socket(board: &ChannelEvidence) -> Option<BTreeMap<u32, Vec<(usize, &Slot)>>> {
    let sockets = match board.sockets_by_words() {
        Some(sockets) => sockets,
        None if board.sockets == 1 => vec![Some(0); board.slots.len()],
        None => board.sockets_by_groups().or_else(|| board.by_rank(|slot| slot.name.letter))?,
    };
    let mut groups: BTreeMap<u32, Vec<(usize, &Slot)>> = BTreeMap::new();
    for (at, (slot, socket)) in board.slots.iter().zip(sockets).enumerate() {
        if let Some(socket) = socket {
            groups.entry(socket).or_default().push((at, slot));
        }
    }
    Some(groups)
}

/// Channels that hold a module where each socket is full (then all of its channels do), has one module, or
/// none. `None` elsewhere.
pub(super) fn by_occupancy(board: &ChannelEvidence) -> Option<u32> {
    if board.slots.iter().filter(|slot| slot.populated).count() == 1 {
        return Some(1);
    }
    let each = board.channels.own()?;
    let mut channels: u32 = 0;
    for slots in by_socket(board)?.values() {
        let total = u32::try_from(slots.len()).ok()?;
        let full = board.complete && total >= each;
        channels = channels.checked_add(match slots.iter().filter(|(_, slot)| slot.populated).count() {
            0 => 0,
            1 => 1,
            all if all == slots.len() && full => each,
            _ => return None,
        })?;
    }
    (channels > 0).then_some(channels)
}
