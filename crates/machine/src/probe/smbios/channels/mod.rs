//! Which slot is on which memory channel. SMBIOS has no field for it; boards hide it in the slots' names,
//! each maker in its own way.
//!
//! Four readings, the surest first: the channel in words; a letter and a number; a running number;
//! and, where the names tell nothing, what follows from all slots being full. What contradicts the
//! processor's number of channels is not a reading.

mod lettered;
mod worded;

use super::Firmware;
use super::locator::{Label, LocatorParts, words};
use super::processor::{self, Channels};
use crate::probe::{Confidence, MemoryChannel};
use linerate_facts::fact::Fact;
use std::collections::{BTreeMap, BTreeSet};

/// No board has more slots on one channel (FB-DIMM had up to four).
const MOST_SLOTS_ON_A_CHANNEL: usize = 4;
/// Data bits of a channel; two narrower ones stand for one (the 32-bit halves of DDR5, LPDDR).
const CHANNEL_BITS: u32 = 64;

/// The channels of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MemoryChannels {
    /// Channel of each module, in the order of [`Firmware::modules`].
    pub(super) of_modules: Vec<Fact<MemoryChannel>>,
    /// Channels that hold a module.
    pub(super) populated: Fact<u32>,
    /// How sure both are.
    pub(super) confidence: Confidence,
}

/// A channel before it is numbered: node, controller, name.
type Name = (u32, u32, Label);
/// Socket and channel of each slot that is known.
type Partition = Vec<Option<(u32, Name)>>;
/// A partition and how sure it is, or why this way of reading does not report.
type Reading = Result<(Partition, Confidence), String>;

/// One slot with its words.
struct Slot {
    name: LocatorParts,
    bank: LocatorParts,
    /// The bank locator is one letter and nothing else.
    bank_letter: Option<u32>,
    populated: bool,
    array: Option<u32>,
    width_bits: u32,
}

/// What the ways of reading look at.
struct ChannelEvidence {
    slots: Vec<Slot>,
    /// Sockets that the firmware lists, at least 1.
    sockets: u32,
    /// Channels of one processor.
    channels: Channels,
    /// The firmware lists as many slots as it says there are.
    complete: bool,
    dell: bool,
    hewlett_packard: bool,
    supermicro: bool,
}

/// Infers the channels from the names of the slots, or from all of them being full.
pub(super) fn infer(firmware: &Firmware) -> MemoryChannels {
    let board = ChannelEvidence::new(firmware);
    if let Some(name) = &firmware.hypervisor {
        return board.unknown(&format!("a virtual machine ({name}): its DIMMs are made up"));
    }
    if board.slots.is_empty() {
        return board.unknown("the firmware lists no memory devices (SMBIOS type 17)");
    }
    if !board.slots.iter().any(|slot| slot.populated) {
        return board.unknown("no slot holds a module");
    }
    let readings: [fn(&ChannelEvidence) -> Reading; 3] = [worded::read, lettered::read, worded::read_numbers];
    // The first reason that is more than "not so" is the one to give.
    let mut why = String::new();
    let mut contradicted = false;
    for read in readings {
        let reason = match read(&board) {
            Ok((partition, confidence)) => match board.check(&partition) {
                Ok(()) => return board.numbered(partition, confidence),
                Err(reason) => {
                    contradicted = true;
                    reason
                }
            },
            Err(reason) => reason,
        };
        if why.is_empty() {
            why = reason;
        }
    }
    if why.is_empty() {
        why = "the names of the slots do not name the channels".into();
    }
    let mut inferred = board.unknown(&why);
    // Where names and processor contradict each other, the number of its channels proves nothing.
    if let Some(channels) = worded::by_occupancy(&board).filter(|_| !contradicted) {
        inferred.populated = Fact::Known(channels);
        inferred.confidence = Confidence::Low;
    }
    inferred
}

impl ChannelEvidence {
    fn new(firmware: &Firmware) -> Self {
        let announced: Option<u64> =
            firmware.arrays.iter().map(|array| array.slots.known().copied().map(u64::from)).sum();
        ChannelEvidence {
            slots: firmware.modules.iter().map(Slot::new).collect(),
            sockets: u32::try_from(firmware.sockets.len()).unwrap_or(u32::MAX).max(1),
            channels: processor::of(&firmware.sockets),
            complete: announced.is_some_and(|slots| usize::try_from(slots) == Ok(firmware.modules.len())),
            dell: firmware.is_of(&["dell", "poweredge"]),
            supermicro: firmware.is_of(&["supermicro"]),
            hewlett_packard: firmware.is_of(&["hp", "hpe", "hewlett", "proliant"]),
        }
    }

    fn unknown(&self, why: &str) -> MemoryChannels {
        MemoryChannels {
            of_modules: vec![Fact::unknown(why); self.slots.len()],
            populated: Fact::unknown(why),
            confidence: Confidence::None,
        }
    }

    /// The socket of each slot where the words say it, counted from 0; `None` where a populated slot lacks
    /// it. A node in the slot's own name (`NODE0-1A`) stands for a socket.
    fn sockets_by_words(&self) -> Option<Vec<Option<u32>>> {
        let by_name = |slot: &Slot| slot.name.socket;
        let by_bank = |slot: &Slot| slot.bank.socket;
        let by_node = |slot: &Slot| slot.name.node;
        self.zero_based(by_name).or_else(|| self.zero_based(by_bank)).or_else(|| self.by_rank(by_node))
    }

