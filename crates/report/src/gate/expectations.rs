//! Rules of a command line: each word is a rule, or a file that holds some. Read once, before anything is measured,
//! with the results that they compare with.
//!
//! ```toml
//! expect = [
//!     "path >= 0.9 likely",
//!     "disk:* >= 3GB/s",
//! ]
//! ```

use super::rule::{Bound, FigureRule, Meaning, Rule, RuleError};
use crate::results;
use linerate_facts::failure::Failure;
use linerate_facts::printable::{printable, shortened};
use linerate_measure::run::Run;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file of rules is written by hand; what is larger is something else.
const LARGEST_FILE_BYTES: u64 = 256 << 10;
/// Rules of a command, and results that they name.
const MOST_RULES: usize = 1024;
const MOST_RESULTS: usize = 16;

/// What a result has to hold to.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    pub(super) rules: Vec<Rule>,
    /// The results that rules name.
    pub(super) results: Vec<(PathBuf, Run)>,
}

/// Why rules cannot be used.
#[derive(Debug, Error)]
pub enum ExpectationError {
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error("{file}: {error}")]
    RuleOfFile { file: String, error: RuleError },
    #[error("{file}: {message}; write it like expect = [\"path >= 0.9 likely\", \"disk:* >= 3GB/s\"]")]
    Form { file: String, message: String },
    #[error("{file} cannot be read: {error}; check the path of --expect")]
    Unread { file: String, error: io::Error },
    #[error("{file} is larger than 256 KiB: no file of rules")]
    Large { file: String },
    #[error("{0} holds no rule: nothing would be expected")]
    Empty(String),
    #[error("more than 1024 rules, or more than 16 results that they name: leave some out")]
    Many,
    #[error("“{0}” and “{1}” contradict each other: no result can be both")]
    Contradiction(String, String),
    #[error(transparent)]
    Result(Failure),
}

impl From<ExpectationError> for Failure {
    fn from(error: ExpectationError) -> Self {
        match error {
            ExpectationError::Result(failure) => failure,
            ExpectationError::Unread { .. } => Failure::Lacks(format!("--expect {error}")),
            wrong => Failure::Usage(format!("--expect: {wrong}")),
        }
    }
}

/// A file of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    expect: Vec<String>,
}

impl Expectations {
    /// Reads the words of a command line. `given`: results that already have a name in rules, such as the first of a
    /// comparison.
    pub fn read(words: &[String], runs: Vec<(PathBuf, Run)>) -> Result<Self, ExpectationError> {
        let mut rules = Vec::new();
        for word in words {
            match Rule::parse(word) {
                Ok(rule) => rules.push(rule),
                Err(error) if !is_file(word) => return Err(error.into()),
                Err(_) => rules.extend(rules_of_file(Path::new(word))?),
            }
        }
        let mut expectations = Expectations::of(rules)?;
        expectations.results = runs;
        expectations.read_results()?;
        Ok(expectations)
    }

    /// Of rules alone; refuses those that contradict each other.
    pub fn of(rules: Vec<Rule>) -> Result<Self, ExpectationError> {
        if rules.len() > MOST_RULES {
            return Err(ExpectationError::Many);
        }
        if let Some((one, other)) = contradiction(&rules) {
            return Err(ExpectationError::Contradiction(one.text.clone(), other.text.clone()));
        }
        Ok(Expectations { rules, results: Vec::new() })
    }

    fn read_results(&mut self) -> Result<(), ExpectationError> {
        for rule in &self.rules {
            let Meaning::Like { result, .. } = &rule.meaning else { continue };
            if self.results.iter().any(|(name, _)| name == result) {
                continue;
            }
            if self.results.len() >= MOST_RESULTS {
                return Err(ExpectationError::Many);
            }
            let run = results::read(result).map_err(ExpectationError::Result)?;
            self.results.push((result.clone(), run));
        }
        Ok(())
    }

    /// Whether a rule asks what this host usually does.
    pub fn need_history(&self) -> bool {
        self.rules.iter().any(|rule| rule.meaning == Meaning::AsUsual)
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// A word that is not a rule: it is there, or it looks like a file's name.
fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    path.extension().is_some_and(|kind| kind == "toml") || path.exists()
}

fn rules_of_file(path: &Path) -> Result<Vec<Rule>, ExpectationError> {
    let file = || shortened(&printable(&path.to_string_lossy()), 100);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| ExpectationError::Unread { file: file(), error })?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES {
        return Err(ExpectationError::Large { file: file() });
    }
    let rules = rules_of_text(&String::from_utf8_lossy(&bytes), &file())?;
    if rules.is_empty() { Err(ExpectationError::Empty(file())) } else { Ok(rules) }
}

/// The rules of a file's text; `file` is what errors call it.
pub fn rules_of_text(text: &str, file: &str) -> Result<Vec<Rule>, ExpectationError> {
    let parsed: RuleFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        // The parser's own messages may have several lines.
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let message = format!("line {line}: {}", shortened(&printable(&message), 200));
        ExpectationError::Form { file: file.into(), message }
    })?;
    if parsed.expect.len() > MOST_RULES {
        return Err(ExpectationError::Many);
    }
    let rule = |text: &String| {
        Rule::parse(text).map_err(|error| ExpectationError::RuleOfFile { file: file.into(), error })
    };
    parsed.expect.iter().map(rule).collect()
}

/// Two rules that no result can hold to.
fn contradiction(rules: &[Rule]) -> Option<(&Rule, &Rule)> {
    rules.iter().enumerate().find_map(|(index, one)| {
        let other = rules[..index].iter().find(|other| contradict(&one.meaning, &other.meaning))?;
        Some((other, one))
    })
}

fn contradict(one: &Meaning, other: &Meaning) -> bool {
    match (one, other) {
        (Meaning::Figure(one), Meaning::Figure(other)) => lie_apart(one, other) || lie_apart(other, one),
        (Meaning::Fact { what, value }, Meaning::Fact { what: same, value: other }) => {
            what == same && value != other
        }
        _ => false,
    }
}

/// The first asks for more than the second allows.
fn lie_apart(least: &FigureRule, most: &FigureRule) -> bool {
    let same = least.subject == most.subject && least.metric == most.metric;
    let apart = match (least.bound, most.bound) {
        (Bound::Rate(least), Bound::Rate(most))
        | (Bound::OfLikely(least), Bound::OfLikely(most))
        | (Bound::OfPredicted(least), Bound::OfPredicted(most))
        | (Bound::Operations(least), Bound::Operations(most))
        | (Bound::Share(least), Bound::Share(most))
        | (Bound::Seconds(least), Bound::Seconds(most)) => least > most,
        _ => false,
    };
    same && apart && least.at_least && !most.at_least
}
