//! What people and screens say to a server, and what it answers: JSON, one object a line, over TCP and
//! WebSocket alike.
//!
//! [`Hub`] is the server's end, [`Client`] the other; [`Request`] goes to the server, [`Message`] comes from
//! it. anyone who plays is a [`Conductor`]: the channel, the page and the tests know no more of it.

mod barrier;
mod client;
pub(super) mod connection;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod hub;
pub(super) mod limits;
mod messages;
pub(super) mod outbox;
pub(super) mod state;
pub(super) mod tcp;

pub use client::Client;
pub use hub::{Hub, HubSettings};
pub use messages::{Assignment, ControlMessage, ControlRequest, Lead, MovieLine, Preview};

use super::geometry::TileId;
use super::status::WallStatus;
pub use super::status::{ScreenReport, View};
use super::timeline::Timeline;

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
    /// Keeps what a screen has told of itself.
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
