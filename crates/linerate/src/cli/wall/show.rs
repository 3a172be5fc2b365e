//! `linerate wall show`: the words made into screens and their windows, the screens run, what they tell
//! printed. How they do is on the terminal at standard error while they run, and gone when they end, since the
//! result says it all.

use crate::cli::arguments::wall::{ShowArgs, WindowArg, WindowArgs};
use crate::cli::fleet::key_of_standard_input;
use crate::cli::output::{Output, StatusLines};
use crate::cli::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_report::wall_screens;
use linerate_system::counters::process_cpu;
use linerate_system::stop::Stop;
use linerate_transport::agent::Key;
use linerate_wall::show::{
    Description, Finished, LatestScreen, Listening, Output as FrameOutput, Raw, ScreenEnd, ScreenSnapshot,
    ScreenSpec, ScreenSummary, ScreenWindow, ScreenWindowSpec, ServerSpec, ShowSummary, WindowPlacement,
    describe,
};
use linerate_watch::terminal::size_or_usual;
use ratatui::text::Line;
use std::fmt::Display;
use std::io::{self, IsTerminal, stderr};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a key that is not there is looked for.
const LOOK_FOR_KEY: Duration = Duration::from_millis(200);
/// More screens than a host has outputs.
const MOST_SCREENS: usize = 64;

/// Does `linerate wall show`.
pub(super) fn show(args: &ShowArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let begun = process_cpu();
    let orders = orders(args, &stop, output)?;
    let count = orders.len();
    let screens = orders.into_iter().enumerate();
    let screens: Result<Vec<_>, _> =
        screens.map(|(index, spec)| open(args, (index, count), spec, output)).collect();
    // One that fails ends the others, one whose window was closed does not.
    let at_end = |done: &Result<Finished, Failure>| {
        if !matches!(done, Ok(Finished { failure: None, .. })) {
            stop.end();
        }
    };
    let (summaries, failures): (Vec<_>, Vec<_>) = run(screens?, args.json, &stop, output, at_end)?
        .into_iter()
        .map(|Finished { summary, failure }| (summary, failure))
        .unzip();
    let summary = ShowSummary::new(summaries, process_cpu().saturating_sub(begun));
    tell(args, &summary, output)?;
    if let Some(failure) = failures.into_iter().flatten().next() {
        return Err(failure);
    }
    let proven = summary.screens.iter().all(ScreenSummary::is_proven);
    Ok(u8::from(args.verify && !proven))
}

/// A screen that listens, with what it shows on.
fn open(
    args: &ShowArgs,
    place: (usize, usize),
    spec: ScreenSpec,
    output: &Output,
) -> Result<Listening, Failure> {
    let index = place.0;
    let mut outputs: Vec<Box<dyn FrameOutput>> = Vec::new();
    if let Some(path) = args.write.get(index) {
        outputs.push(Box::new(Raw::create(path)?));
    }
    if is_wanted(args) {
        // The last one: it keeps the frame's buffer.
        outputs.push(Box::new(open_window(&args.window, &spec, place)?));
    }
    let screen = Listening::open(spec, outputs)?;
    output.complain(&format!("listening on {}", screen.address()));
    Ok(screen)
}

/// Each screen on a thread of its own until `stop`; `at_end` hears how each of them ended.
pub(super) fn run(
    screens: Vec<Listening>,
    json: bool,
    stop: &Stop,
    output: &Output,
    at_end: impl Fn(&Result<Finished, Failure>) + Sync,
) -> Result<Vec<Finished>, Failure> {
    let view = View::of(screens.iter().map(Listening::latest).collect(), json);
    let (at_end, over) = (&at_end, Stop::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = screens
            .into_iter()
            .map(|screen| {
                scope.spawn(move || {
                    let done = screen.run(stop);
                    at_end(&done);
                    done
                })
            })
            .collect();
        if let Some(view) = view {
            scope.spawn(|| view.until(output, &over));
        }
        // The view waits for it, and the scope for the view.
        let _over = over.ends_at_drop();
        let lost = || Failure::Lacks("a screen's thread has ended".into());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost()))).collect()
    })
}

