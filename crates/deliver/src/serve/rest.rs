//! What is left of an answer, while its client takes it slowly: no thread, no block, no descriptor but the socket's.

use super::Shared;
use super::answer::FilePart;
use super::body::{BodySender, FileBody, Sent};
use super::lists::ListBody;
use super::reply::Reply;
use super::served_stream::{ServedStream, send_all};
use super::tally::{AccessLine, Tally};
use super::work::{LaterRequest, Turn, Work};
use crate::patience::Patience;
use linerate_system::clock;
use linerate_system::readiness::{Interest, is_waiting};
use linerate_system::socket::tcp_info;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes per second that a client takes at least of which a thread waits: a call's in the time that it is given.
const LEAST_FAST_RATE: f64 = 10e6;

/// What comes next on a connection.
pub(super) enum Next {
    Request,
    /// This is left, and goes on after that.
    Rest(Box<Rest>, Turn),
    /// Threads of another work answer it.
    Later(Box<LaterRequest>),
    Leave,
    /// There is nobody any more to say goodbye to.
    Lost,
}

/// The reply and the part of a file that are still to be sent.
pub(super) struct Rest {
    reply: UnsentReply,
    part: Option<FilePart>,
    /// The connection serves on afterwards.
    keeps: bool,
    patience: Patience,
    wait: Option<ClientWait>,
    /// Written when this ends.
    line: Option<AccessLine>,
}

/// A head and what follows it that is not a file.
struct UnsentReply {
    /// With a body of its own.
    head: Vec<u8>,
    /// Bytes of its body that are not counted yet.
    body: u64,
    list: Option<Arc<ListBody>>,
    sent: usize,
}

/// A wait for the client.
#[derive(Clone, Copy)]
struct ClientWait {
    since: Instant,
    /// Bytes that it had acknowledged then.
    acknowledged: u64,
}

impl UnsentReply {
    fn new(reply: Reply, keeps: bool, with_body: bool) -> Self {
        let mut head = reply.head(keeps);
        if with_body {
            head.extend_from_slice(&reply.body);
        }
        let list = reply.list.filter(|_| with_body);
        let listed = list.as_ref().map_or(0, |list| list.bytes.len());
        let body = (listed + if with_body { reply.body.len() } else { 0 }) as u64;
        UnsentReply { head, body, list, sent: 0 }
    }

    /// Once.
    fn take_body(&mut self) -> u64 {
        std::mem::take(&mut self.body)
    }

    /// What comes next of it, and whether more of it follows.
    fn next(&self) -> (&[u8], bool) {
        let list = self.list.as_ref().map_or(&[][..], |list| &list.bytes);
        match self.head.get(self.sent..).filter(|head| !head.is_empty()) {
            Some(head) => (head, !list.is_empty()),
            None => (&list[self.sent - self.head.len()..], false),
        }
    }
}

impl Rest {
    /// All of it.
    pub(super) fn new(reply: Reply, part: Option<FilePart>, keeps: bool, with_body: bool) -> Box<Self> {
        let part = part.filter(|part| part.length > 0);
        let reply = UnsentReply::new(reply, keeps, with_body);
        Box::new(Rest { reply, part, keeps, patience: Patience::default(), wait: None, line: None })
    }

    /// With its line of the access log, which counts the body.
    pub(super) fn logged(mut self: Box<Self>, line: Option<AccessLine>) -> Box<Self> {
        self.line = line;
        self
    }

    fn count(&mut self, bytes: u64) {
        self.line.iter_mut().for_each(|line| line.bytes += bytes);
    }

    /// When a client that took too little is given up, or was seen to take it.
    pub(super) fn deadline(&self) -> Instant {
        let since = self.wait.map_or_else(clock::now, |wait| wait.since);
        since + self.patience.left()
    }

    /// Sends as much as goes now.
    pub(super) fn send(
        mut self: Box<Self>,
        sender: &mut BodySender<'_>,
        stream: &ServedStream<'_>,
        shared: &Shared<'_>,
    ) -> Next {
        match self.send_reply(sender, stream, shared) {
            Ok(true) => {
                let body = self.reply.take_body();
                self.count(body);
            }
            Ok(false) => return self.waits(stream, shared),
            Err(error) => return cut_short(&error, stream),
        }
        let turn = match self.send_part(sender, shared) {
            Ok(None) if self.keeps => return Next::Request,
            Ok(None) => return Next::Leave,
            Ok(Some(turn)) => turn,
            Err(error) => return cut_short(&error, stream),
        };
        match turn {
            Turn::Waits(_) => self.waits(stream, shared),
            turn => Next::Rest(self, turn),
        }
    }

