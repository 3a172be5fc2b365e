//! What is read of the machine, in groups that are asked together; each group has a thread of its own
//! (`pace`).
//!
//! With every sample some fifteen files of `/proc` are read, kept open: each from its beginning, into the same memory. A
//! meter of power on a slow bus takes milliseconds, some management controllers take a second; a card may take a
//! millisecond to tell what its driver counts, and some ask their firmware.

mod details;
mod processes;

pub(super) use details::details;
pub use details::{Details, DiskDetails, LinkNow};
use linerate_facts::counters::meters::{Meter, MeterError, energy_counters, power_sensors};
use linerate_facts::counters::{
    Counters, DiskCounters, Groups, InterfaceCounters, Interrupts, NicCounters, PressureCounters,
    SoftnetCounters, Stat, interfaces, parse_diskstats, parse_flat, parse_groups, parse_interrupts,
    parse_meminfo, parse_net_dev, parse_pressure, parse_softirqs, parse_softnet, parse_stat,
};
use linerate_facts::sysroot::{PieceReader, Sysroot, Unreadable};
use linerate_system::clock;
pub(super) use processes::{FIRST_READINGS, processes};
use std::path::Path;
use std::time::Instant;

/// What `/proc/pressure` has files of.
pub(crate) const RESOURCES: [&str; 4] = ["cpu", "io", "memory", "irq"];
const PRESSURE: [&str; 4] =
    ["/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory", "/proc/pressure/irq"];

/// Machines get meters while they run (a driver is loaded): looked for again after so many readings.
const LOOK_AGAIN: u32 = 60;

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

/// A value and when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedValue<T> {
    pub at: Instant,
    pub value: T,
}

/// Why a file has no value, as a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("{0}: not in the kernel's form")]
    Form(&'static str),
}

/// What a file said.
pub(crate) type FileReading<T> = Result<TimedValue<T>, FileError>;

/// One file.
#[derive(Debug)]
pub(crate) struct Kept {
    sysroot: Sysroot,
    path: &'static str,
    opened: Option<PieceReader>,
    buffer: Vec<u8>,
}

impl Kept {
    /// It is opened when it is first read.
    pub(crate) fn new(sysroot: &Sysroot, path: &'static str) -> Self {
        Kept { sysroot: sysroot.clone(), path, opened: None, buffer: Vec::new() }
    }

    /// Its text now, made into a value. A file that fails is opened again the next time.
    pub(crate) fn read<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> FileReading<T> {
        if self.opened.is_none() {
            self.opened = Some(self.sysroot.open(self.path)?);
        }
        let before = clock::now();
        let read = self.opened.as_ref().map_or(Ok(()), |opened| opened.read_whole(&mut self.buffer));
        if let Err(reason) = read {
            self.opened = None;
            return Err(Unreadable { path: self.path.into(), reason }.into());
        }
        // The middle: a reading that was held up in between is off by half of that at most.
        let at = before + clock::since(before) / 2;
        let value = parse(&String::from_utf8_lossy(&self.buffer));
        value.map(|value| TimedValue { at, value }).ok_or(FileError::Form(self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::sysroot::UnreadReason;

    #[test]
    fn a_file_that_changes_and_one_that_is_not_there() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let place = root.path().join("proc/stat");
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
        let sysroot = Sysroot::recorded(root.path());
        let mut kept = Kept::new(&sysroot, "/proc/stat");
        let mut length =
            || kept.read(|text| (!text.is_empty()).then_some(text.len())).map(|timed| timed.value);
        assert!(matches!(length(), Err(FileError::Unreadable(why)) if why.reason == UnreadReason::Absent));
        for text in ["a".repeat(10_000), "b".into(), "c".repeat(4096)] {
            std::fs::write(&place, &text).expect("a file");
            assert_eq!(length(), Ok(text.len()));
        }
        std::fs::write(&place, "").expect("a file");
        assert_eq!(length(), Err(FileError::Form("/proc/stat")));
    }
}
