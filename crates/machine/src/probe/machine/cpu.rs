//! Processors, caches, idle states; memory and its NUMA nodes.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Processors as the kernel shows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name of the first package.
    pub model: Fact<String>,
    /// Number of packages (sockets).
    pub packages: Fact<u32>,
    /// Number of physical cores that are online.
    pub physical_cores: Fact<u32>,
    /// Simultaneous multithreading is active.
    pub smt: Fact<bool>,
    /// CPUs, ascending by id.
    pub logical: Vec<LogicalCpu>,
    /// CPUs that this process may run on (`Cpus_allowed_list`).
    pub allowed: Fact<Vec<u32>>,
    /// CPU time that the control group grants, in cores (cgroup v1 `cpu.cfs_*`, v2 `cpu.max`, the tightest
    /// ancestor); `0.0` stands for "no quota".
    pub quota_cores: Fact<f64>,
    /// Frequency governor of the first CPU that is online.
    pub governor: Fact<String>,
    /// Caches, each once, by level, kind and first CPU.
    pub caches: Vec<Cache>,
    /// Driver that sets the frequency (`intel_pstate`, `acpi-cpufreq`).
    pub frequency_driver: Fact<String>,
    /// Lowest and highest frequency that the hardware can do, of the first CPU that is online, hertz.
    pub frequency_hertz: Fact<(u64, u64)>,
    /// Lowest and highest frequency that the administrator allows, hertz.
    pub frequency_allowed_hertz: Fact<(u64, u64)>,
    /// Processors may go above their nominal clock (turbo, boost).
    pub boost: Fact<bool>,
    /// Driver of the idle states (`intel_idle`, `acpi_idle`, `haltpoll`).
    pub idle_driver: Fact<String>,
    /// Idle states of the first CPU that is online, shallowest first.
    pub idle_states: Vec<IdleState>,
    /// CRC-32C of one core, bytes per second, timed when the machine was probed; only of the live machine.
    pub crc32c_bytes_per_second: Fact<f64>,
    /// What the cores compute, timed by `linerate probe` alone: on one thread, on one thread of each core where
    /// there are several, on all threads where a core has several.
    pub baseline: Fact<Vec<CpuSpeed>>,
    /// Sockets as the firmware describes them (SMBIOS type 4).
    pub sockets: Vec<Socket>,
}

impl Cpu {
    /// Those that are online.
    pub fn online(&self) -> impl Iterator<Item = &LogicalCpu> {
        self.logical.iter().filter(|cpu| cpu.online)
    }

    /// CPUs that this process may use: those allowed to it, one thread of each core first where the plan pinned workers so;
    /// else all that are online.
    pub fn usable(&self) -> Vec<u32> {
        match self.allowed.known() {
            Some(allowed) if !allowed.is_empty() => allowed.clone(),
            _ => self.online().map(|cpu| cpu.id).collect(),
        }
    }

    /// The packages that these CPUs are in.
    pub fn packages_of(&self, cpus: &[u32]) -> BTreeSet<u32> {
        let of_them = self.logical.iter().filter(|cpu| cpus.contains(&cpu.id));
        of_them.filter_map(|cpu| cpu.package.known().copied()).collect()
    }
}

/// What this many threads compute together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSpeed {
    pub threads: u32,
    /// Multiplications and additions of 64 bits.
    pub integer_per_second: f64,
    /// The same in double precision, without what only some processors of an architecture have.
    pub floating_per_second: f64,
    pub crc32c_bytes_per_second: f64,
}

/// One CPU of Linux.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// Kernel number.
    pub id: u32,
    /// Package (socket) number.
    pub package: Fact<u32>,
    /// Core number within the package.
    pub core: Fact<u32>,
    /// NUMA node.
    pub node: Fact<u32>,
    /// Other threads of the same core and this one.
    pub siblings: Fact<Vec<u32>>,
    /// Online.
    pub online: bool,
}

/// One cache and the CPUs that share it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 …
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size, bytes.
    pub size_bytes: Fact<u64>,
    /// Line, bytes.
    pub line_bytes: Fact<u32>,
    /// CPUs that share it, ascending.
    pub cpus: Vec<u32>,
}

/// One idle state (C-state) of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// `POLL`, `C1`, `C6` …
    pub name: String,
    /// Time to wake from it, microseconds.
    pub exit_latency_us: Fact<u64>,
    /// Switched off by the administrator.
    pub disabled: Fact<bool>,
}

