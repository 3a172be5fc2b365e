//! What is asked of the player, from the control channel and by the server that leads it.
//!
//! Of several servers of a wall one leads, and the others play what it says over the control channel.
//!
//! All count the same ticks on their clocks, so nothing else has to be said while it plays; without the leader
//! it goes on by what it heard last. Only screens with a barrier need more: each tick that all of this
//! server's hold is told to the leader, and shown at its word.

use super::health::health;
use super::others::NAME_COLUMNS;
use super::player::Player;
use super::program::{self, ProgramScene};
use super::tiles::Tile;
use super::{Leader, compose, nanos_now};
use crate::control::{
    Assignment, Client, Conductor, ControlMessage, ControlRequest, Lead, MovieLine, News, Preview, Refusal,
    ScreenReport, View,
};
use crate::geometry::{FrameRate, Size, TileId};
use crate::movie::Movie;
use crate::status::WallStatus;
use crate::timeline::Timeline;
use linerate_facts::failure::Failure;
use linerate_facts::printable::{printable, shortened};
use linerate_system::clock;
use linerate_transport::agent::Key;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thiserror::Error;

/// A change takes effect as soon as the first frame can be read, between these.
const SOONEST: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_millis(50);
/// Why what another server plays cannot be played here.
#[derive(Debug, Error)]
pub(super) enum LeadRefusal {
    #[error("it plays the movie {theirs}, this one has {own}; name that movie here, too")]
    OtherMovie { theirs: String, own: String },
    #[error(
        "its {movie} has {} frames at {} a second, this one's {own_frames} at {own_rate}; give both the same \
         movie",
        theirs.frames,
        theirs.frames_per_second
    )]
    OtherFrames { movie: String, theirs: Timeline, own_frames: u32, own_rate: FrameRate },
}

impl Player {
    /// Takes over what the server that leads plays.
    pub(super) fn follow(&self, lead: Lead) -> Result<(), LeadRefusal> {
        let Lead { timeline, from_tick, movie, view } = lead;
        let found = self.settings.movies.iter().position(|found| found.name() == movie);
        let index = found.ok_or_else(|| {
            let names: Vec<String> = self.settings.movies.iter().map(Movie::name).collect();
            LeadRefusal::OtherMovie { theirs: movie.clone(), own: names.join(", ") }
        })?;
        let own = &self.settings.movies[index].manifest;
        if (timeline.frames_per_second, timeline.frames) != (own.frames_per_second, own.frames) {
            let (own_frames, own_rate) = (own.frames, own.frames_per_second);
            return Err(LeadRefusal::OtherFrames { movie, theirs: timeline, own_frames, own_rate });
        }
        let scene = ProgramScene { from_tick, movie: index, view };
        self.latest.change(|program| program.with_scene(scene).with_timeline(timeline));
        Ok(())
    }

    /// The tick at which a change can take effect: as soon as its first frame can be read.
    fn soon(&self) -> u64 {
        let latency = self.keeper.tiles.iter().map(|tile| &tile.counters.read_latency_nanos);
        let latency = latency.map(|nanos| nanos.load(Ordering::Relaxed)).max();
        let wait = Duration::from_nanos(latency.unwrap_or(0)).clamp(SOONEST, LATEST);
        self.rate.tick_at(clock::date() + wait) + 1
    }

    fn change(&self, change: impl FnOnce(&Timeline, u64) -> Timeline) {
        let tick = self.soon();
        self.latest.change(|program| program.with_timeline(change(&program.timeline, tick)));
    }

    /// Shows another part of the movie.
    fn look(&self, look: impl FnOnce(View, Size, Size) -> View) {
        let tick = self.soon();
        self.latest.change(|program| {
            let now = program.scene_at(tick);
            let movie = self.settings.movies[now.movie].size();
            let view = look(now.view, self.settings.wall.pixels(self.size), movie);
            program.with_scene(ProgramScene { from_tick: tick, view, ..now })
        });
    }

