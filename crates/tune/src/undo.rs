//! Restores the earlier values, the last change first. Twice does no more than once. A value that is
//! neither ours nor the old one was written by somebody else and stays.

use super::apply::{ApplyResult, SettingOutcome};
use super::catalogue;
use super::journal::{Bytes, Host, Journal, JournalState, Record, SettingState, UndoResult};
use super::kernel_access::{AccessRefusal, KernelAccess};
use super::setting_place::{DevicePresence, SettingPlace};
use linerate_facts::failure::Failure;

/// What the user says about settings that others changed.
#[derive(Clone, Debug, Default)]
pub struct Leave {
    /// Restored although somebody else changed it since, or though this linerate does not know it.
    pub force: Vec<String>,
    /// Left as it is, and taken out of the journal.
    pub forget: Vec<String>,
}

impl Leave {
    /// Every name must be one of the journal: a typing error must not look like success.
    pub fn check(&self, state: &JournalState) -> Result<(), Failure> {
        for name in self.force.iter().chain(&self.forget) {
            if !state.open().any(|(_, followed)| followed.entry.id == *name) {
                return Err(Failure::Usage(format!(
                    "the journal has no setting {name} that is open; `linerate tune undo` without it lists \
                     them"
                )));
            }
        }
        Ok(())
    }
}

/// What is to be done about one setting.
enum Decision {
    Close(UndoResult),
    Restore(SettingPlace),
    Leave(ApplyResult),
}

/// Restores all that is open. The error is the journal's, or a driver that hangs.
pub fn undo(
    access: &dyn KernelAccess,
    journal: &mut Journal<'_>,
    host: &Host,
    leave: &Leave,
) -> Result<Vec<SettingOutcome>, Failure> {
    undo_from(access, journal, host, leave, 0)
}

/// As [`undo`], of the settings from this number of the journal on: what was changed before stays as it is.
pub(super) fn undo_from(
    access: &dyn KernelAccess,
    journal: &mut Journal<'_>,
    host: &Host,
    leave: &Leave,
    first: usize,
) -> Result<Vec<SettingOutcome>, Failure> {
    let open: Vec<usize> = journal.state().open().map(|(n, _)| n).filter(|n| *n >= first).rev().collect();
    let mut outcomes = Vec::new();
    for n in open {
        let followed = journal.state().steps[n].clone();
        let what = match decide(access, journal.state(), n, host, leave)? {
            Decision::Leave(what) => what,
            Decision::Close(how) => {
                journal.append(Record::Undone { n, how })?;
                ApplyResult::Untouched { how }
            }
            Decision::Restore(place) => restore(access, journal, n, &place)?,
        };
        outcomes.push(SettingOutcome {
            id: followed.entry.id,
            place: followed.entry.place.to_string(),
            what,
        });
    }
    Ok(outcomes)
}

fn decide(
    access: &dyn KernelAccess,
    state: &JournalState,
    n: usize,
    host: &Host,
    leave: &Leave,
) -> Result<Decision, Failure> {
    let followed = &state.steps[n];
    let entry = &followed.entry;
    if leave.forget.contains(&entry.id) {
        return Ok(Decision::Close(UndoResult::Forgotten));
    }
    let Some(ours) = followed.ours() else { return unwritten(followed) };
    let same_boot = followed.host.boot == host.boot;
    let gone = |why: String| match same_boot {
        // What was set on the device ended with the boot.
        false => Decision::Close(UndoResult::Gone),
        true => Decision::Leave(ApplyResult::Kept {
            why: format!("{why}: undo again when it is back, or drop it with --forget {}", entry.id),
        }),
    };
    let place = match &entry.device {
        None => entry.place.clone(),
        Some(device) => match access.find(device, same_boot) {
            DevicePresence::Named(name) => entry.place.renamed(device.kind, &device.name, &name),
            DevicePresence::Gone(why) => return Ok(gone(why)),
        },
    };
    let forced = leave.force.contains(&entry.id);
    if !forced && !catalogue::knows(&entry.id, &place) {
        let why = format!(
            "this linerate has no setting {0} at {place}: if another one changed it, restore it with --force \
             {0}, else drop it with --forget {0}",
            entry.id
        );
        return Ok(Decision::Leave(ApplyResult::Kept { why }));
    }
    let now = match access.read(&place) {
        Ok(now) => now,
        Err(AccessRefusal::Hung(why)) => return Err(unfinished_undo(&why)),
        Err(AccessRefusal::Absent(why)) => return Ok(gone(why)),
        Err(AccessRefusal::Refused(why)) => return Ok(Decision::Leave(ApplyResult::Kept { why })),
    };
    let old = entry.old.as_ref().map(Bytes::as_slice);
    let same = |one: Option<&[u8]>, other: Option<&[u8]>| match (one, other) {
        (Some(one), Some(other)) => entry.shape.same(one, other),
        (one, other) => one == other,
    };
    let now = now.as_deref();
    if now == old {
        return Ok(Decision::Close(UndoResult::Already));
    }
    // The old value otherwise spaced: writing it byte for byte takes nothing from anybody.
    if same(now, old) || same(now, Some(ours)) || forced {
        return Ok(Decision::Restore(place));
    }
    let shown = |bytes: Option<&[u8]>| bytes.map_or("absent".into(), |bytes| entry.shape.value(bytes));
    Ok(Decision::Leave(ApplyResult::Foreign { before: shown(old), ours: shown(Some(ours)), now: shown(now) }))
}

/// A setting that we never wrote, or whose write was refused and that could not be read.
fn unwritten(followed: &super::journal::Followed) -> Result<Decision, Failure> {
    Ok(match followed.step {
        SettingState::Announced | SettingState::Failed(_) => Decision::Close(UndoResult::Untouched),
        _ => Decision::Close(UndoResult::Already),
    })
}

fn restore(
    access: &dyn KernelAccess,
    journal: &mut Journal<'_>,
    n: usize,
    place: &SettingPlace,
) -> Result<ApplyResult, Failure> {
    let entry = journal.state().steps[n].entry.clone();
    let old = entry.old.as_ref().map(Bytes::as_slice);
    journal.append(Record::Undoing { n })?;
    let restoring = old.map(|old| entry.shape.restoring(old));
    match access.write(place, entry.shape, restoring.as_deref()) {
        Err(AccessRefusal::Hung(why)) => return Err(unfinished_undo(&why)),
        Err(refusal) => return Ok(ApplyResult::Kept { why: refusal.to_string() }),
        Ok(()) => {}
    }
    let now = match access.read(place) {
        Ok(now) => now,
        Err(AccessRefusal::Hung(why)) => return Err(unfinished_undo(&why)),
        Err(refusal) => return Ok(ApplyResult::Kept { why: refusal.to_string() }),
    };
    let back = match (now.as_deref(), old) {
        (Some(now), Some(old)) => entry.shape.same(now, old),
        (now, old) => now == old,
    };
    let shown = now.as_deref().map_or("absent".into(), |now| entry.shape.value(now));
    if !back {
        let why = format!("the kernel took the old value of {place} without an error and has {shown}");
        return Ok(ApplyResult::Kept { why });
    }
    journal.append(Record::Undone { n, how: UndoResult::Restored })?;
    Ok(ApplyResult::Restored { now: shown })
}

fn unfinished_undo(why: &str) -> Failure {
    Failure::Lacks(format!("{why}. What is not yet undone is in the journal: run `linerate tune undo` again"))
}
