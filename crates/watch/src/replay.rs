//! `--replay`: the moments of a recording, one after the other. What is whole is given, then, where the file
//! was cut or damaged, one sentence.

use super::model::{Moment, SCHEMA};
use super::record::Head;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use thiserror::Error;

/// A moment of a machine with 256 cores and as many disks is some 500 KB; a longer line is not a moment, and
/// costs no more memory than this.
const LONGEST_LINE_BYTES: u64 = 16 << 20;
/// The window that a frame may ask for; ours need less than 1 MiB, `zstd -19` on the plain lines 8 MiB.
const WINDOW_BYTES: u64 = 8 << 20;
/// The longest frame that is checked before any of it is given: a moment, which is a frame of its own, is
/// shorter.
const HELD_BYTES: u64 = 1 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A file that cannot be replayed, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}: {fault}")]
pub struct ReplayError {
    pub name: String,
    pub fault: ReplayFault,
}

/// What is wrong with a recording.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayFault {
    /// It is none, or nothing is in it.
    #[error("{0}; name a file that `linerate watch --record` made")]
    Foreign(String),
    #[error(
        "is a recording of schema {schema}, and this linerate reads schema {SCHEMA}; replay it with the \
         linerate that recorded it{}",
        if version.is_empty() { String::new() } else { format!(" (version {version})") }
    )]
    Schema { schema: u32, version: String },
    /// It breaks off behind this many moments.
    #[error("{why} {}; what is whole was shown", behind(*lines_read))]
    Broken { why: &'static str, lines_read: u64 },
}

fn behind(lines_read: u64) -> String {
    match lines_read {
        0 => "before its first moment".into(),
        1 => "after 1 moment".into(),
        many => format!("after {many} moments"),
    }
}

impl ReplayError {
    fn foreign(name: &str, why: impl Into<String>) -> Self {
        ReplayError { name: name.into(), fault: ReplayFault::Foreign(why.into()) }
    }
}

/// A recording that is being read.
pub struct Replay {
    name: String,
    lines: BufReader<Box<dyn Read + Send>>,
    /// Moments given so far.
    lines_read: u64,
    ended: bool,
}

impl Replay {
    /// Opens a file and reads its first line.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) if file.metadata().is_ok_and(|about| about.is_dir()) => {
                Err(ReplayError::foreign(&name, "is a folder"))
            }
            Ok(file) => Replay::read(name, file),
            Err(error) => Err(ReplayError::foreign(&name, format!("cannot be read: {error}"))),
        }
    }

    /// The same from anything that can be read; compressed, or the plain lines.
    pub fn read(name: String, bytes: impl Read + Send + 'static) -> Result<Self, ReplayError> {
        let foreign = |why: &str| Err(ReplayError::foreign(&name, why));
        let mut bytes = BufReader::new(bytes);
        let start = match bytes.fill_buf() {
            Ok(start) => start,
            Err(error) => return foreign(&format!("cannot be read: {error}")),
        };
        let bytes: Box<dyn Read + Send> = match start {
            [] => return foreign("is empty: nothing was recorded"),
            start if start.starts_with(&MAGIC) || MAGIC.starts_with(start) => Box::new(Frames::new(bytes)),
            [b'{', ..] => Box::new(bytes),
            _ => return foreign("is not a recording of `linerate watch`"),
        };
        let mut replay =
            Replay { lines: BufReader::new(bytes), lines_read: 0, ended: false, name: name.clone() };
        let line = match replay.line() {
            Ok(Some(line)) => line,
            Ok(None) => return foreign("is empty: nothing was recorded"),
            Err(_) => return foreign("is cut before its first line, or no recording of `linerate watch`"),
        };
        let Ok(head) = serde_json::from_slice::<Head>(&line) else {
            return foreign("is not a recording of `linerate watch`: its first line does not say so");
        };
        let about = &head.linerate_watch;
        if about.schema != SCHEMA {
            let (schema, version) = (about.schema, about.version.clone());
            return Err(ReplayError { name, fault: ReplayFault::Schema { schema, version } });
        }
        Ok(replay)
    }

    /// One line without its end; none at the end of the file. A line that is not ended was cut.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.lines.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(line)),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn broken(&mut self, why: &'static str) -> Option<Result<Moment, ReplayError>> {
        self.ended = true;
        let fault = ReplayFault::Broken { why, lines_read: self.lines_read };
        Some(Err(ReplayError { name: self.name.clone(), fault }))
    }
}

