//! The journal: what every setting was before linerate changed it, on the disk before the first change. Lines
//! of JSON, each with a checksum, only ever appended; each is on the disk before what it announces is done.
//!
//! The order is that of a write-ahead log: `begin` with all old values; for each setting `intent`, the write,
//! `done`. Undo: `undoing`, the write, `undone`. Wherever that is cut off, the journal tells for each setting
//! which values it may have by our hand.

mod file;
mod line;
mod state;

pub use file::look;
pub use file::{FileLog, JournalLock};
pub use line::{Damage, parse};
pub use state::Followed;
pub use state::{JournalState, SettingState};

use super::setting_place::{NamedDevice, SettingPlace};
use super::shape::Shape;
use linerate_facts::failure::Failure;
use serde::{Deserialize, Serialize};
use std::io;

/// Version of the lines.
const SCHEMA: u32 = 1;
/// More settings than any machine has (a server with 64 queues on each of 16 cards has 4,000 masks and
/// interrupts).
pub(super) const MOST_ENTRIES: usize = 65_536;

/// Bytes of a value, in JSON as text where they are text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bytes {
    Text(String),
    Raw(Vec<u8>),
}

impl Bytes {
    pub fn of(bytes: &[u8]) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text.to_string()),
            Err(_) => Bytes::Raw(bytes.to_vec()),
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Raw(bytes) => bytes,
        }
    }
}

/// Whose settings the journal is about. What could not be read is empty and equals anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `/etc/machine-id`.
    pub machine: String,
    /// Host name.
    pub name: String,
    /// `/proc/sys/kernel/random/boot_id`: settings do not outlive a boot.
    pub boot: String,
    /// Network namespace by name; empty for that of the machine.
    #[serde(default)]
    pub namespace: String,
}

impl Host {
    /// The same machine and namespace.
    pub fn is(&self, other: &Host) -> bool {
        let same = |one: &str, other: &str| one.is_empty() || other.is_empty() || one == other;
        same(&self.machine, &other.machine) && self.namespace == other.namespace
    }
}

/// One setting that is about to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Name of the setting, as `--setting` takes it.
    pub id: String,
    pub place: SettingPlace,
    pub shape: Shape,
    /// Device that it belongs to.
    pub device: Option<NamedDevice>,
    /// The value before; `None` where a drop-in was absent.
    pub old: Option<Bytes>,
    /// What will be written.
    pub wanted: Bytes,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "record")]
pub enum Record {
    /// Settings that are about to be changed, numbered on from those of earlier lines.
    Begin { schema: u32, version: String, started: String, host: Host, entries: Vec<JournalEntry> },
    /// The setting of this number is about to be written.
    Intent { n: usize },
    /// It was written, and reads so now.
    Done { n: usize, now: Bytes },
    /// It was not written, or the write was refused; it reads so now.
    Failed { n: usize, why: String, now: Option<Bytes> },
    /// It is about to be restored.
    Undoing { n: usize },
    /// It needs nothing more.
    Undone { n: usize, how: UndoResult },
}

/// How a setting came to need nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndoResult {
    /// The old value was written and reads so.
    Restored,
    /// It had its old value.
    Already,
    /// It was never written.
    Untouched,
    /// The machine was started again since, and its device is no longer there.
    Gone,
    /// The user said to leave it.
    Forgotten,
}

/// Where lines are kept.
pub trait Log {
    /// Appends bytes; they are on the disk when it returns.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// The journal of one machine, open and held by this process alone.
pub struct Journal<'a> {
    log: &'a mut dyn Log,
    state: JournalState,
}

impl<'a> Journal<'a> {
    /// Goes on with a journal whose lines came to this.
    pub fn new(log: &'a mut dyn Log, state: JournalState) -> Self {
        Journal { log, state }
    }

    /// What it says.
    pub fn state(&self) -> &JournalState {
        &self.state
    }

    /// Appends a line; what it announces may be done when this returns.
    pub fn append(&mut self, record: Record) -> Result<(), Failure> {
        let line = line::line(&record).map_err(|why| Failure::Lacks(format!("the journal: {why}")))?;
        self.log.append(&line).map_err(|error| {
            Failure::Lacks(format!(
                "the journal cannot be written ({error}); nothing more was changed. Free \
                                    some space, then: linerate tune undo"
            ))
        })?;
        self.state.add(record).map_err(|damage| Failure::Lacks(format!("the journal: {damage}")))
    }

    /// Appends the settings that are about to be changed; gives the number of the first.
    pub fn begin(
        &mut self,
        started: String,
        host: &Host,
        entries: Vec<JournalEntry>,
    ) -> Result<usize, Failure> {
        let first = self.state.steps.len();
        let version = env!("CARGO_PKG_VERSION").to_string();
        self.append(Record::Begin { schema: SCHEMA, version, started, host: host.clone(), entries })?;
        Ok(first)
    }
}
