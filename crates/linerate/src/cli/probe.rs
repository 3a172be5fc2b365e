//! `linerate probe`: what the server is.

use super::arguments::{ProbeArgs, machine_of};
use super::commands::{print, print_json};
use linerate_facts::failure::Failure;
use linerate_report as report;
use linerate_report::tree::show_tree;

/// Shows the machine as a tree or as JSON.
pub(super) fn show_probe(words: &ProbeArgs) -> Result<u8, Failure> {
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
