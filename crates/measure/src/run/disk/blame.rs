//! Who is to blame where more sources bring no more: the judge's answer where linerate itself is at its limit,
//! else what the sources share by the machine's tree, down from the file system to the PCIe link.

use crate::measure::access::AccessResult;
use crate::measure::{LimitedBy, Measurement};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_bytes_rate;
use linerate_facts::usage::CoreUse;
use linerate_machine::probe::source::{devices_behind, devices_below};
use linerate_machine::probe::{DiskKind, Machine};
use linerate_machine::rates::pcie::PayloadDirection;
use linerate_machine::topology::{Shared, Topology};
use linerate_model::verdict::judge;
use linerate_model::verdict::thresholds::{CPU_OF_FLOW, OWN_CPU_FULL};
use std::path::PathBuf;

/// What carries this many times what was reached is not what limits it …
const CARRIES_MORE: f64 = 1.25;
/// … and a rate below this share of it is not the rate of what carried it.
const CARRIED: f64 = 0.95;

/// What is behind one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SourceStack {
    /// Block devices from the file system down, through the files of loop devices.
    devices: Vec<String>,
    /// Its disks, as they are measured.
    leaves: Vec<String>,
    /// Where no block device is seen: the file system.
    file_system: Option<String>,
}

impl SourceStack {
    /// All that is known of each source.
    pub(super) fn of_each(sysroot: &Sysroot, machine: &Machine, sources: &[PathBuf]) -> Vec<SourceStack> {
        let one = |path: &PathBuf| {
            let behind = devices_behind(sysroot, machine, path);
            let behind = behind.known();
            let mounted = behind.and_then(|behind| behind.file_system.as_ref());
            SourceStack {
                devices: devices_below(sysroot, machine, path),
                leaves: behind.map(|behind| behind.leaves.clone()).unwrap_or_default(),
                file_system: mounted.map(|fs| format!("{} at {}", fs.kind, fs.mount_point.display())),
            }
        };
        sources.iter().map(one).collect()
    }
}

/// What limits all of these sources, by what was seen with them.
pub(super) fn blamed(machine: &Machine, stacks: &[SourceStack], all: &Measurement) -> String {
    let Some(access) = all.access.as_deref() else { return "what limits them is unknown".into() };
    if let Some(own) = own_limit(all, access) {
        return own;
    }
    let way = shared_way(machine, stacks, all.bytes_per_second, access);
    match (common_device(machine, stacks), way) {
        (Some(device), SharedWay::Full(way)) => {
            format!("{device}, which all of them lie on, and {way}, which its disks share")
        }
        (Some(device), _) => format!("{device}, which all of them lie on"),
        (None, SharedWay::Full(way) | SharedWay::Unrated(way)) => format!("{way}, which all of them share"),
        (None, way) => match most_common_device(machine, stacks) {
            Some((device, count)) => format!("{device}, which {count} of the {} lie on", stacks.len()),
            None => any_limit(all).unwrap_or_else(|| nothing_shared(access, &way)),
        },
    }
}

/// linerate itself is at a limit. CPUs that others fill are none of its own.
fn own_limit(all: &Measurement, access: &AccessResult) -> Option<String> {
    if all.held_by == Some(LimitedBy::Demand) {
        return Some("--rate-limit asked for no more".into());
    }
    let share = access.checks.generator_cpu;
    let cpus = &all.cpu_by_core;
    let busy = cpus.iter().map(CoreUse::busy).sum::<f64>() / cpus.len().max(1) as f64;
    if share >= CPU_OF_FLOW * busy || all.held_by != Some(LimitedBy::Cpu) {
        let limit = any_limit(all);
        if limit.is_some() {
            return limit;
        }
    }
    let full = share >= OWN_CPU_FULL;
    full.then(|| format!("the CPU: linerate itself used {:.0} % of the CPUs that it may use", share * 100.0))
}

/// What the judge says of linerate and the CPUs, whoever fills these.
fn any_limit(all: &Measurement) -> Option<String> {
    all.held_by?;
    judge(&all.evidence()).limits.first().map(ToString::to_string)
}

/// The nearest volume or disk below all of them; a partition has no limit of its own.
fn common_device(machine: &Machine, stacks: &[SourceStack]) -> Option<String> {
    let (first, rest) = stacks.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let of_all = |name: &&String| rest.iter().all(|stack| stack.devices.contains(name));
    if let Some(device) = first.devices.iter().filter(of_all).find_map(|name| device(machine, name)) {
        return Some(device);
    }
    let mount = first.file_system.as_ref().filter(|_| first.devices.is_empty())?;
    let same = rest.iter().all(|stack| stack.devices.is_empty() && stack.file_system.as_ref() == Some(mount));
    same.then(|| format!("the file system {mount}"))
}

