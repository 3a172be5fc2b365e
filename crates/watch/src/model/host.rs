//! The host: CPUs and interrupts, memory, pressure and PCIe links, disks by `/proc/diskstats`, power and
//! energy.
//!
//! Of its processes: which program moves the bytes and uses the CPUs, storage by `/proc/PID/io`, TCP by the
//! sockets that a process holds, CPU time by `/proc/PID/stat`.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpus {
    /// Mean over all cores; none in the first moment.
    pub total: Option<Eight>,
    /// By CPU.
    pub each: Vec<Core>,
    /// Of all kinds.
    pub interrupts_per_second: Option<f64>,
    pub context_switches_per_second: Option<f64>,
    /// Counter.
    pub interrupts: u64,
    /// Counter.
    pub context_switches: u64,
    /// Threads that run or could, now.
    pub running: u64,
    /// Threads that wait for a disk, now.
    pub blocked: u64,
    /// Share of the periods in which this control group's CPU quota held it; none without a quota.
    pub throttled_share: Option<f64>,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Core {
    pub number: u32,
    /// NUMA node.
    pub node: Option<u32>,
    /// Shares of the interval; none in the first moment.
    pub eight: Option<Eight>,
    /// Counters, seconds in each class since boot.
    pub seconds: Eight,
    /// Device interrupts handled here.
    pub interrupts_per_second: Option<f64>,
    /// Softirqs per second by kind (`NET_RX`, `NET_TX`, `BLOCK`, `TIMER`, …); those of 0 are left out.
    pub softirqs: BTreeMap<String, f64>,
}

/// Where the time went: shares that add up to 1, or seconds. `user` has the time of guests in it, as the
/// kernel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eight {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub idle: f64,
    pub iowait: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
}

impl Eight {
    /// Share in which something was done, or another guest had the core.
    pub fn busy(&self) -> f64 {
        (1.0 - self.idle - self.iowait).clamp(0.0, 1.0)
    }
}

/// One line of `/proc/interrupts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IrqLine {
    /// `45`, `NMI`.
    pub number: String,
    /// What its driver calls it (`mlx5_comp3@pci:0000:17:00.0`, `nvme0q5`).
    pub name: String,
    pub per_second: Option<f64>,
    /// Cores that got some, busiest first: core and per second.
    pub by_core: Vec<(u32, f64)>,
    /// The NIC or disk that it is of, where its name shows that.
    pub device: Option<String>,
    /// Counter, over all cores.
    pub total: u64,
}

/// Memory, bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryUse {
    pub total: u64,
    pub free: u64,
    /// What programs could still get without swapping.
    pub available: u64,
    /// Page cache.
    pub cached: u64,
    pub buffers: u64,
    /// Waits to be written to disks.
    pub dirty: u64,
    /// Is being written to disks.
    pub writeback: u64,
    pub shared: u64,
    /// The kernel's own.
    pub slab: u64,
    pub swap_total: u64,
    pub swap_free: u64,
    /// Locked into memory (`mlock`, pinned buffers).
    pub locked: u64,
    /// Set aside as huge pages.
    pub huge_total: u64,
    /// Set aside and not in use.
    pub huge_free: u64,
    /// Huge pages that the kernel made by itself for programs.
    pub huge_transparent: u64,
    /// Bytes of one huge page.
    pub huge_page_bytes: u64,
}

/// How long tasks waited for a resource (Documentation/accounting/psi.rst).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// `cpu`, `io`, `memory`, `irq`.
    pub resource: String,
    /// Share of the last 10 s in which some task waited, 0 to 1, as the kernel says. `irq` has none.
    pub some_10s: Option<f64>,
    /// … in which all tasks waited.
    pub full_10s: Option<f64>,
    /// Share of this interval, from the kernel's total time.
    pub some_share: Option<f64>,
    /// Share of this interval.
    pub full_share: Option<f64>,
    /// Counter, microseconds.
    pub some_total_us: Option<u64>,
    /// Counter, microseconds.
    pub full_total_us: Option<u64>,
}

