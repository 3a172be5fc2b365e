//! PCI functions of a machine that one does not own, from what `lspci` printed there.
//!
//! Forms, each known by its lines, in any mixture and order in one text: the verbose listing (`lspci -vv`,
//! also `-v`, `-vvv`, `-nn`, `-n`, `-D`), the tree (`lspci -vt`), those for programs (`-mm`, `-vmm`), and the
//! hex dump (`lspci -xxx`), which is decoded from its bytes. What several of them say of one function is put
//! together, bytes before words. Lines that are none of this (prompts, other capabilities) are passed over.
//!
//! The tree shows the buses behind each bridge and the names of functions:
//!
//! ```text
//! -+-[0000:00]-+-00.0  Intel Corporation 5520 I/O Hub to ESI Port
//!  |           +-03.0-[02-05]----00.0-[03-05]--+-00.0-[04]----00.0  SAS controller
//!  |           |                               \-02.0-[05]--
//!  |           \-1f.3  SMBus
//!  \-[0000:ff]---00.0  Registers
//! ```
//!
//! A `+` or `\` stands for one more member of a group of branches, `\` for its last; `|` for a group that
//! goes on further down. So the number of `|` before the first member of a line gives its group, and columns,
//! which a text loses when it is passed on, do not matter (`show_tree_bus`, `print_it` in pciutils'
//! `ls-tree.c`).

mod head;
#[cfg(test)]
mod tests;
mod verbose;

use super::machine::{Express, PciDevice, PciLink};
use super::pci::address::{Address, Buses, hexadecimal, parents};
use super::pci::config::{self, CONFIG_BYTES, ConfigSpace};
use super::pci::link;
use crate::topology::DEEPEST;
use head::Head;
use linerate_facts::fact::Fact;
use std::collections::BTreeMap;
use thiserror::Error;
use verbose::VerboseFacts;

/// As many as one domain can hold; the largest servers show some thousand.
const MOST_FUNCTIONS: usize = 65_536;

const NAME_ONLY: &str = "only its name is given: lspci -nn shows the number";

/// A text without any PCI function in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LspciError {
    /// Nothing but blanks.
    #[error("no PCI device: the text is empty; `lspci -vv` as root prints what is read here")]
    Empty,
    /// Other text.
    #[error(
        "line {line}: no PCI device begins here or later: “{text}”; wanted is what `lspci -vv`, `lspci -vt` \
         or `lspci -xxx` prints"
    )]
    NoDevice {
        /// Number of the first line with anything in it, from 1.
        line: usize,
        /// How that line begins.
        text: String,
    },
    /// Not of a machine.
    #[error("line {line}: more than {MOST_FUNCTIONS} PCI functions; is this the listing of one machine?")]
    TooMany {
        /// Number of the line before which there were too many, from 1.
        line: usize,
    },
}

/// What was read, by function.
type Blocks = BTreeMap<Address, Block>;

/// PCI functions in address order from a text of `lspci`. What it does not report is unknown, with the
/// reason.
pub fn from_lspci(text: &str) -> Result<Vec<PciDevice>, LspciError> {
    let mut blocks = Blocks::new();
    let mut tree = Tree::default();
    let mut records = head::Records::default();
    let mut current = None;
    for (line, number) in text.lines().map(str::trim_end).zip(1..) {
        if blocks.len() > MOST_FUNCTIONS {
            return Err(LspciError::TooMany { line: number });
        }
        let rewritten = head::line(line).or_else(|| records.line(line));
        if rewritten.as_deref() == Some("") {
            continue;
        }
        let line = rewritten.as_deref().unwrap_or(line);
        if let Some((address, rest)) = head::address(line) {
            tree = Tree::default();
            current = Some(address);
            blocks.entry(address).or_default().head(rest);
        } else if tree.line(line, &mut blocks) || line.is_empty() {
            current = None;
        } else if let Some(block) = current.and_then(|address| blocks.get_mut(&address)) {
            block.line(line.trim_start());
        }
    }
    if blocks.is_empty() {
        return Err(no_device(text));
    }
    let buses = blocks.iter().map(|(address, block)| (*address, block.buses())).collect();
    let parents = parents(&buses);
    let device = |(address, block): (Address, Block)| {
        let parent = parents.get(&address).map(Address::to_string);
        block.finish(address.to_string(), parent)
    };
    Ok(blocks.into_iter().map(device).collect())
}

fn no_device(text: &str) -> LspciError {
    let first = text.lines().zip(1..).find(|(line, _)| !line.trim().is_empty());
    let Some((first, line)) = first else { return LspciError::Empty };
    LspciError::NoDevice { line, text: first.trim().chars().take(60).collect() }
}

