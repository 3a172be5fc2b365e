//! The bytes of a file to a connection: by splice(2) or sendfile(2) where the page cache has them, else past it at depth.
//! Which of the two is asked piece by piece.

use super::Shared;
use super::opened::{FileId, OpenedFile};
use super::patience::{Patience, SLOW_TIME};
use super::sending::flush;
use super::served_stream::{PIECE_BYTES, ServedStream};
use super::sums::Summing;
use super::tally::Tally;
use crate::flow_sockets::SocketRoute;
use linerate_system::counters::{thread_blocks_read, thread_cpu};
use linerate_system::file::{cached_share_of, lies_in_memory};
use linerate_system::handover::{MOST_PIPE_BYTES, Splice, send_file};
use linerate_system::readiness::is_waiting;
use linerate_system::socket::set_unsent_bytes;
use linerate_transport::flow::stream::FileSender;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Less than this is read through the page cache: a ring and its buffers cost more than they save.
const LEAST_DIRECT_BYTES: u64 = 2 << 20;
/// A piece of which less than this share is in the page cache is read past it.
const HOT_SHARE: f64 = 0.5;
/// The most bytes of a call.
const CALL_BYTES: usize = 1 << 20;
/// What sendfile(2) takes of the page cache at a time: its pipe has 16 pages.
const SENDFILE_BYTES: usize = 64 << 10;
/// It is asked again after so many pieces: not every file system and kernel counts what a thread has read of disks.
const TRUSTED_PIECES: u32 = 8;
/// A call lasts this long at a rate limit.
const LIMITED_CALL: Duration = Duration::from_millis(5);
const LEAST_CALL_BYTES: usize = 16 << 10;
/// So much unsent is in the kernel at most for a client that was waited for, which has no other buffer here.
const SLOW_UNSENT_BYTES: u32 = 128 << 10;

/// One connection's way of sending files.
pub(super) struct BodySender<'a> {
    stream: &'a ServedStream<'a>,
    shared: &'a Shared<'a>,
    /// The last file that was read past the page cache: the next range of it needs no new ring.
    direct: Option<(FileId, FileSender)>,
    /// What lies in the page cache goes through it, unless the client is slow.
    pipe: Option<Splice>,
    /// Pieces of this answer since the page cache was asked, all of which it had: it is not asked again until that
    /// ends.
    cached_pieces: u32,
    patience: Patience,
    /// Its client was waited for, and has not shown since that it takes much.
    is_slow: bool,
    /// Looked up with the first bytes that go out.
    route: Option<Arc<SocketRoute>>,
    /// The last call ended because the socket has no room.
    is_full: bool,
}

/// How far a part of a file was sent.
pub(super) enum Sent {
    Whole,
    /// So many bytes, and the socket takes no more for now.
    UntilFull {
        bytes: u64,
    },
    /// So many bytes, and other connections wait for a thread.
    UntilOthersWait {
        bytes: u64,
    },
}

/// What is sent of a file.
pub(super) struct FileBody<'f> {
    pub(super) opened: &'f OpenedFile,
    /// As it is called in the log.
    pub(super) label: &'f str,
    /// Opens it past the page cache.
    pub(super) open_direct: &'f dyn Fn() -> io::Result<File>,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The client will ask for the sums of blocks of this size.
    pub(super) block_bytes: Option<u64>,
}

impl FileBody<'_> {
    /// Before the last bytes go out: a file that changed meanwhile is cut short, so that its client learns of it.
    fn is_unchanged_at_its_end(&self, end: u64) -> io::Result<()> {
        match end == self.offset + self.length && !self.opened.is_unchanged() {
            true => Err(io::Error::other("the file changed while it was sent")),
            false => Ok(()),
        }
    }
}

impl<'a> BodySender<'a> {
    pub(super) fn new(stream: &'a ServedStream<'a>, shared: &'a Shared<'a>) -> Self {
        let patience = Patience::default();
        BodySender {
            stream,
            shared,
            direct: None,
            pipe: None,
            cached_pieces: 0,
            patience,
            is_slow: false,
            route: None,
            is_full: false,
        }
    }

    /// The client was waited for. One that takes little still has little kept for it.
    pub(super) fn resume(&mut self, is_fast: bool) -> io::Result<()> {
        self.is_slow = true;
        if is_fast { self.set_slow(false) } else { Ok(()) }
    }

    /// The client's socket has no room for a reply.
    pub(super) fn socket_is_full(&mut self) -> io::Result<()> {
        if self.is_slow { Ok(()) } else { self.set_slow(true) }
    }

    /// An answer without a file went out.
    pub(super) fn all_is_sent(&mut self) -> io::Result<()> {
        if self.is_slow { self.set_slow(false) } else { Ok(()) }
    }

