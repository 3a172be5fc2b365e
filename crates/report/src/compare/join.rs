//! Runs of the same name as repeats of one another: their samples become one, so that the interval holds what
//! changes from run to run, too.

use super::pair::keyed;
use linerate_measure::measure::statistics::{median, spread};
use linerate_measure::measure::{Measurement, Measurements};
use linerate_measure::run::Run;
use std::path::PathBuf;

/// One run for each name, in the order in which the names came.
pub(crate) fn joined(runs: Vec<(PathBuf, Run)>) -> Vec<(PathBuf, Run)> {
    let mut groups: Vec<(String, Vec<(PathBuf, Run)>)> = Vec::new();
    for run in runs {
        let name = name(&run.1);
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, group)) => group.push(run),
            None => groups.push((name, vec![run])),
        }
    }
    groups.into_iter().filter_map(|(_, group)| one(group)).collect()
}

fn name(run: &Run) -> String {
    format!("{} {}", run.command(), if run.stage.is_some() { &run.name } else { &run.host })
}

fn one(group: Vec<(PathBuf, Run)>) -> Option<(PathBuf, Run)> {
    let measurements = measurements(&group);
    let errors: Vec<String> = group.iter().skip(1).flat_map(|(_, run)| &run.errors).cloned().collect();
    let knees = group.iter().filter_map(|(_, run)| run.load.as_ref()?.level_rate()).collect();
    let (file, mut first) = group.into_iter().next()?;
    first.measurements = measurements;
    if let Some(load) = &mut first.load {
        load.knees = knees;
    }
    first.errors.extend(errors);
    Some((file, first))
}

/// Each measurement that any of the runs has, with the samples of all that have it.
fn measurements(group: &[(PathBuf, Run)]) -> Measurements {
    let keyed: Vec<_> = group.iter().flat_map(|(_, run)| keyed(run)).collect();
    let mut done = Vec::new();
    let mut joined = Vec::new();
    for (key, _) in &keyed {
        if done.contains(&key) {
            continue;
        }
        done.push(key);
        let same: Vec<&Measurement> =
            keyed.iter().filter(|(other, _)| other == key).map(|(_, measurement)| *measurement).collect();
        joined.extend(of_all(&same));
    }
    joined
}

/// The samples of all; everything else is that of the run in the middle.
fn of_all(same: &[&Measurement]) -> Option<Measurement> {
    let samples: Vec<f64> = same.iter().flat_map(|measurement| &measurement.samples).copied().collect();
    let middle = median(&samples);
    let off = |measurement: &Measurement| (measurement.bytes_per_second - middle).abs();
    let nearest = same.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    let mut joined = (*nearest).clone();
    let mut flags: Vec<String> = same.iter().flat_map(|measurement| measurement.flags.clone()).collect();
    flags.sort();
    flags.dedup();
    // Too few samples of one run are many together; what they spread is shown by the interval.
    joined.flags = flags;
    joined.spread = spread(&samples);
    joined.bytes_per_second = middle;
    joined.samples = samples;
    if let Some(access) = &mut joined.access {
        let each = same.iter().filter_map(|measurement| measurement.access.as_ref());
        access.visits = each.flat_map(|access| access.visits.iter().copied()).collect();
    }
    Some(joined)
}
