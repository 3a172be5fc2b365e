//! The file: its fields, and how it is read.

use super::cause::{Cause, Conditions};
use super::command::StepCommand;
use super::quantity::PublishedQuantity;
use serde::Deserialize;
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