    /// Sends as much as goes without a wait for the client, or fails: then the connection is lost, for its client waits
    /// for bytes that do not come.
    pub(super) fn send(&mut self, body: &FileBody<'_>, patience: &mut Patience) -> io::Result<Sent> {
        self.patience = *patience;
        let sent = self.send_pieces(body).and_then(|sent| {
            match sent {
                Sent::UntilFull { .. } if !self.is_slow => self.set_slow(true)?,
                Sent::Whole if self.is_slow => self.set_slow(false)?,
                _ => {}
            }
            Ok(sent)
        });
        if sent.is_err() {
            Tally::add(&self.shared.tally.cut_short, 1);
        }
        *patience = self.patience;
        sent
    }

    fn send_pieces(&mut self, body: &FileBody<'_>) -> io::Result<Sent> {
        let end = body.offset + body.length;
        let mut at = body.offset;
        self.cached_pieces = 0;
        while at < end {
            let length = PIECE_BYTES.min(end - at);
            if self.stream.keys_are_spent() {
                // The client asks for the rest over another connection.
                return Err(io::Error::other(
                    "the keys of the connection have encrypted as much as they may",
                ));
            }
            at += if self.stream.encrypts_here() {
                self.send_encrypted(body, at, length)?
            } else if self.is_slow {
                // What such a client takes at a time is less than a ring is worth.
                self.send_hot(body, at, length.min(LEAST_DIRECT_BYTES))?
            } else if self.asks_anew() && is_cold(&body.opened.file, at, length) && self.direct_of(body) {
                self.send_direct(body, at, length)?
            } else {
                self.send_hot(body, at, length)?
            };
            if std::mem::take(&mut self.is_full) {
                // What it has read ahead is not wanted for long.
                self.direct = None;
                if at < end {
                    return Ok(Sent::UntilFull { bytes: at - body.offset });
                }
            }
            if self.is_slow {
                // It took so much without a wait.
                self.set_slow(false)?;
            }
            if at < end && !self.stream.encrypts_here() && self.shared.threads.is_short() {
                self.direct = None;
                return Ok(Sent::UntilOthersWait { bytes: at - body.offset });
            }
        }
        Ok(Sent::Whole)
    }

    /// A slow client's socket refuses at once what it has no room for, and has little of it.
    fn set_slow(&mut self, is_slow: bool) -> io::Result<()> {
        self.is_slow = is_slow;
        self.stream.socket.set_nonblocking(is_slow)?;
        set_unsent_bytes(self.stream.socket, if is_slow { SLOW_UNSENT_BYTES } else { 0 })
    }

    /// The last one may be of another file, or another content.
    fn direct_of(&mut self, body: &FileBody<'_>) -> bool {
        if self.direct.as_ref().is_some_and(|(id, _)| *id == body.opened.id) {
            return true;
        }
        self.direct = None;
        let opened = (body.open_direct)().and_then(|file| match FileId::of(&file)? == body.opened.id {
            true => FileSender::new(self.stream.socket, Arc::new(file), body.label.into()),
            false => Err(io::Error::other("it was replaced meanwhile")),
        });
        match opened {
            Ok(sender) => {
                lock_method(self.shared, &sender);
                self.direct = Some((body.opened.id, sender));
                true
            }
            // The page cache will do.
            Err(error) => {
                tracing::debug!(file = body.label, %error, "not read past the page cache");
                false
            }
        }
    }

    /// Gives the bytes that went out: all of them, unless the socket is full.
    fn send_direct(&mut self, body: &FileBody<'_>, at: u64, length: u64) -> io::Result<u64> {
        let mut summing = body.block_bytes.map(|bytes| Summing::new(body.opened.id, bytes, at));
        if let Some((_, sender)) = &mut self.direct {
            sender.begin(at, length);
        }
        let mut left = length;
        while left > 0 {
            let call = self.call_bytes();
            let sums = &self.shared.sums;
            let Some((_, sender)) = &mut self.direct else { return Err(io::ErrorKind::NotFound.into()) };
            if left <= call as u64 {
                body.is_unchanged_at_its_end(at + length)?;
            }
            let begun = Instant::now();
            let mut sent = sender.send(call, |bytes| {
                if let Some(summing) = &mut summing {
                    summing.add(bytes, |block, sum, id, size| sums.keep(id, size, block, sum));
                }
            })?;
            if sent == 0
                && let Some(called_back) = sender.call_back()
            {
                sent = called_back?;
                self.is_full = true;
            }
            left -= sent as u64;
            self.shared.flow.sent.add_waited_disk(sender.take_waited());
            self.account(sent, begun, &self.shared.tally.from_disk)?;
            if self.is_full {
                break;
            }
        }
        Ok(length - left)
    }

