//! The disks of one member: a task for each source, with the engine of `linerate disk`, begun with those of the other
//! members.

use crate::protocol::{DiskReport, DiskRequest, FlowFailure, SharedFiles};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_machine::probe::Machine;
use linerate_measure::event::Silent;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::{
    Access, AccessBench, AccessJob, AccessOrder, FileLayout, Permissions, Prepared, SourceRange, TaskRange,
    conduct,
};
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use linerate_system::storage::create;
use linerate_transport::flow::stream::Content;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first member makes a file that all share; the others wait for it.
const SHARED_FILE: Duration = Duration::from_secs(20);
/// Direct reads begin at multiples of it (open(2)).
const PAGE: u64 = 4096;
/// Names of files that other hosts open; as those of `linerate disk`.
const PREFIX: &str = "linerate-disk-";

/// The sources of a member, ready to be read or written. Files that it made go with this value.
pub(crate) struct DiskTasks {
    sources: Vec<SourceTask>,
}

/// One source.
struct SourceTask {
    path: PathBuf,
    request: DiskRequest,
    own: Prepared,
    /// Files of the member whose data is read, where that is another.
    others: Option<Prepared>,
    made: Vec<PathBuf>,
}

impl Drop for SourceTask {
    fn drop(&mut self) {
        for path in &self.made {
            // It may be gone with its folder.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl DiskTasks {
    /// Makes and fills the files of all sources at once; those that cannot be come back with the reason.
    pub(crate) fn prepare(
        request: &DiskRequest,
        machine: &Machine,
        stop: &Stop,
    ) -> (DiskTasks, Vec<FlowFailure>) {
        let (mut sources, mut failures) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let prepare = |path: &PathBuf| SourceTask::prepare(path.clone(), request, machine, stop);
            let threads: Vec<_> =
                request.spec.sources.iter().map(|path| scope.spawn(move || prepare(path))).collect();
            for (to, thread) in threads.into_iter().enumerate() {
                match thread.join() {
                    Ok(Ok(source)) => sources.push(source),
                    Ok(Err(failure)) => failures.push(FlowFailure { to, why: failure.to_string() }),
                    Err(_) => failures.push(FlowFailure { to, why: "its thread failed".into() }),
                }
            }
        });
        (DiskTasks { sources }, failures)
    }

    /// So many streams' shares of what was prepared: all sources in turn, and of each worker's file a stretch that no
    /// other stream reads.
    pub(crate) fn contents(&self, streams: usize) -> Result<Vec<Content>, Failure> {
        let of = |source: &SourceTask| {
            let job = source.request.job(vec![source.path.clone()], false);
            Ok(source.own.ranges(&job)?.into_iter().map(|range| (range, job.direct)).collect::<Vec<_>>())
        };
        let by_source = self.sources.iter().map(of).collect::<Result<Vec<_>, Failure>>()?;
        let workers = by_source.iter().map(Vec::len).max().unwrap_or_default();
        let parts: Vec<&(SourceRange, bool)> = (0..workers)
            .flat_map(|worker| by_source.iter().filter_map(move |source| source.get(worker)))
            .collect();
        if parts.is_empty() {
            return Err(Failure::lacks("none of its sources could be made ready"));
        }
        let sharing = streams.div_ceil(parts.len()) as u64;
        let content = |stream: usize| {
            let (range, direct) = parts[stream % parts.len()];
            let length = range.length / sharing / PAGE * PAGE;
            if length == 0 {
                return Err(Failure::usage(format!(
                    "{}: its part of {} is too little for {sharing} streams; give a larger --amount",
                    range.label,
                    show_size(range.length)
                )));
            }
            Ok(Content::File {
                file: Arc::clone(&range.file),
                label: range.label.clone(),
                offset: range.offset + (stream / parts.len()) as u64 * length,
                length,
                direct: *direct,
            })
        };
        (0..streams).map(content).collect()
    }

    /// Reads or writes every source once, from this moment on; also when that really was.
    pub(crate) fn run(
        &mut self,
        writes: bool,
        begin: Instant,
        zero: Instant,
        machine: &Machine,
        stop: &Arc<Stop>,
    ) -> (Instant, Vec<DiskReport>) {
        for source in self.sources.iter_mut().filter(|_| !writes) {
            source.look_at_others(machine, stop);
        }
        stop.wait_until(begin);
        let began = clock::now();
        let reports = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .sources
                .iter_mut()
                .map(|source| {
                    let path = source.path.clone();
                    (path, scope.spawn(move || source.run(writes, zero, machine, stop)))
                })
                .collect();
            let ended = threads.into_iter().map(|(path, thread)| {
                let report = thread.join().unwrap_or_else(|_| Err(Failure::lacks("its thread failed")));
                report.unwrap_or_else(|failure| failed(&path, failure))
            });
            ended.collect()
        });
        (began, reports)
    }
}

