//! Benchmarks of file access on a screen: a line for each figure with its latencies, its self-checks below
//! it; the scaling curve.

use super::{finding_lines, title};
use crate::figure::{percent, quantity};
use crate::figure_words::spread;
use crate::grid::{Column, name, number, styled, text};
use crate::scalability::{Scalability, ScalabilityRow, scalability};
use crate::style::Style;
use linerate_facts::printable::{hanging, printable, wrapped};
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::measure::access::{ScalingCurve, ScalingStep};
use linerate_measure::measure::{AccessResult, Measurement};
use linerate_measure::run::Run;

/// On a narrow screen the rarest figures go first, never the name or the rate.
const FIGURES: [Column; 10] = [
    name(""),
    number("rate", 0),
    number("of baseline", 0),
    number("spread", 2),
    number("IOPS", 0),
    number("mean", 0),
    number("p50", 4),
    number("p99", 1),
    number("p99.9", 5),
    number("CPU s/GB", 3),
];
const CURVE: [Column; 4] =
    [number("sources", 0), number("rate", 0), number("of baseline", 0), number("spread", 0)];
const CELLS: [Column; 7] = [
    number("workers", 0),
    number("transfer", 0),
    number("rate", 0),
    number("of baseline", 0),
    number("spread", 1),
    text("levels off", 0),
    name(""),
];
const WHERE_THE_REST_IS: &str = "The baseline is the sum of each source alone with its own workers of the same cell. \
     Each alone, the steps between and the latencies: --output DIR, report.html and run.json.";
/// With more figures than this, only checks that failed are told below them.
const MOST_WITH_CHECKS: usize = 24;

/// The screen, no line wider than `width`.
pub(super) fn screen(run: &Run, width: usize, style: Style) -> String {
    let width = width.clamp(60, 140);
    let mut lines = title(run, width, style);
    lines.push(String::new());
    if let Some(cells) = scalability(run) {
        lines.extend(all_cells(&cells, width, style));
    } else {
        lines.extend(figures(&run.measurements, width, style));
        if let Some(scaling) = &run.scaling {
            lines.push(String::new());
            lines.extend(curve(&scaling.first, width, style));
        }
    }
    lines.extend(finding_lines(run, usize::MAX, width, style));
    for change in &run.changes {
        lines.extend(labelled("changed", change, width));
    }
    for error in &run.errors {
        lines.extend(labelled("failed", error, width).iter().map(|line| style.cut(line)));
    }
    lines.join("\n") + "\n"
}

/// A line for each cell with all of its sources; each alone and the steps between are on the page.
fn all_cells(cells: &Scalability, width: usize, style: Style) -> Vec<String> {
    let row = |row: &ScalabilityRow| {
        let ScalabilityRow { workers, transfer, rate, of_baseline, spread, levels_off, job } = row;
        [workers, transfer, rate, of_baseline, spread, levels_off, job].map(String::clone).to_vec()
    };
    let rows: Vec<Vec<String>> = cells.rows.iter().map(row).collect();
    let mut lines = wrapped(&printable(&cells.common), width);
    lines.extend(styled(&CELLS, &rows, width, style, |row| cells.rows[row].levels_off != "–"));
    lines.push(String::new());
    lines.extend(cells.limits.iter().flat_map(|limit| wrapped(limit, width)));
    lines.extend(wrapped(WHERE_THE_REST_IS, width).iter().map(|line| style.dim(line)));
    lines
}

fn figures(measurements: &[Measurement], width: usize, style: Style) -> Vec<String> {
    if measurements.is_empty() {
        return vec![style.dim("nothing was measured")];
    }
    let rows: Vec<Vec<String>> = measurements.iter().flat_map(rows).map(Vec::from).collect();
    let mut table = styled(&FIGURES, &rows, width, style, |_| false).into_iter();
    let mut lines: Vec<String> = table.next().into_iter().collect();
    let all = measurements.len() <= MOST_WITH_CHECKS;
    // What all have in common is said once.
    let common = measurements.iter().all(|one| one.method == measurements[0].method);
    for measurement in measurements {
        lines.extend(table.by_ref().take(self::rows(measurement).len()));
        lines.extend(below(measurement, all, common, width, style));
    }
    if common {
        let method = format!("by {}", measurements[0].method);
        lines.extend(labelled("method", &method, width).iter().map(|line| style.dim(line)));
    }
    lines
}

