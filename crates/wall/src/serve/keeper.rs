//! The keeper: a thread that looks at the NICs, moves tiles from those that are gone and back, and takes a
//! sample: what everything counts at one time, and what the server draws, where it has a meter that we may
//! read. Rates are differences of two samples.

use super::counters::TileCounters;
use super::nics::{TileNic, deal};
use super::program::LatestProgram;
use super::tiles::Tile;
use super::{Sending, nanos_now};
use crate::geometry::Size;
use linerate_facts::counters;
use linerate_facts::counters::power::{NoMeter, PowerReading, PowerRecorder};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::bytes_per_second;
use linerate_system::counters::process_cpu;
use linerate_system::{clock, lock};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// So often it looks.
const EVERY: Duration = Duration::from_millis(100);
/// Samples for rates of the last second.
const SAMPLES: usize = 12;
/// A tile whose way could not be opened is tried again this often.
const AGAIN: Duration = Duration::from_millis(500);

/// What the keeper keeps.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub sysroot: Sysroot,
    pub tiles: Vec<Tile>,
    nics: Mutex<Vec<TileNic>>,
    samples: Mutex<VecDeque<ServerSample>>,
    /// Pixels of a screen.
    size: Size,
    sending: Sending,
    first: ServerSample,
    /// When the first sample was taken, nanoseconds since 1970.
    pub began_at: u64,
    pub power: WallMeter,
}

impl Keeper {
    /// Deals the tiles and opens their ways for the first time.
    pub(crate) fn new(
        sysroot: Sysroot,
        tiles: Vec<Tile>,
        nics: Vec<TileNic>,
        size: Size,
        sending: Sending,
        power: WallMeter,
    ) -> Keeper {
        let first = take_sample(&sysroot, &tiles, &nics, &power);
        let samples = Mutex::new(VecDeque::from([first.clone()]));
        let (nics, began_at) = (Mutex::new(nics), nanos_now());
        let keeper = Keeper { sysroot, tiles, nics, samples, size, sending, first, began_at, power };
        keeper.look_at_nics();
        keeper.deal(false);
        keeper
    }

    /// The NICs as they are now.
    pub(crate) fn nics(&self) -> Vec<TileNic> {
        lock(&self.nics).clone()
    }

    /// The newest sample, and one of about a second before.
    pub(crate) fn last_second(&self) -> (ServerSample, ServerSample) {
        let samples = lock(&self.samples);
        let newest = samples.back().unwrap_or(&self.first);
        (samples.front().unwrap_or(&self.first).clone(), newest.clone())
    }

    /// The very first sample.
    pub(crate) fn first(&self) -> &ServerSample {
        &self.first
    }

    /// All workers stand ready, or have ended.
    pub(crate) fn stands(&self) -> bool {
        let up = |tile: &Tile| {
            tile.counters.stands.load(Ordering::Acquire) || tile.counters.ended.load(Ordering::Acquire)
        };
        self.tiles.iter().filter(|tile| tile.plays).all(up)
    }

    /// All workers are past the end of the movie.
    pub(crate) fn is_over(&self) -> bool {
        let done = |tile: &Tile| {
            tile.counters.over.load(Ordering::Relaxed) || tile.counters.ended.load(Ordering::Relaxed)
        };
        self.tiles.iter().filter(|tile| tile.plays).all(done)
    }

    /// Takes a sample.
    pub(crate) fn sample(&self) {
        let sample = take_sample(&self.sysroot, &self.tiles, &self.nics(), &self.power);
        let mut samples = lock(&self.samples);
        samples.push_back(sample);
        while samples.len() > SAMPLES
            || samples.len() > 2 && clock::since(samples[1].at) > Duration::from_millis(1000)
        {
            samples.pop_front();
        }
    }

    /// Looks and samples until the latest says stop.
    pub(crate) fn run(self: &Arc<Self>, latest: &LatestProgram) {
        let mut tried_at = clock::now();
        while !latest.stopped() {
            let (lost, found) = self.look_at_nics();
            let homeless = self.tiles.iter().any(|tile| tile.plays && tile.place().way.is_none());
            if found {
                // As it was at the start: they all go home.
                self.deal(false);
            } else if lost || homeless && clock::since(tried_at) > AGAIN {
                tried_at = clock::now();
                self.deal(true);
            }
            self.sample();
            latest.rest(EVERY);
        }
        self.sample();
    }

