//! A letter and a number without a word for the channel. `DIMM_A1`: the letter is the channel; on Dell's
//! boards it is the socket, and the numbers go round the channels. `P1_DIMM3A`: Supermicro's third channel,
//! Fujitsu's channel A, HP's third slot, filled first.

use super::{ChannelEvidence, Partition, Reading, Slot};
use crate::probe::Confidence;
use crate::probe::smbios::locator::Label;
use crate::probe::smbios::processor::Channels;
use std::collections::{BTreeMap, BTreeSet};

/// Reads letters and numbers; the reason is empty where the slots have none.
pub(super) fn read(board: &ChannelEvidence) -> Reading {
    let populated = || board.slots.iter().filter(|slot| slot.populated);
    if populated().any(|slot| slot.name.letter.is_none()) {
        return Err(String::new());
    }
    if let Some(why) = repeated(board) {
        return Err(why);
    }
    match populated().filter(|slot| slot.name.number_first).count() {
        0 => letter_first(board),
        all if all == populated().count() => number_first(board),
        _ => Err(String::new()),
    }
}

/// Two slots of one name: the name does not distinguish them, so it says nothing.
fn repeated(board: &ChannelEvidence) -> Option<String> {
    let sockets = board.sockets_by_words().or_else(|| board.sockets_by_groups());
    let mut seen = BTreeSet::new();
    for (at, slot) in board.slots.iter().enumerate().filter(|(_, slot)| slot.name.letter.is_some()) {
        let socket = sockets.as_ref().and_then(|sockets| sockets[at]);
        if !seen.insert((socket, slot.name.letter, slot.name.number)) {
            return Some("several slots have the same name".into());
        }
    }
    None
}

/// Slots by socket (0 where no word names it), with their places in the table.
fn by_socket(board: &ChannelEvidence) -> BTreeMap<u32, Vec<(usize, &Slot)>> {
    let sockets = board.sockets_by_words();
    let mut groups: BTreeMap<u32, Vec<(usize, &Slot)>> = BTreeMap::new();
    for (at, slot) in board.slots.iter().enumerate().filter(|(_, slot)| slot.name.letter.is_some()) {
        let socket = match &sockets {
            Some(sockets) => sockets[at],
            None => Some(0),
        };
        groups.entry(socket.unwrap_or(0)).or_default().push((at, slot));
    }
    groups
}

fn distinct(slots: &[(usize, &Slot)], part: impl Fn(&Slot) -> Option<u32>) -> BTreeSet<u32> {
    slots.iter().filter_map(|(_, slot)| part(slot)).collect()
}

fn letter(slot: &Slot) -> Option<u32> {
    slot.name.letter
}

fn number(slot: &Slot) -> Option<u32> {
    slot.name.number
}

fn count(set: &BTreeSet<u32>) -> u32 {
    u32::try_from(set.len()).unwrap_or(u32::MAX)
}

/// `A1`, `DIMM_A1`, `P1-DIMMA1`, `CPU0_DIMM_A`.
fn letter_first(board: &ChannelEvidence) -> Reading {
    let groups = by_socket(board);
    let worded = board.sockets_by_words().is_some();
    let all: BTreeSet<u32> = groups.values().flat_map(|slots| distinct(slots, letter)).collect();
    let most_of_a_letter = groups.values().map(|slots| most_of_a_letter(slots)).max().unwrap_or(0);
    let letter_is_socket = match worded {
        true => most_of_a_letter > 1 && groups.values().all(|slots| distinct(slots, letter).len() == 1),
        false => most_of_a_letter > 1 && count(&all) == board.sockets,
    };
    if letter_is_socket {
        return numbers_go_round(board, &groups, worded);
    }
    if most_of_a_letter > super::MOST_SLOTS_ON_A_CHANNEL {
        return Err(format!("{most_of_a_letter} slots share a letter: it is not the channel's"));
    }
    let sockets = letters_sockets(board, &groups, &all);
    let partition = split(board, |at, slot| Some((sockets(at, slot)?, Label::Letter(slot.name.letter?))));
    // The chipset's channels are counted by no data sheet here, so nothing checks the letters.
    Ok((partition, if board.channels.own().is_some() { Confidence::Medium } else { Confidence::Low }))
}

fn most_of_a_letter(slots: &[(usize, &Slot)]) -> usize {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for letter in slots.iter().filter_map(|(_, slot)| letter(slot)) {
        *counts.entry(letter).or_default() += 1;
    }
    counts.values().max().copied().unwrap_or(0)
}

