//! What `linerate disk` finds beside rates. `--scaling`: what all sources together reach of the baseline, over
//! workers, transfer size and layout. What a file system takes: the same job on the block device, then through
//! each file system on it, in rate and in CPU time.

use crate::document::{Block, Part, Table, TableRow};
use crate::figure::{Unit, percent, quantity, spread};
use crate::grid::{Column, name, number, text};
use crate::job_words;
use linerate_facts::grouping::grouped;
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::measure::access::{AccessJob, AccessResult, ScalingCurve, title};
use linerate_measure::measure::{Measurement, Scaling};
use linerate_measure::run::Run;
use linerate_measure::run::disk::BestAlone;
use std::path::Path;

/// One cell with all of its sources.
pub(super) struct ScalabilityRow {
    pub(super) workers: String,
    pub(super) transfer: String,
    pub(super) rate: String,
    pub(super) of_baseline: String,
    pub(super) of_best: String,
    pub(super) spread: String,
    /// `at 3 (99 %)`: with how many sources, and the share until then; a dash where each brings its share.
    pub(super) levels_off: String,
    /// What else of the job is not the same in all cells.
    pub(super) job: String,
}

/// All cells, and what is said once of them.
pub(super) struct Scalability {
    /// What all cells have in common: `8 sources, sequential read, depth 16`.
    pub(super) common: String,
    pub(super) rows: Vec<ScalabilityRow>,
    /// Where curves level off, and who is to blame: a sentence for each that is blamed.
    pub(super) limits: Vec<String>,
}

/// Of a run that measured more than one cell; one alone shows its curve.
pub(super) fn scalability(run: &Run) -> Option<Scalability> {
    let scaling = run.scaling.as_ref().filter(|scaling| !scaling.further.is_empty())?;
    let cells: Vec<(&ScalingCurve, &Measurement, &AccessResult)> = scaling
        .curves()
        .filter_map(|curve| {
            let whole = |m: &&Measurement| m.access.as_ref().is_some_and(|of| title(&of.job) == curve.cell);
            let measurement = with_all_sources(run).find(whole)?;
            Some((curve, measurement, measurement.access.as_deref()?))
        })
        .collect();
    let words: Vec<Vec<String>> = cells.iter().map(|(.., access)| job_details(access)).collect();
    let mut common = words.first()?.clone();
    common.retain(|word| words.iter().all(|of| of.contains(word)));
    let row = |((curve, measurement, access), words): (
        &(&ScalingCurve, &Measurement, &AccessResult),
        &Vec<String>,
    )| {
        let own: Vec<&str> = words.iter().filter(|word| !common.contains(word)).map(String::as_str).collect();
        ScalabilityRow {
            workers: access.job.workers.to_string(),
            transfer: job_words::transfer(&access.job),
            rate: Unit::Bytes.show(measurement.bytes_per_second),
            of_baseline: measurement.of_baseline().map(percent).unwrap_or_default(),
            of_best: of_best_alone(run, measurement).map(percent).unwrap_or_default(),
            spread: spread(measurement),
            levels_off: levels_off(curve),
            job: own.join(", "),
        }
    };
    let rows = cells.iter().zip(&words).map(row).collect();
    Some(Scalability { common: common.join(", "), rows, limits: limits(scaling) })
}

/// What several sources reach of as many times the best that one of them reached alone, by whatever workers and
/// transfer of this run, or of one before that was named: few workers cannot fill a source. None: no source was
/// measured alone in this way.
pub(crate) fn of_best_alone(run: &Run, measurement: &Measurement) -> Option<f64> {
    let access = measurement.access.as_ref()?;
    let own = || {
        let all = BestAlone::all(&run.measurements);
        all.iter().find(|best| best.is_like(&access.job)).map(BestAlone::rate)
    };
    let best = access.best_alone_bytes_per_second.or_else(own)?;
    let share = measurement.bytes_per_second / (best * access.job.sources.len() as f64);
    Some(share).filter(|share| share.is_finite())
}

fn levels_off(curve: &ScalingCurve) -> String {
    let Some(at) = curve.levels_off_at else { return "–".into() };
    let there = curve.steps.iter().find(|step| step.devices == at).map(|step| step.share);
    let share = there.filter(|share| share.is_finite() && *share > 0.0);
    share.map_or_else(|| format!("at {at}"), |share| format!("at {at} ({})", percent(share)))
}

/// The measurements in which every source of the run took part.
pub(crate) fn with_all_sources(run: &Run) -> impl Iterator<Item = &Measurement> {
    let count = |m: &Measurement| m.access.as_ref().map_or(0, |access| access.job.sources.len());
    let most = run.measurements.iter().map(count).max().unwrap_or(0);
    run.measurements.iter().filter(move |m| count(m) == most)
}

/// Everything of a job that has no column of its own.
fn job_details(access: &AccessResult) -> Vec<String> {
    let mut words = vec![counted(access.job.sources.len() as u64, "source"), job_words::pattern(&access.job)];
    words.extend(job_words::method(&access.job));
    words
}

