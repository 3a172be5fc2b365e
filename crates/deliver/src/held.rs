//! What a server keeps of a file that did not come whole, so that the client goes on where it ended.

use crate::blocks::{BlockSum, HASH, parse_sum};
use crate::body_paths::CALL_BYTES;
use crate::file_bytes::FileBytes;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;

/// The end of what is kept is compared before the client goes on, the whole file when it has come.
const TAIL_BYTES: u64 = 4 << 20;

/// The answer to `FILE?linerate=held`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBytes {
    /// [`HASH`].
    pub hash: String,
    /// The file's first bytes, so many.
    pub bytes: u64,
    /// Of the last 4 MiB of them, or of all where there are fewer: sixteen hexadecimal digits.
    pub tail_sum: String,
}

impl HeldBytes {
    /// What this file has.
    pub(crate) fn of(part: &File) -> io::Result<HeldBytes> {
        let bytes = part.metadata()?.len();
        Ok(HeldBytes { hash: HASH.into(), bytes, tail_sum: format!("{:016x}", tail_sum(part, bytes)?) })
    }

    /// An answer; none where it is no such thing.
    pub fn parse(json: &[u8]) -> Option<HeldBytes> {
        let held: HeldBytes = serde_json::from_slice(json).ok()?;
        (held.hash == HASH && parse_sum(&held.tail_sum).is_some()).then_some(held)
    }

    /// They look like the first bytes of this file.
    pub(crate) fn are_of(&self, file: &File) -> io::Result<bool> {
        if self.bytes > file.metadata()?.len() {
            return Ok(false);
        }
        Ok(parse_sum(&self.tail_sum) == Some(tail_sum(file, self.bytes)?))
    }
}

fn tail_sum(file: &File, bytes: u64) -> io::Result<u64> {
    let mut sum = BlockSum::begin();
    let tail = bytes.saturating_sub(TAIL_BYTES)..bytes;
    sum_of(FileBytes::copied(file, tail), &mut sum, || false)?;
    Ok(sum.end())
}

/// Adds bytes to a sum, until `stop` says so; a file that is shorter is an error.
pub(crate) fn sum_of(
    mut bytes: FileBytes<'_>,
    sum: &mut BlockSum,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    while !bytes.is_over() {
        if stop() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        sum.add(bytes.next(CALL_BYTES)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(bytes, 0).expect("written");
        file
    }

    #[test]
    fn what_is_held_is_known_by_its_end() {
        let whole: Vec<u8> = (0..(5 << 20) + 7u32).map(|at| (at * 31 + (at >> 9)) as u8).collect();
        let source = file(&whole);
        for bytes in [0, 1, 4 << 20, (4 << 20) + 1, whole.len()] {
            let held = HeldBytes::of(&file(&whole[..bytes])).expect("summed");
            assert_eq!(held.bytes, bytes as u64);
            assert!(held.are_of(&source).expect("compared"), "{bytes}");
            let json = serde_json::to_vec(&held).expect("JSON");
            assert_eq!(HeldBytes::parse(&json), Some(held));
        }
        let mut other = whole.clone();
        other[whole.len() - 1] ^= 1;
        assert!(!HeldBytes::of(&file(&other)).expect("summed").are_of(&source).expect("compared"));
        other.push(1);
        assert!(!HeldBytes::of(&file(&other)).expect("summed").are_of(&source).expect("compared"), "longer");
        assert!(sum_of(FileBytes::copied(&source, 0..1 << 30), &mut BlockSum::begin(), || false).is_err());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_is_none(bytes: Vec<u8>) {
            let _ = HeldBytes::parse(&bytes);
        }
    }
}
