//! What the figures of `linerate disk` tell about the devices, the settings and the generator: one function a
//! finding, pure.
//!
//! `durable_writes` says what a sync takes, and for the log of which program that is enough by its own documents;
//! `pairs` has the findings that hold two measurements against each other.

mod pairs;
#[cfg(test)]
mod tests;

use super::map::misaligned;
use super::trust::of_burst;
use crate::diagnose::product::Finding;
use crate::measure::access::{AccessJob, AccessOrder, DeviceUse, Engine};
use crate::measure::{AccessResult, Measurement, PAGE_CACHE};
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_machine::probe::{Disk, Machine};
use linerate_model::verdict::{DiskEvidence, Evidence, Limit, Route, judge};
use serde_json::json;

/// No rotating disk answers requests at random faster than this on the median, seconds: half a turn at 15,000
/// a minute takes 2 ms.
const FASTER_THAN_ANY_TURN: f64 = 1e-3;
/// Requests a second from which a scheduler's lock shows.
const SCHEDULER_SHOWS: f64 = 100_000.0;

/// Flags of figures that something else had a part in.
const OF_OTHERS: [&str; 4] = [PAGE_CACHE, "core-saturated", "steal", "quota"];

/// Tells what it finds in all measurements together.
type Find = fn(&Machine, &[Cell]) -> Vec<Finding>;

/// One measurement of file access that has a figure.
#[derive(Clone, Copy, Debug)]
struct Cell<'a> {
    figure: &'a Measurement,
    access: &'a AccessResult,
}

impl Cell<'_> {
    fn busiest(&self) -> Option<&DeviceUse> {
        self.access.devices.iter().max_by(|one, other| one.utilisation.total_cmp(&other.utilisation))
    }

    /// The devices answered as fast as they could: no pace, no cache above them, no CPU that was full.
    fn of_devices(&self) -> bool {
        let job = &self.access.job;
        let paced = job.requests_per_second.is_some() || job.limit_bytes_per_second.is_some();
        let flagged = self.figure.flags.iter().any(|flag| OF_OTHERS.contains(&flag.as_str()));
        !paced && !flagged && !matches!(self.limit(), Some(Limit::OwnCpu { .. }))
    }

    /// What limits it, by the CPUs' and the devices' use.
    fn limit(&self) -> Option<Limit> {
        access_limit(self.access)
    }

    fn operations_per_second(&self) -> f64 {
        let sides = self.access.reads.iter().chain(&self.access.writes);
        sides.map(|side| side.operations_per_second).sum()
    }
}

/// What limits file access, by the use of the CPUs and of the devices.
pub(super) fn access_limit(access: &AccessResult) -> Option<Limit> {
    let disk = |used: &DeviceUse| DiskEvidence {
        name: used.name.clone(),
        bytes_per_second: used.bytes_per_second(),
        busy: Some(used.utilisation),
        queue_depth: Some(used.queue_depth),
        ..DiskEvidence::default()
    };
    let evidence = Evidence {
        route: Route::Disks,
        own_cpu: Some(access.checks.generator_cpu),
        disks: access.devices.iter().map(disk).collect(),
        ..Evidence::default()
    };
    judge(&evidence).limits.into_iter().next()
}

/// All of them, worst first. Measurements without a figure say nothing.
pub fn disk_findings(machine: &Machine, measurements: &[Measurement]) -> Vec<Finding> {
    let cells: Vec<Cell> = measurements
        .iter()
        .filter(|figure| figure.bytes_per_second > 0.0)
        .filter_map(|figure| Some(Cell { figure, access: figure.access.as_deref()? }))
        .collect();
    let groups: [Find; 12] = [
        generator_cpu,
        page_cache,
        device_busy,
        device_idles,
        partial_sectors,
        rotational_claim,
        scheduler,
        alignment,
        durable_writes,
        pairs::deeper_is_faster,
        pairs::request_limit,
        pairs::read_ahead,
    ];
    let mut findings: Vec<Finding> = groups.iter().flat_map(|find| find(machine, &cells)).collect();
    let burst = |cell: &Cell| Some(of_burst(&cell.figure.name, cell.access.burst.as_ref()?));
    findings.extend(cells.iter().filter_map(burst));
    super::sort(&mut findings);
    findings
}

/// `“sequential read 1 MiB …”`, and how many more.
fn names_of(cells: &[&Cell]) -> String {
    let more = match cells.len().saturating_sub(1) {
        0 => String::new(),
        1 => " and one more".into(),
        more => format!(" and {more} more"),
    };
    format!("“{}”{more}", cells.first().map_or("", |cell| cell.figure.name.as_str()))
}

