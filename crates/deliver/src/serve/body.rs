//! The bytes of a file to one of the server's clients, who may be slow: how they are sent is `body_paths`' matter, how
//! long a client is waited for is this one's.

use super::Shared;
use super::block_sums::Summing;
use super::served_stream::{ServedStream, flush};
use super::tally::Tally;
use super::tree::OpenedFile;
use crate::body_paths::{BodyPaths, LEAST_DIRECT_BYTES, PIECE_BYTES, call_bytes};
use crate::flow_sockets::SocketRoute;
use crate::patience::{Patience, SLOW_TIME};
use linerate_system::readiness::is_waiting;
use linerate_system::socket::set_unsent_bytes;
use linerate_system::{clock, lock};
use linerate_transport::flow::stream::FileSender;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Read at once where it is encrypted here: it is still in the CPU's second cache when it is summed, encrypted and copied
/// into the socket. A MiB is read from memory each time.
const ENCRYPTED_BYTES: usize = 256 << 10;
/// A client that takes so long for what was read at once is waited for.
const WAITED: Duration = Duration::from_millis(100);
/// So much unsent is in the kernel at most for a client that was waited for, which has no other buffer here.
const SLOW_UNSENT_BYTES: u32 = 128 << 10;

/// One connection's way of sending files.
pub(super) struct BodySender<'a> {
    stream: &'a ServedStream<'a>,
    shared: &'a Shared<'a>,
    paths: BodyPaths,
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
            paths: BodyPaths::default(),
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
        self.paths.begin();
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
            } else if self.goes_direct(body, at, length) {
                self.send_direct(body, at, length)?
            } else {
                self.send_hot(body, at, length)?
            };
            if std::mem::take(&mut self.is_full) {
                // What it has read ahead is not wanted for long.
                self.paths.drop_direct();
                if at < end {
                    return Ok(Sent::UntilFull { bytes: at - body.offset });
                }
            }
            if self.is_slow {
                // It took so much without a wait.
                self.set_slow(false)?;
            }
            if at < end && !self.stream.encrypts_here() && self.shared.threads.is_short() {
                self.paths.drop_direct();
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

    fn goes_direct(&mut self, body: &FileBody<'_>, at: u64, length: u64) -> bool {
        let opened = (&*body.opened.file, body.opened.id, body.label);
        if !self.paths.goes_direct(self.stream.socket, opened, (at, length)) {
            return false;
        }
        if let Ok(sender) = self.paths.direct() {
            lock(&self.shared.method).get_or_insert_with(|| sender.method());
        }
        true
    }

    /// Gives the bytes that went out: all of them, unless the socket is full.
    fn send_direct(&mut self, body: &FileBody<'_>, at: u64, length: u64) -> io::Result<u64> {
        let mut summing = body.block_bytes.map(|bytes| Summing::new(body.opened.id, bytes, at));
        self.paths.direct()?.begin(at, length);
        let mut left = length;
        while left > 0 {
            let call = self.call_bytes();
            if left <= call as u64 {
                body.is_unchanged_at_its_end(at + length)?;
            }
            let (begun, sums) = (clock::now(), &self.shared.sums);
            let sender = self.paths.direct()?;
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
        self.paths.begin_cached(!self.is_slow);
        while at < end {
            let call = (end - at).min(self.call_bytes() as u64) as usize;
            if at + call as u64 == end {
                body.is_unchanged_at_its_end(end)?;
            }
            let (begun, socket) = (clock::now(), self.stream.socket);
            let cached = self.paths.send_cached(socket, &body.opened.file, at, call, !self.is_slow)?;
            at += cached.sent as u64;
            self.is_full = cached.is_full;
            self.shared.flow.sent.add_waited_disk(cached.waited_disk);
            self.account(cached.sent, begun, &self.shared.tally.from_cache)?;
            if cached.is_full || cached.is_over {
                break;
            }
        }
        self.paths.end_cached();
        Ok(at - first)
    }

    /// Through user space, where the bytes are encrypted.
    fn send_encrypted(&mut self, body: &FileBody<'_>, at: u64, length: u64) -> io::Result<u64> {
        let mut summing = body.block_bytes.map(|bytes| Summing::new(body.opened.id, bytes, at));
        let mut sent = 0;
        if self.goes_direct(body, at, length) {
            let mut paths = std::mem::take(&mut self.paths);
            let encrypted = paths
                .direct()
                .and_then(|sender| self.encrypt_direct(sender, body, (at, length), &mut summing));
            self.paths = paths;
            sent = encrypted?;
        }
        if sent < length {
            self.paths.drop_direct();
            self.encrypt_cached(body, (at + sent, length - sent), &mut summing)?;
        }
        flush(self.stream, clock::now() + SLOW_TIME, self.shared)?;
        Ok(length)
    }

    /// What the page cache does not have, at depth; gives how much, less than all of it where the client was waited for:
    /// it shall hold no ring meanwhile.
    fn encrypt_direct(
        &mut self,
        sender: &mut FileSender,
        body: &FileBody<'_>,
        (at, length): (u64, u64),
        summing: &mut Option<Summing>,
    ) -> io::Result<u64> {
        sender.begin(at, length);
        let (mut left, mut waited) = (length, false);
        while left > 0 && !waited {
            let bytes = sender.next_bytes(self.call_bytes().min(ENCRYPTED_BYTES))?;
            let taken = bytes.len();
            if taken as u64 == left {
                body.is_unchanged_at_its_end(at + length)?;
            } else if taken == 0 {
                // A look whether to go on.
                self.account(0, clock::now(), &self.shared.tally.encrypted)?;
            }
            waited = self.encrypt(bytes, summing)?;
            sender.took(taken);
            self.shared.flow.sent.add_waited_disk(sender.take_waited());
            left -= taken as u64;
        }
        Ok(length - left)
    }

    fn encrypt_cached(
        &mut self,
        body: &FileBody<'_>,
        (mut at, length): (u64, u64),
        summing: &mut Option<Summing>,
    ) -> io::Result<()> {
        let end = at + length;
        let mut chunk = vec![0; self.call_bytes().min(ENCRYPTED_BYTES).min(length as usize)];
        while at < end {
            let most = (end - at).min(chunk.len() as u64) as usize;
            let read = self.shared.flow.sent.at_disk(|| body.opened.file.read_at(&mut chunk[..most], at))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += read as u64;
            if at == end {
                body.is_unchanged_at_its_end(end)?;
            }
            self.encrypt(&chunk[..read], summing)?;
        }
        Ok(())
    }

    /// Sums them and sends all of them; whether the client was waited for.
    fn encrypt(&mut self, bytes: &[u8], summing: &mut Option<Summing>) -> io::Result<bool> {
        if let Some(summing) = summing {
            summing.add(bytes, |at, sum, id, size| self.shared.sums.keep(id, size, at, sum));
        }
        let (mut rest, first) = (bytes, clock::now());
        while !rest.is_empty() {
            let begun = clock::now();
            let sent = match self.stream.send(rest, true) {
                Err(error) if is_waiting(&error) => 0,
                sent => sent?,
            };
            rest = &rest[sent..];
            self.account(sent, begun, &self.shared.tally.encrypted)?;
        }
        Ok(clock::since(first) >= WAITED)
    }

    fn call_bytes(&self) -> usize {
        call_bytes(self.shared.rate.as_ref())
    }

    /// Counts what went out, keeps to the rate, and gives up a client that takes next to nothing.
    fn account(&mut self, sent: usize, begun: Instant, counter: &AtomicU64) -> io::Result<()> {
        if self.shared.stop.is_ended() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Tally::add(counter, sent as u64);
        if self.stream.is_by_kernel() {
            Tally::add(&self.shared.tally.encrypted_by_kernel, sent as u64);
        }
        let look_up = || self.shared.flow.sockets.route_of(self.stream.socket);
        self.route.get_or_insert_with(look_up).add(sent);
        self.shared.flow.sent.add_moved(sent as u64);
        self.patience.took(sent as u64, clock::since(begun));
        if self.patience.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let Some(rate) = self.shared.rate.as_ref().filter(|_| sent > 0) {
            let rest = |time| self.shared.stop.wait(time);
            self.shared.flow.sent.paced(|| rate.pay(sent as u64, rest));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
