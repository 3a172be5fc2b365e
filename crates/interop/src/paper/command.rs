//! The command of a step: words of linerate with places for what each machine calls its own parts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Only these can be steps: they measure, and store nothing but a result and scratch files.
const MEASURING: [&str; 5] = ["run", "disk", "load", "memory", "network"];
/// What reproduces a step gives these itself.
const OWN: [&str; 3] = ["--output", "--json", "--format"];
/// What these name, the user has to name: a file from elsewhere decides nothing about this network and these disks, and
/// starts no program.
const NAMED_BY_USER: [&str; 4] = ["--no-receiver", "--destroy-data", "--peer", "--key-file"];

/// Words of a measuring command. `{disk}` is what the user gives with `--with disk=…`; given several times, the
/// option before it comes as often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepCommand(Vec<String>);

/// Why the words of a step are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepCommandError {
    #[error("“{0}” is not a command that a step can be: begin with run, disk, load, memory or network")]
    NotMeasuring(String),
    #[error("{0} is given by `linerate reproduce` itself: leave it out")]
    Own(String),
    #[error("{0} in a file has to be followed by a name in braces, like {{address}}, which the user gives")]
    UserHasToName(String),
}

impl TryFrom<String> for StepCommand {
    type Error = StepCommandError;

    fn try_from(text: String) -> Result<Self, StepCommandError> {
        let words: Vec<String> = text.split_whitespace().map(String::from).collect();
        let first = words.first().map_or("", String::as_str);
        if !MEASURING.contains(&first) {
            return Err(StepCommandError::NotMeasuring(first.chars().take(60).collect()));
        }
        for (at, word) in words.iter().enumerate() {
            let option = word.split('=').next().unwrap_or_default();
            if OWN.contains(&option) {
                return Err(StepCommandError::Own(option.into()));
            }
            let is_named = words.get(at + 1).is_some_and(|next| placeholder(next).is_some());
            if NAMED_BY_USER.contains(&option) && !(word == option && is_named) {
                return Err(StepCommandError::UserHasToName(option.into()));
            }
        }
        Ok(StepCommand(words))
    }
}

impl From<StepCommand> for String {
    fn from(command: StepCommand) -> String {
        command.0.join(" ")
    }
}

/// The name within the braces.
fn placeholder(word: &str) -> Option<&str> {
    word.strip_prefix('{')?.strip_suffix('}').filter(|name| !name.is_empty())
}

impl StepCommand {
    /// The words for this machine; where a part is not given, the names of all that are not.
    pub fn filled(&self, given: &BTreeMap<String, Vec<String>>) -> Result<Vec<String>, Vec<String>> {
        let (mut words, mut missing): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for word in &self.0 {
            let Some(name) = placeholder(word) else {
                words.push(word.clone());
                continue;
            };
            let Some(values) = given.get(name) else {
                if !missing.iter().any(|other| other == name) {
                    missing.push(name.into());
                }
                continue;
            };
            let option = words.last().filter(|word| word.starts_with("--")).cloned();
            for (at, value) in values.iter().enumerate() {
                words.extend(option.clone().filter(|_| at > 0));
                words.push(value.clone());
            }
        }
        if missing.is_empty() { Ok(words) } else { Err(missing) }
    }
}
