//! What a job needs, made ready: files in the directories that were named, with data in them where they will be read.
//!
//! Unless they are to be kept, files have no name (as the scratch files of a run), so that not even `kill -9` leaves one behind.

use super::conduct::Bench;
use super::crew::check_memory;
use super::lay_out::{Blank, lay_out};
use super::parts::{self, Place, files_of, own_file, shared};
use super::target::{Kind, Permissions, Target};
use super::{Access, Engine, Job, Layout};
use crate::failure::Failure;
use crate::flow::access::{AccessFile, Area};
use crate::units::show_size;
use linerate_system::file::space_at;
use linerate_system::storage::{Opening, create, create_nameless, open, raise_open_files, reopen};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the names of our files begin with.
const PREFIX: &str = "linerate-disk-";

/// Sources looked at, and the files made in them. Made files without a name go with this value.
#[derive(Debug)]
pub struct Prepared {
    pub(super) targets: Vec<Target>,
    made: Vec<Made>,
    pub(super) permissions: Permissions,
}

/// A file of ours.
#[derive(Debug)]
struct Made {
    source: usize,
    index: usize,
    /// Its name, or the one that it would have.
    path: PathBuf,
    named: bool,
    file: File,
    /// Bytes that hold data.
    written: u64,
    /// Bytes that it may grow to.
    length: u64,
    /// Data was stamped, in sectors of this size.
    stamped: Option<u64>,
}

impl Prepared {
    /// Looks at the sources. Nothing is made yet.
    pub fn new(bench: &Bench<'_>, sources: &[PathBuf], permissions: Permissions) -> Result<Self, Failure> {
        let looked = sources.iter().map(|path| Target::look(bench.sysroot, bench.machine, path));
        Ok(Prepared { targets: looked.collect::<Result<_, _>>()?, made: Vec::new(), permissions })
    }

    /// Makes whatever this job still lacks. May be called for one job after another: files are shared and grow.
    pub fn ready_for(&mut self, bench: &mut Bench<'_>, job: &Job) -> Result<(), Failure> {
        job.check().map_err(Failure::Usage)?;
        check_memory(bench.sysroot, job)?;
        self.check_targets(bench, job)?;
        raise_open_files();
        let mut wanted: Vec<(usize, usize, u64)> = Vec::new();
        for source in 0..job.sources.len() {
            let target = self.target_of(job, source)?;
            if self.targets[target].kind == Kind::Directory {
                wanted.extend(files_of(job, source).into_iter().map(|(index, bytes)| (target, index, bytes)));
            }
        }
        self.check_room(&wanted)?;
        for (source, index, length) in &wanted {
            self.make(*source, *index, *length)?;
        }
        // Timed writes go round: what they write over is there from the first window on.
        if job.reads() || job.seconds.is_some() || job.engine == Engine::Mmap {
            self.fill(bench, job, &wanted)?;
        }
        Ok(())
    }

    /// A job has written its files: those that it wrote whole hold data now, and stamps of its own or none.
    pub fn wrote(&mut self, job: &Job) {
        if !job.writes() {
            return;
        }
        let stamp = job.stamp_sector_bytes();
        for source in 0..job.sources.len() {
            let Ok(target) = self.target_of(job, source) else { continue };
            for (index, length) in files_of(job, source) {
                let known = self.made.iter_mut().find(|made| made.source == target && made.index == index);
                let Some(made) = known else { continue };
                let whole = job.seconds.is_none() && !job.reads();
                if whole && made.written <= length {
                    (made.written, made.stamped) = (length, stamp);
                } else if made.stamped != stamp {
                    made.stamped = None;
                }
            }
        }
    }

    /// Files with a name that are there now.
    pub fn kept(&self) -> Vec<String> {
        self.made.iter().filter(|made| made.named).map(|made| made.path.display().to_string()).collect()
    }

    /// Removes files with a name, too: what was made in vain helps nobody.
    pub fn remove(&mut self) {
        for made in self.made.drain(..).filter(|made| made.named) {
            let _ = std::fs::remove_file(&made.path);
        }
    }

    /// The resource behind a source.
    pub fn resource(&self, source: usize) -> String {
        self.targets[source].resource()
    }