    /// Numbers of the slots counted from 0: boards begin at 0 or at 1. `None` where a populated slot lacks
    /// one.
    fn zero_based(&self, number: impl Fn(&Slot) -> Option<u32>) -> Option<Vec<Option<u32>>> {
        let all: Vec<Option<u32>> = self.slots.iter().map(&number).collect();
        let whole = self.slots.iter().zip(&all).all(|(slot, number)| !slot.populated || number.is_some());
        let first = u32::from(!all.contains(&Some(0)));
        whole.then(|| all.iter().map(|number| number.map(|number| number.saturating_sub(first))).collect())
    }

    /// The socket of each slot where only NUMA nodes or the arrays tell it, counted from 0.
    fn sockets_by_groups(&self) -> Option<Vec<Option<u32>>> {
        let node = |slot: &Slot| slot.bank.node.or(slot.name.node);
        self.by_rank(node).or_else(|| self.by_rank(|slot| slot.array))
    }

    /// Sockets by a number that has as many values as there are sockets, or a multiple (several nodes in a
    /// socket).
    fn by_rank(&self, number: impl Fn(&Slot) -> Option<u32>) -> Option<Vec<Option<u32>>> {
        let all = self.zero_based(&number)?;
        let distinct: BTreeSet<u32> = all.iter().copied().flatten().collect();
        let count = u32::try_from(distinct.len()).ok()?;
        (count >= self.sockets && count % self.sockets == 0).then_some(())?;
        let ranks: BTreeMap<u32, u32> = distinct.into_iter().zip(0..).collect();
        let a_socket = count / self.sockets;
        Some(all.iter().map(|number| Some(ranks.get(&(*number)?)? / a_socket)).collect())
    }

    /// A reading must not put more channels on a socket than its processor has, nor more slots on a channel
    /// than fit.
    fn check(&self, partition: &Partition) -> Result<(), String> {
        let populated = || self.slots.iter().filter(|slot| slot.populated);
        let narrowest = populated().map(|slot| slot.width_bits).min().unwrap_or(CHANNEL_BITS);
        let mut channels: BTreeMap<(u32, Name), (usize, u32)> = BTreeMap::new();
        for (slot, place) in self.slots.iter().zip(partition) {
            match place {
                Some(place) => {
                    let (slots, width) = channels.entry(*place).or_insert((0, narrowest));
                    *slots += 1;
                    *width = if slot.populated { slot.width_bits.max(*width) } else { *width };
                }
                None if slot.populated => return Err(String::new()),
                None => {}
            }
        }
        if let Some((most, _)) = channels.values().max().filter(|(most, _)| *most > MOST_SLOTS_ON_A_CHANNEL) {
            return Err(format!("the names of the slots put {most} of them on one channel"));
        }
        let mut bits: BTreeMap<u32, u32> = BTreeMap::new();
        for ((socket, _), (_, width)) in &channels {
            let sum = bits.entry(*socket).or_default();
            *sum = sum.saturating_add(*width);
        }
        let most = bits.values().max().copied().unwrap_or(0).div_ceil(CHANNEL_BITS);
        match self.channels.own() {
            Some(own) if most > own => Err(format!(
                "the names of the slots give {most} channels of a socket, the processor has {own}"
            )),
            _ => Ok(()),
        }
    }

    /// The channels of each socket numbered from 0, by their own numbers where those are unambiguous.
    fn numbered(&self, partition: Partition, confidence: Confidence) -> MemoryChannels {
        let mut of_sockets: BTreeMap<u32, BTreeSet<Name>> = BTreeMap::new();
        for (socket, name) in partition.iter().flatten() {
            of_sockets.entry(*socket).or_default().insert(*name);
        }
        let number = |(socket, name): (u32, Name)| {
            let names = &of_sockets[&socket];
            let alone = names.iter().all(|other| (other.0, other.1) == (name.0, name.1));
            let channel = match name.2 {
                Label::Number(number) if alone => number,
                _ => u32::try_from(names.range(..name).count()).unwrap_or(u32::MAX),
            };
            MemoryChannel { socket, channel }
        };
        let of_modules: Vec<Fact<MemoryChannel>> = partition
            .into_iter()
            .map(|place| Fact::from_option(place.map(number), "the name of this slot gives no channel"))
            .collect();
        let populated = self.slots.iter().zip(&of_modules).filter(|(slot, _)| slot.populated);
        let populated: BTreeSet<_> = populated.filter_map(|(_, channel)| channel.known()).collect();
        MemoryChannels {
            populated: Fact::Known(u32::try_from(populated.len()).unwrap_or(u32::MAX)),
            of_modules,
            confidence,
        }
    }
}

impl Slot {
    fn new(module: &crate::probe::MemoryModule) -> Self {
        let bank_letter = match module.bank.trim().as_bytes() {
            [letter @ b'A'..=b'Z'] => Some(u32::from(letter - b'A')),
            _ => None,
        };
        Slot {
            name: words(&module.locator),
            bank: words(&module.bank),
            bank_letter,
            populated: module.populated(),
            array: module.array.known().copied(),
            width_bits: super::bandwidth::data_bits(module).unwrap_or(CHANNEL_BITS),
        }
    }
}

#[cfg(test)]
mod tests;
