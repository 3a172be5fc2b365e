//! Benchmarks of file access: a row for each figure with its latencies and its self-checks; the scaling curve,
//! or the cells of several. A load test has a row for each step, and what to know of the steps; on the page
//! every measurement, too.

use super::matrix::matrix;
use super::outcome;
use super::scaling::{self, Scalability, ScalabilityRow, scalability};
use crate::document::{Block, Cell, Media, Part, Table, TableRow, Text, dim, plain};
use crate::figure::{Figure, Unit, operations_word, percent, quantity, seconds_word, spread};
use crate::grid::{Column, name, number, text};
use crate::markup::html;
use linerate_facts::grouping::grouped;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::measure::access::{
    DeviceUse, Latency, LoadCurve, LoadPoint, ScalingCurve, ScalingStep, SideResult,
};
use linerate_measure::measure::{AccessResult, LimitedBy, Measurement};
use linerate_measure::run::Run;
use linerate_model::plan::Origin;

/// On a narrow screen the rarest figures go first, never the name or the rate.
const FIGURES: [Column; 12] = [
    name(""),
    number("rate", 0),
    number("of baseline", 0),
    number("spread", 2),
    number("IOPS", 0),
    number("mean", 0),
    number("p50", 4),
    number("p99", 1),
    number("p99.9", 5),
    number("p99.99", 0).page_only(),
    number("CPU s/GB", 3),
    text("devices (diskstats)", 0).page_only(),
];
const CURVE: [Column; 4] =
    [number("sources", 0), number("rate", 0), number("of baseline", 0), number("spread", 0)];
const CELLS: [Column; 8] = [
    number("workers", 0),
    number("transfer", 0),
    number("rate", 0),
    number("of baseline", 0),
    number("of best alone", 2),
    number("spread", 1),
    text("levels off", 0),
    name(""),
];
const THE_BASELINE: &str = "The baseline is the sum of each source alone with its own workers of the same cell; “of best \
                            alone” is held against as many times the best of any source alone in any cell, or \
                            in the result that --scaling names.";
const WHERE_THE_REST_IS: &str =
    " Each alone, the steps between and the latencies are in the page and the JSON.";
const HEAT: &str =
    "The darker, the more bytes a second, or the longer the wait that 99 % of the requests keep.";
/// Devices of a figure that are named.
const MOST_DEVICES: usize = 4;

pub(super) fn parts(run: &Run) -> Vec<Part<'_>> {
    if let Some(cells) = scalability(run) {
        return vec![all_cells(cells), Part { on: Media::Page, ..figures(&run.measurements) }];
    }
    let curve = run.scaling.as_ref().map(|scaling| curve(&scaling.first));
    let all = figures(&run.measurements);
    let shown = match matrix(&run.measurements, remarkable).filter(|_| curve.is_none()) {
        Some(blocks) => {
            vec![Part::new("grid", "Sizes and depths", HEAT, blocks), Part { on: Media::Page, ..all }]
        }
        None => vec![all],
    };
    shown.into_iter().chain(curve).chain(scaling::part(run)).collect()
}

/// A row for each cell with all of its sources.
fn all_cells(cells: Scalability) -> Part<'static> {
    let row = |row: ScalabilityRow| {
        let ScalabilityRow { workers, transfer, rate, of_baseline, of_best, spread, levels_off, job } = row;
        let levels = levels_off != "–";
        TableRow::of([workers, transfer, rate, of_baseline, of_best, spread, levels_off, job]).marked(levels)
    };
    let mut blocks = vec![Block::Space, Block::Text(plain(cells.common))];
    blocks.extend([Block::Table(Table::new(CELLS, cells.rows.into_iter().map(row))), Block::Space]);
    blocks.extend(cells.limits.into_iter().map(|limit| Block::Text(plain(limit))));
    blocks.push(Block::Text(dim(THE_BASELINE.to_string() + WHERE_THE_REST_IS).on(Media::Terminal)));
    Part { id: "scalability", title: "Scalability", intro: THE_BASELINE.into(), blocks, ..Part::default() }
}

