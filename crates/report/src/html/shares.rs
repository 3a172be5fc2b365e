//! What the flow uses of each part, one below the other: in place of the picture where the page is narrow.

use super::pieces::tagged;
use crate::figure::{Figure, Unit, percent, share};
use crate::markup::{Markup, at, html};
use crate::verdict::{RunVerdict, device, resources};
use linerate_measure::run::Run;
use linerate_model::plan::{Resource, ResourceKind};

/// Parts that are shown; a server with more has them in the table of stages.
const MOST: usize = 24;

pub(super) fn list(run: &Run, verdict: &RunVerdict) -> Markup {
    let mut parts = resources(run);
    // What limits it comes first, then what is used most.
    let limits = |part: &Resource| verdict.cut.contains(&part.id);
    parts.sort_by(|a, b| {
        limits(b).cmp(&limits(a)).then(share(b.utilisation).total_cmp(&share(a.utilisation)))
    });
    let left = parts.len().saturating_sub(MOST);
    html! {
        div class="narrow" {
            @for part in parts.iter().take(MOST) { (row(part, limits(part))) }
            @if left > 0 { p class="note" { "and " (left) " more" } }
        }
    }
}

fn row(part: &Resource, limits: bool) -> Markup {
    let unit = if part.kind == ResourceKind::Nic { Unit::Bits } else { Unit::Bytes };
    let (kind, name) = (part.id.split(':').next().unwrap_or_default(), device(&part.id));
    let (capacity, used) = (Figure::capacity(part), share(part.utilisation));
    html! {
        div class=(if limits { "part limit" } else { "part" }) {
            b { (kind) @if name != kind { " " (name) } }
            span class="num" { (tagged(&capacity, unit)) }
            @if used > 0.0 {
                svg class="wbar" viewBox="0 0 1000 22" preserveAspectRatio="none" aria-hidden="true" {
                    rect class="used" width=(at(used * 1000.0)) height="22" {}
                }
                span class="note" { (percent(used)) " used" }
            }
        }
    }
}
