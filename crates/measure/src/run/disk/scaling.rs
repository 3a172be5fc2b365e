//! `linerate disk --scaling`: in each cell of the grid each source alone, then 1, 2, 3 … of them at once; what
//! is reached of the baseline (the sum of each alone), and who is to blame where a curve levels off.

use super::blame::{SourceStack, blamed};
use super::{DiskCommand, DiskGrid, grid};
use crate::event::Event;
use crate::measure::Measurement;
use crate::measure::access::{
    Access, AccessJob, AccessOrder, Reached, Scaling, ScalingCurve, curve, numbers, title,
};
use crate::measure::statistics::median;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_bytes_rate;
use linerate_facts::wording::counted;
use linerate_system::clock;
use std::ops::Range;

/// One cell: which of all jobs are its own.
struct CellJobs {
    name: String,
    /// Each source by itself.
    alone: Range<usize>,
    /// So many sources at once; one is the first alone.
    steps: Vec<(u32, usize)>,
}

/// Measurements of one cell with this number of sources.
pub(super) fn jobs_of_a_cell(sources: u32) -> usize {
    sources as usize + numbers(sources).len() - 1
}

/// Every source needs a worker in every cell, else there is nothing to hold the others against.
pub(super) fn check(grid: &DiskGrid) -> Result<(), Failure> {
    let sources = grid.alike.sources.len();
    match grid.workers.iter().min().filter(|workers| (**workers as usize) < sources) {
        Some(fewest) => Err(Failure::Usage(format!(
            "--scaling: {} for {sources} sources leaves one of them without; give --workers {sources} or more",
            counted(*fewest, "worker"),
        ))),
        None => Ok(()),
    }
}

/// Measures the curve of each cell. The figures are those of a grid whose cells are sets of sources.
pub(super) fn measure(session: &mut DiskCommand<'_, '_>, cells: &[AccessJob]) -> Result<(), Failure> {
    let (jobs, cells) = laid_out(cells);
    let Some(job) = jobs.last() else { return Ok(()) };
    let stacks = SourceStack::of_each(session.bench.sysroot, session.bench.machine, &job.sources);
    session.visits = vec![Vec::new(); jobs.len()];
    let total = jobs.len() * session.spec.repeats as usize;
    let begin = clock::now();
    let mut done = 0;
    for repeat in 0..session.spec.repeats {
        for at in grid::shuffled(jobs.len(), session.spec.grid.alike.seed.wrapping_add(u64::from(repeat))) {
            if session.bench.stopped() {
                conclude(session, &cells, &stacks);
                return Ok(());
            }
            session.tell_remaining(&jobs, done, total, begin);
            let job = &jobs[at];
            session.visit_and_keep(at, job, repeat, |visit| with_source_count(visit, job))?;
            done += 1;
        }
        conclude(session, &cells, &stacks);
    }
    for curve in session.run.scaling.iter().flat_map(Scaling::curves) {
        if let (Some(level), Some(who)) = (curve.levels_off_at, &curve.held_by) {
            let note = format!("{}: levels off at {}, {who}", curve.cell, counted(level, "source"));
            session.bench.listener.hear(&Event::Note(note));
        }
    }
    Ok(())
}

/// The jobs of all cells one after the other: each source alone, then several at once.
fn laid_out(cells: &[AccessJob]) -> (Vec<AccessJob>, Vec<CellJobs>) {
    let mut jobs: Vec<AccessJob> = Vec::new();
    let mut laid = Vec::new();
    for cell in cells {
        let sources = cell.sources.len() as u32;
        let first = jobs.len();
        jobs.extend((0..sources).map(|source| part(cell, source..source + 1)));
        let alone = first..jobs.len();
        let mut steps = Vec::new();
        for number in numbers(sources) {
            if number > 1 {
                jobs.push(part(cell, 0..number));
            }
            steps.push((number, if number > 1 { jobs.len() - 1 } else { first }));
        }
        laid.push(CellJobs { name: title(cell), alone, steps });
    }
    (jobs, laid)
}

/// Some sources of a cell with the workers that they have in it (these are dealt round), and with these
/// workers' share of a rate that all together are to keep.
fn part(cell: &AccessJob, which: Range<u32>) -> AccessJob {
    let sources = cell.sources.len() as u32;
    let of = |source: u32| cell.workers / sources + u32::from(source < cell.workers % sources);
    let workers: u32 = which.clone().map(of).sum();
    let share = f64::from(workers) / f64::from(cell.workers);
    AccessJob {
        sources: cell.sources[which.start as usize..which.end as usize].to_vec(),
        workers,
        requests_per_second: cell.requests_per_second.map(|rate| rate * share),
        limit_bytes_per_second: cell.limit_bytes_per_second.map(|rate| rate * share),
        ..cell.clone()
    }
}