/// What more than one of them lie on, and how many.
fn most_common_device(machine: &Machine, stacks: &[SourceStack]) -> Option<(String, usize)> {
    let names = stacks.iter().flat_map(|stack| &stack.devices);
    let counted = names.filter_map(|name| {
        let count = stacks.iter().filter(|stack| stack.devices.contains(name)).count();
        Some((device(machine, name)?, count)).filter(|_| count > 1)
    });
    counted.reduce(|most, one| if one.1 > most.1 { one } else { most })
}

fn device(machine: &Machine, name: &str) -> Option<String> {
    match machine.disk(name).map(|disk| disk.kind) {
        Some(DiskKind::Partition) => None,
        Some(DiskKind::Md | DiskKind::Dm) => Some(format!("the volume {name}")),
        _ => Some(format!("the disk {name}")),
    }
}

/// What the sources' disks hang on.
#[derive(Debug, PartialEq)]
enum SharedWay {
    /// It carries what was reached.
    Full(String),
    /// Nothing shows what it carries.
    Unrated(String),
    /// It carries more than was reached.
    CarriesMore(String),
    Nothing,
}

/// Of ports, controllers and links the one that is full; else the nearest of which it is not known what it
/// carries.
fn shared_way(machine: &Machine, stacks: &[SourceStack], reached: f64, access: &AccessResult) -> SharedWay {
    let mut disks: Vec<&str> = stacks.iter().flat_map(|stack| &stack.leaves).map(String::as_str).collect();
    disks.sort_unstable();
    disks.dedup();
    let direction =
        if access.job.reads() { PayloadDirection::ToMemory } else { PayloadDirection::FromMemory };
    let tree = Topology::new(machine);
    // What was reached is carried: a lower rate is not that of the link.
    let rate = |shared: &Shared| tree.rate_of(shared, direction).filter(|rate| *rate >= reached * CARRIED);
    let shared = tree.all_shared_by(&disks, &[]);
    let rated: Vec<(&Shared, Option<f64>)> = shared.iter().map(|shared| (shared, rate(shared))).collect();
    let named = |(shared, rate): &(&Shared, Option<f64>)| match rate {
        Some(rate) => format!("{shared} ({})", show_bytes_rate(*rate)),
        None => shared.to_string(),
    };
    let full = |(_, rate): &&(&Shared, Option<f64>)| rate.is_some_and(|rate| rate <= reached * CARRIES_MORE);
    if let Some(full) = rated.iter().find(full) {
        return SharedWay::Full(named(full));
    }
    if let Some(unrated) = rated.iter().find(|(_, rate)| rate.is_none()) {
        return SharedWay::Unrated(named(unrated));
    }
    rated.first().map_or(SharedWay::Nothing, |nearest| SharedWay::CarriesMore(named(nearest)))
}

