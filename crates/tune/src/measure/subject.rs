//! What is tried: settings of the machine, through the journal, or something that this process does
//! differently.

use super::super::apply::{ApplyResult, SettingOutcome, WantedValue, apply};
use super::super::journal::{Host, Journal};
use super::super::kernel_access::KernelAccess;
use super::super::process::{Own, StateHold};
use super::super::setting_place::SettingPlace;
use super::super::undo::{Leave, undo_from};
use linerate_facts::failure::Failure;
use linerate_measure::run::again::ProcessOptions;
use linerate_system::clock::{self, POLL_INTERVAL};
use std::time::Duration;

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
    pub(crate) fn back_to(&mut self, first: usize) -> Result<(), Failure> {
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