/// One PCIe link that changed, or runs below its best.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PcieLink {
    /// `0000:17:00.0`.
    pub address: String,
    /// The NIC or disk behind it (`eth0`, `nvme0`), where known.
    pub device: Option<String>,
    /// Now, GT/s.
    pub gigatransfers_per_second: f64,
    /// Lanes now.
    pub width: u32,
    /// What both ends can do, GT/s.
    pub best_gigatransfers_per_second: f64,
    /// Lanes that both ends have.
    pub best_width: u32,
    /// What it was when the watch began, in words, where it changed since (`32 GT/s x16`).
    pub was: Option<String>,
    /// Unix time of the last change, milliseconds.
    pub changed_at_ms: Option<i64>,
}

/// One whole disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskRates {
    /// The kernel's name (`nvme0n1`).
    pub name: String,
    pub model: Option<String>,
    /// Bytes.
    pub size_bytes: Option<u64>,
    pub read: DiskWay,
    pub write: DiskWay,
    pub discard: DiskWay,
    /// Requests flushed per second.
    pub flushes_per_second: Option<f64>,
    /// Mean number of requests in the disk or waiting for it over the interval (weighted time ÷ time):
    /// `aqu-sz` of iostat.
    pub queue_depth: Option<f64>,
    /// Share of the interval with at least one request in the disk: `%util` of iostat.
    pub busy_share: Option<f64>,
    /// Counter: time of all requests together, seconds.
    pub weighted_seconds: f64,
    /// Counter: time with at least one request in the disk, seconds.
    pub busy_seconds: f64,
    /// Counter.
    pub flushes: u64,
    /// Requests in the disk at the very moment.
    pub in_flight: u64,
    /// The most bytes per second, read and written together, that this watch has seen of it.
    pub best_bytes_per_second: Option<f64>,
    /// What a run of linerate has measured of it on this host; none where no such run is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bytes_per_second: Option<f64>,
    /// True for loop, RAM, device-mapper and md devices, whose bytes are those of disks below.
    pub is_virtual: bool,
}

impl DiskRates {
    /// Where its bars end: at what was measured of it, or at more that was seen since; none where it was never measured,
    /// for what was merely seen is nothing that a disk is full at.
    pub fn scale_bytes_per_second(&self) -> Option<f64> {
        let measured = self.measured_bytes_per_second.filter(|rate| *rate > 0.0)?;
        Some(measured.max(self.best_bytes_per_second.unwrap_or(0.0)))
    }
}

/// Reads, writes or discards of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskWay {
    pub bytes_per_second: Option<f64>,
    /// Completed requests (IOPS).
    pub requests_per_second: Option<f64>,
    /// Mean time from queueing to completion of those that completed, milliseconds; none where none did.
    pub latency_ms: Option<f64>,
    pub merged_per_second: Option<f64>,
    /// Mean size of those that completed, bytes.
    pub request_bytes: Option<f64>,
    /// Counter, bytes.
    pub bytes: u64,
    /// Counter.
    pub requests: u64,
    /// Counter: requests that were merged with others before they were given to the disk.
    pub merged: u64,
    /// Counter: time of all requests together, seconds.
    pub seconds: f64,
}

/// One meter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PowerSource {
    pub kind: PowerKind,
    /// `package-0`, `package-0/dram`, `power_meter power1`, the first word of the command.
    pub name: String,
    /// It measures the whole machine, not a part of it.
    pub whole_machine: bool,
    /// Its figure is a part of another's (`package-0/core` of `package-0`), and is not to be added to it.
    pub part_of_another: bool,
    pub watts: Fact<f64>,
    /// The least that it showed in this watch while the machine was idle (all cores together below 5 % busy).
    pub idle_watts: Option<f64>,
    /// Now less idle.
    pub above_idle_watts: Option<f64>,
    /// Energy since the watch began, joules; counted where the meter counts, else summed up from its power.
    pub joules: Option<f64>,
}

/// Where a power figure is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum PowerKind {
    /// The processors' energy counters.
    Rapl,
    /// A sensor that the kernel lists.
    #[default]
    Hwmon,
    /// The management controller (`ipmitool dcmi power reading`).
    Ipmi,
    /// `LINERATE_POWER_COMMAND`.
    Command,
}

