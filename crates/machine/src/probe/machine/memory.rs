//! Memory: nodes, DIMMs, channels.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

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
    /// Something is in the slot. A size that the firmware does not know is no module.
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
