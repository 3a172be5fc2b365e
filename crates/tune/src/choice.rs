//! Which settings the user means, and what follows: what is to be changed, what is to be tried.

use super::apply::WantedValue;
use super::catalogue::{self, Risk, SettingStage};
use super::plan::{Item, TunePlan};
use super::process::{self, Own, OwnItem};
use super::setting_place::DeviceClass;
use linerate_facts::failure::Failure;
use linerate_measure::run::again::FigureKind;

/// Which settings the user means; empty: all.
#[derive(Clone, Debug, Default)]
pub struct SettingChoice {
    pub stage: Option<SettingStage>,
    pub findings: Vec<String>,
    /// `ID`, `ID:DEVICE`, each with `=VALUE` behind it where the user sets the value.
    pub settings: Vec<String>,
}

impl SettingChoice {
    /// Nothing was named.
    pub fn is_all(&self) -> bool {
        self.stage.is_none() && self.findings.is_empty() && self.settings.is_empty()
    }

    /// The names are names of the catalogue, and the values in range.
    pub fn check(&self) -> Result<(), Failure> {
        for finding in &self.findings {
            let own = process::ALL.iter().flat_map(|own| own.findings);
            let all = || catalogue::all().flat_map(|entry| entry.findings).chain(own.clone());
            if !all().any(|known| known == finding) {
                let mut known: Vec<&str> = all().copied().collect();
                known.sort_unstable();
                known.dedup();
                return Err(Failure::Usage(format!(
                    "no setting cures the finding {finding}; those that a setting cures: {}",
                    known.join(", ")
                )));
            }
        }
        self.settings.iter().try_for_each(|named| check_setting(named))
    }

    /// The user means this thing that a process does for itself.
    pub fn takes_own(&self, id: &str, stage: SettingStage, findings: &[&str]) -> bool {
        self.settings.iter().any(|named| name_and_value(named).0 == id)
            || findings.iter().any(|finding| self.findings.iter().any(|named| named == finding))
            || self.stage == Some(stage) && self.findings.is_empty() && self.settings.is_empty()
            || self.is_all()
    }

    /// The user named this setting or one of its findings: then it may be of high risk.
    fn names(&self, item: &Item) -> bool {
        let by_name = self.settings.iter().any(|named| item.is_called(name_and_value(named).0));
        by_name || item.findings.iter().any(|id| self.findings.iter().any(|finding| finding == id))
    }

    /// The user means this setting; the value that he set, if he did.
    fn takes(&self, item: &Item) -> Option<Option<String>> {
        let named = self.settings.iter().find_map(|named| {
            let (name, value) = name_and_value(named);
            item.is_called(name).then(|| value.map(str::to_string))
        });
        if named.is_some() {
            return named;
        }
        let by_finding = item.findings.iter().any(|id| self.findings.iter().any(|named| named == id));
        let by_stage = self.stage == Some(item.stage) && self.findings.is_empty() && self.settings.is_empty();
        (by_finding || by_stage || self.is_all()).then_some(None)
    }
}

/// Name and value of `NAME=VALUE`.
fn name_and_value(named: &str) -> (&str, Option<&str>) {
    named.split_once('=').map_or((named, None), |(name, value)| (name.trim(), Some(value.trim())))
}

fn own_setting(id: &str) -> Option<&'static Own> {
    process::ALL.iter().find(|own| own.id == id)
}

fn check_setting(named: &str) -> Result<(), Failure> {
    let (name, value) = name_and_value(named);
    let id = name.split(':').next().unwrap_or_default();
    if let Some(own) = own_setting(id) {
        return match (value, name == id) {
            (None, true) => Ok(()),
            _ => Err(Failure::Usage(format!(
                "--setting {named}: {id} belongs to a process and has no value and no device; it is \
                 given by: {}",
                own.given_by
            ))),
        };
    }
    let Some(entry) = catalogue::all().find(|entry| entry.id == id) else {
        let known: Vec<&str> =
            process::ALL.iter().map(|own| own.id).chain(catalogue::all().map(|entry| entry.id)).collect();
        return Err(Failure::Usage(format!("no setting is called {id}; there are: {}", known.join(", "))));
    };
    let Some(value) = value else { return Ok(()) };
    if value.is_empty() || value.len() > 4096 || value.chars().any(char::is_control) {
        return Err(Failure::Usage(format!("--setting {name}: the value is empty, too long or no text")));
    }
    let out = entry
        .range
        .filter(|(least, most)| !value.parse::<u64>().is_ok_and(|value| (*least..=*most).contains(&value)));
    match out {
        Some((least, most)) => {
            Err(Failure::Usage(format!("--setting {named}: {id} is a number from {least} to {most}")))
        }
        None => Ok(()),
    }
}

