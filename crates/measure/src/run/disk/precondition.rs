//! What is done to named block devices before they are measured: their content discarded, then written whole.
//! Never to anything else.

use super::DiskSpec;
use crate::measure::access::{AccessBench, AccessJob, Prepared};
use linerate_facts::failure::Failure;

/// What is done before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// All data of the named block devices is discarded.
    Discard,
    /// They are written whole, after that.
    Fill,
    /// The page cache of the machine is emptied, before each visit.
    DropCaches,
}

/// Discards and fills the devices that are named, where that was asked for; and looks whether caches may be
/// dropped.
pub(crate) fn precondition(
    bench: &mut AccessBench<'_>,
    spec: &DiskSpec,
    cells: &[AccessJob],
    prepared: &mut Prepared,
) -> Result<(), Failure> {
    let wants = |what| spec.prepare.contains(&what);
    if wants(Preparation::DropCaches) {
        linerate_system::storage::drop_caches().map_err(not_dropped)?;
    }
    let (discard, fill) = (wants(Preparation::Discard), wants(Preparation::Fill));
    if !discard && !fill {
        return Ok(());
    }
    let Some(job) = cells.first() else { return Ok(()) };
    prepared.hold_devices(bench, job)?;
    if prepared.held_devices().next().is_none() {
        return Err(Failure::Usage(
            "--prepare discard and fill: for block devices named by --source and --destroy-data only; name one"
                .into(),
        ));
    }
    if discard {
        for (path, device) in prepared.held_devices() {
            let bytes = linerate_system::file::size_of(device).unwrap_or(0);
            linerate_system::storage::discard(device, bytes).map_err(|error| {
                Failure::Lacks(format!(
                    "--prepare discard: {}: {error}; does the device take discards?",
                    path.display()
                ))
            })?;
        }
    }
    if fill { prepared.fill_devices(bench, job) } else { Ok(()) }
}

/// Why the page cache cannot be emptied.
pub(crate) fn not_dropped(error: std::io::Error) -> Failure {
    Failure::Lacks(format!(
        "--prepare drop-caches: {error}; it empties the page cache of the whole machine, as root only"
    ))
}

/// What was changed on this machine beyond files of our own.
pub(crate) fn changes(spec: &DiskSpec, prepared: &Prepared) -> Vec<String> {
    let mut changes = Vec::new();
    let devices: Vec<String> = prepared.held_devices().map(|(path, _)| path.display().to_string()).collect();
    let wants = |what| spec.prepare.contains(&what);
    let mut on_devices = |done: bool, what: &str| {
        if done {
            changes
                .extend(devices.iter().map(|device| format!("{what} {device}, as --destroy-data allowed")));
        }
    };
    on_devices(wants(Preparation::Discard), "discarded all data of");
    on_devices(wants(Preparation::Fill), "filled");
    on_devices(true, "wrote over data of");
    if wants(Preparation::DropCaches) {
        changes.push("dropped the page cache of the machine before each measurement".into());
    }
    changes
}
