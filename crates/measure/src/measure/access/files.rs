//! What a job needs, made ready: memory for its buffers, and files in the directories that were named, with data in
//! them where they will be read.
//!
//! Each file is made so that nothing that is there is touched. Unless they are to be kept, files have no name (as the
//! scratch files of a run), so that not even `kill -9` leaves one behind.

use super::AccessJob;
use super::bench::AccessBench;
use super::lay_out::{Blank, lay_out};
use super::parts::files_of;
use super::target::{AccessTarget, Permissions, SourceKind};
use linerate_facts::failure::Failure;
use linerate_facts::room::{available_bytes, space_in};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_system::file::{grow_to, lies_in_memory};
use linerate_system::storage::{Opening, create, create_nameless, raise_open_files, reopen};
use linerate_transport::flow::access::AccessFile;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the names of our files begin with.
const PREFIX: &str = "linerate-disk-";

/// Share of the available memory that buffers may take.
const BUFFER_SHARE: f64 = 0.5;
/// What a worker takes beside its buffers: three histograms with three digits, its thread, its ring.
const WORKER_BYTES: u128 = 1 << 20;

/// Sources looked at, and the files made in them. Own files without a name go with this value.
#[derive(Debug)]
pub struct Prepared {
    pub(super) targets: Vec<AccessTarget>,
    pub(super) own_files: Vec<OwnFile>,
    pub(super) permissions: Permissions,
    /// Which of several that run at once: in the names of its files.
    pub(super) number: usize,
    /// Files that are there are shared with the workers of other hosts.
    pub(super) tasks: Option<TaskRange>,
}

/// Which workers of all hosts those of one job are, in a file that all of them share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRange {
    pub first: u64,
    pub of: u64,
}

impl Prepared {
    /// Looks at the sources. Nothing is made yet.
    pub fn new(
        bench: &AccessBench<'_>,
        sources: &[PathBuf],
        permissions: Permissions,
    ) -> Result<Self, Failure> {
        let looked = sources.iter().map(|path| AccessTarget::look(bench.sysroot, bench.machine, path));
        let targets = looked.collect::<Result<_, _>>()?;
        Ok(Prepared { targets, own_files: Vec::new(), permissions, number: 0, tasks: None })
    }

    /// The same beside others in the same directories.
    pub(crate) fn numbered(self, number: usize) -> Self {
        Prepared { number, ..self }
    }

    /// The same, where the workers of a job have only this part of each file.
    pub fn among(self, tasks: TaskRange) -> Self {
        Prepared { tasks: Some(tasks), ..self }
    }

    /// Makes whatever this job still lacks. May be called for one job after another: files are shared and
    /// grow.
    pub fn ready_for(&mut self, bench: &mut AccessBench<'_>, job: &AccessJob) -> Result<(), Failure> {
        job.check().map_err(Failure::usage)?;
        check_memory(bench.sysroot, job)?;
        self.check_targets(bench, job)?;
        raise_open_files();
        let mut wanted: Vec<(usize, usize, u64)> = Vec::new();
        for source in 0..job.sources.len() {
            let target = self.target_of(job, source)?;
            if self.targets[target].kind == SourceKind::Directory {
                wanted.extend(files_of(job, source).into_iter().map(|(index, bytes)| (target, index, bytes)));
            }
        }
        self.check_room(&wanted, job.is_log())?;
        for (source, index, length) in &wanted {
            self.make(*source, *index, *length, job.is_log())?;
        }
        if job.is_log() {
            for own in wanted.iter().filter_map(|(source, index, _)| self.find(*source, *index, true)) {
                own.empty().map_err(|error| not_made(&own.path, &error))?;
            }
        }
        if job.needs_data() {
            self.fill(bench, job, &wanted)?;
        }
        Ok(())
    }

