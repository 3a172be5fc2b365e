//! The bytes of a file to a caller that looks at them, to sum or to encrypt them: read at depth where they are cold, else
//! copied from the page cache. What a server keeps of a file that did not come whole is summed so, that the client goes
//! on where it ended.

use crate::blocks::{BlockSum, HASH, parse_sum};
use crate::body_paths::{CALL_BYTES, next_run, open_direct};
use linerate_system::buffers::{Lease, Pool};
use linerate_system::queue::{self, Action, Completion, Queue, Transfer};
use linerate_system::stop::STOP_CHECK;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a read.
const BLOCK_BYTES: usize = 1 << 20;
/// Reads in flight, and the block that is looked at.
const MOST_BLOCKS: usize = 8 + 1;
/// Direct reads begin at multiples of this (a sector of 4 KiB at most, open(2)).
const ALIGNMENT: usize = 4096;
/// A short read is asked for the rest; so often without another byte, and the file ends there.
const MOST_SHORT_READS: u32 = 8;
/// Bytes of a copy from the page cache: the CPU's own cache has them until they are looked at.
const CHUNK_BYTES: usize = 256 << 10;

/// The end of what is kept is compared before the client goes on, the whole file when it has come.
const TAIL_BYTES: u64 = 4 << 20;

/// A range of a file, from its first byte to its last.
pub(crate) struct FileBytes<'f> {
    content: &'f File,
    /// What was not given yet.
    left: Range<u64>,
    /// Until then it is read in one way.
    run_end: u64,
    /// Where it is cold.
    reader: Option<RangeReader>,
    afterwards: Afterwards,
    /// Of what was given last.
    given: usize,
    chunk: Vec<u8>,
}

/// Where cold bytes are once they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// Nowhere: they go past the page cache.
    Gone,
    /// In the page cache, from where they are wanted next.
    Cached,
}

impl<'f> FileBytes<'f> {
    pub(crate) fn of(content: &'f File, left: Range<u64>, afterwards: Afterwards) -> Self {
        let mut bytes = FileBytes { afterwards, ..FileBytes::copied(content, left) };
        bytes.begin_run();
        bytes
    }

    /// Of a long range the head may be hot and the rest cold.
    fn begin_run(&mut self) {
        let (bytes, is_cold) = next_run(self.content, self.left.clone());
        self.run_end = self.left.start + bytes;
        let open = || {
            let file = match self.afterwards {
                Afterwards::Cached => self.content.try_clone(),
                Afterwards::Gone => open_direct(self.content),
            };
            RangeReader::new(file?, self.left.start..self.run_end)
        };
        // Not every file system can; then the page cache will do.
        self.reader = is_cold.then(open).and_then(Result::ok);
    }

    /// Always through the page cache, with one 256 KiB buffer: for callers that many clients may trigger at once.
    pub(crate) fn copied(content: &'f File, left: Range<u64>) -> Self {
        let chunk = vec![0; bytes_in(&left).min(CHUNK_BYTES as u64) as usize];
        let (run_end, afterwards) = (left.end, Afterwards::Cached);
        FileBytes { content, left, run_end, reader: None, afterwards, given: 0, chunk }
    }

    /// All of them were given.
    pub(crate) fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The next ones, `most` of them at most: none where none came within a tenth of a second.
    pub(crate) fn next(&mut self, most: usize) -> io::Result<&[u8]> {
        let given = std::mem::take(&mut self.given);
        self.reader.iter_mut().for_each(|reader| reader.consume(given));
        if self.left.start >= self.run_end && !self.is_over() {
            self.begin_run();
        }
        let next = match &mut self.reader {
            Some(reader) => reader.peek(most)?,
            None => {
                let of_run = usize::try_from(self.run_end - self.left.start).unwrap_or(most);
                let room = most.min(self.chunk.len()).min(of_run);
                let read = self.content.read_at(&mut self.chunk[..room], self.left.start)?;
                if read == 0 && room > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                &self.chunk[..read]
            }
        };
        self.given = next.len();
        self.left.start += next.len() as u64;
        Ok(next)
    }

    /// How they are read, for the report.
    pub(crate) fn method(&self) -> String {
        let cached = "read through the page cache";
        let path = if self.afterwards == Afterwards::Gone { "O_DIRECT" } else { cached };
        self.reader.as_ref().map_or(cached.into(), |reader| format!("{path}, {}", reader.queue.method()))
    }
}

