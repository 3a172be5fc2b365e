//! What a host has counted until one moment, and what it did between two: the one answer for everyone who asks.
//!
//! Of the CPUs alone a sample costs some tens of microseconds; devices and processes are read for those who name them.
//! All differences are taken here and count alike: a CPU that waits for a disk (iowait) is idle, one that the hypervisor
//! has given to others (steal) is busy, and the time of guests is part of `user`, where the kernel counts it. A counter
//! that went back has wrapped where that explains it; a device whose counters began again is left out.

use crate::counters::rates::{Elapsed, Width};
use crate::counters::{
    AgentProcess, DiskCounters, NicCounters, ProcessTable, ProcessesUse, net_dev, parse_diskstats,
    root_disciplines,
};
pub use crate::host_use::{DeviceUse, HostUse, LinkUse};
use crate::sysroot::Sysroot;
use crate::units::bytes_per_second;
use crate::usage::{CpuTimes, Throttle};
use linerate_system::clock;
use linerate_system::counters::process_cpu;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a packet costs on the wire beside what the interface counts: preamble, gap and checksum (IEEE 802.3).
pub const FRAME_BYTES: f64 = 24.0;

/// Takes samples of one host, by one clock.
#[derive(Clone, Debug)]
pub struct HostSampler {
    sysroot: Sysroot,
    zero: Instant,
    disks: Disks,
    interfaces: bool,
}

#[derive(Clone, Debug)]
enum Disks {
    None,
    Named(Vec<String>),
    /// All but partitions.
    Whole,
}

impl HostSampler {
    /// Of the CPUs and of this process alone.
    pub fn of_cpus(sysroot: &Sysroot) -> Self {
        HostSampler { sysroot: sysroot.clone(), zero: clock::now(), disks: Disks::None, interfaces: false }
    }

    /// Of these block devices as well; one that is not there is left out.
    pub fn and_disks(self, names: Vec<String>) -> Self {
        let disks = if names.is_empty() { Disks::None } else { Disks::Named(names) };
        HostSampler { disks, ..self }
    }

    /// Of all disks and interfaces as well.
    pub fn and_devices(self) -> Self {
        HostSampler { disks: Disks::Whole, interfaces: true, ..self }
    }

    /// The time of a sample counts from this moment.
    pub fn counting_from(self, zero: Instant) -> Self {
        HostSampler { zero, ..self }
    }

    /// Now; without the processes.
    pub fn sample(&self) -> HostSample {
        HostSample {
            interfaces: if self.interfaces { interfaces(&self.sysroot) } else { Vec::new() },
            disks: self.disks(),
            nanos: clock::nanos(clock::since(self.zero)),
            process_cpu_nanos: clock::nanos(process_cpu()),
            cpus: CpuTimes::read(&self.sysroot),
            throttle: Throttle::read(&self.sysroot),
            processes: None,
        }
    }

    /// The first sample of several, with the processes. They are read before the rest: what that costs is not within
    /// the time that follows.
    pub fn begin(&self) -> HostSample {
        let processes = Some(self.processes());
        HostSample { processes, ..self.sample() }
    }

    /// A sample after this one, with the processes where it is time to read them again. They are read after the rest.
    pub fn after(&self, earlier: &HostSample) -> HostSample {
        let mut now = self.sample();
        match &earlier.processes {
            Some(table) if !table.may_be_read_again() => now.processes = Some(Arc::clone(table)),
            _ => self.add_processes(&mut now),
        }
        now
    }

    /// Reads the processes now, whatever that costs, for the last of several samples.
    pub fn add_processes(&self, last: &mut HostSample) {
        last.processes = Some(self.processes());
    }

    fn processes(&self) -> Arc<ProcessTable> {
        Arc::new(ProcessTable::read(&self.sysroot, true))
    }

    fn disks(&self) -> Vec<DiskCounters> {
        let wanted: &dyn Fn(&str) -> bool = match &self.disks {
            Disks::None => return Vec::new(),
            Disks::Named(names) => &|name| names.iter().any(|wanted| wanted == name),
            Disks::Whole => &|name| self.sysroot.is_directory(format!("/sys/block/{name}")),
        };
        let text = self.sysroot.text("/proc/diskstats").unwrap_or_default();
        let mut disks = parse_diskstats(&text).unwrap_or_default();
        disks.retain(|disk| wanted(&disk.name));
        disks
    }
}