/// `6 of 8 cells level off: the disk vda, which all of them lie on`.
fn limits(scaling: &Scaling) -> Vec<String> {
    let cells = scaling.curves().count();
    let level: Vec<&ScalingCurve> = scaling.curves().filter(|curve| curve.levels_off_at.is_some()).collect();
    if level.is_empty() {
        return vec!["no cell levels off: each source brings its share".into()];
    }
    let blamed = grouped(level.into_iter().map(who), |one, other| one == other);
    blamed.iter().map(|all| format!("{} of {cells} cells level off: {}", all.len(), all[0])).collect()
}

/// Who is blamed, without the rate that was reached.
fn who(curve: &ScalingCurve) -> String {
    let blame = printable(curve.held_by.as_deref().unwrap_or("what limits them is unknown"));
    blame.split_once(": ").map_or(blame.clone(), |(_, who)| who.to_string())
}

/// What came of all cells in one sentence.
pub(super) fn sentence(scaling: &Scaling) -> Option<String> {
    let all: Vec<_> = scaling.curves().filter_map(|curve| Some((curve, curve.steps.last()?))).collect();
    let (curve, best) = all.iter().max_by(|a, b| a.1.bytes_per_second.total_cmp(&b.1.bytes_per_second))?;
    let shares = || all.iter().map(|(_, step)| step.share).filter(|share| share.is_finite());
    let (least, most) = (shares().reduce(f64::min)?, shares().reduce(f64::max)?);
    let level = scaling.curves().filter(|curve| curve.levels_off_at.is_some()).count();
    let levels = match level {
        0 => "none levels off".into(),
        1 => "1 levels off".into(),
        several => format!("{several} level off"),
    };
    Some(format!(
        "{} sources reach {} to {} of the baseline in {} cells, of which {levels}. The most was {}: {}.",
        best.devices,
        percent(least),
        percent(most),
        all.len(),
        Unit::Bytes.show(best.bytes_per_second),
        printable(&curve.cell)
    ))
}

const COLUMNS: [Column; 7] = [
    name("source"),
    text("file system", 0),
    number("rate", 0),
    number("of the device", 0),
    number("CPU s/GB", 0),
    number("more", 0),
    text("job", 1),
];

/// None: the run has no block device that a file system is held against (`linerate disk --tax`).
pub(super) fn part(run: &Run) -> Option<Part<'static>> {
    let all = || run.measurements.iter().filter_map(|one| Some((one, alone(one)?)));
    let mut rows = Vec::new();
    for (device, (path, job)) in all().filter(|(_, (path, _))| is_device(path)) {
        let through = all().filter(|(_, (other, of))| !is_device(other) && *of == job);
        let through: Vec<(&Measurement, &Path)> = through.map(|(one, (path, _))| (one, path)).collect();
        if through.is_empty() {
            continue;
        }
        rows.push(row(run, device, path, None, &job));
        rows.extend(through.into_iter().map(|(one, path)| row(run, one, path, Some(device), &job)));
    }
    let intro = "The same job on the block device and through each file system; CPU time is that of the whole host, where it is \
                 known, less that of other programs.";
    let blocks = vec![
        Block::Heading("The tax of file systems".into()),
        Block::Table(Table::new(COLUMNS, rows.iter().cloned())),
    ];
    let part = Part::new("tax", "The tax of file systems", intro, blocks);
    (!rows.is_empty()).then_some(part)
}

/// The only source of a measurement, and the job in words.
fn alone(one: &Measurement) -> Option<(&Path, String)> {
    let job: &AccessJob = &one.access.as_ref()?.job;
    let [source] = &job.sources[..] else { return None };
    Some((source.as_path(), job_words::job(job)))
}

/// The kind of the file system that holds a path; none: it is a device.
pub fn file_system_of<'r>(run: &'r Run, path: &Path) -> Option<&'r str> {
    if is_device(path) {
        return None;
    }
    let mounted = run.machine.file_systems.iter().filter(|fs| path.starts_with(&fs.mount_point));
    mounted.max_by_key(|fs| fs.mount_point.components().count()).map(|fs| fs.kind.as_str())
}

fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// CPU seconds for each GB.
fn cost(one: &Measurement) -> f64 {
    if one.busy_seconds_per_gb > 0.0 { one.busy_seconds_per_gb } else { one.cpu_seconds_per_gb }
}

fn row(run: &Run, one: &Measurement, path: &Path, device: Option<&Measurement>, job: &str) -> TableRow {
    let kind = file_system_of(run, path).map(printable);
    let against = |of: fn(&Measurement) -> f64| device.map(|device| of(one) / of(device));
    let share = against(|one| one.bytes_per_second).filter(|share| share.is_finite());
    let more = device.map(|device| cost(one) - cost(device)).filter(|_| cost(one) > 0.0);
    TableRow::of([
        printable(&path.to_string_lossy()),
        if device.is_none() { "none".into() } else { kind.unwrap_or_else(|| "unknown".into()) },
        Unit::Bytes.show(one.bytes_per_second),
        share.map(percent).unwrap_or_else(|| "–".into()),
        quantity(cost(one)),
        more.map(|more| format!("{more:+.3}")).unwrap_or_else(|| "–".into()),
        job.to_string(),
    ])
}
