//! The file of a paper: its fields, and how it is read. The command of a step is words of linerate with places
//! for what each machine calls its own parts.

use super::{Cause, Conditions, PublishedQuantity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A paper's experiments are written by hand; what is larger is something else.
pub const LARGEST_PAPER_BYTES: usize = 1 << 20;
/// Figures of one paper.
const MOST_FIGURES: usize = 1000;

/// A paper's experiments.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Authors, title, place, date.
    pub paper: String,
    /// Description of the machine, a file beside this one.
    pub machine: String,
    #[serde(default)]
    pub conditions: Conditions,
    #[serde(rename = "step")]
    pub steps: Vec<PaperStep>,
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperStep {
    pub name: String,
    /// Another machine than the paper's first.
    pub machine: Option<String>,
    /// How it is measured; none: it can only be planned.
    pub run: Option<StepCommand>,
    /// How many of what a name in braces stands for the paper had.
    #[serde(default)]
    pub parts: BTreeMap<String, u32>,
    /// In place of the paper's.
    pub conditions: Option<Conditions>,
    #[serde(rename = "figure", default)]
    pub figures: Vec<PaperFigure>,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    pub what: String,
    pub published: PublishedQuantity,
    /// Where in the paper: `table 2`.
    pub place: String,
    /// Words of `linerate plan` for the machine; none: no plan gives it.
    pub plan: Option<String>,
    /// Of that plan's `--target`: how many of this part are needed.
    pub part: Option<String>,
    /// The most that the application asks for.
    pub asked: Option<PublishedQuantity>,
    /// Words that the row of the measured result has, all of its name or some; of several rows the best counts.
    /// `{nic.2}` is the second that the user gave.
    #[serde(default)]
    pub row: String,
    /// It grows with the number of this part: fewer here are held against their share.
    pub per: Option<String>,
    /// What is known to set the plan apart from the figure, the most telling first.
    #[serde(default)]
    pub differs: Vec<Cause>,
}

impl PaperFigure {
    /// With the names of the parts that are here.
    pub fn with_row_of(&self, here: &BTreeMap<String, Vec<String>>) -> Self {
        let all = here.iter().flat_map(|(name, values)| values.iter().zip(1..).map(move |one| (name, one)));
        let row = all.fold(self.row.clone(), |row, (name, (value, at))| {
            row.replace(&format!("{{{name}.{at}}}"), value)
        });
        PaperFigure { row, ..self.clone() }
    }
}

/// Why a paper's file is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaperError {
    #[error("{0} bytes are not a paper's experiments: at most 1 MiB")]
    TooLarge(usize),
    #[error("line {line}: {message}")]
    Wrong { line: usize, message: String },
    #[error("{0} figures are not one paper's: at most {MOST_FIGURES}")]
    TooMany(usize),
}

/// Reads a paper's experiments.
pub fn parse(text: &str) -> Result<Paper, PaperError> {
    if text.len() > LARGEST_PAPER_BYTES {
        return Err(PaperError::TooLarge(text.len()));
    }
    let paper: Paper = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        // The parser's own messages may have several lines.
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        PaperError::Wrong { line, message }
    })?;
    let figures: usize = paper.steps.iter().map(|step| step.figures.len().max(1)).sum();
    if figures > MOST_FIGURES { Err(PaperError::TooMany(figures)) } else { Ok(paper) }
}

/// Only these can be steps: they measure, and store nothing but a result and scratch files.
const MEASURING_COMMANDS: [&str; 5] = ["run", "disk", "load", "memory", "network"];
/// What reproduces a step gives these itself.
const RESERVED_OPTIONS: [&str; 3] = ["--output", "--json", "--format"];
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
        if !MEASURING_COMMANDS.contains(&first) {
            return Err(StepCommandError::NotMeasuring(first.chars().take(60).collect()));
        }
        for (at, word) in words.iter().enumerate() {
            let option = word.split('=').next().unwrap_or_default();
            if RESERVED_OPTIONS.contains(&option) {
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
