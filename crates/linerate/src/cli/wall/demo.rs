//! `linerate wall demo`: a movie, its server and its screens in one process, on this machine.
//!
//! Nothing here plays or receives by itself: the movie is made by `generate` or `import`, the server is that
//! of `serve`, the screens are those of `show`. They meet on loopback.

mod place;

use super::movie::{CINEMA, cut, interrupted, painted};
use super::show;
use crate::cli::arguments::wall::{DemoArgs, ImportArgs, WallGenerateArgs};
use crate::cli::output::Output;
use crate::cli::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_machine::probe::probe;
use linerate_system::clock;
use linerate_system::file::space_at;
use linerate_system::stop::{Stop, any_ended};
use linerate_transport::agent::{Key, random};
use linerate_wall::control::{Conductor, Hub, HubSettings, ScreenReport};
use linerate_wall::geometry::{Size, TileId, WallGrid};
use linerate_wall::movie::{Fit, Manifest, Movie, check_there};
use linerate_wall::serve::{Player, Sending, ServeSettings, ServedScreen};
use linerate_wall::show::{
    Finished, Listening, Output as FrameOutput, ScreenEnd, ScreenSpec, ScreenSummary, ScreenWindow,
    ScreenWindowSpec, ServerSpec,
};
use linerate_wall::status::WallStatus;
use place::WindowGrid;
use std::fs::DirBuilder;
use std::io::{ErrorKind, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// More screens than one machine plays at once.
const MOST_SCREENS: usize = 64;
/// All tiles of the movie together: it is made while somebody waits, perhaps in memory (tmpfs).
const MOST_BYTES: u64 = 512 << 20;
/// The test movie begins again after this.
const TEST_SECONDS: f64 = 4.0;
/// What was sent last is shown before the screens end: their latency, and a bit.
const LAST_FRAMES: Duration = Duration::from_millis(300);

/// Makes the movie, plays it to screens of this process, and sums up what they saw.
pub(super) fn demo(args: &DemoArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    if args.tiles.len() > MOST_SCREENS {
        return Err(Failure::Usage(format!(
            "--tiles {}: a demo has {MOST_SCREENS} screens at most; name fewer tiles",
            args.tiles
        )));
    }
    args.film.as_ref().map_or(Ok(()), |film| check_there(film))?;
    let windows = (!args.no_windows).then(|| WindowGrid::on_display(args.tiles, args.tile)).transpose()?;
    let tile = match &windows {
        Some(windows) => windows.tile,
        None => place::without_windows(args.tile)?,
    };
    // Dropped last: the folder goes when nothing plays from it any more.
    let folder = DemoFolder::make(most_bytes(args.tiles, tile), output)?;
    let Some(movie) = movie(args, tile, &folder, &stop, output)? else {
        return interrupted(folder.path(), output);
    };
    let (key, _) = Key::read_or_make_file(&folder.path().join("key"))?;
    let mut screens = screens(&movie, windows.as_ref())?;
    let player = player(movie.clone(), &screens)?;
    let hub = hub(&player, key.clone())?;
    announce(args, &hub, &folder, output);
    let control = hub.addresses().first().map(SocketAddr::to_string).unwrap_or_default();
    for screen in &mut screens {
        screen.join(ServerSpec { address: control.clone(), key: key.clone() });
    }
    let finished = play(&player, screens, args.seconds, &stop, output)?;
    drop(hub);
    end(&player, &movie, finished, output)
}

/// Room for the movie: a frame of each tile at least.
fn most_bytes(tiles: WallGrid, tile: Size) -> u64 {
    MOST_BYTES.max((tile.frame_bytes() * tiles.len()) as u64)
}

/// The movie in its folder; none where somebody stopped it.
fn movie(
    demo_args: &DemoArgs,
    tile: Size,
    folder: &DemoFolder,
    stop: &Stop,
    output: &Output,
) -> Result<Option<Movie>, Failure> {
    let grid = demo_args.tiles;
    let most = (MOST_BYTES / (tile.frame_bytes() * grid.len()) as u64).clamp(1, u64::from(u32::MAX)) as u32;
    let folder = folder.path().join("demo");
    let Some(film) = &demo_args.film else {
        let fps = demo_args.fps.unwrap_or(CINEMA);
        let frames = ((fps.per_second() * TEST_SECONDS).ceil() as u32).clamp(1, most);
        let args = WallGenerateArgs { folder, grid, tile, fps, frames, spread: Vec::new() };
        return painted(&args, stop, output);
    };
    let demo_args = ImportArgs {
        film: film.clone(),
        folder,
        size: None,
        pixels: None,
        grid,
        tile: Some(tile),
        fps: demo_args.fps,
        frames: Some(most),
        fit: Fit::Pad,
        stamp: false,
        spread: Vec::new(),
    };
    cut(&demo_args, stop, output)
}

/// A screen for each tile, on a port of its own.
fn screens(movie: &Movie, windows: Option<&WindowGrid>) -> Result<Vec<Listening>, Failure> {
    let tiles: Vec<TileId> = movie.manifest.grid.tiles().collect();
    let count = tiles.len();
    let open = |(index, tile): (usize, TileId)| {
        let mut outputs: Vec<Box<dyn FrameOutput>> = Vec::new();
        if let Some(windows) = windows {
            outputs.push(Box::new(ScreenWindow::open(ScreenWindowSpec {
                place: windows.of(tile),
                name: tile.to_string(),
                frame: Some(movie.manifest.tile),
                index,
                screens: count,
                without: place::WITHOUT,
            })?));
        }
        let spec = ScreenSpec {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            interface: None,
            tile: Some(tile),
            server: None,
            size: Some(movie.manifest.tile),
            rate: Some(movie.manifest.frames_per_second),
            payload_type: None,
            verify: true,
            latency: None,
            barrier: false,
            end: ScreenEnd::default(),
        };
        Listening::open(spec, outputs)
    };
    tiles.into_iter().enumerate().map(open).collect()
}

/// The server that plays to them.
fn player(movie: Movie, screens: &[Listening]) -> Result<Arc<Player>, Failure> {
    let served = |(tile, screen): (TileId, &Listening)| ServedScreen {
        tile,
        named: screen.address().to_string(),
        to: vec![screen.address()],
    };
    let wall = movie.manifest.grid;
    let settings = ServeSettings {
        wall,
        screens: wall.tiles().zip(screens).map(served).collect(),
        movies: vec![movie],
        nics: Vec::new(),
        sending: Sending { mtu: None, multicast_hops: 1 },
        burst: 64,
        looping: true,
        io_uring: true,
        leader: None,
        followers: Vec::new(),
        power_commands: Vec::new(),
        // What a slow machine leaves out is counted and named at the end.
        anyway: true,
    };
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    Player::start(&sysroot, &machine, settings)
}

/// The control channel and the page, on free ports: a server may run here already.
fn hub(player: &Arc<Player>, key: Key) -> Result<Hub, Failure> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let conductor: Arc<dyn Conductor> = player.clone();
    Hub::start(conductor, HubSettings { listen: vec![any], page: Some(any), key })
}