/// Every measurement; on the page with its devices, and many of them behind a heading.
pub(super) fn figures(measurements: &[Measurement]) -> Part<'static> {
    // What all have in common is said once.
    let common = measurements.iter().all(|one| one.method == measurements[0].method);
    let rows = measurements.iter().flat_map(|measurement| {
        let mut rows = rows(measurement);
        let last = rows.pop().map(|row| row.with_notes(notes(measurement, common)));
        rows.into_iter().chain(last)
    });
    let table = Block::Table(Table::new(FIGURES, rows));
    let blocks = match measurements.len() {
        0 => vec![Block::Space, Block::Text(dim("nothing was measured").on(Media::Terminal))],
        1..=super::ROWS_SHOWN => vec![Block::Space, table],
        count => {
            let (heading, blocks) = (counted(count, "measurement"), vec![table.clone()]);
            let folded = Block::Fold { heading, result: String::new(), open: false, blocks };
            vec![Block::On(Media::Terminal, vec![Block::Space, table]), Block::On(Media::Page, vec![folded])]
        }
    };
    let method =
        measurements.first().filter(|_| common).map(|one| format!("method: by {}", printable(&one.method)));
    let blocks = blocks.into_iter().chain(method.map(|method| Block::Text(dim(method)))).collect();
    Part::new("measurements", "Measurements", super::MEDIANS, blocks)
}

/// One row; of mixed access one for the reads and one for the writes, and of durable writes one for the sync.
fn rows(measurement: &Measurement) -> Vec<TableRow> {
    let access = measurement.access.as_deref();
    let syncs = access.map(synced).unwrap_or_default();
    let whole = if syncs.len() == 1 { "writes with their sync" } else { "writes" };
    let sides: Vec<(&str, Option<&SideResult>)> = access
        .into_iter()
        .flat_map(|access| [("reads", &access.reads), (whole, &access.writes)])
        .filter_map(|(word, side)| Some((word, Some(side.as_ref()?))))
        .chain(syncs.iter().map(|(word, side)| (*word, Some(side))))
        .collect();
    let several = sides.len() > 1;
    let sides = if sides.is_empty() { vec![("", None)] } else { sides };
    let row = |(index, (word, side)): (usize, &(&str, Option<&SideResult>))| {
        let own = printable(&measurement.name);
        let name = match (several, index) {
            // The page has more room: all of the job, and of which source it is.
            (false, _) => {
                let job = outcome::name(measurement);
                let whole = if job == own { job } else { format!("{own}: {job}") };
                Cell::drawn(own, html! { (whole) })
            }
            (true, 0) => format!("{own}: {word}").into(),
            (true, _) => format!("  {word}").into(),
        };
        let first = |text: String| if index == 0 { text } else { String::new() };
        let dash = || "–".to_string();
        let latency = |of: fn(&SideResult) -> f64| side.map_or_else(dash, |side| seconds_word(of(side)));
        let moved = side.is_none_or(|side| side.bytes > 0 || side.bytes_per_second > 0.0);
        let of_bytes = |text: String| if moved { text } else { String::new() };
        let cells = [
            of_bytes(rate(measurement, *side)),
            first(measurement.of_baseline().map(percent).unwrap_or_default()),
            of_bytes(spread(measurement)),
            side.map_or_else(dash, |side| operations_word(side.operations_per_second)),
            latency(|side| side.latency.mean),
            latency(|side| side.latency.p50),
            latency(|side| side.latency.p99),
            latency(|side| side.latency.p99_9),
            latency(|side| side.latency.p99_99),
            first(quantity(measurement.cpu_seconds_per_gb)),
            first(access.map(devices).unwrap_or_default()),
        ];
        TableRow::of(std::iter::once(name).chain(cells.map(Cell::from)))
    };
    sides.iter().enumerate().map(row).collect()
}

/// The sync alone, and where it follows several writes the last of them with it.
fn synced(access: &AccessResult) -> Vec<(&'static str, SideResult)> {
    let Some((syncs, sync)) = access.syncs.as_ref().zip(access.job.sync) else { return Vec::new() };
    let row = |latency: &Latency| SideResult {
        operations_per_second: syncs.operations_per_second,
        latency: latency.clone(),
        ..SideResult::default()
    };
    let with_write = (sync.every > 1).then(|| ("a write with its sync", row(&syncs.with_write)));
    with_write.into_iter().chain([(sync.method.word(), row(&syncs.latency))]).collect()
}

/// Of one side, or of all; the time of one access where that was measured.
fn rate(measurement: &Measurement, side: Option<&SideResult>) -> String {
    if let Some(seconds) = measurement.memory.as_ref().and_then(|point| point.latency_seconds) {
        return seconds_word(seconds);
    }
    let rate = side.map_or(measurement.bytes_per_second, |side| side.bytes_per_second);
    let figure = Figure::of(Some(rate), Origin::Measured);
    Figure { at_least: measurement.lower_bound, ..figure }.show(Unit::Bytes)
}

