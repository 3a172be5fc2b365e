//! What each command does: the words made into values, the library called, the answer printed.

use super::capture::write_capture;
use super::probe::show_probe;
use super::progress::{Progress, aside};
use super::stop::{Saved, end_what_hangs, stop_on_signals};
use super::words::{Command, DiagnoseWords, Generate, ReportWords, RunWords, StageWord, Words};
use crate::diagnose::diagnose;
use crate::failure::Failure;
use crate::plan::Goal;
use crate::report::{self, Folder, Product, SavedRun};
use crate::run::Run;
use crate::run::conduct::{Order, conduct};
use crate::sysroot::Sysroot;
use clap::CommandFactory;
use linerate_system::latency::Awake;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Width of the screen where none is told.
const DEFAULT_WIDTH: usize = 100;

/// Does the command; gives the exit status of the contract, or the failure that stands for one.
pub fn execute(words: Words) -> Result<u8, Failure> {
    match words.command {
        Command::Run(words) => run(words),
        Command::Probe(words) => show_probe(&words),
        Command::Capture(words) => write_capture(&words),
        Command::Plan(words) => super::plan::plan(&words),
        Command::Disk(words) => super::disk::disk(&words),
        Command::Load(words) => super::load::load(&words),
        Command::Memory(words) => super::memory::memory(&words),
        Command::Network(words) => super::network::network(&words),
        Command::Agent(words) => super::agent::agent(&words),
        Command::Wall(words) => super::wall::wall(words),
        Command::Tune(words) => super::tune::tune(&words),
        Command::Watch(words) => super::watch::watch(&words),
        Command::Diagnose(words) => rediagnose(&words),
        Command::Report(words) => show_report(&words),
        Command::Compare(words) => super::compare::compare(&words),
        Command::Rates(words) => super::rates::rates(&words),
        Command::Generate(words) => generate(&words.what),
    }
}

/// `--awake`: as long as the value lives.
pub fn stay_awake(wanted: bool) -> Result<Option<Awake>, Failure> {
    let held = wanted.then(|| Awake::hold(0)).transpose();
    held.map_err(|error| {
        Failure::Lacks(format!(
            "--awake: /dev/cpu_dma_latency cannot be held ({error}): start as root, on a kernel that has it, or leave the option away"
        ))
    })
}

fn run(words: RunWords) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let _awake = stay_awake(words.awake)?;
    let goal = Goal {
        sources: words.source,
        peers: words.peer,
        protocols: words.protocol.protocols(),
        seconds: words.seconds,
        repeats: words.repeats,
        budget_seconds: words.budget,
        block_bytes: words.block,
        queue_depth: words.queue_depth,
        datagram_bytes: words.datagram,
        congestion_control: words.congestion_control,
        verify: words.verify,
    };
    let order = Order {
        stages: words.stages.iter().copied().map(StageWord::stage).collect(),
        scratch: words.scratch,
        key_file: words.key_file,
        io_uring: !words.no_io_uring,
    };
    // Asked now: the folder itself is made with the first result, minutes later where disks are slow.
    Folder::check(words.output.as_deref())?;
    let saved = Saved::default();
    end_what_hangs(&stop, &saved)?;
    let mut folder: Option<Folder> = None;
    let mut save = |run: &Run| -> Result<(), Failure> {
        if let Some(folder) = &folder {
            return folder.save(run);
        }
        let mut place = saved.lock();
        let new = Folder::begin(words.output.as_deref(), run)?;
        *place = Some(new.path().to_path_buf());
        folder = Some(new);
        Ok(())
    };
    let mut progress = Progress::new("run", &words.live);
    let conducted = conduct(&Sysroot::live(), goal, &order, &stop, &mut progress, &mut save);
    progress.finish();
    show_run(conducted?, folder.as_ref(), words.json)
}

