//! How the bytes of a file get to a connection: what the page cache has by splice(2) or sendfile(2), the rest past it at
//! depth. Which of the two is asked piece by piece. Used by `serve`, `put` and uploads to object stores.

use crate::blocks::FileId;
use linerate_system::clock;
use linerate_system::counters::{thread_blocks_read, thread_cpu};
use linerate_system::file::{cached_share_of, lies_in_memory};
use linerate_system::handover::{MOST_PIPE_BYTES, Splice, send_file};
use linerate_system::readiness::is_waiting;
use linerate_system::storage::{Opening, reopen};
use linerate_transport::flow::rate_limit::RateLimit;
use linerate_transport::flow::stream::FileSender;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How a file is read is chosen for so much at a time.
pub(crate) const PIECE_BYTES: u64 = 64 << 20;
/// Less than this is read through the page cache: a ring and its buffers cost more than they save.
pub(crate) const LEAST_DIRECT_BYTES: u64 = 2 << 20;
/// A piece of which less than this share is in the page cache is read past it.
const HOT_SHARE: f64 = 0.5;
/// The most that is read past the page cache before it is asked again: between two such runs the disk stands still.
const MOST_RUN_BYTES: u64 = 1 << 30;
/// The most bytes of a call.
pub(crate) const CALL_BYTES: usize = 1 << 20;
/// What sendfile(2) takes of the page cache at a time: its pipe has 16 pages.
const SENDFILE_BYTES: usize = 64 << 10;
/// It is asked again after so many pieces: not every file system and kernel counts what a thread has read of disks.
const TRUSTED_PIECES: u32 = 8;
/// A call lasts this long at a rate limit.
const LIMITED_CALL: Duration = Duration::from_millis(5);
const LEAST_CALL_BYTES: usize = 16 << 10;

/// The paths of one connection for the bytes of files.
#[derive(Default)]
pub(crate) struct BodyPaths {
    /// The last file that was read past the page cache: the next range of it needs no new ring.
    direct: Option<(FileId, FileSender)>,
    /// What is in the page cache goes through it.
    pipe: Option<Splice>,
    /// Pieces since the page cache was asked, all of which it had: it is not asked again until that ends.
    cached_pieces: u32,
    /// It had the piece before this one.
    was_cached: bool,
}

/// What came of one call for bytes that the page cache has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedCall {
    pub(crate) sent: usize,
    /// For the disk: the page cache had not all of it. Not the wait for room in the socket.
    pub(crate) waited_disk: Duration,
    /// The socket had no room.
    pub(crate) is_full: bool,
    /// The page cache may not have the rest: it is to be asked again.
    pub(crate) is_over: bool,
}

impl BodyPaths {
    /// Other bytes than those before, of which nothing is known.
    pub(crate) fn begin(&mut self) {
        self.cached_pieces = 0;
    }

    /// Whether a piece is to be read past the page cache, for which all is ready then.
    pub(crate) fn goes_direct(
        &mut self,
        socket: &TcpStream,
        (file, id, label): (&File, FileId, &str),
        (at, length): (u64, u64),
    ) -> bool {
        let asks = self.cached_pieces.is_multiple_of(TRUSTED_PIECES);
        asks && is_cold(file, at, length) && self.opens_direct(socket, file, id, label)
    }

    /// The last one may be of another file, or another content.
    fn opens_direct(&mut self, socket: &TcpStream, file: &File, id: FileId, label: &str) -> bool {
        if self.direct.as_ref().is_some_and(|(of, _)| *of == id) {
            return true;
        }
        self.direct = None;
        let opened = open_direct(file);
        match opened.and_then(|direct| FileSender::new(socket, Arc::new(direct), label.into())) {
            Ok(sender) => {
                self.direct = Some((id, sender));
                true
            }
            // The page cache will do.
            Err(error) => {
                tracing::debug!(file = label, %error, "not read past the page cache");
                false
            }
        }
    }

