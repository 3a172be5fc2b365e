//! The workers of the path: what each moved, and whether it waited for its source, for its sink, or worked.

use super::pieces::{card, heading, letter_tag};
use crate::figure::{Unit, percent, rate, share};
use crate::markup::{Markup, at, html};
use crate::verdict::device;
use linerate_facts::wording::counted;
use linerate_measure::measure::{Measurement, Stage, WorkerResult};
use linerate_measure::run::Run;
use linerate_model::plan::{Origin, WorkerPlan};

/// Workers shown at once; more are behind a heading that opens.
const WORKERS_SHOWN: usize = 24;

/// Workers in the page at all; the rest is in `run.json`.
const WORKERS_LISTED: usize = 512;

/// The section: the headline path, then the other protocols' behind headings that open.
pub(super) fn section(run: &Run) -> Markup {
    let paths: Vec<&Measurement> =
        run.measurements.iter().filter(|m| m.stage == Stage::Path && !m.workers.is_empty()).collect();
    let Some((first, others)) = paths.split_first() else { return html! {} };
    let body = html! {
        (summary(first))
        @if first.workers.len() <= WORKERS_SHOWN { (table(run, first)) } @else { (details(run, first)) }
        @for m in others { (details(run, m)) }
    };
    let intro = html! {
        "A worker is one pinned worker: one source, one core, one network path. What is neither waiting for \
         the source nor for the sink is work. All " (letter_tag(Origin::Measured)) "."
    };
    card("workers", "Workers", intro, body)
}

fn details(run: &Run, m: &Measurement) -> Markup {
    html! { details { summary { (counted(m.workers.len(), "worker")) ", " (m.name) } (table(run, m)) } }
}

/// The workers together: their waiting weighed by nothing, as each is one thread's time.
fn summary(m: &Measurement) -> Markup {
    let count = m.workers.len() as f64;
    let mean = |part: fn(&WorkerResult) -> f64| {
        m.workers.iter().map(|worker| share(part(worker))).sum::<f64>() / count
    };
    let (source, sink) = (mean(|worker| worker.waiting_source), mean(|worker| worker.waiting_sink));
    let workers = match m.workers.len() {
        1 => "The worker".to_string(),
        several => format!("The {several} workers together"),
    };
    html! {
        p class="lead" {
            (workers) " (" (m.name) ") waited " (percent(source)) " of the time for the source \
                                                                 and " (percent(sink))
            " for the sink."
        }
    }
}

/// The columns; true for numbers.
const HEADS: [(bool, &str); 9] = [
    (true, "worker"),
    (true, "core"),
    (true, "node"),
    (false, "source"),
    (false, "path"),
    (true, "rate"),
    (true, "CPU"),
    (false, "waits for source / works / waits for sink"),
    (true, "retransmits"),
];

fn table(run: &Run, m: &Measurement) -> Markup {
    let fastest = m.workers.iter().filter_map(|worker| rate(worker.bytes_per_second)).fold(0.0, f64::max);
    let planned = |worker: &WorkerResult| {
        run.plan.as_ref()?.workers.iter().find(|planned| planned.index == worker.worker)
    };
    let left = m.workers.len().saturating_sub(WORKERS_LISTED);
    let head = html! { @for (numbers, name) in HEADS { (heading(numbers, html! { (name) })) } };
    let rows = html! {
        tbody { @for worker in m.workers.iter().take(WORKERS_LISTED) { (row(worker, planned(worker), fastest)) } }
    };
    html! {
        (super::pieces::table("workers", head, rows))
        @if left > 0 { p class="caption" { (left) " more workers are in " code { "run.json" } "." } }
    }
}

fn row(worker: &WorkerResult, planned: Option<&WorkerPlan>, fastest: f64) -> Markup {
    let core = planned.map_or("–".into(), |planned| planned.core.to_string());
    let node = planned.and_then(|planned| planned.node.known()).map_or("–".into(), u32::to_string);
    let rate = rate(worker.bytes_per_second);
    let class = if rate.is_some_and(|rate| rate < fastest * 0.7) { "r num slow" } else { "r num" };
    let window = share(worker.receiver_limited);
    let retransmits = worker.path.as_ref().map_or("–".into(), |_| worker.retransmits.to_string());
    html! {
        tr {
            td class="r num" { (worker.worker) }
            td class="r num" { (core) }
            td class="r num" { (node) }
            td { (device(&worker.source)) }
            td { (worker.path.as_ref().map_or("–".into(), |path| device(path))) }
            td class=(class) { (rate.map_or("unknown".into(), |rate| Unit::Bytes.show(rate))) }
            td class="r num" { (percent(worker.cpu_share)) }
            td {
                (time(worker))
                @if window >= 0.01 { " " span class="chip warn" { "receiver’s window " (percent(window)) } }
            }
            td class="r num" { (retransmits) }
        }
    }
}

/// Three parts of the worker's time as a bar with its numbers.
fn time(worker: &WorkerResult) -> Markup {
    let source = share(worker.waiting_source);
    let sink = share(worker.waiting_sink).min(1.0 - source);
    let work = (1.0 - source - sink).max(0.0);
    let parts = [("t-source", 0.0, source), ("t-work", source, work), ("t-sink", source + work, sink)];
    html! {
        svg class="time" viewBox="0 0 120 10" width="120" height="10" aria-hidden="true" {
            @for (class, from, size) in parts {
                rect class=(class) x=(at(from * 120.0)) width=(at(size * 120.0)) height="10" {}
            }
        }
        " " span class="num small" { (percent(source)) " / " (percent(work)) " / " (percent(sink)) }
    }
}
