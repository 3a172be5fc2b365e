//! What is wrong or worth changing: what was found, what to do, and what that gains; on a page with the
//! figures behind it, each with its unit, which is the end of its name.

use super::{Block, Media, Part, Text, dim, plain};
use crate::figure::{Unit, count, percent, quantity, rate, seconds_word};
use crate::grid::Style;
use crate::html::{kept_together, with_code};
use crate::markup::{Markup, html};
use linerate_facts::printable::{hanging, printable};
use linerate_facts::units::{bytes_per_second, show_size};
use linerate_facts::wording::counted;
use linerate_measure::diagnose::{Finding, Severity};
use linerate_measure::run::Run;
use serde_json::Value;

/// Those of a run, of which a terminal shows at most so many.
pub(crate) fn findings_of(run: &Run, most: usize) -> Part<'_> {
    let nothing = "Nothing was found that is wrong or worth changing.";
    let nothing = (run.diagnosis.is_some() && run.findings().is_empty())
        .then(|| Block::Text(plain(nothing).on(Media::Page)));
    let mut part = findings(run.findings(), most);
    part.blocks.extend(nothing);
    part
}

/// The first of them, and how many are left; nothing where there is none.
pub(crate) fn findings(findings: &[Finding], most: usize) -> Part<'_> {
    let (shown, left) = findings.split_at(findings.len().min(most));
    let elsewhere = |words: String| Block::Text(elsewhere(&words));
    let mut blocks = Vec::new();
    if !shown.is_empty() {
        blocks.extend([Block::Heading("findings".into()), Block::Findings(shown)]);
    }
    blocks.extend(match (shown.len(), left.len()) {
        (_, 0) => None,
        (0, left) => Some(elsewhere(counted(left, "finding"))),
        (_, left) => Some(elsewhere(left.to_string())),
    });
    Part { id: "findings", title: "Findings", late: 1, blocks, ..Part::default() }
}

/// Where a terminal had no room.
fn elsewhere(left: &str) -> Text {
    dim(format!("and {left} more, in the page and the JSON")).on(Media::Terminal)
}

fn gain(finding: &Finding) -> Option<String> {
    let gain = rate(finding.gain).filter(|gain| *gain > 0.0)?;
    Some(format!("gains {}", Unit::Bytes.show(gain)))
}

fn has_remedy(finding: &Finding) -> bool {
    !finding.remedy.trim().is_empty()
}

/// For a terminal.
pub(super) fn lines(finding: &Finding, width: usize, style: Style) -> Vec<String> {
    let severity: &str = finding.severity.into();
    let text = format!("{}: {}", printable(&finding.id), printable(&finding.text));
    let mut lines = hanging(&format!("  {severity} "), &text, width);
    if let Some(first) = lines.first_mut() {
        *first = first.replacen(severity, &style.severity(severity, finding.severity), 1);
    }
    if has_remedy(finding) {
        let gain = gain(finding).map(|gain| format!(" ({gain})")).unwrap_or_default();
        let remedy = format!("→ {}{gain}", finding.remedy);
        lines.extend(dim(remedy).lines("       ", width, style));
    }
    lines
}

/// For a page.
pub(super) fn cards(findings: &[Finding]) -> Markup {
    html! { div class="cards" { @for one in findings { (card(one)) } } }
}

fn card(finding: &Finding) -> Markup {
    let severity: &str = finding.severity.into();
    let class = match finding.severity {
        Severity::Loss => "bad",
        Severity::Slow => "warn",
        Severity::Note => "mild",
    };
    html! {
        article class={ "finding " (class) } {
            header {
                span class={ "chip " (class) } { (severity) }
                h3 { (finding.id) }
                @if let Some(gain) = gain(finding) { span class="gain" { (gain) } }
            }
            p { (with_code(&finding.text)) }
            @if has_remedy(finding) {
                p class="remedy" { b { "Remedy" } " " (with_code(&finding.remedy)) }
            }
            (evidence_list(&finding.evidence))
        }
    }
}

/// Figures of evidence shown; more are in `run.json`.
const EVIDENCE_SHOWN: usize = 16;

/// The figures of a finding with their names.
fn evidence_list(evidence: &Value) -> Markup {
    let pairs: Vec<(String, String)> = match evidence {
        Value::Null => Vec::new(),
        Value::Object(map) => {
            map.iter().filter_map(|(key, value)| Some((label(key), value_text(key, value)?))).collect()
        }
        other => value_text("", other).map(|text| ("evidence".into(), text)).into_iter().collect(),
    };
    let left = pairs.len().saturating_sub(EVIDENCE_SHOWN);
    html! {
        @if !pairs.is_empty() {
            dl class="evidence" {
                @for (key, value) in pairs.iter().take(EVIDENCE_SHOWN) {
                    div { dt { (key) } dd class="num" { (kept_together(value)) } }
                }
                @if left > 0 { div { dt { "and " (left) " more" } dd { "in run.json" } } }
            }
        }
    }
}

