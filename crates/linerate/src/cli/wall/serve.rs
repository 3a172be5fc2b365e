//! `linerate wall serve`, and its live view on its terminal: how the wall does, and below it the parts of the
//! machine that it works on.

use super::launched::{self, LaunchedScreens, never_came};
use crate::cli::arguments::wall::{PageArg, WallServeArgs, resolve};
use crate::cli::arguments::{may_use_io_uring, power_commands};
use crate::cli::output::Output;
use crate::cli::progress::MachineView;
use crate::cli::stop::{Saved, end_run_that_hangs, stop_on_signals};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::probe;
use linerate_report::{wall, wall as screen_of};
use linerate_system::clock;
use linerate_system::side_file::replace_whole;
use linerate_system::stop::{Stop, any_ended};
use linerate_transport::agent::{KEY_VARIABLE, Key};
use linerate_wall::control::{Conductor, DEFAULT_PAGE_PORT, DEFAULT_PORT, Hub, HubSettings};
use linerate_wall::geometry::{TileId, WallGrid};
use linerate_wall::layout::WallLayout;
use linerate_wall::movie::Movie;
use linerate_wall::serve::{Leader, Player, Sending, ServeSettings, ServedScreen, follow};
use linerate_wall::status::WallStatus;
use linerate_watch::terminal::panel::{Busy, machine, near_limit};
use linerate_watch::terminal::{InlineView, Theme, has_room, size_or_usual};
use ratatui::text::Line;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stdout};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The live view is drawn again this often.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// From the last datagram until its frame was shown.
const LAST_FRAMES: Duration = Duration::from_millis(500);
/// With `--once` the end of the movie is looked for this often.
const OVER_LOOK: Duration = Duration::from_millis(20);

/// What the layout says, or the words in its place.
struct Wall {
    grid: WallGrid,
    /// This server's.
    screens: Vec<ServedScreen>,
    leader: Option<Leader>,
    followers: Vec<(String, Vec<TileId>)>,
}

fn wall_of(args: &WallServeArgs, movie: &Movie, output: &Output) -> Result<Wall, Failure> {
    let Some(path) = &args.layout else {
        let grid = movie.manifest.grid;
        let screens = match args.screens.as_slice() {
            [] => args.screen.clone(),
            hosts => launched::dealt(hosts, grid)?,
        };
        if !args.screens.is_empty() {
            launched::words(&screens).iter().for_each(|line| output.complain(line));
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
    for screen in layout.screens_of(args.server.as_deref()).map_err(|why| wrong(&why))? {
        let addresses: Vec<&str> = screen.to.iter().map(String::as_str).collect();
        let to = resolve(&addresses).map_err(|why| wrong(&format!("screen {}: {why}", screen.tile)))?;
        screens.push(ServedScreen { tile: screen.tile, named: screen.to.join(","), to });
    }
    let server = args.server.as_deref();
    let leader = layout.leader_of(server).zip(server);
    Ok(Wall {
        grid: layout.grid,
        screens,
        leader: leader.map(|(address, name)| Leader { address: address.into(), name: name.into() }),
        followers: layout.followers_of(server),
    })
}

/// The key of the control channel, if there is to be one.
fn key_of(args: &WallServeArgs, output: &Output) -> Result<Option<Key>, Failure> {
    match &args.key_file {
        Some(path) => {
            let (key, is_new) = Key::read_or_make_file(path)?;
            if is_new {
                output.complain(&format!("made the key {}; copy it to the screens", path.display()));
            }
            Ok(Some(key))
        }
        None => match Key::from_environment()? {
            None if args.launch.is_some() => Key::random().map(Some),
            None if !args.listen.is_empty() || matches!(args.page, Some(PageArg::At(_))) => {
                Err(Failure::Usage(format!(
                    "--listen and --page need a key: give --key-file FILE (it is made where it is absent) or set \
                 {KEY_VARIABLE}"
                )))
            }
            key => Ok(key),
        },
    }
}

/// The control channel and the page.
fn open_hub(
    player: &Arc<Player>,
    args: &WallServeArgs,
    key: Option<Key>,
    output: &Output,
) -> Result<Option<Hub>, Failure> {
    let Some(key) = key else {
        output.complain(
            "without --key-file there is no control channel and no page: it plays, and Ctrl-C ends it",
        );
        return Ok(None);
    };
    let listen = match &args.listen[..] {
        [] => vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT))],
        named => named.to_vec(),
    };
    let page = match args.page {
        None => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PAGE_PORT))),
        Some(PageArg::At(address)) => Some(address),
        Some(PageArg::None) => None,
    };
    let settings = HubSettings { listen, page, key };
    let conductor: Arc<dyn Conductor> = player.clone();
    let hub = Hub::start(conductor, settings)?;
    for address in hub.addresses() {
        output.complain(&format!("control channel on {address}"));
    }
    if let Some(url) = hub.page_url() {
        output.complain(&format!("control page: {url}"));
    }
    Ok(Some(hub))
}

