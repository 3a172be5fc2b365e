//! The section on a transfer of files: how long its streams waited for the network and for the disks, and how busy disks,
//! NICs and CPUs of this host were. How fast it was and what limited it is above, as of every stage.

use super::access;
use crate::document::{Block, Media, Part, facts};
use crate::figure::{Unit, cost, percent};
use linerate_facts::printable::printable;
use linerate_facts::usage::CoreUse;
use linerate_measure::measure::access::DeviceUse;
use linerate_measure::measure::{LinkUse, Measurement, TransferWaits};
use linerate_measure::run::Run;

pub(super) fn parts(run: &Run) -> Vec<Part<'_>> {
    let blocks = vec![Block::Space, facts(run.measurements.iter().flat_map(figures))];
    let part = Part { id: "transfer", title: "The transfer", blocks, ..Part::default() };
    vec![part, Part { on: Media::Page, ..access::figures(&run.measurements) }]
}

/// Each figure with its label.
fn figures(measurement: &Measurement) -> Vec<(&'static str, String)> {
    let mut figures = vec![("streams", streams(measurement))];
    figures.extend(measurement.devices.iter().map(|disk| ("disk", device(disk))));
    figures.extend(measurement.links.iter().map(|link| ("NIC", interface(link))));
    let fullest = measurement.cpu_by_core.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let fullest = fullest.map(|cpu: &CoreUse| format!("; CPU {} is {} busy", cpu.core, percent(cpu.busy())));
    let cost = cost(measurement.cpu_seconds_per_gb);
    figures.push(("CPU", format!("{cost} CPU seconds per GB{}", fullest.unwrap_or_default())));
    if !measurement.method.is_empty() {
        figures.push(("method", printable(&measurement.method)));
    }
    figures
}

fn streams(measurement: &Measurement) -> String {
    let workers = measurement.worker_evidence().unwrap_or_default();
    let TransferWaits { network, disk } = measurement.transfer_waits();
    format!(
        "{}, waiting for the network {} of the time, for the disks {}; working {}",
        workers.count,
        percent(network),
        percent(disk),
        percent(workers.busy)
    )
}

fn device(disk: &DeviceUse) -> String {
    let bytes = disk.bytes_per_second();
    format!(
        "{} moves {}, {} busy, {:.1} requests at a time",
        printable(&disk.name),
        Unit::Bytes.show(bytes),
        percent(disk.utilisation),
        disk.queue_depth
    )
}

fn interface(link: &LinkUse) -> String {
    let verb = if link.sends { "sends" } else { "receives" };
    let of = match link.bits_per_second > 0.0 {
        true => format!(", {} of its link", percent(link.utilisation)),
        false => ", the rate of its link is unknown".into(),
    };
    let shaping = link.shaper.as_ref().map_or_else(String::new, |(discipline, times)| {
        format!("; {} holds packets back {times:.0} times per second", printable(discipline))
    });
    format!("{} {verb} {}{of}{shaping}", printable(&link.name), Unit::Bits.show(link.bytes_per_second))
}
