//! The shape of an entry, and what it says about one place.

use super::super::goal::GoalFacts;
use super::super::shape::Shape;
use super::Where;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::streams::StreamDirection;
use linerate_measure::run::again::FigureKind;
use serde::Serialize;

/// What shows whether a setting helped.
pub(super) const TCP_SEND: FigureKind = FigureKind::Network(Protocol::Tcp, StreamDirection::Send);
pub(super) const TCP_RECEIVE: FigureKind = FigureKind::Network(Protocol::Tcp, StreamDirection::Receive);
pub(super) const UDP_SEND: FigureKind = FigureKind::Network(Protocol::Udp, StreamDirection::Send);
pub(super) const UDP_RECEIVE: FigureKind = FigureKind::Network(Protocol::Udp, StreamDirection::Receive);
pub(super) const PATH: FigureKind = FigureKind::Path(Protocol::Tcp);

/// What a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingStage {
    Network,
    Disk,
    Memory,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    Low,
    Medium,
    /// Changed only where the user names the setting.
    High,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Name, as `--setting` takes it.
    pub id: &'static str,
    /// What it is, a phrase.
    pub what: &'static str,
    pub stage: SettingStage,
    /// What `tune measure` takes to see whether it helped.
    pub figure: FigureKind,
    /// Where it is.
    pub at: Where,
    pub shape: Shape,
    /// What to do about it, from the machine's rates.
    pub advice: fn(&CatalogueContext<'_>) -> Advice,
    /// Where it is described.
    pub source: &'static str,
    pub risk: Risk,
    /// What the risk is, a phrase.
    pub harm: &'static str,
    /// Findings of a run that it cures.
    pub findings: &'static [&'static str],
    /// Numbers that the kernel takes, where it is one number.
    pub range: Option<(u64, u64)>,
    /// Why it is the user's to choose whatever it is: only a measurement shows that.
    pub left: Option<&'static str>,
}

/// What the settings of one list have in common.
#[derive(Clone, Copy)]
pub(super) struct SettingGroup {
    pub(super) stage: SettingStage,
    pub(super) figure: FigureKind,
}

impl SettingGroup {
    /// What most settings are: words, of low risk, for no finding in particular. Whatever else there is to
    /// say is said with `..`.
    pub(super) const fn entry(
        self,
        id: &'static str,
        what: &'static str,
        at: Where,
        advice: fn(&CatalogueContext<'_>) -> Advice,
        source: &'static str,
        harm: &'static str,
    ) -> Setting {
        Setting {
            id,
            what,
            stage: self.stage,
            figure: self.figure,
            at,
            shape: Shape::Words,
            advice,
            source,
            risk: Risk::Low,
            harm,
            findings: &[],
            range: None,
            left: None,
        }
    }
}

impl Setting {
    pub(super) const fn with_risk(self, risk: Risk) -> Setting {
        Setting { risk, ..self }
    }
}

/// What an entry looks at.
#[derive(Debug)]
pub struct CatalogueContext<'a> {
    pub facts: &'a GoalFacts,
    /// Name of the device, empty for a setting of the whole machine.
    pub device: &'a str,
    /// Number of the queue, where it is one's.
    pub queue: Option<u32>,
    /// The file, where it is one.
    pub at: &'a std::path::Path,
    /// Value now.
    pub now: &'a str,
}

/// What to do about a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Give it this value.
    Change {
        value: String,
        why: String,
        /// The current value follows a rule that was right once, or never.
        stale: bool,
        /// Share by which the flow grows, by arithmetic; `None` where only a measurement shows it.
        gain: Option<f64>,
    },
    /// It is right.
    Right,
    /// It is the user's to choose.
    Leave(String),
    /// Something is missing to tell: a phrase.
    Unknown(String),
}

impl Advice {
    /// Give it this value, because of this.
    pub fn change(value: impl ToString, why: impl Into<String>) -> Advice {
        Advice::Change { value: value.to_string(), why: why.into(), stale: false, gain: None }
    }

    /// Someone set it by advice that is wrong here.
    pub fn stale(value: impl ToString, why: impl Into<String>) -> Advice {
        Advice::Change { value: value.to_string(), why: why.into(), stale: true, gain: None }
    }

    /// It is the user's to choose.
    pub fn leave(why: &str) -> Advice {
        Advice::Leave(why.to_string())
    }
}

impl CatalogueContext<'_> {
    /// The value as one number.
    pub fn number(&self) -> Option<u64> {
        self.now.parse().ok()
    }

    /// The value as numbers.
    pub fn numbers(&self) -> Option<Vec<u64>> {
        self.now.split(' ').map(|word| word.parse().ok()).collect()
    }

    /// An interface here takes larger packets.
    pub(super) fn has_mtu_above(&self, bytes: u64) -> bool {
        let mut nics = self.facts.machine.nics.iter();
        nics.any(|nic| !nic.loopback && nic.mtu.known().is_some_and(|mtu| u64::from(*mtu) > bytes))
    }

    /// At least so much, for the reason; smaller values are raised, larger ones stay.
    pub fn at_least(&self, wanted: u64, why: impl Into<String>) -> Advice {
        match self.number() {
            Some(now) if now >= wanted => Advice::Right,
            Some(_) => Advice::change(wanted, why),
            None => Advice::Unknown(format!("“{}” is not a number", self.now)),
        }
    }

    /// Exactly this word.
    pub fn exactly(&self, wanted: &str, why: &str) -> Advice {
        if self.now == wanted { Advice::Right } else { Advice::change(wanted, why) }
    }

    /// Exactly this word; another one is advice that is wrong here.
    pub(crate) fn never_else(&self, wanted: &str, why: &str) -> Advice {
        if self.now == wanted { Advice::Right } else { Advice::stale(wanted, why) }
    }
}
