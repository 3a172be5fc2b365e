//! The machine as a block diagram, like the figures of SARA's D1.3: nodes with their processors and memory side by side, below each its
//! PCIe roots, switches, cards, and at the end ports and disks; the edges say what the links carry.
//!
//! Three steps: [`picture`] says what is drawn, [`layout`] where, [`draw`] how. A tree lies on its side: a root or a switch is a bar
//! as tall as all that hangs on it, so that each link is one straight line with its rates on it, and nothing crosses.

mod draw;
mod edge;
mod layout;
mod leaf;
mod machine;
mod picture;
mod style;
mod tree;

use crate::probe::Machine;

/// The whole picture.
pub(super) fn svg(machine: &Machine) -> String {
    let picture = picture::picture(machine);
    draw::draw(&picture, &layout::layout(&picture))
}

#[cfg(test)]
mod tests;