/// Energy per byte moved, by the best meter: of the whole machine, else the processors' packages together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Energy {
    /// Which meter, or why there is none.
    pub by: Fact<String>,
    pub watts: Option<f64>,
    /// Bytes that all NICs sent and received (`lo` and bridges' ports not twice), per second.
    pub moved_bytes_per_second: Option<f64>,
    /// Watts ÷ GB/s; none where less than 1 MB/s moves.
    pub joules_per_gb: Option<f64>,
    /// The same with what is above idle only.
    pub joules_per_gb_above_idle: Option<f64>,
}

/// The processes of the machine, as far as this user may see them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// Those that moved bytes, busiest first, and those that used a hundredth of a CPU or more; at most 64, the five
    /// with most CPU time always among them.
    pub busiest: Vec<ProcessRates>,
    /// Others that moved bytes, too.
    pub left_out: u64,
    /// Processes that `/proc` lists; none where nobody looked.
    pub count: Option<u64>,
    /// Of those, the ones whose storage counters this user may not read.
    pub unreadable: u64,
    /// Root asked: what it may not read of a process is for nobody to read.
    pub asked_by_root: bool,
    /// The kernel does not count what a process reads and writes (CONFIG_TASK_IO_ACCOUNTING).
    pub uncounted: bool,
    /// `/proc` lists the processes of this user only.
    pub others_are_hidden: bool,
    /// TCP connections that were looked at.
    pub connections: Fact<u64>,
    /// Sent by TCP connections that no process could be found for: another user's, or the kernel's own.
    pub unowned_send_bytes_per_second: Option<f64>,
    /// Received by them.
    pub unowned_receive_bytes_per_second: Option<f64>,
    /// UDP by process: the kernel counts no bytes of a UDP socket.
    pub udp_bytes_per_second: Fact<f64>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRates {
    pub pid: u32,
    /// The program's name as the kernel keeps it: 15 bytes, of any kind.
    pub name: String,
    /// When it began, ticks since boot: another one is another process.
    pub started_ticks: u64,
    /// From storage, not from the page cache.
    pub read_bytes_per_second: Option<f64>,
    /// To storage; what is written through the page cache counts when it is made dirty.
    pub written_bytes_per_second: Option<f64>,
    /// Acknowledged by the other ends of its TCP connections.
    pub tcp_send_bytes_per_second: Option<f64>,
    /// Received in order.
    pub tcp_receive_bytes_per_second: Option<f64>,
    /// CPU time of its threads ÷ time: 1 is one CPU.
    pub cpus: Option<f64>,
}

/// What is shown of those that use the CPUs.
pub const BUSIEST_BY_CPU: usize = 5;
/// CPUs from which on a process is one of them: a tick of the kernel's clock in a second.
pub const LEAST_CPUS: f64 = 0.01;

impl Processes {
    /// The five with most CPU time.
    pub fn busiest_by_cpu(&self) -> Vec<&ProcessRates> {
        let mut all: Vec<&ProcessRates> = self.busiest.iter().filter(|one| one.uses_cpu()).collect();
        all.sort_by(|a, b| b.cpus.unwrap_or(0.0).total_cmp(&a.cpus.unwrap_or(0.0)));
        all.truncate(BUSIEST_BY_CPU);
        all
    }

    /// How many of them moved bytes.
    pub fn moving(&self) -> u64 {
        self.busiest.iter().filter(|one| one.bytes_per_second() > 0.0).count() as u64 + self.left_out
    }
}

impl ProcessRates {
    /// All that it moves: read, written, sent and received, as far as known.
    pub fn bytes_per_second(&self) -> f64 {
        self.rates().into_iter().flatten().sum()
    }

    /// It used some CPU time that is worth a row.
    pub fn uses_cpu(&self) -> bool {
        self.cpus.is_some_and(|cpus| cpus >= LEAST_CPUS)
    }

    /// Read, written, sent, received.
    pub fn rates(&self) -> [Option<f64>; 4] {
        [
            self.read_bytes_per_second,
            self.written_bytes_per_second,
            self.tcp_send_bytes_per_second,
            self.tcp_receive_bytes_per_second,
        ]
    }
}
