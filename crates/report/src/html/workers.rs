//! Who worked on the path. Its workers: what each moved, and whether it waited for its source, for its sink, or worked.
//! The cores of sender and receiver: their use in the eight classes of `/proc/stat`, stacked.

use super::scrolling;
use crate::document::{Block, Cell, Media, Part, Table, TableRow, dim, drawn, plain};
use crate::figure::{Unit, percent, quantity, rate, share};
use crate::grid::{Column, number, text};
use crate::markup::{self, Anchor, Markup, at, html};
use crate::verdict::device;
use linerate_facts::wording::counted;
use linerate_measure::measure::{CoreUse, Measurement, ReceiverResult, Stage, WorkerResult};
use linerate_measure::run::Run;
use linerate_model::plan::WorkerPlan;

const WORKERS_INTRO: &str = "A worker is one pinned worker: one source, one core, one network path. What is neither waiting for the source \
     nor for the sink is work. All measured.";
/// Workers shown at once; more are behind a heading that opens.
const WORKERS_SHOWN: usize = 24;

/// Workers in the page at all; the rest is in `run.json`.
const WORKERS_LISTED: usize = 512;

const WORKER_COLUMNS: [Column; 9] = [
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

/// The classes from the bottom of a bar to its top; what is left is idle.
const CLASSES: [&str; 8] = ["user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle"];

/// Cores drawn; no machine has more today, and a broken file must not make a page of a gigabyte.
const MOST_CORES: usize = 2048;

const HEIGHT: f64 = 84.0;
const WIDEST: f64 = 500.0;

const CORES_INTRO: &str = "One bar a core, core 0 at the left, the full height is the whole of the measured time. All processes of the host \
     count, not only ours.";

/// The headline path, then the other protocols' behind headings that open.
pub(crate) fn workers_part(run: &Run) -> Part<'static> {
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
    Part {
        id: "workers",
        title: "Workers",
        intro: WORKERS_INTRO.into(),
        on: Media::Page,
        blocks,
        ..Part::default()
    }
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

fn table<'a>(run: &Run, m: &Measurement) -> Vec<Block<'a>> {
    let fastest = m.workers.iter().filter_map(|worker| rate(worker.bytes_per_second)).fold(0.0, f64::max);
    let planned = |worker: &WorkerResult| {
        run.plan.as_ref()?.workers.iter().find(|planned| planned.index == worker.worker)
    };
    let rows = m.workers.iter().take(WORKERS_LISTED).map(|worker| row(worker, planned(worker), fastest));
    let left = m.workers.len().saturating_sub(WORKERS_LISTED);
    let left = (left > 0).then(|| Block::Text(dim(format!("{left} more workers are in run.json."))));
    std::iter::once(Block::Table(Table::new(WORKER_COLUMNS, rows))).chain(left).collect()
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

/// One pair of charts for each stage with everything at once.
pub(crate) fn cores_part(run: &Run) -> Part<'_> {
    let shown: Vec<&Measurement> = run.measurements.iter().filter(|m| worth(run, m)).collect();
    let measured = run.measurements.iter().filter(|m| !m.cpu_by_core.is_empty()).count();
    let left = measured.saturating_sub(shown.len());
    let body = html! {
        (legend())
        div class="coregrid" { @for m in &shown { (both_ends(m)) } }
        @if left > 0 {
            p class="caption" { "The cores during " (left) " more measurements are in " code { "run.json" } "." }
        }
    };
    let picture = if shown.is_empty() {
        html! {}
    } else {
        body
    };
    Part { intro: CORES_INTRO.into(), ..drawn("cores", "CPU by core", picture) }
}

/// This host, and the receiver where it is another one.
fn both_ends(m: &Measurement) -> Markup {
    let receiver_cores = |receiver: &ReceiverResult| {
        let mut note = format!(
            "{} CPU s/GB, busiest thread {}",
            quantity(receiver.cpu_seconds_per_gb),
            percent(receiver.busiest_thread)
        );
        if receiver.throttled > 0.0 {
            note += &format!(", throttled {} of the time", percent(receiver.throttled));
        }
        if receiver.socket_drops > 0 {
            note += &format!(", {} drops by the socket", receiver.socket_drops);
        }
        note
    };
    html! {
        figure class="cores" {
            figcaption { (m.stage) " – " (m.name) }
            (chart("this host", &m.cpu_by_core, ""))
            @if let Some(receiver) = &m.receiver {
                (chart(&format!("receiver {}", receiver.host), &receiver.cpu_by_core, &receiver_cores(receiver)))
            }
        }
    }
}

/// The path, and each stage with all devices at once (or its only device).
fn worth(run: &Run, m: &Measurement) -> bool {
    let only = run
        .measurements
        .iter()
        .filter(|o| o.stage == m.stage && o.protocol == m.protocol && o.with_file == m.with_file)
        .count()
        == 1;
    !m.cpu_by_core.is_empty() && !m.with_file && (m.stage == Stage::Path || m.together || only)
}

fn legend() -> Markup {
    html! {
        ul class="legend classes" aria-label="Classes of CPU time" {
            @for class in CLASSES { li { span class={ "swatch c-" (class) } {} (class) } }
        }
    }
}

fn shares(core: &CoreUse) -> [f64; 8] {
    [core.user, core.nice, core.system, core.irq, core.softirq, core.steal, core.iowait, core.idle].map(share)
}

fn chart(who: &str, cores: &[CoreUse], note: &str) -> Markup {
    if cores.is_empty() {
        return html! {};
    }
    let cores = &cores[..cores.len().min(MOST_CORES)];
    let step = (WIDEST / cores.len() as f64).clamp(3.0, 30.0);
    let gap = if step > 8.0 { 2.0 } else { 0.5 };
    let width = step * cores.len() as f64;
    let mut paths: [String; 8] = Default::default();
    for (index, core) in cores.iter().enumerate() {
        let mut top = HEIGHT;
        for (path, part) in paths.iter_mut().zip(shares(core)) {
            let tall = (part * HEIGHT).min(top);
            if tall >= 0.3 {
                let x = index as f64 * step;
                *path +=
                    &format!("M{} {}h{}v{}h-{}z", at(x), at(top), at(step - gap), at(-tall), at(step - gap));
            }
            top -= tall;
        }
    }
    let averages = averages(cores);
    let said = format!("{who}: {averages}");
    let (w, h) = (at(width), at(HEIGHT + 14.0));
    let chart = html! {
        svg class="corechart" viewBox=(format!("0 0 {w} {h}")) width=(w) height=(h) role="img" aria-label=(said) {
            title { (said) }
            @for (class, path) in CLASSES.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
                path class={ "c-" (class) } d=(path) {}
            }
            (numbers(cores, step))
        }
    };
    html! {
        div class="core" {
            p class="who" { (who) }
            (scrolling(&said, chart))
            p class="note" { (averages) @if !note.is_empty() { "; " (note) } }
        }
    }
}