fn tell(args: &ShowArgs, summary: &ShowSummary, output: &Output) -> Result<(), Failure> {
    // Standard output is the frames'.
    let writes_stdout = args.write.iter().any(|path| path == Path::new("-"));
    match (args.json, writes_stdout) {
        (true, false) => output.print_json(summary),
        (false, false) => output.print(&summary.text()),
        _ => {
            summary.text().lines().for_each(|line| output.complain(line));
            Ok(())
        }
    }
}

/// The screens that the words ask for.
fn orders(args: &ShowArgs, stop: &Arc<Stop>, output: &Output) -> Result<Vec<ScreenSpec>, Failure> {
    let described = args.sdp.iter().map(|path| read_description(path)).collect::<Result<Vec<_>, _>>()?;
    let from_description = |description: &Description| {
        let any = match description.address {
            Some(group) if group.is_multicast() => group,
            Some(IpAddr::V6(_)) => IpAddr::from([0u16; 8]),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(any, description.port)
    };
    let listen = match args.listen.is_empty() {
        true => described.iter().map(from_description).collect(),
        false => args.listen.clone(),
    };
    let screens = listen.len();
    if screens == 0 || screens > MOST_SCREENS {
        return Err(Failure::Usage(format!(
            "a screen listens somewhere: give --listen PORT once for each, {MOST_SCREENS} at most"
        )));
    }
    if let Some(name) = &args.interface
        && !listen.iter().any(|address| address.ip().is_multicast())
    {
        return Err(Failure::Usage(format!(
            "--interface {name} is for multicast groups, and --listen names none: leave it out, or listen on \
             239.1.2.3:5004 or the like"
        )));
    }
    let options = [("--tile", args.tile.len()), ("--sdp", args.sdp.len()), ("--write", args.write.len())];
    if let Some((word, count)) = options.into_iter().find(|(_, count)| *count > 0 && *count != screens) {
        return Err(Failure::Usage(format!(
            "{word} is given {count} times for {screens} screens: give it once for each --listen, in the \
             same order"
        )));
    }
    check(&args.window, screens)?;
    if args.write.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::Usage("--write -: only one screen can write to standard output".into()));
    }
    let server = server(args, stop, output)?;
    let mut orders = Vec::new();
    for (index, listen) in listen.into_iter().enumerate() {
        let description = described.get(index);
        orders.push(ScreenSpec {
            listen,
            interface: args.interface.clone().filter(|_| listen.ip().is_multicast()),
            tile: args.tile.get(index).copied(),
            server: server.clone(),
            size: description.map(|description| description.size),
            rate: description.and_then(|description| description.rate),
            payload_type: description.map(|description| description.payload_type),
            verify: args.verify,
            latency: args.latency,
            barrier: args.barrier,
            end: ScreenEnd {
                after: args.seconds.map(Duration::from_secs_f64),
                silence: args.until_silent.map(Duration::from_secs_f64),
            },
        });
    }
    Ok(orders)
}

fn server(args: &ShowArgs, stop: &Arc<Stop>, output: &Output) -> Result<Option<ServerSpec>, Failure> {
    let Some(address) = &args.server else { return Ok(None) };
    let key = match &args.key_file {
        Some(path) if path == Path::new("-") => {
            let key = key_of_standard_input()?;
            // Whoever started these screens has gone when standard input has.
            stop.end_with(io::stdin())
                .map_err(|error| Failure::Lacks(format!("no thread for standard input: {error}")))?;
            Some(key)
        }
        Some(path) => Some(key_in_time(path, stop, output)?),
        None => Key::from_environment()?,
    };
    let key = key.ok_or_else(|| {
        Failure::Usage(
            "--server needs the server's key: give --key-file FILE, or set LINERATE_KEY to the digits of \
             that file"
                .into(),
        )
    })?;
    Ok(Some(ServerSpec { address: address.clone(), key }))
}

