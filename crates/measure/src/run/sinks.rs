//! What the user named with `--sink`, made ready to be written: checked, and traced to the device below it.

use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::room::StorageLimits;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, source::devices_behind};
use linerate_model::plan::{DEFAULT_BLOCK_BYTES, Goal, SourcePlan};
use linerate_transport::flow::sink::{SinkFolder, SinkSettings};
use std::path::Path;
use std::sync::Arc;

/// Writes in flight of a worker that stores.
const WRITES: u32 = 8;

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
    limits: StorageLimits,
) -> Result<Vec<RunSink>, Failure> {
    goal.sinks.iter().map(|directory| open(sysroot, machine, directory, limits)).collect()
}

/// A directory of this host as a sink, with the device below it.
pub fn open_folder(
    sysroot: &Sysroot,
    machine: &Machine,
    directory: &Path,
    limits: StorageLimits,
) -> Result<Arc<SinkFolder>, Failure> {
    let placed = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let behind = devices_behind(sysroot, machine, &placed);
    let settings = SinkSettings {
        directory: directory.to_path_buf(),
        limits,
        disk: behind.known().map(|behind| behind.disk().to_string()),
    };
    SinkFolder::open(settings).map_err(|error| Failure::lacks(format!("--sink: {error}")))
}

fn open(
    sysroot: &Sysroot,
    machine: &Machine,
    directory: &Path,
    limits: StorageLimits,
) -> Result<RunSink, Failure> {
    let folder = open_folder(sysroot, machine, directory, limits)?;
    let device = folder.disk().map_or_else(|| directory.display().to_string(), str::to_string);
    let node = machine.disk(&device).map(|disk| disk.node.clone());
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