/// One line; of mixed access one for the reads and one for the writes.
fn rows(measurement: &Measurement) -> Vec<[String; 10]> {
    let access = measurement.access.as_deref();
    let sides: Vec<_> = access
        .into_iter()
        .flat_map(|access| [("reads", &access.reads), ("writes", &access.writes)])
        .filter_map(|(word, side)| Some((word, side.as_ref()?)))
        .collect();
    let bound = if measurement.lower_bound { "≥ " } else { "" };
    let spread = spread(measurement);
    let cost = quantity(measurement.cpu_seconds_per_gb);
    let of_baseline = measurement.of_baseline().map(percent).unwrap_or_default();
    let name = printable(&measurement.name);
    if sides.is_empty() {
        let rate = show_bytes_rate(measurement.bytes_per_second);
        let empty = || "–".to_string();
        return vec![[
            name,
            bound.to_string() + &rate,
            of_baseline,
            spread,
            empty(),
            empty(),
            empty(),
            empty(),
            empty(),
            cost,
        ]];
    }
    let both = sides.len() > 1;
    let row = |(index, (word, side)): (usize, &(&str, &linerate_measure::measure::access::SideResult))| {
        let name = match (both, index) {
            (false, _) => name.clone(),
            (true, 0) => format!("{name}: {word}"),
            (true, _) => format!("  {word}"),
        };
        let latency = &side.latency;
        [
            name,
            format!("{bound}{}", show_bytes_rate(side.bytes_per_second)),
            if index == 0 { of_baseline.clone() } else { String::new() },
            spread.clone(),
            operations(side.operations_per_second),
            duration(latency.mean),
            duration(latency.p50),
            duration(latency.p99),
            duration(latency.p99_9),
            if index == 0 { cost.clone() } else { String::new() },
        ]
    };
    sides.iter().enumerate().map(row).collect()
}

/// The self-checks of a figure; what does not hold together stands out.
fn below(measurement: &Measurement, all: bool, common: bool, width: usize, style: Style) -> Vec<String> {
    let Some(access) = measurement.access.as_deref() else { return Vec::new() };
    let mut lines = Vec::new();
    if all {
        let method = (!common).then(|| printable(&measurement.method));
        lines.extend(hanging("    ", &checked(access, method), width).iter().map(|line| style.dim(line)));
    }
    let mut told: Vec<String> = Vec::new();
    if let Some(burst) = &access.burst {
        told.push(format!(
            "a burst of {} for {:.1} s, then {}: the bucket holds {}",
            show_bytes_rate(burst.burst_bytes_per_second),
            burst.seconds,
            show_bytes_rate(burst.sustained_bytes_per_second),
            show_size(burst.bucket_bytes as u64)
        ));
    }
    if let Some(steady) = &access.steady {
        let state = if steady.reached { "steady" } else { "not steady" };
        told.push(format!(
            "{state} after {} rounds: the last five within {}, drifting by {}",
            steady.rounds,
            percent(steady.excursion),
            percent(steady.slope)
        ));
    }
    if let Some(corrupt) = &access.corrupt {
        told.push(match corrupt.len() {
            0 => "verified: every block that was read held what was written there".into(),
            some => format!("{some} places did not hold what was written there"),
        });
    }
    if let Some(trial) = access.pinning.as_ref().filter(|trial| !trial.pinned) {
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        told.push(format!(
            "not pinned: {:.0} requests a second in a short trial, {:.0} pinned (likely, the device's interrupts \
             come to another CPU)",
            mean(&trial.free_per_second),
            mean(&trial.pinned_per_second)
        ));
    }
    told.extend(access.checks.failed.iter().map(|what| format!("mind: {}", printable(what))));
    let flags: Vec<String> = measurement.flags.iter().map(|flag| printable(flag)).collect();
    if !flags.is_empty() {
        told.push(format!("flags: {}", flags.join(", ")));
    }
    lines.extend(told.iter().flat_map(|text| hanging("    ", text, width)));
    lines
}

