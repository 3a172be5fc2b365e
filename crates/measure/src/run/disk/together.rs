//! Jobs that run at once, as the sections of a job file do that no `stonewall` parts: each has its own files, workers
//! and figure.

use super::super::{Run, RunContext};
use super::{DiskSpec, goal, name_of};
use crate::event::{Event, Silent};
use crate::measure::access::{AccessBench, AccessJob, Prepared, conduct_unpinned, merged};
use crate::measure::{Measurement, Stage};
use linerate_facts::failure::Failure;
use linerate_facts::wording::counted;

/// All of it: a figure for each grid, in their order.
pub(super) fn conduct_together(mut context: RunContext<'_>, spec: &DiskSpec) -> Result<Run, Failure> {
    let machine = context.probe();
    let run = Run::begin_stage(
        Stage::Disk,
        spec.name.clone().unwrap_or_else(|| name_of(&spec.grid)),
        machine.clone(),
        goal(spec),
    );
    let bench = AccessBench::new(context.sysroot, &machine, context.stop, &mut *context.listener);
    let mut bench = AccessBench { io_uring: spec.io_uring, idle: spec.idle, ..bench };
    let mut jobs = Vec::new();
    let measured = prepare(&mut bench, spec, &mut jobs)
        .and_then(|()| measure(&mut bench, spec, &mut jobs, run, &mut *context.save));
    let mut run = match measured {
        Ok(run) => run,
        Err(failure) => {
            jobs.iter_mut().for_each(|(_, prepared)| prepared.remove());
            return Err(failure);
        }
    };
    let kept_files = jobs.iter().flat_map(|(_, prepared)| prepared.kept_files());
    run.changes.extend(kept_files.map(|path| format!("made {path}, which was to be kept")));
    context.finish(run)
}

fn prepare(
    bench: &mut AccessBench<'_>,
    spec: &DiskSpec,
    jobs: &mut Vec<(AccessJob, Prepared)>,
) -> Result<(), Failure> {
    for grid in std::iter::once(&spec.grid).chain(&spec.beside) {
        for mut job in grid.cells()? {
            job.check().map_err(Failure::usage)?;
            let prepared =
                Prepared::new(bench, &grid.alike.sources, spec.permissions.clone())?.numbered(jobs.len());
            prepared.fit_to_sectors(&mut job);
            jobs.push((job, prepared));
            if let Some((job, prepared)) = jobs.last_mut() {
                prepared.ready_for(bench, job)?;
            }
        }
    }
    Ok(())
}

fn measure(
    bench: &mut AccessBench<'_>,
    spec: &DiskSpec,
    jobs: &mut [(AccessJob, Prepared)],
    mut run: Run,
    save: super::Save<'_>,
) -> Result<Run, Failure> {
    // Who writes an amount allocates in the first pass.
    let writes_once = jobs.iter().any(|(job, _)| job.seconds.is_none() && job.writes() && !job.is_log());
    let passes = if writes_once { spec.rounds.saturating_sub(1) } else { 0 };
    let mut visits: Vec<Vec<Measurement>> = vec![Vec::new(); jobs.len()];
    for visit in 0..passes + spec.repeats {
        for (job, prepared) in &mut *jobs {
            prepared.ready_for(bench, job)?;
        }
        let seconds = jobs.iter().filter_map(|(job, _)| job.seconds).fold(0.0, f64::max);
        let name = format!("{} at once", counted(jobs.len(), "job"));
        bench.listener.hear(&Event::Started { stage: Stage::Disk, name, seconds });
        let measured = at_once(bench, jobs)?;
        if bench.stopped() {
            break;
        }
        jobs.iter_mut().for_each(|(job, prepared)| prepared.wrote(job));
        if visit >= passes {
            visits.iter_mut().zip(measured).for_each(|(visits, measured)| visits.push(measured));
            run.measurements = visits.iter().filter_map(|visits| merged(visits)).collect();
            // Where this fails, so does the save at the end, which is an error of the run.
            let _ = save(&run);
        }
    }
    if run.measurements.is_empty() {
        return Err(Failure::Interrupted);
    }
    let accesses = visits.iter().flatten().filter_map(|visit| visit.access.as_ref());
    run.errors.extend(accesses.flat_map(|access| access.failures()));
    run.errors.dedup();
    run.measurements.iter().for_each(|one| bench.listener.hear(&Event::Measured(Box::new(one.clone()))));
    Ok(run)
}

/// Each on a thread of its own, from the same moment on; the kernel places their workers.
fn at_once(bench: &AccessBench<'_>, jobs: &[(AccessJob, Prepared)]) -> Result<Vec<Measurement>, Failure> {
    let AccessBench { sysroot, machine, stop, io_uring, idle, .. } = *bench;
    std::thread::scope(|scope| {
        let one = |(job, prepared): &(AccessJob, Prepared)| {
            let mut listener = Silent;
            let bench = AccessBench::new(sysroot, machine, stop, &mut listener);
            let mut bench = AccessBench { io_uring, idle, ..bench };
            conduct_unpinned(&mut bench, job, prepared)
        };
        let running: Vec<_> = jobs.iter().map(|job| scope.spawn(move || one(job))).collect();
        let panicked = |_| Err(Failure::Lacks("a job's thread panicked: please report this".into()));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}
