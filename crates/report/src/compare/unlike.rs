//! What sets the machines of several runs apart: a difference of the figures may be theirs.

use super::Unlike;
use crate::alike::{distinct, grouped};
use crate::machine_facts::{MachineFact, of_server, of_settings};
use linerate_facts::printable::printable;
use linerate_facts::units;
use linerate_machine::probe::{Disk, Machine};
use linerate_measure::run::Run;

/// Facts that are not the same everywhere: of the servers, and where all runs are of one host also of how it
/// was set.
pub(super) fn facts(runs: &[&Run]) -> Vec<Unlike> {
    let one_host = runs.windows(2).all(|pair| pair[0].host == pair[1].host);
    let all: Vec<Vec<MachineFact>> = runs.iter().map(|run| of(run, one_host)).collect();
    let mut unlike = Vec::new();
    for what in distinct(all.iter().flatten().map(|fact| fact.what.as_str())) {
        let value = |facts: &Vec<MachineFact>| {
            let fact = facts.iter().find(|fact| fact.what == what);
            fact.map_or_else(|| "absent".to_string(), |fact| fact.value.clone())
        };
        let values: Vec<String> = all.iter().map(value).collect();
        if values.iter().any(|other| *other != values[0]) {
            unlike.push(Unlike { what: what.into(), values });
        }
    }
    unlike
}

/// The same facts in the same order, of one host also its settings.
fn of(run: &Run, with_settings: bool) -> Vec<MachineFact> {
    let mut facts = of_server(run);
    facts.push(MachineFact { what: "devices".into(), value: devices(run, &run.machine) });
    facts.push(MachineFact { what: "flow".into(), value: run.goal.flow.ends().into() });
    facts.push(MachineFact { what: "linerate".into(), value: printable(run.tool_version()) });
    if with_settings {
        facts.extend(of_settings(run));
    }
    facts
}

/// The devices that were measured, by what they are and not by what the kernel called them: `2 × loop, 1
/// GiB`.
fn devices(run: &Run, machine: &Machine) -> String {
    let names = distinct(run.measurements.iter().flat_map(|measurement| {
        let devices = measurement.access.iter().flat_map(|access| &access.devices);
        // What lies over several devices is called by all of them.
        let resource = measurement.resource.strip_prefix("disk:").into_iter();
        devices.map(|device| device.name.as_str()).chain(resource.flat_map(|names| names.split('+')))
    }));
    let mut kinds: Vec<String> =
        names.into_iter().map(|name| machine.disk(name).map_or_else(|| printable(name), kind)).collect();
    kinds.sort();
    let kinds = grouped(kinds, |one, other| one == other);
    let words: Vec<String> = kinds.iter().map(|alike| format!("{} × {}", alike.len(), alike[0])).collect();
    if words.is_empty() { "none".into() } else { words.join("; ") }
}

fn kind(disk: &Disk) -> String {
    let mut words = vec![format!("{:?}", disk.kind).to_lowercase()];
    words.extend(disk.model.known().map(|model| printable(model)));
    words.extend(disk.size_bytes.known().map(|bytes| units::show_size(*bytes)));
    words.join(" ")
}
