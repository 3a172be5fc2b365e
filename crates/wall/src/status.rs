//! How a wall does: one value, shown by the terminal, the page and the JSON at the end.

use super::geometry::{FrameRate, Size, TileId};
use serde::{Deserialize, Serialize};

/// The whole wall at one time. Rates are of the last second; counts since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WallStatus {
    pub schema: u32,
    /// Seconds since the server began to play.
    pub seconds: f64,
    pub movie: String,
    pub frames_per_second: FrameRate,
    pub frames: u32,
    /// Where it stands, and how it moves.
    pub frame: u32,
    pub playing: bool,
    /// It does not play because it came to its end (at a negative speed: its beginning) and does not loop.
    pub ended: bool,
    pub speed: f64,
    pub looping: bool,
    pub view: View,
    /// Pixels of the whole movie and of the whole wall.
    pub movie_size: Size,
    pub wall_size: Size,
    /// UDP payload that the wall needs while it plays, bytes per second, all tiles.
    pub needed_bytes_per_second: f64,
    /// What the model says that this machine can carry; none where it does not know.
    pub predicted_bytes_per_second: Option<f64>,
    /// UDP payload that was sent.
    pub bytes_per_second: f64,
    pub disk_bytes_per_second: f64,
    /// CPU seconds per second of this process.
    pub cpu_cores: f64,
    pub cpu_seconds_per_gb: Option<f64>,
    /// Of the machine, where it has a meter; the sentence says why not.
    pub watts: Option<f64>,
    /// Less what the machine drew before it played.
    pub above_idle_watts: Option<f64>,
    pub watts_unknown: Option<String>,
    pub bytes: u64,
    pub frames_sent: u64,
    pub frames_dropped: u64,
    pub tiles: Vec<TileStatus>,
    pub nics: Vec<NicStatus>,
    pub disks: Vec<DiskStatus>,
    /// Of several servers of one wall: of the one that leads all others, of the others the one that leads.
    pub servers: Vec<ServerStatus>,
    /// The stage that holds the wall below its rate, in a sentence; none while it keeps up.
    pub held_by: Option<String>,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}

impl WallStatus {
    /// `491 W, 142 above idle (35.0 J/GB)`; none without a figure.
    pub fn power_words(&self) -> Option<String> {
        let watts = format!("{:.0} W", self.watts?);
        let Some(above) = self.above_idle_watts else { return Some(watts) };
        let moves = self.bytes_per_second > 0.0;
        let joules = moves.then(|| format!(" ({:.1} J/GB)", above * 1e9 / self.bytes_per_second));
        Some(format!("{watts}, {above:.0} above idle{}", joules.unwrap_or_default()))
    }
}

/// One tile and the worker that sends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileStatus {
    pub tile: TileId,
    /// Where its screen is.
    pub screen: String,
    /// The NIC that carries it now.
    pub nic: Option<String>,
    pub bytes_per_second: f64,
    pub bytes: u64,
    pub datagrams: u64,
    pub frames_sent: u64,
    /// Frames that were left out because the disk did not bring them in time.
    pub dropped_by_disk: u64,
    /// Because the network did not take the frame before in time.
    pub dropped_by_network: u64,
    /// Because the worker's core did not come round in time.
    pub dropped_by_cpu: u64,
    /// Shares of the last second of the worker's time: working, waiting for the disk, waiting for the
    /// network; the rest is the pacing.
    pub busy: f64,
    pub starved: f64,
    pub blocked: f64,
    /// Frames that are read ahead.
    pub prefetched: u32,
    /// What the screen reported last, and how many seconds ago; none: it never did.
    pub report: Option<ScreenReport>,
    pub report_age_seconds: Option<f64>,
    pub problem: Option<String>,
}

/// One NIC of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicStatus {
    pub name: String,
    /// UDP payload of our tiles, bytes per second.
    pub bytes_per_second: f64,
    /// What its counter says that all programs sent.
    pub wire_bytes_per_second: Option<f64>,
    /// Its link; none where it is unknown (veth).
    pub link_bits_per_second: Option<f64>,
    pub carrier: bool,
    pub tiles: Vec<TileId>,
    /// It does not carry what its tiles need, or has no carrier.
    pub problem: Option<String>,
}

/// One disk of the movie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    pub name: String,
    pub bytes_per_second: f64,
    pub tiles: Vec<TileId>,
    pub problem: Option<String>,
}

/// Another server of the same wall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its name in the layout; of the one that leads, where it is asked.
    pub name: String,
    pub leads: bool,
    /// Seconds since it was heard last; none: it never was.
    pub heard_seconds_ago: Option<f64>,
    pub problem: Option<String>,
}

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
