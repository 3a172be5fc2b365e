//! What sets the machines of several runs apart: a difference of the figures may be theirs.

use super::Unlike;
use linerate_facts::fact::Fact;
use linerate_facts::printable::printable;
use linerate_facts::units;
use linerate_machine::probe::{Disk, Machine};
use linerate_measure::run::Run;

/// Facts that are not the same everywhere.
pub(super) fn facts(runs: &[&Run]) -> Vec<Unlike> {
    let all: Vec<Vec<(&'static str, String)>> = runs.iter().map(|run| of(run)).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let mut unlike = Vec::new();
    for (index, (what, value)) in first.iter().enumerate() {
        let values: Vec<String> = all.iter().map(|facts| facts[index].1.clone()).collect();
        if values.iter().any(|other| other != value) {
            unlike.push(Unlike { what: (*what).into(), values });
        }
    }
    unlike
}

/// Always the same facts in the same order.
fn of(run: &Run) -> Vec<(&'static str, String)> {
    let machine = &run.machine;
    let (cpu, memory, kernel) = (&machine.cpu, &machine.memory, &machine.kernel);
    let online = cpu.logical.iter().filter(|cpu| cpu.online).count();
    vec![
        ("processor", word(&cpu.model, |model| printable(model))),
        ("packages", word(&cpu.packages, u32::to_string)),
        ("cores", word(&cpu.physical_cores, u32::to_string)),
        ("logical processors online", online.to_string()),
        (
            "CPU quota",
            word(
                &cpu.quota_cores,
                |cores| if *cores > 0.0 { format!("{cores} cores") } else { "none".into() },
            ),
        ),
        // What the kernel keeps for itself differs by some megabytes from boot to boot.
        (
            "memory",
            word(&memory.total_bytes, |bytes| {
                format!("{} GiB", (*bytes as f64 / (1u64 << 30) as f64).round())
            }),
        ),
        (
            "rated memory bandwidth",
            word(&memory.rated_bytes_per_second, |rate| units::show_bytes_rate(*rate)),
        ),
        ("virtualisation", word(&machine.virtualisation, |kind| printable(kind))),
        ("kernel", word(&kernel.release, |release| printable(release))),
        ("devices", devices(run, machine)),
        ("linerate", printable(&run.version)),
    ]
}

fn word<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> String {
    fact.known().map_or_else(|| "unknown".into(), show)
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