fn bytes_in(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Reads a range at depth.
struct RangeReader<Q: Queue + ?Sized = dyn Queue> {
    queue: Box<Q>,
    pool: Pool,
    /// What is still to be asked for.
    range: Range<u64>,
    /// What was, in the order of the file.
    blocks: VecDeque<Block>,
    done: Vec<Completion>,
}

struct Block {
    /// Of its lease.
    number: usize,
    /// Where in the file it begins.
    offset: u64,
    /// Bytes of it that were read, and how often no more came.
    read: usize,
    short_reads: u32,
    /// Bytes `from .. to` are of the range and were not taken yet; the rest keeps the read aligned.
    from: usize,
    to: usize,
    content: Content,
}

enum Content {
    Reading,
    Ready(Lease),
    Failed(io::Error),
}

impl RangeReader {
    fn new(file: File, range: Range<u64>) -> io::Result<Self> {
        let wanted = bytes_in(&range).div_ceil(BLOCK_BYTES as u64).saturating_add(1);
        let pool = Pool::new(wanted.clamp(2, MOST_BLOCKS as u64) as usize, BLOCK_BYTES)?;
        let (queue, _) = queue::open(true, vec![Arc::new(file)], &pool)?;
        Ok(RangeReader::over(queue, pool, range))
    }
}

impl<Q: Queue + ?Sized> RangeReader<Q> {
    /// The queue's file is the one that is read.
    fn over(queue: Box<Q>, pool: Pool, range: Range<u64>) -> Self {
        let (blocks, done) = (VecDeque::with_capacity(pool.blocks()), Vec::with_capacity(pool.blocks()));
        RangeReader { queue, pool, range, blocks, done }
    }

    /// The next bytes, `most` of them at most, until [`RangeReader::consume`] takes them: none at the range's end, and where
    /// none came within a tenth of a second. All that came before an error was here before it.
    fn peek(&mut self, most: usize) -> io::Result<&[u8]> {
        self.ask();
        self.turn(None)?;
        self.wait_for_front()?;
        match self.blocks.front() {
            Some(Block { content: Content::Ready(lease), from, to, .. }) => {
                Ok(&lease.bytes()[*from..(*to).min(from.saturating_add(most))])
            }
            _ => Ok(&[]),
        }
    }

    /// The first of these bytes were looked at.
    fn consume(&mut self, bytes: usize) {
        let Some(front) = self.blocks.front_mut() else { return };
        front.from += bytes;
        if front.from >= front.to
            && let Some(Block { content: Content::Ready(lease), .. }) = self.blocks.pop_front()
        {
            self.pool.give_back(lease);
        }
    }

    /// Keeps all blocks busy.
    fn ask(&mut self) {
        while !self.range.is_empty() {
            let Some(lease) = self.pool.take() else { break };
            let from = (self.range.start % ALIGNMENT as u64) as usize;
            let offset = self.range.start - from as u64;
            let useful = (self.range.end - self.range.start).min((lease.len() - from) as u64);
            let (number, to) = (lease.number(), from + useful as usize);
            let content = Content::Reading;
            let block = Block { number, offset, read: 0, short_reads: 0, from, to, content };
            self.queue.submit(lease, block.rest());
            self.blocks.push_back(block);
            self.range.start += useful;
        }
    }

    /// Until the front block is here, or a tenth of a second has passed.
    fn wait_for_front(&mut self) -> io::Result<()> {
        let begun = self.queue.now();
        while let Some(front) = self.blocks.front_mut() {
            match &mut front.content {
                Content::Failed(error) => return Err(std::mem::replace(error, io::ErrorKind::Other.into())),
                Content::Ready(_) => break,
                Content::Reading => {}
            }
            if self.queue.now() - begun >= STOP_CHECK {
                break;
            }
            self.turn(Some(STOP_CHECK))?;
        }
        Ok(())
    }

    /// Hands over what is queued and takes what has come.
    fn turn(&mut self, wait: Option<Duration>) -> io::Result<()> {
        self.queue.turn(wait, &mut self.done)?;
        for Completion { lease, result } in self.done.drain(..) {
            // Of a block that has failed another one may have the number by now.
            let is_its = |block: &&mut Block| {
                block.number == lease.number() && matches!(block.content, Content::Reading)
            };
            let Some(block) = self.blocks.iter_mut().find(is_its) else {
                self.pool.give_back(lease);
                continue;
            };
            match block.took(result) {
                Ok(true) => block.content = Content::Ready(lease),
                Ok(false) => self.queue.submit(lease, block.rest()),
                Err(error) => {
                    block.content = Content::Failed(error);
                    self.pool.give_back(lease);
                }
            }
        }
        Ok(())
    }
}

impl Block {
    /// What is to be read of it.
    fn rest(&self) -> Transfer {
        let from = self.read / ALIGNMENT * ALIGNMENT;
        let length = self.to.next_multiple_of(ALIGNMENT) - from;
        Transfer { action: Action::Read, file: 0, offset: self.offset + from as u64, from, length }
    }

    /// Whether it is whole after this read.
    fn took(&mut self, result: io::Result<usize>) -> io::Result<bool> {
        let (from, more) = (self.rest().from, result?);
        if from + more >= self.to {
            return Ok(true);
        }
        self.short_reads = if from + more > self.read { 0 } else { self.short_reads + 1 };
        if more == 0 || self.short_reads >= MOST_SHORT_READS {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read = self.read.max(from + more);
        Ok(false)
    }
}

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
    use linerate_system::queue::fake::{FakeQueue, Faults};
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;
    use std::sync::LazyLock;

    const BLOCK: usize = 16 << 10;

    const BYTES: usize = 20 * BLOCK + 777;

    /// The file: each place differs from its neighbours.
    static CONTENT: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..BYTES).map(|offset| ((offset * 7) >> 3) as u8 ^ (offset >> 12) as u8).collect());

    fn on_fake(seed: u64, faults: Faults, range: Range<usize>) -> RangeReader<FakeQueue> {
        let pool = Pool::new(4, BLOCK).expect("a pool");
        let queue = Box::new(FakeQueue::new(seed, vec![CONTENT.clone()], faults));
        RangeReader::over(queue, pool, range.start as u64..range.end as u64)
    }

    /// Takes the range up to so many bytes of it; what was seen, and why it ended before them. Nothing for five seconds is
    /// an end, too.
    fn take(reader: &mut RangeReader<FakeQueue>, seen: &mut Vec<u8>, upto: usize) -> io::Result<()> {
        let mut idle = 0;
        while seen.len() < upto && idle < 50 {
            let bytes = reader.peek(3 * BLOCK / 2)?;
            let length = bytes.len();
            seen.extend_from_slice(bytes);
            reader.consume(length);
            idle = if length > 0 { 0 } else { idle + 1 };
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn short_and_late_reads_change_nothing_of_what_comes(
            seed: u64, short in 0u32..200, late in 0u32..300, offset in 0..BYTES, length in 1..BYTES,
        ) {
            let end = BYTES.min(offset + length);
            let faults = Faults { short, late, ..Faults::default() };
            let (mut reader, mut seen) = (on_fake(seed, faults, offset..end), Vec::new());
            prop_assert!(take(&mut reader, &mut seen, end - offset).is_ok());
            prop_assert!(seen == CONTENT[offset..end] && reader.peek(1).expect("the end").is_empty());
            prop_assert_eq!((reader.queue.used_too_early, reader.queue.in_flight()), (0, 0));
        }

        #[test]
        fn a_read_that_fails_ends_the_range_behind_all_that_came_before_it(seed: u64) {
            let faults = Faults { read_errors: 100, short: 100, late: 100, ..Faults::default() };
            let (mut reader, mut seen) = (on_fake(seed, faults, 0..BYTES), Vec::new());
            let ended = take(&mut reader, &mut seen, BYTES);
            prop_assert!(seen == CONTENT[..seen.len()]);
            match ended {
                Ok(()) => prop_assert_eq!(seen.len(), BYTES),
                Err(error) => prop_assert_eq!(error.raw_os_error(), Some(linerate_system::Errno::IO.raw_os_error())),
            }
        }

        #[test]
        fn a_file_that_shrinks_meanwhile_ends_there(seed: u64, left in 0..BYTES, before in 0..BYTES) {
            let faults = Faults { short: 50, ..Faults::default() };
            let (mut reader, mut seen) = (on_fake(seed, faults, 0..BYTES), Vec::new());
            prop_assert!(take(&mut reader, &mut seen, before).is_ok());
            reader.queue.files[0].truncate(left);
            let ended = take(&mut reader, &mut seen, BYTES);
            prop_assert!(seen == CONTENT[..seen.len()]);
            match ended {
                // All of it had been read by then.
                Ok(()) => prop_assert_eq!(seen.len(), BYTES),
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
            }
        }
    }

    #[test]
    fn a_completion_that_never_comes_is_no_hang() {
        let mut reader = on_fake(3, Faults { lost: 1000, ..Faults::default() }, 0..BYTES);
        let begun = reader.queue.now();
        assert!(reader.peek(BLOCK).expect("nothing yet").is_empty());
        assert!(reader.queue.now() - begun >= STOP_CHECK);
    }

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
