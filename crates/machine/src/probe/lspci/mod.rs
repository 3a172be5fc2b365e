//! PCI functions of a machine that one does not own, from what `lspci` printed there.
//!
//! Forms, each known by its lines, in any mixture and order in one text: the verbose listing (`lspci -vv`, also
//! `-v`, `-vvv`, `-nn`, `-n`, `-D`), the tree (`lspci -vt`), those for programs (`-mm`, `-vmm`), and the hex dump
//! (`lspci -xxx`), which is decoded from its bytes. What several of them say of one function is put together, bytes before
//! words. Lines that are none of this (prompts, other capabilities) are passed over.

mod block;
mod class;
mod head;
mod programs;
mod tree;
mod verbose;

use crate::probe::machine::PciDevice;
use crate::probe::pci::address::{Address, parents};
use block::Block;
use std::collections::BTreeMap;
use thiserror::Error;

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

/// As many as one domain can hold; the largest servers show some thousand.
const MOST_FUNCTIONS: usize = 65_536;

/// What was read, by function.
type Blocks = BTreeMap<Address, Block>;

/// PCI functions in address order from a text of `lspci`. What it does not report is unknown, with the
/// reason.
pub fn from_lspci(text: &str) -> Result<Vec<PciDevice>, LspciError> {
    let mut blocks = Blocks::new();
    let mut tree = tree::Tree::default();
    let mut records = programs::Records::default();
    let mut current = None;
    for (line, number) in text.lines().map(str::trim_end).zip(1..) {
        if blocks.len() > MOST_FUNCTIONS {
            return Err(LspciError::TooMany { line: number });
        }
        let rewritten = programs::line(line).or_else(|| records.line(line));
        if rewritten.as_deref() == Some("") {
            continue;
        }
        let line = rewritten.as_deref().unwrap_or(line);
        if let Some((address, rest)) = head::address(line) {
            tree = tree::Tree::default();
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
    class::code(name)
}

#[cfg(test)]
mod tests;
