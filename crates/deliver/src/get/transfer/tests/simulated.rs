//! A file from its first start to its name, with everything that ends a start: kills of this half, links that tear, a
//! server that dies, full disks, a source that changes, bytes that flip on the way, sums that lie, a power cut that takes
//! blocks or the journal's end. No socket and no clock: streams take their steps in an order that a seed gives.

use super::super::super::part::{journal_path, part_path};
use super::super::*;
use crate::blocks::BlockSum;
use crate::tests::PlantedBug;
use linerate_facts::random::Random;
use linerate_testing::{find_each, folder_in_memory, is_planted, simulated};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const SIM_BLOCK_BYTES: u64 = 64;
const MOST_SIM_BYTES: u64 = 1000;
/// Runs of this test, of which a fifth is drawn, and how many a minute there are on one core at least.
const RUNS: u32 = 10_000;
const RUNS_A_MINUTE: f64 = 10_000.0;
/// Starts with faults; the ones after them have none.
const FAULTY_STARTS: u32 = 8;
/// Steps that a start may need at most.
const MOST_STEPS: u32 = 20_000;
/// The most bytes that a kill tears off a journal, and the most blocks whose lines that takes.
const MOST_TORN_BYTES: u64 = 60;
const MOST_TORN_BLOCKS: u64 = 3;

/// What the other half has, and can do.
struct Source {
    version: u64,
    content: Vec<u8>,
    has_sums: bool,
    has_ranges: bool,
}

impl Source {
    fn new(random: &mut Random) -> Self {
        let content = vec![0; 1 + random.below(MOST_SIM_BYTES) as usize];
        let has_sums = random.chance(0.6);
        // What has sums is `linerate serve`, which has ranges.
        let has_ranges = has_sums || random.chance(0.8);
        let mut source = Source { version: 0, content, has_sums, has_ranges };
        source.change(random);
        source
    }

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
            has_sums: self.has_sums,
            has_ranges: self.has_ranges,
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

fn check(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// What a stream is at, and how many blocks of it came.
type Stream = Option<(FileWork, u64)>;

/// How a start ended.
#[derive(Debug, PartialEq, Eq)]
enum StartEnd {
    Killed,
    Named,
    /// In one sentence.
    Failed(String),
}

/// What a start leaves for the next.
#[derive(Clone, Copy, Default)]
struct LeftBehind {
    version: u64,
    least_bytes: u64,
    /// It is no more, either.
    is_all: bool,
}

struct Simulation<'a> {
    random: Random,
    source: Source,
    place: &'a Path,
    /// Of what can happen in a step, how likely; nothing where the start is to come to its end.
    fault: f64,
    faults: u32,
    left: LeftBehind,
}

impl Simulation<'_> {
    /// All starts of one file; how many faults they had.
    fn run(seed: u32, place: &Path) -> Result<u32, String> {
        let mut random = Random::new(u64::from(seed));
        let (source, fault) = (Source::new(&mut random), 0.08 + 0.3 * random.unit());
        let left = LeftBehind { is_all: true, ..LeftBehind::default() };
        let mut simulation = Simulation { random, source, place, fault, faults: 0, left };
        for start in 1.. {
            if start > FAULTY_STARTS {
                simulation.fault = 0.0;
            }
            match simulation.start()? {
                StartEnd::Named => break,
                _ if place.exists() => return Err("half a file has the name".into()),
                ended if start > FAULTY_STARTS => return Err(format!("without a fault: {ended:?}")),
                StartEnd::Failed(why) => check(!why.is_empty(), || "no reason is given".into())?,
                StartEnd::Killed => {}
            }
        }
        let folder = place.parent().unwrap_or(place);
        let names = std::fs::read_dir(folder).map_or(0, Iterator::count);
        check(names == 1, || format!("{names} files are left in the folder"))?;
        std::fs::remove_file(place).map_err(|error| error.to_string())?;
        Ok(simulation.faults)
    }

    /// Something goes wrong, with this probability.
    fn strikes(&mut self, probability: f64) -> bool {
        let strikes = self.random.chance(probability);
        self.faults += u32::from(strikes);
        strikes
    }