fn failed(path: &Path, failure: Failure) -> DiskReport {
    let source = path.display().to_string();
    DiskReport { source, failure: Some(failure.to_string()), ..DiskReport::default() }
}

/// What a job does is done on this.
fn bench<'a>(
    sysroot: &'a Sysroot,
    machine: &'a Machine,
    stop: &'a Stop,
    listener: &'a mut Silent,
) -> AccessBench<'a> {
    AccessBench { warm_up_seconds: 0.0, ..AccessBench::new(sysroot, machine, stop, listener) }
}

impl SourceTask {
    fn prepare(
        path: PathBuf,
        request: &DiskRequest,
        machine: &Machine,
        stop: &Stop,
    ) -> Result<SourceTask, Failure> {
        let (sysroot, mut silent) = (Sysroot::live(), Silent);
        let mut bench = bench(&sysroot, machine, stop, &mut silent);
        let Some(shared) = &request.shared else {
            let mut own = Prepared::new(&bench, std::slice::from_ref(&path), Permissions::default())?;
            own.ready_for(&mut bench, &request.job(vec![path.clone()], false))?;
            return Ok(SourceTask { path, request: request.clone(), own, others: None, made: Vec::new() });
        };
        if !path.is_dir() {
            return Err(Failure::usage(format!(
                "source {}: files that hosts share are made in a directory; name one",
                path.display()
            )));
        }
        let files = shared.files(&path, shared.member, request.spec.workers);
        let mut task = SourceTask {
            path: path.clone(),
            request: request.clone(),
            own: Prepared::new(&bench, &[], Permissions::default())?,
            others: None,
            made: Vec::new(),
        };
        task.make(&files, shared, stop)?;
        task.own = shared.prepared(&bench, &files, shared.member, request.spec.workers)?;
        let job = request.job(files, true);
        task.own.ready_for(&mut bench, &job)?;
        let written = conduct(&mut bench, &job, &task.own)?;
        match written.access.iter().flat_map(|access| &access.errors).next() {
            Some(error) => Err(Failure::lacks(error)),
            None => Ok(task),
        }
    }

