//! `--measured`: the run whose figures come before data sheets, and what it says of each part.

use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::{Run, worker_costs};
use linerate_model::plan::parts::{MeasuredDevice, MeasuredParts};
use linerate_model::plan::{Origin, Resource, ResourceKind};
use linerate_model::verdict::LimitKind;
use linerate_report::{MeasuredOn, results};
use std::collections::BTreeMap;
use std::path::Path;

/// The figure of a run that tells what all memory carries.
const ALL_CORES_COPY: &str = "copy all cores";

/// What the newest kept run of this host has measured of its disks and NICs, by id, bytes per second; nothing where
/// none can be read.
pub(super) fn measured_devices(sysroot: &Sysroot) -> BTreeMap<String, f64> {
    let host = sysroot.text("/proc/sys/kernel/hostname").ok();
    let run = host.map(|host| results::read_of_host(&host)).transpose();
    let run = run.inspect_err(|why| tracing::debug!(%why, "no measured scale")).ok().flatten().flatten();
    let parts = run.and_then(|(_, run)| {
        let protocol = run.goal.protocols.first().copied()?;
        parts_of(&run, protocol)
    });
    let devices = parts.into_iter().flat_map(|parts| parts.disks.into_iter().chain(parts.nics));
    devices.map(|device| (device.id, device.bytes_per_second)).collect()
}

/// The run that `--measured` names, or the newest that is kept of this machine. One of another host is refused.
pub(super) fn run_of(word: Option<&Path>, machine: Option<&Machine>) -> Result<Run, Failure> {
    let host = machine.and_then(|machine| machine.host.known());
    let Some(word) = word else {
        let Some(host) = host else {
            return Err(Failure::Usage(
                "--measured: the machine's name is unknown: name the run, like --measured @-1".into(),
            ));
        };
        let found = results::read_of_host(host)?;
        return found.map(|(_, run)| run).ok_or_else(|| {
            Failure::Lacks(format!(
                "--measured: no whole run of {} is kept: measure there with `linerate run`, or name a run",
                printable(host)
            ))
        });
    };
    let run = results::read(word)?;
    let shown = word.display();
    if let (Some(here), Some(there)) = (host, run.machine.host.known())
        && here != there
    {
        return Err(Failure::Usage(format!(
            "--measured {shown}: that was measured on {}, and this plan is for {}: measure there with \
             `linerate run`",
            printable(there),
            printable(here)
        )));
    }
    if run.goal.flow.receives() {
        return Err(Failure::Usage(format!(
            "--measured {shown}: that run received, and its disks were written: a plan takes what disks were read at and \
             NICs sent: name a run from disk to network"
        )));
    }
    match run.diagnosis {
        Some(_) => Ok(run),
        None => Err(Failure::Lacks(format!(
            "--measured {shown}: that run ended before its figures were judged; let `linerate run` come to \
             its end"
        ))),
    }
}

/// Kept runs that count at most.
const MOST_RUNS: usize = 5;

/// What the kept runs of this machine have measured, without being asked for: the median of quiet ones.
pub(super) fn usual(machine: &Machine, protocol: Protocol) -> Option<(MeasuredParts, MeasuredOn)> {
    let runs = results::read_quiet_of(machine, MOST_RUNS);
    let found: Vec<(&Run, MeasuredParts)> =
        runs.iter().filter_map(|run| Some((run, parts_of(run, protocol)?))).collect();
    let (newest, _) = found.first()?;
    let on = MeasuredOn {
        host: newest.host.clone(),
        started: newest.started.clone(),
        runs: found.len(),
        asked: false,
    };
    Some((MeasuredParts::median(found.into_iter().map(|(_, parts)| parts).collect()), on))
}

/// The newest run that is kept of this machine; none, too, where what is kept cannot be read: what it would tell has a
/// default.
pub(super) fn earlier(machine: &Machine) -> Option<Run> {
    let found = results::read_of_host(machine.host.known()?);
    found.inspect_err(|why| tracing::debug!(%why, "no earlier run")).ok()?.map(|(_, run)| run)
}

/// What the run that was named says of this machine's parts. One of another tool has to say something of them.
pub(super) fn parts_of_named(
    run: &Run,
    machine: Option<&Machine>,
    protocol: Protocol,
) -> Result<MeasuredParts, Failure> {
    if run.tool.is_empty() {
        return Ok(parts_of(run, protocol).unwrap_or_default());
    }
    let parts = foreign_parts(run, machine, protocol);
    if parts.disks.is_empty() && parts.nics.is_empty() {
        return Err(Failure::Lacks(format!(
            "--measured: that result of {} names no disk that was only read, past the page cache, and no address of this machine from which \
             {protocol} was sent: nothing of it can be counted",
            printable(&run.tool)
        )));
    }
    Ok(parts)
}

