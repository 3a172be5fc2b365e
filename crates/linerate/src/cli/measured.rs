//! `--measured`: the run whose figures come before data sheets, and what it says of each part.

use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::{Run, worker_costs};
use linerate_model::plan::parts::{MeasuredDevice, MeasuredParts};
use linerate_model::plan::{Origin, Resource, ResourceKind};
use linerate_report::{MeasuredOn, results};
use std::collections::BTreeMap;
use std::path::Path;

/// The figure of a run that tells what all memory carries.
const ALL_CORES_COPY: &str = "copy all cores";

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