    /// What stands behind a file or device with this name in an error.
    pub(super) fn device_of(&self, label: &str) -> String {
        let made = self.made.iter().find(|made| made.path.as_os_str() == label).map(|made| made.source);
        let named = || self.targets.iter().position(|target| target.path.as_os_str() == label);
        let resource = made.or_else(named).map(|source| self.resource(source)).unwrap_or_default();
        resource.strip_prefix("disk:").unwrap_or(&resource).to_string()
    }

    /// Holds the block devices among a job's sources to be written, whether the job itself writes or not.
    pub fn hold_devices(&mut self, bench: &Bench<'_>, job: &Job) -> Result<(), Failure> {
        let device = |target: &&mut Target| {
            matches!(target.kind, Kind::Device(_)) && job.sources.contains(&target.path)
        };
        let mut devices = self.targets.iter_mut().filter(device);
        devices.try_for_each(|target| target.allow_writes(bench.sysroot, bench.machine, &self.permissions))
    }

    /// Writes the devices that are held once, from the first byte to the last.
    pub fn fill_devices(&mut self, bench: &mut Bench<'_>, job: &Job) -> Result<(), Failure> {
        let mut blanks = Vec::new();
        for (source, target) in self.targets.iter().enumerate() {
            let (Kind::Device(length), Some(_)) = (target.kind, target.held()) else { continue };
            let how = Opening { write: true, direct: true, alone: false };
            let file = open(&target.path, how).map_err(|error| not_made(&target.path, &error))?;
            let file = AccessFile { file: Arc::new(file), label: target.path.display().to_string() };
            let to = length / job.transfer_bytes * job.transfer_bytes;
            blanks.push(Blank { made: source, source, file, from: 0, to });
        }
        lay_out(bench, blanks, job, None).map(drop)
    }

    /// Disks behind the sources of a job, each once.
    pub fn devices_of(&self, job: &Job) -> Vec<String> {
        let targets = (0..job.sources.len()).filter_map(|source| self.target_of(job, source).ok());
        let mut devices: Vec<String> =
            targets.flat_map(|target| self.targets[target].leaves.clone()).collect();
        devices.sort();
        devices.dedup();
        devices
    }

    /// Block devices that are held to be written, for preconditioning.
    pub fn held_devices(&self) -> impl Iterator<Item = (&Path, &File)> {
        self.targets.iter().filter_map(|target| Some((target.path.as_path(), target.held()?)))
    }

    /// Which of the sources looked at a source of a job is: a job may use some of them. One that is named twice is two.
    pub(super) fn target_of(&self, job: &Job, source: usize) -> Result<usize, Failure> {
        let path = &job.sources[source];
        let before = job.sources[..source].iter().filter(|other| *other == path).count();
        let mut same = (0..self.targets.len()).filter(|target| self.targets[*target].path == *path);
        same.nth(before).ok_or_else(|| Failure::Lacks(format!("source {}: not made ready", path.display())))
    }

    fn check_targets(&mut self, bench: &Bench<'_>, job: &Job) -> Result<(), Failure> {
        for target in self.targets.iter_mut().filter(|target| job.sources.contains(&target.path)) {
            if job.writes() {
                target.allow_writes(bench.sysroot, bench.machine, &self.permissions)?;
            }
            let shown = target.path.display();
            if job.direct && !job.transfer_bytes.is_multiple_of(target.sector_bytes) {
                return Err(Failure::Usage(format!(
                    "--transfer {}: no multiple of the {} bytes of a sector of {shown}, which direct I/O wants; give a multiple, or --buffered",
                    job.transfer_bytes, target.sector_bytes
                )));
            }
            let ours = target.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
            if job.verify && !job.writes() && target.kind != Kind::Directory && !ours {
                return Err(Failure::Usage(format!(
                    "--verify: linerate did not write {shown}, so there is nothing to hold it against; name a directory, or a file that --keep left"
                )));
            }
        }
        Ok(())
    }

