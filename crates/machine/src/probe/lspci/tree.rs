//! The tree that `lspci -vt` draws, for the buses behind each bridge and the names of functions.
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

use super::Blocks;
use crate::probe::pci::address::{Address, Buses, hexadecimal};
use crate::topology::DEEPEST;

/// The bus that members of a group are on; none where the members are buses themselves.
type Bus = Option<(u32, u8)>;

/// Groups that are open at the end of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
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
    pub(super) fn line(&mut self, line: &str, blocks: &mut Blocks) -> bool {
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
