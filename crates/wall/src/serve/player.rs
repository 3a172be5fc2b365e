//! Who plays: opens the movies and starts the workers. What is asked of it is in `conduct`, how it does in
//! `health`.

use super::keeper::{Keeper, WallMeter};
use super::others::Others;
use super::program::{LatestProgram, Program};
use super::setup::{Files, cores, open_tiles, predict, slots};
use super::start::{TileSenderStart, start};
use super::tiles::Tile;
use super::{FrameClock, ServeSettings, ServedScreen, check, nics};
use crate::geometry::{FrameRate, Size};
use crate::rtp::SdpSession;
use crate::timeline::Timeline;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_system::{clock, lock};
use linerate_transport::agent::random;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The movie begins so long after everything stands: the first frames have to be read.
const LEAD: Duration = Duration::from_millis(300);
/// Workers that have not set themselves up by then are not waited for.
const SETTING_UP: Duration = Duration::from_secs(20);
/// A narrow sender of ST 2110-21 has bursts of at most so many.
const NARROW: usize = 8;

/// It is reached by a multicast group.
fn has_group(screen: &ServedScreen) -> bool {
    screen.to.iter().any(|to| to.ip().is_multicast())
}

/// A server that plays.
#[derive(Debug)]
pub struct Player {
    pub(super) settings: ServeSettings,
    pub(super) latest: Arc<LatestProgram>,
    pub(super) keeper: Arc<Keeper>,
    pub(super) rate: FrameRate,
    pub(super) size: Size,
    pub(super) began: Instant,
    senders: Mutex<Vec<JoinHandle<()>>>,
    notes: Vec<String>,
    /// The other servers of the wall.
    pub(super) others: Others,
    /// What the model says that this machine carries, UDP payload, bytes per second.
    pub(super) predicted: Option<f64>,
}

impl Player {
    /// Opens everything and begins to play.
    pub fn start(
        sysroot: &Sysroot,
        machine: &Machine,
        settings: ServeSettings,
    ) -> Result<Arc<Player>, Failure> {
        let Some(movie) = settings.movies.first() else {
            return Err(Failure::Usage("no movie was named".into()));
        };
        let (rate, size) = (movie.manifest.frames_per_second, movie.manifest.tile);
        check(&settings)?;
        let nics = nics::find(machine, &settings.nics).map_err(Failure::usage)?;
        let mut notes = Vec::new();
        let memory = slots(machine, &settings, &mut notes);
        let (tiles, files) = open_tiles(sysroot, machine, &settings, &nics)?;
        let mut problems = tiles.iter().filter(|tile| tile.plays && tile.ways.is_empty());
        if let Some(tile) = problems.next() {
            return Err(Failure::Lacks(format!(
                "screen {} of tile {}: no NIC of this machine reaches it{}",
                tile.screen,
                tile.id,
                match (settings.nics.is_empty(), settings.screens.iter().any(has_group)) {
                    (true, false) => "",
                    (true, true) => "; name the one that shall send to a multicast group with --nic",
                    (false, _) => " of those that --nic names",
                }
            )));
        }
        // It begins when all workers stand: memory of many gigabytes takes its time.
        let timeline = Timeline::new(rate, movie.manifest.frames, u64::MAX, settings.looping);
        let latest = Arc::new(LatestProgram::new(Program::new(timeline, 0)));
        let power = WallMeter::start(sysroot, &settings.power_commands);
        let keeper = Keeper::new(sysroot.clone(), tiles, nics, size, settings.sending, power);
        let keeper = Arc::new(keeper);
        let predicted = predict(machine, &settings, &keeper)?;
        let cores = cores(machine, &keeper);
        let player = Player {
            rate,
            size,
            began: clock::now(),
            senders: Mutex::default(),
            notes,
            others: Others::new(&settings),
            predicted,
            settings,
            latest,
            keeper,
        };
        player.start_senders(files, &cores, memory)?;
        let (keeper, latest) = (Arc::clone(&player.keeper), Arc::clone(&player.latest));
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(move || keeper.run(&latest));
        let thread =
            thread.map_err(|error| Failure::Lacks(format!("no thread to watch the NICs: {error}")))?;
        lock(&player.senders).push(thread);
        // One that follows plays nothing before it knows what: out of step it would be worse than dark.
        if player.settings.leader.is_none() {
            player.begin();
        }
        Ok(Arc::new(player))
    }

