//! The channel in words: `P0_Node0_Channel1_Dimm0`, `P0 CHANNEL A`, `ChannelB-DIMM1`, `CPU0_C1D0`.

use super::{ChannelEvidence, Name, Partition, Reading};
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
