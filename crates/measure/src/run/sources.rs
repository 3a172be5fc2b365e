//! What the user named with `--source`, made ready to be read: checked, sized, and traced to the device
//! behind it.

use super::scratch::{Scratch, ScratchSpec};
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_machine::probe::{Machine, source::devices_behind};
use linerate_model::plan::{DEFAULT_BLOCK_BYTES, Goal, SourcePlan, is_received_by_tcp};
use linerate_system::buffers::Pool;
use linerate_system::file::{open_to_read, size_of};
use linerate_system::stop::Stop;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// Sources of a run, and the scratch files that must live as long as it.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub plans: Vec<SourcePlan>,
    /// Open as long as this lives; workers reach them through `/proc/self/fd`.
    pub scratch: Vec<Scratch>,
    /// What the user should know of them.
    pub notes: Vec<String>,
}

/// Opens and checks the files and devices that the goal names, and writes scratch files in `scratch_in`.
pub(crate) fn prepare(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    scratch_in: &[PathBuf],
    scratch: ScratchSpec,
    stop: &Stop,
) -> Result<Sources, Failure> {
    let mut sources = Sources::default();
    for path in goal.sources.iter().filter(|path| !path.is_dir()) {
        sources.plans.push(from_path(sysroot, machine, goal, path)?);
    }
    for (directory, scratch) in scratch_in.iter().zip(Scratch::write_all(scratch_in, scratch, stop)?) {
        let mut plan = plan_of(sysroot, machine, goal, &scratch.path(), directory, scratch.length_bytes);
        (plan.scratch, plan.writing) = (true, Some(scratch.writing.clone()));
        sources.notes.extend(scratch.note.clone());
        sources.plans.push(plan);
        sources.scratch.push(scratch);
    }
    Ok(sources)
}

fn from_path(sysroot: &Sysroot, machine: &Machine, goal: &Goal, path: &Path) -> Result<SourcePlan, Failure> {
    let named = path.display();
    let lacks = |why: String| Failure::Lacks(format!("source {named}: {why}"));
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => lacks("not there; check the path".into()),
        std::io::ErrorKind::PermissionDenied => {
            lacks("a directory above it is closed to this user; run as its owner or as root".into())
        }
        _ => lacks(format!("{error}; check the path")),
    })?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(lacks("neither a file nor a block device; name a file to read".into()));
    }
    let file = open_to_read(path, false).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied if kind.is_block_device() => lacks(
            "no permission to read this device; run as root or join the group that owns it (often `disk`)"
                .into(),
        ),
        std::io::ErrorKind::PermissionDenied => {
            lacks("no permission to read it; run as its owner or as root, or `chmod a+r` it".into())
        }
        _ => lacks(format!("it cannot be opened: {error}; name another file")),
    })?;
    let length = size_of(&file)
        .map_err(|error| lacks(format!("its size cannot be read: {error}; name another file")))?;
    let block = goal.read_bytes().unwrap_or(DEFAULT_BLOCK_BYTES);
    if length == 0 {
        return Err(lacks(
            "empty: there is nothing to read; name a file of at least a few hundred MiB".into(),
        ));
    }
    if length < block {
        return Err(lacks(format!(
            "{} is less than one block of {}; name a larger file, or a smaller one with --transfer",
            show_size(length),
            show_size(block)
        )));
    }
    Ok(plan_of(sysroot, machine, goal, path, path, length))
}

/// Directories among the sources: each gets a scratch file; without any source the current one.
pub(crate) fn scratch_directories(goal: &Goal) -> Vec<PathBuf> {
    match goal.sources.is_empty() {
        true => vec![PathBuf::from(".")],
        false => goal.sources.iter().filter(|path| path.is_dir()).cloned().collect(),
    }
}

/// `opened` is the path that workers open; `placed` tells where it lies.
fn plan_of(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    opened: &Path,
    placed: &Path,
    length: u64,
) -> SourcePlan {
    let block = goal.read_bytes().unwrap_or(DEFAULT_BLOCK_BYTES);
    let behind =
        devices_behind(sysroot, machine, &placed.canonicalize().unwrap_or_else(|_| placed.to_path_buf()));
    let (device, sector) = match &behind {
        Fact::Known(behind) => (behind.disk().to_string(), behind.logical_block_bytes.known().copied()),
        Fact::Unknown { .. } => (placed.display().to_string(), None),
    };
    let node = machine.disk(&device).map(|disk| disk.node.clone());
    let sector = u64::from(sector.unwrap_or(4096)).max(1);
    let received_by_tcp = is_received_by_tcp(machine, &device);
    SourcePlan {
        path: opened.to_path_buf(),
        resource: format!("disk:{device}"),
        node: node.unwrap_or_else(|| Fact::unknown("the device has no node")),
        length_bytes: length / block * block,
        block_bytes: block,
        queue_depth: goal.queue_depth.unwrap_or(0),
        direct: block.is_multiple_of(sector) && direct_works(opened, block),
        received_by_tcp,
        scratch: false,
        writing: None,
    }
}

/// O_DIRECT is refused by some file systems at open and by others at the first read: try both.
fn direct_works(path: &Path, block: u64) -> bool {
    let read = |file: File| -> std::io::Result<usize> {
        let mut pool = Pool::new(1, block as usize)?;
        let mut lease = pool.take().ok_or(std::io::ErrorKind::OutOfMemory)?;
        file.read_at(lease.bytes_mut(), 0)
    };
    open_to_read(path, true).and_then(read).is_ok()
}