/// A line with which a listing may begin.
pub(in crate::probe) fn begins(line: &str) -> bool {
    let of_function =
        head::address(line).is_some_and(|(_, rest)| rest.starts_with('"') || rest.contains(": "));
    let of_tree = line.starts_with("-[") && line.contains("]-");
    of_function || of_tree || line.starts_with("Slot:\t")
}

/// Base and sub class by the list's name for it.
pub(in crate::probe) fn class_of(name: &str) -> Option<u32> {
    head::code_of_class(name)
}

/// What was read of one function, in however many places of the text.
#[derive(Clone, Debug, Default)]
struct Block {
    head: Head,
    words: VerboseFacts,
    /// Hex dump, as far as it goes without a gap.
    bytes: Vec<u8>,
    /// Buses behind it, as the tree draws them.
    drawn: Option<Buses>,
}

impl Block {
    /// The rest of a first line. What an earlier one had and this one has not, stays.
    fn head(&mut self, rest: &str) {
        self.head = head::parse(rest).or(std::mem::take(&mut self.head));
    }

    /// One line below the first, without its indentation.
    fn line(&mut self, line: &str) {
        match dump_line(line) {
            Some((0, bytes)) => self.bytes = bytes,
            Some((at, mut bytes)) if at == self.bytes.len() && at < CONFIG_BYTES => {
                self.bytes.append(&mut bytes);
            }
            Some(_) => {}
            None => self.words.line(line),
        }
    }

    /// Its name in the tree, and the buses behind it.
    fn drawn(&mut self, name: &str, buses: Option<Buses>) {
        self.head = std::mem::take(&mut self.head).or(head::named(name));
        self.drawn = buses.or(self.drawn);
    }

    /// Buses behind it, where it is a bridge: from its bytes, its words, or the tree.
    fn buses(&self) -> Option<Buses> {
        self.config().and_then(|config| config.buses).or(self.words.buses).or(self.drawn)
    }

    fn config(&self) -> Option<ConfigSpace> {
        (!self.bytes.is_empty()).then(|| config::decode(&self.bytes))
    }

    /// The function, bytes before words.
    fn finish(self, address: String, parent: Option<String>) -> PciDevice {
        let why = self.words.why_missing();
        let words_on_parallel = self.words.parallel();
        let config = self.config().unwrap_or_else(|| ConfigSpace::unreadable(why));
        let words = self.words;
        let express = config.express;
        // A tree draws names alone.
        let by_name = || head::of_device(self.head.name.as_deref()?).map(|code| code << 8);
        let class = self.head.class.or_else(by_name);
        PciDevice {
            address,
            class: either(config.class, Some(Fact::from_option(class, NAME_ONLY))),
            vendor: either(config.vendor, Some(Fact::from_option(self.head.vendor, NAME_ONLY))),
            device: either(config.device, Some(Fact::from_option(self.head.device, NAME_ONLY))),
            driver: Fact::from_option(words.driver, "lspci reported no driver"),
            node: Fact::from_option(words.node, "lspci reported no NUMA node"),
            name: Fact::from_option(self.head.name, "lspci reported no name"),
            card_name: words.card_name,
            link: either(config.link, words.link),
            link_max: either(config.link_max, words.link_max.map(|most| capped(most, words.fastest))),
            express: Express {
                port: either(express.port, words.port),
                max_payload_bytes: either(express.max_payload_bytes, words.max_payload),
                max_payload_supported_bytes: either(
                    express.max_payload_supported_bytes,
                    words.max_payload_supported,
                ),
                max_read_request_bytes: either(express.max_read_request_bytes, words.max_read_request),
                power_saving: either(express.power_saving, words.power_saving),
                slot: either(either(express.slot, words.slot), words.in_slot),
                target_gt_per_second: either(express.target_gt_per_second, words.target),
                autonomous_change: either(express.autonomous_change, words.autonomous_change),
            },
            gpu_direct: None,
            parallel: link::real(either(config.parallel, words_on_parallel), parent.is_some()),
            parallel_below: either(config.parallel_below, words.parallel_below),
            parent,
        }
    }
}

/// The most that an end can do, where its list of speeds ends below its highest speed.
fn capped(most: Fact<PciLink>, fastest: Option<f64>) -> Fact<PciLink> {
    most.map(|most| PciLink { gt_per_second: most.gt_per_second.min(fastest.unwrap_or(f64::MAX)), ..most })
}

/// What the bytes say, else what the words say, else why the bytes do not.
fn either<T>(bytes: Fact<T>, fact: Option<Fact<T>>) -> Fact<T> {
    match bytes {
        Fact::Known(_) => bytes,
        Fact::Unknown { .. } => fact.unwrap_or(bytes),
    }
}

