//! The messages of the control channel.

use crate::geometry::{FrameRate, Size, TileId};
use crate::status::WallStatus;
use crate::timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Which part of the movie the wall shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Movie pixels left of the wall's left edge.
    pub left: f64,
    /// Movie pixels above the wall's upper edge.
    pub top: f64,
    /// Wall pixels for one movie pixel: 1 is sharp, 2 shows half of the width.
    pub zoom: f64,
}

impl View {
    /// The movie as it is, from its upper left corner.
    pub const WHOLE: View = View { left: 0.0, top: 0.0, zoom: 1.0 };
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

/// What a screen tells of itself: sums since it joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScreenReport {
    /// Its tile, where it knows it.
    pub tile: Option<TileId>,
    /// Datagrams of its stream that arrived, without doubles.
    pub datagrams: u64,
    pub bytes: u64,
    /// Missing by the 32-bit sequence number.
    pub datagrams_lost: u64,
    /// Arrived after a later one.
    pub datagrams_reordered: u64,
    pub datagrams_doubled: u64,
    /// From elsewhere or of another stream: counted, not believed.
    pub datagrams_foreign: u64,
    /// Whole, and shown at their deadline.
    pub frames_shown: u64,
    /// Whole, but after their deadline.
    pub frames_late: u64,
    /// Shown although parts were missing.
    pub frames_torn: u64,
    /// Not a datagram of them came.
    pub frames_missing: u64,
    /// Frames that its window could not show before the next one was due, of all that it counts as shown,
    /// late or torn; none: it has no window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_window_dropped: Option<u64>,
    /// With `--verify`: their pixels are what the movie says.
    pub frames_proven: u64,
    /// With `--verify`: their pixels are not.
    pub frames_wrong: u64,
    /// The newest frame of the movie that is shown, where it is known.
    pub frame: Option<u32>,
    /// The newest tick that is shown.
    pub tick: Option<u64>,
    /// When the newest frame was presented after the start of its tick, milliseconds on the screen's clock;
    /// screens of one host or with clocks that agree differ in this by their skew.
    pub presented_ms: Option<f64>,
    /// The median and the 99th percentile of it since it joined.
    pub presented_p50_ms: Option<f64>,
    pub presented_p99_ms: Option<f64>,
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
