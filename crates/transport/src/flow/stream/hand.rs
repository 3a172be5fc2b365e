//! What a sender sends (a pattern in memory, or a range of a file), how far it is with it, and the ways to
//! hand it to the kernel on TCP: `send` of a buffer, `sendfile`, `splice`, zerocopy.

use super::super::source;
use super::{FileSender, SendMethod, StreamCounters, StreamSpec};
use linerate_sums::Crc;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::handover::{self, KeptPages, MOST_PIPE_BYTES, Splice};
use linerate_system::stop::STOP_CHECK;
use linerate_system::zerocopy::ZeroCopy;
use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The least that a call moves: less would measure the calls.
const LEAST_CALL_BYTES: usize = 1 << 10;
/// The most: so that a stop is quick on a slow path.
const MOST_CALL_BYTES: usize = 16 << 20;
/// Size of the memory file that sendfile takes its pages from, at least: the pages of one call are still under way
/// when the next begins.
const MEMORY_FILE_BYTES: usize = 256 << 10;
/// Blocks that zerocopy sends may have under way.
const ZEROCOPY_BLOCKS: usize = 16;

/// One stream's way.
pub(crate) struct Hand<'a> {
    stream: &'a TcpStream,
    call_bytes: usize,
    method: Method<'a>,
    /// For the checksum of what never passes through our buffers.
    origin: Origin,
}

enum Method<'a> {
    /// The pattern in a buffer.
    Memory {
        block: Lease,
    },
    /// A file through a buffer, of which bytes `from .. to` are still to go out.
    Read {
        block: Lease,
        from: usize,
        to: usize,
    },
    Sendfile {
        file: Arc<File>,
        offset: u64,
    },
    Splice {
        pipe: Splice,
        file: Arc<File>,
        offset: u64,
        /// From memory: all that there is, where the user may have the pipe for it.
        kept: Option<KeptPages>,
    },
    Zerocopy {
        sends: ZeroCopy<&'a TcpStream>,
        blocks: Blocks,
    },
    /// A file past the page cache: read at depth.
    Ahead(Box<FileSender>),
}

/// Blocks for zerocopy sends.
struct Blocks {
    free: Vec<Lease>,
    /// All of them still begin with the pattern.
    pattern: bool,
}

/// Where the bytes are from.
enum Origin {
    Pattern(Vec<u8>),
    File { range: Range, scratch: Vec<u8> },
}

impl<'a> Hand<'a> {
    /// Sets the method up; also how many bytes the content has before it begins again.
    pub(crate) fn new(
        spec: &StreamSpec,
        stream: &'a TcpStream,
        content: &Content,
    ) -> io::Result<(Self, u64)> {
        let call_bytes = (spec.write_bytes as usize).clamp(LEAST_CALL_BYTES, MOST_CALL_BYTES);
        match content {
            Content::Memory => Self::of_memory(spec, stream, call_bytes),
            Content::File { file, label, offset, length, direct } => {
                let range = Range { file: Arc::clone(file), label: label.clone(), offset: *offset };
                let method = if *direct {
                    let mut sender = FileSender::new(stream, Arc::clone(file), label.clone())?;
                    sender.begin_rounds(*offset, *length, spec.limit_bytes.unwrap_or(*length));
                    Method::Ahead(Box::new(sender))
                } else {
                    Self::file_method(spec.method, stream, call_bytes, &range)?
                };
                let origin = Origin::File { range, scratch: Vec::new() };
                Ok((Hand { stream, call_bytes, method, origin }, *length))
            }
        }
    }

    fn of_memory(spec: &StreamSpec, stream: &'a TcpStream, call_bytes: usize) -> io::Result<(Self, u64)> {
        let round_bytes = match spec.method {
            SendMethod::Sendfile => call_bytes.max(MEMORY_FILE_BYTES),
            // No call of it moves more than a pipe holds.
            SendMethod::Splice => call_bytes.min(MOST_PIPE_BYTES),
            _ => call_bytes,
        };
        let mut pattern = vec![0; round_bytes];
        source::fill(&mut pattern);
        let method = match spec.method {
            SendMethod::Sendfile => {
                Method::Sendfile { file: Arc::new(handover::memory_file(&pattern)?), offset: 0 }
            }
            SendMethod::Splice => {
                let file = Arc::new(handover::memory_file(&pattern)?);
                let pipe = Splice::new(round_bytes)?;
                let kept = KeptPages::of(&file, round_bytes).ok();
                Method::Splice { pipe, file, offset: 0, kept }
            }
            SendMethod::Zerocopy => {
                let mut free = blocks(ZEROCOPY_BLOCKS, call_bytes)?;
                free.iter_mut().for_each(|block| source::fill(block.bytes_mut()));
                Method::Zerocopy { sends: ZeroCopy::new(stream)?, blocks: Blocks { free, pattern: true } }
            }
            SendMethod::Write | SendMethod::Trains | SendMethod::Datagrams => {
                let mut block = one_block(call_bytes)?;
                source::fill(block.bytes_mut());
                Method::Memory { block }
            }
        };
        let origin = Origin::Pattern(pattern);
        Ok((Hand { stream, call_bytes, method, origin }, round_bytes as u64))
    }

