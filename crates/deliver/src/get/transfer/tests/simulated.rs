//! A file from its first start to its name, with everything that ends a start: kills of this half, links that tear, a
//! server that dies, full disks, a source that changes, bytes that flip on the way, a power cut that takes blocks or the
//! journal's end. No socket and no clock: streams take their steps in an order that a seed gives.

use super::super::super::part::journal_path;
use super::super::*;
use crate::blocks::BlockSum;
use linerate_facts::random::Random;
use linerate_testing::{cases, drawn};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const SIM_BLOCK_BYTES: u64 = 64;
const MOST_SIM_BYTES: u64 = 1000;
/// Runs of this test, of which a fifth is drawn.
const RUNS: u32 = 10_000;
/// Starts with faults; the ones after them have none.
const FAULTY_STARTS: u32 = 6;
/// Steps that a start may need at most.
const MOST_STEPS: u32 = 20_000;

/// What the other half has.
struct Source {
    version: u64,
    content: Vec<u8>,
}

impl Source {
    fn change(&mut self, random: &mut Random) {
        self.version += 1;
        // Often of the same length, as a file that is written to in place.
        let bytes =
            if random.chance(0.7) { self.content.len() as u64 } else { 1 + random.below(MOST_SIM_BYTES) };
        self.content.resize(bytes as usize, 0);
        random.fill(&mut self.content);
    }

    fn remote(&self) -> RemoteFile {
        let bytes = self.content.len() as u64;
        RemoteFile {
            entity_tag: Some(format!("\"{}\"", self.version)),
            has_sums: true,
            keeps_open: true,
            ..super::remote(bytes)
        }
    }

    fn block(&self, block: u64) -> &[u8] {
        let from = (block * SIM_BLOCK_BYTES) as usize;
        &self.content[from..self.content.len().min(from + SIM_BLOCK_BYTES as usize)]
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    let mut sum = BlockSum::begin();
    sum.add(bytes);
    sum.end()
}

/// What a stream is at, and how many blocks of it came.
struct Stream(Option<(Work, u64)>);

/// How a start ended.
#[derive(Debug, PartialEq, Eq)]
enum StartEnd {
    Killed,
    Named,
    /// In one sentence.
    Failed(String),
}

struct Simulation<'a> {
    random: &'a mut Random,
    source: &'a mut Source,
    place: &'a Path,
    /// Of what can happen in a step, how likely; nothing where the start is to come to its end.
    fault: f64,
}

