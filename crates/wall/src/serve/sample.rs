//! What everything counts at one time; rates are differences of two of these.

use super::counters::TileCounters;
use super::nics::TileNic;
use super::power::WallMeter;
use super::tiles::Tile;
use linerate_facts::counters;
use linerate_facts::counters::power::{NoMeter, PowerReading};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::counters::process_cpu;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One tile's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TileSample {
    pub bytes: u64,
    pub read_bytes: u64,
    pub datagrams_lost: u64,
    pub frames_sent: u64,
    pub by_disk: u64,
    pub by_network: u64,
    pub by_cpu: u64,
    pub cpu: u64,
    pub starved: u64,
    pub blocked: u64,
}

/// One NIC's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicSample {
    /// What all programs sent, bytes.
    pub sent: Option<u64>,
    /// Packets that its queueing disciplines dropped.
    pub drops: u64,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct ServerSample {
    pub at: Instant,
    /// CPU time of this process.
    pub cpu: Duration,
    pub tiles: Vec<TileSample>,
    pub nics: Vec<NicSample>,
    /// Energy so far, or why it is not known.
    pub power: Result<PowerReading, NoMeter>,
}

impl TileSample {
    fn of(counters: &TileCounters) -> TileSample {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TileSample {
            bytes: get(&counters.bytes),
            read_bytes: get(&counters.read_bytes),
            datagrams_lost: get(&counters.datagrams_lost),
            frames_sent: get(&counters.frames_sent),
            by_disk: get(&counters.dropped_by_disk),
            by_network: get(&counters.dropped_by_network),
            by_cpu: get(&counters.dropped_by_cpu),
            cpu: get(&counters.cpu_nanos),
            starved: get(&counters.starved_nanos),
            blocked: get(&counters.blocked_nanos),
        }
    }

    /// What was counted since an earlier one.
    pub(crate) fn since(&self, earlier: &TileSample) -> TileSample {
        let less = u64::saturating_sub;
        TileSample {
            bytes: less(self.bytes, earlier.bytes),
            read_bytes: less(self.read_bytes, earlier.read_bytes),
            datagrams_lost: less(self.datagrams_lost, earlier.datagrams_lost),
            frames_sent: less(self.frames_sent, earlier.frames_sent),
            by_disk: less(self.by_disk, earlier.by_disk),
            by_network: less(self.by_network, earlier.by_network),
            by_cpu: less(self.by_cpu, earlier.by_cpu),
            cpu: less(self.cpu, earlier.cpu),
            starved: less(self.starved, earlier.starved),
            blocked: less(self.blocked, earlier.blocked),
        }
    }
}

/// Reads everything now.
pub(crate) fn take(sysroot: &Sysroot, tiles: &[Tile], nics: &[TileNic], power: &WallMeter) -> ServerSample {
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    let (table, drops) = (counters::net_dev(sysroot), counters::root_drops(sysroot, &names));
    let nic = |nic: &TileNic| NicSample {
        sent: table
            .known()
            .and_then(|all| all.iter().find(|one| one.name == nic.name))
            .map(|one| one.tx_bytes),
        drops: drops.get(&nic.name).copied().unwrap_or(0),
    };
    ServerSample {
        at: clock::now(),
        cpu: process_cpu(),
        tiles: tiles.iter().map(|tile| TileSample::of(&tile.counters)).collect(),
        nics: nics.iter().map(nic).collect(),
        power: power.read(),
    }
}
