//! fio's JSON, of fio 2 and 3: the jobs of each group, what they did together, and the disks below them.

use crate::document::Document;
use crate::fio_job::{self, JobOptions};
use crate::fio_json::{Disk, Job};
use crate::lenient::Number;
use crate::verdict::{self, FigureContext};
use crate::{ForeignError, MOST_FIGURES};
use linerate_measure::measure::access::DeviceUse;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use std::collections::BTreeMap;

/// Snapshots of `--status-interval` whose run began within so many seconds are of one run.
const SAME_BEGIN_SECONDS: f64 = 2.0;

/// Jobs and disks that are kept of all runs of a file.
const MOST_PARTS: usize = 30_000;

/// The results of a file: of several snapshots of one run the last, of several runs each.
#[derive(Debug, Default)]
pub(crate) struct Results {
    documents: Vec<Document>,
    /// Their jobs and disks.
    parts: usize,
}

impl Results {
    pub(crate) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    pub(crate) fn add(&mut self, mut document: Document) {
        // Of a client that had others measure: each host's jobs, without their sum.
        document.client_stats.retain(|job| job.jobname.0 != "All clients");
        document.jobs.append(&mut document.client_stats);
        let parts = |of: &Document| 1 + of.jobs.len() + of.disk_util.len();
        if let Some(last) = self.documents.pop_if(|last| is_later(last, &document)) {
            self.parts -= parts(&last);
        }
        if self.parts < MOST_PARTS {
            self.parts += parts(&document);
            self.documents.push(document);
        }
    }

    /// All jobs as figures; what limited the fastest.
    pub(crate) fn run(self) -> Result<Run, ForeignError> {
        let first = self.documents.first().ok_or(ForeignError::NoJob)?;
        let job =
            self.documents.iter().find_map(|document| document.jobs.first()).ok_or(ForeignError::NoJob)?;
        let mut run = crate::begin(
            Stage::Disk,
            first.fio_version.0.clone(),
            job.jobname.0.clone(),
            job.hostname.get(),
            first.timestamp.get(),
        );
        let mut figures: Vec<(Measurement, FigureContext)> = Vec::new();
        for document in &self.documents {
            run.errors.extend(document.jobs.iter().filter_map(Job::failure));
            figures.extend(document_figures(document));
        }
        let left_out = figures.len().saturating_sub(MOST_FIGURES);
        figures.truncate(MOST_FIGURES);
        if left_out > 0 {
            run.errors
                .push(format!("{left_out} more figures are left out: a file holds {MOST_FIGURES} at most"));
        }
        verdict::judge_all(&mut run, figures);
        Ok(run)
    }
}

/// A later snapshot of the same run.
fn is_later(last: &Document, next: &Document) -> bool {
    let begin = |document: &Document| {
        let elapsed = document.jobs.iter().map(|job| job.elapsed.or_zero()).fold(0.0, f64::max);
        document.timestamp.or_zero() - elapsed
    };
    let name = |document: &Document| document.jobs.first().map(|job| job.jobname.0.clone());
    let same_job = name(last) == name(next) && last.jobs.len() <= next.jobs.len();
    same_job && (begin(last) - begin(next)).abs() <= SAME_BEGIN_SECONDS
}

/// Each job, and after those of a group what all of it did together. Of very many jobs only that.
fn document_figures(document: &Document) -> Vec<(Measurement, FigureContext)> {
    const MOST_JOBS: usize = 64;
    let mut groups: BTreeMap<u64, Vec<&Job>> = BTreeMap::new();
    for job in &document.jobs {
        groups.entry(job.groupid.count()).or_default().push(job);
    }
    let alone = groups.len() == 1;
    let mut figures = Vec::new();
    for jobs in groups.values() {
        let options: Vec<JobOptions> =
            jobs.iter().map(|job| JobOptions::of(&document.global_options, job)).collect();
        let tool = &document.fio_version.0;
        if jobs.len() <= MOST_JOBS {
            let each = jobs.iter().zip(&options);
            figures.extend(
                each.map(|(job, options)| fio_job::figure(tool, &[job], std::slice::from_ref(options))),
            );
        }
        if jobs.len() > 1 {
            figures.push(fio_job::figure(tool, jobs, &options));
        }
        let (Some((whole, beside)), true) = (figures.last_mut(), alone) else { continue };
        // fio counts the disks over all groups: of one group alone that is its own.
        let devices = devices(&document.disk_util, whole, beside.is_direct);
        fio_job::set_devices(whole, devices);
    }
    if !alone {
        let why = "fio counts the disks over all groups of jobs together; run one group at a time";
        figures.iter_mut().for_each(|(_, beside)| beside.unknown = Some(why.into()));
    }
    figures
}

/// The disks as `/proc/diskstats` has them; a volume without the disks below it.
fn devices(disks: &[Disk], whole: &Measurement, is_direct: bool) -> Vec<DeviceUse> {
    let volume = disks.iter().find(|disk| disk.aggr_util.get().is_some());
    let listed: Vec<&Disk> = volume.map_or(disks.iter().collect(), |volume| vec![volume]);
    let seconds = whole.seconds.max(1e-3);
    let sides = whole.access.iter().flat_map(|access| [&access.reads, &access.writes]).flatten();
    let asked: f64 = sides.map(|side| side.operations as f64).sum();
    let sent = |disk: &Disk| {
        [disk.read_ios, disk.write_ios, disk.read_merges, disk.write_merges]
            .map(Number::or_zero)
            .iter()
            .sum::<f64>()
    };
    let of_all: f64 = listed.iter().map(|disk| sent(disk)).sum();
    let device = |disk: &&Disk| {
        // Before fio 3.37 only requests are counted: past the page cache they are the program's, as far as they are as many.
        let counted = is_direct.then(|| whole.bytes_per_second * (sent(disk) / asked.max(of_all).max(1.0)));
        let rate = |sectors: Number| sectors.get().map(|sectors| sectors * 512.0 / seconds);
        let (reads, writes) = (disk.read_ios.or_zero(), disk.write_ios.or_zero());
        let reading = reads / (reads + writes).max(1.0);
        DeviceUse {
            name: disk.name.0.clone(),
            utilisation: (disk.util.or_zero() / 100.0).min(1.0),
            queue_depth: disk.in_queue.or_zero() / 1000.0 / seconds,
            read_bytes_per_second: rate(disk.read_sectors)
                .or(counted.map(|rate| rate * reading))
                .unwrap_or(0.0),
            written_bytes_per_second: rate(disk.write_sectors)
                .or(counted.map(|rate| rate * (1.0 - reading)))
                .unwrap_or(0.0),
            operations_per_second: (reads + writes) / seconds,
        }
    };
    listed.iter().map(device).filter(|device| !device.name.is_empty()).collect()
}