/// What a run measured of the parts, for flows of this protocol; none where it measured no such flow.
pub(super) fn parts_of(run: &Run, protocol: Protocol) -> Option<MeasuredParts> {
    let judged = run.diagnosis.as_ref()?.by_protocol.iter().find(|found| found.protocol == protocol)?;
    let devices = |kind: ResourceKind| -> Vec<MeasuredDevice> {
        let of_kind = judged.resources.iter().filter(|resource| resource.kind == kind);
        of_kind.filter_map(device).collect()
    };
    // On loopback the receiver's work is in the figure, too.
    let loopback = |name: &str| run.machine.nics.iter().any(|nic| nic.loopback && nic.name == name);
    let away = judged.resources.iter().any(|resource| {
        resource.kind == ResourceKind::Nic
            && resource.id.split_once(':').is_some_and(|(_, name)| !loopback(name))
    });
    let figures = |stage: Stage| run.measurements.iter().filter(move |figure| figure.stage == stage);
    let of_protocol = |figure: &&Measurement| figure.protocol == Some(protocol);
    let whole = |figure: &&Measurement| figure.together && figure.held_by.is_none();
    let rate = |figure: &Measurement| Some(figure.bytes_per_second).filter(is_rate);
    let copied = figures(Stage::Memory).find(|figure| figure.name == ALL_CORES_COPY);
    let path = figures(Stage::Path).find(of_protocol);
    let networks = figures(Stage::Network).filter(of_protocol).filter(whole);
    Some(MeasuredParts {
        disks: devices(ResourceKind::Disk),
        nics: devices(ResourceKind::Nic),
        disks_together: figures(Stage::Disk).rfind(whole).and_then(rate),
        nics_together: networks.filter_map(rate).max_by(f64::total_cmp),
        // Read and written: each byte crosses the bus twice.
        memory_bytes_per_second: copied.and_then(rate).map(|copy| 2.0 * copy),
        cpu_seconds_per_gb: path.map(whole_cost).filter(is_rate).filter(|_| away),
        workers: if away { worker_costs(run, protocol) } else { BTreeMap::new() },
    })
}

/// What another tool read of a disk, and sent over an interface of this machine: each can do that at least.
fn foreign_parts(run: &Run, machine: Option<&Machine>, protocol: Protocol) -> MeasuredParts {
    let is_disk = run.bottleneck();
    let full: Vec<&String> = is_disk
        .iter()
        .filter(|limit| limit.kind == LimitKind::Disk)
        .flat_map(|limit| &limit.resources)
        .collect();
    let reads = run.measurements.iter().filter(|figure| figure.resource.starts_with("disk:"));
    // Through the page cache it may be memory that was read.
    let of_disk = |figure: &&Measurement| {
        figure.access.as_ref().is_some_and(|access| access.writes.is_none() && access.job.direct)
    };
    let reads = reads.filter(of_disk);
    let disks = reads.map(|figure| MeasuredDevice {
        id: figure.resource.clone(),
        bytes_per_second: figure.bytes_per_second,
        at_least: !full.contains(&&figure.resource),
    });
    MeasuredParts {
        disks: fastest(disks),
        nics: fastest(foreign_nics(run, machine, protocol)),
        ..MeasuredParts::default()
    }
}

/// By the address that the test had on this side.
fn foreign_nics<'r>(
    run: &'r Run,
    machine: Option<&'r Machine>,
    protocol: Protocol,
) -> impl Iterator<Item = MeasuredDevice> + 'r {
    let sent = run.measurements.iter().filter(move |figure| {
        figure.stage == Stage::Network && figure.protocol == Some(protocol) && !figure.incoming
    });
    sent.filter_map(move |figure| {
        let streams = &figure.streams.as_ref()?.streams;
        let (local, _) = streams.iter().find_map(|stream| stream.addresses)?;
        let nic = machine?.nics.iter().find(|nic| nic.addresses.iter().any(|(own, _)| *own == local.ip()))?;
        let (id, bytes_per_second) = (format!("nic:{}", nic.name), figure.bytes_per_second);
        Some(MeasuredDevice { id, bytes_per_second, at_least: true })
    })
}

/// The most of each.
fn fastest(devices: impl Iterator<Item = MeasuredDevice>) -> Vec<MeasuredDevice> {
    let mut most: Vec<MeasuredDevice> = Vec::new();
    for device in devices.filter(|device| is_rate(&device.bytes_per_second)) {
        match most.iter_mut().find(|other| other.id == device.id) {
            Some(other) if other.bytes_per_second < device.bytes_per_second => *other = device,
            Some(_) => {}
            None => most.push(device),
        }
    }
    most
}

fn device(resource: &Resource) -> Option<MeasuredDevice> {
    Some(MeasuredDevice {
        id: resource.id.clone(),
        bytes_per_second: resource.measured.filter(is_rate)?,
        at_least: resource.lower_bound || resource.origin != Origin::Measured,
    })
}

/// Of the whole host, with interrupts and kernel threads, where that was measured: the CPUs pay for all of it.
fn whole_cost(path: &Measurement) -> f64 {
    path.busy_seconds_per_gb.max(path.cpu_seconds_per_gb)
}

fn is_rate(rate: &f64) -> bool {
    rate.is_finite() && *rate > 0.0
}