/// What was looked at in vain, and what is known besides.
fn nothing_shared(access: &AccessResult, way: &SharedWay) -> String {
    let shared = match way {
        SharedWay::CarriesMore(way) => format!("they share {way}, which carries more"),
        _ => "no volume, disk, port, controller or PCIe link is known that they share".into(),
    };
    let used = access.devices.iter().map(|device| device.utilisation * 100.0);
    let devices = match (used.clone().reduce(f64::min), used.reduce(f64::max)) {
        (Some(least), Some(most)) => format!("their disks were in use {least:.0} to {most:.0} % of the time"),
        _ => "no disk is seen behind them".into(),
    };
    let cpu = access.checks.generator_cpu * 100.0;
    format!("unknown: {shared}; {devices}, and linerate used {cpu:.0} % of the CPUs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Stage;
    use crate::measure::access::{DeviceUse, FileLayout, test_job};
    use linerate_facts::fact::Fact;
    use linerate_machine::probe::{Controller, ControllerKind, ControllerPort, Disk};

    fn machine() -> Machine {
        let disk = |name: &str, kind| Disk { name: name.into(), kind, ..Disk::default() };
        let members =
            |name: &str, of: &str| Disk { members: vec![of.to_string()], ..disk(name, DiskKind::Partition) };
        let port = ControllerPort {
            name: "port-0:0".into(),
            link_bits_per_second: Fact::Known(12_000_000_000),
            disks: vec!["sda".into(), "sdb".into()],
            ..ControllerPort::default()
        };
        let host = Controller {
            name: "host0".into(),
            kind: ControllerKind::Sas,
            ports: vec![port],
            disks: vec!["sda".into(), "sdb".into()],
            ..Controller::default()
        };
        Machine {
            disks: vec![
                disk("sda", DiskKind::Scsi),
                members("sda1", "sda"),
                disk("sdb", DiskKind::Scsi),
                disk("vdc", DiskKind::Virtio),
                disk("md0", DiskKind::Md),
            ],
            controllers: vec![host],
            ..Machine::default()
        }
    }

    fn stack(devices: &[&str], leaves: &[&str]) -> SourceStack {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        SourceStack { devices: strings(devices), leaves: strings(leaves), file_system: None }
    }

    fn reached(rate: f64) -> Measurement {
        let mut access = AccessResult::of(test_job(2, 2, FileLayout::FilePerWorker));
        access.checks.generator_cpu = 0.31;
        let used =
            |name: &str, utilisation| DeviceUse { name: name.into(), utilisation, ..DeviceUse::default() };
        access.devices = vec![used("a", 0.62), used("b", 0.98)];
        let access = Some(Box::new(access));
        Measurement { stage: Stage::Disk, bytes_per_second: rate, access, ..Measurement::default() }
    }

    fn blame(stacks: &[SourceStack], rate: f64) -> String {
        blamed(&machine(), stacks, &reached(rate))
    }

    #[test]
    fn two_sources_on_one_device_are_its_limit_and_a_partition_has_none() {
        let stacks = [stack(&["sda1", "sda"], &["sda"]), stack(&["sda1", "sda"], &["sda"])];
        assert_eq!(blame(&stacks, 3e9), "the disk sda, which all of them lie on");
        let volume =
            [stack(&["md0", "sda", "sdb"], &["sda", "sdb"]), stack(&["md0", "sda", "sdb"], &["sda", "sdb"])];
        assert_eq!(blame(&volume, 0.5e9), "the volume md0, which all of them lie on");
        let full = "the volume md0, which all of them lie on, and the SAS port port-0:0 (1.20 GB/s), which its \
                    disks share";
        assert_eq!(blame(&volume, 1.15e9), full);
        let some = [stack(&["sda"], &["sda"]), stack(&["sda"], &["sda"]), stack(&["vdc"], &["vdc"])];
        assert_eq!(blame(&some, 1e9), "the disk sda, which 2 of the 3 lie on");
    }

    #[test]
    fn a_port_is_blamed_only_where_it_is_full() {
        let stacks = [stack(&["sda"], &["sda"]), stack(&["sdb"], &["sdb"])];
        assert_eq!(blame(&stacks, 1.1e9), "the SAS port port-0:0 (1.20 GB/s), which all of them share");
        // The controller's own rate is not known, the port's leaves room.
        assert_eq!(blame(&stacks, 0.2e9), "the controller host0, which all of them share");
    }

    #[test]
    fn what_is_not_known_is_what_was_looked_at() {
        let stacks = [stack(&["sda"], &["sda"]), stack(&["vdc"], &["vdc"])];
        assert_eq!(
            blame(&stacks, 1e9),
            "unknown: no volume, disk, port, controller or PCIe link is known that they share; their disks were \
             in use 62 to 98 % of the time, and linerate used 31 % of the CPUs"
        );
        let mut nfs = [SourceStack::default(), SourceStack::default()];
        nfs.iter_mut().for_each(|stack| stack.file_system = Some("nfs4 at /net".into()));
        assert_eq!(blame(&nfs, 1e9), "the file system nfs4 at /net, which all of them lie on");
    }

    #[test]
    fn linerate_at_its_own_limit_is_blamed_before_any_device() {
        let stacks = [stack(&["sda"], &["sda"]), stack(&["sda"], &["sda"])];
        let mut all = reached(1e9);
        all.access.as_mut().expect("access").checks.generator_cpu = 0.97;
        let why = blamed(&machine(), &stacks, &all);
        assert_eq!(why, "the CPU: linerate itself used 97 % of the CPUs that it may use");
        all.held_by = Some(LimitedBy::Demand);
        assert_eq!(blamed(&machine(), &stacks, &all), "--rate-limit asked for no more");
    }

    #[test]
    fn cpus_that_others_fill_are_blamed_only_where_nothing_is_shared() {
        let mut all = reached(1e9);
        all.access.as_mut().expect("access").checks.generator_cpu = 0.01;
        all.cpu_by_core = vec![CoreUse { core: 0, user: 1.0, ..CoreUse::default() }];
        all.held_by = Some(LimitedBy::Cpu);
        let shared = [stack(&["sda"], &["sda"]), stack(&["sda"], &["sda"])];
        assert_eq!(blamed(&machine(), &shared, &all), "the disk sda, which all of them lie on");
        let apart = [stack(&["sda"], &["sda"]), stack(&["vdc"], &["vdc"])];
        let why = blamed(&machine(), &apart, &all);
        assert!(why.starts_with("CPU 0 is 100 % busy"), "{why}");
        all.access.as_mut().expect("access").checks.generator_cpu = 0.6;
        let why = blamed(&machine(), &shared, &all);
        assert!(why.starts_with("CPU 0 is 100 % busy"), "{why}");
    }
}
