//! `linerate tune measure`: tries settings in turns with the state before, and says of each what it did.

use super::{TunedMachine, ask, read_journal};
use crate::cli::arguments::{MeasureArgs, TuneOptions};
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::{Machine, probe};
use linerate_measure::run::again::{FigureContext, FigureSpec};
use linerate_system::clock;
use linerate_tune::journal::{Journal, JournalLock, JournalState};
use linerate_tune::measure::{Effect, StateWindows, TrialResult, TrialSpec, Try, measure as try_all};
use linerate_tune::{SettingChoice, TunePlan, process};
use serde::Serialize;
use std::fmt::Write;

/// Does all of it.
pub(super) fn measure(
    args: &MeasureArgs,
    options: &TuneOptions,
    choice: &SettingChoice,
    output: &Output,
) -> Result<u8, Failure> {
    if options.root.is_some() {
        return Err(Failure::Usage(
            "--root: a folder in place of a machine moves no bytes; measure on the machine itself".into(),
        ));
    }
    let target = TunedMachine::of(options, output)?;
    let kernel = target.kernel()?;
    let machine = probe(&target.sysroot);
    let plan = target.plan(&kernel, machine.clone());
    let tries = tries(&plan, choice)?;
    if tries.is_empty() {
        output.complain(
            "nothing to try: the plan advises nothing among what was named; name a setting with a value: \
             --setting ID=VALUE",
        );
        return Ok(0);
    }
    let what = question(&tries, args);
    if !ask(&what, "Try these, and keep what helps", options.yes, output)? {
        return Ok(0);
    }
    let spec = TrialSpec {
        figure_spec: FigureSpec {
            source: args.source.clone(),
            peers: args.peer.clone(),
            key_file: args.key_file.clone(),
            seconds: args.seconds,
        },
        rounds: args.repeats as usize,
        rate: options.rate,
    };
    carry_out(&target, &kernel, &machine, &spec, tries)
}

/// What belongs to a process first.
fn tries(plan: &TunePlan, choice: &SettingChoice) -> Result<Vec<Try>, Failure> {
    let own = process::ALL.iter().filter(|own| choice.takes_own(own.id, own.stage, own.findings));
    let trials = plan.trials(choice)?;
    Ok(own.map(Try::Process).chain(trials.into_iter().map(Try::Machine)).collect())
}

fn question(tries: &[Try], args: &MeasureArgs) -> String {
    let windows = f64::from(2 * args.repeats + 2) * args.seconds * 1.4;
    let mut out = String::new();
    for one in tries {
        let _ = writeln!(out, "{} ({})", printable(one.name()), one.figure());
    }
    let _ = writeln!(out, "About {:.0} s for each.", windows.ceil());
    out
}

fn carry_out(
    target: &TunedMachine<'_>,
    kernel: &linerate_tune::kernel_access::LiveKernel,
    machine: &Machine,
    spec: &TrialSpec,
    tries: Vec<Try>,
) -> Result<u8, Failure> {
    let output = target.output;
    let stop = stop_on_signals()?;
    // Its decisions turn on a few percent: nothing is sampled beside them.
    let mut progress = Progress::line("tune measure", output);
    let changes = tries.iter().any(|one| matches!(one, Try::Machine(_)));
    let (tried, stopped) = {
        let place = FigureContext { sysroot: &target.sysroot, machine, stop: &stop };
        let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
        let whose =
            linerate_tune::measure::TrialTarget { access: kernel, host: &target.host, started: &started };
        if changes {
            let lock = JournalLock::lock(&target.folder, &target.name)?;
            let (mut log, state) = read_journal(&lock, target)?;
            let mut journal = Journal::new(&mut log, state);
            let done = try_all(&whose, &mut journal, place, spec, tries, &mut progress);
            match (journal.state().steps.is_empty(), journal.state().open().next().is_none()) {
                (true, _) => lock.discard()?,
                (false, true) => lock.put_aside()?,
                _ => {}
            }
            done
        } else {
            // What belongs to a process needs no journal, and no right to one.
            let mut nowhere = Nowhere;
            let mut journal = Journal::new(&mut nowhere, JournalState::default());
            try_all(&whose, &mut journal, place, spec, tries, &mut progress)
        }
    };
    progress.finish();
    print_trials(target, &tried)?;
    match stopped {
        Some(Failure::Interrupted) => {
            output.complain("interrupted: what was being tried is as it was; what was kept before stays");
            Ok(1)
        }
        Some(failure) => Err(failure),
        None => {
            let nothing = tried.iter().all(|one| one.effect.is_none());
            Ok(u8::from(nothing || tried.iter().any(|one| one.failed)))
        }
    }
}

