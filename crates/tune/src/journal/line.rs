//! Lines of the journal: `CHECKSUM JSON`. A last line that is cut short was never finished, so that what it
//! announces was never begun; a damaged line anywhere else is damage.

use super::{Record, SCHEMA};
use linerate_sums::{CrcAlgorithm, crc};
use thiserror::Error;

/// Why a journal cannot be followed: a phrase.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Damage(pub String);

/// Why a line is no record.
#[derive(Debug, Error)]
enum LineError {
    #[error("no text")]
    NoText,
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
pub(super) fn line(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
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
            Err(_) if last => break,
            Err(why) => return Err(Damage(format!("line {} is damaged ({why})", index + 1))),
        }
        good += piece.len();
    }
    Ok((records, good))
}

fn record(piece: &[u8]) -> Result<Record, LineError> {
    let text = std::str::from_utf8(piece).map_err(|_| LineError::NoText)?;
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
    use super::super::{Bytes, UndoResult};
    use super::*;
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
        records.iter().flat_map(|record| line(record).expect("JSON")).collect()
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
}