/// Plays until the end, the time, or Ctrl-C.
pub(super) fn serve(args: &WallServeArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let saved = Saved::default();
    end_run_that_hangs(&stop, &saved, output)?;
    let movies = args.movies.iter().map(|folder| Movie::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let Wall { grid, screens, leader, followers } = wall_of(args, &movies[0], output)?;
    let key = key_of(args, output)?;
    if let (Some(leader), None) = (&leader, &key) {
        return Err(Failure::Usage(format!(
            "following the server {} needs its key: give --key-file FILE or set {KEY_VARIABLE}",
            leader.address
        )));
    }
    let settings = ServeSettings {
        wall: grid,
        movies,
        screens,
        nics: args.nic.clone(),
        sending: Sending { mtu: args.mtu, multicast_hops: args.ttl },
        burst: args.burst as usize,
        looping: !args.once,
        io_uring: may_use_io_uring(),
        leader: leader.clone(),
        followers,
        power_commands: power_commands(),
        anyway: args.anyway,
    };
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    let served = settings.screens.clone();
    let player = Player::start(&sysroot, &machine, settings)?;
    // From here on there is something to tell at the end.
    saved.lock().get_or_insert_with(Default::default);
    if let Some(folder) = &args.sdp {
        write_sessions(&player, folder)?;
    }
    for note in player.notes() {
        output.complain(note);
    }
    let hub = open_hub(&player, args, key.clone(), output)?;
    let launched = match (&args.launch, &hub, &key) {
        (Some(launcher), Some(hub), Some(key)) => {
            let here = (&sysroot, &machine);
            Some(LaunchedScreens::start(args, launcher.as_deref(), here, &served, (hub.addresses(), key))?)
        }
        _ => None,
    };
    if let (Some(leader), Some(key), Some(hub)) = (leader, key, &hub) {
        follow(&player, leader, key, hub.notifier())?;
    }
    let played = match launched {
        Some(launched) => play_with(launched, &player, args, &stop, output),
        None => play(&player, args, &stop, output),
    };
    player.stop();
    drop(hub);
    played?;
    end(&player, args, output)
}

/// The same while the screens are kept running; they end after the last frame and report to the hub before it does.
fn play_with(
    mut launched: LaunchedScreens,
    player: &Arc<Player>,
    args: &WallServeArgs,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    let over = Stop::new();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            launched.keep(&over, output);
            launched
        });
        let played = play(player, args, stop, output);
        player.stop();
        // What is on the way is shown first.
        over.wait(LAST_FRAMES);
        over.end();
        drop(keeper.join());
        played
    })
}

/// Until something ends it.
fn play(player: &Arc<Player>, args: &WallServeArgs, stop: &Stop, output: &Output) -> Result<(), Failure> {
    let live = !args.json && std::io::stdout().is_terminal();
    let mut view = live.then(ServerView::new);
    let end = args.seconds.map(|seconds| clock::now() + Duration::from_secs_f64(seconds));
    let mut drawn = clock::now() + DRAW_EVERY;
    while !stop.is_ended() {
        if end.is_some_and(|end| clock::now() >= end) || args.once && player.is_over() {
            return Ok(());
        }
        if let Some(view) = view.as_mut().filter(|_| clock::now() >= drawn) {
            drawn = clock::now() + DRAW_EVERY;
            view.draw(&player.status(), output)?;
        }
        let over = args.once.then(|| clock::now() + OVER_LOOK);
        let due = [end, over, live.then_some(drawn)].into_iter().flatten().min();
        any_ended(&[stop], due);
    }
    Ok(())
}

fn end(player: &Player, args: &WallServeArgs, output: &Output) -> Result<u8, Failure> {
    let mut summary = player.summary();
    let absent = args.launch.as_ref().and_then(|_| never_came(&summary.tiles));
    let failed = player.failed() || absent.is_some();
    summary.problems.extend(absent);
    output.show(args.json, &summary, || screen_of::summary(&summary, output.width()))?;
    for problem in &summary.problems {
        output.complain(problem);
    }
    Ok(u8::from(failed))
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

/// The view, drawn again and again over itself.
struct ServerView {
    /// None where it is not wanted, or the terminal is too small for it.
    machine: Option<MachineView>,
    busy: Busy,
    inline: InlineView,
    theme: Theme,
}

impl ServerView {
    /// Nothing is drawn yet; the machine is sampled from now on.
    fn new() -> ServerView {
        ServerView {
            machine: has_room(stdout()).then(MachineView::start).flatten(),
            busy: Busy::default(),
            inline: InlineView::default(),
            theme: Theme::of_environment(),
        }
    }

    /// Draws it over the last one.
    fn draw(&mut self, status: &WallStatus, output: &Output) -> Result<(), Failure> {
        let (width, height) = size_or_usual(stdout());
        // The line below the view is the cursor's.
        let height = height.saturating_sub(1).max(1);
        // The tiles come first: the machine has a third.
        let machine = self.machine_lines(status, width, height / 3);
        let left = height.saturating_sub(machine.len());
        let elsewhere = if machine.is_empty() { Vec::new() } else { self.busy.nics() };
        let text = wall::live(status, width, left, &elsewhere);
        let lines: Vec<Line<'_>> = text.lines().map(Line::from).chain(machine).collect();
        output.print(&self.inline.frame(&[], &lines, width))?;
        let _ = stdout().flush();
        Ok(())
    }

    /// The parts of the machine; its bottleneck is named here only while the wall names none.
    fn machine_lines(&mut self, status: &WallStatus, width: usize, rows: usize) -> Vec<Line<'static>> {
        let Some(latest) = self.machine.as_ref().map(|machine| &machine.latest) else { return Vec::new() };
        let Some(newest) = latest.newest() else { return Vec::new() };
        let (moment, width) = (&newest.moment, width.saturating_sub(1));
        self.busy.note(moment);
        let mut lines = Vec::new();
        if let (None, Some(what)) = (&status.held_by, &moment.bottleneck) {
            lines.push(near_limit(what, self.theme, width));
        }
        let room = rows.saturating_sub(lines.len());
        lines.extend(machine(moment, &latest.history(), &self.busy, self.theme, width, room));
        lines
    }
}

impl Drop for ServerView {
    fn drop(&mut self) {
        self.machine.iter().for_each(MachineView::stop);
    }
}
