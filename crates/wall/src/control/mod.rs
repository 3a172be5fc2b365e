//! What people and screens say to a server, and what it answers: JSON, one object a line, over TCP and
//! WebSocket alike.
//!
//! [`Hub`] is the server's end, [`Client`] the other; [`Request`] goes to the server, [`Message`] comes from
//! it. Anyone who plays is a [`Conductor`]: the channel, the page and the tests know no more of it.
//!
//! A connection is bounded: how many there are, requests a second, times.

mod barrier;
mod client;
pub(super) mod connection;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod hub;
pub(super) mod outbox;
pub(super) mod state;

pub use super::status::{ScreenReport, View};
pub use client::Client;
pub use hub::{Hub, HubSettings};

use super::geometry::TileId;
use super::status::WallStatus;
use super::timeline::Timeline;
use crate::geometry::{FrameRate, Size};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// The port of the TCP control channel, unless told otherwise.
pub const DEFAULT_PORT: u16 = 7412;
/// The port of the control page, unless told otherwise.
pub const DEFAULT_PAGE_PORT: u16 = 7413;

/// What a conductor hears elsewhere and the hub has to tell its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The timeline is another.
    Timeline,
    /// The screens of all servers hold this tick.
    Show(u64),
}

/// Why a request is not done: a sentence for who asked, which goes over the wire as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl<T: Into<String>> From<T> for Refusal {
    fn from(sentence: T) -> Self {
        Refusal(sentence.into())
    }
}

/// anyone who plays, as the control channel sees it. Called from any thread; nothing here may wait for a disk
/// or the network.
pub trait Conductor: Send + Sync {
    /// Does what a person asks: play, pause, seek, speed, loop, view, open.
    fn ask(&self, request: &ControlRequest) -> Result<(), Refusal>;
    /// What is shown when.
    fn timeline(&self) -> Timeline;
    /// How the whole wall does.
    fn status(&self) -> WallStatus;
    /// The movies that may be opened.
    fn movies(&self) -> Vec<MovieLine>;
    /// What a screen must know to receive its tile.
    fn assignment(&self, tile: TileId) -> Result<Assignment, Refusal>;
    /// Keeps what a screen has reported of itself.
    fn report(&self, report: &ScreenReport);
    /// What a server that follows this one plays.
    fn lead(&self) -> Lead;
    /// A server of this name is there and follows.
    fn followed(&self, server: &str) -> Result<(), Refusal>;
    /// All of this server's screens with a barrier hold a tick. True: they wait for the server that leads,
    /// whose word comes by [`News::Show`]; false: nobody else has to be asked.
    fn waits_for_leader(&self, _tick: u64) -> bool {
        false
    }
    /// Checksums of frames of a tile (CRC-32C of the frame's bytes) from the movie's folder; empty where it
    /// has none.
    fn sums(&self, tile: TileId, from: u32, count: u32) -> Vec<u32>;
    /// The newest small picture of a tile; none where it is not playing. Asking keeps them coming for some
    /// seconds.
    fn preview(&self, tile: TileId) -> Option<Preview>;
}

/// To the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    Play,
    Pause,
    /// Goes on from a frame, playing or not.
    Seek {
        frame: u32,
    },
    /// Frames of the movie a frame of the wall; negative is backwards.
    Speed {
        speed: f64,
    },
    /// Begins again after the end, or not.
    Loop {
        on: bool,
    },
    /// Which part of the movie is shown.
    View(View),
    /// Moves the view by wall pixels and multiplies its zoom: what a joystick says, many times a second.
    Pan {
        right: f64,
        down: f64,
        zoom: f64,
    },
    /// The movies that the server has; answered by [`Message::Movies`].
    Movies,
    /// Plays another movie of the same grid and tile size.
    Open {
        movie: String,
    },
    /// From now on a [`Message::Status`] so often a second (at most 10; 0 ends it), and [`Message::Timeline`]
    /// with each change.
    Watch {
        per_second: f64,
    },
    /// How it is now; answered by [`Message::Status`].
    Status,
    /// A screen asks for its tile; answered by [`Message::Assignment`]. From now on it gets each change of
    /// the timeline.
    Join {
        tile: TileId,
    },
    /// A screen tells how it does, about twice a second.
    Report(ScreenReport),
    /// A screen asks for checksums of frames; answered by [`Message::Sums`].
    Sums {
        tile: TileId,
        from: u32,
        count: u32,
    },
    /// Another server of the wall follows this one, under its name in the layout: said again each second, so
    /// that a server that is gone is noticed. Answered by [`Message::Done`]; [`Message::Lead`] comes after
    /// the first one and with each change.
    Follow {
        server: String,
    },
    /// A screen with a barrier holds this tick whole and waits; answered to all by [`Message::Show`].
    Ready {
        tile: TileId,
        tick: u64,
    },
    /// A server that follows: all of its screens with a barrier hold this tick and wait; answered, when those
    /// of all servers do, by [`Message::Show`].
    AllReady {
        tick: u64,
    },
}

