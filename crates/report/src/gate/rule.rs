//! One rule, read from a line of text: `disk:* >= 3GB/s`. Any text gives a rule, or one sentence that says how to
//! write it.
//!
//! Parts and figures have the names that the screens use: `disk:nvme0n1` as in a bottleneck, `path`, `disk`, `network`
//! and the words of a row as in `linerate compare`, facts of a machine as in `linerate check`.

use linerate_facts::printable::{printable, shortened};
use linerate_facts::units::{parse_duration, parse_rate};
use linerate_measure::diagnose::finding_id;
use linerate_measure::measure::Stage;
use std::path::PathBuf;
use thiserror::Error;

/// Longer texts are not rules.
const LONGEST_RULE: usize = 400;
/// A ratio to what is likely, or a part by which figures may differ, is no more.
const LARGEST_RATIO: f64 = 10.0;
/// By how much like things may differ where the rule does not say it: a twentieth.
const USUAL_WITHIN: f64 = 0.05;

/// What a result has to hold to, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(super) text: String,
    pub(super) meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    Figure(FigureRule),
    /// No finding of this choice; by the machine alone, or by all of the result.
    NoFinding {
        of_machine: bool,
        choice: FindingChoice,
    },
    /// A fact of the machine has this value.
    Fact {
        what: String,
        value: String,
    },
    /// Parts of one kind differ by no more.
    Twins {
        within: f64,
    },
    /// Figures are no lower than this result's, but for this part.
    Like {
        result: PathBuf,
        within: f64,
    },
    AsUsual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingChoice {
    /// Of links that run below their best.
    SlowLinks,
    /// All that cost speed or data.
    Costly,
    Id(&'static str),
}

/// A figure and where it has to lie.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FigureRule {
    pub(super) subject: Subject,
    pub(super) metric: Metric,
    /// Else at most.
    pub(super) at_least: bool,
    pub(super) bound: Bound,
}