/// Offset and bytes of a line of a dump: `40: 10 e0 42 00 …`, at most sixteen.
fn dump_line(line: &str) -> Option<(usize, Vec<u8>)> {
    let (offset, rest) = line.split_once(": ")?;
    let offset = hexadecimal(offset, 2..=8)?;
    let byte = |word: &str| u8::try_from(hexadecimal(word, 2..=2)?).ok();
    let bytes: Option<Vec<u8>> = rest.split_ascii_whitespace().take(16).map(byte).collect();
    Some((usize::try_from(offset).ok()?, bytes?))
}

/// The bus that members of a group are on; none where the members are buses themselves.
type Bus = Option<(u32, u8)>;

/// Groups that are open at the end of a line.
#[derive(Clone, Debug, Default)]
struct Tree {
    groups: Vec<Group>,
    drawing: bool,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    bus: Bus,
    /// Its last member was drawn.
    ended: bool,
}

impl Tree {
    /// Reads a line if it is one of a tree: what it tells goes into the block of its function.
    fn line(&mut self, line: &str, blocks: &mut Blocks) -> bool {
        let text = line.trim_start();
        if text.starts_with("-[") || text.starts_with("-+-[") {
            *self = Tree { groups: Vec::new(), drawing: true };
            self.members(text, None, true, blocks);
            return true;
        }
        if !self.drawing || !text.starts_with(['|', '+', '\\']) {
            self.drawing = false;
            return false;
        }
        let bars =
            text.bytes().take_while(|byte| matches!(byte, b'|' | b' ')).filter(|byte| *byte == b'|').count();
        let rest = text.trim_start_matches(['|', ' ']);
        let mut open = (0..self.groups.len()).filter(|at| !self.groups[*at].ended);
        if let (Some(at), true) = (open.nth(bars), rest.starts_with(['+', '\\'])) {
            self.groups.truncate(at + 1);
            self.groups[at].ended = rest.starts_with('\\');
            let bus = self.groups[at].bus;
            self.members(&rest[1..], bus, false, blocks);
        }
        true
    }

    /// Reads the members of a line from left to right. `fresh`: a `+` begins a new group; else it repeats the
    /// one that was found.
    fn members(&mut self, mut text: &str, mut bus: Bus, mut fresh: bool, blocks: &mut Blocks) {
        let mut bridge: Option<Address> = None;
        loop {
            text = text.trim_start_matches('-');
            match text.as_bytes().first() {
                Some(mark @ (b'+' | b'\\')) => {
                    if fresh && self.groups.len() < DEEPEST {
                        self.groups.push(Group { bus, ended: *mark == b'\\' });
                    }
                    fresh = false;
                    text = &text[1..];
                }
                Some(b'[') => {
                    let Some((inside, rest)) = text[1..].split_once(']') else { return };
                    let Some((domain, buses)) = behind(inside) else { return };
                    let domain = domain.or(bus.map(|(domain, _)| domain)).unwrap_or(0);
                    if let Some(at) = bridge.take() {
                        blocks.entry(at).or_default().drawn("", Some(Buses { primary: at.bus, ..buses }));
                    }
                    bus = Some((domain, buses.secondary));
                    (text, fresh) = (rest, true);
                }
                _ => {
                    // Two functions in a row, without a bus between them: the upper one is a bridge that is
                    // not set up.
                    let (Some((domain, number)), None) = (bus, bridge) else { return };
                    let Some((address, rest)) = function(text, domain, number) else { return };
                    let known = blocks.entry(address).or_default();
                    if !rest.starts_with('-') {
                        known.drawn(rest.trim(), None);
                        return;
                    }
                    bridge = Some(address);
                    (text, fresh) = (rest, true);
                }
            }
        }
    }
}

/// `04`, `03-05`, `0000:04`, `0000:03-05`: a domain where it is reported, and the buses.
fn behind(inside: &str) -> Option<(Option<u32>, Buses)> {
    let (domain, range) = match inside.split_once(':') {
        Some((domain, range)) => (Some(hexadecimal(domain, 4..=8)?), range),
        None => (None, inside),
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let byte = |digits: &str| u8::try_from(hexadecimal(digits, 2..=2)?).ok();
    Some((domain, Buses { primary: 0, secondary: byte(first)?, subordinate: byte(last)? }))
}

/// `1f.3` and what follows.
fn function(text: &str, domain: u32, bus: u8) -> Option<(Address, &str)> {
    let (short, rest) = text.split_at_checked(4)?;
    let (device, function) = short.split_once('.')?;
    let byte = |digits: &str, length: usize| u8::try_from(hexadecimal(digits, length..=length)?).ok();
    Some((Address { domain, bus, device: byte(device, 2)?, function: byte(function, 1)? }, rest))
}
