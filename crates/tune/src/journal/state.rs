//! What the lines of a journal come to: for each setting, the values that linerate may have left there.

use super::{Bytes, Damage, Host, JournalEntry, MOST_ENTRIES, Record, UndoResult};

/// How far a setting has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingState {
    /// Announced; never written.
    Announced,
    /// The write may have happened.
    Intended,
    /// Written, and read back like this.
    Done(Bytes),
    /// The write was refused; read back like this, where it could be read.
    Failed(Option<Bytes>),
    /// It needs nothing more.
    Closed(UndoResult),
}

/// One setting of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub entry: JournalEntry,
    /// The host as it was: the boot tells whether numbers of devices still hold.
    pub host: Host,
    pub step: SettingState,
    /// When it was announced, RFC 3339.
    pub started: String,
}

impl Followed {
    /// It may have another value than before by our hand.
    pub fn open(&self) -> bool {
        !matches!(self.step, SettingState::Closed(_))
    }

    /// The current value if nobody but linerate wrote; `None` where nothing was written.
    pub fn ours(&self) -> Option<&[u8]> {
        match &self.step {
            SettingState::Announced | SettingState::Closed(_) | SettingState::Failed(None) => None,
            SettingState::Intended => Some(self.entry.wanted.as_slice()),
            SettingState::Done(now) | SettingState::Failed(Some(now)) => Some(now.as_slice()),
        }
    }
}

/// All settings of a journal, in the order in which they were changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalState {
    pub steps: Vec<Followed>,
}

impl JournalState {
    /// Follows the lines.
    pub fn of(records: Vec<Record>) -> Result<JournalState, Damage> {
        let mut state = JournalState::default();
        for record in records {
            state.add(record)?;
        }
        Ok(state)
    }

    /// Follows one line more.
    pub fn add(&mut self, record: Record) -> Result<(), Damage> {
        let (n, step) = match record {
            Record::Begin { host, entries, started, .. } => return self.begin(&host, entries, &started),
            Record::Intent { n } => (n, Some(SettingState::Intended)),
            Record::Done { n, now } => (n, Some(SettingState::Done(now))),
            Record::Failed { n, now, .. } => (n, Some(SettingState::Failed(now))),
            // Until it is undone, the old value may still be there.
            Record::Undoing { n } => (n, None),
            Record::Undone { n, how } => (n, Some(SettingState::Closed(how))),
        };
        let Some(followed) = self.steps.get_mut(n) else {
            return Err(Damage(format!("it speaks of setting {n} and announced {}", self.steps.len())));
        };
        if let Some(step) = step {
            followed.step = step;
        }
        // Refused, and as it was: anyone who changes it later changes nothing of our own.
        if let (SettingState::Failed(Some(now)), Some(old)) = (&followed.step, &followed.entry.old)
            && followed.entry.shape.same(now.as_slice(), old.as_slice())
        {
            followed.step = SettingState::Closed(UndoResult::Untouched);
        }
        Ok(())
    }

    fn begin(&mut self, host: &Host, entries: Vec<JournalEntry>, started: &str) -> Result<(), Damage> {
        if self.steps.len() + entries.len() > MOST_ENTRIES {
            return Err(Damage(format!("it announces more than {MOST_ENTRIES} settings")));
        }
        if self.steps.iter().any(|before| !before.host.is(host)) {
            return Err(Damage("it is of two machines".into()));
        }
        self.steps.extend(entries.into_iter().map(|entry| Followed {
            entry,
            host: host.clone(),
            step: SettingState::Announced,
            started: started.to_string(),
        }));
        Ok(())
    }

    /// Settings that may have another value than before by our hand.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = (usize, &Followed)> {
        self.steps.iter().enumerate().filter(|(_, followed)| followed.open())
    }
}