    /// One start of the fetching half.
    fn start(&mut self) -> Result<StartEnd, String> {
        let begun = FileTransfer::begin_in(SIM_BLOCK_BYTES, self.source.remote(), self.place, &Stop::new());
        let (file, kept) = begun.map_err(|error| error.to_string())?;
        let (version, left) = (self.source.version, self.left);
        let is_gone_on_with = self.source.has_ranges && left.version == version;
        let least = if is_gone_on_with { left.least_bytes } else { 0 };
        check(kept >= least && (kept == least || !left.is_all && is_gone_on_with), || {
            format!("{kept} bytes are kept of {least} that an earlier start left")
        })?;
        let mut streams: Vec<Stream> = (0..1 + self.random.below(4)).map(|_| None).collect();
        let mut ended = file.check_end();
        for _ in 0..MOST_STEPS {
            match ended {
                Ended::NotYet => {}
                Ended::Whole => {
                    check(streams.iter().all(Option::is_none), || "it ends below its streams".into())?;
                    return self.name(&file, version);
                }
                Ended::Failed(error) => {
                    let is_useless =
                        matches!(error, TransferError::Changed { .. } | TransferError::Differs { .. });
                    if is_useless || !file.can_go_on() {
                        file.part.discard();
                    }
                    let bytes = if is_useless { 0 } else { file.bytes_there() };
                    self.left = LeftBehind { version, least_bytes: bytes, is_all: true };
                    return Ok(StartEnd::Failed(error.to_string()));
                }
            }
            if self.strikes(self.fault * 0.2) {
                self.kill(file, version);
                return Ok(StartEnd::Killed);
            }
            if self.strikes(self.fault * 0.05) {
                self.source.change(&mut self.random);
            }
            let stream = self.random.below(streams.len() as u64) as usize;
            ended = self.step(&file, &mut streams, stream, version)?;
        }
        Err("a start never ends".into())
    }

    /// As `conclude` does it: asked once more, named, or thrown away.
    fn name(&mut self, file: &FileTransfer, version: u64) -> Result<StartEnd, String> {
        if self.strikes(self.fault * 0.2) {
            self.left = LeftBehind { version, least_bytes: file.remote.bytes, is_all: true };
            return Ok(StartEnd::Killed);
        }
        if self.source.version != version {
            file.part.discard();
            self.left = LeftBehind { version, least_bytes: 0, is_all: true };
            return Ok(StartEnd::Failed("changed".into()));
        }
        file.part.land(false).map_err(|error| error.to_string())?;
        let named = std::fs::read(self.place).map_err(|error| error.to_string())?;
        check(named == self.source.content, || "wrong bytes have the name".into())?;
        Ok(StartEnd::Named)
    }

    /// The next piece for a stream, which no other has, and of which nothing is there.
    fn taken(&mut self, file: &FileTransfer, streams: &[Stream]) -> Result<Stream, String> {
        let count = streams.len() as u64;
        let confirm = || file.next_confirm().map(FileWork::Confirm);
        let share = self.random.chance(0.8).then_some(1.0 / count as f64);
        let fetch = || file.next_fetch(count, share, 0).map(FileWork::Fetch);
        let confirms_first = self.random.chance(0.3);
        let work = if confirms_first { confirm().or_else(fetch) } else { fetch().or_else(confirm) };
        if let Some(FileWork::Fetch(piece)) = &work {
            let has = |stream: &Stream| match stream {
                Some((FileWork::Fetch(other), _)) => other.start < piece.end && piece.start < other.end,
                _ => false,
            };
            check(!streams.iter().any(has), || format!("two streams have {piece:?}"))?;
            // What cannot be asked for from its middle comes again as a whole.
            let is_absent = !self.source.has_ranges || file.bytes_there_of(piece) == 0;
            check(is_absent, || format!("{piece:?} is there already"))?;
        }
        Ok(work.map(|work| (work, 0)))
    }

    fn step(
        &mut self,
        file: &FileTransfer,
        streams: &mut [Stream],
        stream: usize,
        version: u64,
    ) -> Result<Ended, String> {
        let Some((work, came)) = streams[stream].take() else {
            streams[stream] = self.taken(file, streams)?;
            return Ok(Ended::NotYet);
        };
        if let Some(error) = self.error(file, version) {
            return Ok(file.done(work, Err(error)));
        }
        if self.random.chance(self.fault * 0.3) && came == 0 {
            return Ok(file.give_back(work));
        }
        let of_disk = |error: TransferError| error.to_string();
        match work {
            FileWork::Confirm(piece) => {
                let mut sums: Vec<u64> =
                    piece.clone().map(|block| sum_of(self.source.block(block))).collect();
                if self.strikes(self.fault * 0.1) {
                    sums[0] ^= 1;
                }
                let compared = file.compare(piece.start, &sums).map(drop);
                Ok(file.done(FileWork::Confirm(piece), compared))
            }
            FileWork::Fetch(piece) => {
                let block = piece.start + came;
                let mut bytes = self.source.block(block).to_vec();
                // Without sums nobody can know.
                if self.source.has_sums && self.strikes(self.fault * 0.1) {
                    bytes[0] ^= 1;
                }
                if is_planted(PlantedBug::EarlyBlock) && self.random.chance(self.fault) {
                    file.landed(block, sum_of(&bytes)).map_err(of_disk)?;
                    return Ok(file.done(FileWork::Fetch(piece), Err(super::broken())));
                }
                let at = block * SIM_BLOCK_BYTES;
                file.part.file.write_all_at(&bytes, at).map_err(|error| error.to_string())?;
                file.landed(block, sum_of(&bytes)).map_err(of_disk)?;
                if block + 1 == piece.end {
                    return Ok(file.done(FileWork::Fetch(piece), Ok(())));
                }
                streams[stream] = Some((FileWork::Fetch(piece), came + 1));
                Ok(Ended::NotYet)
            }
        }
    }

