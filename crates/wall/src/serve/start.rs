//! Starting a tile's worker: its thread, its core, its memory, its ring (or threads where io_uring is off),
//! its route.

use super::FrameClock;
use super::ahead::{FrameLocation, FrameStore};
use super::compose::Composer;
use super::counters::TileCounters;
use super::program::LatestProgram;
use super::source::{TileFile, slot_bytes};
use super::tile_sender::{RouteSource, TileSender};
use super::wire::{Route, UdpWire};
use crate::geometry::{Size, TileId};
use crate::movie::Movie;
use crate::rtp::FrameLayout;
use linerate_system::buffers::Pool;
use linerate_system::{affinity, lock, queue};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Where routes are left for a worker.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    version: AtomicU64,
    route: Mutex<Option<Route>>,
}

impl Gate {
    /// From its next frame on the worker takes this route; without one its frames are dropped.
    pub(crate) fn set(&self, route: Option<Route>) {
        *lock(&self.route) = route;
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// The worker's side of the gate.
#[derive(Debug)]
pub(crate) struct GateRoutes {
    gate: Arc<Gate>,
    seen: u64,
    /// Datagrams a train.
    burst: usize,
    counters: Arc<TileCounters>,
}

impl RouteSource for GateRoutes {
    type Wire = UdpWire;

    fn look(&mut self) -> Option<Option<(UdpWire, Arc<FrameLayout>)>> {
        let version = self.gate.version.load(Ordering::Acquire);
        if version == self.seen {
            return None;
        }
        self.seen = version;
        let route = lock(&self.gate.route).take();
        let Some(Route { socket, layout, .. }) = route else { return Some(None) };
        match UdpWire::new(socket, layout.datagram_bytes(), self.burst) {
            Ok(wire) => Some(Some((wire, layout))),
            Err(error) => {
                self.counters.tell_problem(format!("its socket cannot be set up: {error}"));
                Some(None)
            }
        }
    }
}

/// Everything that a worker needs to start.
#[derive(Debug)]
pub(crate) struct TileSenderStart {
    /// Processor to pin to; none: the kernel chooses.
    pub core: Option<u32>,
    /// By movie; none where the tile's file is not fit to be played.
    pub files: Vec<Option<TileFile>>,
    /// All of them, for views that are not a whole tile.
    pub movies: Vec<Movie>,
    pub tile: TileId,
    pub size: Size,
    pub clock: FrameClock,
    pub ssrc: u32,
    pub sequence: u32,
    /// Frames that fit its memory.
    pub memory: usize,
    /// Datagrams a train.
    pub burst: usize,
    pub io_uring: bool,
}

/// Starts a worker's thread.
pub(crate) fn start(
    sender: TileSenderStart,
    latest: Arc<LatestProgram>,
    gate: Arc<Gate>,
    counters: Arc<TileCounters>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("tile {}", sender.tile)).spawn(move || {
        if let Err(error) = run(sender, &latest, gate, &counters) {
            counters.tell_problem(format!("its worker ended: {error}"));
        }
        counters.ended.store(true, Ordering::Release);
    })
}

fn run(
    sender: TileSenderStart,
    latest: &LatestProgram,
    gate: Arc<Gate>,
    counters: &Arc<TileCounters>,
) -> io::Result<()> {
    // Before this thread is pinned, so that the other one has a core of its own.
    let composer = Composer::start(sender.movies.clone(), sender.tile, sender.size, sender.memory).ok();
    if let Some(core) = sender.core {
        // A core that went offline meanwhile: run anywhere rather than not at all.
        let _ = affinity::pin_to(core);
    }
    affinity::wake_on_time();
    let mut pool = Pool::new(sender.memory, slot_bytes(sender.size.frame_bytes()))?;
    touch(&mut pool);
    let (mut queue, _) = queue::open(sender.io_uring, descriptors(&sender.files)?, &pool)?;
    let tile = TileSender {
        latest,
        counters,
        routes: GateRoutes { gate, seen: 0, burst: sender.burst, counters: Arc::clone(counters) },
        frames: frames(&sender),
        clock: sender.clock,
        ssrc: sender.ssrc,
        sequence: sender.sequence,
        memory: sender.memory,
        composer,
    };
    tile.run(&mut *queue, &mut pool)
}

/// The pages come from this core's memory, and not one by one while it plays.
fn touch(pool: &mut Pool) {
    let mut leases = Vec::new();
    while let Some(mut lease) = pool.take() {
        lease.bytes_mut().chunks_mut(4096).for_each(|page| page[0] = 0);
        leases.push(lease);
    }
    leases.into_iter().for_each(|lease| pool.give_back(lease));
}

fn descriptors(files: &[Option<TileFile>]) -> io::Result<Vec<Arc<File>>> {
    files.iter().flatten().map(|file| file.file.try_clone().map(Arc::new)).collect()
}

/// Which of its files is which movie's.
fn frames(sender: &TileSenderStart) -> FrameStore {
    let mut next = 0;
    let place = |file: &Option<TileFile>| {
        file.as_ref().map(|_| {
            next += 1;
            FrameLocation { file: next - 1 }
        })
    };
    let files = sender.files.iter().map(place).collect();
    let label = sender
        .files
        .iter()
        .flatten()
        .next()
        .map_or_else(|| sender.tile.to_string(), |file| file.label.clone());
    FrameStore { frame_bytes: sender.size.frame_bytes(), files, label }
}
