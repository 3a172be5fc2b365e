//! The tiles of a server as its keeper sees them: where each screen is, which NIC carries it now, what its
//! worker counts.

use super::counters::TileCounters;
use super::frame_clock;
use super::nics::{self, ScreenRoute, TileNic};
use super::settings::Sending;
use super::start::Gate;
use crate::control::ScreenReport;
use crate::geometry::{Size, TileId};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::lock;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One tile.
#[derive(Debug)]
pub(crate) struct Tile {
    pub id: TileId,
    /// As the user named it.
    pub screen: String,
    pub ways: Vec<ScreenRoute>,
    pub ssrc: u32,
    pub counters: Arc<TileCounters>,
    pub gate: Arc<Gate>,
    /// Its file is fit to be played.
    pub plays: bool,
    /// What is wrong with its file.
    pub problem: Option<String>,
    /// The disk that its file lies on.
    pub disk: String,
    pub disk_node: Option<u32>,
    place: Mutex<TileRoute>,
    told: Mutex<Option<LastReport>>,
}

/// Which way a tile takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TileRoute {
    /// Index among its ways.
    pub way: Option<usize>,
    /// Where the socket of each way sends from, once it was open.
    pub locals: Vec<Option<SocketAddr>>,
    /// UDP payload of a frame on this way.
    pub wire_bytes: usize,
    pub problem: Option<String>,
}

/// What a screen has told last.
#[derive(Clone, Debug)]
pub(crate) struct LastReport {
    pub report: ScreenReport,
    pub at: Instant,
    /// When a report told last of datagrams that were new, nanoseconds since 1970; 0: never.
    pub heard_at: u64,
    /// Datagrams that were lost between this report and the one before.
    pub newly_lost: u64,
}

/// What a tile is made of.
#[derive(Debug)]
pub(crate) struct TileParts {
    pub id: TileId,
    pub screen: String,
    pub ways: Vec<ScreenRoute>,
    pub ssrc: u32,
    pub problem: Option<String>,
    pub plays: bool,
    pub disk: String,
    pub disk_node: Option<u32>,
}

impl Tile {
    /// On no way yet.
    pub(crate) fn new(parts: TileParts) -> Tile {
        let TileParts { id, screen, ways, ssrc, problem, plays, disk, disk_node } = parts;
        let place = TileRoute { locals: vec![None; ways.len()], ..TileRoute::default() };
        Tile {
            id,
            screen,
            ways,
            ssrc,
            counters: Arc::default(),
            gate: Arc::default(),
            plays,
            problem,
            disk,
            disk_node,
            place: Mutex::new(place),
            told: Mutex::new(None),
        }
    }

    /// The way it takes now.
    pub(crate) fn place(&self) -> TileRoute {
        lock(&self.place).clone()
    }

    /// Index of the NIC that carries it now.
    pub(crate) fn nic(&self) -> Option<usize> {
        let way = lock(&self.place).way?;
        self.ways.get(way).map(|way| way.nic)
    }

    /// Sends it this way from its next frame on; false where the way cannot be opened.
    pub(crate) fn take_way(
        &self,
        sysroot: &Sysroot,
        nics: &[TileNic],
        way: Option<usize>,
        size: Size,
        sending: Sending,
    ) -> bool {
        let mut place = lock(&self.place);
        let Some((index, chosen)) = way.and_then(|index| Some((index, self.ways.get(index)?))) else {
            if place.way.take().is_some() || place.problem.is_none() {
                place.problem = Some(format!("screen {}: no NIC that is up reaches it", self.screen));
                self.gate.set(None);
            }
            return false;
        };
        let local = place.locals.get(index).copied().flatten();
        match nics::open(sysroot, &nics[chosen.nic], chosen.to, local, size, sending) {
            Ok(route) => {
                if let Some(local) = place.locals.get_mut(index) {
                    *local = route.socket.local_addr().ok();
                }
                (place.way, place.problem, place.wire_bytes) = (Some(index), None, route.layout.wire_bytes());
                self.gate.set(Some(route));
                true
            }
            Err(why) => {
                if place.way.take().is_some() {
                    self.gate.set(None);
                }
                place.problem = Some(format!("screen {}: {why}", self.screen));
                false
            }
        }
    }

    /// Keeps what its screen tells.
    pub(crate) fn tell(&self, report: &ScreenReport) {
        let mut told = lock(&self.told);
        let before = told.as_ref().map_or(report.datagrams_lost, |told| told.report.datagrams_lost);
        // A screen that was started again counts from zero.
        let (had, heard_at) = told.as_ref().map_or((0, 0), |told| (told.report.datagrams, told.heard_at));
        let hears = report.datagrams > 0 && report.datagrams != had;
        *told = Some(LastReport {
            report: report.clone(),
            at: clock::now(),
            heard_at: if hears { frame_clock::nanos_now() } else { heard_at },
            newly_lost: report.datagrams_lost.saturating_sub(before),
        });
    }

    /// What its screen has told last.
    pub(crate) fn told(&self) -> Option<LastReport> {
        lock(&self.told).clone()
    }
}
