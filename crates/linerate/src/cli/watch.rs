//! `linerate watch`: moments of this machine or of a recording, printed and kept.

use super::arguments::{WatchArgs, power_commands, sysroot_of};
use super::measured::measured_devices;
use super::output::Output;
use super::progress::is_dumb;
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::agent::Key;
use linerate_watch::history::LatestMoment;
use linerate_watch::page::{Page, PageSettings, PageToken};
use linerate_watch::{LiveWatch, Moment, Recorder, Replay, WatchSpec, lines, terminal};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A recording that was made beside a suspended machine waits no longer than this between two moments.
const LONGEST_GAP: Duration = Duration::from_secs(60);

/// Shows what goes on until the user stops it.
pub(super) fn watch(args: &WatchArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let latest = Arc::new(LatestMoment::default());
    let page = args.listen.map(|listen| page(args, listen, latest.clone(), output)).transpose()?;
    let full = !args.json && args.count.is_none() && std::io::stdout().is_terminal() && !is_dumb();
    let mut screen = MomentOutput {
        output,
        json: args.json,
        left: args.count,
        recorder: None,
        bottleneck: None,
        unknown: BTreeMap::new(),
        latest: latest.clone(),
        page: page.is_some(),
        full,
        late: Vec::new(),
    };
    if !full {
        if let Some(page) = &page {
            output.complain(&format!("page at {0}, metrics at {0}metrics", page.url()));
        }
        let done = moments(args, &mut screen, &stop)?;
        if page.is_some() && args.replay.is_some() && args.count.is_none() {
            stay(&latest, &stop, output);
        }
        return Ok(done);
    }
    let replayed = args.replay.as_ref().map(|path| format!("replay of {}", path.display()));
    let served = page.as_ref().map(Page::url);
    let note = [replayed, served].into_iter().flatten().collect::<Vec<_>>().join("  ");
    let done = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let done = moments(args, &mut screen, &stop);
            // What has ended well stays on the screen; an error is said once that is given back.
            match done {
                Ok(_) => latest.end(),
                Err(_) => stop.end(),
            }
            done
        });
        let shown = terminal::show(&latest, &stop, &note, &|pid| explain(args, pid, output));
        stop.end();
        let done = sampler.join().unwrap_or_else(|_| Err(Failure::Lacks("the sampler has panicked".into())));
        shown.and(done)
    });
    screen.late.iter().for_each(|sentence| output.complain(sentence));
    done
}

/// On the terminal, which is not drawn on meanwhile.
fn explain(args: &WatchArgs, pid: u32, output: &Output) {
    if args.replay.is_some() || args.root.is_some() {
        return output.complain("only what runs now on this machine can be explained");
    }
    output.complain(&format!("linerate explain {pid} looks at it for 10 s"));
    let explained = std::env::current_exe()
        .and_then(|program| Command::new(program).arg("explain").arg(pid.to_string()).status());
    if let Err(error) = explained {
        output.complain(&format!("linerate explain {pid} cannot be started: {error}"));
    }
}

/// A page that shows a recording says that it has ended, and goes with the user.
fn stay(latest: &LatestMoment, stop: &Stop, output: &Output) {
    latest.end();
    if !stop.is_ended() {
        output.complain("the recording has ended; the page shows it until Ctrl-C");
    }
    stop.wait_ended();
}

/// The moments of this machine or of a recording.
fn moments(args: &WatchArgs, screen: &mut MomentOutput<'_>, stop: &Stop) -> Result<u8, Failure> {
    match &args.replay {
        Some(path) => replay(args, path, screen, stop),
        None => live(args, screen, stop),
    }
}

/// The page, with the token where one is given.
fn page(
    args: &WatchArgs,
    listen: SocketAddr,
    latest: Arc<LatestMoment>,
    output: &Output,
) -> Result<Page, Failure> {
    let mut token = None;
    if let Some(path) = &args.token_file {
        let (key, is_new) = Key::read_or_make_file(path)?;
        if is_new {
            output
                .complain(&format!("{} is made: the page and /metrics want the token in it", path.display()));
        }
        token = Some(PageToken::of(&key));
    }
    Page::start(latest, PageSettings { listen, token })
}

