//! What is wrong or worth changing, a card each: the text, the figures behind it, the remedy and what it
//! gains.

use super::pieces::{card, with_code};
use crate::figure::{Unit, count, quantity, rate};
use crate::markup::{Markup, html};
use linerate_facts::units;
use linerate_measure::diagnose::{Finding, Severity};
use linerate_measure::run::Run;
use serde_json::Value;

/// Figures of evidence shown; more are in `run.json`.
const EVIDENCE_SHOWN: usize = 16;

/// The section with the cards.
pub(super) fn section(run: &Run) -> Markup {
    html! { @if let Some(diagnosis) = &run.diagnosis { (cards(&diagnosis.findings)) } }
}

/// The same of findings from anywhere.
pub(super) fn cards(findings: &[Finding]) -> Markup {
    let body = html! {
        @if findings.is_empty() {
            p class="empty" { "Nothing was found that is wrong or worth changing." }
        } @else {
            div class="cards" { @for one in findings { (finding(one)) } }
        }
    };
    card("findings", "Findings", html! {}, body)
}

fn finding(finding: &Finding) -> Markup {
    let (class, word) = match finding.severity {
        Severity::Loss => ("bad", "data is lost"),
        Severity::Slow => ("warn", "slow"),
        Severity::Note => ("mild", "note"),
    };
    html! {
        article class={ "finding " (class) } {
            header {
                span class={ "chip " (class) } { (word) }
                h3 { (finding.id) }
                @if let Some(gain) = rate(finding.gain).filter(|gain| *gain > 0.0) {
                    span class="gain" { "gains " (Unit::Bytes.show(gain)) }
                }
            }
            p { (with_code(&finding.text)) }
            @if !finding.remedy.trim().is_empty() {
                p class="remedy" { b { "Remedy" } " " (with_code(&finding.remedy)) }
            }
            (evidence(&finding.evidence))
        }
    }
}

fn evidence(evidence: &Value) -> Markup {
    let pairs: Vec<(String, String)> = match evidence {
        Value::Null => Vec::new(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('_', " "), shown(key, value))).collect()
        }
        other => vec![("evidence".into(), shown("", other))],
    };
    let left = pairs.len().saturating_sub(EVIDENCE_SHOWN);
    html! {
        @if !pairs.is_empty() {
            dl class="evidence" {
                @for (key, value) in pairs.iter().take(EVIDENCE_SHOWN) {
                    div { dt { (key) } dd class="num" { (value) } }
                }
                @if left > 0 { div { dt { "and " (left) " more" } dd { "in run.json" } } }
            }
        }
    }
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
