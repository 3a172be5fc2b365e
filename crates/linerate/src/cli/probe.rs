//! `linerate probe`: what the server is.

use super::commands::print;
use super::words::{ProbeWords, machine_of};
use crate::failure::Failure;
use crate::probe::tree::show_tree;

/// Shows the machine as a tree or as JSON.
pub fn show_probe(words: &ProbeWords) -> Result<u8, Failure> {
    let machine = machine_of(&words.machine)?;
    if words.json {
        let json = serde_json::to_string_pretty(&machine)
            .map_err(|error| Failure::Lacks(format!("the machine cannot be written as JSON: {error}")))?;
        print(&format!("{json}\n"))?;
    } else {
        print(&show_tree(&machine))?;
    }
    Ok(0)
}
