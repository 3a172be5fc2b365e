//! `linerate wall demo`: a movie, its server and its screens in one process, on this machine.
//!
//! Nothing here plays or receives by itself: the movie is made by `generate` or `import`, the server is that
//! of `serve`, the screens are those of `show`. They meet on loopback.

mod browser;
mod folder;
mod place;
mod summary;

use super::generate::{interrupted, painted};
use super::import::cut;
use super::show;
use crate::cli::arguments::wall::{DemoArgs, ImportArgs, WallGenerateArgs};
use crate::cli::output::Output;
use crate::cli::stop::stop_on_signals;
use folder::DemoFolder;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::probe;
use linerate_transport::agent::Key;
use linerate_wall::control::{Conductor, Hub, HubSettings};
use linerate_wall::geometry::{FrameRate, Size, TileId, WallGrid};
use linerate_wall::movie::{Fit, Movie, check_there};
use linerate_wall::serve::{Player, Sending, ServeSettings, ServedScreen};
use linerate_wall::show::{
    Finished, Listening, Output as FrameOutput, ScreenEnd, ScreenSpec, ScreenWindow, ScreenWindowSpec,
    ServerSpec,
};
use place::WindowGrid;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use summary::DemoSummary;

/// More screens than one machine plays at once.
const MOST_SCREENS: usize = 64;
/// All tiles of the movie together: it is made while somebody waits, perhaps in memory (tmpfs).
const MOST_BYTES: u64 = 512 << 20;
/// The test movie begins again after this.
const TEST_SECONDS: f64 = 4.0;
/// What the test movie is played at.
const CINEMA: FrameRate = FrameRate { numerator: 24, denominator: 1 };
/// What was sent last is shown before the screens end: their latency, and a bit.
const LAST_FRAMES: Duration = Duration::from_millis(300);
/// The end is looked for this often.
const LOOK: Duration = Duration::from_millis(20);

/// Makes the movie, plays it to screens of this process, and sums up what they saw.
pub(super) fn demo(words: &DemoArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    if words.tiles.len() > MOST_SCREENS {
        return Err(Failure::Usage(format!(
            "--tiles {}: a demo has {MOST_SCREENS} screens at most; name fewer tiles",
            words.tiles
        )));
    }
    words.film.as_ref().map_or(Ok(()), |film| check_there(film))?;
    let windows = (!words.no_windows).then(|| WindowGrid::on_display(words.tiles, words.tile)).transpose()?;
    let tile = match &windows {
        Some(windows) => windows.tile,
        None => place::without_windows(words.tile)?,
    };
    // Dropped last: the folder goes when nothing plays from it any more.
    let folder = DemoFolder::make(most_bytes(words.tiles, tile), output)?;
    let Some(movie) = movie(words, tile, &folder, &stop, output)? else {
        return interrupted(folder.path(), output);
    };
    let (key, _) = Key::read_or_make_file(&folder.path().join("key"))?;
    let mut screens = screens(&movie, windows.as_ref())?;
    let player = player(movie.clone(), &screens)?;
    let hub = hub(&player, key.clone())?;
    announce(words, &hub, &folder, output);
    let control = hub.addresses().first().map(SocketAddr::to_string).unwrap_or_default();
    for screen in &mut screens {
        screen.join(ServerSpec { address: control.clone(), key: key.clone() });
    }
    let finished = play(&player, screens, words.seconds, &stop, output)?;
    drop(hub);
    end(&player, &movie, finished, output)
}

/// Room for the movie: a frame of each tile at least.
fn most_bytes(tiles: WallGrid, tile: Size) -> u64 {
    MOST_BYTES.max((tile.frame_bytes() * tiles.len()) as u64)
}

/// The movie in its folder; none where somebody stopped it.
fn movie(
    words: &DemoArgs,
    tile: Size,
    folder: &DemoFolder,
    stop: &AtomicBool,
    output: &Output,
) -> Result<Option<Movie>, Failure> {
    let grid = words.tiles;
    let most = (MOST_BYTES / (tile.frame_bytes() * grid.len()) as u64).clamp(1, u64::from(u32::MAX)) as u32;
    let folder = folder.path().join("demo");
    let Some(film) = &words.film else {
        let fps = words.fps.unwrap_or(CINEMA);
        let frames = ((fps.per_second() * TEST_SECONDS).ceil() as u32).clamp(1, most);
        let args = WallGenerateArgs { folder, grid, tile, fps, frames, spread: Vec::new() };
        return painted(&args, stop, output);
    };
    let words = ImportArgs {
        film: film.clone(),
        folder,
        size: None,
        pixels: None,
        grid,
        tile: Some(tile),
        fps: words.fps,
        frames: Some(most),
        fit: Fit::Pad,
        stamp: false,
        spread: Vec::new(),
        ffmpeg: None,
    };
    cut(&words, stop, output)
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
            against: None,
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
        prefetch: Duration::from_millis(250),
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

fn announce(words: &DemoArgs, hub: &Hub, folder: &DemoFolder, output: &Output) {
    for address in hub.addresses() {
        let key = folder.path().join("key");
        output.complain(&format!("control channel on {address}, its key in {}", key.display()));
    }
    if let Some(url) = hub.page_url() {
        output.complain(&format!("control page: {url}"));
        browser::open(words, &url);
    }
    output.complain(match (words.no_windows, words.seconds) {
        (_, Some(_)) => "it plays; Ctrl-C ends it earlier",
        (true, None) => "it plays; Ctrl-C ends it",
        (false, None) => "it plays; q in a window or Ctrl-C ends it",
    });
}

/// Plays until the time, Ctrl-C or the end of a screen. The server ends first: a screen that were gone before
/// it would be called absent.
fn play(
    player: &Player,
    screens: Vec<Listening>,
    seconds: Option<f64>,
    stop: &AtomicBool,
    output: &Output,
) -> Result<Vec<Finished>, Failure> {
    let (began, ending, ended) = (Instant::now(), AtomicBool::new(false), AtomicBool::new(false));
    let wanted = || {
        let over = seconds.is_some_and(|seconds| began.elapsed().as_secs_f64() >= seconds);
        over || stop.load(Ordering::Relaxed) || ending.load(Ordering::Relaxed)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !wanted() {
                std::thread::sleep(LOOK);
            }
            player.stop();
            std::thread::sleep(LAST_FRAMES);
            ended.store(true, Ordering::Relaxed);
        });
        show::run(screens, false, &ended, output, |_| ending.store(true, Ordering::Relaxed))
    })
}

fn end(player: &Player, movie: &Movie, finished: Vec<Finished>, output: &Output) -> Result<u8, Failure> {
    let (screens, failures): (Vec<_>, Vec<_>) =
        finished.into_iter().map(|Finished { summary, failure }| (summary, failure)).unzip();
    let summary = DemoSummary::of(&movie.manifest, &screens, &player.summary());
    output.print(&summary.text())?;
    match failures.into_iter().flatten().next() {
        Some(failure) => Err(failure),
        None => Ok(u8::from(!summary.is_well())),
    }
}