    /// Gives the bytes that went out: all of them, unless the socket is full.
    fn send_hot(&mut self, body: &FileBody<'_>, at: u64, length: u64) -> io::Result<u64> {
        let (first, mut at, end) = (at, at, at + length);
        let was_cached = self.cached_pieces > 0;
        self.cached_pieces = if self.is_slow { 0 } else { self.cached_pieces + 1 };
        while at < end {
            let call = (end - at).min(self.call_bytes() as u64) as usize;
            if at + call as u64 == end {
                body.is_unchanged_at_its_end(end)?;
            }
            let (begun, cpu, read) = (Instant::now(), thread_cpu(), thread_blocks_read());
            let sent = match self.hand_over(&body.opened.file, at, call) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if is_waiting(&error) => {
                    self.is_full = true;
                    0
                }
                sent => sent?,
            };
            at += sent as u64;
            // The page cache had not all of it.
            if thread_blocks_read() > read {
                let computed = thread_cpu().saturating_sub(cpu);
                self.shared.flow.sent.add_waited_disk(begun.elapsed().saturating_sub(computed));
                self.cached_pieces = 0;
            }
            self.account(sent, begun, &self.shared.tally.from_cache)?;
            if self.is_full || was_cached && self.cached_pieces == 0 {
                break;
            }
        }
        // What comes next may come another way, or be of another file.
        self.pipe = self.pipe.take().filter(Splice::is_empty);
        Ok(at - first)
    }

    /// Where the next piece lies is not known.
    fn asks_anew(&self) -> bool {
        self.cached_pieces.is_multiple_of(TRUSTED_PIECES)
    }

    /// Pages of the page cache to the socket. A pipe of our own takes more of them at once than that of sendfile(2), and
    /// carries a tenth more (bench/README.md).
    fn hand_over(&mut self, file: &File, at: u64, bytes: usize) -> io::Result<usize> {
        let socket = self.stream.socket;
        if !self.is_slow && bytes > SENDFILE_BYTES && self.pipe.is_none() {
            self.pipe = Splice::new(MOST_PIPE_BYTES).ok();
        }
        let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.is_large()) else {
            return send_file(socket, file, at, bytes);
        };
        let sent = pipe.send(socket, file, at, bytes);
        // What it still holds is read again.
        if sent.is_err() {
            self.pipe = None;
        }
        sent
    }

    /// Through user space, where the bytes are encrypted, and the page cache.
    fn send_encrypted(&mut self, body: &FileBody<'_>, at: u64, length: u64) -> io::Result<u64> {
        let (mut at, end) = (at, at + length);
        let mut chunk = vec![0; self.call_bytes().min(usize::try_from(length).unwrap_or(CALL_BYTES))];
        while at < end {
            let most = (end - at).min(chunk.len() as u64) as usize;
            let read = self.shared.flow.sent.at_disk(|| body.opened.file.read_at(&mut chunk[..most], at))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if at + read as u64 == end {
                body.is_unchanged_at_its_end(end)?;
            }
            let mut rest = &chunk[..read];
            while !rest.is_empty() {
                let begun = Instant::now();
                let sent = match self.stream.send(rest, true) {
                    Err(error) if is_waiting(&error) => 0,
                    sent => sent?,
                };
                rest = &rest[sent..];
                self.account(sent, begun, &self.shared.tally.encrypted)?;
            }
            at += read as u64;
        }
        flush(self.stream, Instant::now() + SLOW_TIME, self.shared)?;
        Ok(length)
    }

    fn call_bytes(&self) -> usize {
        let limited = |rate: &linerate_transport::flow::rate_limit::RateLimit| {
            ((rate.bytes_per_second() * LIMITED_CALL.as_secs_f64()) as usize)
                .clamp(LEAST_CALL_BYTES, CALL_BYTES)
        };
        self.shared.rate.as_ref().map_or(CALL_BYTES, limited)
    }

    /// Counts what went out, keeps to the rate, and gives up a client that takes next to nothing.
    fn account(&mut self, sent: usize, begun: Instant, counter: &AtomicU64) -> io::Result<()> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Tally::add(counter, sent as u64);
        if self.stream.is_by_kernel() {
            Tally::add(&self.shared.tally.encrypted_by_kernel, sent as u64);
        }
        let look_up = || self.shared.flow.sockets.route_of(self.stream.socket);
        self.route.get_or_insert_with(look_up).add(sent);
        self.shared.flow.sent.add_moved(sent as u64);
        self.patience.took(sent as u64, begun.elapsed());
        if self.patience.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let Some(rate) = self.shared.rate.as_ref().filter(|_| sent > 0) {
            let stop = || self.shared.stop.load(Ordering::Relaxed);
            self.shared.flow.sent.paced(|| rate.pay(sent as u64, stop));
        }
        Ok(())
    }
}

fn lock_method(shared: &Shared<'_>, sender: &FileSender) {
    linerate_system::lock(&shared.method).get_or_insert_with(|| sender.method());
}

/// Most of it would have to come from the disk. Where the kernel does not say so (the file is another user's) it
/// counts as hot: the page cache is never wrong, and mostly quicker.
pub(super) fn is_cold(file: &File, at: u64, length: u64) -> bool {
    length >= LEAST_DIRECT_BYTES
        && !lies_in_memory(file)
        && cached_share_of(file, at, length).is_ok_and(|share| share < HOT_SHARE)
}

#[cfg(test)]
mod tests;
