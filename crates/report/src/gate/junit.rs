//! Rules as test cases, in the XML that CIs read from JUnit.

use super::{GateReport, JudgedRule, RuleOutcome};
use std::fmt::Write;

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
