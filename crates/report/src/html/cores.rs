//! CPU use by core in the eight classes of `/proc/stat`, stacked, for sender and receiver.

use super::scrolling;
use crate::document::{Part, drawn};
use crate::figure::{percent, quantity, share};
use crate::markup::{Anchor, Markup, at, html, text};
use linerate_measure::measure::{CoreUse, Measurement, ReceiverResult, Stage};
use linerate_measure::run::Run;

/// The classes from the bottom of a bar to its top; what is left is idle.
const CLASSES: [&str; 8] = ["user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle"];

/// Cores drawn; no machine has more today, and a broken file must not make a page of a gigabyte.
const MOST_CORES: usize = 2048;

const HEIGHT: f64 = 84.0;
const WIDEST: f64 = 500.0;

const INTRO: &str = "One bar a core, core 0 at the left, the full height is the whole of the measured time. All processes of the host \
     count, not only ours.";

/// One pair of charts for each stage with everything at once.
pub(crate) fn part(run: &Run) -> Part<'_> {
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
    Part { intro: INTRO.into(), ..drawn("cores", "CPU by core", picture) }
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
            (text("", place(index), HEIGHT + 12.0, Anchor::Middle, &core.core.to_string()))
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