/// Items of a list that are shown.
const LIST_SHOWN: usize = 8;

/// How a figure is written, by the end of its name.
type Writer = fn(f64) -> String;

/// The first that fits counts. A share is one of 1, unless it is larger.
const UNITS: [(&str, Writer); 17] = [
    ("bytes_per_second", |value| Unit::Bytes.show(value)),
    ("of_predicted", share),
    ("achieved", |value| Unit::Bytes.show(value)),
    ("predicted", |value| Unit::Bytes.show(value)),
    ("samples", |value| Unit::Bytes.show(value)),
    ("bits_per_second", |value| Unit::Bits.show(bytes_per_second(value.max(0.0) as u64))),
    ("seconds_per_gb", |value| format!("{} s/GB", quantity(value))),
    ("per_second", |value| format!("{}/s", number(value))),
    ("bytes", |value| show_size(value.max(0.0) as u64)),
    ("seconds", seconds_word),
    ("_us", |value| seconds_word(value / 1e6)),
    ("_ms", |value| seconds_word(value / 1e3)),
    ("share", share),
    ("ratio", share),
    ("loss", share),
    ("utilisation", share),
    ("change", share),
];

/// The name of a figure without its unit.
fn label(key: &str) -> String {
    let ends = ["_bytes_per_second", "_bits_per_second", "_per_second", "_seconds", "_bytes", "_us", "_ms"];
    let bare = ends.iter().find_map(|end| key.strip_suffix(end)).filter(|bare| !bare.is_empty());
    let words = match key {
        "bytes_per_second" | "bits_per_second" => "rate",
        "held_by" => "limited by",
        key => bare.unwrap_or(key),
    };
    words.replace('_', " ")
}

/// A value in words; none where it says nothing.
fn value_text(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.into()),
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(value) => Some(figure(key, value.as_f64()?)),
        Value::Array(items) => {
            let all: Vec<String> = items.iter().filter_map(|item| value_text(key, item)).collect();
            let more = all.len().saturating_sub(LIST_SHOWN);
            let is_group = items.iter().any(Value::is_object);
            let between = if is_group { "; " } else { ", " };
            let shown = all.into_iter().take(LIST_SHOWN).collect::<Vec<_>>().join(between);
            let more = if more > 0 { format!("{between}and {more} more") } else { String::new() };
            Some(shown + &more).filter(|text| !text.is_empty())
        }
        Value::Object(fields) => {
            let words = |(key, value): (&String, &Value)| {
                let shown = value_text(key, value)?;
                // What something is called needs no word before it.
                let is_name = ["name", "method", "id", "resource", "device"].contains(&key.as_str());
                Some(if is_name { shown } else { format!("{} {shown}", label(key)) })
            };
            let all: Vec<String> = fields.iter().filter_map(words).collect();
            Some(all.join(", ")).filter(|text| !text.is_empty())
        }
    }
}

fn figure(key: &str, value: f64) -> String {
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end));
    unit.map_or_else(|| number(value), |(_, write)| write(value))
}

fn share(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{}", percent(value.abs()))
}

fn number(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    match value.abs() {
        whole if whole.fract() == 0.0 && whole < 1e15 => format!("{sign}{}", count(whole as u64)),
        size => format!("{sign}{}", quantity(size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_have_their_units_and_nothing_is_json() {
        let evidence = json!({
            "trials": [
                { "bytes_per_second": 5807083400.04615, "held_by": null, "method": "sendfile" },
                { "bytes_per_second": 4_100_000_000.0, "held_by": "cpu", "method": "write" },
            ],
            "change": -0.1522154794323628, "achieved": 2_607_901_165.0, "loss": 0.0113, "lost": false,
            "round_trip_seconds": 0.000_213, "queue_bytes": 4_194_304, "retransmits": 1234, "samples": [4.1e9, 1.3e9], "why": null,
        });
        let fields = evidence.as_object().expect("fields");
        let lines: Vec<String> = fields
            .iter()
            .filter_map(|(key, value)| Some(format!("{}: {}", label(key), value_text(key, value)?)))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        achieved: 2.61 GB/s
        change: −15 %
        loss: 1.1 %
        lost: no
        queue: 4 MiB
        retransmits: 1,234
        round trip: 213 µs
        samples: 4.10 GB/s, 1.30 GB/s
        trials: rate 5.81 GB/s, sendfile; rate 4.10 GB/s, limited by cpu, write
        ");
        assert!(!lines.concat().contains(['{', '[', '"']), "{lines:?}");
    }

    #[test]
    fn a_long_list_says_how_much_is_left() {
        let list: Vec<u32> = (1..=11).collect();
        assert_eq!(value_text("cpus", &json!(list)).as_deref(), Some("1, 2, 3, 4, 5, 6, 7, 8, and 3 more"));
        assert_eq!((value_text("x", &json!([])), value_text("x", &json!({ "a": null }))), (None, None));
    }
}