/// The socket where the letter is the channel: by words, by nodes or arrays, or by letters that run on from
/// socket to socket.
fn letters_sockets<'a>(
    board: &'a ChannelEvidence,
    groups: &'a BTreeMap<u32, Vec<(usize, &'a Slot)>>,
    letters: &'a BTreeSet<u32>,
) -> impl Fn(usize, &Slot) -> Option<u32> + 'a {
    let sockets =
        board.sockets_by_words().or_else(|| (board.sockets > 1).then(|| board.sockets_by_groups())?);
    // Firmware that lists only the sockets with a processor still lists the slots of all.
    let each = match board.channels.own() {
        Some(each)
            if count(letters) <= each.saturating_mul(board.sockets)
                || count(letters).is_multiple_of(each) =>
        {
            each
        }
        _ => count(letters).div_ceil(board.sockets),
    };
    let of_the_chipset = board.channels == Channels::Chipset;
    let one_socket = of_the_chipset || (board.sockets == 1 && groups.len() == 1 && count(letters) <= each);
    move |at, slot| match &sockets {
        Some(sockets) if !of_the_chipset => sockets[at],
        _ if one_socket => Some(0),
        _ => Some(rank(letters, slot.name.letter?) / each.max(1)),
    }
}

/// Letters before this one: boards leave I and O out.
fn rank(letters: &BTreeSet<u32>, letter: u32) -> u32 {
    u32::try_from(letters.range(..letter).count()).unwrap_or(u32::MAX)
}

fn split(board: &ChannelEvidence, at: impl Fn(usize, &Slot) -> Option<(u32, Label)>) -> Partition {
    let slots = board.slots.iter().enumerate();
    slots.map(|(index, slot)| at(index, slot).map(|(socket, label)| (socket, (0, 0, label)))).collect()
}

/// Dell: the letter is the socket; the first slot of each channel is numbered first (white levers), then the
/// second ones. From the owner's manuals: R630 has A1, A5 and A9 on channel 0, R740 has A1 and A7.
fn numbers_go_round(
    board: &ChannelEvidence,
    groups: &BTreeMap<u32, Vec<(usize, &Slot)>>,
    worded: bool,
) -> Reading {
    if !board.dell {
        return Err("the letters of the slots are the sockets', and the board does not say how the numbers \
                    map to the channels"
            .into());
    }
    let each = match board.channels {
        Channels::Own(each) => each,
        Channels::Buffered => {
            return Err(
                "the modules are behind memory buffers: their channels are not the processor's".into()
            );
        }
        Channels::Chipset | Channels::Unknown => {
            return Err(
                "the letters of the slots are the sockets'; how many channels the processor has is not known"
                    .into(),
            );
        }
    };
    let every: Vec<&(usize, &Slot)> = groups.values().flatten().collect();
    let first = every.iter().filter_map(|(_, slot)| number(slot)).min().unwrap_or(0);
    let letters: BTreeSet<u32> = every.iter().filter_map(|(_, slot)| letter(slot)).collect();
    let sockets = worded.then(|| board.sockets_by_words()).flatten();
    let partition = split(board, |at, slot| {
        let socket = match &sockets {
            Some(sockets) => sockets[at]?,
            None => rank(&letters, slot.name.letter?),
        };
        Some((socket, Label::Number(slot.name.number?.saturating_sub(first) % each.max(1))))
    });
    let whole = letters.iter().all(|one| {
        let slots = every.iter().filter(|(_, slot)| letter(slot) == Some(*one)).count();
        slots % each.max(1) as usize == 0
    });
    Ok((partition, if whole { Confidence::Medium } else { Confidence::Low }))
}

/// What a name like `3A` means on this board.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Number,
    Letter,
    /// A running number, and the letter is the order in which to fill.
    RunningNumber,
}