    /// Files that other hosts can open have names. The one that all share is made by the first member.
    fn make(&mut self, files: &[PathBuf], shared: &SharedFiles, stop: &Stop) -> Result<(), Failure> {
        let length = shared.file_bytes(&self.request);
        let ours = !shared.one_file || shared.member == 0;
        for path in files {
            let lacks = |error: std::io::Error| {
                Failure::lacks(format!(
                    "{} cannot be made: {error}; name a directory that all hosts may write",
                    path.display()
                ))
            };
            if ours {
                let file = create(path, false).map_err(lacks)?;
                self.made.push(path.clone());
                file.set_len(length).map_err(lacks)?;
                continue;
            }
            let deadline = clock::now() + SHARED_FILE;
            while !std::fs::metadata(path).is_ok_and(|there| there.len() == length) {
                if clock::now() > deadline || stop.wait(POLL_INTERVAL) {
                    return Err(Failure::lacks(format!(
                        "{} is not there: the first host made it; is {} on a file system that all hosts share?",
                        path.display(),
                        self.path.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Finds the files that are read, where another member made them; they are there since all have prepared.
    fn look_at_others(&mut self, machine: &Machine, stop: &Stop) {
        let Some(shared) = self.request.shared.as_ref().filter(|shared| shared.reads_of != shared.member)
        else {
            return;
        };
        if self.others.is_none() {
            let (sysroot, mut silent) = (Sysroot::live(), Silent);
            let bench = bench(&sysroot, machine, stop, &mut silent);
            let files = shared.files(&self.path, shared.reads_of, self.request.spec.workers);
            // What cannot be found has its sentence when it is read.
            self.others = shared.prepared(&bench, &files, shared.reads_of, self.request.spec.workers).ok();
        }
    }

    fn run(
        &mut self,
        writes: bool,
        zero: Instant,
        machine: &Machine,
        stop: &Stop,
    ) -> Result<DiskReport, Failure> {
        let (sysroot, mut silent) = (Sysroot::live(), Silent);
        let mut bench = bench(&sysroot, machine, stop, &mut silent);
        let shared = self.request.shared.as_ref();
        let of = shared.map_or(0, |shared| if writes { shared.member } else { shared.reads_of });
        let files = shared.map_or_else(
            || vec![self.path.clone()],
            |shared| shared.files(&self.path, of, self.request.spec.workers),
        );
        let job = self.request.job(files, writes);
        let another = !writes && shared.is_some_and(|shared| shared.reads_of != shared.member);
        let prepared = match (&self.others, another) {
            (Some(others), true) => others,
            (None, true) => {
                return Err(Failure::lacks(format!(
                    "{}: the files of the next host are not there; is it on a file system that all hosts share?",
                    self.path.display()
                )));
            }
            (_, false) => &self.own,
        };
        let disks = prepared.devices_of(&job);
        let began = clock::now();
        let measurement = conduct(&mut bench, &job, prepared)?;
        Ok(report(&self.path, disks, began.duration_since(zero), &measurement))
    }
}

fn report(path: &Path, disks: Vec<String>, began: Duration, measurement: &Measurement) -> DiskReport {
    let access = measurement.access.as_deref();
    let side = access.and_then(|access| access.reads.as_ref().or(access.writes.as_ref()));
    let rate = access.map_or(0.0, |access| access.last_done_bytes_per_second);
    let bytes = side.map_or(0, |side| side.bytes);
    let seconds = if rate > 0.0 { bytes as f64 / rate } else { 0.0 };
    let began_nanos = began.as_nanos() as i64;
    DiskReport {
        source: path.display().to_string(),
        disks,
        bytes,
        bytes_per_second: rate,
        first_done_bytes_per_second: access.map_or(0.0, |access| access.first_done_bytes_per_second),
        p99_seconds: side.map(|side| side.latency.p99),
        ended_nanos: began_nanos + (seconds * 1e9) as i64,
        failure: access.and_then(|access| access.errors.first().cloned()),
    }
}

impl DiskRequest {
    /// What each worker does once.
    fn job(&self, sources: Vec<PathBuf>, writes: bool) -> AccessJob {
        let strided = self.spec.layout == FileLayout::Strided;
        let block_bytes = if strided { self.spec.transfer_bytes } else { self.spec.bytes };
        let access = if writes { Access::Write } else { Access::Read };
        AccessJob {
            sources,
            workers: self.spec.workers,
            layout: self.spec.layout,
            transfer_bytes: self.spec.transfer_bytes,
            block_bytes,
            segments: self.spec.bytes / block_bytes.max(1),
            queue_depth: self.spec.queue_depth,
            direct: self.spec.direct,
            fsync: writes,
            limit_bytes_per_second: self.limit_bytes_per_second,
            seed: 1,
            ..AccessJob::plain(access, AccessOrder::Sequential)
        }
    }
}

impl SharedFiles {
    /// The files in a source with the parts of one member: one for each worker, or the one that all share.
    fn files(&self, source: &Path, member: u32, workers: u32) -> Vec<PathBuf> {
        if self.one_file {
            return vec![source.join(format!("{PREFIX}{}", self.id))];
        }
        (0..workers).map(|worker| source.join(format!("{PREFIX}{}-{member}-{worker}", self.id))).collect()
    }

    fn file_bytes(&self, request: &DiskRequest) -> u64 {
        let tasks = if self.one_file { u64::from(self.members) * u64::from(request.spec.workers) } else { 1 };
        request.spec.bytes.saturating_mul(tasks)
    }

    /// The parts of one member in these files. They are linerate's own, so they may be written.
    fn prepared(
        &self,
        bench: &AccessBench<'_>,
        files: &[PathBuf],
        member: u32,
        workers: u32,
    ) -> Result<Prepared, Failure> {
        let destroy_data = files.iter().map(|file| file.display().to_string()).collect();
        let prepared = Prepared::new(bench, files, Permissions { destroy_data, ..Permissions::default() })?;
        let workers = u64::from(workers);
        Ok(match self.one_file {
            true => prepared.among(TaskRange {
                first: u64::from(member) * workers,
                of: u64::from(self.members) * workers,
            }),
            false => prepared,
        })
    }
}

#[cfg(test)]
mod tests;
