//! `linerate reproduce`.

use clap::Args;
use std::path::PathBuf;

/// `linerate reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Experiments of a paper, in TOML, or one that ships with linerate by its name [default: lists those]
    #[arg(required_if_eq("json", "true"))]
    pub paper: Option<PathBuf>,
    /// Plan for the paper's own machine, on paper, and measure nothing
    #[arg(long, requires = "paper")]
    pub plan: bool,
    /// What a name in braces in the paper's commands is here, like nic=eth0; repeat for several [default: folder is the
    /// current directory]
    #[arg(long, value_name = "NAME=VALUE", value_parser = part, conflicts_with = "plan")]
    pub with: Vec<(String, String)>,
    /// Write the page into this file as well
    #[arg(long, value_name = "FILE", requires = "paper")]
    pub html: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
}

fn part(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("“{text}” is not NAME=VALUE, like nic=eth0"))?;
    if name.is_empty() || value.is_empty() {
        return Err(format!("“{text}” lacks a name or a value: write it like nic=eth0"));
    }
    // It follows an option: a value that looks like one would be another option.
    if value.starts_with('-') {
        return Err(format!("“{value}” looks like an option; name a part of this machine"));
    }
    Ok((name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_a_name_and_a_value() {
        assert_eq!(part("nic=eth0"), Ok(("nic".into(), "eth0".into())));
        for wrong in ["nic", "=eth0", "nic=", "nic=--destroy-data"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }
}
