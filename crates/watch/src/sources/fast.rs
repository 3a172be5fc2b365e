//! What is read with every sample: some fifteen files of `/proc`, kept open.

use super::super::kept::{FileReading, Kept};
use linerate_facts::counters::{
    Counters, DiskCounters, Groups, Interrupts, NicCounters, PressureCounters, SoftnetCounters, Stat,
    parse_diskstats, parse_flat, parse_groups, parse_interrupts, parse_meminfo, parse_net_dev,
    parse_pressure, parse_softirqs, parse_softnet, parse_stat,
};
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

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

pub(crate) fn kernel(sysroot: &Sysroot) -> impl FnMut() -> KernelReading + Send + 'static {
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

pub(crate) fn network(sysroot: &Sysroot) -> impl FnMut() -> NetworkReading + Send + 'static {
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

pub(crate) fn disks(sysroot: &Sysroot) -> impl FnMut() -> FileReading<Vec<DiskCounters>> + Send + 'static {
    let mut file = Kept::new(sysroot, "/proc/diskstats");
    move || file.read(parse_diskstats)
}

/// With a thousand lines and a column for each of a hundred CPUs this is the dearest file of all.
pub(crate) fn interrupts(sysroot: &Sysroot) -> impl FnMut() -> FileReading<Interrupts> + Send + 'static {
    let mut file = Kept::new(sysroot, "/proc/interrupts");
    move || file.read(parse_interrupts)
}
