//! What the tests of several crates are made of: recorded systems, machines, plans and chance. Never part of
//! the program.

#![forbid(unsafe_code)]

mod bytes;
mod cases;
mod dice;
mod experiment;
mod folder;
pub mod lspci_of_2010;
mod machines;
mod plan_inputs;
mod seeds;
pub mod server;
mod tree;
pub mod verdicts;

pub use bytes::{content, next};
pub use cases::{cases, drawn};
pub use dice::Dice;
pub use experiment::{experiment, taken_part};
pub use folder::folder_in_memory;
pub use machines::{machine, nic};
pub use plan_inputs::{goal, paths, sources};
pub use seeds::{find_each, is_planted, simulated};
pub use tree::Tree;
