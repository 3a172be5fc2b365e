//! `linerate wall show`.

use crate::cli::arguments::values::{seconds, time};
use clap::Args;
use linerate_transport::address::{ListenAddressError, listen_address};
use linerate_wall::geometry::{GeometryError, Size, TileId};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Longest latency: buffers for a minute of frames are no screen.
const MOST_LATENCY: Duration = Duration::from_secs(10);

/// `linerate wall show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Port to receive on, or an address and port, which may be a multicast group's; once for each screen of
    /// this host [default: that of --sdp]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen)]
    pub listen: Vec<SocketAddr>,
    /// Join the multicast groups of --listen by this interface [default: the one that the routes say]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Tile of each screen, such as r0c0, in the order of --listen
    #[arg(long, value_name = "TILE", requires = "server")]
    pub tile: Vec<TileId>,
    /// Control channel of the server: it says what to expect, and this screen reports its health to it
    #[arg(long, value_name = "HOST[:PORT]", requires = "tile")]
    pub server: Option<String>,
    /// File with the server's key, which is waited for; - is standard input, whose end ends the screens [default: the
    /// digits in LINERATE_KEY]
    #[arg(long, value_name = "FILE", requires = "server")]
    pub key_file: Option<PathBuf>,
    /// Session description of the stream, in the order of --listen: size, rate and payload type [default: as the server
    /// says, else as the first whole frame and the timestamps tell]
    #[arg(long, value_name = "FILE")]
    pub sdp: Vec<PathBuf>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Prove each frame by its stamp or by the server's checksums, also of one that no window could show in
    /// time; without a window, unless --window or --full-screen asks for one; ends with 1 where anything was
    /// wrong, torn or lost
    #[arg(long)]
    pub verify: bool,
    /// Write each presented frame to this file, raw, end to end, without a window unless one is asked for; -
    /// is standard output
    #[arg(long, value_name = "FILE")]
    pub write: Vec<PathBuf>,
    /// From the start of a frame's tick until it is shown, such as 40ms [default: two frames and 10 ms]
    #[arg(long, value_name = "TIME", value_parser = time(Duration::ZERO..=MOST_LATENCY))]
    pub latency: Option<Duration>,
    /// Show a frame when the server says that all screens with a barrier hold it, those of the wall's other
    /// servers, too, instead of by the clock
    #[arg(long, requires = "server")]
    pub barrier: bool,
    /// End after this time, such as 90 (seconds) or 5m
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// End when a stream has come and then nothing for this long
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub until_silent: Option<f64>,
    #[arg(from_global)]
    pub json: bool,
}

/// Where a window goes.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Open a window of the tile's size, or of this one; q or Esc ends it, f is full screen. none: receive and count
    /// [default: of the tile's size; with --verify or --write none]
    #[arg(long, value_name = "WIDTHxHEIGHT|none", num_args = 0..=1, default_missing_value = "tile", value_parser = window, conflicts_with = "full_screen")]
    pub window: Option<WindowArg>,
    /// Cover an output: named once for each screen, or the primary one; several screens without names take
    /// one after the other
    #[arg(long, value_name = "OUTPUT", num_args = 0..=1, default_missing_value = "")]
    pub full_screen: Vec<String>,
}

/// `--window`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowArg {
    None,
    /// As large as the tile.
    OfTile,
    Of(Size),
}

impl WindowArg {
    /// Where it has one of its own.
    pub fn size(self) -> Option<Size> {
        if let WindowArg::Of(size) = self { Some(size) } else { None }
    }
}

fn window(text: &str) -> Result<WindowArg, GeometryError> {
    match text {
        "none" => Ok(WindowArg::None),
        "tile" => Ok(WindowArg::OfTile),
        size => size.parse().map(WindowArg::Of),
    }
}

/// `PORT`, `ADDRESS:PORT`, `[V6]:PORT`.
fn listen(text: &str) -> Result<SocketAddr, ListenAddressError> {
    listen_address(text, Ipv4Addr::UNSPECIFIED.into(), None)
}
