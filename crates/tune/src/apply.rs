//! Changes settings: all old values into the journal, then each setting announced, written, read back and
//! noted.

use super::journal::{Bytes, Host, Journal, JournalEntry, Record};
use super::kernel_access::{AccessRefusal, KernelAccess};
use super::setting_place::{NamedDevice, SettingPlace, Shape};
use linerate_facts::failure::Failure;
use serde::Serialize;

/// A setting that is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedValue {
    pub id: String,
    pub place: SettingPlace,
    pub shape: Shape,
    pub device: Option<NamedDevice>,
    /// The value as a user writes it.
    pub value: String,
}

/// What became of one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingOutcome {
    pub id: String,
    pub place: String,
    pub what: ApplyResult,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum ApplyResult {
    /// It has another value now.
    Changed { before: String, now: String },
    /// The kernel took the write and made something else of it.
    Clamped { before: String, asked: String, now: String },
    /// It had the value already.
    Same { now: String },
    /// It could not be changed.
    Failed { why: String },
    /// It has its old value again.
    Restored { now: String },
    /// It has its old value, or was never changed: nothing was written.
    Untouched { how: super::journal::UndoResult },
    /// Somebody else changed it since: left as it is.
    Foreign { before: String, ours: String, now: String },
    /// It cannot be restored now; the journal keeps it.
    Kept { why: String },
}

impl ApplyResult {
    /// The user has something to look after.
    pub fn is_trouble(&self) -> bool {
        matches!(self, ApplyResult::Failed { .. } | ApplyResult::Foreign { .. } | ApplyResult::Kept { .. })
    }
}

/// Changes what differs from the wanted values, in their order. The error is the journal's, or a driver that hangs;
/// what was done until then is in the journal.
pub fn apply(
    access: &dyn KernelAccess,
    journal: &mut Journal<'_>,
    host: &Host,
    started: &str,
    changes: &[WantedValue],
) -> Result<Vec<SettingOutcome>, Failure> {
    let mut outcomes: Vec<Option<SettingOutcome>> = Vec::new();
    let mut entries = Vec::new();
    for want in changes {
        let (outcome, entry) = look(access, want)?;
        outcomes.push(outcome);
        entries.extend(entry);
    }
    if entries.is_empty() {
        return Ok(outcomes.into_iter().flatten().collect());
    }
    let first = journal.begin(started.to_string(), host, entries.clone())?;
    let mut changed = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        changed.push(outcome(entry, change(access, journal, first + index, entry)?));
    }
    let mut changed = changed.into_iter();
    Ok(outcomes.into_iter().filter_map(|outcome| outcome.or_else(|| changed.next())).collect())
}

/// What needs no write or cannot have one; else the entry for the journal.
fn look(
    access: &dyn KernelAccess,
    want: &WantedValue,
) -> Result<(Option<SettingOutcome>, Option<JournalEntry>), Failure> {
    let result = |what| SettingOutcome { id: want.id.clone(), place: want.place.to_string(), what };
    let wanted = want.shape.asking(&want.value);
    Ok(match access.read(&want.place) {
        Err(AccessRefusal::Hung(why)) => return Err(Failure::Lacks(format!("{why}; nothing was changed"))),
        Err(refusal) => (Some(result(ApplyResult::Failed { why: refusal.to_string() })), None),
        Ok(Some(now)) if want.shape.same(&now, &wanted) => {
            (Some(result(ApplyResult::Same { now: want.shape.value(&now) })), None)
        }
        Ok(old) => {
            let entry = JournalEntry {
                id: want.id.clone(),
                place: want.place.clone(),
                shape: want.shape,
                device: want.device.clone(),
                old: old.as_deref().map(Bytes::of),
                wanted: Bytes::of(&wanted),
            };
            (None, Some(entry))
        }
    })
}

fn outcome(entry: &JournalEntry, what: ApplyResult) -> SettingOutcome {
    SettingOutcome { id: entry.id.clone(), place: entry.place.to_string(), what }
}

fn change(
    access: &dyn KernelAccess,
    journal: &mut Journal<'_>,
    n: usize,
    entry: &JournalEntry,
) -> Result<ApplyResult, Failure> {
    let old = entry.old.as_ref().map(Bytes::as_slice);
    // Between the journal's first line and now others may have written.
    let now = access.read(&entry.place);
    if now.as_ref().ok().map(Option::as_deref) != Some(old) {
        let why = match now {
            Err(refusal) => refusal.to_string(),
            Ok(_) => "somebody else changed it at this moment: left as it is".to_string(),
        };
        journal.append(Record::Failed { n, why: why.clone(), now: None })?;
        return Ok(ApplyResult::Failed { why });
    }
    journal.append(Record::Intent { n })?;
    let written = access.write(&entry.place, entry.shape, Some(entry.wanted.as_slice()));
    if let Err(AccessRefusal::Hung(why)) = &written {
        return Err(Failure::Lacks(format!(
            "{why}. What was changed before is in the journal: linerate tune undo"
        )));
    }
    let now = match access.read(&entry.place) {
        Err(AccessRefusal::Hung(why)) => {
            return Err(Failure::Lacks(format!(
                "{why}. What was changed before is in the journal: linerate tune undo"
            )));
        }
        Err(_) => None,
        Ok(now) => now,
    };
    judge(journal, n, entry, written, now)
}

/// Notes what a write came to.
fn judge(
    journal: &mut Journal<'_>,
    n: usize,
    entry: &JournalEntry,
    written: Result<(), AccessRefusal>,
    now: Option<Vec<u8>>,
) -> Result<ApplyResult, Failure> {
    let shape = entry.shape;
    let before = entry.old.as_ref().map_or("absent".to_string(), |old| shape.value(old.as_slice()));
    let failed = |why: String, journal: &mut Journal<'_>| {
        // What cannot be read may have changed: the journal keeps it as written.
        if let Some(now) = now.as_deref() {
            journal.append(Record::Failed { n, why: why.clone(), now: Some(Bytes::of(now)) })?;
        }
        Ok(ApplyResult::Failed { why })
    };
    if let Err(refusal) = written {
        return failed(refusal.to_string(), journal);
    }
    let Some(now) = now.as_deref() else {
        return failed(format!("{} was written and cannot be read back", entry.place), journal);
    };
    let asked = shape.value(entry.wanted.as_slice());
    let unchanged = entry.old.as_ref().is_some_and(|old| shape.same(old.as_slice(), now));
    if unchanged {
        let why = format!("the kernel took {asked} without an error and kept {before}");
        return failed(why, journal);
    }
    journal.append(Record::Done { n, now: Bytes::of(now) })?;
    Ok(match shape.same(now, entry.wanted.as_slice()) {
        true => ApplyResult::Changed { before, now: shape.value(now) },
        false => ApplyResult::Clamped { before, asked, now: shape.value(now) },
    })
}