    fn file_method(
        method: SendMethod,
        stream: &'a TcpStream,
        call_bytes: usize,
        range: &Range,
    ) -> io::Result<Method<'a>> {
        let (file, offset) = (Arc::clone(&range.file), range.offset);
        Ok(match method {
            SendMethod::Sendfile => Method::Sendfile { file, offset },
            SendMethod::Splice => Method::Splice { pipe: Splice::new(call_bytes)?, file, offset, kept: None },
            SendMethod::Zerocopy => {
                let free = blocks(ZEROCOPY_BLOCKS, call_bytes)?;
                Method::Zerocopy { sends: ZeroCopy::new(stream)?, blocks: Blocks { free, pattern: false } }
            }
            SendMethod::Write | SendMethod::Trains | SendMethod::Datagrams => {
                Method::Read { block: one_block(call_bytes)?, from: 0, to: 0 }
            }
        })
    }

    /// The most bytes of a call.
    pub(super) fn most_bytes(&self) -> usize {
        self.call_bytes
    }

    /// Hands over bytes of the content from `at` on, at most `bytes` and before its end; how many the kernel
    /// took, which are added to the checksum. They are asked for in order.
    pub(super) fn send(&mut self, at: u64, bytes: usize, mut digest: Option<&mut Crc>) -> io::Result<usize> {
        let mut stream = self.stream;
        let taken = match &mut self.method {
            Method::Memory { block } => stream.write(&block.bytes()[at as usize..at as usize + bytes])?,
            Method::Read { block, from, to } => {
                if from == to {
                    // Not while some of it waits to go out: then the next bytes are at its start.
                    if let Origin::File { range, .. } = &self.origin {
                        range.read(at, &mut block.bytes_mut()[..bytes])?;
                    }
                    (*from, *to) = (0, bytes);
                }
                stream.write(&block.bytes()[*from..*to])?
            }
            Method::Sendfile { file, offset } => handover::send_file(stream, file, *offset + at, bytes)?,
            Method::Splice { pipe, kept: Some(kept), .. } if at == 0 => {
                pipe.send_kept(stream, kept, bytes)?
            }
            Method::Splice { pipe, file, offset, .. } => pipe.send(stream, file, *offset + at, bytes)?,
            Method::Zerocopy { sends, blocks } => send_zerocopy(sends, blocks, &self.origin, at, bytes)?,
            Method::Ahead(sender) => {
                let look = |sent: &[u8]| digest.as_deref_mut().into_iter().for_each(|sum| sum.update(sent));
                let taken = sender.send(bytes, look)?;
                return if taken > 0 { Ok(taken) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
        };
        if let (0, Origin::File { range, .. }) = (taken, &self.origin) {
            return Err(range.error(at, &io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some(digest) = digest {
            self.digest(digest, at, taken)?;
        }
        if let Method::Read { from, .. } = &mut self.method {
            *from += taken;
        }
        Ok(taken)
    }

    /// Adds what was taken to the checksum.
    fn digest(&mut self, digest: &mut Crc, at: u64, taken: usize) -> io::Result<()> {
        match (&mut self.method, &mut self.origin) {
            (Method::Read { block, from, .. }, _) => digest.update(&block.bytes()[*from..*from + taken]),
            (_, Origin::Pattern(pattern)) => digest.update(&pattern[at as usize..at as usize + taken]),
            // Sent by the kernel from its own pages: read once more. Who changes the file meanwhile sees it
            // in the checksum.
            (_, Origin::File { range, scratch }) => {
                scratch.resize(taken, 0);
                range.read(at, scratch)?;
                digest.update(scratch);
            }
        }
        Ok(())
    }

    /// Stores what became of zerocopy sends so far.
    pub(super) fn tell(&self, counters: &StreamCounters) {
        if let Method::Zerocopy { sends, .. } = &self.method {
            counters.zerocopy_sends.store(sends.report().sends, Ordering::Relaxed);
            counters.zerocopy_copied.store(sends.report().copied, Ordering::Relaxed);
        }
    }

    /// Waits a moment for word on the last zerocopy sends.
    pub(super) fn finish(&mut self, counters: &StreamCounters) {
        if let Method::Zerocopy { sends, blocks } = &mut self.method {
            for _ in 0..6 {
                if sends.reap(&mut blocks.free).is_err() || sends.under_way() == 0 {
                    break;
                }
                let _ = sends.wait(Duration::from_millis(50));
            }
        }
        self.tell(counters);
    }
}

fn send_zerocopy(
    sends: &mut ZeroCopy<&TcpStream>,
    blocks: &mut Blocks,
    origin: &Origin,
    at: u64,
    bytes: usize,
) -> io::Result<usize> {
    if sends.left() == 0 {
        sends.reap(&mut blocks.free)?;
        let Some(mut block) = blocks.free.pop() else {
            sends.wait(STOP_CHECK)?;
            return Err(io::ErrorKind::WouldBlock.into());
        };
        match origin {
            Origin::File { range, .. } => range.read(at, &mut block.bytes_mut()[..bytes])?,
            Origin::Pattern(_) if at == 0 && blocks.pattern => {}
            // After a pace that is not a whole block the next bytes are somewhere in the middle of the pattern.
            Origin::Pattern(pattern) => {
                block.bytes_mut()[..bytes].copy_from_slice(&pattern[at as usize..at as usize + bytes]);
                blocks.pattern = false;
            }
        }
        sends.give(block, bytes);
    }
    match sends.send() {
        // It tracks no more for now: what is done makes room.
        Err(error) if linerate_system::segmentation::is_busy(&error) => {
            sends.wait(STOP_CHECK)?;
            sends.reap(&mut blocks.free)?;
            Err(io::ErrorKind::WouldBlock.into())
        }
        result => result,
    }
}

fn blocks(count: usize, bytes: usize) -> io::Result<Vec<Lease>> {
    let mut pool = Pool::new(count, bytes)?;
    Ok(std::iter::from_fn(|| pool.take()).collect())
}

fn one_block(bytes: usize) -> io::Result<Lease> {
    blocks(1, bytes)?.pop().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

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
