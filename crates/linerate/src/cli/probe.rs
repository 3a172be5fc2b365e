//! `linerate probe`: what the server is.

use super::commands::print;
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
        let json = serde_json::to_string_pretty(&machine)
            .map_err(|error| Failure::Lacks(format!("the machine cannot be written as JSON: {error}")))?;
        print(&format!("{json}\n"))?;
    } else {
        print(&show_tree(&machine))?;
    }
    Ok(0)
}
