//! What each setting is now, what it should be, and why. Nothing is changed.

use super::advice::{self, TuneNote};
use super::catalogue::{self, Advice, CatalogueContext, Risk, Setting, SettingStage, Spot};
use super::goal::{GoalFacts, TuneGoal};
use super::kernel_access::{AccessRefusal, KernelAccess};
use super::process::{self, OwnItem};
use super::setting_place::{NamedDevice, SettingPlace};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_measure::run::again::FigureKind;
use serde::Serialize;
use std::path::Path;

/// What the settings are and should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunePlan {
    pub schema: u32,
    /// Bytes per second that the machine is tuned for.
    pub bytes_per_second: Fact<f64>,
    /// Round trip that it is tuned for, seconds.
    pub round_trip_seconds: f64,
    /// What a process does for itself: tried first, never written to the machine.
    pub process: Vec<OwnItem>,
    pub settings: Vec<Item>,
    /// What linerate does not change, with what to do about it.
    pub advice: Vec<TuneNote>,
    /// What would undo it again: irqbalance.
    pub notes: Vec<String>,
}

/// One setting at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// `read-ahead:vda`.
    pub id: String,
    pub what: &'static str,
    /// `net.core.rmem_max`, a path, or an `ethtool` command.
    pub place: String,
    pub stage: SettingStage,
    /// Value now.
    pub now: Fact<String>,
    pub verdict: SettingVerdict,
    /// Value that it should have, where that is another.
    pub wanted: Option<String>,
    pub why: String,
    pub source: &'static str,
    pub risk: Risk,
    /// What may go wrong.
    pub harm: &'static str,
    /// Findings of a run that it cures.
    pub findings: &'static [&'static str],
    /// Share by which the flow grows by the model; absent where only a measurement shows it.
    pub gain: Option<f64>,
    #[serde(skip)]
    pub(super) at: At,
}

/// What a change needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct At {
    pub entry: &'static str,
    /// NIC, disk, CPU policy; empty for the whole machine.
    pub of: String,
    pub figure: FigureKind,
    pub place: SettingPlace,
    pub device: Option<NamedDevice>,
}

/// What is said about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingVerdict {
    /// Another value is better.
    Change,
    /// Another value is better: the current one follows advice that is wrong here.
    Stale,
    /// It is right.
    Right,
    /// It is the user's to choose.
    Leave,
    /// It cannot be read, or something is missing to tell.
    Unknown,
}

/// Reads all settings and says what to do about each.
pub fn plan(sysroot: &Sysroot, machine: Machine, goal: TuneGoal, access: &dyn KernelAccess) -> TunePlan {
    let facts = GoalFacts { sysroot: sysroot.clone(), machine, goal };
    let mut settings = Vec::new();
    for entry in catalogue::all() {
        settings.extend(entry.at.spots(&facts).into_iter().map(|spot| item(&facts, access, entry, spot)));
    }
    let irqbalance = facts.machine.kernel.irqbalance.known().copied().unwrap_or(false);
    let moved = settings.iter().any(|item| item.at.entry.ends_with("irq-affinity") && item.wanted.is_some());
    let notes = (irqbalance && moved).then(|| {
        "irqbalance runs: it moves interrupts back within seconds; stop it (systemctl stop irqbalance) or \
         ban those that were set (IRQBALANCE_ARGS=--banirq=N)"
            .to_string()
    });
    TunePlan {
        schema: 1,
        bytes_per_second: facts.rate().into(),
        round_trip_seconds: facts.round_trip(),
        process: process::look(&facts),
        settings,
        advice: advice::remarks(&facts),
        notes: notes.into_iter().collect(),
    }
}

fn item(facts: &GoalFacts, access: &dyn KernelAccess, entry: &'static Setting, spot: Spot) -> Item {
    let now = match access.read(&spot.place) {
        Ok(raw) => Fact::Known(entry.shape.value(&raw.unwrap_or_default())),
        Err(AccessRefusal::Absent(_)) => Fact::unknown("this kernel or device does not have it"),
        Err(AccessRefusal::Refused(why) | AccessRefusal::Hung(why)) => Fact::unknown(why),
    };
    let advice = match &now {
        Fact::Unknown { why } => Advice::Unknown(why.clone()),
        Fact::Known(_) if entry.left.is_some() => Advice::leave(entry.left.unwrap_or_default()),
        Fact::Known(now) => {
            let at = match &spot.place {
                SettingPlace::Attribute(path) | SettingPlace::DropIn(path) => path.as_path(),
                SettingPlace::Driver { .. } => Path::new(""),
            };
            (entry.advice)(&CatalogueContext { facts, device: &spot.of, queue: spot.queue, at, now })
        }
    };
    let (verdict, wanted, why, gain) = match advice {
        Advice::Change { value, why, stale, gain } => {
            (if stale { SettingVerdict::Stale } else { SettingVerdict::Change }, Some(value), why, gain)
        }
        Advice::Right => (SettingVerdict::Right, None, String::new(), None),
        Advice::Leave(why) => (SettingVerdict::Leave, None, why, None),
        Advice::Unknown(why) => (SettingVerdict::Unknown, None, why, None),
    };
    Item {
        id: if spot.name.is_empty() { entry.id.to_string() } else { format!("{}:{}", entry.id, spot.name) },
        what: entry.what,
        place: spot.place.to_string(),
        stage: entry.stage,
        now,
        verdict,
        wanted,
        why,
        source: entry.source,
        risk: entry.risk,
        harm: entry.harm,
        findings: entry.findings,
        gain,
        at: At { entry: entry.id, of: spot.of, figure: entry.figure, place: spot.place, device: spot.device },
    }
}

impl Item {
    /// `rps`, `rps:eth0` for all queues of the card, `rps:eth0/rx-3` for one.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let at = &self.at;
        name == self.id || name == at.entry || name.split_once(':') == Some((at.entry, &at.of))
    }
}