fn checked(access: &AccessResult, method: Option<String>) -> String {
    let checks = &access.checks;
    let mut parts = vec![format!("depth {:.1} of {:.0}", checks.reached_depth, checks.asked_depth)];
    if access.job.seconds.is_some() {
        if checks.waiting_depth >= 0.05 {
            parts.push(format!(
                "{:.1} waited for it, {} each",
                checks.waiting_depth,
                duration(checks.wait_seconds)
            ));
        }
        parts.push(format!("by rate × latency {:.1}", checks.little_depth));
    }
    parts.push(format!("generator {} of the CPUs", percent(checks.generator_cpu)));
    if access.job.requests_per_second.is_some() {
        parts.push(format!(
            "late p99 {}, at most {}",
            duration(checks.lateness_p99),
            duration(checks.lateness_maximum)
        ));
    }
    if access.job.seconds.is_none() {
        parts.push(format!(
            "first done {}, last done {}",
            show_bytes_rate(access.first_done_bytes_per_second),
            show_bytes_rate(access.last_done_bytes_per_second)
        ));
    }
    parts.extend(devices(access));
    parts.extend(method);
    parts.join("; ")
}

/// The device that is most in use, and how many there are.
fn devices(access: &AccessResult) -> Option<String> {
    let busiest = access.devices.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))?;
    let others = match access.devices.len() {
        1 => String::new(),
        several => format!(", the busiest of {several}"),
    };
    Some(format!(
        "{} {} in use, {:.1} deep{others}",
        printable(&busiest.name),
        percent(busiest.utilisation),
        busiest.queue_depth
    ))
}

fn curve(scaling: &ScalingCurve, width: usize, style: Style) -> Vec<String> {
    let row = |step: &ScalingStep| {
        vec![
            step.devices.to_string(),
            show_bytes_rate(step.bytes_per_second),
            percent(step.share),
            percent(step.spread),
        ]
    };
    let rows: Vec<Vec<String>> = scaling.steps.iter().map(row).collect();
    let level = |row: usize| scaling.levels_off_at == Some(scaling.steps[row].devices);
    let mut lines = styled(&CURVE, &rows, width, style, level);
    let end = match (scaling.levels_off_at, &scaling.held_by) {
        (Some(at), Some(who)) => format!("levels off at {} with {}", counted(at, "source"), printable(who)),
        (Some(at), None) => format!("levels off at {}", counted(at, "source")),
        (None, _) => "never levels off: each source brings its share".into(),
    };
    lines.extend(wrapped(&end, width));
    lines
}

fn labelled(label: &str, text: &str, width: usize) -> Vec<String> {
    wrapped(&format!("{label}: {}", printable(text)), width)
}

/// `812`, `41.3k`, `1.24M`.
fn operations(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.2}M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1}k", rate / 1e3),
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate => format!("{rate:.1}"),
    }
}

/// `83 µs`, `1.24 ms`, `2.1 s`.
fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_of_requests_as_people_say_them() {
        assert_eq!(duration(83.2e-6), "83.2 µs");
        assert_eq!(duration(0.001_24), "1.24 ms");
        assert_eq!(duration(2.0), "2.00 s");
        assert_eq!(operations(41_300.0), "41.3k");
        assert_eq!(operations(1_240_000.0), "1.24M");
        assert_eq!(operations(812.4), "812");
    }

    #[test]
    fn a_curve_reports_where_it_levels_off() {
        let step = |devices: u32, rate: f64| linerate_measure::measure::access::ScalingStep {
            devices,
            bytes_per_second: rate,
            share: rate / (f64::from(devices) * 100e6),
            spread: 0.01,
        };
        let scaling = ScalingCurve {
            cell: String::new(),
            steps: vec![step(1, 100e6), step(2, 150e6), step(3, 151e6)],
            levels_off_at: Some(2),
            held_by: Some("150 MB/s: loop9, which all of them lie on".into()),
        };
        let lines = curve(&scaling, 80, Style::of(100, false));
        assert_eq!(lines.len(), 5);
        assert!(lines[4].starts_with("levels off at 2 sources with 150 MB/s: loop9"), "{lines:?}");
    }
}
