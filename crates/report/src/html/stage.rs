//! The page of one stage's benchmark: the answer, its charts, every measurement, what is to be changed, the
//! machine.

use super::pieces::{card, heading, kept_together, table};
use super::{document, errors, findings, machine};
use crate::charts::{self, Named, Quantity, with_unit};
use crate::figure::{Unit, percent, quantity};
use crate::figure_words::{operations_word, seconds_word};
use crate::markup::{Markup, html};
use crate::scalability::{ScalabilityRow, scalability};
use crate::stage::{StageRow, rows, sentence};
use linerate_measure::measure::Stage;
use linerate_measure::measure::access::{AccessResult, DeviceUse};
use linerate_measure::run::Run;

/// Rows shown at once; more are behind a heading that opens.
const ROWS_SHOWN: usize = 40;

/// The whole page.
pub(super) fn page(run: &Run, stage: Stage) -> String {
    let charts = charts::html(&[Named { name: &run.name, run }]);
    let body = html! {
        (header(run, stage))
        main {
            (errors(&run.errors))
            @if !charts.0.is_empty() { (card("charts", "Charts", html! {}, charts)) }
            (cells(run))
            (measurements(run))
            (checks(run))
            (super::rdma::section(run))
            (super::streams::section(run))
            (super::ledger::section(run))
            (crate::power::section(run))
            @if !run.findings().is_empty() { (findings::cards(run.findings())) }
            (machine::section(&run.machine))
            (left(run))
        }
    };
    let title = format!("{}: {} on {} – linerate", run.name, stage, run.host);
    document(&title, charts::SHEET, body)
}

fn header(run: &Run, stage: Stage) -> Markup {
    let facts = [format!("linerate {} {}", run.version, stage), run.host.clone(), run.started.clone()];
    let sentence = sentence(run);
    let long = sentence.chars().count() > 100;
    html! {
        header {
            p class="kicker" { @for fact in facts { span { (fact) } } }
            p class="subject" { (run.name) }
            h1 class=[long.then_some("long")] { (kept_together(&sentence)) }
        }
    }
}

/// The grid of `--scaling`: workers, transfer size and what else varies against the share of the baseline.
fn cells(run: &Run) -> Markup {
    let Some(scalability) = scalability(run) else { return html! {} };
    let own = scalability.rows.iter().any(|row| !row.job.is_empty());
    let numbers = ["transfer", "rate", "of baseline", "spread"];
    let head = html! {
        (heading(true, html! { "workers" }))
        @for number in numbers { (heading(true, html! { (number) })) }
        (heading(false, html! { "levels off" }))
        @if own { (heading(false, html! { "job" })) }
    };
    let row = |row: &ScalabilityRow| {
        html! {
            tr {
                th scope="row" class="r" { (row.workers) }
                td class="r num" { (row.transfer) }
                td class="r num" { (row.rate) }
                td class="r" { b { (row.of_baseline) } }
                td class="r num" { (row.spread) }
                td { (row.levels_off) }
                @if own { td { (row.job) } }
            }
        }
    };
    let body = html! {
        (table("stages", head, html! { tbody { @for cell in &scalability.rows { (row(cell)) } } }))
        @for limit in &scalability.limits { p class="intro" { (limit) } }
    };
    let intro = html! {
        (scalability.common) ". The baseline is the sum of each source alone with its own workers of the same cell."
    };
    card("scalability", "Scalability", intro, body)
}

fn measurements(run: &Run) -> Markup {
    let rows = rows(run);
    if rows.is_empty() {
        let empty = html! { p class="empty" { "Nothing was measured." } };
        return card("measurements", "Measurements", html! {}, empty);
    }
    let timed = rows.iter().any(|row| row.latency.is_some());
    let times = if timed { &["IOPS", "mean", "p50", "p99", "p99.9", "p99.99"][..] } else { &[] };
    let based = rows.iter().any(|row| row.measurement.of_baseline().is_some());
    let baseline = if based { &["of baseline"][..] } else { &[] };
    let numbers = ["rate"].iter().chain(baseline).chain(&["spread"]).chain(times).chain(&["CPU s/GB"]);
    let head = html! {
        (heading(false, html! { "measurement" }))
        @for number in numbers { (heading(true, html! { (number) })) }
        (heading(false, html! { "notes; how" }))
    };
    let table = table("stages", head, html! { tbody { @for row in &rows { (line(row, based, timed)) } } });
    let intro = html! {
        "Medians of the repeats; spread is (highest − lowest) ÷ median. CPU seconds are those of our process for 10⁹ \
         bytes."
    };
    let body = html! {
        @if rows.len() > ROWS_SHOWN {
            details { summary { (rows.len()) " measurements" } (table) }
        } @else {
            (table)
        }
    };
    card("measurements", "Measurements", intro, body)
}

