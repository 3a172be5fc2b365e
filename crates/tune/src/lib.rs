//! Changes a machine's settings safely: a catalogue of settings, what each should be for this machine's
//! rates, and a journal that brings all of it back.
//!
//! [`plan()`] only reads. [`apply()`], [`undo()`] and [`measure::measure`] write what the
//! user named and nothing else, through [`kernel_access::KernelAccess`].

#![forbid(unsafe_code)]
mod apply;
pub mod catalogue;
mod choice;
mod goal;
pub mod journal;
pub mod kernel_access;
pub mod measure;
mod persist;
mod plan;
pub mod process;
mod setting_place;
mod undo;

#[cfg(test)]
mod tests;

pub use apply::{ApplyResult, SettingOutcome, WantedValue, apply};
pub use choice::{SettingChoice, SettingTrial};
pub use goal::TuneGoal;
use journal::{Host, Record};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
pub use persist::{Persistence, persistence};
pub use plan::{Item, SettingVerdict, TuneNote, TunePlan, plan};
pub use setting_place::{DeviceClass, DevicePresence, Knob, NamedDevice, SettingPlace, Shape};
use std::path::Path;
pub use undo::{Leave, undo};

/// Folder of the journal where none is named.
pub const JOURNAL_FOLDER: &str = "/var/lib/linerate";

/// Name of the journal of a network namespace, or of the machine.
pub fn journal_name(namespace: Option<&str>) -> String {
    namespace.map_or("tune".into(), |name| format!("tune-netns-{name}"))
}

/// Whose settings a tree shows.
pub fn host(sysroot: &Sysroot, namespace: Option<&str>) -> Host {
    let text = |path: &str| sysroot.text(path).unwrap_or_default();
    Host {
        machine: text("/etc/machine-id"),
        name: text("/proc/sys/kernel/hostname"),
        boot: text("/proc/sys/kernel/random/boot_id"),
        namespace: namespace.unwrap_or_default().to_string(),
    }
}

/// The journal's lines without holding it; none where there is no journal.
pub fn look(folder: &Path, name: &str) -> Result<Vec<Record>, Failure> {
    journal::look(folder, name)
}

/// A journal of another machine is not followed.
pub fn check_host(state: &journal::JournalState, host: &Host, folder: &Path) -> Result<(), Failure> {
    match state.steps.iter().find(|followed| !followed.host.is_same_machine(host)) {
        None => Ok(()),
        Some(followed) => Err(Failure::Lacks(format!(
            "the journal in {} is of another machine ({}, machine-id {}), not of {} ({}): undo it there, or \
             name this machine's folder with --journal",
            folder.display(),
            followed.host.name,
            followed.host.machine,
            host.name,
            host.machine,
        ))),
    }
}