impl Iterator for Replay {
    type Item = Result<Moment, ReplayError>;

    /// The next moment; after the sentence about what is broken there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let line = match self.line() {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.ended = true;
                return None;
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return self.broken("is damaged"),
            Err(_) => return self.broken("is cut"),
        };
        match serde_json::from_slice::<Moment>(&line) {
            Ok(moment) if moment.schema == SCHEMA => {
                self.lines_read += 1;
                Some(Ok(moment))
            }
            Ok(_) => self.broken("has a moment of another schema"),
            Err(_) => self.broken("is damaged"),
        }
    }
}

/// Frames of zstd one after the other, as plain bytes. The decoder takes one frame at a time and leaves its
/// checksum to us: a frame of up to [`HELD_BYTES`] is held until it fits. A longer one is of a file that
/// something else compressed again, and is given as it comes.
struct Frames<R: Read> {
    place: ReplayPosition<R>,
    /// Checked, not yet given.
    ready: Cursor<Vec<u8>>,
}

enum ReplayPosition<R: Read> {
    Between(R),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        Frames { place: ReplayPosition::Between(source), ready: Cursor::default() }
    }

    /// Decodes the next piece: a whole frame if it is no longer than what is held. False at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut decoder = match std::mem::replace(&mut self.place, ReplayPosition::Ended) {
            ReplayPosition::Ended => return Ok(false),
            ReplayPosition::Within(decoder) => decoder,
            ReplayPosition::Between(mut source) => {
                if source.fill_buf()?.is_empty() {
                    return Ok(false);
                }
                StreamingDecoder::new_with_max_window_size(source, WINDOW_BYTES)
                    .map(Box::new)
                    .map_err(|error| io::Error::other(error.to_string()))?
            }
        };
        let mut piece = Vec::new();
        decoder.by_ref().take(HELD_BYTES).read_to_end(&mut piece)?;
        if (piece.len() as u64) < HELD_BYTES {
            let stored = decoder.decoder.get_checksum_from_data();
            if stored.is_some() && stored != decoder.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum does not fit"));
            }
            self.place = ReplayPosition::Between(decoder.into_inner());
        } else {
            self.place = ReplayPosition::Within(decoder);
        }
        self.ready = Cursor::new(piece);
        Ok(true)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.ready.read(buffer)?;
            if read > 0 || buffer.is_empty() || !self.fill()? {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{RecordError, Recorder};
    use super::*;
    use proptest::prelude::*;

    fn recording(moments: i64) -> Vec<u8> {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("x.zst");
        let mut recorder = Recorder::create(&path).expect("a file");
        for at_ms in 0..moments {
            let moment = Moment { schema: SCHEMA, at_ms, host: "h".into(), ..Moment::default() };
            recorder.write(&moment).expect("written");
        }
        assert!(Recorder::create(&path).is_err_and(|why| matches!(why, RecordError::Exists { .. })));
        std::fs::read(&path).expect("the file")
    }

    fn play(bytes: &[u8]) -> Result<(Vec<i64>, Option<String>), ReplayError> {
        let (mut times, mut end) = (Vec::new(), None);
        for moment in Replay::read("x".into(), Cursor::new(bytes.to_vec()))? {
            match moment {
                Ok(moment) => times.push(moment.at_ms),
                Err(why) => end = Some(why.to_string()),
            }
        }
        Ok((times, end))
    }

    #[test]
    fn a_whole_one_and_its_plain_lines() {
        let whole = recording(3);
        assert_eq!(play(&whole), Ok((vec![0, 1, 2], None)));
        let mut plain = Vec::new();
        Frames::new(Cursor::new(whole)).read_to_end(&mut plain).expect("plain lines");
        assert_eq!(play(&plain), Ok((vec![0, 1, 2], None)));
        assert_eq!(plain.iter().filter(|byte| **byte == b'\n').count(), 4);
    }

    #[test]
    fn what_is_no_recording_says_so() {
        let why = |bytes: &[u8]| play(bytes).expect_err("no recording").to_string();
        assert!(why(b"").contains("is empty"));
        assert!(why(b"hello\n").contains("is not a recording"));
        assert!(why(b"{\"a\":1}\n").contains("does not say so"));
        assert!(why(&MAGIC).contains("is cut before its first line"));
        assert!(why(&MAGIC[..2]).contains("is cut before its first line"));
        let other = why(b"{\"linerate_watch\":{\"schema\":2,\"version\":\"9.1\"}}\n");
        assert!(other.contains("schema 2") && other.contains("(version 9.1)"), "{other}");
        let second = b"{\"linerate_watch\":{\"schema\":1}}\n{\"schema\":7}\n";
        assert!(play(second).is_ok_and(|(_, end)| end.is_some_and(|end| end.contains("another schema"))));
    }

    #[test]
    fn one_that_is_cut_gives_what_is_whole() {
        let whole = recording(5);
        for length in 1..whole.len() {
            match play(&whole[..length]) {
                Ok((times, Some(end))) => {
                    assert!(times.len() < 5 && end.contains("is cut"), "{length}: {times:?} {end}");
                    assert_eq!(times, (0..times.len() as i64).collect::<Vec<_>>());
                }
                // Between two frames nothing tells that there were more.
                Ok((times, None)) => assert!(times.len() < 5),
                Err(why) => assert!(
                    why.to_string().contains("cut") || why.to_string().contains("is empty"),
                    "{length}: {why}"
                ),
            }
        }
    }

    /// Each bit of it: a name that is spelt otherwise would be a figure left out, and read as 0.
    #[test]
    fn one_that_is_damaged_gives_no_wrong_moment() {
        let whole = recording(2);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((times, _)) = play(&bytes) {
                assert!(
                    times.iter().zip(0..).all(|(time, expected)| *time == expected),
                    "bit {bit}: {times:?}"
                );
            }
        }
    }

    /// What `zstd` made of the plain lines is one frame; longer than what is held, it is given as it comes.
    #[test]
    fn one_long_frame_is_given_to_its_cut() {
        let mut plain = Vec::new();
        Frames::new(Cursor::new(recording(3))).read_to_end(&mut plain).expect("plain lines");
        let last = plain.split_inclusive(|byte| *byte == b'\n').next_back().expect("a moment").to_vec();
        while plain.len() < 3 << 20 {
            plain.extend_from_slice(&last);
        }
        let frame =
            ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
        let (times, end) = play(&frame).expect("a recording");
        assert!(times.len() > 3 && end.is_none(), "{} {end:?}", times.len());
        let (cut, end) = play(&frame[..frame.len() - 9]).expect("a recording");
        assert!(
            cut.len() > times.len() / 2 && end.is_some_and(|end| end.contains("is cut")),
            "{}",
            cut.len()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_played_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), start in 0usize..3) {
            let starts: [&[u8]; 3] = [b"", &MAGIC, b"{\"linerate_watch\":{\"schema\":1}}\n"];
            let all = [starts[start], &bytes].concat();
            if let Ok((times, end)) = play(&all) {
                prop_assert!(times.is_empty() || end.is_none() || start == 2);
            }
        }
    }
}