/// Each device that a cell was on, once, with the first cell for which `says` holds.
fn by_device<'a>(
    machine: &'a Machine,
    cells: &'a [Cell<'a>],
    says: impl Fn(&Disk, &Cell, &DeviceUse) -> bool,
) -> Vec<(&'a Disk, &'a Cell<'a>)> {
    let mut found: Vec<(&Disk, &Cell)> = Vec::new();
    for cell in cells {
        for used in &cell.access.devices {
            let Some(disk) = machine.disk(&used.name) else { continue };
            if found.iter().all(|(other, _)| other.name != disk.name) && says(disk, cell, used) {
                found.push((disk, cell));
            }
        }
    }
    found
}

/// `generator-cpu`: the figure is the CPUs', not the devices'.
fn generator_cpu(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let full: Vec<&Cell> =
        cells.iter().filter(|cell| matches!(cell.limit(), Some(Limit::OwnCpu { .. }))).collect();
    let Some(worst) = full.iter().map(|cell| cell.access.checks.generator_cpu).reduce(f64::max) else {
        return Vec::new();
    };
    let names: Vec<&str> = full.iter().map(|cell| cell.figure.name.as_str()).collect();
    let verified = full.iter().any(|cell| cell.access.job.verify);
    let verify = if verified { " without --verify;" } else { "" };
    vec![
        Finding::slow(
            "generator-cpu",
            format!(
                "linerate's own threads use {:.0} % of the processors in {}: that is what the processors give, \
                 the devices may do more",
                worst * 100.0,
                names_of(&full)
            ),
        )
        .evidence(json!({ "measurements": names, "generator_cpu": worst }))
        .remedy(format!(
            "larger requests (--transfer);{verify} or more processors, where a control group or a mask holds \
             some back"
        )),
    ]
}

/// `page-cache`: memory answered.
fn page_cache(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let hit: Vec<&Cell> =
        cells.iter().filter(|cell| cell.figure.flags.iter().any(|flag| flag == PAGE_CACHE)).collect();
    if hit.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = hit.iter().map(|cell| cell.figure.name.as_str()).collect();
    let text = format!("memory answered a part of {}: the figure is not the devices'", names_of(&hit));
    let finding = Finding::note("page-cache", text).evidence(json!({ "measurements": names }));
    vec![finding.remedy(past_the_page_cache(&hit))]
}

/// What takes memory out of these figures: of the options that were used, and what else there is.
fn past_the_page_cache(hit: &[&Cell]) -> String {
    let any = |is: fn(&AccessJob) -> bool| hit.iter().any(|cell| is(&cell.access.job));
    let mut ways = Vec::new();
    if any(|job| !job.direct && job.engine != Engine::Mmap) {
        ways.push("read and write past it (without --buffered)");
    }
    if any(|job| job.engine == Engine::Mmap) {
        ways.push("an engine that can pass it by (not --engine mmap)");
    }
    if hit.iter().all(|cell| cell.access.job.direct && cell.access.job.engine != Engine::Mmap) {
        ways.push("data that does not compress, and a file system that keeps no cache of its own");
    }
    ways.push("files of twice the memory (--amount)");
    if any(AccessJob::reads) {
        ways.push(
            "an empty cache before each measurement, where other programs may wait (--prepare drop-caches)",
        );
    }
    if any(|job| job.writes() && !job.fsync && job.sync.is_none()) {
        ways.push("waiting until what is written is on the devices (--fsync)");
    }
    ways.join("; or ")
}

/// `device-busy`: nothing above the device can make it faster.
fn device_busy(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let busy: Vec<(&Cell, &DeviceUse)> = cells
        .iter()
        .filter(|cell| cell.of_devices())
        .filter_map(|cell| Some((cell, cell.busiest()?)))
        .filter(|(cell, _)| matches!(cell.limit(), Some(Limit::DiskBusy(_))))
        .collect();
    let most = busy
        .iter()
        .max_by(|one, other| one.0.figure.bytes_per_second.total_cmp(&other.0.figure.bytes_per_second));
    let Some((cell, device)) = most else { return Vec::new() };
    vec![Finding::note("device-busy", format!(
            "{} had no pause in {} of {} measurements, at most {} ({:.1} requests in flight on average): the \
             device is what holds these figures",
            device.name,
            busy.len(),
            cells.len(),
            show_bytes_rate(cell.figure.bytes_per_second),
            device.queue_depth
        )).evidence(json!({
            "device": device.name, "utilisation": device.utilisation, "queue_depth": device.queue_depth,
            "bytes_per_second": cell.figure.bytes_per_second, "measurements": busy.len(),
        })).remedy("a faster device, or more of them (--scaling measures what they bring); where it is a volume of a \
         cloud or a throttled one, its limit")]
}

