//! What sets the machines of several runs apart: a difference of the figures may be theirs.

use super::Unlike;
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
    let mut named: Vec<&str> = Vec::new();
    for fact in all.iter().flatten() {
        if !named.contains(&fact.what.as_str()) {
            named.push(&fact.what);
        }
    }
    let mut unlike = Vec::new();
    for what in named {
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
    facts.push(MachineFact { what: "linerate".into(), value: printable(&run.version) });
    if with_settings {
        facts.extend(of_settings(run));
    }
    facts
}

/// The devices that were measured, by what they are and not by what the kernel called them: `2 × loop, 1
/// GiB`.
fn devices(run: &Run, machine: &Machine) -> String {
    let mut names: Vec<&str> = Vec::new();
    for measurement in &run.measurements {
        let told =
            measurement.access.iter().flat_map(|access| &access.devices).map(|device| device.name.as_str());
        // What lies over several devices is called by all of them.
        let resource =
            measurement.resource.strip_prefix("disk:").into_iter().flat_map(|names| names.split('+'));
        for name in told.chain(resource) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mut kinds: Vec<(String, u32)> = Vec::new();
    for name in names {
        let disk = machine.disks.iter().find(|disk| disk.name == name);
        let kind = disk.map_or_else(|| printable(name), kind);
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    kinds.sort();
    let words: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    if words.is_empty() { "none".into() } else { words.join("; ") }
}

fn kind(disk: &Disk) -> String {
    let mut words = vec![format!("{:?}", disk.kind).to_lowercase()];
    words.extend(disk.model.known().map(|model| printable(model)));
    words.extend(disk.size_bytes.known().map(|bytes| units::show_size(*bytes)));
    words.join(" ")
}
