//! What is to be tried (settings of the machine, through the journal, or something that this process does
//! differently), whether there is any use in it here, and what came of it.

use super::super::apply::{ApplyResult, SettingOutcome, WantedValue, apply};
use super::super::choice::SettingTrial;
use super::super::journal::{Host, Journal};
use super::super::kernel_access::KernelAccess;
use super::super::process::{Own, StateHold};
use super::super::setting_place::SettingPlace;
use super::super::undo::{Leave, undo_from};
use super::TrialSpec;
use super::turns::{Effect, StateWindows};
use linerate_facts::failure::Failure;
use linerate_machine::probe::source::devices_behind;
use linerate_measure::run::again::{FigureContext, FigureKind, ProcessOptions};
use linerate_system::clock::{self, POLL_INTERVAL};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// One thing to try.
#[derive(Clone, Debug)]
pub enum Try {
    /// Tried first, and never written to the machine.
    Process(&'static Own),
    Machine(SettingTrial),
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrialResult {
    /// `rmem-max`, `read-ahead:vda`, `pinning`.
    pub name: String,
    pub figure: String,
    /// Places with their values before and in between; one for each queue, say.
    pub settings: Vec<ValueChange>,
    pub effect: Option<Effect>,
    /// Share by which the median grew.
    pub change: Option<f64>,
    pub before: Option<StateWindows>,
    pub wanted: Option<StateWindows>,
    /// It has its wanted value now, and the journal the old one.
    pub kept: bool,
    /// How linerate gives what belongs to a process.
    pub given_by: Option<&'static str>,
    /// Why it was not measured, or not kept.
    pub why: Option<String>,
    /// Something failed; otherwise there was no use in trying it here.
    pub failed: bool,
}

/// A place and its two values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueChange {
    pub place: String,
    pub before: String,
    pub wanted: String,
}

impl Try {
    pub fn figure(&self) -> FigureKind {
        match self {
            Try::Process(own) => own.figure,
            Try::Machine(trial) => trial.figure,
        }
    }

    /// Name, as `--setting` takes it.
    pub fn name(&self) -> &str {
        match self {
            Try::Process(own) => own.id,
            Try::Machine(trial) => &trial.name,
        }
    }

    /// Why there is no use in trying it here.
    pub(super) fn untried(
        &self,
        access: &dyn KernelAccess,
        context: FigureContext<'_>,
        spec: &TrialSpec,
    ) -> Option<String> {
        match self {
            Try::Process(own) => own.untried(spec.rate),
            Try::Machine(trial) if trial.changes.iter().all(|want| has_wanted_value(access, want)) => {
                Some("it has this value already".into())
            }
            Try::Machine(trial) => {
                let disk = trial.disk.as_ref()?;
                let source = &spec.figure_spec.source;
                (!lies_on(context, source, disk)).then(|| {
                    format!(
                        "{} is not on {disk}: name a file or a directory on it with --source",
                        source.display()
                    )
                })
            }
        }
    }

    pub(super) fn without_figure(&self, access: &dyn KernelAccess, why: String) -> TrialResult {
        TrialResult { why: Some(why), ..self.begun(access) }
    }