fn announce(args: &DemoArgs, hub: &Hub, folder: &DemoFolder, output: &Output) {
    for address in hub.addresses() {
        let key = folder.path().join("key");
        output.complain(&format!("control channel on {address}, its key in {}", key.display()));
    }
    if let Some(url) = hub.page_url() {
        output.complain(&format!("control page: {url}"));
        open_page(args, &url);
    }
    output.complain(match (args.no_windows, args.seconds) {
        (_, Some(_)) => "it plays; Ctrl-C ends it earlier",
        (true, None) => "it plays; Ctrl-C ends it",
        (false, None) => "it plays; q in a window or Ctrl-C ends it",
    });
}

/// Opens the control page where a person started the demo on a display; without xdg-open the printed address
/// remains.
fn open_page(args: &DemoArgs, url: &str) {
    if !is_wanted(args, std::io::stdin().is_terminal(), std::env::var_os("DISPLAY").is_some()) {
        return;
    }
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a group of its own: Ctrl-C ends the demo and not the browser.
    let _ = command.process_group(0).spawn();
}

fn is_wanted(args: &DemoArgs, terminal: bool, display: bool) -> bool {
    terminal && display && !args.no_browser
}

/// Plays until the time, Ctrl-C or the end of a screen. The server ends first: a screen that were gone before
/// it would be called absent.
fn play(
    player: &Player,
    screens: Vec<Listening>,
    seconds: Option<f64>,
    stop: &Stop,
    output: &Output,
) -> Result<Vec<Finished>, Failure> {
    let (ending, ended) = (Stop::new(), Stop::new());
    let until = seconds.map(|seconds| clock::now() + Duration::from_secs_f64(seconds));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            any_ended(&[stop, &ending], until);
            player.stop();
            // It ends: no stop shortens what its last frames need.
            clock::sleep(LAST_FRAMES);
            ended.end();
        });
        show::run(screens, false, &ended, output, |_| ending.end())
    })
}