/// The end of a run: its page, its screen or its JSON, and on standard error what failed, in a sentence.
fn show_run(mut run: Run, folder: Option<&Folder>, json: bool) -> Result<u8, Failure> {
    let page = folder.map(|folder| folder.save_report(&run));
    run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
    let path = folder.map_or_else(String::new, |folder| folder.path().display().to_string());
    let printed = if json {
        print(&report::json(&run))
    } else {
        print(&format!("{}\nsaved: {path}/run.json, {path}/report.html\n", screen_of(&run)))
    };
    // The results are saved: a full disk behind standard output takes nothing from them.
    run.errors.extend(printed.err().map(|failure| failure.to_string()));
    if json {
        tell(&format!("saved in {path}"));
    }
    // On a terminal the screen has just said it.
    if let (Some(summary), true) = (summary(&run.errors), json || !std::io::stdout().is_terminal()) {
        complain(&summary);
    }
    Ok(u8::from(!run.errors.is_empty()))
}

/// One sentence for all that failed: the first, which is mostly the cause of the others; none where nothing failed.
pub(super) fn summary(errors: &[String]) -> Option<String> {
    let (first, others) = errors.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        more => format!("{first} (and {more} more; run.json has them under “errors”)"),
    })
}

/// The terminal screen of a run, as wide and as coloured as standard output allows.
fn screen_of(run: &Run) -> String {
    report::terminal(run, width(), colour())
}

/// Standard output is a terminal whose user does not mind colours.
pub(super) fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

pub(super) fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    told.or(seen).unwrap_or(DEFAULT_WIDTH).clamp(60, 140)
}

fn rediagnose(words: &DiagnoseWords) -> Result<u8, Failure> {
    let mut run = report::read(&words.run)?;
    let Some(plan) = &run.plan else {
        return Err(Failure::Lacks(format!(
            "{}: the run ended before its plan; nothing to diagnose",
            words.run.display()
        )));
    };
    let diagnosis = diagnose(&run.machine, &run.goal, plan, &run.measurements);
    if words.json {
        print_json(&diagnosis)?;
    } else {
        run.diagnosis = Some(diagnosis);
        print(&screen_of(&run))?;
    }
    Ok(0)
}

fn show_report(words: &ReportWords) -> Result<u8, Failure> {
    match report::read_saved(&words.run)? {
        SavedRun::Run(run) => show_saved(words, &*run, || screen_of(&run))?,
        SavedRun::Stage(run) => show_saved(words, &*run, || report::stage_terminal(&run, width(), colour()))?,
    }
    Ok(0)
}

/// A saved product as page, JSON or screen.
fn show_saved<P: Product>(
    words: &ReportWords,
    product: &P,
    screen: impl Fn() -> String,
) -> Result<(), Failure> {
    match &words.html {
        Some(path) => write_page(path, &product.page()),
        None if words.json => print(&report::json(product)),
        None => print(&screen()),
    }
}

fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| {
        Failure::Lacks(format!(
            "{} could not be written: {error}; name a file in a folder that you may write",
            path.display()
        ))
    })
}

fn generate(what: &Generate) -> Result<u8, Failure> {
    match what {
        Generate::Man { folder } => clap_mangen::generate_to(Words::command(), folder).map_err(|error| {
            Failure::Lacks(format!("man pages in {}: {error}; name a folder that exists", folder.display()))
        })?,
        Generate::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Words::command(), "linerate", &mut text);
            print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(0)
}

/// A sentence on standard error.
pub fn complain(sentence: &str) {
    tell(&format!("linerate: {sentence}"));
}

/// A line on standard error; nobody may be there to hear it (`eprintln!` would panic then). Its words may be a file's or a
/// peer's: none of them acts on the terminal.
fn tell(line: &str) {
    let line = report::printable(line);
    if !aside(&line) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// A product on standard output, and nothing else.
pub(super) fn print_json(product: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(product)
        .map_err(|error| Failure::Lacks(format!("the result cannot be written as JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// Prints; a reader that has gone away (`linerate probe | head`) is not an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Lacks(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
