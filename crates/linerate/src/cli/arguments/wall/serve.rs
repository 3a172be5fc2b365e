//! `linerate wall serve` and `linerate wall show`: the server of a wall, and its screens.

use crate::cli::arguments::values::{seconds, time};
use clap::Args;
use linerate_transport::address::{ListenAddressError, listen_address, resolve_named};
use linerate_wall::control::{DEFAULT_PAGE_PORT, DEFAULT_PORT};
use linerate_wall::geometry::{GeometryError, Size, TileId};
use linerate_wall::serve::ServedScreen;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// `linerate wall serve`.
#[derive(Debug, Args)]
pub struct WallServeArgs {
    /// Folder of a movie; the first one plays, further ones of the same shape may be opened from the control
    /// page
    #[arg(required = true, value_name = "MOVIE")]
    pub movies: Vec<PathBuf>,
    /// A tile's screen, such as r0c0=10.0.0.2:5004; where the screen has several NICs, all its addresses:
    /// r0c0=10.0.0.2:5004,10.0.1.2:5004; a multicast group for several screens: r0c0=239.1.2.3:5004
    #[arg(long, value_name = "TILE=HOST:PORT", value_parser = screen)]
    pub screen: Vec<ServedScreen>,
    /// Hosts of the screens in place of one --screen for each tile: the tiles are dealt to them in reading order,
    /// as many to each, to port 5004 and those after it; HOST:PORT begins at another
    #[arg(long, value_name = "HOST[:PORT],…", value_delimiter = ',', conflicts_with_all = ["screen", "layout"])]
    pub screens: Vec<String>,
    /// File with the wall's screens and servers instead of --screen
    #[arg(long, value_name = "FILE", conflicts_with = "screen")]
    pub layout: Option<PathBuf>,
    /// Which of the layout's servers this one is, where it names several; all but the first follow the first
    #[arg(long, value_name = "NAME", requires = "layout")]
    pub server: Option<String>,
    /// Start the screens on their hosts, too, end them with the server, and start again those that end earlier: by
    /// ssh, or by a launcher with {host} for a host, like 'mpirun -np 1 -H {host}'. What follows -- is for `wall
    /// show` there, like -- --verify. Without --key-file the key is made for this time
    #[arg(long, value_name = "COMMAND", num_args = 0..=1)]
    pub launch: Option<Option<String>>,
    /// More arguments of `wall show` on the hosts of --launch
    #[arg(last = true, value_name = "WORDS", requires = "launch")]
    pub show: Vec<String>,
    /// Address of the control channel; repeat for several [default: every address, port 7412]
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = control_address)]
    pub listen: Vec<SocketAddr>,
    /// Address of the control page, or none [default: 127.0.0.1:7413]
    #[arg(long, value_name = "ADDRESS[:PORT]|none", value_parser = page)]
    pub page: Option<PageArg>,
    /// File with the key of the control channel; made, mode 0600, where it is absent [default: the digits in
    /// LINERATE_KEY; without a key there is no channel and no page]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Play once and end
    #[arg(long)]
    pub once: bool,
    /// End after this time, such as 90 (seconds) or 5m
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// A NIC that may be used; repeat for several [default: all that reach a screen]
    #[arg(long, value_name = "NAME")]
    pub nic: Vec<String>,
    /// Routers that a multicast packet may pass, and one
    #[arg(long, value_name = "HOPS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: u8,
    /// Packets of at most this size [default: the NIC's MTU, at most 9216]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(128..=65535))]
    pub mtu: Option<u32>,
    /// Datagrams that the kernel is given at once: 64 are a wide sender of ST 2110-21, 8 a narrow one
    #[arg(long, value_name = "DATAGRAMS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub burst: u32,
    /// Write the session description of each tile into this folder (r0c0.sdp …), for stock receivers
    #[arg(long, value_name = "DIR")]
    pub sdp: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    /// Play although this machine is known not to carry it; frames are left out
    #[arg(long)]
    pub anyway: bool,
}

fn control_address(text: &str) -> Result<SocketAddr, ListenAddressError> {
    listen_address(text, Ipv6Addr::UNSPECIFIED.into(), Some(DEFAULT_PORT))
}

/// `--page`.
#[derive(Clone, Copy, Debug)]
pub enum PageArg {
    None,
    At(SocketAddr),
}

/// A port alone is this host's own.
fn page(text: &str) -> Result<PageArg, ListenAddressError> {
    match text {
        "none" => Ok(PageArg::None),
        at => listen_address(at, Ipv4Addr::LOCALHOST.into(), Some(DEFAULT_PAGE_PORT)).map(PageArg::At),
    }
}

/// `r0c0=HOST:PORT[,HOST:PORT…]`.
fn screen(text: &str) -> Result<ServedScreen, String> {
    let (tile, named) = text
        .split_once('=')
        .ok_or_else(|| format!("“{text}”: write TILE=HOST:PORT, like r0c0=10.0.0.2:5004"))?;
    let addresses: Vec<&str> = named.split(',').collect();
    Ok(ServedScreen {
        tile: tile.parse().map_err(|why: GeometryError| why.to_string())?,
        named: named.into(),
        to: resolve(&addresses)?,
    })
}

/// The addresses of one screen.
pub(crate) fn resolve(addresses: &[&str]) -> Result<Vec<SocketAddr>, String> {
    let mut to = Vec::new();
    for address in addresses {
        // All of a name's addresses would be one screen many times: the first is what everybody else takes.
        let found = resolve_named("--screen", address, 0).map_err(|failure| failure.to_string())?;
        if found.port() == 0 {
            return Err(format!("{address}: a port is missing; write HOST:PORT or [IPV6]:PORT"));
        }
        to.push(found);
    }
    Ok(to)
}

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
