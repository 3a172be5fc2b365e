//! What the user named with `--sink`, made ready to be written: checked, and traced to the device below it.

use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, source::devices_behind};
use linerate_model::plan::{DEFAULT_BLOCK_BYTES, Goal, SourcePlan};
use linerate_transport::flow::sink::{SinkFolder, SinkSettings};
use std::path::Path;
use std::sync::Arc;

/// Writes in flight of a worker that stores.
const WRITES: u32 = 8;

/// What of a sink's file system may be used; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkSpace {
    /// Stays free; none: a tenth of it, 16 GiB at most.
    pub keep_bytes: Option<u64>,
    /// All files together; none: what is free.
    pub limit_bytes: Option<u64>,
}

/// A directory in which a flow that comes in is stored.
pub(crate) struct RunSink {
    pub folder: Arc<SinkFolder>,
    pub plan: SourcePlan,
}

/// Opens and checks those that the goal names.
pub(crate) fn prepare(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    space: SinkSpace,
) -> Result<Vec<RunSink>, Failure> {
    goal.sinks.iter().map(|directory| open(sysroot, machine, directory, space)).collect()
}

/// A directory of this host as a sink, with the device below it.
pub fn open_folder(
    sysroot: &Sysroot,
    machine: &Machine,
    directory: &Path,
    space: SinkSpace,
) -> Result<Arc<SinkFolder>, Failure> {
    let placed = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let behind = devices_behind(sysroot, machine, &placed);
    let settings = SinkSettings {
        directory: directory.to_path_buf(),
        keep_bytes: space.keep_bytes,
        limit_bytes: space.limit_bytes,
        disk: behind.known().map(|behind| behind.disk().to_string()),
    };
    SinkFolder::open(settings).map_err(|error| Failure::lacks(format!("--sink: {error}")))
}

fn open(
    sysroot: &Sysroot,
    machine: &Machine,
    directory: &Path,
    space: SinkSpace,
) -> Result<RunSink, Failure> {
    let folder = open_folder(sysroot, machine, directory, space)?;
    let device = folder.disk().map_or_else(|| directory.display().to_string(), str::to_string);
    let node = machine.disks.iter().find(|disk| disk.name == device).map(|disk| disk.node.clone());
    let plan = SourcePlan {
        path: directory.to_path_buf(),
        resource: format!("disk:{device}"),
        node: node.unwrap_or_else(|| Fact::unknown("the device has no node")),
        length_bytes: folder.free_bytes(),
        block_bytes: DEFAULT_BLOCK_BYTES,
        queue_depth: WRITES,
        direct: folder.is_direct(),
        received_by_tcp: false,
        scratch: false,
        writing: None,
    };
    Ok(RunSink { folder, plan })
}