    /// What reads past the page cache, once [`BodyPaths::goes_direct`] has said that a piece is to.
    pub(crate) fn direct(&mut self) -> io::Result<&mut FileSender> {
        self.direct.as_mut().map(|(_, sender)| sender).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What it has read ahead is not wanted.
    pub(crate) fn drop_direct(&mut self) {
        self.direct = None;
    }

    /// A piece that the page cache has; `is_trusted`: so may the next ones.
    pub(crate) fn begin_cached(&mut self, is_trusted: bool) {
        self.was_cached = self.cached_pieces > 0;
        self.cached_pieces = if is_trusted { self.cached_pieces + 1 } else { 0 };
    }

    /// Its next bytes to the socket, as pages of the page cache. A pipe of our own takes more of them at once than that of
    /// sendfile(2), and carries a tenth more (bench/README.md).
    pub(crate) fn send_cached(
        &mut self,
        socket: &TcpStream,
        file: &File,
        at: u64,
        bytes: usize,
        with_pipe: bool,
    ) -> io::Result<CachedCall> {
        if with_pipe && bytes > SENDFILE_BYTES && self.pipe.is_none() {
            self.pipe = Splice::new(MOST_PIPE_BYTES).ok();
        }
        let (begun, cpu, read) = (clock::now(), thread_cpu(), thread_blocks_read());
        let waited = || {
            let computed = || thread_cpu().saturating_sub(cpu);
            (thread_blocks_read() > read).then(|| clock::since(begun).saturating_sub(computed()))
        };
        let pipe = self.pipe.as_mut().filter(|pipe| pipe.is_large());
        // A long sendfile(2) waits for the disk and for the socket in turn: how long for which is unknown.
        let is_known = pipe.is_some() || !with_pipe || bytes <= SENDFILE_BYTES;
        let (handed_over, waited) = match pipe {
            Some(pipe) => {
                let (filled, waited) = (pipe.fill(file, at, bytes), waited());
                (filled.and_then(|()| pipe.send_rest(socket, bytes)), waited)
            }
            None => (send_file(socket, file, at, bytes), waited()),
        };
        if handed_over.is_err() {
            // What it still holds is read again.
            self.pipe = self.pipe.take().filter(|pipe| !pipe.is_large());
        }
        let (sent, is_full) = match handed_over {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if is_waiting(&error) => (0, true),
            sent => (sent?, false),
        };
        if waited.is_some() {
            self.cached_pieces = 0;
        }
        let waited_disk = waited.filter(|_| is_known).unwrap_or_default();
        Ok(CachedCall { sent, waited_disk, is_full, is_over: self.was_cached && self.cached_pieces == 0 })
    }

    /// The next bytes may take another path, or be of another file.
    pub(crate) fn end_cached(&mut self) {
        self.pipe = self.pipe.take().filter(Splice::is_empty);
    }

    #[cfg(test)]
    pub(crate) fn has_pipe_with_bytes(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty())
    }
}

/// Bytes of a call: few at a low rate, so that it is kept evenly.
pub(crate) fn call_bytes(rate: Option<&RateLimit>) -> usize {
    let limited = |rate: &RateLimit| {
        let bytes = (rate.bytes_per_second() * LIMITED_CALL.as_secs_f64()) as usize;
        bytes.clamp(LEAST_CALL_BYTES, CALL_BYTES)
    };
    rate.map_or(CALL_BYTES, limited)
}

/// The same file again, to be read past the page cache.
pub(crate) fn open_direct(file: &File) -> io::Result<File> {
    reopen(file, Opening { direct: true, ..Opening::default() })
}

/// Bytes at the head of a range that are read in one way, and whether they are cold: a piece, a cold one with the cold
/// ones behind it.
pub(crate) fn next_run(file: &File, range: Range<u64>) -> (u64, bool) {
    let (at, left) = (range.start, range.end - range.start);
    let mut bytes = piece_bytes(left);
    let first_is_cold = is_cold(file, at, bytes);
    let mut goes_on = first_is_cold;
    while goes_on && bytes < MOST_RUN_BYTES.min(left) {
        let next = piece_bytes(left - bytes);
        goes_on = is_cold(file, at + bytes, next);
        bytes += if goes_on { next } else { 0 };
    }
    (bytes, first_is_cold)
}

/// The last piece has what would be too little for one of its own.
fn piece_bytes(left: u64) -> u64 {
    if left < PIECE_BYTES + LEAST_DIRECT_BYTES { left } else { PIECE_BYTES }
}

/// Most of it would have to come from the disk. Where the kernel does not say so (the file is another user's) it
/// counts as hot: the page cache is never wrong, and mostly quicker.
pub(crate) fn is_cold(file: &File, at: u64, length: u64) -> bool {
    length >= LEAST_DIRECT_BYTES
        && !lies_in_memory(file)
        && cached_share_of(file, at, length).is_ok_and(|share| share < HOT_SHARE)
}