    fn open(&self, name: &str) -> Result<(), Refusal> {
        let index = self.settings.movies.iter().position(|movie| movie.name() == name).ok_or_else(|| {
            let names: Vec<String> = self.settings.movies.iter().map(Movie::name).collect();
            let name = shortened(&printable(name), NAME_COLUMNS);
            format!("there is no movie {name}; this server has {}", names.join(", "))
        })?;
        let manifest = &self.settings.movies[index].manifest;
        let tick = self.soon();
        self.latest.change(|program| {
            let old = &program.timeline;
            let now = old.segment_at(tick);
            let mut new = Timeline::new(manifest.frames_per_second, manifest.frames, tick, now.looping);
            if !now.playing {
                new = new.pause(tick);
            }
            new.generation = old.generation + 1;
            let view = program.scene_at(tick).view;
            program.with_scene(ProgramScene { from_tick: tick, movie: index, view }).with_timeline(new)
        });
        Ok(())
    }

    fn tile(&self, tile: TileId) -> Option<&Tile> {
        self.keeper.tiles.iter().find(|found| found.id == tile)
    }
}

impl Conductor for Player {
    fn ask(&self, request: &ControlRequest) -> Result<(), Refusal> {
        if let Some(leader) = &self.settings.leader {
            return Err(format!("this server follows {}: ask that one", leader.address).into());
        }
        match request {
            ControlRequest::Play => self.change(|timeline, tick| {
                // After the end there is nothing to go on with.
                if timeline.is_over(tick) { timeline.seek(tick, 0).play(tick) } else { timeline.play(tick) }
            }),
            ControlRequest::Pause => self.change(|timeline, tick| timeline.pause(tick)),
            ControlRequest::Seek { frame } => self.change(|timeline, tick| timeline.seek(tick, *frame)),
            ControlRequest::Speed { speed } if !speed.is_finite() => {
                return Err("a speed is a number of frames, like 1, 0.5 or -2".into());
            }
            ControlRequest::Speed { speed } => self.change(|timeline, tick| timeline.set_speed(tick, *speed)),
            ControlRequest::Loop { on } => self.change(|timeline, tick| timeline.set_looping(tick, *on)),
            ControlRequest::Open { movie } => return self.open(movie),
            ControlRequest::View(wished) => self.look(|_, wall, movie| program::fitted(*wished, wall, movie)),
            ControlRequest::Pan { right, down, zoom } => {
                self.look(|old, wall, movie| program::panned(old, *right, *down, *zoom, wall, movie));
            }
            _ => return Err("that is not a request for a player".into()),
        }
        Ok(())
    }

    fn timeline(&self) -> Timeline {
        self.latest.program().timeline.clone()
    }

    fn lead(&self) -> Lead {
        let program = self.latest.program();
        // Also what was announced and does not hold yet: the followers get it when all workers here do.
        let scene = program.scene_at(u64::MAX);
        Lead {
            timeline: program.timeline.clone(),
            from_tick: scene.from_tick,
            movie: self.settings.movies[scene.movie].name(),
            view: scene.view,
        }
    }

    fn followed(&self, server: &str) -> Result<(), Refusal> {
        match &self.settings.leader {
            Some(leader) => {
                Err(format!("this server leads nobody, it follows {} itself", leader.address).into())
            }
            None => self.others.heard(server),
        }
    }

    fn waits_for_leader(&self, tick: u64) -> bool {
        self.settings.leader.is_some() && self.others.hold(tick)
    }

    fn status(&self) -> WallStatus {
        let (earlier, later) = self.keeper.last_second();
        self.status_of(health(&self.keeper, (&earlier, &later), false))
    }

    fn movies(&self) -> Vec<MovieLine> {
        let playing = self.latest.program().scene_at(self.rate.tick_at(clock::date())).movie;
        let line = |(index, movie): (usize, &Movie)| MovieLine {
            name: movie.name(),
            size: movie.size(),
            frames: movie.manifest.frames,
            frames_per_second: movie.manifest.frames_per_second,
            playing: index == playing,
        };
        self.settings.movies.iter().enumerate().map(line).collect()
    }