/// The key of a file that the server may not have made yet.
fn key_in_time(path: &Path, stop: &Stop, output: &Output) -> Result<Key, Failure> {
    if !path.exists() {
        output.complain(&format!(
            "waits for the key {}, which `linerate wall serve --key-file` makes",
            path.display()
        ));
    }
    while !path.exists() {
        if stop.wait(LOOK_FOR_KEY) {
            return Err(Failure::Interrupted);
        }
    }
    Key::read_file(path)
}

fn read_description(path: &Path) -> Result<Description, Failure> {
    let sdp_error = |why: &dyn Display| Failure::Lacks(format!("--sdp {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| sdp_error(&error))?;
    describe(&String::from_utf8_lossy(&text)).map_err(|why| sdp_error(&why))
}

/// The view of the screens is drawn again this often: screens report four times a second.
const VIEW_EVERY: Duration = Duration::from_millis(500);

/// The view, and what it looks at.
struct View {
    screens: Vec<LatestScreen>,
}

impl View {
    /// Where standard error is not a terminal, or the result is a program's, nothing is shown.
    fn of(screens: Vec<LatestScreen>, json: bool) -> Option<View> {
        (!json && stderr().is_terminal()).then_some(View { screens })
    }

    /// Draws until it is over.
    fn until(self, output: &Output, over: &Stop) {
        let status_lines = output.status_lines();
        status_lines.begin();
        loop {
            if let Err(error) = self.draw(status_lines) {
                // The terminal has gone, or hangs up: the screens go on without it.
                status_lines.end();
                output.complain(&format!("the terminal takes no view any more: {error}"));
                return;
            }
            if over.wait(VIEW_EVERY) {
                return status_lines.end();
            }
        }
    }

    fn draw(&self, status_lines: &StatusLines) -> io::Result<()> {
        let snapshots: Vec<ScreenSnapshot> = self.screens.iter().filter_map(LatestScreen::newest).collect();
        if snapshots.is_empty() {
            return Ok(());
        }
        let (width, height) = size_or_usual(stderr());
        // The line below the view is the cursor's.
        let view = wall_screens::live(&snapshots, width, height.saturating_sub(1).max(1));
        status_lines.draw(&[], &view.lines().map(Line::from).collect::<Vec<_>>())
    }
}

/// What shows nothing, and so needs no display.
const WITHOUT: &str = "--window none, --verify or --write FILE";

/// The words ask for windows, or for nothing else.
fn is_wanted(args: &ShowArgs) -> bool {
    match args.window.window {
        Some(wanted) => wanted != WindowArg::None,
        None => !args.window.full_screen.is_empty() || !args.verify && args.write.is_empty(),
    }
}

/// Names of outputs: as many as screens, or a single word without one.
fn check(args: &WindowArgs, screens: usize) -> Result<(), Failure> {
    match args.full_screen.as_slice() {
        [only] if only.is_empty() => Ok(()),
        [] => Ok(()),
        names if names.len() == screens => Ok(()),
        names => Err(Failure::Usage(format!(
            "--full-screen is given {} times for {screens} screens: give it once for each --listen, in the \
             same order, or once without a name",
            names.len()
        ))),
    }
}

/// Opens the window of one screen.
fn open_window(
    args: &WindowArgs,
    spec: &ScreenSpec,
    (index, screens): (usize, usize),
) -> Result<ScreenWindow, Failure> {
    let output = args.full_screen.get(index).filter(|name| !name.is_empty()).cloned();
    let place = match args.full_screen.is_empty() {
        true => WindowPlacement::Desktop { size: args.window.and_then(WindowArg::size) },
        false => WindowPlacement::FullScreen { output },
    };
    let name = spec.tile.map_or_else(|| spec.listen.to_string(), |tile| tile.to_string());
    ScreenWindow::open(ScreenWindowSpec { place, name, frame: spec.size, index, screens, without: WITHOUT })
}
