//! A file that is read every second: opened once, read from its beginning each time, into the same memory.

use linerate_facts::sysroot::{PieceReader, Sysroot, Unreadable};
use linerate_system::clock;
use std::time::Instant;

/// A value and when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedValue<T> {
    pub at: Instant,
    pub value: T,
}

/// Why a file has no value, as a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("{0}: not in the kernel's form")]
    Form(&'static str),
}

/// What a file said.
pub(crate) type FileReading<T> = Result<TimedValue<T>, FileError>;

/// One file.
#[derive(Debug)]
pub(crate) struct Kept {
    sysroot: Sysroot,
    path: &'static str,
    opened: Option<PieceReader>,
    buffer: Vec<u8>,
}

impl Kept {
    /// It is opened when it is first read.
    pub(crate) fn new(sysroot: &Sysroot, path: &'static str) -> Self {
        Kept { sysroot: sysroot.clone(), path, opened: None, buffer: Vec::new() }
    }

    /// Its text now, made into a value. A file that fails is opened again the next time.
    pub(crate) fn read<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> FileReading<T> {
        if self.opened.is_none() {
            self.opened = Some(self.sysroot.open(self.path)?);
        }
        let before = clock::now();
        let read = self.opened.as_ref().map_or(Ok(()), |opened| opened.read_whole(&mut self.buffer));
        if let Err(reason) = read {
            self.opened = None;
            return Err(Unreadable { path: self.path.into(), reason }.into());
        }
        // The middle: a reading that was held up in between is off by half of that at most.
        let at = before + clock::since(before) / 2;
        let value = parse(&String::from_utf8_lossy(&self.buffer));
        value.map(|value| TimedValue { at, value }).ok_or(FileError::Form(self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::sysroot::UnreadReason;

    #[test]
    fn a_file_that_changes_and_one_that_is_not_there() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let place = root.path().join("proc/stat");
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
        let sysroot = Sysroot::recorded(root.path());
        let mut kept = Kept::new(&sysroot, "/proc/stat");
        let mut length =
            || kept.read(|text| (!text.is_empty()).then_some(text.len())).map(|timed| timed.value);
        assert!(matches!(length(), Err(FileError::Unreadable(why)) if why.reason == UnreadReason::Absent));
        for text in ["a".repeat(10_000), "b".into(), "c".repeat(4096)] {
            std::fs::write(&place, &text).expect("a file");
            assert_eq!(length(), Ok(text.len()));
        }
        std::fs::write(&place, "").expect("a file");
        assert_eq!(length(), Err(FileError::Form("/proc/stat")));
    }
}
