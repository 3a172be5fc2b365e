//! A transfer of files: how fast, what limited it, and what this host showed meanwhile.

use super::access;
use crate::document::{Block, Media, Part, facts};
use crate::figure::{Unit, cost, percent};
use linerate_facts::printable::printable;
use linerate_facts::usage::CoreUse;
use linerate_measure::measure::access::DeviceUse;
use linerate_measure::measure::{LinkUse, Measurement, Stage, WorkerResult};
use linerate_measure::run::Run;

pub(super) fn parts(run: &Run) -> Vec<Part<'_>> {
    let blocks = vec![Block::Space, facts(run.measurements.iter().flat_map(figures))];
    let seen = Part { id: "transfer", title: "The transfer", blocks, ..Part::default() };
    vec![seen, Part { on: Media::Page, ..access::figures(&run.measurements) }]
}

/// What was observed, each with its label.
fn figures(moved: &Measurement) -> Vec<(&'static str, String)> {
    let mut figures = vec![("streams", streams(moved))];
    figures.extend(moved.devices.iter().map(|disk| ("disk", device(disk))));
    figures.extend(moved.links.iter().map(|link| ("NIC", interface(link))));
    let fullest = moved.cpu_by_core.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let fullest = fullest.map(|cpu: &CoreUse| format!("; CPU {} is {} busy", cpu.core, percent(cpu.busy())));
    let cost = cost(moved.cpu_seconds_per_gb);
    figures.push(("CPU", format!("{cost} CPU seconds per GB{}", fullest.unwrap_or_default())));
    if !moved.method.is_empty() {
        figures.push(("method", printable(&moved.method)));
    }
    figures
}

fn streams(moved: &Measurement) -> String {
    let count = moved.workers.len().max(1) as f64;
    let mean = |of: fn(&WorkerResult) -> f64| moved.workers.iter().map(of).sum::<f64>() / count;
    let (source, sink) = (mean(|one| one.waiting_source), mean(|one| one.waiting_sink));
    let (network, disk) = if moved.stage == Stage::Get { (source, sink) } else { (sink, source) };
    format!(
        "{}, waiting for the network {} of the time, for the disks {}; working {}",
        moved.workers.len(),
        percent(network),
        percent(disk),
        percent(mean(|one| one.cpu_share))
    )
}

fn device(disk: &DeviceUse) -> String {
    let bytes = disk.read_bytes_per_second + disk.written_bytes_per_second;
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
    let held = match &link.shaper {
        Some((discipline, times)) => {
            format!("; {} holds packets back {times:.0} times per second", printable(discipline))
        }
        None => String::new(),
    };
    format!("{} {verb} {}{of}{held}", printable(&link.name), Unit::Bits.show(link.bytes_per_second))
}