    /// At least a tenth of each file system stays free.
    fn check_room(&self, wanted: &[(usize, usize, u64)]) -> Result<(), Failure> {
        let mut needs: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
        for (source, index, length) in wanted {
            let has = self.find(*source, *index).map_or(0, |made| made.length);
            let need = needs.entry(self.targets[*source].file_system).or_insert((*source, 0));
            need.1 = need.1.saturating_add(length.saturating_sub(has));
        }
        for (source, need) in needs.into_values().filter(|(_, need)| *need > 0) {
            let path = &self.targets[source].path;
            let (free, total) = space_at(path).map_err(|error| not_made(path, &error))?;
            if need > free.saturating_sub(total / 10) {
                return Err(Failure::Lacks(format!(
                    "no room in {}: the files need {}, and {} of {} are free, of which a tenth of the whole is left alone; fewer --workers, a smaller --block, or another --source",
                    path.display(),
                    show_size(need),
                    show_size(free),
                    show_size(total)
                )));
            }
        }
        Ok(())
    }

    fn find(&self, source: usize, index: usize) -> Option<&Made> {
        self.made.iter().find(|made| made.source == source && made.index == index)
    }

    fn make(&mut self, source: usize, index: usize, length: u64) -> Result<(), Failure> {
        let known = self.made.iter_mut().find(|made| made.source == source && made.index == index);
        if let Some(made) = known {
            made.length = made.length.max(length);
            return Ok(());
        }
        let directory = &self.targets[source].path;
        let name = format!("{PREFIX}{}-{source}-{index}", std::process::id());
        let path = directory.join(name);
        let nameless = if self.permissions.keep { None } else { create_nameless(directory, false).ok() };
        let file = match nameless {
            Some(file) => file,
            None => create(&path, false).map_err(|error| not_made(directory, &error))?,
        };
        let mut named = self.permissions.keep;
        // The name lives for the blink between the two calls, where the file system makes no file without one.
        if !named && path.symlink_metadata().is_ok_and(|there| is_same(&there, &file)) {
            named = std::fs::remove_file(&path).is_err();
        }
        self.made.push(Made { source, index, path, named, file, written: 0, length, stamped: None });
        Ok(())
    }

    /// Writes what is still blank in the files of a job.
    fn fill(
        &mut self,
        bench: &mut Bench<'_>,
        job: &Job,
        wanted: &[(usize, usize, u64)],
    ) -> Result<(), Failure> {
        let stamp = job.stamp_sector_bytes();
        let mut blanks = Vec::new();
        for (source, index, length) in wanted {
            let Some(at) = self.made.iter().position(|made| made.source == *source && made.index == *index)
            else {
                continue;
            };
            let made = &self.made[at];
            let from = if stamp.is_some() && made.stamped != stamp { 0 } else { made.written };
            if from < *length {
                let file = made.open(job.direct, true).map_err(|error| not_made(&made.path, &error))?;
                let file = AccessFile { file: Arc::new(file), label: made.label() };
                blanks.push(Blank { made: at, source: *source, file, from, to: *length });
            }
        }
        let filled = lay_out(bench, blanks, job, self.permissions.shorten_after)?;
        for (at, written) in filled {
            self.made[at].written = written;
            self.made[at].stamped = stamp;
        }
        Ok(())
    }

    /// The file and the part of it that a place of a job has, opened for one worker.
    pub(super) fn open_part(&self, job: &Job, place: Place, write: bool) -> Result<Part, Failure> {
        let at = self.target_of(job, place.source)?;
        let target = &self.targets[at];
        let short = |holds: u64| {
            Failure::Lacks(format!(
                "{}: {} are too little for {} workers with requests of {}; fewer --workers or a smaller --transfer",
                target.path.display(),
                show_size(holds),
                place.of,
                show_size(job.transfer_bytes)
            ))
        };
        let (area, holds, opened, label) = match target.kind {
            Kind::Directory => {
                let own = job.layout == Layout::FilePerWorker;
                let index = if own { place.position as usize } else { 0 };
                let made = self.find(at, index).ok_or_else(|| short(0))?;
                let holds = if made.written > 0 { made.written } else { made.length };
                let area = if own { own_file(job, holds) } else { shared(job, place, holds) };
                (area, holds, made.open(job.direct, true), made.label())
            }
            Kind::File(length) | Kind::Device(length) => {
                let opened = open(&target.path, Opening { write, direct: job.direct, alone: false });
                let opened = opened.or_else(|error| match error.kind() {
                    ErrorKind::InvalidInput if job.direct => {
                        open(&target.path, Opening { write, direct: false, alone: false })
                    }
                    _ => Err(error),
                });
                (shared(job, place, length), length, opened, target.path.display().to_string())
            }
        };
        let file = opened.map_err(|error| match error.raw_os_error() {
            // EMFILE, ENFILE
            Some(23 | 24) => Failure::Lacks(format!(
                "{label}: {error}: each worker has its own handle; raise the limit (ulimit -n), or fewer --workers"
            )),
            _ => Failure::Lacks(format!("{label}: {error}; check that it may be opened")),
        })?;
        let area = area.ok_or_else(|| short(holds))?;
        Ok(Part { area, asked: parts::part_bytes(job), file: AccessFile { file: Arc::new(file), label } })
    }
}