fn live(args: &WatchArgs, screen: &mut MomentOutput<'_>, stop: &Stop) -> Result<u8, Failure> {
    let sysroot = sysroot_of(args.root.as_deref(), screen.output)?;
    check_is_there(&sysroot, "/sys/class/net", &args.nic, "interface")?;
    check_is_there(&sysroot, "/sys/class/block", &args.disk, "disk")?;
    let spec = WatchSpec {
        interval: args.interval,
        nics: args.nic.clone(),
        disks: args.disk.clone(),
        power_commands: power_commands(),
        // Of a recorded tree nothing is kept here.
        measured: if args.root.is_none() { measured_devices(&sysroot) } else { BTreeMap::new() },
        lean: false,
    };
    // Before the first sample: that a file cannot be made is said at once.
    screen.recorder = args.record.as_deref().map(Recorder::create).transpose().map_err(Failure::lacks)?;
    let mut watch = LiveWatch::start(&sysroot, &spec).map_err(Failure::lacks)?;
    while screen.wants_more() {
        let Some(moment) = watch.next(stop) else { break };
        screen.show(&moment)?;
    }
    Ok(0)
}

fn replay(args: &WatchArgs, path: &Path, screen: &mut MomentOutput<'_>, stop: &Stop) -> Result<u8, Failure> {
    let mut before: Option<i64> = None;
    let mut due = clock::now();
    for moment in Replay::open(path).map_err(Failure::lacks)? {
        let moment = match moment {
            Ok(moment) => moment,
            Err(why) => {
                screen.complain(why.to_string());
                return Ok(1);
            }
        };
        due += before.map_or(Duration::ZERO, |before| gap(before, moment.at_ms, args.speed));
        before = Some(moment.at_ms);
        if stop.wait_until(due) || !screen.wants_more() {
            return Ok(0);
        }
        screen.show(&moment)?;
    }
    Ok(0)
}

/// The time between two moments, at a speed. Clocks may have been set in between.
fn gap(before_ms: i64, now_ms: i64, speed: f64) -> Duration {
    let ms = now_ms.saturating_sub(before_ms).max(0) as f64;
    Duration::from_secs_f64((ms / 1e3).min(LONGEST_GAP.as_secs_f64()) / speed)
}

/// What was named is there when the watch begins; it may vanish and come back later.
fn check_is_there(sysroot: &Sysroot, folder: &str, names: &[String], what: &str) -> Result<(), Failure> {
    let there = sysroot.list(folder);
    match names.iter().find(|name| !there.contains(name)) {
        Some(name) => Err(Failure::Lacks(format!(
            "{name}: there is no such {what}; name one of {}",
            if there.is_empty() { format!("{folder}, which cannot be read") } else { there.join(", ") }
        ))),
        None => Ok(()),
    }
}

/// Where moments go: the latest of the views, lines on standard output, and a file.
struct MomentOutput<'a> {
    output: &'a Output,
    json: bool,
    left: Option<u64>,
    recorder: Option<Recorder>,
    /// What was printed already: once is enough.
    bottleneck: Option<String>,
    unknown: BTreeMap<String, String>,
    latest: Arc<LatestMoment>,
    /// The page is served from the latest.
    page: bool,
    /// The full screen is drawn from the latest, and nothing else may write on it.
    full: bool,
    /// Sentences for when the full screen is gone.
    late: Vec<String>,
}

impl MomentOutput<'_> {
    fn wants_more(&self) -> bool {
        self.left != Some(0)
    }

    fn complain(&mut self, sentence: String) {
        if self.full { self.late.push(sentence) } else { self.output.complain(&sentence) }
    }

    fn show(&mut self, moment: &Moment) -> Result<(), Failure> {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(moment).map_err(Failure::lacks)?;
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.full || self.page {
            self.latest.tell(moment.clone());
        }
        if self.full {
            return Ok(());
        }
        if self.json {
            let line = serde_json::to_string(moment)
                .map_err(|error| Failure::Lacks(format!("a sample cannot be written as JSON: {error}")))?;
            return self.output.print(&format!("{line}\n"));
        }
        for (what, why) in &moment.unknown {
            if self.unknown.insert(what.clone(), why.clone()).is_none() {
                self.output.complain(&format!("{what}: not shown: {why}"));
            }
        }
        let mut text = format!("{}\n", printable(&lines::line(moment)));
        if moment.bottleneck != self.bottleneck {
            let line = match &moment.bottleneck {
                Some(what) => format!("          at its limit: {what} ({})", moment.bottleneck_by),
                None => "          nothing is at its limit any more".into(),
            };
            text.push_str(&format!("{}\n", printable(&line)));
            self.bottleneck = moment.bottleneck.clone();
        }
        self.output.print(&text)
    }
}
