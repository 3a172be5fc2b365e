//! The channel in so many words: `P0_Node0_Channel1_Dimm0`, `P0 CHANNEL A`, `ChannelB-DIMM1`, `CPU0_C1D0`.

use super::{Board, Name, Partition, Reading};
use crate::probe::Confidence;
use crate::probe::smbios::locator::Label;
use std::collections::{BTreeMap, BTreeSet};

/// Reads the channels' words; the reason is empty where there are none.
pub(super) fn read(board: &Board) -> Reading {
    let names: Vec<Option<Name>> = board
        .slots
        .iter()
        .map(|slot| {
            let label = slot.bank.channel.or(slot.name.channel).or(slot.bank_letter.map(Label::Letter))?;
            let node = slot.bank.node.or(slot.name.node).unwrap_or(0);
            let controller = slot.bank.controller.or(slot.name.controller).unwrap_or(0);
            Some((node, controller, label))
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

/// Sockets by words, by nodes or arrays, or by the letters, which run on from socket to socket (channels A–D and E–H).
fn sockets(board: &Board, names: &[Option<Name>]) -> Vec<Option<u32>> {
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

/// Some boards blank the words of empty slots (`NO DIMM`): there the letter of the slot's name tells, where the populated slots have
/// shown which letter is which channel. False where letters and words contradict each other.
fn empty_slots(board: &Board, partition: &mut Partition) -> bool {
    let mut by_letter: BTreeMap<(Option<u32>, u32), BTreeSet<(u32, Name)>> = BTreeMap::new();
    let mut letters: BTreeMap<(u32, Name), BTreeSet<u32>> = BTreeMap::new();
    for (slot, place) in board.slots.iter().zip(partition.iter()) {
        let (Some(letter), Some(place), false) = (slot.name.letter, place, slot.name.number_first) else { continue };
        by_letter.entry((slot.name.socket, letter)).or_default().insert(*place);
        letters.entry(*place).or_default().insert(letter);
    }
    for (slot, place) in board.slots.iter().zip(partition.iter_mut()).filter(|(_, place)| place.is_none()) {
        let Some(letter) = slot.name.letter else { continue };
        *place = by_letter.get(&(slot.name.socket, letter)).filter(|one| one.len() == 1).and_then(|one| one.first().copied());
    }
    by_letter.values().all(|one| one.len() == 1) && letters.values().all(|one| one.len() == 1)
}