    /// Whether all of it went out.
    fn send_reply(
        &mut self,
        sender: &mut BodySender<'_>,
        stream: &ServedStream<'_>,
        shared: &Shared<'_>,
    ) -> io::Result<bool> {
        loop {
            let (bytes, more) = self.reply.next();
            if bytes.is_empty() {
                return Ok(true);
            }
            let more = more || self.part.is_some();
            let sent = match stream.encrypts_here() {
                true => send_all(stream, bytes, more, shared).map(|()| bytes.len()),
                false => stream.send(bytes, more),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.reply.sent += sent,
                Err(error) if is_waiting(&error) && !stream.encrypts_here() => {
                    sender.socket_is_full()?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What there is to be waited for before it goes on; none: all of it went out.
    fn send_part(&mut self, sender: &mut BodySender<'_>, shared: &Shared<'_>) -> io::Result<Option<Turn>> {
        let Some(part) = &mut self.part else { return sender.all_is_sent().map(|()| None) };
        let label = part.names.last().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
        let body = FileBody {
            opened: &part.opened,
            label: &label,
            offset: part.offset,
            length: part.length,
            block_bytes: part.block_bytes,
        };
        let sent = shared.flow.sends(|| sender.send(&body, &mut self.patience))?;
        let (bytes, turn) = match sent {
            Sent::Whole => {
                let bytes = part.length;
                self.count(bytes);
                return Ok(None);
            }
            Sent::UntilFull { bytes } => (bytes, Turn::Waits(Interest::Write)),
            Sent::UntilOthersWait { bytes } => (bytes, Turn::GoesTo(Work::Move)),
        };
        part.offset += bytes;
        part.length -= bytes;
        if matches!(turn, Turn::Waits(_)) {
            // One descriptor for all who wait for the same file.
            part.opened.share(&shared.files);
        }
        self.count(bytes);
        Ok(Some(turn))
    }

    /// Until its client takes something.
    fn waits(mut self: Box<Self>, stream: &ServedStream<'_>, shared: &Shared<'_>) -> Next {
        let acknowledged = tcp_info(stream.socket).map_or(0, |tcp| tcp.acknowledged_bytes);
        self.wait = Some(ClientWait { since: clock::now(), acknowledged });
        if self.part.is_some() {
            shared.flow.at_work.fetch_add(1, Ordering::Relaxed);
        }
        Next::Rest(self, Turn::Waits(Interest::Write))
    }

    /// The client has taken something, or its time is over.
    pub(super) fn go_on(
        mut self: Box<Self>,
        sender: &mut BodySender<'_>,
        stream: &ServedStream<'_>,
        shared: &Shared<'_>,
    ) -> Next {
        let Some(wait) = self.end_wait(shared) else { return self.send(sender, stream, shared) };
        let acknowledged = tcp_info(stream.socket).map_or(0, |tcp| tcp.acknowledged_bytes);
        let (taken, time) = (acknowledged.saturating_sub(wait.acknowledged), clock::since(wait.since));
        self.patience.took(taken, time);
        let resumed = match self.patience.is_over() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => sender.resume(taken as f64 >= LEAST_FAST_RATE * time.as_secs_f64()),
        };
        match resumed {
            Ok(()) => self.send(sender, stream, shared),
            Err(error) => {
                self.cut_short(shared);
                cut_short(&error, stream)
            }
        }
    }

    /// The server ends before it was sent.
    pub(super) fn cut_short(mut self: Box<Self>, shared: &Shared<'_>) {
        self.end_wait(shared);
        if self.part.is_some() {
            Tally::add(&shared.tally.cut_short, 1);
        }
    }

    /// The time was the client's.
    fn end_wait(&mut self, shared: &Shared<'_>) -> Option<ClientWait> {
        let wait = self.wait.take()?;
        if self.part.is_some() {
            shared.flow.at_work.fetch_sub(1, Ordering::Relaxed);
            shared.flow.sent.waited_for_client(clock::since(wait.since));
        }
        Some(wait)
    }
}

fn cut_short(error: &io::Error, stream: &ServedStream<'_>) -> Next {
    tracing::debug!(%error, "an answer was cut short");
    // Whoever waits for the rest learns at once that it does not come.
    let _ = stream.socket.shutdown(Shutdown::Both);
    Next::Lost
}