fn end(player: &Player, movie: &Movie, finished: Vec<Finished>, output: &Output) -> Result<u8, Failure> {
    let (screens, failures): (Vec<_>, Vec<_>) =
        finished.into_iter().map(|Finished { summary, failure }| (summary, failure)).unzip();
    let (text, is_well) = summary(&movie.manifest, &screens, &player.summary());
    output.print(&text)?;
    failures.into_iter().flatten().next().map_or_else(|| Ok(u8::from(!is_well)), Err)
}

/// All screens together, for a person; whether each of them proved frames, and nothing was lost or wrong.
fn summary(movie: &Manifest, screens: &[ScreenSummary], server: &WallStatus) -> (String, bool) {
    let sum = |of: fn(&ScreenReport) -> u64| screens.iter().map(|screen| of(&screen.report)).sum::<u64>();
    let seconds = screens.iter().map(|screen| screen.seconds).fold(0.0, f64::max);
    let rate = sum(|of| of.bytes) as f64 / seconds.max(1e-3);
    let (late, proven, wrong) =
        (sum(|of| of.frames_late), sum(|of| of.frames_proven), sum(|of| of.frames_wrong));
    let (torn, missing, left_out) =
        (sum(|of| of.frames_torn), sum(|of| of.frames_missing), server.frames_dropped);
    let lost = sum(|of| of.datagrams_lost);
    let dark = screens.iter().filter(|screen| screen.report.frames_proven == 0);
    let dark: Vec<String> = dark.filter_map(|screen| Some(screen.report.tile?.to_string())).collect();
    let is_well = dark.is_empty() && torn + missing + wrong + left_out + lost == 0;
    let mut text = format!(
        "{} ({}) for {seconds:.1} s to {}, {} tiles of {} pixels at {} frames/s\n\
         \x20 frames     {} shown, {late} of them late; {proven} proven, {wrong} wrong\n\
         \x20 lost       {torn} torn, {missing} missing, {left_out} left out by the server; {lost} datagrams; {} not \
         painted in time\n",
        show_bits_rate(rate),
        show_bytes_rate(rate),
        counted(screens.len(), "screen"),
        movie.grid,
        movie.tile,
        movie.frames_per_second,
        sum(|of| of.frames_shown) + late,
        sum(|of| of.frames_window_dropped.unwrap_or(0))
    );
    if !dark.is_empty() {
        text += &format!("  problem    no frame came to {}\n", dark.join(", "));
    }
    if !is_well {
        let why = server.held_by.as_deref().unwrap_or("this machine did not keep up with its own screens");
        text += &format!("  problem    {why}; try fewer tiles (--tiles) or smaller ones (--tile)\n");
    }
    (text, is_well)
}

/// Names that are tried; one of 64 random bits is hardly ever taken.
const FOLDER_NAME_TRIES: usize = 8;

/// A new folder in the one for temporary files, for this user alone; removed, with all that is in it, when
/// this is dropped.
#[derive(Debug)]
struct DemoFolder {
    path: PathBuf,
    output: Output,
}

impl DemoFolder {
    /// Makes it where there is room.
    fn make(bytes: u64, output: &Output) -> Result<DemoFolder, Failure> {
        let above = std::env::temp_dir();
        let failed = |why: &dyn std::fmt::Display| {
            let above = above.display();
            Failure::Lacks(format!(
                "{above} takes no folder for the movie: {why}; name another in TMPDIR, on a disk with room"
            ))
        };
        let (free, _) = space_at(&above).map_err(|error| failed(&error))?;
        if free < bytes {
            return Err(failed(&format!(
                "it may need {}, and {} are free",
                show_size(bytes),
                show_size(free)
            )));
        }
        for _ in 0..FOLDER_NAME_TRIES {
            let name = random::<8>().map_err(|error| failed(&error))?;
            let path = above.join(format!("linerate-demo-{:016x}", u64::from_le_bytes(name)));
            // What is there already, even as a link, is never taken.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(DemoFolder { path, output: output.clone() }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(failed(&"every name that was tried is taken"))
    }

    /// Where it is.
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            let folder = self.path.display();
            self.output.complain(&format!("{folder} is not removed: {error}; remove it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: DemoArgs,
    }

    #[test]
    fn a_browser_opens_only_for_a_person_on_a_display() {
        let plain = Line::parse_from(["demo"]).args;
        assert!(is_wanted(&plain, true, true));
        assert!(!is_wanted(&plain, false, true) && !is_wanted(&plain, true, false));
        assert!(!is_wanted(&Line::parse_from(["demo", "--no-browser"]).args, true, true));
    }
}
