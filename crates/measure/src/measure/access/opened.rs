//! Sources opened for the workers, each with a handle of its own; devices held and filled.

use super::bench::AccessBench;
use super::files::{Prepared, not_made};
use super::lay_out::{Blank, lay_out};
use super::parts::{self, WorkerPart, own_file, shared};
use super::target::{AccessTarget, SourceKind};
use super::{AccessJob, FileLayout, SyncMethod};
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_system::Errno;
use linerate_system::file::lies_in_memory;
use linerate_system::storage::Opening;
use linerate_transport::flow::access::{AccessFile, Area};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// One worker's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) area: Area,
    /// Bytes that the job asks for; the area may be shorter.
    pub(super) asked: u64,
    pub(super) file: AccessFile,
}

/// What one worker of a job has of a source, opened.
#[derive(Debug)]
pub struct SourceRange {
    pub file: Arc<File>,
    /// What to call it in an error.
    pub label: String,
    pub offset: u64,
    pub length: u64,
}

impl Prepared {
    /// What each worker of a job that reads has, for who reads it otherwise. Of a layout in strides the first block.
    pub fn ranges(&self, job: &AccessJob) -> Result<Vec<SourceRange>, Failure> {
        let range = |worker| {
            let Part { area, file, .. } = self.open_part(job, parts::place(job, worker), false)?;
            Ok(SourceRange {
                file: file.file,
                label: file.label,
                offset: area.offset,
                length: area.block_bytes,
            })
        };
        (0..job.workers).map(range).collect()
    }

    /// Holds the block devices among a job's sources to be written, whether the job itself writes or not.
    pub(crate) fn hold_devices(&mut self, bench: &AccessBench<'_>, job: &AccessJob) -> Result<(), Failure> {
        let device = |target: &&mut AccessTarget| {
            matches!(target.kind, SourceKind::Device(_)) && job.sources.contains(&target.path)
        };
        let mut devices = self.targets.iter_mut().filter(device);
        devices.try_for_each(|target| target.allow_writes(bench.sysroot, bench.machine, &self.permissions))
    }

    /// Writes the devices that are held once, from the first byte to the last.
    pub(crate) fn fill_devices(
        &mut self,
        bench: &mut AccessBench<'_>,
        job: &AccessJob,
    ) -> Result<(), Failure> {
        let mut blanks = Vec::new();
        for (source, target) in self.targets.iter().enumerate() {
            let (SourceKind::Device(length), Some(_)) = (target.kind, target.held()) else { continue };
            let file = target
                .open(Opening { direct: true, write: true, ..Opening::default() })
                .map_err(|error| not_made(&target.path, &error))?;
            let file = AccessFile { file: Arc::new(file), label: target.path.display().to_string() };
            let to = length / job.transfer_bytes * job.transfer_bytes;
            blanks.push(Blank { file_index: source, source, file, from: 0, to });
        }
        lay_out(bench, blanks, job, None).map(drop)
    }

    /// A source of this job lies in memory.
    pub(crate) fn in_memory(&self, job: &AccessJob) -> bool {
        job.sources.iter().any(|path| File::open(path).is_ok_and(|file| lies_in_memory(&file)))
    }

    /// Block devices that are held to be written, for preconditioning.
    pub(crate) fn held_devices(&self) -> impl Iterator<Item = (&Path, &File)> {
        self.targets.iter().filter_map(|target| Some((target.path.as_path(), target.held()?)))
    }

    /// The file and the part of it that a place of a job has, opened for one worker.
    pub(super) fn open_part(&self, job: &AccessJob, place: WorkerPart, write: bool) -> Result<Part, Failure> {
        let at = self.target_of(job, place.source)?;
        let target = &self.targets[at];
        let short = |holds: u64| {
            Failure::Lacks(format!(
                "{}: {} are too little for {} with requests of {}; fewer --workers or a smaller \
                 --transfer",
                target.path.display(),
                show_size(holds),
                counted(place.of, "worker"),
                show_size(job.transfer_bytes)
            ))
        };
        let synced = job.sync.is_some_and(|sync| sync.method == SyncMethod::Direct);
        let how = Opening { direct: job.direct, write, synced, alone: false };
        let (area, holds, opened, label) = match target.kind {
            SourceKind::Directory => {
                let own = job.layout == FileLayout::FilePerWorker;
                let index = if own { place.position as usize } else { 0 };
                let made = self.find(at, index, job.is_log()).ok_or_else(|| short(0))?;
                let holds = if job.needs_data() { made.written } else { made.length };
                let area = if own { own_file(job, holds) } else { shared(job, place, holds) };
                (area, holds, made.open(Opening { write: true, ..how }), made.label())
            }
            SourceKind::File(length) | SourceKind::Device(length) => {
                let place = self.tasks.map_or(place, |tasks| WorkerPart {
                    position: tasks.first + place.position,
                    of: tasks.of,
                    ..place
                });
                let opened = target.open(how);
                (shared(job, place, length), length, opened, target.path.display().to_string())
            }
        };
        let file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE) => Failure::Lacks(format!(
                "{label}: {error}: each worker has its own handle; raise the limit (ulimit -n), or fewer \
                 --workers"
            )),
            Some(Errno::INVAL) if synced => Failure::Lacks(format!(
                "{label}: its file system does not take O_DSYNC; --sync data, which calls fdatasync after each write"
            )),
            _ => Failure::Lacks(format!("{label}: {error}; check that it may be opened")),
        })?;
        let area = area.ok_or_else(|| short(holds))?;
        Ok(Part { area, asked: parts::part_bytes(job), file: AccessFile { file: Arc::new(file), label } })
    }
}
