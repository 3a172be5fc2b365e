//! `--replay`: the moments of a recording, one after the other. What is whole is given, then, where the file was cut or damaged, one sentence.

use super::model::{Moment, SCHEMA};
use super::record::Head;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A moment of a machine with 256 cores and as many disks is some 500 KB; a longer line is no moment, and costs no more memory than this.
const LONGEST_LINE_BYTES: u64 = 16 << 20;
/// The window that a frame may ask for; ours need less than 1 MiB, `zstd -19` on the plain lines 8 MiB.
const WINDOW_BYTES: u64 = 8 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A recording that is being read.
pub struct Replay {
    name: String,
    lines: BufReader<Box<dyn Read + Send>>,
    /// Moments given so far.
    given: u64,
    ended: bool,
    head: Head,
}

impl Replay {
    /// Opens a file and reads its first line. The error is a sentence.
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| {
            format!("{name}: cannot be read: {error}; name a file that `linerate watch --record` made")
        })?;
        if file.metadata().is_ok_and(|about| about.is_dir()) {
            return Err(format!("{name}: is a folder; name a file that `linerate watch --record` made"));
        }
        Replay::read(name, file)
    }

    /// The same from anything that can be read; compressed, or the plain lines.
    pub fn read(name: String, bytes: impl Read + Send + 'static) -> Result<Self, String> {
        let foreign =
            |why: &str| Err(format!("{name}: {why}; name a file that `linerate watch --record` made"));
        let mut bytes = BufReader::new(bytes);
        let start = match bytes.fill_buf() {
            Ok(start) => start,
            Err(error) => return foreign(&format!("cannot be read: {error}")),
        };
        let bytes: Box<dyn Read + Send> = match start {
            [] => return foreign("is empty: nothing was recorded"),
            start if start.starts_with(&MAGIC) || MAGIC.starts_with(start) => {
                Box::new(Frames::Between(Some(bytes)))
            }
            [b'{', ..] => Box::new(bytes),
            _ => return foreign("is no recording of `linerate watch`"),
        };
        let mut replay = Replay {
            lines: BufReader::new(bytes),
            given: 0,
            ended: false,
            head: Head::default(),
            name: name.clone(),
        };
        let line = match replay.line() {
            Ok(Some(line)) => line,
            Ok(None) => return foreign("is empty: nothing was recorded"),
            Err(_) => return foreign("is cut before its first line, or no recording of `linerate watch`"),
        };
        let Ok(head) = serde_json::from_slice::<Head>(&line) else {
            return foreign("is no recording of `linerate watch`: its first line does not say so");
        };
        let about = &head.linerate_watch;
        if about.schema != SCHEMA {
            return Err(format!(
                "{name}: is a recording of schema {}, and this linerate reads schema {SCHEMA}; replay it with the linerate that recorded it{}",
                about.schema,
                if about.version.is_empty() {
                    String::new()
                } else {
                    format!(" (version {})", about.version)
                },
            ));
        }
        replay.head = head;
        Ok(replay)
    }

    /// Name of the host that was recorded.
    pub fn host(&self) -> &str {
        &self.head.linerate_watch.host
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

    fn broken(&mut self, why: &str) -> Option<Result<Moment, String>> {
        self.ended = true;
        let given = match self.given {
            0 => "before its first moment".to_string(),
            1 => "after 1 moment".into(),
            many => format!("after {many} moments"),
        };
        Some(Err(format!("{}: {why} {given}; what is whole was shown", self.name)))
    }
}

impl Iterator for Replay {
    type Item = Result<Moment, String>;

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
                self.given += 1;
                Some(Ok(moment))
            }
            Ok(_) => self.broken("has a moment of another schema"),
            Err(_) => self.broken("is damaged"),
        }
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("name", &self.name).field("given", &self.given).finish_non_exhaustive()
    }
}

/// Frames of zstd one after the other, as plain bytes. The decoder takes one frame at a time and leaves its checksum to us.
enum Frames<R: Read> {
    Between(Option<R>),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self {
                Frames::Between(source) => {
                    let Some(mut source) = source.take() else { return Ok(0) };
                    if source.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new_with_max_window_size(source, WINDOW_BYTES)
                        .map_err(|error| io::Error::other(error.to_string()))?;
                    *self = Frames::Within(Box::new(decoder));
                }
                Frames::Within(decoder) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 {
                        return Ok(read);
                    }
                    let Frames::Within(ended) = std::mem::replace(self, Frames::Between(None)) else {
                        return Ok(0);
                    };
                    let told = ended.decoder.get_checksum_from_data();
                    if told.is_some() && told != ended.decoder.get_calculated_checksum() {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum does not fit"));
                    }
                    *self = Frames::Between(Some(ended.into_inner()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Recorder;
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
        assert!(Recorder::create(&path).is_err_and(|why| why.contains("is there already")));
        std::fs::read(&path).expect("the file")
    }

    fn play(bytes: &[u8]) -> Result<(Vec<i64>, Option<String>), String> {
        let (mut times, mut end) = (Vec::new(), None);
        for moment in Replay::read("x".into(), io::Cursor::new(bytes.to_vec()))? {
            match moment {
                Ok(moment) => times.push(moment.at_ms),
                Err(sentence) => end = Some(sentence),
            }
        }
        Ok((times, end))
    }

    #[test]
    fn a_whole_one_and_its_plain_lines() {
        let whole = recording(3);
        assert_eq!(play(&whole), Ok((vec![0, 1, 2], None)));
        let mut plain = Vec::new();
        Frames::Between(Some(io::Cursor::new(whole))).read_to_end(&mut plain).expect("plain lines");
        assert_eq!(play(&plain), Ok((vec![0, 1, 2], None)));
        assert_eq!(plain.iter().filter(|byte| **byte == b'\n').count(), 4);
    }

    #[test]
    fn what_is_no_recording_says_so() {
        let why = |bytes: &[u8]| play(bytes).expect_err("no recording");
        assert!(why(b"").contains("is empty"));
        assert!(why(b"hello\n").contains("is no recording"));
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
                Err(why) => assert!(why.contains("cut") || why.contains("is empty"), "{length}: {why}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn one_that_is_damaged_gives_no_wrong_moment(at in 0usize..100_000, bit in 0u8..8) {
            let mut bytes = recording(4);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            if let Ok((times, _)) = play(&bytes) {
                prop_assert!(times.iter().zip(0..).all(|(time, expected)| *time == expected), "{times:?}");
            }
        }

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
