//! What is replaced, and by what: the same thing by the same thing everywhere.
//!
//! A capture is rewritten twice. In the first pass everything is noted and nothing replaced; then each thing
//! gets a name that none of the noted things has; in the second pass it is replaced.

use super::addresses::Addresses;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Things that a hostile tree may hold of each kind; what comes later is replaced by one name for all.
const MOST_NAMES: usize = 50_000;
/// Shorter words are everywhere.
const SHORTEST_HELD_BACK: usize = 4;
/// A serial number that is shorter may be part of another word.
const SHORTEST_SURE_SERIAL: usize = 8;

/// How many different things of each kind were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// Ethernet and InfiniBand hardware addresses, and GUIDs.
    pub hardware_addresses: usize,
    /// IP addresses and networks.
    pub ip_addresses: usize,
    /// This host and those that its mounts name.
    pub hosts: usize,
    /// Serial numbers, asset tags, world-wide names.
    pub serials: usize,
    /// UUIDs.
    pub uuids: usize,
    /// Folders, users, labels, volumes.
    pub names: usize,
    /// Files that were left out: binary ones, and those whose words nobody has looked at.
    pub left_out: usize,
}

/// Kinds of things with names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Mac,
    Guid,
    Uuid,
    Host,
    Serial,
    /// A serial in hexadecimal digits, as NVMe names hold it.
    Encoded,
    Word,
}

/// Everything that is replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    settled: bool,
    names: BTreeMap<(NameKind, String), String>,
    addresses: Addresses,
    /// Hosts, serials and names of several words in any text, by their first two bytes; longest first.
    index: BTreeMap<[u8; 2], Vec<(String, String, bool)>>,
    spared: BTreeSet<String>,
    left_out: usize,
    /// Words of the files that were left out.
    held_back: BTreeSet<String>,
}

impl Names {
    /// Notes a thing, or gives what replaces it.
    pub(crate) fn of(&mut self, kind: NameKind, original: &str) -> String {
        let key = (kind, comparable(kind, original));
        if self.settled {
            return self.names.get(&key).cloned().unwrap_or_else(|| invent(kind, original, 0));
        }
        if self.names.len() < MOST_NAMES {
            self.names.entry(key).or_default();
        }
        original.to_string()
    }

    /// It was noted.
    pub(crate) fn has(&self, kind: NameKind, original: &str) -> bool {
        self.names.contains_key(&(kind, comparable(kind, original)))
    }

    /// A host's name that the kernel uses, too (`cpu0`, `vm`): it is replaced only where a host's name
    /// stands.
    pub(crate) fn spare(&mut self, word: &str) {
        self.spared.insert(word.to_string());
    }

    /// What replaces a thing, if it was noted.
    pub(crate) fn known(&self, kind: NameKind, original: &str) -> Option<&str> {
        self.names.get(&(kind, comparable(kind, original))).map(String::as_str).filter(|_| self.settled)
    }

    /// Notes an address, or gives what replaces it.
    pub(crate) fn address(&mut self, address: IpAddr) -> IpAddr {
        if self.settled {
            return self.addresses.renamed(address).unwrap_or(address);
        }
        self.addresses.note(address);
        address
    }

    /// What replaces an address, if it was noted.
    pub(crate) fn known_address(&self, address: IpAddr) -> Option<IpAddr> {
        self.addresses.renamed(address).filter(|_| self.settled)
    }

    /// A file was left out.
    pub(crate) fn leave_out(&mut self, bytes: &[u8]) {
        self.left_out += usize::from(self.settled);
        let text = String::from_utf8_lossy(bytes);
        self.held_back.extend(revealing_words(&text).take(MOST_NAMES).map(str::to_ascii_lowercase));
    }

    /// A word of a file that was left out is in the text.
    pub(crate) fn repeats_what_was_left_out(&self, text: &str) -> bool {
        !self.held_back.is_empty()
            && revealing_words(text).any(|word| self.held_back.contains(&word.to_ascii_lowercase()))
    }