    fn assignment(&self, tile: TileId) -> Result<Assignment, Refusal> {
        let Some(found) = self.tile(tile) else {
            return Err(format!("tile {tile} is none of this server's").into());
        };
        let stamped = self.settings.movies.iter().all(|movie| movie.manifest.stamped);
        Ok(Assignment {
            tile,
            size: self.size,
            ssrc: found.ssrc,
            from: found.place().locals.into_iter().flatten().collect(),
            timeline: self.timeline(),
            stamped,
        })
    }

    fn report(&self, report: &ScreenReport) {
        if let Some(tile) = report.tile.and_then(|tile| self.tile(tile)) {
            tile.tell(report);
        }
    }

    fn sums(&self, tile: TileId, from: u32, count: u32) -> Vec<u32> {
        let playing = self.latest.program().scene_at(self.rate.tick_at(clock::date())).movie;
        self.settings.movies.get(playing).map_or(Vec::new(), |movie| movie.sums(tile, from, count))
    }

    fn preview(&self, tile: TileId) -> Option<Preview> {
        let found = self.tile(tile).filter(|tile| tile.plays)?;
        compose::wanted(&found.counters, nanos_now());
        found.counters.preview().map(|preview| Preview { tile, ..preview })
    }
}

/// A leader that cannot be reached is asked again this often; and it is told this often that this one is
/// there.
const AGAIN: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(3);
/// The end, and ticks that all of this server's screens hold, are looked for this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// With a barrier all screens wait for what is said and heard here.
const LOOK_AT_A_BARRIER: Duration = Duration::from_millis(2);
/// Words without an answer, a second each: then the leader is gone.
const MOST_UNANSWERED: usize = 3;

/// Follows on a thread of its own until the player ends; `tell` is called with what its screens must know.
pub fn follow(
    player: &Arc<Player>,
    leader: Leader,
    key: Key,
    tell: impl Fn(News) + Send + 'static,
) -> Result<(), Failure> {
    let player = Arc::clone(player);
    let thread = std::thread::Builder::new().name("follow".into()).spawn(move || {
        while !player.stopped() {
            if let Err(why) = listen(&player, &leader, &key, &tell) {
                player.others.leader(Some(why.to_string()));
                player.rest(AGAIN);
            }
        }
    });
    thread
        .map(drop)
        .map_err(|error| Failure::Lacks(format!("no thread to follow the leading server: {error}")))
}

/// Why the leader is not heard.
#[derive(Debug, Error)]
enum FollowError {
    #[error(transparent)]
    Connection(#[from] Failure),
    #[error(transparent)]
    Lead(#[from] LeadRefusal),
    #[error("it says: {0}")]
    Refused(String),
    #[error("it does not answer: is its host down, or the cable out?")]
    Silent,
}

fn listen(player: &Player, leader: &Leader, key: &Key, tell: &impl Fn(News)) -> Result<(), FollowError> {
    let mut client = Client::connect(&leader.address, key, CONNECT)?;
    let here = ControlRequest::Follow { server: leader.name.clone() };
    let mut said_at = clock::now();
    client.send(&here)?;
    while !player.stopped() {
        if let Some(tick) = player.others.newly_held() {
            client.send(&ControlRequest::AllReady { tick })?;
        }
        let look = if player.others.at_barrier() { LOOK_AT_A_BARRIER } else { POLL_INTERVAL };
        match client.next(look)? {
            Some(ControlMessage::Lead(lead)) => {
                player.follow(lead)?;
                player.others.leader(None);
                tell(News::Timeline);
            }
            Some(ControlMessage::Show { tick }) => tell(News::Show(tick)),
            Some(ControlMessage::Done) => player.others.leader(None),
            Some(ControlMessage::Refused { why }) => return Err(FollowError::Refused(why)),
            _ => {}
        }
        if clock::since(said_at) >= AGAIN {
            if client.awaited() >= MOST_UNANSWERED {
                return Err(FollowError::Silent);
            }
            said_at = clock::now();
            client.send(&here)?;
        }
    }
    Ok(())
}