/// Core numbers below the bars, as many as fit.
fn numbers(cores: &[CoreUse], step: f64) -> Markup {
    let every = (26.0 / step).ceil().max(1.0) as usize;
    let place = |index: usize| ((index as f64 + 0.5) * step).max(6.0);
    html! {
        @for (index, core) in cores.iter().enumerate().step_by(every.next_power_of_two()) {
            (markup::text("", place(index), HEIGHT + 12.0, Anchor::Middle, &core.core.to_string()))
        }
    }
}

/// `busy 41 %: system 24 %, user 8 %, …`, the average core.
fn averages(cores: &[CoreUse]) -> String {
    let count = cores.len() as f64;
    let mut sums = [0.0; 8];
    for core in cores {
        for (sum, part) in sums.iter_mut().zip(shares(core)) {
            *sum += part / count;
        }
    }
    let mut parts: Vec<(&str, f64)> =
        CLASSES.iter().copied().zip(sums).filter(|(_, share)| *share >= 0.005).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> =
        parts.iter().map(|(class, share)| format!("{class} {}", percent(*share))).collect();
    let most = cores.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let most = most.map(|core| format!("; busiest core {} with {}", core.core, percent(share(core.busy()))));
    format!("{}{}", parts.join(", "), most.unwrap_or_default())
}