/// `P1_DIMM3A`, `DIMM-1B`, `PROC 1 DIMM 3A`.
fn number_first(board: &ChannelEvidence) -> Reading {
    let Some(each) = board.channels.own() else {
        return Err(
            "the slots have a number and a letter; which of them is the channel's is unknown without \
                    the processor's number of channels"
                .into(),
        );
    };
    let groups = by_socket(board);
    let worded = board.sockets_by_words().is_some();
    let spread = if worded { 1 } else { board.sockets };
    let mut meanings: Vec<(Meaning, Confidence)> = Vec::new();
    for slots in groups.values().filter(|slots| slots.iter().any(|(_, slot)| slot.populated)) {
        meanings.extend(meaning(slots, each, spread, board.supermicro));
    }
    let Some((meaning, confidence)) = meanings.iter().min_by_key(|(_, confidence)| *confidence).copied()
    else {
        return Err(
            "the slots have a number and a letter; neither has as many values as the processor has channels"
                .into(),
        );
    };
    if meanings.iter().any(|(other, _)| *other != meaning) {
        return Err(
            "the slots' numbers and letters mean one thing on one socket and another on the next".into()
        );
    }
    let letters: BTreeSet<u32> = groups.values().flat_map(|slots| distinct(slots, letter)).collect();
    let first = groups.values().flatten().filter_map(|(_, slot)| number(slot)).min().unwrap_or(0);
    let sockets = board.sockets_by_words();
    let partition = split(board, |at, slot| {
        let socket = sockets.as_ref().map_or(Some(0), |sockets| sockets[at])?;
        match meaning {
            Meaning::Number => Some((socket, Label::Number(slot.name.number?.saturating_sub(first)))),
            Meaning::RunningNumber => Some((socket, Label::Number(slot.name.letter? % each))),
            Meaning::Letter if worded => Some((socket, Label::Letter(slot.name.letter?))),
            Meaning::Letter => {
                Some((rank(&letters, slot.name.letter?) / each, Label::Letter(slot.name.letter?)))
            }
        }
    });
    Ok((partition, confidence))
}

/// Decides by counting, on one socket (or on `spread` of them, where no word parts them).
fn meaning(
    slots: &[(usize, &Slot)],
    each: u32,
    spread: u32,
    supermicro: bool,
) -> Option<(Meaning, Confidence)> {
    let (letters, numbers) = (distinct(slots, letter), distinct(slots, number));
    let in_all = each.saturating_mul(spread);
    if count(&numbers) as usize == slots.len() && count(&letters) as usize == slots.len() && slots.len() > 1 {
        return runs_on(slots, each).then_some((Meaning::RunningNumber, Confidence::Medium));
    }
    let (by_number, by_letter) = (count(&numbers) == in_all, count(&letters) == in_all);
    match (by_number, by_letter) {
        (true, false) => Some((Meaning::Number, Confidence::Medium)),
        (false, true) => Some((Meaning::Letter, Confidence::Medium)),
        // As many slots on a channel as channels: Supermicro's number is the channel's; elsewhere the table
        // lists a channel's slots together.
        (true, true) if supermicro => Some((Meaning::Number, Confidence::Low)),
        (true, true) => {
            let together = |part: fn(&Slot) -> Option<u32>| {
                slots.windows(2).filter(|pair| part(pair[0].1) == part(pair[1].1)).count()
            };
            match together(number).cmp(&together(letter)) {
                std::cmp::Ordering::Greater => Some((Meaning::Number, Confidence::Low)),
                std::cmp::Ordering::Less => Some((Meaning::Letter, Confidence::Low)),
                std::cmp::Ordering::Equal => None,
            }
        }
        // Only populated slots are listed, or one slot a channel: what does not vary is the slot.
        (false, false) if letters.len() == 1 && count(&numbers) <= in_all => {
            Some((Meaning::Number, Confidence::Low))
        }
        (false, false) if numbers.len() == 1 && count(&letters) <= in_all => {
            Some((Meaning::Letter, Confidence::Low))
        }
        (false, false) => None,
    }
}

/// HP: slots are numbered along the board, neighbours share a channel, and the letters go round the channels
/// in the order of filling. Both tell the channels; true where they tell the same.
fn runs_on(slots: &[(usize, &Slot)], each: u32) -> bool {
    let total = u32::try_from(slots.len()).unwrap_or(u32::MAX);
    let Some(on_a_channel) = total.checked_div(each).filter(|share| share * each == total) else {
        return false;
    };
    let first = slots.iter().filter_map(|(_, slot)| number(slot)).min().unwrap_or(0);
    let mut pairs: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (_, slot) in slots {
        let (Some(number), Some(letter)) = (number(slot), letter(slot)) else { return false };
        pairs.entry((number - first) / on_a_channel.max(1)).or_default().insert(letter % each);
    }
    let all: BTreeSet<u32> = pairs.values().flatten().copied().collect();
    pairs.values().all(|letters| letters.len() == 1) && all.len() == pairs.len()
}