/// `queue-too-shallow`: the device waits for requests. By Little's law more in flight at the same latency are
/// as much more a second.
fn device_idles(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let idles = |cell: &&Cell| {
        let pauses = matches!(cell.limit(), Some(Limit::DiskPauses(_)));
        // A device that waits for its own flush has something to do, and more writers at once is another question.
        let synced = cell.access.job.sync.is_some();
        cell.of_devices() && cell.access.devices.len() == 1 && pauses && !synced
    };
    let idle: Vec<&Cell> = cells.iter().filter(idles).collect();
    let Some((cell, device)) = idle.iter().find_map(|cell| Some((cell, cell.busiest()?))) else {
        return Vec::new();
    };
    vec![Finding::slow("queue-too-shallow", format!(
            "{} had nothing to do {:.0} % of the time in {}, with {:.1} requests in flight: by Little's law \
             more of them bring more",
            device.name,
            (1.0 - device.utilisation) * 100.0,
            names_of(&idle),
            cell.access.checks.reached_depth
        )).evidence(json!({
            "device": device.name, "utilisation": device.utilisation,
            "reached_depth": cell.access.checks.reached_depth, "little_depth": cell.access.checks.little_depth,
        })).remedy("more requests in flight (--queue-depth, --workers); a program that reads by itself: larger \
         requests, read-ahead, or more threads").gain(cell.figure.bytes_per_second * (1.0 / device.utilisation - 1.0))]
}

/// `partial-sectors`: the drive reads, changes and writes back what such a write touches.
fn partial_sectors(machine: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let partial = |disk: &Disk, cell: &Cell| {
        let sector = disk.physical_block_bytes.known().copied().map_or(0, u64::from);
        let job = &cell.access.job;
        job.direct && job.writes() && sector > 0 && !job.transfer_bytes.is_multiple_of(sector)
    };
    let found = by_device(machine, cells, |disk, cell, _| partial(disk, cell));
    let finding_of = |(disk, cell): (&Disk, &Cell)| {
        let sector = disk.physical_block_bytes.known().copied().unwrap_or(0);
        Finding::slow("partial-sectors", format!(
                "writes of {} to {}, whose physical sectors have {}: the drive reads, changes and writes \
                 back each of them",
                show_size(cell.access.job.transfer_bytes),
                disk.name,
                show_size(u64::from(sector))
            )).evidence(json!({ "device": disk.name, "transfer_bytes": cell.access.job.transfer_bytes, "physical_block_bytes": sector })).remedy(format!("write multiples of {} (--transfer)", show_size(u64::from(sector))))
    };
    found.into_iter().map(finding_of).collect()
}

/// `rotational-claim`: the kernel takes a device for a rotating disk that answers faster than any.
fn rotational_claim(machine: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let median = |cell: &Cell| cell.access.reads.as_ref().map_or(f64::MAX, |reads| reads.latency.p50);
    let claims = |disk: &Disk, cell: &Cell| {
        let random = cell.access.job.order != AccessOrder::Sequential && cell.access.job.direct;
        let fast = median(cell) > 0.0 && median(cell) < FASTER_THAN_ANY_TURN;
        disk.rotational.known() == Some(&true) && random && fast && cell.of_devices()
    };
    let found = by_device(machine, cells, |disk, cell, _| claims(disk, cell));
    let finding_of =
        |(disk, cell): (&Disk, &Cell)| {
            Finding::note("rotational-claim", format!(
                "the kernel takes {} for a rotating disk, yet it answers half of the reads at random within \
                 {:.0} µs: schedulers and file systems spare it seeks that it does not make",
                disk.name,
                median(cell) * 1e6
            )).evidence(json!({ "device": disk.name, "p50_seconds": median(cell) })).remedy(format!(
                "`linerate tune apply --setting rotational:{0}=0` (or echo 0 > \
                 /sys/block/{0}/queue/rotational); then measure again",
                disk.name
            ))
        };
    found.into_iter().map(finding_of).collect()
}

/// `scheduler`: so many requests a second pass a scheduler's lock, which a device without a head does not
/// need.
fn scheduler(machine: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let passes = |disk: &Disk, used: &DeviceUse| {
        let sorted = disk.scheduler.known().is_some_and(|name| name != "none");
        sorted && disk.rotational.known() == Some(&false) && used.operations_per_second > SCHEDULER_SHOWS
    };
    let found = by_device(machine, cells, |disk, _, used| passes(disk, used));
    let finding_of = |(disk, cell): (&Disk, &Cell)| {
        let scheduler = disk.scheduler.known().cloned().unwrap_or_default();
        Finding::note("scheduler", format!(
                "{:.0} requests a second pass {scheduler} on their way to {}, which does not rotate: sorting \
                 them costs processor time and one lock",
                cell.operations_per_second(),
                disk.name
            )).evidence(json!({ "device": disk.name, "scheduler": scheduler, "operations_per_second": cell.operations_per_second() })).remedy(format!(
                "`linerate tune apply --setting scheduler:{0}=none` (or echo none > \
                 /sys/block/{0}/queue/scheduler); then measure again",
                disk.name
            ))
    };
    found.into_iter().map(finding_of).collect()
}

