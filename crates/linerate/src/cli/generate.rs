//! `linerate generate`: man pages and completions, for packages.

use super::arguments::Generate;
use super::output::Output;
use super::{definition, manual};
use linerate_facts::failure::Failure;

/// Writes or prints them.
pub(super) fn generate(what: &Generate, output: &Output) -> Result<u8, Failure> {
    match what {
        Generate::Man { folder } => manual::write_to(folder).map_err(|error| {
            Failure::Lacks(format!("man pages in {}: {error}; name a folder that exists", folder.display()))
        })?,
        Generate::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut definition::definition(), "linerate", &mut text);
            output.print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(0)
}