/// The counters of a host at one moment. Those that are not read cost nothing, and are in no difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSample {
    /// On the monotonic clock of its sampler, nanoseconds.
    pub nanos: u64,
    /// CPU time of all threads of the process since its start, user and system, nanoseconds.
    pub process_cpu_nanos: u64,
    /// Ticks by core.
    pub cpus: CpuTimes,
    /// CPU quota of the process's control group.
    pub throttle: Throttle,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskCounters>,
    /// No host sends another its interfaces and processes.
    #[serde(skip)]
    interfaces: Vec<InterfaceReading>,
    #[serde(skip)]
    processes: Option<Arc<ProcessTable>>,
}

impl HostSample {
    /// What the host did since an earlier sample.
    pub fn since(&self, earlier: &HostSample) -> HostUse {
        self.since_beside(earlier, &[])
    }

    /// The same where these agents serve the flow: those that run on this host are not other programs.
    pub fn since_beside(&self, earlier: &HostSample, agents: &[AgentProcess]) -> HostUse {
        let time = |now: u64, then: u64| Duration::from_nanos(now.saturating_sub(then)).as_secs_f64();
        let seconds = time(self.nanos, earlier.nanos);
        // Too short a time has no rates.
        let span = Elapsed::of_seconds(seconds);
        let processes = match (&self.processes, &earlier.processes) {
            (Some(now), Some(then)) if !Arc::ptr_eq(now, then) => now.since(then, std::process::id(), agents),
            _ => ProcessesUse::default(),
        };
        HostUse {
            seconds,
            cpu_seconds: time(self.process_cpu_nanos, earlier.process_cpu_nanos),
            cpus: self.cpus.since(&earlier.cpus),
            disks: span.map(|span| self.disks_since(earlier, span)).unwrap_or_default(),
            links: span.map(|span| self.links_since(earlier, span)).unwrap_or_default(),
            throttled: self.throttle.share_since(&earlier.throttle),
            quota_cores: self.throttle.quota_cores,
            processes,
        }
    }

    fn disks_since(&self, earlier: &HostSample, span: Elapsed) -> Vec<DeviceUse> {
        // A map: a peer may tell of as many disks as its message holds.
        let before: BTreeMap<&str, &DiskCounters> =
            earlier.disks.iter().map(|disk| (disk.name.as_str(), disk)).collect();
        let used = |now: &DiskCounters| DeviceUse::between(before.get(now.name.as_str())?, now, span);
        self.disks.iter().filter_map(used).collect()
    }

    fn links_since(&self, earlier: &HostSample, span: Elapsed) -> Vec<LinkUse> {
        // A host may have thousands of interfaces.
        let name = |one: &'_ InterfaceReading| one.counters.name.clone();
        let before: BTreeMap<String, &InterfaceReading> =
            earlier.interfaces.iter().map(|then| (name(then), then)).collect();
        let used = |now: &InterfaceReading| now.since(before.get(&now.counters.name)?, span);
        self.interfaces.iter().filter_map(used).flatten().collect()
    }
}

/// An interface at one moment.
#[derive(Clone, Debug, PartialEq)]
struct InterfaceReading {
    counters: NicCounters,
    /// The link's rate; 0: it has none.
    bits_per_second: u64,
    /// The kind of its outermost queueing discipline, and how often that held packets back.
    shaper: Option<(String, u64)>,
}

impl InterfaceReading {
    /// Both directions; none where its counters began again: it is another interface of this name.
    fn since(&self, earlier: &InterfaceReading, span: Elapsed) -> Option<[LinkUse; 2]> {
        let rate = |count: fn(&NicCounters) -> u64| {
            let counted = span.counted(count(&earlier.counters), count(&self.counters), Width::Bits64)?;
            Some(counted as f64 / span.seconds())
        };
        let link = |sends, bytes: f64, packets: f64| LinkUse {
            name: self.counters.name.clone(),
            sends,
            bytes_per_second: bytes,
            utilisation: match self.bits_per_second {
                0 => 0.0,
                bits => (bytes + FRAME_BYTES * packets) / bytes_per_second(bits),
            },
            bits_per_second: self.bits_per_second as f64,
            shaper: self.held_since(earlier, span).filter(|_| sends),
        };
        Some([
            link(true, rate(|nic| nic.tx_bytes)?, rate(|nic| nic.tx_packets)?),
            link(false, rate(|nic| nic.rx_bytes)?, rate(|nic| nic.rx_packets)?),
        ])
    }

