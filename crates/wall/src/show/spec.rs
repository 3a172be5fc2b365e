//! What one screen is to do.

use super::link::ServerSpec;
use crate::geometry::{FrameRate, Size, TileId};
use std::net::SocketAddr;
use std::time::Duration;

/// Frames of an unknown rate wait so long by default.
const UNKNOWN_LATENCY: Duration = Duration::from_millis(90);

/// One screen.
pub struct ScreenSpec {
    pub listen: SocketAddr,
    /// The NIC by which a multicast group is joined; none: the one that the routes say.
    pub interface: Option<String>,
    /// Its tile, where it has one.
    pub tile: Option<TileId>,
    /// Who tells it what to expect.
    pub server: Option<ServerSpec>,
    /// What was told of the stream beforehand; else it is taken from the server or from the stream itself.
    pub size: Option<Size>,
    pub rate: Option<FrameRate>,
    pub payload_type: Option<u8>,
    /// Proves each frame by its stamp or by the server's checksums.
    pub verify: bool,
    /// From the start of a frame's tick until it is shown; none: two frames and a bit.
    pub latency: Option<Duration>,
    /// Shows a frame when the server says that all screens hold it.
    pub barrier: bool,
    pub end: ScreenEnd,
}

/// When a screen ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScreenEnd {
    /// After so long.
    pub after: Option<Duration>,
    /// After a stream has come and then nothing for so long.
    pub silence: Option<Duration>,
}

impl ScreenSpec {
    /// How long a frame waits at this rate. A server spreads a frame over its period and may begin up to a
    /// period after its tick, so that all tiles do not begin at once: two periods, and some time for the way.
    pub(crate) fn latency_at(&self, rate: Option<FrameRate>) -> Duration {
        let default = |rate: FrameRate| Duration::from_nanos(2 * rate.frame_nanos() + 10_000_000);
        self.latency.unwrap_or_else(|| rate.map_or(UNKNOWN_LATENCY, default))
    }
}
