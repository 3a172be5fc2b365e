//! The settings that linerate knows: one small entry each, checked against the source that it names. What
//! could not be checked is not here.

mod cpu;
mod disk;
mod memory;
mod nic;
mod sockets;
mod spots;
mod tcp;

use super::goal::GoalFacts;
use super::setting_place::Shape;
use crate::setting_place::SettingPlace;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::streams::StreamDirection;
use linerate_measure::run::again::FigureKind;
use serde::Serialize;
pub(crate) use spots::Spot;
pub use spots::Where;
use std::path::Path;

/// All entries, in the order in which they are changed: what re-creates queues comes before what is set for
/// each queue.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    [sockets::ENTRIES, tcp::ENTRIES, memory::ENTRIES, cpu::ENTRIES, nic::ENTRIES, disk::ENTRIES]
        .into_iter()
        .flatten()
}

/// A setting of this name can be in this place, on whichever machine. A journal that says otherwise was
/// written by another linerate, or by somebody else.
pub(crate) fn knows(id: &str, place: &SettingPlace) -> bool {
    if let SettingPlace::DropIn(path) = place {
        return super::persist::FILES.iter().any(|file| path == Path::new(file));
    }
    let name = id.split_once(':').map_or(id, |(name, _)| name);
    all().any(|entry| entry.id == name && entry.at.holds(place))
}

/// What shows whether a setting helped.
const TCP_SEND: FigureKind = FigureKind::Network(Protocol::Tcp, StreamDirection::Send);
const TCP_RECEIVE: FigureKind = FigureKind::Network(Protocol::Tcp, StreamDirection::Receive);
const UDP_SEND: FigureKind = FigureKind::Network(Protocol::Udp, StreamDirection::Send);
const UDP_RECEIVE: FigureKind = FigureKind::Network(Protocol::Udp, StreamDirection::Receive);
const PATH: FigureKind = FigureKind::Path(Protocol::Tcp);

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
struct SettingGroup {
    stage: SettingStage,
    figure: FigureKind,
}

impl SettingGroup {
    /// What most settings are: words, of low risk, for no finding in particular. Whatever else there is to
    /// say is said with `..`.
    const fn entry(
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
    const fn with_risk(self, risk: Risk) -> Setting {
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
    fn has_mtu_above(&self, bytes: u64) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting_place::Knob;

    #[test]
    fn only_what_the_catalogue_has_is_known_and_only_in_its_place() {
        let file = |id: &str, path: &str| knows(id, &SettingPlace::Attribute(path.into()));
        assert!(file("rmem-max", "/proc/sys/net/core/rmem_max"));
        assert!(file("read-ahead:vda", "/sys/block/vda/queue/read_ahead_kb"));
        assert!(
            file("read-ahead:vdb", "/sys/block/renamed/queue/read_ahead_kb"),
            "a device has another name now"
        );
        for (id, path) in [
            ("hostname", "/proc/sys/kernel/hostname"),
            ("rmem-max", "/proc/sys/kernel/core_pattern"),
            ("read-ahead:vda", "/sys/block/vda/../../../proc/sys/kernel/core_pattern"),
            ("read-ahead:..", "/sys/block/../queue/read_ahead_kb"),
            ("read-ahead:vda", "/sys/block/vda/queue/read_ahead_kb/more"),
            ("read-ahead:vda", "sys/block/vda/queue/read_ahead_kb"),
        ] {
            assert!(!file(id, path), "{id} {path}");
        }
        let driver = |knob: Knob| SettingPlace::Driver { interface: "eth0".into(), knob };
        assert!(knows("rx-ring:eth0", &driver(Knob::RxRing)));
        assert!(!knows("rx-ring:eth0", &driver(Knob::TxRing)));
        assert!(!knows("rx-ring:eth0", &driver(Knob::Feature("rx-gro".into()))));
        let drop_in = |path: &str| knows("drop-in:x", &SettingPlace::DropIn(path.into()));
        assert!(drop_in("/etc/sysctl.d/90-linerate.conf"));
        assert!(!drop_in("/etc/systemd/system/mine.service") && !drop_in("/etc/sysctl.d/../passwd"));
    }

    #[test]
    fn every_entry_is_whole() {
        let mut ids = std::collections::BTreeSet::new();
        for entry in all() {
            assert!(ids.insert(entry.id), "{} stands twice", entry.id);
            assert!(
                entry
                    .id
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
            assert!(entry.source.starts_with("https://"), "{}: a public source", entry.id);
            assert!(!entry.what.is_empty() && !entry.harm.is_empty(), "{}", entry.id);
        }
        assert!(ids.len() > 70, "{}", ids.len());
    }
}
