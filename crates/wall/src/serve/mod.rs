//! The streaming server: a worker for each tile reads its frames ahead and sends them, at the right moment
//! ([`FrameClock`]), to its screen.
//!
//! [`Player`] is the whole of it: it opens the movies, deals the tiles to the NICs, starts the workers,
//! watches the NICs and does what the control channel asks ([`crate::control::Conductor`]). A worker is one
//! thread with its own ring and its own memory; the frame's pixels go from the disk into that memory and from
//! there to the kernel's network, and are not copied in between.

mod ahead;
mod compose;
mod conduct;
mod counters;
mod health;
mod keeper;
mod nics;
mod others;
mod player;
mod program;
mod setup;
mod source;
mod start;
mod tile_sender;
mod tiles;
mod wire;

use crate::geometry::{FrameRate, TileId, WallGrid};
use crate::movie::Movie;
pub use conduct::follow;
use linerate_facts::failure::Failure;
use linerate_system::clock;
pub use player::Player;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel registers no larger buffer, and reads no more at once.
const MOST_FRAME_BYTES: usize = 512 << 20;

/// One screen.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedScreen {
    pub tile: TileId,
    /// As the user wrote it.
    pub named: String,
    /// Where it may be reached; several where it has several NICs.
    pub to: Vec<SocketAddr>,
}

/// How packets are made.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// None: the NIC's.
    pub mtu: Option<u32>,
    /// Of packets to multicast groups: how many networks they may come into.
    pub multicast_hops: u8,
}

/// The server that leads this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Leader {
    /// Where it is asked, `HOST:PORT`.
    pub address: String,
    /// This server's own name in the layout.
    pub name: String,
}

/// What to play, and how.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The first one plays; the others may be opened.
    pub movies: Vec<Movie>,
    /// Screens of the whole wall, those of other servers too.
    pub wall: WallGrid,
    /// The screens of this server.
    pub screens: Vec<ServedScreen>,
    /// NICs that may be used; empty: all.
    pub nics: Vec<String>,
    pub sending: Sending,
    /// Datagrams a train at most.
    pub burst: usize,
    /// It begins again after its end.
    pub looping: bool,
    pub io_uring: bool,
    /// The server that leads this one.
    pub leader: Option<Leader>,
    /// The servers that this one leads, with their tiles.
    pub followers: Vec<(String, Vec<TileId>)>,
    /// The user's meters of power, summed; empty: the machine's own.
    pub power_commands: Vec<String>,
    /// Play although this machine is known not to carry it.
    pub anyway: bool,
}

/// What cannot be played together.
fn check(settings: &ServeSettings) -> Result<(), Failure> {
    let wrong = |text: String| Err(Failure::Usage(text));
    let first = &settings.movies[0].manifest;
    for movie in &settings.movies[1..] {
        let manifest = &movie.manifest;
        let same = manifest.grid == first.grid
            && manifest.tile == first.tile
            && manifest.frames_per_second == first.frames_per_second;
        if !same {
            return wrong(format!(
                "movie {}: {} tiles of {} at {} frames/s, but {} has {} of {} at {}; one wall plays movies \
                 of one shape",
                movie.name(),
                manifest.grid,
                manifest.tile,
                manifest.frames_per_second,
                settings.movies[0].name(),
                first.grid,
                first.tile,
                first.frames_per_second
            ));
        }
    }
    for (index, screen) in settings.screens.iter().enumerate() {
        if settings.screens[..index].iter().any(|other| other.tile == screen.tile) {
            return wrong(format!(
                "tile {} has two screens; give it once, with all addresses of its screen",
                screen.tile
            ));
        }
        let is_its = |other: &&ServedScreen| other.to.iter().any(|to| screen.to.contains(to));
        if let Some(other) = settings.screens[..index].iter().find(is_its) {
            return wrong(format!(
                "tiles {} and {} are both sent to {}; give each screen a port of its own, and name a host of --screens \
                 once",
                other.tile, screen.tile, screen.named
            ));
        }
        if !first.grid.holds(screen.tile) {
            return wrong(format!(
                "tile {}: the movie has {} tiles, from r0c0 to r{}c{}",
                screen.tile,
                first.grid,
                first.grid.rows - 1,
                first.grid.columns - 1
            ));
        }
    }
    if settings.screens.is_empty() {
        return wrong("no screen was named: give --screen r0c0=HOST:PORT for each tile, or --layout".into());
    }
    if first.tile.frame_bytes() > MOST_FRAME_BYTES {
        return Err(Failure::Lacks(format!(
            "a tile of {} is {} bytes a frame; more than {MOST_FRAME_BYTES} cannot be read at once: cut the \
             movie into more tiles",
            first.tile,
            first.tile.frame_bytes()
        )));
    }
    Ok(())
}

/// The hosts' clock now.
fn nanos_now() -> u64 {
    nanos(clock::date())
}

/// A time of that clock.
fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The clock of one tile: the ticks of the movie, a little later by its place in the order of the tiles.
#[derive(Clone, Copy, Debug)]
struct FrameClock {
    pub rate: FrameRate,
    /// Nanoseconds after the tick's start at which this tile's frame begins.
    pub stagger: u64,
    /// Length of a tick.
    pub period: u64,
}

impl FrameClock {
    /// The tile that begins `stagger` nanoseconds after each tick.
    pub(crate) fn new(rate: FrameRate, stagger: u64) -> Self {
        FrameClock { rate, stagger, period: rate.frame_nanos().max(1) }
    }

    /// When the frame of a tick shall begin.
    pub(crate) fn due(&self, tick: u64) -> u64 {
        nanos(self.rate.start_of(tick)).saturating_add(self.stagger)
    }

    /// A frame that begins later than this after it was due is left out: the next one needs the time.
    pub(crate) fn grace(&self) -> u64 {
        self.period / 2
    }

    /// The first tick whose frame may still begin.
    pub(crate) fn first_in_time(&self, now: u64) -> u64 {
        let latest = now.saturating_sub(self.stagger).saturating_sub(self.grace());
        let tick = self.rate.tick_at(UNIX_EPOCH + Duration::from_nanos(latest));
        if self.due(tick).saturating_add(self.grace()) < now { tick + 1 } else { tick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_in_time_is_in_time_and_the_one_before_is_not(
            now in 1_600_000_000_000_000_000u64..1_900_000_000_000_000_000, share in 0.0f64..1.0, rate in 1u32..1000,
        ) {
            let rate = FrameRate { numerator: rate, denominator: 1 };
            let clock = FrameClock::new(rate, (share * rate.frame_nanos() as f64) as u64);
            let first = clock.first_in_time(now);
            prop_assert!(clock.due(first) + clock.grace() >= now);
            prop_assert!(clock.due(first - 1) + clock.grace() < now);
        }
    }
}