    /// As soon as all workers stand, from the first frame.
    fn begin(&self) {
        let patience = clock::now() + SETTING_UP;
        while !self.keeper.stands() && clock::now() < patience && !self.latest.rest(Duration::from_millis(2))
        {
        }
        let first = self.rate.tick_at(clock::date() + LEAD) + 1;
        self.latest.change(|program| {
            let Timeline { frames_per_second, frames, .. } = program.timeline;
            program.with_timeline(Timeline::new(frames_per_second, frames, first, self.settings.looping))
        });
    }

    fn start_senders(&self, files: Files, cores: &[Option<u32>], memory: usize) -> Result<(), Failure> {
        let bytes = random::<8>().map_err(|error| Failure::Lacks(format!("no random bytes: {error}")))?;
        let period = self.rate.frame_nanos();
        let count = self.keeper.tiles.iter().filter(|tile| tile.plays).count().max(1) as u64;
        let mut place = 0;
        for (index, (tile, files)) in self.keeper.tiles.iter().zip(files).enumerate() {
            if !tile.plays {
                continue;
            }
            let seed = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            let sender = TileSenderStart {
                core: cores.get(index).copied().flatten(),
                files,
                movies: self.settings.movies.clone(),
                tile: tile.id,
                size: self.size,
                clock: FrameClock::new(self.rate, period * place / count),
                ssrc: tile.ssrc,
                sequence: seed.wrapping_mul(index as u32 | 1),
                memory,
                burst: self.settings.burst,
                io_uring: self.settings.io_uring,
            };
            place += 1;
            let started =
                start(sender, Arc::clone(&self.latest), Arc::clone(&tile.gate), Arc::clone(&tile.counters));
            match started {
                Ok(thread) => {
                    lock(&self.senders).push(thread);
                }
                Err(error) => {
                    self.latest.stop();
                    return Err(Failure::Lacks(format!("no thread for tile {}: {error}", tile.id)));
                }
            }
        }
        Ok(())
    }

    /// The movie has come to its end on all tiles.
    pub fn is_over(&self) -> bool {
        let tick = self.rate.tick_at(clock::date());
        self.latest.program().timeline.is_over(tick) && self.keeper.is_over()
    }

    /// What the user may want to know about how it was set up.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether something failed on the way: a tile that did not play, a screen that was not there, a disk
    /// that failed.
    pub fn failed(&self) -> bool {
        self.keeper.tiles.iter().any(|tile| {
            let counters = &tile.counters;
            let lost = counters.datagrams_lost.load(Ordering::Relaxed);
            !tile.plays || counters.dropped() > 0 || lost > 0 || counters.problem().is_some()
        })
    }

    /// Where each tile is sent and how: for its session description.
    pub fn sessions(&self) -> Vec<SdpSession> {
        let nics = self.keeper.nics();
        let of = |tile: &Tile| {
            let place = tile.place();
            let way = place.way.unwrap_or(0);
            let to = tile.ways.get(way)?;
            let nic = &nics.get(to.nic)?.name;
            let local = place.locals.get(way).copied().flatten();
            Some(SdpSession {
                tile: tile.id,
                from: local.map_or(Ipv4Addr::UNSPECIFIED.into(), |local| local.ip()),
                to: to.to,
                size: self.size,
                frames_per_second: self.rate,
                datagram_bytes: nics::datagram_bytes(
                    &self.keeper.sysroot,
                    nic,
                    to.to,
                    self.settings.sending.mtu,
                ),
                multicast_hops: self.settings.sending.multicast_hops,
                narrow: self.settings.burst <= NARROW,
            })
        };
        self.keeper.tiles.iter().filter_map(of).collect()
    }

    /// Ends it: the wire is silent when this returns.
    pub fn stop(&self) {
        self.latest.stop();
        let threads = std::mem::take(&mut *lock(&self.senders));
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Sleeps so long, or until it was told to end.
    pub(crate) fn rest(&self, time: Duration) {
        self.latest.rest(time);
    }

    /// It was told to end.
    pub fn stopped(&self) -> bool {
        self.latest.stopped()
    }
}
