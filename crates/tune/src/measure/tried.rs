//! What is to be tried, whether there is any use in it here, and what came of it.

use super::super::apply::WantedValue;
use super::super::choice::SettingTrial;
use super::super::kernel_access::KernelAccess;
use super::super::process::Own;
use super::TrialSpec;
use super::judge::{Effect, StateWindows};
use linerate_machine::probe::source::devices_behind;
use linerate_measure::run::again::{FigureContext, FigureKind};
use serde::Serialize;
use std::path::Path;

/// One thing to try.
#[derive(Clone, Debug)]
pub enum Try {
    /// Tried first, and never written to the machine.
    Process(&'static Own),
    Machine(SettingTrial),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
            Try::Machine(trial) if trial.changes.iter().all(|want| has(access, want)) => {
                Some("it has this value already".into())
            }
            Try::Machine(trial) => {
                let disk = trial.disk.as_ref()?;
                let source = &spec.ground.source;
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
            effect: None,
            change: None,
            before: None,
            wanted: None,
            kept: false,
            given_by,
            why: None,
            failed: false,
        }
    }
}

/// The setting has the wanted value.
fn has(access: &dyn KernelAccess, want: &WantedValue) -> bool {
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