impl TunePlan {
    /// What the user means.
    pub fn chosen(&self, choice: &SettingChoice) -> Vec<&Item> {
        self.settings.iter().filter(|item| choice.takes(item).is_some()).collect()
    }

    /// What a process does for itself, of what the user means.
    pub fn chosen_own(&self, choice: &SettingChoice) -> Vec<&OwnItem> {
        self.process.iter().filter(|own| choice.takes_own(own.id, own.stage, own.findings)).collect()
    }

    /// What is to be changed: what is advised among what the user means, what he gives a value to, and what
    /// is risky only where he names it.
    pub fn changes(&self, choice: &SettingChoice) -> Result<Vec<WantedValue>, Failure> {
        choice.check()?;
        if let Some(own) = choice.settings.iter().find_map(|named| own_setting(name_and_value(named).0)) {
            return Err(Failure::Usage(format!(
                "{} belongs to a process: nothing of it is written to the machine. It is given by: {}; \
                 `linerate tune measure --setting {}` tries it",
                own.id, own.given_by, own.id
            )));
        }
        Ok(self.wanted(choice)?.into_iter().map(|(_, want)| want).collect())
    }

    /// What is to be tried, each with the figure that shows it. What belongs together is one trial: the
    /// queues of a card, the policies of all cores.
    pub fn trials(&self, choice: &SettingChoice) -> Result<Vec<SettingTrial>, Failure> {
        choice.check()?;
        let mut trials: Vec<SettingTrial> = Vec::new();
        for (item, want) in self.wanted(choice)? {
            let of = match item.at.device.as_ref().map(|device| device.kind) {
                Some(DeviceClass::Nic | DeviceClass::Disk | DeviceClass::Interrupt) => {
                    format!(":{}", item.at.of)
                }
                None => String::new(),
            };
            let name = format!("{}{of}", item.at.entry);
            let disk = item.at.device.as_ref().filter(|device| device.kind == DeviceClass::Disk);
            let disk = disk.map(|device| device.name.clone());
            match trials.iter_mut().find(|trial| trial.name == name) {
                Some(trial) => trial.changes.push(want),
                None => trials.push(SettingTrial { name, figure: item.at.figure, disk, changes: vec![want] }),
            }
        }
        Ok(trials)
    }

    fn wanted(&self, choice: &SettingChoice) -> Result<Vec<(&Item, WantedValue)>, Failure> {
        let mut changes = Vec::new();
        for item in &self.settings {
            let Some(own) = choice.takes(item) else { continue };
            let value = match own {
                Some(value) => Some(value),
                None => item.wanted.clone().filter(|_| choice.names(item) || item.risk < Risk::High),
            };
            let Some(value) = value else { continue };
            let shape = catalogue::all().find(|entry| entry.id == item.at.entry).map(|entry| entry.shape);
            let Some(shape) = shape else { continue };
            let want = WantedValue {
                id: item.id.clone(),
                place: item.at.place.clone(),
                shape,
                device: item.at.device.clone(),
                value,
            };
            changes.push((item, want));
        }
        let there =
            |name: &str| own_setting(name).is_some() || self.settings.iter().any(|item| item.is_called(name));
        match choice.settings.iter().map(|named| name_and_value(named).0).find(|name| !there(name)) {
            Some(name) => Err(Failure::Lacks(format!(
                "{name} is not on this machine: `linerate tune --all` lists what is"
            ))),
            None => Ok(changes),
        }
    }
}

/// Settings that are tried together.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingTrial {
    /// `read-ahead:vda`, `governor`.
    pub name: String,
    /// What shows whether they helped.
    pub figure: FigureKind,
    /// The disk that the figure has to be taken on.
    pub disk: Option<String>,
    pub changes: Vec<WantedValue>,
}
