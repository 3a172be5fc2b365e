//! `--expect`: a result held to rules, each of which it holds, fails, or leaves open with the reason. Pure.
//!
//! A rule fails only where the whole interval of the figure lies on the wrong side, and nobody else had the
//! machine meanwhile. `rule` reads a rule, `expectations` those of a command line; `figures` are what a rule
//! is about, `bounds` judges them and says why one fails; `compared` is about like parts, another
//! result, the history and what was probed. `write` makes rules of a plan or of a good result. For a CI the
//! rules are test cases, in the XML that is read from JUnit.

mod bounds;
mod compared;
mod expectations;
mod figures;
mod rule;
mod write;

pub use expectations::{ExpectationError, Expectations, rules_of_text};
pub use rule::{Rule, RuleError};
pub use write::{of_plan as expectations_of_plan, of_result as expectations_of_result};

use linerate_facts::printable::{hanging, printable};
use linerate_facts::wording::counted;
use linerate_measure::run::{Run, SCHEMA};
use rule::Meaning;
use serde::Serialize;
use std::fmt::Write;

/// What a rule, or all of them, came to; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOutcome {
    #[strum(to_string = "held")]
    Held,
    #[strum(to_string = "not judged")]
    NotJudged,
    #[strum(to_string = "failed")]
    Failed,
}

impl RuleOutcome {
    /// The exit status of a command whose result came to this.
    pub fn exit_status(self) -> u8 {
        match self {
            RuleOutcome::Held => 0,
            RuleOutcome::Failed => 5,
            RuleOutcome::NotJudged => 6,
        }
    }
}

/// A rule and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JudgedRule {
    /// As it was written.
    pub rule: String,
    pub outcome: RuleOutcome,
    /// The figure; where it failed with the cause, where it is not judged with the reason.
    pub text: String,
}

/// A result held to rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateReport {
    pub schema: u32,
    pub host: String,
    /// RFC 3339, UTC: when the result began.
    pub started: String,
    /// `run`, or the one stage that was measured.
    pub command: String,
    /// The worst.
    pub outcome: RuleOutcome,
    pub rules: Vec<JudgedRule>,
}

/// What one rule came to.
struct Judgement {
    outcome: RuleOutcome,
    text: String,
}

impl Judgement {
    fn new(outcome: RuleOutcome, text: impl Into<String>) -> Self {
        Judgement { outcome, text: text.into() }
    }

    fn held(text: impl Into<String>) -> Self {
        Judgement::new(RuleOutcome::Held, text)
    }

    fn failed(text: impl Into<String>) -> Self {
        Judgement::new(RuleOutcome::Failed, text)
    }

    fn not_judged(text: impl Into<String>) -> Self {
        Judgement::new(RuleOutcome::NotJudged, text)
    }
}

/// The kept results of this host from before, oldest first, and how many there are of other hosts.
pub type History = (Vec<Run>, usize);

/// Holds a result to rules. `history` is only looked at where a rule asks what is usual.
pub fn judge(run: &Run, expected: &Expectations, history: &History) -> GateReport {
    let rules: Vec<JudgedRule> =
        expected.rules.iter().map(|rule| judged(run, rule, expected, history)).collect();
    GateReport {
        schema: SCHEMA,
        host: printable(&run.host),
        started: printable(&run.started),
        command: run.command(),
        outcome: rules.iter().map(|rule| rule.outcome).max().unwrap_or(RuleOutcome::Held),
        rules,
    }
}

fn judged(run: &Run, rule: &Rule, expected: &Expectations, history: &History) -> JudgedRule {
    let Judgement { outcome, text } = match &rule.meaning {
        Meaning::Figure(figure) => bounds::judge(run, figure),
        Meaning::NoFinding { of_machine, choice } => compared::judge_findings(run, *of_machine, *choice),
        Meaning::Fact { what, value } => compared::judge_fact(run, what, value),
        Meaning::Twins { within } => compared::judge_twins(run, *within),
        Meaning::Like { result, within } => {
            let like = expected.results.iter().find(|(name, _)| name == result);
            compared::judge_likeness(run, like.map(|(_, run)| run), *within)
        }
        Meaning::AsUsual => compared::judge_as_usual(run, history),
    };
    JudgedRule { rule: rule.text.clone(), outcome, text: printable(&text) }
}

impl GateReport {
    /// A line for each rule, the failed ones first; wrapped for a terminal. Ends with a newline.
    pub fn screen(&self, width: usize) -> String {
        let mut rules: Vec<&JudgedRule> = self.rules.iter().collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.outcome));
        let lines = rules.into_iter().flat_map(|JudgedRule { rule, outcome, text }| {
            let head = format!("{:<11} ", outcome.to_string());
            hanging(&head, &format!("{rule}: {text}"), width)
        });
        lines.chain([self.sum()]).map(|line| line + "\n").collect()
    }

    /// `expected of dtn-07: 1 failed, 2 not judged, 5 held`.
    fn sum(&self) -> String {
        let count = |outcome| self.rules.iter().filter(|rule| rule.outcome == outcome).count();
        let parts = [RuleOutcome::Failed, RuleOutcome::NotJudged, RuleOutcome::Held]
            .into_iter()
            .map(|outcome| (count(outcome), outcome))
            .filter(|(count, _)| *count > 0)
            .map(|(count, outcome)| format!("{count} {outcome}"));
        let rules = counted(self.rules.len(), "rule");
        format!("{rules} for {}: {}.", self.host, parts.collect::<Vec<_>>().join(", "))
    }
}

/// A test suite for each result, with a case for each rule.
pub fn junit_page(reports: &[GateReport]) -> String {
    let suites: String = reports.iter().map(suite).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{suites}</testsuites>\n")
}

fn suite(report: &GateReport) -> String {
    let count = |outcome| report.rules.iter().filter(|rule| rule.outcome == outcome).count();
    let (failed, open) = (count(RuleOutcome::Failed), count(RuleOutcome::NotJudged));
    let (command, host) = (escaped(&report.command), escaped(&report.host));
    let (started, tests) = (escaped(report.started.trim_end_matches('Z')), report.rules.len());
    let mut page = String::new();
    let _ = writeln!(
        page,
        "  <testsuite name=\"linerate {command}\" hostname=\"{host}\" timestamp=\"{started}\" tests=\"{tests}\" \
         failures=\"{failed}\" errors=\"0\" skipped=\"{open}\">"
    );
    for JudgedRule { rule, outcome, text } in &report.rules {
        let case =
            format!("    <testcase classname=\"linerate.{command}.{host}\" name=\"{}\"", escaped(rule));
        let text = escaped(text);
        let _ = match outcome {
            RuleOutcome::Failed => {
                writeln!(page, "{case}>\n      <failure message=\"{text}\"/>\n    </testcase>")
            }
            RuleOutcome::NotJudged => {
                writeln!(page, "{case}>\n      <skipped message=\"not judged: {text}\"/>\n    </testcase>")
            }
            RuleOutcome::Held => {
                writeln!(page, "{case}>\n      <system-out>{text}</system-out>\n    </testcase>")
            }
        };
    }
    page + "  </testsuite>\n"
}

/// What XML gives a meaning, in its place.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // No XML 1.0 may hold them.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