    /// Gives names to all that was noted.
    pub(crate) fn settle(&mut self) {
        let originals: BTreeSet<String> = self.names.keys().map(|(_, text)| text.clone()).collect();
        let mut number = 0;
        let mut last = None;
        for ((kind, original), name) in &mut self.names {
            if last.replace(*kind) != Some(*kind) {
                number = 0;
            }
            *name = loop {
                number += 1;
                let invented = invent(*kind, original, number);
                if !originals.contains(&comparable(*kind, &invented)) {
                    break invented;
                }
            };
        }
        self.addresses.settle();
        for ((kind, original), name) in &self.names {
            let anywhere = match kind {
                NameKind::Host | NameKind::Serial | NameKind::Encoded => !self.spared.contains(original),
                NameKind::Word => {
                    original.starts_with(char::is_alphanumeric) && !original.chars().all(is_in_word)
                }
                NameKind::Mac | NameKind::Guid | NameKind::Uuid => false,
            };
            if let (true, [first, second, ..]) = (anywhere, original.as_bytes()) {
                // A serial may be next to other digits (NVMe names are put together so); a host's name
                // and the owner's words stand for themselves.
                let digits = original.bytes().all(|byte| byte.is_ascii_digit());
                let bounded = matches!(kind, NameKind::Host | NameKind::Word)
                    || digits
                    || original.len() < SHORTEST_SURE_SERIAL;
                let entry = (original.clone(), name.clone(), bounded);
                self.index
                    .entry([*first, *second].map(|byte| byte.to_ascii_lowercase()))
                    .or_default()
                    .push(entry);
            }
        }
        self.index
            .values_mut()
            .for_each(|same| same.sort_by_key(|(original, ..)| std::cmp::Reverse(original.len())));
        self.settled = true;
    }

    /// A host or serial that begins at a place of a text: its length and what replaces it.
    pub(crate) fn starting(&self, text: &str, at: usize) -> Option<(usize, &str)> {
        let bytes = text.as_bytes();
        let start = [bytes.get(at)?, bytes.get(at + 1)?].map(u8::to_ascii_lowercase);
        let is_word = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphanumeric);
        let found = self.index.get(&start)?.iter().find(|(original, _, bounded)| {
            let end = at + original.len();
            bytes.get(at..end).is_some_and(|here| here.eq_ignore_ascii_case(original.as_bytes()))
                && !(*bounded && (is_word(bytes.get(end)) || at > 0 && is_word(bytes.get(at - 1))))
        })?;
        Some((found.0.len(), &found.1))
    }

    /// How many things were replaced.
    pub(crate) fn replaced(&self) -> Replaced {
        let count = |kind: NameKind| self.names.keys().filter(|(other, _)| *other == kind).count();
        Replaced {
            hardware_addresses: count(NameKind::Mac) + count(NameKind::Guid),
            ip_addresses: self.addresses.replaced(),
            hosts: count(NameKind::Host),
            serials: count(NameKind::Serial),
            uuids: count(NameKind::Uuid),
            names: count(NameKind::Word),
            left_out: self.left_out,
        }
    }
}

/// What else is in a name parts it into several words of a sentence.
pub(crate) fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || "-_.@+".contains(c)
}

/// Words that are long enough to tell something.
fn revealing_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() >= SHORTEST_HELD_BACK)
}

/// Hexadecimal things are the same in either case.
fn comparable(kind: NameKind, text: &str) -> String {
    match kind {
        NameKind::Mac | NameKind::Guid | NameKind::Uuid => text.to_ascii_lowercase(),
        NameKind::Host | NameKind::Serial | NameKind::Encoded | NameKind::Word => text.to_string(),
    }
}

/// The n-th name of a kind, of the form of the original; a serial's has its length, so that it can be written
/// over it.
fn invent(kind: NameKind, original: &str, number: usize) -> String {
    let length = original.len();
    match kind {
        NameKind::Mac => {
            let groups = length.div_ceil(3);
            let bytes = number.to_be_bytes();
            // 02: locally administered.
            let own = (1..groups).rev().map(|left| bytes.len().checked_sub(left).map_or(0, |at| bytes[at]));
            std::iter::once(2).chain(own).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
        }
        NameKind::Guid => {
            let digits = format!("{number:0width$x}", width = length.div_ceil(5) * 4);
            digits.as_bytes().chunks(4).map(String::from_utf8_lossy).collect::<Vec<_>>().join(":")
        }
        NameKind::Uuid => format!("00000000-0000-4000-8000-{number:012x}"),
        NameKind::Host => format!("host{number}"),
        NameKind::Serial | NameKind::Encoded if original.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            let digits = format!("{number:0length$x}");
            digits[digits.len() - length..].to_string()
        }
        NameKind::Serial | NameKind::Encoded => {
            let digits = format!("S{number:0width$}", width = length.saturating_sub(1));
            digits[digits.len().saturating_sub(length)..].to_string()
        }
        NameKind::Word => format!("name{number}"),
    }
}