fn line(row: &StageRow, based: bool, timed: bool) -> Markup {
    let of_baseline = based.then(|| row.measurement.of_baseline().map_or_else(|| "–".into(), percent));
    let mut numbers: Vec<String> = of_baseline.into_iter().chain([row.spread()]).collect();
    if timed {
        numbers.push(row.operations.map(operations_word).unwrap_or_default());
        let times = row.latency.map(|of| [of.mean, of.p50, of.p99, of.p99_9, of.p99_99].map(seconds_word));
        numbers.extend(times.unwrap_or_default());
    }
    let cpu = row.measurement.cpu_seconds_per_gb;
    numbers.push(if cpu > 0.0 { quantity(cpu) } else { "–".into() });
    html! {
        tr {
            th scope="row" { (row.name) }
            td class="r" { b { (row.measured()) } }
            @for number in numbers { td class="r num" { (number) } }
            td class="how" {
                @for remark in row.remarks() { span class="chip warn" { (remark) } " " }
                (row.measurement.method)
            }
        }
    }
}

/// Devices beside each measurement, and whether depth, rate and latency fit together.
fn checks(run: &Run) -> Markup {
    let rows = rows(run);
    let accesses: Vec<(&StageRow, &AccessResult)> =
        rows.iter().filter_map(|row| Some((row, row.measurement.access.as_deref()?))).collect();
    if accesses.is_empty() {
        return html! {};
    }
    let head = html! {
        (heading(false, html! { "measurement" }))
        (heading(false, html! { "requests in flight" }))
        (heading(true, html! { "generator’s CPU" }))
        (heading(true, html! { "sent late" }))
        (heading(false, html! { "devices (diskstats)" }))
    };
    let rows = html! { tbody { @for (row, access) in &accesses { (check(row, access)) } } };
    let body = html! {
        details open[accesses.len() <= 12] {
            summary { (accesses.len()) " measurements" }
            (table("stages", head, rows))
        }
    };
    let intro = html! { "Rate × mean latency has to be the number of requests under way: in flight, and waiting for the queue." };
    card("checks", "Whether to believe it", intro, body)
}

fn check(row: &StageRow, access: &AccessResult) -> Markup {
    let checks = &access.checks;
    let [asked, reached, little] =
        [checks.asked_depth, checks.reached_depth, checks.little_depth].map(quantity);
    let waited = match checks.waiting_depth >= 0.05 {
        true => format!("{} waited {}, ", quantity(checks.waiting_depth), seconds_word(checks.wait_seconds)),
        false => String::new(),
    };
    let late = match checks.lateness_maximum > 0.0 {
        true => {
            let [p99, most] = [checks.lateness_p99, checks.lateness_maximum].map(seconds_word);
            format!("{p99} p99, {most} at most")
        }
        false => "–".into(),
    };
    html! {
        tr {
            th scope="row" { (row.name) }
            td { (asked) " asked, " (reached) " reached, " (waited) (little) " by Little’s law" }
            td class="r num" { (percent(checks.generator_cpu)) }
            td class="r num" { (late) }
            td { (devices(&access.devices)) }
        }
    }
}

fn devices(devices: &[DeviceUse]) -> String {
    let word = |device: &DeviceUse| {
        format!(
            "{}: busy {}, {} in flight, {} read, {} written",
            device.name,
            percent(device.utilisation),
            quantity(device.queue_depth),
            Unit::Bytes.show(device.read_bytes_per_second),
            Unit::Bytes.show(device.written_bytes_per_second)
        )
    };
    let shown: Vec<String> = devices.iter().take(4).map(word).collect();
    let more = if devices.len() > 4 { format!(" and {} more", devices.len() - 4) } else { String::new() };
    shown.join("; ") + &more
}

/// Files that are still there, and where the figures come from.
fn left(run: &Run) -> Markup {
    let sides = run.measurements.iter().filter_map(|m| m.access.as_ref());
    let sides = sides.flat_map(|access| [&access.reads, &access.writes]).flatten();
    let bytes: f64 = sides.map(|side| side.bytes as f64).sum();
    let body = html! {
        (machine::list("Files that were made and are still there", &run.changes))
        p {
            @if bytes > 0.0 { (with_unit(Quantity::Size, bytes)) " were moved. " }
            "The same page from the file alone: " code { "linerate report run.json" }
            "; beside other runs: " code { "linerate compare" } "."
        }
    };
    card("again", "Of this run", html! {}, body)
}
