//! The workers of the path: what each moved, and whether it waited for its source, for its sink, or worked.

use crate::document::{Block, Cell, Media, Part, Table, TableRow, dim, plain};
use crate::figure::{Unit, percent, rate, share};
use crate::grid::{Column, number, text};
use crate::markup::{Markup, at, html};
use crate::verdict::device;
use linerate_facts::wording::counted;
use linerate_measure::measure::{Measurement, Stage, WorkerResult};
use linerate_measure::run::Run;
use linerate_model::plan::WorkerPlan;

const INTRO: &str = "A worker is one pinned worker: one source, one core, one network path. What is neither waiting for the source \
     nor for the sink is work. All measured.";
/// Workers shown at once; more are behind a heading that opens.
const WORKERS_SHOWN: usize = 24;

/// Workers in the page at all; the rest is in `run.json`.
const WORKERS_LISTED: usize = 512;

/// The headline path, then the other protocols' behind headings that open.
pub(crate) fn part(run: &Run) -> Part<'static> {
    let paths: Vec<&Measurement> =
        run.measurements.iter().filter(|m| m.stage == Stage::Path && !m.workers.is_empty()).collect();
    let mut blocks = Vec::new();
    for (index, m) in paths.into_iter().enumerate() {
        if index == 0 {
            blocks.push(Block::Text(plain(summary(m))));
        }
        if index == 0 && m.workers.len() <= WORKERS_SHOWN {
            blocks.extend(table(run, m));
        } else {
            let heading = format!("{}, {}", counted(m.workers.len(), "worker"), m.name);
            blocks.push(Block::Fold { heading, result: String::new(), open: false, blocks: table(run, m) });
        }
    }
    Part { id: "workers", title: "Workers", intro: INTRO.into(), on: Media::Page, blocks, ..Part::default() }
}

/// The workers together: their waiting weighed by nothing, as each is one thread's time.
fn summary(m: &Measurement) -> String {
    let means = m.worker_evidence().unwrap_or_default();
    let workers = match m.workers.len() {
        1 => "The worker".to_string(),
        several => format!("The {several} workers together"),
    };
    let (source, sink) = (percent(share(means.waiting_source)), percent(share(means.waiting_sink)));
    format!("{workers} ({}) waited {source} of the time for the source and {sink} for the sink.", m.name)
}

const COLUMNS: [Column; 9] = [
    number("worker", 0),
    number("core", 0),
    number("node", 0),
    text("source", 0),
    text("path", 0),
    number("rate", 0),
    number("CPU", 0),
    text("waits for source / works / waits for sink", 0),
    number("retransmits", 0),
];

fn table<'a>(run: &Run, m: &Measurement) -> Vec<Block<'a>> {
    let fastest = m.workers.iter().filter_map(|worker| rate(worker.bytes_per_second)).fold(0.0, f64::max);
    let planned = |worker: &WorkerResult| {
        run.plan.as_ref()?.workers.iter().find(|planned| planned.index == worker.worker)
    };
    let rows = m.workers.iter().take(WORKERS_LISTED).map(|worker| row(worker, planned(worker), fastest));
    let left = m.workers.len().saturating_sub(WORKERS_LISTED);
    let left = (left > 0).then(|| Block::Text(dim(format!("{left} more workers are in run.json."))));
    std::iter::once(Block::Table(Table::new(COLUMNS, rows))).chain(left).collect()
}

fn row(worker: &WorkerResult, planned: Option<&WorkerPlan>, fastest: f64) -> TableRow {
    let node = planned.and_then(|planned| planned.node.known()).map_or("–".into(), u32::to_string);
    let rate = rate(worker.bytes_per_second);
    let shown = rate.map_or("unknown".into(), |rate| Unit::Bytes.show(rate));
    let class = rate.is_some_and(|rate| rate < fastest * 0.7).then_some("slow");
    TableRow::of([
        worker.worker.to_string().into(),
        planned.map_or("–".into(), |planned| planned.core.to_string()).into(),
        node.into(),
        device(&worker.source).into(),
        worker.path.as_ref().map_or("–".into(), |path| device(path)).into(),
        Cell::drawn(shown.clone(), html! { span class=[class] { (shown) } }),
        percent(worker.cpu_share).into(),
        Cell::drawn("", time(worker)),
        worker.path.as_ref().map_or("–".into(), |_| worker.retransmits.to_string()).into(),
    ])
}

/// Three parts of the worker's time as a bar with its numbers.
fn time(worker: &WorkerResult) -> Markup {
    let source = share(worker.waiting_source);
    let sink = share(worker.waiting_sink).min(1.0 - source);
    let work = (1.0 - source - sink).max(0.0);
    let window = share(worker.receiver_limited);
    let parts = [("t-source", 0.0, source), ("t-work", source, work), ("t-sink", source + work, sink)];
    html! {
        svg class="time" viewBox="0 0 120 10" width="120" height="10" aria-hidden="true" {
            @for (class, from, size) in parts {
                rect class=(class) x=(at(from * 120.0)) width=(at(size * 120.0)) height="10" {}
            }
        }
        " " span class="num small" { (percent(source)) " / " (percent(work)) " / " (percent(sink)) }
        @if window >= 0.01 { " " span class="chip warn" { "receiver’s window " (percent(window)) } }
    }
}