/// `misaligned`, as the map tells it, of the devices that were measured.
fn alignment(machine: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let used = |disk: &Disk| {
        cells.iter().any(|cell| cell.access.devices.iter().any(|device| device.name == disk.name))
    };
    let disks = machine.disks.iter().filter(|disk| used(disk)).cloned().collect();
    misaligned(&Machine { disks, ..Machine::default() })
}

/// The syncs of one figure, seconds.
struct Syncs {
    p99: f64,
    longest: f64,
    /// Syncs a second of one writer, one after the other; none: several wrote at once.
    of_one_writer: Option<f64>,
}

/// What a program asks of the disk below its log.
struct Requirement {
    /// The program, and what it asks for.
    program: &'static str,
    is_met: fn(&Syncs) -> bool,
    source: &'static str,
}

const REQUIREMENTS: [Requirement; 3] = [
    // "wal_fsync_duration_seconds (p99 duration should be less than 10ms)".
    Requirement {
        program: "etcd (p99 below 10 ms)",
        is_met: |syncs| syncs.p99 < 0.01,
        source: "https://etcd.io/docs/v3.5/faq/",
    },
    // "For heavily loaded clusters, 500 sequential IOPS".
    Requirement {
        program: "etcd under heavy load (500/s of one writer)",
        is_met: |syncs| syncs.of_one_writer.is_none_or(|per_second| per_second >= 500.0),
        source: "https://etcd.io/docs/v3.5/op-guide/hardware/",
    },
    // `fsync.warningthresholdms` is 1000 where it is not set.
    Requirement {
        program: "ZooKeeper (warns from 1 s on)",
        is_met: |syncs| syncs.longest < 1.0,
        source: "https://zookeeper.apache.org/doc/current/zookeeperAdmin.html",
    },
];

/// Of the cell whose syncs take longest; of files in memory nothing is said.
fn durable_writes(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let synced = cells.iter().filter(|cell| !cell.figure.flags.iter().any(|flag| flag == "in-memory"));
    let synced = synced.filter_map(|cell| Some((cell, cell.access.job.sync?, cell.access.sync_latency()?)));
    let Some((cell, sync, latency)) = synced.max_by(|one, other| one.2.p99.total_cmp(&other.2.p99)) else {
        return Vec::new();
    };
    let per_second = cell.access.syncs.as_ref().map(|syncs| syncs.operations_per_second);
    let per_second = per_second.unwrap_or_else(|| cell.operations_per_second());
    let one_writer = cell.access.checks.asked_depth <= 1.0;
    let syncs =
        Syncs { p99: latency.p99, longest: latency.maximum, of_one_writer: one_writer.then_some(per_second) };
    let (met, missed): (Vec<&Requirement>, Vec<&Requirement>) =
        REQUIREMENTS.iter().partition(|required| (required.is_met)(&syncs));
    let listed = |what: &str, programs: &[&Requirement]| match programs {
        [] => String::new(),
        programs => {
            let names: Vec<&str> = programs.iter().map(|required| required.program).collect();
            format!("; {what} for {}", names.join(", "))
        }
    };
    let text = format!(
        "{sync} in “{}” took {:.2} ms on the median, p99 {:.2} ms, {:.1} ms at most, {per_second:.0} a second{}{}",
        cell.figure.name,
        latency.p50 * 1e3,
        latency.p99 * 1e3,
        latency.maximum * 1e3,
        listed("enough", &met),
        listed("too slow", &missed)
    );
    let finding = if missed.is_empty() { Finding::note } else { Finding::slow };
    let remedy = match missed[..] {
        [] => "",
        _ => "a disk whose cache survives a loss of power, or one that nothing else writes to; ",
    };
    let sources = REQUIREMENTS.map(|required| required.source);
    vec![
        finding("durable-writes", text)
            .evidence(json!({
                "measurement": cell.figure.name, "p50_seconds": latency.p50, "p99_seconds": latency.p99,
                "maximum_seconds": latency.maximum, "syncs_per_second": per_second, "sources": sources,
                "too_slow_for": missed.iter().map(|required| required.program).collect::<Vec<_>>(),
            }))
            .remedy(format!("{remedy}these limits are from {}", sources.join(", "))),
    ]
}
