//! `linerate disk --fio-job FILE`: the sections of a job file as grids of one job each, done one after the
//! other.

use super::arguments::{JobArgs, SEED};
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::show_size;
use linerate_measure::measure::access::fio_job::{self, FioJob};
use linerate_measure::measure::access::{AccessJob, FileLayout};
use linerate_measure::run::Run;
use linerate_measure::run::disk::{DiskGrid, WorkerParts};
use linerate_system::file::folder_of;
use std::path::{Path, PathBuf};

/// The sections of a file; what fio would do otherwise is told on the way.
pub(super) fn read(path: &Path) -> Result<Vec<FioJob>, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::Lacks(format!("--fio-job {shown} cannot be read: {error}; give a job file of fio"))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("--fio-job {shown} is not text; give a job file of fio")))?;
    fio_job::parse(&text).map_err(|error| Failure::Usage(format!("--fio-job {shown}, {error}")))
}

/// fio makes a file that is named with a size and is not there; linerate makes one of its own in the same folder, which
/// goes at the end unless it is to be kept. A device that is not there is no file to make.
pub(super) fn make_absent(job: &mut FioJob, keep: bool) {
    let Some(bytes) = job.amount_bytes.filter(|_| job.names_files) else { return };
    let one = job.layout == FileLayout::Segmented;
    let bytes = if one { bytes * u64::from(job.workers) } else { bytes };
    let end = if keep { "" } else { ", and removed at the end" };
    let is_file = |path: &&mut PathBuf| !path.starts_with("/dev") || path.starts_with("/dev/shm");
    for source in job.sources.iter_mut().filter(is_file) {
        let folder = folder_of(source);
        if source.exists() || !folder.is_dir() {
            continue;
        }
        let (name, size) = (printable(&source.to_string_lossy()), show_size(bytes));
        job.notes.push(format!("{name} is not there: a file of {size} is made in its folder{end}"));
        *source = folder.to_path_buf();
    }
}

/// One section as a grid; the checks are those of the command line.
pub(super) fn grid(job: &FioJob, args: &JobArgs) -> DiskGrid {
    DiskGrid {
        alike: AccessJob {
            sources: job.sources.clone(),
            direct: job.direct,
            fsync: job.fsync,
            sync: job.sync,
            reorder: args.reorder,
            verify: args.verify,
            seconds: job.seconds,
            requests_per_second: job.requests_per_second,
            limit_bytes_per_second: job.limit_bytes_per_second,
            seed: SEED,
            ..AccessJob::plain(job.access, job.order)
        },
        workers: vec![job.workers],
        transfers: vec![job.transfer_bytes],
        queue_depths: vec![job.queue_depth],
        accesses: vec![job.access],
        orders: vec![job.order],
        layouts: vec![job.layout],
        engines: vec![job.engine],
        parts: WorkerParts { amount_bytes: job.amount_bytes, block_bytes: None },
    }
}

/// What was measured before, with what the next sections measured under their own names.
pub(super) fn joined(before: Option<&Run>, next: &Run, sections: &[String]) -> Run {
    let mut run = before.unwrap_or(next).clone();
    let mut measurements = next.measurements.clone();
    for (measurement, section) in measurements.iter_mut().zip(sections) {
        measurement.name.clone_from(section);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_file_is_made_beside_its_name_and_an_absent_device_is_not() {
        let of = |name: &str, keep| {
            let text = format!("[a]\nrw=read\nsize=4m\nfilename={name}\n");
            let mut job = fio_job::parse(&text).expect("a job file").remove(0);
            make_absent(&mut job, keep);
            (job.sources.remove(0), job.notes.join(" "))
        };
        let (source, note) = of("/dev/linerate-none", false);
        assert!(source == Path::new("/dev/linerate-none") && !note.contains("is not there"), "{note}");
        let (source, note) = of("/tmp/linerate-none", false);
        assert!(source == Path::new("/tmp") && note.ends_with("removed at the end"), "{note}");
        assert!(of("/tmp/linerate-none", true).1.ends_with("is made in its folder"));
    }
}