/// One worker's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) area: Area,
    /// Bytes that the job asks for; the area may be shorter.
    pub(super) asked: u64,
    pub(super) file: AccessFile,
}

impl Made {
    fn label(&self) -> String {
        self.path.display().to_string()
    }

    /// A handle of its own, past the page cache where that is wished and works.
    fn open(&self, direct: bool, write: bool) -> io::Result<File> {
        let again = reopen(&self.file, Opening { write, direct, alone: false });
        match again {
            Err(error) if direct && error.kind() == ErrorKind::InvalidInput => self.open(false, write),
            // Where a nameless file cannot be opened again (some network file systems), its one handle serves all.
            Err(_) if !direct => self.file.try_clone(),
            again => again,
        }
    }
}

impl Job {
    /// It reads at all.
    pub fn reads(&self) -> bool {
        match self.access {
            Access::Read => true,
            Access::Write => false,
            Access::Mixed { read_share } => read_share > 0.0,
        }
    }

    /// It writes at all.
    pub fn writes(&self) -> bool {
        match self.access {
            Access::Read => false,
            Access::Write => true,
            Access::Mixed { read_share } => read_share < 1.0,
        }
    }

    /// Stamped data is cut into sectors of this size; none: it is not stamped.
    fn stamp_sector_bytes(&self) -> Option<u64> {
        self.verify.then(|| if self.transfer_bytes.is_multiple_of(4096) { 4096 } else { 512 })
    }

    /// What is wrong with it whatever the machine, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.sources.is_empty() || self.workers == 0 || self.transfer_bytes == 0 || self.queue_depth == 0 {
            return Err(
                "a job needs a source, a worker, a transfer size and a queue depth of at least 1".into()
            );
        }
        if self.block_bytes == 0
            || !self.block_bytes.is_multiple_of(self.transfer_bytes)
            || self.segments == 0
        {
            return Err(format!(
                "--block {}: no multiple of the transfer size of {}; give one, such as {}",
                show_size(self.block_bytes),
                show_size(self.transfer_bytes),
                show_size(self.transfer_bytes * 64)
            ));
        }
        if self.requests_per_second.is_some() && self.limit_bytes_per_second.is_some() {
            return Err(
                "--rate and --limit: one of them at a time; --rate sends on schedule, --limit holds back"
                    .into(),
            );
        }
        if self.engine != Engine::IoUring && self.queue_depth > 1 {
            return Err(format!(
                "--queue-depth {}: with --engine psync or mmap a worker has one request in flight; give more --workers instead",
                self.queue_depth
            ));
        }
        if self.verify && !self.transfer_bytes.is_multiple_of(512) {
            return Err(format!(
                "--verify: checked data consists of sectors of 512 bytes, and --transfer {} is no multiple of them",
                self.transfer_bytes
            ));
        }
        if self.verify
            && matches!(self.access, Access::Mixed { .. })
            && self.order != super::Order::Sequential
            && self.queue_depth > 1
        {
            return Err("--verify: reads and writes in flight over the same blocks at random cannot be told apart; use --queue-depth 1".into());
        }
        Ok(())
    }
}

fn is_same(there: &std::fs::Metadata, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|own| own.ino() == there.ino() && own.dev() == there.dev())
}

fn not_made(place: &Path, error: &io::Error) -> Failure {
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
