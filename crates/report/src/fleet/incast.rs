//! An incast on the terminal and on the page: what each host takes of ever more senders.

use super::sums::flows_words;
use super::table_of_page;
use crate::grid::{self, headed};
use crate::html::pieces;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::units::show_bits_rate;
use linerate_fleet::{FleetVerdict, IncastSink, IncastStep};

const HEADS: [&str; 8] =
    ["to", "senders", "together", "of predicted", "single flows", "retransmitted", "p99", "knee"];

fn rows(verdict: &FleetVerdict) -> Vec<Vec<String>> {
    let of = |sink: &'_ IncastSink| -> Vec<Vec<String>> {
        sink.steps.iter().map(|step| row(sink, step)).collect()
    };
    verdict.incast.iter().flat_map(of).collect()
}

fn row(sink: &IncastSink, step: &IncastStep) -> Vec<String> {
    let knees = [("goodput", sink.knees.goodput), ("loss", sink.knees.loss), ("p99", sink.knees.p99)];
    let here: Vec<&str> =
        knees.iter().filter(|(_, senders)| *senders == Some(step.senders)).map(|(what, _)| *what).collect();
    vec![
        sink.to.clone(),
        step.senders.to_string(),
        show_bits_rate(step.bytes_per_second),
        step.of_predicted.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        flows_words(step.single_flows),
        step.retransmitted_share.map(|share| format!("{:.2} %", share * 100.0)).unwrap_or_default(),
        step.p99_seconds.map(|seconds| format!("{:.1} ms", seconds * 1e3)).unwrap_or_default(),
        here.join(", "),
    ]
}

pub(super) fn terminal(verdict: &FleetVerdict, style: Style, width: usize) -> Vec<String> {
    let rows = rows(verdict);
    grid::styled(&headed(&HEADS, 1, true), &rows, width, style, |row| !rows[row][7].is_empty())
}

pub(super) fn page(verdict: &FleetVerdict) -> Markup {
    pieces::card(
        "incast",
        "Ever more senders to one host",
        html! { p { "A knee is the first number of senders with which the goodput is below 0.9 of what was predicted, with which more is retransmitted, or the p99 of small requests beside the flows has grown." } },
        table_of_page(&HEADS, rows(verdict)),
    )
}