    /// A job has written its files: those that it wrote whole hold data now, and stamps of its own or none.
    pub fn wrote(&mut self, job: &AccessJob) {
        if !job.writes() {
            return;
        }
        let stamp = job.stamp_sector_bytes();
        for source in 0..job.sources.len() {
            let Ok(target) = self.target_of(job, source) else { continue };
            for (index, length) in files_of(job, source) {
                let Some(at) = self.position(target, index, job.is_log()) else { continue };
                let own = &mut self.own_files[at];
                let whole = job.seconds.is_none() && !job.reads();
                if whole && own.written <= length {
                    (own.written, own.stamped) = (length, stamp);
                } else if own.stamped != stamp {
                    own.stamped = None;
                }
            }
        }
    }

    /// Files with a name that are there now.
    pub fn kept_files(&self) -> Vec<String> {
        self.own_files.iter().filter(|own| own.named).map(|own| own.path.display().to_string()).collect()
    }

    /// Removes files with a name, too: what was made in vain helps nobody.
    pub fn remove(&mut self) {
        for own in self.own_files.drain(..).filter(|own| own.named) {
            let _ = std::fs::remove_file(&own.path);
        }
    }

    /// The resource behind a source.
    pub fn resource(&self, source: usize) -> String {
        self.targets[source].resource()
    }

    /// What stands behind a file or device with this name in an error.
    pub(super) fn device_of(&self, label: &str) -> String {
        let own = self.own_files.iter().find(|own| own.path.as_os_str() == label).map(|own| own.source);
        let named = || self.targets.iter().position(|target| target.path.as_os_str() == label);
        let resource = own.or_else(named).map(|source| self.resource(source)).unwrap_or_default();
        resource.strip_prefix("disk:").unwrap_or(&resource).to_string()
    }

    /// Disks behind the sources of a job, each once.
    pub fn devices_of(&self, job: &AccessJob) -> Vec<String> {
        let targets = (0..job.sources.len()).filter_map(|source| self.target_of(job, source).ok());
        let mut devices: Vec<String> =
            targets.flat_map(|target| self.targets[target].leaves.clone()).collect();
        devices.sort();
        devices.dedup();
        devices
    }

    /// Which of the sources looked at a source of a job is: a job may use some of them. One that is named
    /// twice is two.
    pub(super) fn target_of(&self, job: &AccessJob, source: usize) -> Result<usize, Failure> {
        let path = &job.sources[source];
        let before = job.sources[..source].iter().filter(|other| *other == path).count();
        let mut same = (0..self.targets.len()).filter(|target| self.targets[*target].path == *path);
        same.nth(before).ok_or_else(|| Failure::Lacks(format!("source {}: not made ready", path.display())))
    }

    /// Direct I/O takes whole sectors, and a record of a log has any length: then through the page cache.
    pub fn fit_to_sectors(&self, job: &mut AccessJob) {
        let whole = |target: &AccessTarget| {
            !job.sources.contains(&target.path) || job.transfer_bytes.is_multiple_of(target.sector_bytes)
        };
        job.direct &= job.sync.is_none() || self.targets.iter().all(whole);
    }

    fn check_targets(&mut self, bench: &AccessBench<'_>, job: &AccessJob) -> Result<(), Failure> {
        for target in self.targets.iter_mut().filter(|target| job.sources.contains(&target.path)) {
            if job.writes() {
                target.allow_writes(bench.sysroot, bench.machine, &self.permissions)?;
            }
            let shown = target.path.display();
            if job.direct && !job.transfer_bytes.is_multiple_of(target.sector_bytes) {
                return Err(Failure::Usage(format!(
                    "--transfer {}: no multiple of the {} bytes of a sector of {shown}, which direct I/O \
                     wants; give a multiple, or --buffered",
                    job.transfer_bytes, target.sector_bytes
                )));
            }
            let ours = target.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
            if job.verify && !job.writes() && target.kind != SourceKind::Directory && !ours {
                return Err(Failure::Usage(format!(
                    "--verify: linerate did not write {shown}, so there is nothing to hold it against; name \
                     a directory, or a file that --keep left"
                )));
            }
        }
        Ok(())
    }

