//! The journal: what every setting was before linerate changed it, on the disk before the first change. Lines
//! of JSON, each with a checksum, only ever appended; each is on the disk before what it announces is done.
//!
//! The order is that of a write-ahead log: `begin` with all old values; for each setting `intent`, the write,
//! `done`. Undo: `undoing`, the write, `undone`. Wherever that is cut off, the journal tells for each setting
//! which values it may have by our hand.
//!
//! A line is `CHECKSUM JSON`. A last one that is cut short was never finished, so that what it announces was
//! never begun; a damaged line anywhere else is damage.

mod file;

use super::setting_place::{NamedDevice, SettingPlace, Shape};
pub use file::{FileLog, Followed, JournalLock, JournalState, SettingState, look};
use linerate_facts::failure::Failure;
use linerate_sums::{CrcAlgorithm, crc};
use serde::{Deserialize, Serialize};
use std::io;
use thiserror::Error;

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
    pub fn is_same_machine(&self, other: &Host) -> bool {
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
        let line = journal_line(&record).map_err(|why| Failure::Lacks(format!("the journal: {why}")))?;
        self.log.append(&line).map_err(|error| {
            Failure::Lacks(format!(
                "the journal cannot be written ({error}); nothing more was changed. Free some space, then: linerate \
                 tune undo"
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

/// Why a journal cannot be followed: a phrase.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Damage(pub String);

/// Why a line is not a record.
#[derive(Debug, Error)]
enum LineError {
    #[error("not UTF-8")]
    NotUtf8,
    #[error("cut short")]
    CutShort,
    #[error("no checksum")]
    NoChecksum,
    #[error("its checksum does not fit")]
    Checksum,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it is in the form of linerate {version}, which this one does not know")]
    OtherForm { version: String },
}

/// A record as its line.
fn journal_line(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let json = serde_json::to_string(record)?;
    Ok(format!("{:08x} {json}\n", sum(json.as_bytes())).into_bytes())
}

/// The records of a journal, and how many of its bytes they are: what is behind was cut short.
pub fn parse(bytes: &[u8]) -> Result<(Vec<Record>, usize), Damage> {
    let mut records = Vec::new();
    let mut good = 0;
    for (index, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let last = good + piece.len() == bytes.len();
        match record(piece) {
            Ok(record) => records.push(record),
            // A whole line of another version was finished, so that what it announces may have been done.
            Err(why) if last && !matches!(why, LineError::OtherForm { .. }) => break,
            Err(why) => return Err(Damage(format!("line {} cannot be used ({why})", index + 1))),
        }
        good += piece.len();
    }
    Ok((records, good))
}

fn record(piece: &[u8]) -> Result<Record, LineError> {
    let text = std::str::from_utf8(piece).map_err(|_| LineError::NotUtf8)?;
    let text = text.strip_suffix('\n').ok_or(LineError::CutShort)?;
    let (stored_sum, json) = text.split_once(' ').ok_or(LineError::NoChecksum)?;
    if stored_sum != format!("{:08x}", sum(json.as_bytes())) {
        return Err(LineError::Checksum);
    }
    let record: Record = serde_json::from_str(json)?;
    match record {
        Record::Begin { schema, version, .. } if schema != SCHEMA => Err(LineError::OtherForm { version }),
        record => Ok(record),
    }
}

/// CRC-32C: a checksum against damage, not against malice. Against that, nobody else may write the journal.
fn sum(bytes: &[u8]) -> u64 {
    crc(CrcAlgorithm::Crc32Iscsi, bytes)
}

#[cfg(test)]
mod tests {
    use super::{Bytes, UndoResult, *};
    use proptest::prelude::*;

    fn record_of(n: usize, kind: u8, bytes: &[u8]) -> Record {
        match kind % 4 {
            0 => Record::Intent { n },
            1 => Record::Done { n, now: Bytes::of(bytes) },
            2 => Record::Failed { n, why: "no\n".into(), now: Some(Bytes::of(bytes)) },
            _ => Record::Undone { n, how: UndoResult::Restored },
        }
    }

    prop_compose! {
        fn journal()(parts in proptest::collection::vec((0usize..9, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..12)) -> Vec<Record> {
            parts.iter().map(|(n, kind, bytes)| record_of(*n, *kind, bytes)).collect()
        }
    }

    fn written(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(|record| journal_line(record).expect("JSON")).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in journal()) {
            let bytes = written(&records);
            prop_assert_eq!(parse(&bytes), Ok((records, bytes.len())));
        }

        #[test]
        fn cut_anywhere_gives_the_lines_before_the_cut(records in journal(), at in any::<prop::sample::Index>()) {
            let bytes = written(&records);
            let cut = at.index(bytes.len() + 1);
            let (read, good) = parse(&bytes[..cut]).expect("only the last line is damaged");
            prop_assert!(good <= cut);
            prop_assert_eq!(&read[..], &records[..read.len()]);
            prop_assert_eq!(&written(&read)[..], &bytes[..good]);
        }

        #[test]
        fn a_byte_that_changed_is_seen(records in journal(), at in any::<prop::sample::Index>(), change in 1u8..) {
            let mut bytes = written(&records);
            prop_assume!(!bytes.is_empty());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            if let Ok((read, _)) = parse(&bytes) {
                // Only the end may be taken as cut short: never a line that says something else.
                prop_assert!(read.len() < records.len());
                prop_assert_eq!(&read[..], &records[..read.len()]);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn a_last_line_of_another_version_is_never_taken_as_cut_short() {
        let (version, started) = ("9.0.0".into(), String::new());
        let newer = Record::Begin {
            schema: SCHEMA + 1,
            version,
            started,
            host: Host::default(),
            entries: Vec::new(),
        };
        let damage = parse(&written(&[Record::Intent { n: 0 }, newer])).expect_err("it cannot be followed");
        assert!(damage.0.starts_with("line 2 cannot be used") && damage.0.contains("9.0.0"), "{damage}");
    }
}