    /// What the next answer comes to.
    fn error(&mut self, file: &FileTransfer, version: u64) -> Option<TransferError> {
        let url = file.remote.url.to_string();
        if self.source.version != version {
            return Some(TransferError::Changed { url });
        }
        if !self.strikes(self.fault) {
            return None;
        }
        Some(match self.random.below(8) {
            0 | 1 => TransferError::CutShort { url, missing: 1 },
            2 => TransferError::Stalled { url, seconds: 30 },
            3 => TransferError::Overloaded { url, status: 503, retry_after: None },
            4 => TransferError::Revoked,
            5 => TransferError::OtherPart { url },
            6 => TransferError::Unreachable { authority: url, why: "it died".into() },
            _ => file.part.failed(io::Error::from_raw_os_error(28), file.remote.bytes),
        })
    }

    /// The process is gone, and with it perhaps the power: what had not reached the disk is not there.
    fn kill(&mut self, file: FileTransfer, version: u64) {
        let mut left = LeftBehind { version, least_bytes: file.bytes_there(), is_all: true };
        if self.strikes(0.3) {
            let lost = self.random.below(file.remote.bytes.div_ceil(SIM_BLOCK_BYTES));
            let there = file.bytes_there_of(&(lost..lost + 1));
            // What was lost before may be as it was again.
            (left.least_bytes, left.is_all) = (left.least_bytes - there, there > 0);
            let mut bytes = vec![0; file.block_length(lost) as usize];
            file.part.file.read_exact_at(&mut bytes, lost * SIM_BLOCK_BYTES).expect("as long as it will be");
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            file.part.file.write_all_at(&bytes, lost * SIM_BLOCK_BYTES).expect("written");
        }
        drop(file);
        let journal = journal_path(self.place);
        if self.strikes(0.3)
            && let Ok(journal) = File::options().write(true).open(&journal)
        {
            let bytes = journal.metadata().expect("there").len();
            journal.set_len(bytes - self.random.below(bytes.min(MOST_TORN_BYTES) + 1)).expect("torn");
            left.least_bytes = left.least_bytes.saturating_sub(MOST_TORN_BLOCKS * SIM_BLOCK_BYTES);
            left.is_all = false;
        }
        // Somebody lays other bytes there, with their sums: without the server's nobody can know.
        if self.source.has_sums
            && self.strikes(0.05)
            && let Ok(Some((mut noted, content))) = TransferJournal::go_on(&journal)
        {
            let mut bytes = vec![0; content.head.bytes as usize];
            self.random.fill(&mut bytes);
            std::fs::write(part_path(self.place), &bytes).expect("laid");
            let sums = (0..).zip(bytes.chunks(SIM_BLOCK_BYTES as usize).map(sum_of));
            noted.add(sums, BlockMark::Received).expect("noted");
            left = LeftBehind { version, least_bytes: 0, is_all: false };
        }
        // Somebody tidies up.
        if self.strikes(0.05) {
            std::fs::remove_file(part_path(self.place)).expect("removed");
            left = LeftBehind { version, least_bytes: 0, is_all: true };
        }
        self.left = left;
    }
}

fn runs() -> impl Fn(u32) -> Result<u32, String> {
    let folder = folder_in_memory();
    move |seed| Simulation::run(seed, &folder.path().join("file"))
}

#[test]
fn whatever_ends_its_starts_a_file_has_no_wrong_byte_and_comes_in_the_end() {
    simulated(("linerate-deliver", "whatever_ends_its_starts_a_file"), (RUNS, RUNS_A_MINUTE), runs());
}

#[test]
fn seeds_find_each_bug_that_is_planted_in_a_transfer() {
    use PlantedBug::*;
    let bugs = [JournalBelieved, OtherContent, TornLine, LostPiece, TwicePiece, DifferentBlock, EarlyBlock];
    find_each(&bugs, RUNS / 20, runs);
}
