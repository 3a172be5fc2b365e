//! `linerate wall show`.

use crate::cli::arguments::values::{seconds, time};
use clap::Args;
use linerate_transport::address::{ListenAddressError, listen_address};
use linerate_wall::geometry::{FrameRate, Size, TileId};
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
    /// Session description of the stream, in the order of --listen: size, rate and payload type
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub sdp: Vec<PathBuf>,
    /// Pixels of the stream [default: the server's, else those of its first whole frame]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub size: Option<Size>,
    /// Frames a second, such as 24 or 30000/1001 [default: the server's, else as the timestamps tell]
    #[arg(long, value_name = "RATE")]
    pub fps: Option<FrameRate>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Open no window: receive and count
    #[arg(long, conflicts_with_all = ["window", "full_screen"])]
    pub headless: bool,
    /// Prove each frame by its stamp or by the server's checksums, also of one that no window could show in
    /// time; without a window, unless --window or --full-screen asks for one; ends with 1 where anything was
    /// wrong, torn or lost
    #[arg(long)]
    pub verify: bool,
    /// Prove each frame by a tile's raw file instead
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub against: Vec<PathBuf>,
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
    /// End after this number of frames was shown
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    pub frames: Option<u64>,
    /// End when a stream has come and then nothing for this long
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub until_silent: Option<f64>,
    /// Print the result as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Where a window goes.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Open a window of the tile's size, or of this one; q or Esc ends it, f is full screen [default without
    /// --headless, --verify and --write]
    #[arg(long, value_name = "WIDTHxHEIGHT", conflicts_with = "full_screen")]
    pub window: Option<Option<Size>>,
    /// Cover an output: named once for each screen, or the primary one; several screens without names take
    /// one after the other
    #[arg(long, value_name = "OUTPUT", num_args = 0..=1, default_missing_value = "")]
    pub full_screen: Vec<String>,
    /// List the outputs of the display, and do nothing else
    #[arg(long)]
    pub list_outputs: bool,
}

/// `PORT`, `ADDRESS:PORT`, `[V6]:PORT`.
fn listen(text: &str) -> Result<SocketAddr, ListenAddressError> {
    listen_address(text, Ipv4Addr::UNSPECIFIED.into(), None)
}