/// One processor socket as the firmware describes it (SMBIOS type 4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    /// `CPU1`, `Proc 1` …
    pub designation: String,
    /// A processor is in it.
    pub populated: bool,
    /// What the processor calls itself.
    pub version: Fact<String>,
    /// Highest speed that the socket takes, MHz.
    pub max_mhz: Fact<u32>,
    /// Speed at boot, MHz.
    pub current_mhz: Fact<u32>,
    /// Cores.
    pub cores: Fact<u32>,
    /// Threads.
    pub threads: Fact<u32>,
    /// Cores that are enabled.
    pub cores_enabled: Fact<u32>,
    /// Memory channels of the processor, by its name and its maker's data sheets; no firmware reports them.
    pub memory_channels: Fact<u32>,
}

/// Memory and its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// `MemTotal`, bytes.
    pub total_bytes: Fact<u64>,
    /// `MemAvailable`, bytes.
    pub available_bytes: Fact<u64>,
    /// NUMA nodes that are online.
    pub nodes: Vec<NumaNode>,
    /// Bandwidth by the DIMMs' configured clock, bytes per second, all channels.
    pub rated_bytes_per_second: Fact<f64>,
    /// Channels that hold at least one DIMM, all sockets; `channels_confidence` says how sure this is.
    pub channels: Fact<u32>,
    /// How the channels were found.
    pub channels_confidence: Confidence,
    /// DIMM slots, empty ones included, as the firmware lists them (SMBIOS type 17).
    pub modules: Vec<MemoryModule>,
    /// The channels that the slots are on, ascending, those without a module included, but for those of a
    /// socket without a processor. Nothing where `channels_confidence` is `none` or only the number of
    /// channels is reported.
    pub channel_states: Vec<ChannelState>,
    /// Groups of slots and what they hold at most (SMBIOS type 16), system memory only.
    pub arrays: Vec<MemoryArray>,
}

/// One NUMA node; it may have memory and no CPU, or CPUs and no memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Kernel number; may be sparse.
    pub id: u32,
    /// CPUs of the node.
    pub cpus: Vec<u32>,
    /// Memory of the node, bytes.
    pub total_bytes: Fact<u64>,
    /// Distance to each node by the firmware (ACPI SLIT), in the order of node ids; 10 is itself.
    pub distances: Fact<Vec<u32>>,
}

/// How sure a reading is that more than one rule of thumb went into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Nothing was reported.
    #[default]
    None,
    /// Counted by a rule of thumb.
    Low,
    /// Reported by some, and nothing contradicts it.
    Medium,
    /// Reported in words.
    High,
}

/// One DIMM slot (SMBIOS type 17).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryModule {
    /// Device locator (`DIMM_A1`).
    pub locator: String,
    /// Bank locator (`NODE 1 CHANNEL 0`).
    pub bank: String,
    /// Size, bytes; 0: the slot is empty.
    pub size_bytes: Fact<u64>,
    /// `DDR3`, `DDR4`, `DDR5`, `DRAM` …
    pub kind: String,
    /// `DIMM`, `SODIMM`, `FB-DIMM` …
    pub form: String,
    /// What the part can do, mega-transfers per second.
    pub rated_mt_per_second: Fact<u32>,
    /// What it runs at, mega-transfers per second.
    pub configured_mt_per_second: Fact<u32>,
    /// Data width without ECC, bits.
    pub data_width_bits: Fact<u32>,
    /// Width with ECC, bits.
    pub total_width_bits: Fact<u32>,
    /// Ranks.
    pub rank: Fact<u32>,
    /// Socket and channel, from the locators.
    pub channel: Fact<MemoryChannel>,
    /// Maker and part number.
    pub part: Fact<String>,
    /// Handle of the array that it belongs to ([`MemoryArray::handle`]).
    pub array: Fact<u32>,
}

impl MemoryModule {
    /// Something is in the slot. A size that the firmware does not know is not a module.
    pub fn populated(&self) -> bool {
        self.size_bytes.known().is_some_and(|bytes| *bytes > 0)
    }
}

/// One group of slots (SMBIOS type 16, "physical memory array").
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryArray {
    /// SMBIOS handle.
    pub handle: u32,
    /// Most memory that it takes, bytes.
    pub max_bytes: Fact<u64>,
    /// Slots.
    pub slots: Fact<u32>,
}

/// One memory channel and what is on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelState {
    /// Which one.
    pub channel: MemoryChannel,
    /// Slots that the firmware lists; some boards list the populated ones only.
    pub slots: u32,
    /// Slots with a module.
    pub populated: u32,
    /// Lowest rated speed of its modules, mega-transfers per second.
    pub rated_mt_per_second: Fact<u32>,
    /// Lowest configured speed of its modules, mega-transfers per second.
    pub configured_mt_per_second: Fact<u32>,
    /// Configured speed × data width, bytes per second; 0 where the channel is empty.
    pub bytes_per_second: Fact<f64>,
}

/// A memory channel: which socket, which of its channels, both counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemoryChannel {
    /// Socket (or node, where the board numbers those).
    pub socket: u32,
    /// Channel of the socket.
    pub channel: u32,
}
