//! What each command does: the words made into values, the library called, the answer printed.

use super::arguments::{Arguments, Command, DiagnoseArgs, FlowArgs, Generate, GentleArgs, RunArgs};
use super::capture::write_capture;
use super::measured;
use super::output::FormatArg;
use super::probe::show_probe;
use super::progress::status_lines::aside;
use super::remote::{self, remote_terminal};
use super::run_flow;
use super::saving::{ResultTarget, SaveTarget, conducted};
use linerate_facts::failure::Failure;
use linerate_facts::printable::ascii;
use linerate_facts::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_measure::measure::Stage;
use linerate_measure::run::conduct::{RunSpec, conduct};
use linerate_model::plan::{Goal, RunFlow};
use linerate_report::{self as report, results};
use linerate_system::latency::Awake;
use linerate_watch::terminal::{Theme, size};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// Width of a terminal that does not report it, and of text that is wrapped for no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Does the command; gives the exit status of the contract, or the failure that stands for one.
pub fn execute(words: Arguments) -> Result<u8, Failure> {
    if let Some(status) = super::child::done_in_child(&words.command) {
        return Ok(status);
    }
    super::log::start(words.log.as_deref())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), arguments = ?std::env::args_os().skip(1), "linerate starts");
    let done = command(words.command);
    match &done {
        Ok(status) => tracing::info!(status, "linerate ends"),
        Err(failure) => tracing::error!(status = failure.exit_status(), %failure, "linerate ends"),
    }
    done
}

pub(super) fn command(command: Command) -> Result<u8, Failure> {
    if let Some(refused) = super::fleet::refused_in_job(&command) {
        return refused;
    }
    if let Some((host, name)) = remote::asked_for(&command) {
        return remote::run_on(host, name);
    }
    match command {
        Command::Run(words) => run(words),
        Command::Probe(words) => show_probe(&words),
        Command::Capture(words) => write_capture(&words),
        Command::Plan(words) => super::plan::plan(&words),
        Command::Disk(words) => super::disk::disk(&words),
        Command::Load(words) => super::load::load(&words),
        Command::Memory(words) => super::memory::memory(&words),
        Command::Network(words) => super::network::network(&words),
        Command::Agent(words) => super::agent::agent(&words),
        Command::Fleet(words) => super::fleet::fleet(&words),
        Command::FleetMember(words) => super::fleet::member(&words),
        Command::RemoteCommand => remote::remote_command(),
        Command::Serve(words) => super::serve::serve(&words),
        Command::Get(words) => super::get::get(&words),
        Command::Put(words) => super::put::put(&words),
        Command::Wall(words) => super::wall::wall(words),
        Command::Tune(words) => super::tune::tune(&words),
        Command::Watch(words) => super::watch::watch(&words),
        Command::Diagnose(words) => rediagnose(&words),
        Command::Report(words) => super::report::show_report(&words),
        Command::Compare(words) => super::compare::compare(&words),
        Command::Check(words) => super::check::check(words),
        Command::List(words) => super::list::list(&words),
        Command::Rates(words) => super::rates::rates(&words),
        Command::Generate(words) => generate(&words.what),
    }
}

/// `--awake`: as long as the value lives.
pub(super) fn stay_awake(wanted: bool) -> Result<Option<Awake>, Failure> {
    let held = wanted.then(|| Awake::hold(0)).transpose();
    held.map_err(|error| {
        Failure::Lacks(format!(
            "--awake: /dev/cpu_dma_latency cannot be held ({error}): start as root, on a kernel that has it, \
             or leave the option away"
        ))
    })
}

/// `run --thorough`: as many rounds as this time holds.
const THOROUGH_SECONDS: f64 = 300.0;
const MOST_ROUNDS: u32 = 1000;

fn run(words: RunArgs) -> Result<u8, Failure> {
    let _awake = stay_awake(words.awake)?;
    if let Some(url) = super::from_server::url_of(&words)? {
        return super::from_server::run(words, url);
    }
    words.server.refuse()?;
    let sink_room = StorageLimits { keep_bytes: words.sink_keep, limit_bytes: words.sink_limit };
    let (goal, order) = flow_of(words.flow.clone(), words.protocol, &words.gentle)?;
    let protocols = run_flow::check(words.run_flow, &goal, &order, &words.sink)?;
    let goal = Goal {
        flow: words.run_flow,
        sinks: words.sink.clone(),
        protocols,
        seconds: words.seconds,
        repeats: if words.thorough { MOST_ROUNDS } else { words.repeats },
        budget_seconds: if words.thorough { THOROUGH_SECONDS } else { words.budget },
        ..goal
    };
    let order = RunSpec { stages: words.stages.clone(), sink_room, ..order };
    let target = run_target(&words);
    conducted(target, "run", &words.live, Some(&words.power), |context| conduct(context, goal, &order))
}

/// Where the result of a run goes.
pub(super) fn run_target(words: &RunArgs) -> ResultTarget<'_> {
    let format = words.format.unwrap_or(if words.json { FormatArg::Json } else { FormatArg::Text });
    let place = match &words.output {
        Some(folder) => SaveTarget::Named(folder),
        None if format == FormatArg::Line => SaveTarget::Nowhere,
        None => SaveTarget::New,
    };
    ResultTarget { place, format, keep: !words.keeping.no_save }
}

/// Six rounds of all stages, within what `budget_seconds` then says.
const ROUNDS: u32 = 6;