/// The self-checks of a figure, and what does not hold together.
fn notes(measurement: &Measurement, common: bool) -> Vec<Text> {
    let limited_by =
        measurement.held_by.map(|limited_by| plain(LimitedBy::words(limited_by)).on(Media::Page));
    let flags: Vec<String> = measurement.flags.iter().map(|flag| printable(flag)).collect();
    let flags = (!flags.is_empty()).then(|| format!("flags: {}", flags.join(", ")));
    let Some(access) = measurement.access.as_deref() else {
        let method = (!common).then(|| printable(&measurement.method));
        return limited_by
            .into_iter()
            .chain(flags.into_iter().chain(method).map(|text| plain(text).on(Media::Page)))
            .collect();
    };
    let checked = dim(checked(access, (!common).then(|| printable(&measurement.method))));
    let error = access.errors.first().map(|error| plain(printable(error)).on(Media::Page));
    let checked = checked.on(Media::Page);
    let notes = remarkable(access).into_iter().chain(flags).map(plain);
    limited_by.into_iter().chain([checked]).chain(notes).chain(error).collect()
}

/// What the checks found, and what the method of the benchmark adds to a figure.
pub(super) fn remarkable(access: &AccessResult) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if let Some(burst) = &access.burst {
        notes.push(format!(
            "a burst of {} for {:.1} s ({}), then {}: the bucket holds {}",
            show_bytes_rate(burst.burst_bytes_per_second),
            burst.seconds,
            show_size(burst.until_bytes as u64),
            show_bytes_rate(burst.sustained_bytes_per_second),
            show_size(burst.bucket_bytes as u64)
        ));
    }
    if access.job.sync.is_some() && !access.job.direct && !access.job.transfer_bytes.is_multiple_of(512) {
        notes.push(format!(
            "through the page cache: direct I/O takes whole sectors, and {} B are none",
            access.job.transfer_bytes
        ));
    }
    if let Some(steady) = &access.steady {
        let state = if steady.reached { "steady" } else { "not steady" };
        notes.push(format!(
            "{state} after {} rounds: the last five within {}, drifting by {}",
            steady.rounds,
            percent(steady.excursion),
            percent(steady.slope)
        ));
    }
    if let Some(corrupt) = &access.corrupt {
        notes.push(match corrupt.len() {
            0 => "verified: every block that was read held what was written there".into(),
            some => format!("{some} places did not hold what was written there"),
        });
    }
    if let Some(trial) = access.pinning.as_ref().filter(|trial| !trial.pinned) {
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        notes.push(format!(
            "not pinned: {:.0} requests a second in a short trial, {:.0} pinned (likely, the device's interrupts \
             come to another CPU)",
            mean(&trial.free_per_second),
            mean(&trial.pinned_per_second)
        ));
    }
    notes.extend(access.checks.failed.iter().map(|what| format!("mind: {}", printable(what))));
    notes
}

fn checked(access: &AccessResult, method: Option<String>) -> String {
    let checks = &access.checks;
    // Another tool counts neither what is in flight nor the CPUs of its host.
    if checks.reached_depth <= 0.0 && checks.generator_cpu <= 0.0 {
        let known = checks.asked_depth > 0.0 && checks.little_depth > 0.0;
        let depth =
            format!("by rate × latency {:.1} of {:.0} in flight", checks.little_depth, checks.asked_depth);
        let parts = known.then_some(depth).into_iter().chain(busiest_device(access)).chain(method);
        return parts.collect::<Vec<_>>().join("; ");
    }
    let mut parts = vec![format!("depth {:.1} of {:.0}", checks.reached_depth, checks.asked_depth)];
    if access.job.seconds.is_some() {
        if checks.waiting_depth >= 0.05 {
            parts.push(format!(
                "{:.1} waited for it, {} each",
                checks.waiting_depth,
                seconds_word(checks.wait_seconds)
            ));
        }
        parts.push(format!("by rate × latency {:.1}", checks.little_depth));
    }
    parts.push(format!("generator {} of the CPUs", percent(checks.generator_cpu)));
    if access.job.requests_per_second.is_some() {
        parts.push(format!(
            "late p99 {}, at most {}",
            seconds_word(checks.lateness_p99),
            seconds_word(checks.lateness_maximum)
        ));
    }
    if access.job.seconds.is_none() {
        parts.push(format!(
            "first done {}, last done {}",
            show_bytes_rate(access.first_done_bytes_per_second),
            show_bytes_rate(access.last_done_bytes_per_second)
        ));
    }
    parts.extend(busiest_device(access));
    parts.extend(method);
    parts.join("; ")
}

