//! `linerate disk --fio-job FILE`: the sections of a job file as grids of one job each, done one after the
//! other.

use super::arguments::JobArgs;
use linerate_facts::failure::Failure;
use linerate_measure::measure::access::fio_job::{self, FioJob};
use linerate_measure::run::Run;
use linerate_measure::run::disk::{DiskGrid, WorkerParts};
use std::path::Path;

/// The sections of a file; what fio would do otherwise is told on the way.
pub(super) fn read(path: &Path) -> Result<Vec<FioJob>, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::Lacks(format!("--fio-job {shown} cannot be read: {error}; give a job file of fio"))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("--fio-job {shown} is no text; give a job file of fio")))?;
    fio_job::parse(&text).map_err(|error| Failure::Usage(format!("--fio-job {shown}, {error}")))
}

/// One section as a grid; the seed and the checks are those of the command line.
pub(super) fn grid(job: &FioJob, args: &JobArgs) -> DiskGrid {
    DiskGrid {
        sources: job.sources.clone(),
        workers: vec![job.workers],
        transfers: vec![job.transfer_bytes],
        queue_depths: vec![job.queue_depth],
        accesses: vec![job.access],
        orders: vec![job.order],
        layouts: vec![job.layout],
        engines: vec![job.engine],
        parts: WorkerParts { amount_bytes: job.amount_bytes, block_bytes: None, segments: None },
        direct: job.direct,
        fsync: job.fsync,
        reorder: args.reorder,
        verify: args.verify,
        seconds: job.seconds,
        requests_per_second: job.requests_per_second,
        limit_bytes_per_second: job.limit_bytes_per_second,
        seed: args.seed,
    }
}

/// What was measured before, with what the next section measured under its own name.
pub(super) fn joined(before: Option<&Run>, next: &Run, section: Option<&str>) -> Run {
    let mut run = before.unwrap_or(next).clone();
    let mut measurements = next.measurements.clone();
    if let Some(section) = section {
        measurements.iter_mut().for_each(|measurement| measurement.name = section.to_string());
    }
    if before.is_some() {
        run.measurements.extend(measurements);
        run.errors.extend(next.errors.iter().cloned());
        run.changes.extend(next.changes.iter().cloned());
    } else {
        run.measurements = measurements;
    }
    // Under their names, and of one section beside another.
    run.diagnosis = run.diagnose();
    run
}