    /// Part of each file system stays free.
    fn check_room(&self, wanted: &[(usize, usize, u64)], is_log: bool) -> Result<(), Failure> {
        let mut needs: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
        for (source, index, length) in wanted {
            let has = self.find(*source, *index, is_log).map_or(0, |own| own.length);
            let need = needs.entry(self.targets[*source].file_system).or_insert((*source, 0));
            need.1 = need.1.saturating_add(length.saturating_sub(has));
        }
        for (source, need) in needs.into_values().filter(|(_, need)| *need > 0) {
            let path = &self.targets[source].path;
            let room = space_in(path, 1).map_err(|error| not_made(path, &error))?;
            if need > room.bytes {
                return Err(Failure::Lacks(format!(
                    "no room in {}: the files need {}, and {} of {} are free, of which {} are left alone; \
                     fewer --workers, a smaller --block, or another --source",
                    path.display(),
                    show_size(need),
                    show_size(room.free),
                    show_size(room.total),
                    show_size(room.left_alone)
                )));
            }
        }
        Ok(())
    }

    fn position(&self, source: usize, index: usize, is_log: bool) -> Option<usize> {
        let is_it = |own: &OwnFile| (own.source, own.index, own.is_log) == (source, index, is_log);
        self.own_files.iter().position(is_it)
    }

    pub(super) fn find(&self, source: usize, index: usize, is_log: bool) -> Option<&OwnFile> {
        self.position(source, index, is_log).map(|at| &self.own_files[at])
    }

    fn make(&mut self, source: usize, index: usize, length: u64, is_log: bool) -> Result<(), Failure> {
        if let Some(at) = self.position(source, index, is_log) {
            let own = &mut self.own_files[at];
            own.length = own.length.max(length);
            return Ok(());
        }
        let own = OwnFile::make(
            &self.targets[source],
            (source, index, is_log),
            self.number,
            self.permissions.keep,
        )?;
        self.own_files.push(OwnFile { length, ..own });
        Ok(())
    }

    /// Writes what is still blank in the files of a job.
    fn fill(
        &mut self,
        bench: &mut AccessBench<'_>,
        job: &AccessJob,
        wanted: &[(usize, usize, u64)],
    ) -> Result<(), Failure> {
        let stamp = job.stamp_sector_bytes();
        let mut blanks = Vec::new();
        for (source, index, length) in wanted {
            let Some(at) = self.position(*source, *index, job.is_log()) else { continue };
            let own = &self.own_files[at];
            let from = if stamp.is_some() && own.stamped != stamp { 0 } else { own.written };
            if from < *length {
                let how = Opening { direct: job.direct, write: true, ..Opening::default() };
                let file = own.open(how).map_err(|error| not_made(&own.path, &error))?;
                let file = AccessFile { file: Arc::new(file), label: own.label() };
                blanks.push(Blank { file_index: at, source: *source, file, from, to: *length });
            }
        }
        let filled = lay_out(bench, blanks, job, self.permissions.shorten_after)?;
        for (at, written) in filled {
            self.own_files[at].written = written;
            self.own_files[at].stamped = stamp;
        }
        Ok(())
    }
}

/// A file of our own.
#[derive(Debug)]
pub(super) struct OwnFile {
    pub(super) source: usize,
    pub(super) index: usize,
    /// Its name, or the one that it would have.
    pub(super) path: PathBuf,
    pub(super) named: bool,
    pub(super) file: File,
    /// Bytes that hold data.
    pub(super) written: u64,
    /// Bytes that it may grow to.
    pub(super) length: u64,
    /// Written as a log is: emptied before each job.
    pub(super) is_log: bool,
    /// Data was stamped, in sectors of this size.
    pub(super) stamped: Option<u64>,
}

