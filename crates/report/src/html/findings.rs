//! What is wrong or worth changing, a card each: the text, the figures behind it, the remedy and what it
//! gains.

use super::evidence_words::{label, shown};
use super::pieces::{card, kept_together, with_code};
use crate::figure::{Unit, rate};
use crate::markup::{Markup, html};
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
            map.iter().filter_map(|(key, value)| Some((label(key), shown(key, value)?))).collect()
        }
        other => shown("", other).map(|text| ("evidence".into(), text)).into_iter().collect(),
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
