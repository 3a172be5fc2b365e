//! `linerate probe`: what the server is.

use super::commands::{print, print_json};
use super::words::{ProbeWords, machine_of};
use crate::failure::Failure;
use crate::probe::tree::show_tree;
use crate::report;

/// Shows the machine as a tree or as JSON.
pub fn show_probe(words: &ProbeWords) -> Result<u8, Failure> {
    let machine = machine_of(&words.machine)?;
    if let Some(file) = &words.svg {
        std::fs::write(file, report::map_svg(&machine)).map_err(|error| {
            Failure::Lacks(format!(
                "{}: the picture cannot be written: {error}; name a file in a folder that you may write to",
                file.display()
            ))
        })?;
    }
    if words.json {
        print_json(&machine)?;
    } else {
        print(&show_tree(&machine))?;
    }
    Ok(0)
}