impl OwnFile {
    /// Makes one in the directory that is this source; nothing is written yet.
    pub(super) fn make(
        target: &AccessTarget,
        (source, index, is_log): (usize, usize, bool),
        number: usize,
        keep: bool,
    ) -> Result<Self, Failure> {
        let directory = &target.path;
        let log = if is_log { "-log" } else { "" };
        let beside = if number > 0 { format!("-{number}") } else { String::new() };
        let path = directory.join(format!("{PREFIX}{}-{source}-{index}{log}{beside}", std::process::id()));
        let nameless = if keep { None } else { create_nameless(directory, false).ok() };
        let file = match nameless {
            Some(file) => file,
            None => create(&path, false).map_err(|error| not_made(directory, &error))?,
        };
        let mut named = keep;
        // The name lives for the blink between the two calls, where the file system makes no file without
        // one.
        if !named && path.symlink_metadata().is_ok_and(|there| is_same(&there, &file)) {
            named = std::fs::remove_file(&path).is_err();
        }
        Ok(OwnFile { source, index, path, named, file, written: 0, length: 0, is_log, stamped: None })
    }

    /// What it is called in an error.
    pub(super) fn label(&self) -> String {
        self.path.display().to_string()
    }

    /// A handle of its own, past the page cache where that is wished and works.
    pub(super) fn open(&self, how: Opening) -> io::Result<File> {
        let again = reopen(&self.file, how);
        match again {
            Err(error) if how.direct && error.kind() == ErrorKind::InvalidInput => {
                self.open(Opening { direct: false, ..how })
            }
            // Where a nameless file cannot be opened again (some network file systems), its one handle serves
            // all.
            Err(_) if !how.direct && !how.synced => self.file.try_clone(),
            again => again,
        }
    }

    /// Takes what it holds away and reserves its length: what is written next is written as for the first time.
    pub(super) fn empty(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        // In memory room that is reserved is memory that is filled.
        let reserved = if lies_in_memory(&self.file) { Ok(()) } else { grow_to(&self.file, self.length) };
        // Not every file system reserves.
        reserved.or_else(|error| if error.kind() == ErrorKind::StorageFull { Err(error) } else { Ok(()) })?;
        self.file.set_len(self.length)?;
        self.file.sync_all()
    }
}

fn is_same(there: &std::fs::Metadata, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|own| own.ino() == there.ino() && own.dev() == there.dev())
}

/// Why no file can be made in a place.
pub(super) fn not_made(place: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            "its file system is mounted read-only; remount it, or name another directory".into()
        }
        ErrorKind::PermissionDenied => {
            "no permission to make files there; name a directory that you may write".into()
        }
        ErrorKind::AlreadyExists => {
            "a file of that name is there and is not ours to write over; name another directory".into()
        }
        ErrorKind::StorageFull => "the disk is full; make room, or name another directory".into(),
        _ => format!("{error}; name another directory"),
    };
    Failure::Lacks(format!("no file can be made in {}: {why}", place.display()))
}

/// Buffers that do not fit into memory would be measured as swapping, or end the process.
pub(super) fn check_memory(sysroot: &Sysroot, job: &AccessJob) -> Result<(), Failure> {
    let buffers = u128::from(job.queue_depth) * u128::from(job.transfer_bytes);
    let need = u128::from(job.workers) * (buffers + WORKER_BYTES);
    let need = u64::try_from(need).unwrap_or(u64::MAX);
    let Some(available) = available_bytes(sysroot) else { return Ok(()) };
    if need as f64 <= available as f64 * BUFFER_SHARE {
        return Ok(());
    }
    Err(Failure::Lacks(format!(
        "{} × {} × {} need {} with their buffers, and {} of memory are available, of which \
         half may be used; fewer --workers, a smaller --queue-depth or --transfer",
        counted(job.workers, "worker"),
        counted(job.queue_depth, "request"),
        show_size(job.transfer_bytes),
        show_size(need),
        show_size(available)
    )))
}
