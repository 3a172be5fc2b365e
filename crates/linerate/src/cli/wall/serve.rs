//! `linerate wall serve`.

use super::hosts;
use super::view::View;
use crate::cli::arguments::PowerArgs;
use crate::cli::arguments::values::{seconds, time};
use crate::cli::commands::{complain, print, print_json, stay_awake, width};
use crate::cli::stop::{Saved, end_what_hangs, stop_on_signals};
use clap::Args;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::probe;
use linerate_report::wall as screen_of;
use linerate_system::side_file::replace_whole;
use linerate_transport::address::{ListenAddressError, listen_address, resolve_named};
use linerate_transport::agent::{KEY_VARIABLE, Key};
use linerate_wall::control::{Conductor, DEFAULT_PAGE_PORT, DEFAULT_PORT, Hub, HubSettings};
use linerate_wall::geometry::{GeometryError, TileId, WallGrid};
use linerate_wall::layout::WallLayout;
use linerate_wall::movie::Movie;
use linerate_wall::serve::{Leader, Player, Sending, ServeSettings, ServedScreen, follow};
use std::fmt::Display;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The live view is drawn again this often.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// The end is looked for this often.
const LOOK: Duration = Duration::from_millis(20);

/// Its words.
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
    /// Address of the control channel; repeat for several [default: every address, port 7412]
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = control_address)]
    pub listen: Vec<SocketAddr>,
    /// Address of the control page [default: 127.0.0.1:7413]
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = page_address)]
    pub page: Option<SocketAddr>,
    /// Serve no control page
    #[arg(long, conflicts_with = "page")]
    pub no_page: bool,
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
    /// Read so much ahead, such as 250ms or 2s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = time(Duration::ZERO..=Duration::from_secs(3600)))]
    pub prefetch: Duration,
    /// Datagrams that the kernel is given at once: 64 are a wide sender of ST 2110-21, 8 a narrow one
    #[arg(long, value_name = "DATAGRAMS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub burst: u32,
    /// Write the session description of each tile into this folder (r0c0.sdp …), for stock receivers
    #[arg(long, value_name = "DIR")]
    pub sdp: Option<PathBuf>,
    /// Print the result as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Play although this machine is known not to carry it; frames are left out
    #[arg(long)]
    pub anyway: bool,
    /// Read with blocking calls on threads instead of io_uring
    #[arg(long)]
    pub no_io_uring: bool,
    /// Leave NICs, disks, cores and the bottleneck of this machine out of the view on a terminal: nothing is
    /// sampled for it
    #[arg(long)]
    pub no_live: bool,
    #[command(flatten)]
    pub power: PowerArgs,
    /// Keep cores from deep sleep while the wall plays (/dev/cpu_dma_latency; needs root, more power)
    #[arg(long)]
    pub awake: bool,
}

fn control_address(text: &str) -> Result<SocketAddr, ListenAddressError> {
    listen_address(text, Ipv6Addr::UNSPECIFIED.into(), Some(DEFAULT_PORT))
}

/// A port alone is this host's own.
fn page_address(text: &str) -> Result<SocketAddr, ListenAddressError> {
    listen_address(text, Ipv4Addr::LOCALHOST.into(), Some(DEFAULT_PAGE_PORT))
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
fn resolve(addresses: &[&str]) -> Result<Vec<SocketAddr>, String> {
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

/// What the layout says, or the words in its place.
struct Wall {
    grid: WallGrid,
    /// This server's.
    screens: Vec<ServedScreen>,
    leader: Option<Leader>,
    followers: Vec<(String, Vec<TileId>)>,
}

fn wall_of(words: &WallServeArgs, movie: &Movie) -> Result<Wall, Failure> {
    let Some(path) = &words.layout else {
        let grid = movie.manifest.grid;
        let screens = match words.screens.as_slice() {
            [] => words.screen.clone(),
            hosts => hosts::dealt(hosts, grid)?,
        };
        if !words.screens.is_empty() {
            hosts::words(&screens).iter().for_each(|line| complain(line));
        }
        return Ok(Wall { grid, screens, leader: None, followers: Vec::new() });
    };
    let wrong = |why: &dyn Display| Failure::Usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Lacks(format!("{}: {error}; name the file of the wall's layout", path.display()))
    })?;
    let layout = WallLayout::parse(&text).map_err(|why| wrong(&why))?;
    let tile = movie.manifest.tile;
    if let Some(size) = layout.tile.filter(|size| *size != tile) {
        return Err(wrong(&format!(
            "its screens have {size} pixels, the tiles of {} have {tile}",
            movie.name()
        )));
    }
    let mut screens = Vec::new();
    for screen in layout.screens_of(words.server.as_deref()).map_err(|why| wrong(&why))? {
        let addresses: Vec<&str> = screen.to.iter().map(String::as_str).collect();
        let to = resolve(&addresses).map_err(|why| wrong(&format!("screen {}: {why}", screen.tile)))?;
        screens.push(ServedScreen { tile: screen.tile, named: screen.to.join(","), to });
    }
    let server = words.server.as_deref();
    let leader = layout.leader_of(server).zip(server);
    Ok(Wall {
        grid: layout.grid,
        screens,
        leader: leader.map(|(address, name)| Leader { address: address.into(), name: name.into() }),
        followers: layout.followers_of(server),
    })
}

