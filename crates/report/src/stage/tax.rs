//! What a file system takes: the same job on the block device, then through each file system on it, in rate and in CPU time.

use crate::document::{Block, Part, Table, TableRow};
use crate::figure::{Unit, percent, quantity};
use crate::grid::{Column, name, number, text};
use crate::job_words;
use linerate_facts::printable::printable;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::AccessJob;
use linerate_measure::run::Run;
use std::path::Path;

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