    /// Which NICs carry: whether one was lost, and whether one came back.
    fn look_at_nics(&self) -> (bool, bool) {
        let (mut lost, mut found) = (false, false);
        for nic in lock(&self.nics).iter_mut() {
            let carrier = carries(&self.sysroot, &nic.name);
            lost |= nic.carrier && !carrier;
            found |= !nic.carrier && carrier;
            nic.carrier = carrier;
            if !nic.loopback
                && nic.rate.is_some()
                && let Some(megabits) = self.sysroot.parse::<u64>(place(&nic.name, "speed")).known()
            {
                nic.rate = Some(bytes_per_second(megabits * 1_000_000)).filter(|rate| *rate > 0.0);
            }
        }
        (lost, found)
    }

    /// Gives each tile its way; with `stay`, only to those whose NIC does not carry any more.
    fn deal(&self, stay: bool) {
        let nics = self.nics();
        let tiles: Vec<&Tile> = self.tiles.iter().filter(|tile| tile.plays).collect();
        let ways: Vec<_> = tiles.iter().map(|tile| tile.ways.clone()).collect();
        let nodes: Vec<_> = tiles.iter().map(|tile| tile.disk_node).collect();
        let now: Vec<Option<usize>> = tiles.iter().map(|tile| tile.place().way).collect();
        let stays = if stay { now.clone() } else { Vec::new() };
        for ((tile, way), now) in tiles.iter().zip(deal(&nics, &ways, &nodes, &stays)).zip(now) {
            if way.is_some() && way == now {
                continue;
            }
            if !tile.take_way(&self.sysroot, &nics, way, self.size, self.sending) && way.is_some() {
                // The NIC is up, but the way is not: any other will do.
                let others = (0..tile.ways.len()).filter(|other| Some(*other) != way);
                let _ = others
                    .filter(|other| nics[tile.ways[*other].nic].carrier)
                    .any(|other| tile.take_way(&self.sysroot, &nics, Some(other), self.size, self.sending));
            }
        }
    }
}

fn place(nic: &str, file: &str) -> std::path::PathBuf {
    Path::new("/sys/class/net").join(nic).join(file)
}

/// Packets can leave by it: it is there, up, and its link is.
fn carries(sysroot: &Sysroot, nic: &str) -> bool {
    let down = matches!(
        sysroot.text(place(nic, "operstate")).as_deref(),
        Ok("down" | "lowerlayerdown" | "notpresent" | "dormant") | Err(_)
    );
    // Of an interface that is not up the kernel does not report (EINVAL).
    !down && sysroot.text(place(nic, "carrier")).is_ok_and(|carrier| carrier == "1")
}

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
fn take_sample(sysroot: &Sysroot, tiles: &[Tile], nics: &[TileNic], power: &WallMeter) -> ServerSample {
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

/// The best meter there is, or why there is none.
#[derive(Debug)]
pub(crate) struct WallMeter {
    recorder: Result<PowerRecorder, NoMeter>,
    /// Before it played.
    idle_watts: Option<f64>,
}

impl WallMeter {
    /// Looks at the idle machine first, for two seconds where there is a meter.
    pub(crate) fn start(sysroot: &Sysroot, commands: &[String]) -> WallMeter {
        let recorder = PowerRecorder::start(sysroot, commands);
        let idle = recorder.as_ref().ok().map(|recorder| recorder.idle(&AtomicBool::new(false)));
        WallMeter { idle_watts: idle.and_then(Result::ok), recorder }
    }

    /// Energy until now.
    pub(crate) fn read(&self) -> Result<PowerReading, NoMeter> {
        self.recorder.as_ref().map(PowerRecorder::read).map_err(Clone::clone)
    }

    /// Less what the idle machine drew.
    pub(crate) fn above_idle(&self, watts: f64) -> Option<f64> {
        self.idle_watts.map(|idle| (watts - idle).max(0.0))
    }
}
