//! What a sender sends: a pattern in memory, or a range of a file; and how far it is with it.

use super::StreamSpec;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What a sender sends.
///
/// A range of a file goes out once and then the stream ends; with `StreamSpec::limit_bytes` it is begun again
/// until so many bytes went out (`Some(u64::MAX)`: until it is stopped). Memory goes out until the limit or a
/// stop.
#[derive(Clone, Debug)]
pub enum Content {
    /// A pattern that does not compress.
    Memory,
    /// `length` bytes of a file from `offset` on (TCP).
    File {
        file: Arc<File>,
        /// What to call it in an error.
        label: String,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// The file was opened with O_DIRECT: it is read ahead at depth, into aligned buffers, whatever the
        /// send method.
        direct: bool,
    },
}

/// How far a sender is through content that begins again at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// Bytes before the content begins again.
    round_bytes: u64,
    /// Bytes of the current round that were sent.
    at: u64,
    /// Bytes left until the stream ends; none: it goes on.
    left: Option<u64>,
}

impl Position {
    /// At the beginning of content of `round_bytes`, which must not be empty.
    pub(crate) fn new(spec: &StreamSpec, content: &Content, round_bytes: u64) -> io::Result<Self> {
        if round_bytes == 0 {
            let why = "nothing to send: the range of the file is empty";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let left = match content {
            Content::Memory => spec.limit_bytes,
            Content::File { .. } => Some(spec.limit_bytes.unwrap_or(round_bytes)),
        };
        Ok(Position { round_bytes, at: 0, left })
    }

    /// Where in the content the next bytes are, and how many, at most `most`; none at the stream's end.
    pub(crate) fn next(&self, most: usize) -> Option<(u64, usize)> {
        let bytes = (self.round_bytes - self.at).min(most as u64).min(self.left.unwrap_or(u64::MAX));
        (bytes > 0).then_some((self.at, bytes as usize))
    }

    /// They were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.at = (self.at + bytes) % self.round_bytes;
        self.left = self.left.map(|left| left.saturating_sub(bytes));
    }
}

/// A range of a file, and its name for errors.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) file: Arc<File>,
    pub(super) label: String,
    pub(super) offset: u64,
}

impl Range {
    /// Fills the whole buffer from byte `at` of the range.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, self.offset + at).map_err(|error| self.error(at, &error))
    }

    /// An error that names the file and the place.
    pub(super) fn error(&self, at: u64, error: &io::Error) -> io::Error {
        let Range { label, offset, .. } = self;
        let why = if error.kind() == io::ErrorKind::UnexpectedEof {
            "nothing there: was it cut short meanwhile?".to_string()
        } else {
            error.to_string()
        };
        io::Error::new(error.kind(), format!("reading {label} at {}: {why}", offset + at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;

    fn walk(limit: Option<u64>, content: &Content, round_bytes: u64, most: usize) -> Vec<(u64, usize)> {
        let spec = StreamSpec { limit_bytes: limit, ..spec() };
        let mut position = Position::new(&spec, content, round_bytes).expect("not empty");
        let mut steps = Vec::new();
        while let Some((at, bytes)) = position.next(most).filter(|_| steps.len() < 6) {
            position.sent(bytes);
            steps.push((at, bytes));
        }
        steps
    }

    #[test]
    fn a_range_goes_out_once_or_until_the_limit() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let file = Content::File { file, label: "a".into(), offset: 0, length: 10, direct: false };
        assert_eq!(walk(None, &file, 10, 4), [(0, 4), (4, 4), (8, 2)]);
        assert_eq!(walk(Some(13), &file, 10, 8), [(0, 8), (8, 2), (0, 3)]);
        assert_eq!(walk(Some(u64::MAX), &file, 10, 10), [(0, 10); 6]);
        assert_eq!(walk(None, &Content::Memory, 10, 6), [(0, 6), (6, 4), (0, 6), (6, 4), (0, 6), (6, 4)]);
        assert!(Position::new(&spec(), &file, 0).is_err());
    }
}
