//! What is read of the machine, in groups that are asked together; each group has a thread of its own
//! (`pace`).
//!
//! With every sample some fifteen files of `/proc` are read, kept open. A meter of power on a slow bus takes
//! milliseconds, some management controllers take a second; a card may take a millisecond to tell what its
//! driver counts, and some ask their firmware.

mod details;
mod processes;

pub(super) use details::details;
pub use details::{Details, DiskDetails, LinkNow};
pub(super) use processes::{FIRST_READINGS, processes};

use super::kept::{FileReading, Kept};
use linerate_facts::counters::meters::{Meter, MeterError, energy_counters, power_sensors};
use linerate_facts::counters::{
    Counters, DiskCounters, Groups, InterfaceCounters, Interrupts, NicCounters, PressureCounters,
    SoftnetCounters, Stat, interfaces, parse_diskstats, parse_flat, parse_groups, parse_interrupts,
    parse_meminfo, parse_net_dev, parse_pressure, parse_softirqs, parse_softnet, parse_stat,
};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::path::Path;
use std::time::Instant;

/// What `/proc/pressure` has files of.
pub(crate) const RESOURCES: [&str; 4] = ["cpu", "io", "memory", "irq"];
const PRESSURE: [&str; 4] =
    ["/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory", "/proc/pressure/irq"];

/// Processors, memory, pressure.
#[derive(Clone, Debug)]
pub struct KernelReading {
    pub stat: FileReading<Stat>,
    pub softirqs: FileReading<Interrupts>,
    pub memory: FileReading<Vec<(String, u64)>>,
    /// In the order of [`RESOURCES`].
    pub pressure: Vec<FileReading<PressureCounters>>,
}

/// The network, as far as `/proc` shows it.
#[derive(Clone, Debug)]
pub struct NetworkReading {
    pub nics: FileReading<Vec<NicCounters>>,
    pub softnet: FileReading<Vec<SoftnetCounters>>,
    pub snmp: FileReading<Groups>,
    pub netstat: FileReading<Groups>,
    pub snmp6: FileReading<Counters>,
}

pub(super) fn kernel(sysroot: &Sysroot) -> impl FnMut() -> KernelReading + Send + 'static {
    let [mut stat, mut softirqs, mut memory] =
        ["/proc/stat", "/proc/softirqs", "/proc/meminfo"].map(|path| Kept::new(sysroot, path));
    let mut pressure = PRESSURE.map(|path| Kept::new(sysroot, path));
    move || KernelReading {
        stat: stat.read(parse_stat),
        softirqs: softirqs.read(parse_softirqs),
        memory: memory.read(parse_meminfo),
        pressure: pressure.iter_mut().map(|file| file.read(parse_pressure)).collect(),
    }
}

pub(super) fn network(sysroot: &Sysroot) -> impl FnMut() -> NetworkReading + Send + 'static {
    let [mut nics, mut softnet, mut snmp, mut netstat, mut snmp6] =
        ["/proc/net/dev", "/proc/net/softnet_stat", "/proc/net/snmp", "/proc/net/netstat", "/proc/net/snmp6"]
            .map(|path| Kept::new(sysroot, path));
    let sysroot = sysroot.clone();
    move || {
        let mut read = NetworkReading {
            nics: nics.read(parse_net_dev),
            softnet: softnet.read(parse_softnet),
            snmp: snmp.read(parse_groups),
            netstat: netstat.read(parse_groups),
            snmp6: snmp6.read(parse_flat),
        };
        for nic in read.nics.iter_mut().flat_map(|nics| &mut nics.value) {
            let place = Path::new("/sys/class/net").join(&nic.name).join("ifindex");
            nic.index = sysroot.parse(place).known().copied().unwrap_or(0);
        }
        read
    }
}

pub(super) fn disks(sysroot: &Sysroot) -> impl FnMut() -> FileReading<Vec<DiskCounters>> + Send + 'static {
    let mut file = Kept::new(sysroot, "/proc/diskstats");
    move || file.read(parse_diskstats)
}

/// With a thousand lines and a column for each of a hundred CPUs this is the dearest file of all.
pub(super) fn interrupts(sysroot: &Sysroot) -> impl FnMut() -> FileReading<Interrupts> + Send + 'static {
    let mut file = Kept::new(sysroot, "/proc/interrupts");
    move || file.read(parse_interrupts)
}

/// Machines get meters while they run (a driver is loaded): looked for again after so many readings.
const LOOK_AGAIN: u32 = 60;

/// One meter's.
#[derive(Clone, Debug, PartialEq)]
pub struct MeterReading {
    pub meter: Meter,
    pub at: Instant,
    /// Microjoules or microwatts.
    pub read: Result<u64, MeterError>,
}

/// All meters of one kind.
pub(crate) type MetersReading = Vec<MeterReading>;

pub(super) fn rapl(sysroot: &Sysroot) -> impl FnMut() -> MetersReading + Send + 'static {
    all(sysroot, energy_counters)
}

pub(super) fn hwmon(sysroot: &Sysroot) -> impl FnMut() -> MetersReading + Send + 'static {
    all(sysroot, power_sensors)
}

fn all(
    sysroot: &Sysroot,
    find: fn(&Sysroot) -> Vec<Meter>,
) -> impl FnMut() -> MetersReading + Send + 'static {
    let sysroot = sysroot.clone();
    let (mut found, mut left): (Vec<Meter>, u32) = (Vec::new(), 0);
    move || {
        if left == 0 {
            (found, left) = (find(&sysroot), LOOK_AGAIN);
        }
        left -= 1;
        let one = |meter: &Meter| {
            let read = meter.read(&sysroot);
            MeterReading { meter: meter.clone(), at: clock::now(), read }
        };
        found.iter().map(one).collect()
    }
}

/// All interfaces at one time.
#[derive(Clone, Debug)]
pub struct DriverReading {
    pub at: Instant,
    pub interfaces: Vec<InterfaceCounters>,
}

pub(super) fn drivers(sysroot: &Sysroot, names: &[String]) -> impl FnMut() -> DriverReading + Send + 'static {
    let (sysroot, names) = (sysroot.clone(), names.to_vec());
    move || {
        let before = clock::now();
        let interfaces = interfaces(&sysroot, &names);
        DriverReading { at: before + clock::since(before) / 2, interfaces }
    }
}
