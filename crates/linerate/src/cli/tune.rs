//! `linerate tune`: shows what to change, changes it, brings it back; `measure` tries it.

mod measure;
mod screen;

use super::arguments::{TuneArgs, TuneOptions, TuneWhat, UndoArgs, sysroot_of};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, probe};
use linerate_system::clock;
use linerate_tune::journal::{FileLog, Host, Journal, JournalLock, JournalState, Record};
use linerate_tune::kernel_access::{KernelAccess, LiveKernel, Reader};
use linerate_tune::{
    self as tune, JOURNAL_FOLDER, Leave, SettingChoice, SettingOutcome, TuneGoal, TunePlan, WantedValue,
};
use serde::Serialize;
use std::path::PathBuf;

/// Does `linerate tune`, or what stands below it.
pub(super) fn tune(args: &TuneArgs, output: &Output) -> Result<u8, Failure> {
    let options = &args.options;
    let choice = SettingChoice {
        stage: options.stage,
        findings: options.finding.clone(),
        settings: options.setting.clone(),
    };
    choice.check()?;
    let is_free = choice.is_all() && options.rate.is_none() && options.rtt.is_none();
    match &args.what {
        None => show(args, &choice, output),
        Some(TuneWhat::Apply) => apply(options, &choice, output),
        Some(TuneWhat::Measure(measured)) => measure::measure(measured, options, &choice, output),
        Some(TuneWhat::Undo(_) | TuneWhat::Persist) if !is_free => Err(Failure::usage(
            "undo and persist are of all that is applied: leave --rate, --rtt, --stage, --finding and --setting away",
        )),
        Some(TuneWhat::Undo(undone)) => undo(undone, options, output),
        Some(TuneWhat::Persist) => persist(options, output),
    }
}

/// The machine that is meant.
struct TunedMachine<'a> {
    sysroot: Sysroot,
    host: Host,
    folder: PathBuf,
    name: String,
    options: &'a TuneOptions,
    output: &'a Output,
}

impl<'a> TunedMachine<'a> {
    fn of(options: &'a TuneOptions, output: &'a Output) -> Result<Self, Failure> {
        if let Some(name) = &options.netns {
            linerate_system::namespace::enter_network(name).map_err(|error| {
                Failure::Lacks(format!(
                    "network namespace {name}: {error}; `ip netns` lists those that are there, and only root \
                     may enter one"
                ))
            })?;
        }
        let sysroot = sysroot_of(options.root.as_deref(), output)?;
        let below = || options.root.as_ref().map(|root| root.join(JOURNAL_FOLDER.trim_start_matches('/')));
        Ok(TunedMachine {
            host: tune::host(&sysroot, options.netns.as_deref()),
            folder: options.journal.clone().or_else(below).unwrap_or_else(|| JOURNAL_FOLDER.into()),
            name: tune::journal_name(options.netns.as_deref()),
            sysroot,
            options,
            output,
        })
    }

    fn kernel(&self) -> Result<LiveKernel, Failure> {
        LiveKernel::of(&self.sysroot).map_err(Failure::usage)
    }

    fn plan(&self, access: &dyn KernelAccess, machine: Machine) -> TunePlan {
        let goal = TuneGoal { rate: self.options.rate, round_trip: self.options.rtt };
        tune::plan(&self.sysroot, machine, goal, access)
    }

    /// What the journal has open, where it can be read.
    fn open(&self) -> Vec<String> {
        let state =
            tune::look(&self.folder, &self.name).ok().and_then(|records| JournalState::of(records).ok());
        state
            .map(|state| state.open().map(|(_, followed)| followed.entry.id.clone()).collect())
            .unwrap_or_default()
    }
}

fn show(args: &TuneArgs, choice: &SettingChoice, output: &Output) -> Result<u8, Failure> {
    let options = &args.options;
    let target = TunedMachine::of(options, output)?;
    // A recording in an archive can be read, too.
    let machine = probe(&target.sysroot);
    let plan = match LiveKernel::of(&target.sysroot) {
        Ok(kernel) => target.plan(&kernel, machine),
        Err(_) => target.plan(&Reader(target.sysroot.clone()), machine),
    };
    if options.json {
        let mut plan = plan.clone();
        let ids: Vec<String> = plan.chosen(choice).iter().map(|item| item.id.clone()).collect();
        plan.settings.retain(|item| ids.contains(&item.id));
        plan.process.retain(|own| choice.takes_own(own.id, own.stage, own.findings));
        if !choice.is_all() {
            plan.advice.clear();
        }
        output.print_json(&plan)?;
    } else {
        output.print(&screen::plan(
            &plan,
            choice,
            args.all,
            &target.open(),
            output.text_width(),
            output.colour(),
        ))?;
    }
    Ok(0)
}

fn apply(options: &TuneOptions, choice: &SettingChoice, output: &Output) -> Result<u8, Failure> {
    let target = TunedMachine::of(options, output)?;
    let kernel = target.kernel()?;
    let plan = target.plan(&kernel, probe(&target.sysroot));
    let changes = plan.changes(choice)?;
    if changes.is_empty() {
        output.complain(
            "nothing to change: the plan advises nothing among what was named; `linerate tune --all` shows \
             why",
        );
        return if options.json { print_outcomes(&target, &[]) } else { Ok(0) };
    }
    if !ask(&screen::changes(&changes, &plan), "Change these settings", options.yes, output)? {
        return Ok(0);
    }
    carry_out(&target, &kernel, &changes)
}