/// From the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum ControlMessage {
    /// The request was done.
    Done,
    /// It was not; a sentence says why.
    Refused {
        why: String,
    },
    /// What is shown when.
    Timeline(Timeline),
    /// How the whole wall does.
    Status(Box<WallStatus>),
    Movies {
        movies: Vec<MovieLine>,
    },
    /// What a server that follows must play.
    Lead(Lead),
    Assignment(Assignment),
    Sums {
        tile: TileId,
        from: u32,
        sums: Vec<u32>,
    },
    /// All screens with a barrier hold this tick: show it.
    Show {
        tick: u64,
    },
}

/// What all servers of a wall play: the timeline, and what it is played of, in one piece, so that no frame is
/// of one and not of the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lead {
    pub timeline: Timeline,
    /// From this tick on this movie and this part of it.
    pub from_tick: u64,
    pub movie: String,
    pub view: View,
}

/// One movie of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MovieLine {
    pub name: String,
    pub size: Size,
    pub frames: u32,
    pub frames_per_second: FrameRate,
    /// It is the one that plays.
    pub playing: bool,
}

/// What a screen must know to receive its tile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub tile: TileId,
    /// Pixels of the screen.
    pub size: Size,
    pub ssrc: u32,
    /// Addresses that the datagrams may come from (each NIC of the server); what comes from elsewhere is not
    /// believed.
    pub from: Vec<SocketAddr>,
    pub timeline: Timeline,
    /// Frames carry their stamp.
    pub stamped: bool,
}

/// A small picture of what a tile shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    pub tile: TileId,
    pub width: u16,
    pub height: u16,
    /// 8-bit RGB, line by line.
    pub rgb: Vec<u8>,
}

/// Largest request.
pub(crate) const REQUEST_BYTES: usize = 64 << 10;
/// Requests that one connection may send for long. A joystick sends 60 a second, a screen with a barrier one
/// a frame.
pub(crate) const REQUESTS_PER_SECOND: f64 = 300.0;
/// How far it may be ahead of that: 600 requests at once.
pub(crate) const REQUESTS_AHEAD: Duration = Duration::from_secs(2);
/// A connection that neither joined nor watches, and says nothing for so long, gives its place to another.
pub(crate) const IDLE_CONNECTION: Duration = Duration::from_secs(120);
/// A connection that does not take a message within this is ended.
pub(crate) const SEND_PATIENCE: Duration = Duration::from_secs(5);
/// Statuses a second that a connection may watch.
pub(crate) const WATCH_PER_SECOND: f64 = 10.0;

/// Connections that know the key: a screen for each tile, as many again that come back before they are
/// missed, and people.
pub(crate) fn most_connections(tiles: usize) -> usize {
    tiles.saturating_mul(2).saturating_add(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_transport::flow::rate_limit::Allowance;
    use std::time::Instant;

    #[test]
    fn sixty_a_second_pass_for_ever_and_a_thousand_do_not() {
        let start = Instant::now();
        let passed = |per_second: u64| {
            let allowance = Allowance::new(REQUESTS_PER_SECOND, start);
            (0..per_second * 20)
                .take_while(|n| {
                    allowance.charge(1, start + Duration::from_micros(n * 1_000_000 / per_second))
                        <= REQUESTS_AHEAD
                })
                .count() as u64
        };
        assert_eq!(passed(60), 1200);
        assert_eq!(passed(300), 6000);
        assert!((600..2000).contains(&passed(1000)), "{}", passed(1000));
    }
}
