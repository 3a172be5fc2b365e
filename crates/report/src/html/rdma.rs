//! The page's part about RDMA: each figure beside its ceiling and TCP's, and the devices that it was measured between.

use super::pieces::card;
use crate::markup::{Markup, html};
use crate::rdma_words;
use linerate_measure::run::Run;

/// Nothing where nothing was measured by RDMA.
pub(super) fn section(run: &Run) -> Markup {
    let all = &run.measurements;
    let facts: Vec<(&str, String)> = all
        .iter()
        .flat_map(|one| [("Rate", rdma_words::beside(all, one)), ("Method", rdma_words::devices(one))])
        .filter_map(|(name, text)| Some((name, text?)))
        .collect();
    if facts.is_empty() {
        return html! {};
    }
    let intro = html! { "Measured by perftest at both hosts, from memory to memory past both kernels." };
    card(
        "rdma",
        "RDMA",
        intro,
        html! {
            dl class="facts" { @for (name, text) in &facts { dt { (name) } dd { (text) } } }
        },
    )
}