/// A journal that has nothing to note.
struct Nowhere;

impl linerate_tune::journal::Log for Nowhere {
    fn append(&mut self, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::Error::other("nothing of the machine is changed here"))
    }
}

/// What was tried, as JSON.
#[derive(Serialize)]
struct TrialsOutput<'a> {
    schema: u32,
    journal: String,
    tried: &'a [TrialResult],
}

fn print_trials(target: &TunedMachine<'_>, trials: &[TrialResult]) -> Result<(), Failure> {
    let output = target.output;
    if target.options.json {
        return output.print_json(&TrialsOutput {
            schema: 1,
            journal: target.folder.display().to_string(),
            tried: trials,
        });
    }
    let mut out: String = trials.iter().map(show).collect();
    let kept: Vec<&str> = trials.iter().filter(|one| one.kept).map(|one| one.name.as_str()).collect();
    let restored = trials.iter().filter(|one| !one.kept && one.given_by.is_none()).count();
    if !kept.is_empty() {
        let _ = writeln!(
            out,
            "Kept: {}. To restore the earlier values: linerate tune undo; to let it last: linerate tune \
             persist",
            printable(&kept.join(", "))
        );
    } else if restored > 0 {
        out += "Everything is as it was.\n";
    }
    output.print(&out)
}

fn show(result: &TrialResult) -> String {
    let mut out = format!("{} ({})\n", printable(&result.name), result.figure);
    for change in &result.settings {
        let line = format!("{}: {} → {}", change.place, change.before, change.wanted);
        let _ = writeln!(out, "    {}", printable(&line));
    }
    if let (Some(effect), Some(share), Some(before), Some(wanted)) =
        (result.effect, result.change, &result.before, &result.wanted)
    {
        let word = match effect {
            Effect::Helped => "helped",
            Effect::NoDifference => "no difference",
            Effect::Hurt => "hurt",
        };
        let _ = writeln!(
            out,
            "    {word}: {} → {} ({:+.1} %)",
            show_bytes_rate(before.median),
            show_bytes_rate(wanted.median),
            share * 100.0
        );
        let _ = writeln!(out, "    as it was: {}", windows(before));
        let _ = writeln!(out, "    wanted:    {}", windows(wanted));
    }
    let end = match (&result.why, result.given_by, result.effect) {
        (Some(why), ..) if result.effect.is_none() => format!("not measured: {why}"),
        (Some(why), ..) => format!("not kept: {why}"),
        (None, Some(given_by), _) => format!("of the process: {given_by}"),
        (None, None, Some(Effect::Helped)) => "kept".into(),
        (None, None, _) => "restored".into(),
    };
    let _ = writeln!(out, "    {}", printable(&end));
    out
}

fn windows(windows: &StateWindows) -> String {
    let interval = windows.interval.map_or("too few windows for an interval".into(), |interval| {
        format!("{} to {} with 95 %", show_bytes_rate(interval.low.max(0.0)), show_bytes_rate(interval.high))
    });
    format!("{interval}, spread {:.1} %, {} windows", windows.spread * 100.0, windows.samples.len())
}