/// The key of the control channel, if there is to be one.
fn key_of(words: &WallServeArgs) -> Result<Option<Key>, Failure> {
    match &words.key_file {
        Some(path) => {
            let (key, made) = Key::read_or_make_file(path)?;
            if made {
                complain(&format!("made the key {}; copy it to the screens", path.display()));
            }
            Ok(Some(key))
        }
        None => match Key::from_environment()? {
            None if !words.listen.is_empty() || words.page.is_some() => Err(Failure::Usage(format!(
                "--listen and --page need a key: give --key-file FILE (it is made where it is absent) or set \
                 {KEY_VARIABLE}"
            ))),
            key => Ok(key),
        },
    }
}

/// The control channel and the page.
fn open_hub(player: &Arc<Player>, words: &WallServeArgs, key: Option<Key>) -> Result<Option<Hub>, Failure> {
    let Some(key) = key else {
        complain("without --key-file there is no control channel and no page: it plays, and Ctrl-C ends it");
        return Ok(None);
    };
    let listen = match &words.listen[..] {
        [] => vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT))],
        named => named.to_vec(),
    };
    let page = words.page.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PAGE_PORT)));
    let settings = HubSettings { listen, page: (!words.no_page).then_some(page), key };
    let conductor: Arc<dyn Conductor> = player.clone();
    let hub = Hub::start(conductor, settings)?;
    for address in hub.addresses() {
        complain(&format!("control channel on {address}"));
    }
    if let Some(url) = hub.page_url() {
        complain(&format!("control page: {url}"));
    }
    Ok(Some(hub))
}

/// Plays until the end, the time, or Ctrl-C.
pub(super) fn serve(words: &WallServeArgs) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let saved = Saved::default();
    end_what_hangs(&stop, &saved)?;
    let movies = words.movies.iter().map(|folder| Movie::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let Wall { grid, screens, leader, followers } = wall_of(words, &movies[0])?;
    let key = key_of(words)?;
    if let (Some(leader), None) = (&leader, &key) {
        return Err(Failure::Usage(format!(
            "following the server {} needs its key: give --key-file FILE or set {KEY_VARIABLE}",
            leader.address
        )));
    }
    let _awake = stay_awake(words.awake)?;
    let settings = ServeSettings {
        wall: grid,
        movies,
        screens,
        nics: words.nic.clone(),
        sending: Sending { mtu: words.mtu, multicast_hops: words.ttl },
        prefetch: words.prefetch,
        burst: words.burst as usize,
        looping: !words.once,
        io_uring: !words.no_io_uring,
        leader: leader.clone(),
        followers,
        power_commands: words.power.power_command.clone(),
        anyway: words.anyway,
    };
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    let player = Player::start(&sysroot, &machine, settings)?;
    // From here on there is something to tell at the end.
    saved.lock().get_or_insert_with(Default::default);
    if let Some(folder) = &words.sdp {
        write_sessions(&player, folder)?;
    }
    for note in player.notes() {
        complain(note);
    }
    let hub = open_hub(&player, words, key.clone())?;
    if let (Some(leader), Some(key), Some(hub)) = (leader, key, &hub) {
        follow(&player, leader, key, hub.teller())?;
    }
    let played = play(&player, words, &stop);
    player.stop();
    drop(hub);
    played?;
    end(&player, words)
}

/// Until something ends it.
fn play(player: &Arc<Player>, words: &WallServeArgs, stop: &AtomicBool) -> Result<(), Failure> {
    let began = Instant::now();
    let live = !words.json && std::io::stdout().is_terminal();
    let mut view = live.then(|| View::new(words));
    let mut drawn = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if words.seconds.is_some_and(|seconds| began.elapsed().as_secs_f64() >= seconds) {
            return Ok(());
        }
        if words.once && player.is_over() {
            return Ok(());
        }
        if let Some(view) = view.as_mut().filter(|_| drawn.elapsed() >= DRAW_EVERY) {
            drawn = Instant::now();
            view.draw(&player.status())?;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn end(player: &Player, words: &WallServeArgs) -> Result<u8, Failure> {
    let summary = player.summary();
    if words.json {
        print_json(&summary)?;
    } else {
        print(&screen_of::summary(&summary, width()))?;
    }
    for problem in &summary.problems {
        complain(problem);
    }
    Ok(u8::from(player.failed()))
}

fn write_sessions(player: &Player, folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Lacks(format!("{}: {error}; name a folder that you may write", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    for session in player.sessions() {
        let path = folder.join(format!("{}.sdp", session.tile));
        replace_whole(&path, session.text().as_bytes()).map_err(failed)?;
    }
    Ok(())
}
