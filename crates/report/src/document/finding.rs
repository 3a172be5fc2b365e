//! What is wrong or worth changing: what was found, what to do, and what that gains; on a page with the figures behind it.

use super::evidence;
use super::{Block, Media, Part, Text, dim, plain};
use crate::figure::{Unit, rate};
use crate::html::with_code;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::printable::{hanging, printable};
use linerate_facts::wording::counted;
use linerate_measure::diagnose::{Finding, Severity};
use linerate_measure::run::Run;

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
            (evidence::list(&finding.evidence))
        }
    }
}