    /// How often a second its discipline held packets back; none where it did not, or is another one. The kernel keeps
    /// that count in 32 bits (`gnet_stats_queue`).
    fn held_since(&self, earlier: &InterfaceReading, span: Elapsed) -> Option<(String, f64)> {
        let ((kind, now), (kind_before, before)) = (self.shaper.as_ref()?, earlier.shaper.as_ref()?);
        let held_back = span.counted(*before, *now, Width::Bits32).filter(|_| kind == kind_before)?;
        (held_back > 0).then(|| (kind.clone(), held_back as f64 / span.seconds()))
    }
}

fn interfaces(sysroot: &Sysroot) -> Vec<InterfaceReading> {
    let nics = net_dev(sysroot).known().cloned().unwrap_or_default();
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    let mut roots = if names.is_empty() { BTreeMap::new() } else { root_disciplines(sysroot, &names) };
    let reading = |counters: NicCounters| {
        // Megabits; -1 or nothing where the interface has none.
        let megabits = sysroot.parse::<i64>(format!("/sys/class/net/{}/speed", counters.name));
        let megabits = megabits.known().and_then(|rate| u64::try_from(*rate).ok()).unwrap_or(0);
        let root = roots.remove(&counters.name);
        InterfaceReading {
            bits_per_second: megabits.saturating_mul(1_000_000),
            shaper: root.and_then(|root| Some((root.kind, *root.overlimits.known()?))),
            counters,
        }
    };
    nics.into_iter().map(reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    const HEAD: &str = "Inter-|   Receive  |  Transmit\n face |bytes packets\n";
    const SECOND: u64 = 1_000_000_000;

    /// Two samples of a recorded host, two seconds apart by their clock.
    fn two_seconds(sampler: impl Fn(&Sysroot) -> HostSampler, files: [&[(&str, &str)]; 2]) -> HostUse {
        let mut tree = Tree::new(files[0]);
        let sampler = sampler(&Sysroot::recorded(tree.path()));
        let before = HostSample { nanos: SECOND, ..sampler.sample() };
        files[1].iter().for_each(|(path, text)| tree.put(path, text));
        HostSample { nanos: 3 * SECOND, ..sampler.sample() }.since(&before)
    }

    fn disks_of(names: &[&str], texts: [&str; 2]) -> Vec<DeviceUse> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let files = texts.map(|text| [("proc/diskstats", text)]);
        let sampler = |sysroot: &Sysroot| HostSampler::of_cpus(sysroot).and_disks(names.clone());
        two_seconds(sampler, [&files[0], &files[1]]).disks
    }

    #[test]
    fn two_readings_of_a_disk_make_rates() {
        let first = "   7       0 loop0 100 0 2000 50 10 0 80 5 0 1000 2000 0 0 0 0\n   7 1 loop1 1 1 1 1 1 \
                     1 1 1 1 1 1\n";
        let second = "   7       0 loop0 300 0 6000 50 20 0 180 5 3 1500 6000 0 0 0 0\n";
        let [used] = &disks_of(&["loop0", "gone"], [first, second])[..] else {
            panic!("one device is there")
        };
        assert_eq!(used.name, "loop0");
        assert!((used.utilisation - 0.25).abs() < 1e-9 && (used.queue_depth - 2.0).abs() < 1e-9);
        assert!((used.read_bytes_per_second - 2000.0 * 512.0).abs() < 1e-6);
        assert!((used.written_bytes_per_second - 50.0 * 512.0).abs() < 1e-6);
        assert!((used.operations_per_second - 105.0).abs() < 1e-9);
    }

    /// Milliseconds are 32 bits wide in the kernel; a disk under the name of another counts from 0.
    #[test]
    fn wrapped_milliseconds_count_and_a_new_disk_is_left_out() {
        let first = "8 0 sda 1 0 8 1 0 0 0 0 0 4294967000 4294966296\n8 16 sdb 9000 0 8 1 0 0 0 0 0 7 7\n";
        let second = "8 0 sda 2 0 16 1 0 0 0 0 0 704 1000\n8 16 sdb 1 0 8 1 0 0 0 0 0 1 1\n";
        let [used] = &disks_of(&["sda", "sdb"], [first, second])[..] else { panic!("sda alone") };
        assert!((used.utilisation - 0.5).abs() < 1e-9 && (used.queue_depth - 1.0).abs() < 1e-9, "{used:?}");
    }

    /// A veth that was made again under its name began at 0: before, it was taken for one that moved nothing.
    #[test]
    fn both_directions_of_an_interface_and_none_of_one_that_began_again() {
        let nics = |eth0: &str, veth: &str| format!("{HEAD}  eth0: {eth0}\n  veth: {veth}\n");
        let first = nics("1000 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0", "5000 5 0 0 0 0 0 0 5000 5 0 0 0 0 0 0");
        let second =
            nics("1000 10 0 0 0 0 0 0 2000000 1000 0 0 0 0 0 0", "70 1 0 0 0 0 0 0 70 1 0 0 0 0 0 0");
        let speed = ("sys/class/net/eth0/speed", "100");
        let none = ("sys/class/net/veth/speed", "-1");
        let used = two_seconds(
            |sysroot| HostSampler::of_cpus(sysroot).and_devices(),
            [&[("proc/net/dev", first.as_str()), speed, none], &[("proc/net/dev", second.as_str())]],
        );
        let [out, back] = &used.links[..] else { panic!("eth0 alone: {:?}", used.links) };
        assert!(out.sends && !back.sends && out.name == "eth0" && back.bytes_per_second == 0.0);
        assert_eq!((out.bytes_per_second, out.bits_per_second), (1e6, 1e8));
        // 12.5 MB/s; 500 frames a second cost 24 bytes more each.
        assert!((out.utilisation - 1.012e6 / 12.5e6).abs() < 1e-9, "{out:?}");
    }

    #[test]
    fn a_shaper_s_count_wraps_at_32_bits_and_another_discipline_has_none() {
        let reading = |kind: &str, held| InterfaceReading {
            counters: NicCounters::default(),
            bits_per_second: 0,
            shaper: Some((kind.into(), held)),
        };
        let span = Elapsed::of_seconds(2.0).expect("a span");
        let held = |before, now: InterfaceReading| now.held_since(&before, span);
        let most = u64::from(u32::MAX);
        assert_eq!(held(reading("tbf", most - 9), reading("tbf", 10)), Some(("tbf".into(), 10.0)));
        assert_eq!(held(reading("tbf", 5), reading("tbf", 5)), None, "it held nothing");
        assert_eq!(held(reading("tbf", 5), reading("fq", 500)), None);
    }

    #[test]
    fn a_cpu_that_waits_for_a_disk_is_idle_and_one_that_was_stolen_is_busy() {
        // Ticks of a guest (the ninth number) are in `user` already.
        let stat = |ticks: &str| format!("cpu0 {ticks}\n");
        let texts = ["0 0 0 0 0 0 0 0 0 0", "20 0 0 30 40 0 0 10 20 0"].map(stat);
        let files = texts.each_ref().map(|text| [("proc/stat", text.as_str())]);
        let used = two_seconds(HostSampler::of_cpus, [&files[0], &files[1]]);
        assert!((used.busy_cpus() - 0.3).abs() < 1e-9 && (used.cpus[0].steal - 0.1).abs() < 1e-9, "{used:?}");
    }

    #[test]
    fn what_is_not_named_is_not_read() {
        let tree = Tree::new(&[("proc/stat", "cpu0 1 1 1 1 1 1 1 1"), ("proc/diskstats", "x")]);
        let (sysroot, recording) = Sysroot::recorded(tree.path()).record();
        HostSampler::of_cpus(&sysroot).sample();
        let read = format!("{:?}", recording.entries().keys());
        assert!(read.contains("proc/stat") && !read.contains("diskstats"), "{read}");
    }

    #[test]
    fn the_processes_are_read_no_more_often_than_they_may_cost() {
        let sampler = HostSampler::of_cpus(&Sysroot::live());
        let first = sampler.begin();
        let second = sampler.after(&first);
        let nothing = second.since(&first).processes;
        assert_eq!(nothing.seconds, 0.0, "a table that was just read is read no second time");
        std::thread::sleep(Duration::from_millis(20));
        let mut last = sampler.sample();
        sampler.add_processes(&mut last);
        let used = last.since(&first);
        assert!(used.processes.seconds >= 0.02 && used.seconds >= 0.02, "{used:?}");
    }

    #[test]
    fn a_sample_of_another_host_is_a_message() {
        let disk = DiskCounters { name: "vda".into(), ..DiskCounters::default() };
        let sampler = HostSampler::of_cpus(&Sysroot::live());
        let sample = HostSample { disks: vec![disk], ..sampler.sample() };
        let json = serde_json::to_string(&sample).expect("JSON");
        assert_eq!(serde_json::from_str::<HostSample>(&json).expect("a sample"), sample);
        let boast = HostSample { nanos: u64::MAX, process_cpu_nanos: u64::MAX, ..HostSample::default() };
        assert!(boast.since(&sample).cpu_seconds.is_finite());
    }
}