/// The flow that was named, to be measured in all its stages.
pub(super) fn flow_of(
    words: FlowArgs,
    protocols: &[Protocol],
    limits: &GentleArgs,
) -> Result<(Goal, RunSpec), Failure> {
    let GentleArgs { rate_limit, idle } = gentle(limits)?;
    let goal = Goal {
        sources: words.source,
        peers: words.peer,
        protocols: protocols.to_vec(),
        seconds: None,
        repeats: ROUNDS,
        budget_seconds: 0.0,
        block_bytes: words.transfer,
        queue_depth: words.queue_depth,
        workers: words.workers,
        datagram_bytes: words.datagram,
        congestion_control: words.congestion_control,
        zero_copy: words.method,
        verify: words.verify,
        rate_limit,
        idle,
        flow: RunFlow::default(),
        sinks: Vec::new(),
    };
    let order = RunSpec {
        stages: vec![Stage::Memory, Stage::Disk, Stage::Network, Stage::Path],
        scratch: words.scratch,
        scratch_bytes: words.amount,
        sink_room: StorageLimits::default(),
        key_file: words.key_file,
        io_uring: !words.no_io_uring,
        earlier: measured::earlier,
    };
    Ok((goal, order))
}

/// What was asked for, where this process may do so.
pub(super) fn gentle(words: &GentleArgs) -> Result<GentleArgs, Failure> {
    if words.idle {
        linerate_system::idle::is_allowed().map_err(|error| {
            Failure::Lacks(format!(
                "--idle: {error}; a container's seccomp filter may forbid it: allow sched_setscheduler and \
                 ioprio_set, or leave it away"
            ))
        })?;
    }
    Ok(words.clone())
}

/// One sentence for all that failed: the first, which is mostly the cause of the others; none where nothing
/// failed.
pub(super) fn summary(errors: &[String]) -> Option<String> {
    let (first, others) = errors.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        more => format!("{first} (and {more} more; run.json has them under “errors”)"),
    })
}

/// Standard output is a terminal that has colours, whose user does not mind them.
pub(super) fn colour() -> bool {
    std::io::stdout().is_terminal() && Theme::of_environment().colours
}

/// Columns of the terminal, or as `COLUMNS` says; nothing is shortened where standard output is no terminal.
pub(super) fn width() -> usize {
    let asked: Option<usize> = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = asked.or_else(|| size(std::io::stdout()).map(|(width, _)| width));
    match width {
        Some(width) => width.clamp(60, 140),
        None if std::io::stdout().is_terminal() => DEFAULT_WIDTH,
        None => report::NO_SCREEN,
    }
}

/// The same for what is only text: it ends its lines also where nothing is shortened.
pub(super) fn text_width() -> usize {
    match width() {
        report::NO_SCREEN => DEFAULT_WIDTH,
        width => width,
    }
}

fn rediagnose(words: &DiagnoseArgs) -> Result<u8, Failure> {
    let mut run = results::read(&words.run)?;
    run.diagnosis = run.diagnose();
    match &run.diagnosis {
        None => Err(Failure::Lacks(format!(
            "{}: the run ended before its plan; nothing to diagnose",
            words.run.display()
        )))?,
        Some(diagnosis) if words.json => print_json(diagnosis)?,
        Some(_) => print(&report::terminal(&run, width(), colour()))?,
    }
    Ok(0)
}

fn generate(what: &Generate) -> Result<u8, Failure> {
    match what {
        Generate::Man { folder } => super::manual::write_to(folder).map_err(|error| {
            Failure::Lacks(format!("man pages in {}: {error}; name a folder that exists", folder.display()))
        })?,
        Generate::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut super::definition::definition(), "linerate", &mut text);
            print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(0)
}

/// A sentence on standard error.
pub fn complain(sentence: &str) {
    tell(&format!("linerate: {sentence}"));
}

/// A line on standard error; nobody may be there to hear it (`eprintln!` would panic then). Its words may be
/// a file's or a peer's: none of them acts on the terminal.
pub(super) fn tell(line: &str) {
    let line = linerate_facts::printable::printable(line);
    if let Some(terminal) = remote_terminal() {
        terminal.tell(&line);
    } else if !aside(&line) {
        let mut error = std::io::stderr();
        let line = shown_on(&error, &line).into_owned();
        let _ = writeln!(error, "{line}");
    }
}

/// A product on standard output, and nothing else.
pub(super) fn print_json(product: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(product)
        .map_err(|error| Failure::Lacks(format!("the result cannot be written as JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// The text as this stream can show it. A file or a pipe is UTF-8, whatever the locale of a terminal knows.
pub(super) fn shown_on<'text>(stream: &impl IsTerminal, text: &'text str) -> Cow<'text, str> {
    match stream.is_terminal() && !Theme::of_environment().unicode {
        true => Cow::Owned(ascii(text)),
        false => Cow::Borrowed(text),
    }
}

/// Ends the program as clap does, with its text in the signs that the terminal can show.
pub(super) fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let (out, mut aside) = (std::io::stdout(), std::io::stderr());
    let shown = if error.use_stderr() { shown_on(&aside, &text) } else { shown_on(&out, &text) };
    match shown {
        Cow::Borrowed(_) => error.exit(),
        Cow::Owned(plain) if error.use_stderr() => drop(aside.write_all(plain.as_bytes())),
        Cow::Owned(plain) => drop(print(&plain)),
    }
    std::process::exit(error.exit_code())
}

/// Prints; a reader that has gone away (`linerate probe | head`) is not an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    if let Some(terminal) = remote_terminal() {
        terminal.print(text);
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let text = shown_on(&out, text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Lacks(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