/// Whose figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Of all stages: `p99 < 10ms`.
    Any,
    /// A stage, or those of its rows that begin with these words.
    Row(Stage, String),
    /// `disk:nvme0n1`; the name `*` is every one of the kind.
    Part(PartKind, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Disk,
    Nic,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Metric {
    Rate,
    Loss,
    Spread,
    P50,
    P99,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// Bytes per second.
    Rate(f64),
    /// Of what the plan calls likely.
    OfLikely(f64),
    /// Of what the stages predict.
    OfPredicted(f64),
    /// Requests per second.
    Operations(f64),
    Share(f64),
    Seconds(f64),
}

/// Why a text is not a rule.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RuleError {
    #[error(
        "“{0}” is not a rule and not a file: write it like 'path >= 0.9 likely', 'disk:* >= 3GB/s', 'p99 < 10ms', 'network \
         loss < 0.1%', 'probe: no link below its best', 'twins within 10%', 'like node3.json', 'as usual'"
    )]
    Form(String),
    #[error(
        "a rule of more than 400 letters, or with letters that a screen cannot show: write it on one short line"
    )]
    Unreadable,
    #[error(
        "“{0}” names no part and no figure: name path, disk, network, memory or load with the words of a row, a part \
         like disk:nvme0n1, disk:* or nic:eth0, or p99 alone"
    )]
    Subject(String),
    #[error("“{subject}” has no {metric}: {has}")]
    Metric { subject: String, metric: String, has: &'static str },
    #[error("“{bound}” is another unit: {subject} is {unit}")]
    Unit { subject: String, bound: String, unit: &'static str },
    #[error("“{0}” is not a share: write it like 10%")]
    Share(String),
    #[error("“{0}” is not a finding of linerate: `linerate report` and docs/run-json.md name them")]
    Finding(String),
    #[error("“{0}” says nothing of the machine: write it like 'probe: MTU of eth0 is 9000'")]
    Fact(String),
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        if text.len() > LONGEST_RULE || printable(text) != text {
            return Err(RuleError::Unreadable);
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Rule { meaning: meaning(&text)?, text })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn meaning(text: &str) -> Result<Meaning, RuleError> {
    if text == "as usual" {
        return Ok(Meaning::AsUsual);
    }
    if let Some(rest) = text.strip_prefix("twins within ") {
        return Ok(Meaning::Twins { within: within(rest)? });
    }
    if let Some(rest) = text.strip_prefix("like ") {
        let (result, part) = match rest.rsplit_once(" within ") {
            Some((result, part)) => (result, within(part)?),
            None => (rest, USUAL_WITHIN),
        };
        return Ok(Meaning::Like { result: result.into(), within: part });
    }
    let (of_machine, rest) = match text.strip_prefix("probe:") {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    if let Some(choice) = rest.strip_prefix("no ") {
        return Ok(Meaning::NoFinding { of_machine, choice: finding(choice)? });
    }
    if of_machine {
        let (what, value) = rest.split_once(" is ").ok_or_else(|| RuleError::Fact(short(rest)))?;
        return Ok(Meaning::Fact { what: what.into(), value: value.into() });
    }
    figure(text).map(Meaning::Figure)
}

fn finding(text: &str) -> Result<FindingChoice, RuleError> {
    match text {
        "link below its best" => Ok(FindingChoice::SlowLinks),
        "finding" => Ok(FindingChoice::Costly),
        id => finding_id(id).map(FindingChoice::Id).ok_or_else(|| RuleError::Finding(short(id))),
    }
}

fn figure(text: &str) -> Result<FigureRule, RuleError> {
    let at = text.find(['<', '>', '≤', '≥']).ok_or_else(|| RuleError::Form(short(text)))?;
    let (left, right) = text.split_at(at);
    let at_least = right.starts_with(['>', '≥']);
    let right = right.trim_start_matches(['<', '>', '≤', '≥', '=']).trim();
    let left = left.trim();
    let (subject, metric) = subject(left)?;
    let bound = bound(left, &subject, metric, right)?;
    Ok(FigureRule { subject, metric, at_least, bound })
}

/// The part or the row, and the metric that may be its last word.
fn subject(text: &str) -> Result<(Subject, Metric), RuleError> {
    let (names, last) = text.rsplit_once(' ').unwrap_or(("", text));
    let metric = last.parse::<Metric>().ok().filter(|metric| *metric != Metric::Rate);
    let names = if metric.is_some() { names } else { text };
    let metric = metric.unwrap_or(Metric::Rate);
    let (first, row) = names.split_once(' ').unwrap_or((names, ""));
    let subject = match (first.split_once(':'), stage(first)) {
        (Some((kind, name)), _) if row.is_empty() && !name.is_empty() => {
            part_kind(kind).map(|kind| Subject::Part(kind, name.into()))
        }
        (None, Some(stage)) => Some(Subject::Row(stage, row.into())),
        _ => (names.is_empty() && metric != Metric::Rate).then_some(Subject::Any),
    };
    let subject = subject.ok_or_else(|| RuleError::Subject(short(text)))?;
    match lacks(&subject, metric) {
        Some(has) => Err(RuleError::Metric { subject: short(names), metric: metric.to_string(), has }),
        None => Ok((subject, metric)),
    }
}

fn part_kind(word: &str) -> Option<PartKind> {
    match word {
        "disk" => Some(PartKind::Disk),
        "nic" => Some(PartKind::Nic),
        _ => None,
    }
}

fn stage(word: &str) -> Option<Stage> {
    [Stage::Memory, Stage::Disk, Stage::Load, Stage::Network, Stage::Path]
        .into_iter()
        .find(|stage| stage.to_string() == word)
}

/// What a subject has in place of a metric that it lacks.
fn lacks(subject: &Subject, metric: Metric) -> Option<&'static str> {
    let is_of_disk = matches!(
        subject,
        Subject::Row(Stage::Disk | Stage::Load | Stage::Memory, _) | Subject::Part(PartKind::Disk, _)
    );
    let has_latency = matches!(
        subject,
        Subject::Any
            | Subject::Row(Stage::Disk | Stage::Load | Stage::Network, _)
            | Subject::Part(PartKind::Disk, _)
    );
    match metric {
        Metric::Loss if is_of_disk => Some("only network, path and nic:NAME lose datagrams"),
        Metric::P50 | Metric::P99 if !has_latency => Some("only disk, load and network time their requests"),
        Metric::Spread if matches!(subject, Subject::Row(Stage::Load, _)) => Some("it is one curve"),
        _ => None,
    }
}

fn bound(shown: &str, subject: &Subject, metric: Metric, text: &str) -> Result<Bound, RuleError> {
    let other = |unit| RuleError::Unit { subject: short(shown), bound: short(text), unit };
    match metric {
        Metric::Loss | Metric::Spread => {
            share(text).map(Bound::Share).ok_or_else(|| other("a share, like 0.1%"))
        }
        Metric::P50 | Metric::P99 => {
            let time = parse_duration(text).ok().filter(|_| text.ends_with(char::is_alphabetic));
            time.map(|time| Bound::Seconds(time.as_secs_f64())).ok_or_else(|| other("a time, like 10ms"))
        }
        Metric::Rate if matches!(subject, Subject::Row(Stage::Load, _)) => {
            operations(text).ok_or_else(|| other("counted in requests, like 100k IOPS"))
        }
        Metric::Rate => rate(subject, text).ok_or_else(|| match subject {
            Subject::Row(Stage::Path, _) => other("a rate, like 3GB/s, 10Gb/s, 0.9 likely or 0.9 predicted"),
            Subject::Part(..) => other("a rate, like 3GB/s, 10Gb/s or 0.9 likely"),
            _ => other("a rate, like 3GB/s or 10Gb/s"),
        }),
    }
}

fn rate(subject: &Subject, text: &str) -> Option<Bound> {
    let is_path = matches!(subject, Subject::Row(Stage::Path, _));
    let is_disk = matches!(subject, Subject::Row(Stage::Disk, _) | Subject::Part(PartKind::Disk, _));
    if let Some(ratio) = text.strip_suffix(" likely") {
        let is_planned = is_path || matches!(subject, Subject::Part(..));
        return ratio_of(ratio).filter(|_| is_planned).map(Bound::OfLikely);
    }
    if let Some(ratio) = text.strip_suffix(" predicted") {
        return ratio_of(ratio).filter(|_| is_path).map(Bound::OfPredicted);
    }
    if is_disk && text.ends_with("IOPS") {
        return operations(text);
    }
    // A bare number is a number of what?
    let has_unit = text.ends_with(|last: char| last.is_alphabetic());
    parse_rate(text).ok().filter(|_| has_unit).map(Bound::Rate)
}

/// `100k IOPS`.
fn operations(text: &str) -> Option<Bound> {
    let number = text.strip_suffix("IOPS")?.trim_end();
    let prefixed = [('k', 1e3), ('M', 1e6)].into_iter().find_map(|(prefix, times)| {
        let number = number.strip_suffix(prefix)?;
        Some((number, times))
    });
    let (number, times) = prefixed.unwrap_or((number, 1.0));
    plain_number(number).map(|number| Bound::Operations(number * times))
}

/// `0.9` or `90%`.
fn ratio_of(text: &str) -> Option<f64> {
    let ratio = if text.ends_with('%') { share(text)? } else { plain_number(text)? };
    (ratio > 0.0 && ratio <= LARGEST_RATIO).then_some(ratio)
}

fn within(text: &str) -> Result<f64, RuleError> {
    share(text).filter(|part| (0.0..1.0).contains(part)).ok_or_else(|| RuleError::Share(short(text)))
}

/// `10%`, `0.1 %`.
fn share(text: &str) -> Option<f64> {
    plain_number(text.strip_suffix('%')?.trim_end()).map(|percent| percent / 100.0)
}

/// Digits and at most one point.
fn plain_number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    text.parse::<f64>().ok().filter(|number| is_plain && number.is_finite())
}

fn short(text: &str) -> String {
    shortened(&printable(text), 60)
}
