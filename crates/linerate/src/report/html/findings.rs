//! What is wrong or worth changing, a card each: the text, the figures behind it, the remedy and what it gains.

use super::text::{escape, kept_together, section as card};
use crate::diagnose::{Finding, Severity};
use crate::report::figure::{Unit, count, quantity, rate};
use crate::run::Run;
use crate::units;
use serde_json::Value;

/// Figures of evidence shown; more are in `run.json`.
const EVIDENCE_SHOWN: usize = 16;

/// The section with the cards.
pub(super) fn section(run: &Run) -> String {
    run.diagnosis.as_ref().map_or_else(String::new, |diagnosis| cards(&diagnosis.findings))
}

/// The same of findings from anywhere.
pub(super) fn cards(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return card(
            "findings",
            "Findings",
            "",
            "<p class=\"empty\">Nothing was found that is wrong or worth changing.</p>",
        );
    }
    let cards: String = findings.iter().map(finding).collect();
    card("findings", "Findings", "", &format!("<div class=\"cards\">{cards}</div>"))
}

fn finding(finding: &Finding) -> String {
    let (class, word) = match finding.severity {
        Severity::Loss => ("bad", "data is lost"),
        Severity::Slow => ("warn", "slow"),
        Severity::Note => ("mild", "note"),
    };
    let gain = rate(finding.gain).filter(|gain| *gain > 0.0);
    let gain = gain
        .map(|gain| format!("<span class=\"gain\">gains {}</span>", Unit::Bytes.show(gain)))
        .unwrap_or_default();
    let remedy = if finding.remedy.trim().is_empty() {
        String::new()
    } else {
        format!("<p class=\"remedy\"><b>Remedy</b> {}</p>", with_code(&finding.remedy))
    };
    format!(
        "<article class=\"finding {class}\"><header><span class=\"chip {class}\">{word}</span><h3>{}</h3>{gain}</header>\
         <p>{}</p>{remedy}{}</article>",
        escape(&finding.id),
        with_code(&finding.text),
        evidence(&finding.evidence)
    )
}

/// Escaped text in which `…` in backquotes is set as code.
pub(super) fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd number of backquotes is no markup.
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let set = |(index, part): (usize, &&str)| {
        if index % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(&kept_together(part)) }
    };
    parts.iter().enumerate().map(set).collect()
}

fn evidence(evidence: &Value) -> String {
    let pairs: Vec<(String, String)> = match evidence {
        Value::Null => return String::new(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('_', " "), shown(key, value))).collect()
        }
        other => vec![("evidence".into(), shown("", other))],
    };
    if pairs.is_empty() {
        return String::new();
    }
    let items: String = pairs
        .iter()
        .take(EVIDENCE_SHOWN)
        .map(|(key, value)| {
            format!("<div><dt>{}</dt><dd class=\"num\">{}</dd></div>", escape(key), escape(value))
        })
        .collect();
    let left = pairs.len().saturating_sub(EVIDENCE_SHOWN);
    let more = if left > 0 {
        format!("<div><dt>and {left} more</dt><dd>in run.json</dd></div>")
    } else {
        String::new()
    };
    format!("<dl class=\"evidence\">{items}{more}</dl>")
}

/// A figure in the unit that its name ends with.
fn shown(key: &str, value: &Value) -> String {
    let number = value.as_f64().and_then(rate);
    if let Some(number) = number.filter(|_| key.ends_with("bytes_per_second")) {
        return Unit::Bytes.show(number);
    }
    if let Some(bytes) = value.as_u64().filter(|_| key.ends_with("bytes")) {
        return units::show_size(bytes);
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let mut text: Vec<String> = items.iter().take(8).map(|item| shown(key, item)).collect();
            if items.len() > 8 {
                text.push(format!("and {} more", items.len() - 8));
            }
            text.join(", ")
        }
        Value::Number(_) => match (value.as_u64(), value.as_f64()) {
            (Some(whole), _) => count(whole),
            (_, Some(number)) if number.fract() == 0.0 && (0.0..1e15).contains(&number) => {
                count(number as u64)
            }
            (_, Some(number)) if (0.001..1e9).contains(&number) => quantity(number),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}