fn carry_out(target: &TunedMachine<'_>, kernel: &LiveKernel, changes: &[WantedValue]) -> Result<u8, Failure> {
    let lock = JournalLock::lock(&target.folder, &target.name)?;
    let outcomes = {
        let (mut log, state) = read_journal(&lock, target)?;
        let mut journal = Journal::new(&mut log, state);
        let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
        let outcomes = tune::apply(kernel, &mut journal, &target.host, &started, changes);
        if journal.state().steps.is_empty() {
            lock.discard()?;
        }
        outcomes?
    };
    print_outcomes(target, &outcomes)
}

/// The journal's file, and what its lines came to, of this machine.
fn read_journal(lock: &JournalLock, target: &TunedMachine<'_>) -> Result<(FileLog, JournalState), Failure> {
    let (records, cut) = lock.read()?;
    if cut > 0 {
        target.output.complain(&format!(
            "the last line of the journal in {} is cut short ({cut} bytes): what it announces was not yet \
             begun",
            target.folder.display()
        ));
    }
    let state = state_of(records, target)?;
    Ok((lock.open()?, state))
}

fn state_of(records: Vec<Record>, target: &TunedMachine<'_>) -> Result<JournalState, Failure> {
    let state = JournalState::of(records).map_err(|damage| {
        Failure::Lacks(format!(
            "the journal in {} cannot be followed: {}; restore by hand what it calls “old”, then move it away",
            target.folder.display(),
            damage.0
        ))
    })?;
    tune::check_host(&state, &target.host, &target.folder)?;
    Ok(state)
}

fn undo(args: &UndoArgs, options: &TuneOptions, output: &Output) -> Result<u8, Failure> {
    let target = TunedMachine::of(options, output)?;
    let kernel = target.kernel()?;
    let leave = Leave { force: args.force.clone(), forget: args.forget.clone() };
    if !JournalLock::is_there(&target.folder, &target.name) {
        leave.check(&JournalState::default())?;
        return nothing_to_undo(&target);
    }
    let lock = JournalLock::lock(&target.folder, &target.name)?;
    let outcomes = {
        let (mut log, state) = read_journal(&lock, &target)?;
        let mut journal = Journal::new(&mut log, state);
        leave.check(journal.state())?;
        let outcomes = tune::undo(&kernel, &mut journal, &target.host, &leave)?;
        if journal.state().open().next().is_none() {
            lock.put_aside()?;
        }
        outcomes
    };
    print_outcomes(&target, &outcomes)
}

fn nothing_to_undo(target: &TunedMachine<'_>) -> Result<u8, Failure> {
    if target.options.json {
        return print_outcomes(target, &[]);
    }
    target.output.print(&format!("nothing to undo: {} has no journal\n", target.folder.display()))?;
    Ok(0)
}

fn persist(options: &TuneOptions, output: &Output) -> Result<u8, Failure> {
    if options.netns.is_some() {
        return Err(Failure::Usage(
            "a network namespace does not outlive a boot: put its settings where it is made".into(),
        ));
    }
    let target = TunedMachine::of(options, output)?;
    let kernel = target.kernel()?;
    let state = state_of(tune::look(&target.folder, &target.name)?, &target)?;
    let program = std::env::current_exe().unwrap_or_default();
    let lasting = tune::persistence(&state, &program);
    for (id, why) in &lasting.left {
        output.complain(&format!("{id} does not last: {why}"));
    }
    if lasting.changes.is_empty() {
        return Err(Failure::Lacks(
            "nothing that is applied can be made to last: `linerate tune apply` comes first".into(),
        ));
    }
    if !ask(&screen::files(&lasting.changes), "Write these files", options.yes, output)? {
        return Ok(0);
    }
    carry_out(&target, &kernel, &lasting.changes)
}

/// Shows what would be done and asks; elsewhere than on a terminal `--yes` is wanted.
fn ask(what: &str, question: &str, yes: bool, output: &Output) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !output.can_ask() {
        return Err(Failure::Usage(
            "nobody can be asked here: look at `linerate tune`, then add --yes".into(),
        ));
    }
    Ok(output.agrees(what, question))
}

/// What was done, as JSON.
#[derive(Serialize)]
struct OutcomesOutput<'a> {
    schema: u32,
    journal: String,
    outcomes: &'a [SettingOutcome],
}

fn print_outcomes(target: &TunedMachine<'_>, outcomes: &[SettingOutcome]) -> Result<u8, Failure> {
    let output = target.output;
    let product = OutcomesOutput { schema: 1, journal: target.folder.display().to_string(), outcomes };
    output.show(target.options.json, &product, || screen::outcomes(outcomes))?;
    let trouble = outcomes.iter().filter(|outcome| outcome.what.is_trouble()).count();
    if trouble > 0 {
        output.complain(&format!("{trouble} of {} settings need a look", outcomes.len()));
    }
    Ok(u8::from(trouble > 0))
}