impl Simulation<'_> {
    /// One start of the fetching half.
    fn start(&mut self) -> StartEnd {
        let begun = FileTransfer::begin_in(SIM_BLOCK_BYTES, self.source.remote(), self.place, &Stop::new());
        let (file, kept) = begun.expect("nobody else is at it");
        assert!(kept <= file.remote.bytes);
        let version = self.source.version;
        let mut streams: Vec<Stream> = (0..1 + self.random.below(4)).map(|_| Stream(None)).collect();
        let mut ended = file.begun();
        for _ in 0..MOST_STEPS {
            match ended {
                Ended::NotYet => {}
                Ended::Whole => return self.name(&file, version),
                Ended::Failed(error) => {
                    if matches!(error, GetError::Changed { .. } | GetError::Differs { .. }) {
                        file.part.discard();
                    }
                    return StartEnd::Failed(error.to_string());
                }
            }
            if self.random.chance(self.fault * 0.2) {
                self.kill(file);
                return StartEnd::Killed;
            }
            if self.random.chance(self.fault * 0.05) {
                self.source.change(self.random);
            }
            let stream = self.random.below(streams.len() as u64) as usize;
            let count = streams.len() as u64;
            ended = self.step(&file, &mut streams[stream], count, version);
        }
        panic!("a start that never ends");
    }

    /// As `conclude` does it: asked once more, named, or thrown away.
    fn name(&mut self, file: &FileTransfer, version: u64) -> StartEnd {
        if self.random.chance(self.fault * 0.2) {
            return StartEnd::Killed;
        }
        if self.source.version != version {
            file.part.discard();
            return StartEnd::Failed("changed".into());
        }
        file.part.land(false).expect("nothing is there");
        assert!(
            std::fs::read(self.place).expect("named") == self.source.content,
            "wrong bytes have the name"
        );
        StartEnd::Named
    }

    fn step(&mut self, file: &FileTransfer, stream: &mut Stream, count: u64, version: u64) -> Ended {
        let Some((work, came)) = stream.0.take() else {
            let confirms_first = self.random.chance(0.3);
            let confirm = || file.next_confirm().map(Work::Confirm);
            let share = self.random.chance(0.8).then_some(1.0 / count as f64);
            let fetch = || file.next_fetch(count, share).map(Work::Fetch);
            let work = if confirms_first { confirm().or_else(fetch) } else { fetch().or_else(confirm) };
            stream.0 = work.map(|work| (work, 0));
            return Ended::NotYet;
        };
        if let Some(error) = self.error(file, version) {
            return file.done(work, Err(error));
        }
        if self.random.chance(self.fault * 0.3) && came == 0 {
            return file.give_back(work);
        }
        match work {
            Work::Confirm(piece) => {
                let sums: Vec<u64> = piece.clone().map(|block| sum_of(self.source.block(block))).collect();
                let compared = file.compare(piece.start, &sums).map(drop);
                file.done(Work::Confirm(piece), compared)
            }
            Work::Fetch(piece) => {
                let block = piece.start + came;
                let mut bytes = self.source.block(block).to_vec();
                if self.random.chance(self.fault * 0.1) {
                    bytes[0] ^= 1;
                }
                let at = block * SIM_BLOCK_BYTES;
                file.part.file.write_all_at(&bytes, at).expect("written");
                file.landed(block, sum_of(&bytes)).expect("noted");
                match block + 1 == piece.end {
                    true => file.done(Work::Fetch(piece), Ok(())),
                    false => {
                        stream.0 = Some((Work::Fetch(piece), came + 1));
                        Ended::NotYet
                    }
                }
            }
        }
    }

    /// What the next answer comes to.
    fn error(&mut self, file: &FileTransfer, version: u64) -> Option<GetError> {
        let url = file.remote.url.to_string();
        if self.source.version != version {
            return Some(GetError::Changed { url });
        }
        if !self.random.chance(self.fault) {
            return None;
        }
        Some(match self.random.below(6) {
            0 => GetError::CutShort { url, missing: 1 },
            1 => GetError::Stalled { url, seconds: 30 },
            2 => GetError::Overloaded { url },
            3 => GetError::Revoked,
            4 => GetError::Unreachable { authority: url, why: "it died".into() },
            _ => file.part.failed(io::Error::from_raw_os_error(28), file.remote.bytes),
        })
    }

    /// The process is gone, and with it perhaps the power: what had not reached the disk is not there.
    fn kill(&mut self, file: FileTransfer) {
        let blocks = file.remote.bytes.div_ceil(SIM_BLOCK_BYTES);
        if self.random.chance(0.3) {
            let lost = self.random.below(blocks);
            let zeros = vec![0; file.block_length(lost) as usize];
            file.part.file.write_all_at(&zeros, lost * SIM_BLOCK_BYTES).expect("written");
        }
        drop(file);
        let journal = journal_path(self.place);
        if self.random.chance(0.3)
            && let Ok(journal) = File::options().write(true).open(&journal)
        {
            let bytes = journal.metadata().expect("there").len();
            journal.set_len(bytes - self.random.below(bytes.min(60) + 1)).expect("torn");
        }
    }
}

#[test]
fn whatever_ends_its_starts_a_file_has_no_wrong_byte_and_comes_in_the_end() {
    let runs = cases(RUNS);
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let (mut killed, mut failed, mut resumed) = (0, 0, 0);
    for seed in drawn(RUNS) {
        let mut random = Random::new(u64::from(seed));
        let mut source = Source { version: 0, content: vec![0; 1 + random.below(MOST_SIM_BYTES) as usize] };
        source.change(&mut random);
        let place = folder.path().join("file");
        let fault = random.unit() * 0.2;
        let mut start = 0;
        let ended = loop {
            start += 1;
            let fault = if start <= FAULTY_STARTS { fault } else { 0.0 };
            resumed += u32::from(journal_path(&place).exists());
            let (random, source) = (&mut random, &mut source);
            let ended = Simulation { random, source, place: &place, fault }.start();
            assert!(ended == StartEnd::Named || !place.exists(), "seed {seed}: half a file has the name");
            match &ended {
                StartEnd::Named => break ended,
                StartEnd::Killed => killed += 1,
                StartEnd::Failed(why) => {
                    failed += 1;
                    assert!(!why.is_empty() && start <= FAULTY_STARTS, "seed {seed}: without a fault: {why}");
                }
            }
        };
        assert_eq!(ended, StartEnd::Named, "seed {seed}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a list").flatten().collect();
        assert_eq!(left.len(), 1, "seed {seed}: {left:?}");
        std::fs::remove_file(&place).expect("removed");
    }
    println!("{runs} runs, {killed} starts killed, {failed} failed, {resumed} began with a journal");
    assert!(killed > runs / 10 && failed > runs / 10 && resumed > runs / 10, "{killed}, {failed}, {resumed}");
}