    /// What is known before the first window.
    pub(super) fn begun(&self, access: &dyn KernelAccess) -> TrialResult {
        let (settings, given_by) = match self {
            Try::Process(own) => {
                let change = ValueChange {
                    place: own.what.into(),
                    before: own.states[0].into(),
                    wanted: own.states[1].into(),
                };
                (vec![change], Some(own.given_by))
            }
            Try::Machine(trial) => (trial.changes.iter().map(|want| change(access, want)).collect(), None),
        };
        TrialResult {
            name: self.name().to_string(),
            figure: self.figure().to_string(),
            settings,
            given_by,
            ..TrialResult::default()
        }
    }
}

/// The setting has the wanted value.
fn has_wanted_value(access: &dyn KernelAccess, want: &WantedValue) -> bool {
    let now = access.read(&want.place).ok().flatten();
    now.is_some_and(|now| want.shape.same(&now, &want.shape.asking(&want.value)))
}

fn change(access: &dyn KernelAccess, want: &WantedValue) -> ValueChange {
    let now = access.read(&want.place).ok().flatten();
    ValueChange {
        place: want.place.to_string(),
        before: now.map_or("?".into(), |now| want.shape.value(&now)),
        wanted: want.value.clone(),
    }
}

/// The source is on this disk, or on what this disk is made of.
fn lies_on(context: FigureContext<'_>, source: &Path, disk: &str) -> bool {
    let behind = devices_behind(context.sysroot, context.machine, source);
    let Some(behind) = behind.known() else { return false };
    let members = context.machine.disk(disk).map_or(&[][..], |one| &one.members);
    behind.leaves.iter().any(|leaf| leaf == disk)
        || Path::new(&behind.device).file_name().is_some_and(|name| name == disk)
        || !members.is_empty() && members.iter().all(|member| behind.leaves.contains(member))
}

/// A card whose rings or channels were changed has its link back within this time.
const LINK_BACK: Duration = Duration::from_secs(15);

/// The settings of one trial, and where they are noted.
pub struct TrialMachine<'a, 'j> {
    pub access: &'a dyn KernelAccess,
    pub journal: &'a mut Journal<'j>,
    pub host: &'a Host,
    /// RFC 3339, for the journal.
    pub started: &'a str,
    pub changes: Vec<WantedValue>,
    /// Whether the interface of a setting has its link; asked before and after.
    pub links: Links<'a>,
}

/// Whether an interface can be used now.
pub type Links<'a> = &'a dyn Fn(&str) -> bool;

impl TrialMachine<'_, '_> {
    /// Gives the settings their wanted values. Where none of them changes, that is the error, and nothing is
    /// changed.
    pub(crate) fn apply_wanted(&mut self) -> Result<Vec<SettingOutcome>, Failure> {
        let first = self.journal.state().steps.len();
        let up = self.interfaces_with_link();
        let outcomes = apply(self.access, self.journal, self.host, self.started, &self.changes)?;
        let trouble = outcomes.iter().find_map(|outcome| match &outcome.what {
            ApplyResult::Failed { why } => Some(why.clone()),
            _ => None,
        });
        if let Some(why) = trouble {
            self.back_to(first)?;
            return Err(Failure::Lacks(why));
        }
        self.wait_for(&up);
        Ok(outcomes)
    }

    /// Restores everything from this number of the journal on.
    fn back_to(&mut self, first: usize) -> Result<(), Failure> {
        let up = self.interfaces_with_link();
        let outcomes = undo_from(self.access, self.journal, self.host, &Leave::default(), first)?;
        let trouble = outcomes.iter().find_map(|outcome| match &outcome.what {
            ApplyResult::Kept { why } => Some(format!("{} could not be restored: {why}", outcome.place)),
            ApplyResult::Foreign { now, .. } => {
                Some(format!("{} was changed by somebody else and stays {now}", outcome.place))
            }
            _ => None,
        });
        if let Some(why) = trouble {
            return Err(Failure::Lacks(format!("{why}; it is in the journal: linerate tune undo")));
        }
        self.wait_for(&up);
        Ok(())
    }

    fn interfaces_with_link(&self) -> Vec<String> {
        let named = self.changes.iter().filter_map(|want| match &want.place {
            SettingPlace::Driver { interface, .. } => Some(interface.clone()),
            _ => None,
        });
        named.filter(|name| (self.links)(name)).collect()
    }

    /// What had a link before has it again, or has had its time.
    fn wait_for(&self, up: &[String]) {
        let until = clock::now() + LINK_BACK;
        while up.iter().any(|name| !(self.links)(name)) && clock::now() < until {
            // Not ended by Ctrl-C: the setting is back only when the link is.
            clock::sleep(POLL_INTERVAL);
        }
    }
}

/// What a trial switches.
pub(crate) enum Subject<'a, 'j> {
    Machine { machine: TrialMachine<'a, 'j>, first: usize },
    Process { own: &'static Own, held: Option<StateHold> },
}

impl Subject<'_, '_> {
    /// Goes to the wanted state, or back.
    pub(crate) fn switch(&mut self, wanted: bool) -> Result<(), Failure> {
        match self {
            Subject::Machine { machine, first } if wanted => {
                *first = machine.journal.state().steps.len();
                machine.apply_wanted().map(drop)
            }
            Subject::Machine { machine, first } => machine.back_to(*first),
            Subject::Process { own, held } => {
                // What is held is let go before anything else is.
                *held = None;
                *held = Some(own.hold(wanted).map_err(Failure::lacks)?);
                Ok(())
            }
        }
    }

    /// How this process moves bytes in the state.
    pub(crate) fn options(&self, wanted: bool, rate: Option<f64>) -> ProcessOptions {
        match self {
            Subject::Machine { .. } => ProcessOptions::default(),
            Subject::Process { own, .. } => own.options(wanted, rate),
        }
    }
}