/// The name tells how many sources took part: all else is the same in every step.
fn with_source_count(mut visit: Measurement, job: &AccessJob) -> Measurement {
    let who = match &job.sources[..] {
        [one] => format!("{} alone", one.display()),
        several => format!("{} sources", several.len()),
    };
    visit.name = format!("{who}, {}", visit.name);
    visit
}

/// The curves by all visits so far, and the baseline of each figure of several sources.
fn conclude(session: &mut DiskCommand<'_, '_>, cells: &[CellJobs], stacks: &[SourceStack]) {
    let mut curves = cells.iter().filter_map(|cell| curve_of(session, cell, stacks)).collect::<Vec<_>>();
    if !curves.is_empty() {
        let further = curves.split_off(1);
        session.run.scaling = curves.pop().map(|first| Scaling { first, further });
    }
}

/// The best of one source alone, by whatever workers and transfer: CUNY's percentage is of that.
#[derive(Clone, Debug, PartialEq)]
pub struct BestAlone {
    access: Access,
    order: AccessOrder,
    bytes_per_second: f64,
}

impl BestAlone {
    /// Of each kind of access in these measurements.
    pub fn all(measurements: &[Measurement]) -> Vec<BestAlone> {
        let mut found: Vec<BestAlone> = Vec::new();
        for measurement in measurements {
            let job = measurement.access.as_ref().map(|access| &access.job);
            let Some(job) = job.filter(|job| job.sources.len() == 1) else { continue };
            let rate = measurement.bytes_per_second;
            if !rate.is_finite() || rate <= 0.0 {
                continue;
            }
            match found.iter_mut().find(|best| best.is_like(job)) {
                Some(best) => best.bytes_per_second = best.bytes_per_second.max(rate),
                None => {
                    found.push(BestAlone { access: job.access, order: job.order, bytes_per_second: rate })
                }
            }
        }
        found
    }

    /// The bytes went the same way, in the same order.
    pub fn is_like(&self, job: &AccessJob) -> bool {
        (self.access, self.order) == (job.access, job.order)
    }

    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes_per_second
    }
}

/// None as long as a source was not measured alone.
fn curve_of(
    session: &mut DiskCommand<'_, '_>,
    cell: &CellJobs,
    stacks: &[SourceStack],
) -> Option<ScalingCurve> {
    let samples =
        |at: usize| -> Vec<f64> { session.visits[at].iter().map(|visit| visit.bytes_per_second).collect() };
    let alone = cell.alone.clone().map(samples).collect::<Vec<_>>();
    if alone.iter().any(Vec::is_empty) {
        return None;
    }
    let alone: Vec<f64> = alone.iter().map(|samples| median(samples)).collect();
    let reached = cell.steps.iter().map(|(devices, at)| Reached { devices: *devices, samples: samples(*at) });
    let reached: Vec<Reached> = reached.filter(|reached| !reached.samples.is_empty()).collect();
    let mut curve = curve(cell.name.clone(), &alone, &reached);
    let all = cell.steps.last().and_then(|(_, at)| session.visits[*at].last());
    if let Some((level, all)) = curve.levels_off_at.zip(all) {
        let there = curve.steps.iter().find(|step| step.devices == level);
        let rate = there.map_or(0.0, |step| step.bytes_per_second);
        let who = blamed(session.bench.machine, stacks, all);
        curve.held_by = Some(format!("{}: {who}", show_bytes_rate(rate)));
    }
    for (devices, at) in cell.steps.iter().filter(|(devices, _)| *devices > 1) {
        let baseline = alone.iter().take(*devices as usize).sum();
        let results = session.visits[*at].iter_mut().filter_map(|visit| visit.access.as_mut());
        let before = &session.spec.best_alone;
        results.for_each(|access| {
            access.baseline_bytes_per_second = Some(baseline);
            let best = before.iter().find(|best| best.is_like(&access.job));
            access.best_alone_bytes_per_second = best.map(BestAlone::rate);
        });
    }
    Some(curve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::access::{FileLayout, test_job};

    #[test]
    fn each_source_alone_has_the_workers_that_it_has_among_all() {
        let mut cell = test_job(3, 7, FileLayout::FilePerWorker);
        cell.limit_bytes_per_second = Some(70e6);
        let (jobs, laid) = laid_out(&[cell.clone(), cell]);
        let seen: Vec<(usize, u32)> = jobs.iter().map(|job| (job.sources.len(), job.workers)).collect();
        assert_eq!(seen[..5], [(1, 3), (1, 2), (1, 2), (2, 5), (3, 7)]);
        assert_eq!(seen[..5], seen[5..], "the second cell has jobs of its own");
        assert_eq!(jobs[1].sources[0].to_str(), Some("/source1"));
        assert!((jobs[1].limit_bytes_per_second.expect("a limit") - 20e6).abs() < 1.0);
        assert_eq!(laid[1].alone, 5..8);
        assert_eq!(laid[1].steps, [(1, 5), (2, 8), (3, 9)]);
        assert_eq!(jobs_of_a_cell(3), 5);
        assert_eq!(jobs_of_a_cell(1), 1);
    }
}