/// The device that is most in use, and how many there are.
fn busiest_device(access: &AccessResult) -> Option<String> {
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

/// Each device with what it did.
fn devices(access: &AccessResult) -> String {
    let words = |device: &DeviceUse| {
        format!(
            "{}: busy {}, {} in flight, {} read, {} written",
            device.name,
            percent(device.utilisation),
            quantity(device.queue_depth),
            Unit::Bytes.show(device.read_bytes_per_second),
            Unit::Bytes.show(device.written_bytes_per_second)
        )
    };
    let shown: Vec<String> = access.devices.iter().take(MOST_DEVICES).map(words).collect();
    let more = access.devices.len().saturating_sub(MOST_DEVICES);
    shown.join("; ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

fn curve(scaling: &ScalingCurve) -> Part<'static> {
    let row = |step: &ScalingStep| {
        let ScalingStep { devices, bytes_per_second, share, spread } = *step;
        let cells = [devices.to_string(), show_bytes_rate(bytes_per_second), percent(share), percent(spread)];
        TableRow::of(cells).marked(scaling.levels_off_at == Some(devices))
    };
    let end = match (scaling.levels_off_at, &scaling.held_by) {
        (Some(at), Some(who)) => format!("levels off at {} with {}", counted(at, "source"), printable(who)),
        (Some(at), None) => format!("levels off at {}", counted(at, "source")),
        (None, _) => "never levels off: each source brings its share".into(),
    };
    let table = Table::new(CURVE, scaling.steps.iter().map(row));
    let blocks = vec![Block::Space, Block::Table(table), Block::Text(plain(end))];
    Part { id: "curve", title: "From one source to all", blocks, ..Part::default() }
}

const STEPS: [Column; 6] =
    [name("load"), number("IOPS", 0), number("mean", 0), number("p99", 1), number("p99.9", 2), text("", 3)];

pub(super) fn load_parts(run: &Run) -> Vec<Part<'_>> {
    let steps = run.load.as_ref().filter(|curve| !curve.points.is_empty());
    let mut blocks: Vec<Block> =
        steps.into_iter().flat_map(|curve| [Block::Space, steps_table(curve)]).collect();
    blocks.extend(remarks(run).into_iter().map(|remark| Block::Text(dim(remark))));
    let steps = Part { id: "steps", title: "Steps", blocks, ..Part::default() };
    vec![steps, Part { on: Media::Page, ..figures(&run.measurements) }]
}

fn steps_table(curve: &LoadCurve) -> Block<'static> {
    let (answer, level) = (curve.answer(), curve.level_rate());
    let row = |point: &LoadPoint| {
        let load = match point.offered {
            Some(offered) => format!("{}/s", operations_word(offered)),
            None => counted(point.workers, "worker"),
        };
        let mut notes = Vec::new();
        if answer.is_some_and(|answer| std::ptr::eq(answer, point)) {
            notes.push(match level.filter(|_| point.offered.is_none()) {
                Some(level) => format!("{} of the most", percent(point.operations_per_second / level)),
                None => "highest".into(),
            });
        }
        if let Some(in_flight) = outcome::in_flight_of_more(point) {
            notes.push(format!("{in_flight:.0} in flight"));
        }
        if !point.within_limit {
            notes.push("past the limit".into());
        }
        let [mean, p99, p99_9] =
            [point.latency.mean, point.latency.p99, point.latency.p99_9].map(seconds_word);
        TableRow::of([load, operations_word(point.operations_per_second), mean, p99, p99_9, notes.join(", ")])
    };
    Block::Table(Table::new(STEPS, curve.points.iter().map(row)))
}

/// What the columns have no room for, each once with how many measurements it holds of.
fn remarks(run: &Run) -> Vec<String> {
    let of = |one: &'_ Measurement| -> Vec<(String, String)> {
        let limited_by = one.held_by.map(|by| by.words().to_string());
        let access = one.access.as_deref();
        let found = access.into_iter().flat_map(remarkable);
        let error = access.and_then(|access| access.errors.first());
        let said = one.flags.iter().chain(error).map(|text| printable(text));
        limited_by.into_iter().chain(said).chain(found).map(|remark| (remark, outcome::name(one))).collect()
    };
    let all = grouped(run.measurements.iter().flat_map(of), |(one, _), (other, _)| one == other);
    let words = |alike: &Vec<(String, String)>| match alike.as_slice() {
        [(remark, name)] => format!("{remark}: {name}"),
        many => format!("{}: {} rows", many[0].0, many.len()),
    };
    all.iter().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Style;

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
        let lines = curve(&scaling).lines(80, Style::of(100, false));
        assert_eq!(lines.len(), 6);
        assert!(lines[5].starts_with("levels off at 2 sources with 150 MB/s: loop9"), "{lines:?}");
    }
}
