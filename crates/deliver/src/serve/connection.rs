//! One connection: requests one after another, each within its time. While it waits for its client it has no thread.

use super::Shared;
use super::answer::{answer, refused};
use super::body::{BodySender, is_waiting};
use super::reply::Reply;
use super::rest::{Next, Rest};
use super::served_stream::ServedStream;
use super::take::{BodyReader, HeldFile, take};
use super::tally::Tally;
use crate::http::head::{HeadError, MOST_HEAD_BYTES, RequestHead, parse_request};
use linerate_measure::measure::TcpFigures;
use linerate_system::readiness::{Interest, wait_readable};
use linerate_transport::admission::{Permit, prepare_control};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a call sleeps before it looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// A head has to be whole this long after its first byte.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The next request of a client is mostly here within this; what comes later is waited for without a thread.
const LINGER: Duration = Duration::from_millis(2);
/// A connection that asks for nothing is closed after this.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// A reply that is no file has to be taken within this.
const REPLY_TIME: Duration = Duration::from_secs(30);
/// What a client still sends is thrown away for so long, so that it gets to read why it was refused.
const FAREWELL: Duration = Duration::from_millis(200);
/// A client that takes nothing at all any more, not even a probe of its window, is gone.
const GONE: Duration = Duration::from_secs(60);

/// Why there is no request.
enum NoRequest {
    /// The client is done, or has been idle too long, or the server ends.
    Over,
    /// It has not come yet.
    Later,
    Refused(Reply),
}

/// What becomes of a connection after a turn on a thread.
pub(super) enum Turn {
    Over,
    /// It has nothing to do before its client does something.
    Waits(Interest),
    /// Others wait for a thread.
    Yields,
}

/// A client: on a thread while there is something to do, else it costs its descriptor and this.
pub(super) struct Connection<'s> {
    socket: TcpStream,
    shared: &'s Shared<'s>,
    _permit: Permit,
    /// What came and was not looked at yet.
    buffer: Vec<u8>,
    /// When the wait for a request, or for the rest of its head, began.
    since: Instant,
    /// What is left of an answer.
    rest: Option<Rest>,
    /// Its records are encrypted and decrypted by the kernel.
    by_kernel: bool,
}

impl<'s> Connection<'s> {
    /// None where its socket is of no use.
    pub(super) fn new(socket: TcpStream, permit: Permit, shared: &'s Shared<'s>) -> Option<Self> {
        let prepared = prepare_control(&socket).and_then(|()| {
            socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(GONE))?;
            socket.set_read_timeout(Some(LOOK))?;
            socket.set_write_timeout(Some(LOOK))
        });
        let (buffer, since) = (Vec::new(), Instant::now());
        prepared.ok().map(|()| Connection {
            socket,
            shared,
            _permit: permit,
            buffer,
            since,
            rest: None,
            by_kernel: false,
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// When it has to be looked at though its client does nothing.
    pub(super) fn deadline(&self) -> Instant {
        match &self.rest {
            Some(rest) => rest.deadline(),
            None if self.buffer.is_empty() => self.since + IDLE_TIME,
            None => self.since + HEAD_TIME,
        }
    }

    /// Does what there is to do. Encrypted here it goes on until the client leaves, is given up, or the server ends.
    pub(super) fn turn(&mut self) -> Turn {
        let shared = self.shared;
        let Some(stream) = stream_of(&self.socket, &mut self.by_kernel, shared) else { return Turn::Over };
        let _held = stream.encrypts_here().then(|| shared.threads.hold());
        let mut sender = BodySender::new(&stream, shared);
        let mut next = match self.rest.take() {
            Some(rest) => rest.go_on(&mut sender, &stream, shared),
            None => Next::Request,
        };
        let mut held = None;
        loop {
            match next {
                Next::Request => {}
                Next::Rest(rest, turn) => {
                    self.rest = Some(rest);
                    return turn;
                }
                Next::Leave => break,
                Next::Lost => return Turn::Over,
            }
            let waits = !stream.encrypts_here() && held.is_none();
            // A client that may still give a file its name keeps its thread: it is one more.
            let _waiting = held.is_some().then(|| shared.threads.hold());
            let request = match next_request(&stream, (&mut self.buffer, &mut self.since), waits, shared) {
                Ok(request) => request,
                Err(NoRequest::Later) => {
                    self.buffer.shrink_to_fit();
                    return Turn::Waits(Interest::Read);
                }
                Err(NoRequest::Over) => break,
                Err(NoRequest::Refused(reply)) => {
                    count(&reply, shared);
                    let _ = send_reply(&stream, &reply, false, true, false, shared);
                    break;
                }
            };
            next = answered(&request, &stream, &mut self.buffer, &mut held, &mut sender, shared);
            self.since = Instant::now();
        }
        take_leave(&stream);
        Turn::Over
    }
}

/// Its bytes, once there is TLS where there is to be; none where that does not begin.
fn stream_of<'a>(
    socket: &'a TcpStream,
    by_kernel: &mut bool,
    shared: &'a Shared<'_>,
) -> Option<ServedStream<'a>> {
    let Some(tls) = shared.tls.filter(|_| !*by_kernel) else {
        return Some(ServedStream::plain(socket, *by_kernel));
    };
    // The handshake is the client's to go on with: its thread is one more.
    let _held = shared.threads.hold();
    let since = Instant::now();
    let goes_on = || since.elapsed() < HEAD_TIME && !shared.stop.load(Ordering::Relaxed);
    let stream = ServedStream::secure(socket, tls, &shared.kernel_tls, goes_on)?;
    *by_kernel = stream.is_by_kernel();
    Some(stream)
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            rest.cut_short(self.shared);
        }
        self.shared.flow.sockets.ends(&self.socket);
        // What TCP counted of it.
        self.shared.flow.sent.add_tcp(&self.socket, &mut TcpFigures::default());
    }
}

/// Answers one request, as far as that goes at once.
fn answered(
    request: &RequestHead,
    stream: &ServedStream<'_>,
    buffer: &mut Vec<u8>,
    held: &mut Option<HeldFile>,
    sender: &mut BodySender<'_>,
    shared: &Shared<'_>,
) -> Next {
    let (reply, part) = match request.method == "PUT" && shared.writable {
        false => answer(request, shared),
        true => {
            let _held = shared.threads.hold();
            match shared.flow.takes(|| taken(request, (stream, buffer), held, shared)) {
                Ok(reply) => (reply, None),
                // The client left in the middle of its file.
                Err(error) => {
                    tracing::debug!(%error, "a file did not come");
                    Tally::add(&shared.tally.cut_short, 1);
                    return Next::Lost;
                }
            }
        }
    };
    count(&reply, shared);
    let is_last = reply.closes || stream.keys_are_used_up() || shared.stop.load(Ordering::Relaxed);
    let keeps = request.keeps_alive() && !is_last;
    tracing::debug!(method = request.method, target = request.target, status = reply.status, "answered");
    let with_body = request.method != "HEAD";
    let more = part.as_ref().is_some_and(|part| part.length > 0);
    if send_reply(stream, &reply, keeps, with_body, more, shared).is_err() {
        return Next::Leave;
    }
    match part {
        Some(part) => Rest::new(part, keeps).send(sender, stream, shared),
        None if keeps => Next::Request,
        None => Next::Leave,
    }
}

fn taken(
    request: &RequestHead,
    (stream, buffer): (&ServedStream<'_>, &mut Vec<u8>),
    held: &mut Option<HeldFile>,
    shared: &Shared<'_>,
) -> io::Result<Reply> {
    match refused(request, shared) {
        // What follows its head is not read.
        Some(reply) if request.has_body() => Ok(reply.closing()),
        Some(reply) => Ok(reply),
        None => take(request, &mut BodyReader { stream, buffer }, held, shared),
    }
}

/// The client may send its body.
pub(super) fn send_interim(stream: &ServedStream<'_>, shared: &Shared<'_>) -> io::Result<()> {
    send_all(stream, b"HTTP/1.1 100 Continue\r\n\r\n", false, shared)
}

fn count(reply: &Reply, shared: &Shared<'_>) {
    Tally::add(&shared.tally.requests, 1);
    if reply.status >= 400 {
        Tally::add(&shared.tally.failed, 1);
    }
}

/// The next head; what comes after it stays in `buffer`. `waits`: what does not come at once is waited for elsewhere.
fn next_request(
    stream: &ServedStream<'_>,
    (buffer, since): (&mut Vec<u8>, &mut Instant),
    waits: bool,
    shared: &Shared<'_>,
) -> Result<RequestHead, NoRequest> {
    let mut chunk = [0; 4096];
    loop {
        // Empty lines before a request are nothing (RFC 9112 section 2.2); httparse skips them.
        match parse_request(buffer) {
            Ok(Some((head, length))) => {
                buffer.drain(..length);
                return Ok(head);
            }
            Err(error) => return Err(NoRequest::Refused(of_head_error(error))),
            Ok(None) => {}
        }
        if shared.stop.load(Ordering::Relaxed) {
            return Err(NoRequest::Over);
        }
        if !buffer.is_empty() && since.elapsed() > HEAD_TIME {
            let reply = Reply::refused(408, "The request did not come to its end in time.").closing();
            return Err(NoRequest::Refused(reply));
        }
        let is_here = || wait_readable(&[stream.socket.as_fd()], LINGER).is_ok_and(|ready| ready == [true]);
        // It may be here for long already, and have waited for a thread.
        let is_idle = buffer.is_empty() && since.elapsed() > IDLE_TIME;
        if (waits || is_idle) && !is_here() {
            return Err(if is_idle { NoRequest::Over } else { NoRequest::Later });
        }
        let room = (MOST_HEAD_BYTES + 1 - buffer.len().min(MOST_HEAD_BYTES)).min(chunk.len());
        match stream.read(&mut chunk[..room]) {
            Ok(0) => return Err(NoRequest::Over),
            Ok(read) => {
                if buffer.is_empty() {
                    *since = Instant::now();
                }
                buffer.extend_from_slice(&chunk[..read]);
            }
            Err(error) if is_waiting(&error) => {}
            Err(_) => return Err(NoRequest::Over),
        }
    }
}

fn of_head_error(error: HeadError) -> Reply {
    let status = match error {
        HeadError::TooLong | HeadError::TooManyHeaders => 431,
        HeadError::TargetTooLong => 414,
        HeadError::Version => 505,
        HeadError::Malformed(_) | HeadError::Contradicts(_) | HeadError::NoNumber(_) => 400,
    };
    Reply::refused(status, &format!("The request: {error}.")).closing()
}

fn send_reply(
    stream: &ServedStream<'_>,
    reply: &Reply,
    keeps: bool,
    with_body: bool,
    more: bool,
    shared: &Shared<'_>,
) -> io::Result<()> {
    let mut bytes = reply.head(keeps);
    if with_body {
        bytes.extend_from_slice(&reply.body);
    }
    send_all(stream, &bytes, more, shared)
}

/// `more`: something follows at once.
fn send_all(stream: &ServedStream<'_>, bytes: &[u8], more: bool, shared: &Shared<'_>) -> io::Result<()> {
    let patience = Instant::now() + REPLY_TIME;
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.send(rest, more) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => rest = &rest[sent..],
            Err(error) if is_waiting(&error) => {
                if Instant::now() > patience || shared.stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    flush(stream, patience, shared)
}

/// What TLS has taken goes to the kernel.
pub(super) fn flush(stream: &ServedStream<'_>, patience: Instant, shared: &Shared<'_>) -> io::Result<()> {
    loop {
        match stream.flush() {
            Err(error)
                if is_waiting(&error)
                    && Instant::now() < patience
                    && !shared.stop.load(Ordering::Relaxed) => {}
            flushed => return flushed,
        }
    }
}

/// A client that is turned away; nobody waits for it.
pub(super) fn turn_away(mut stream: &TcpStream, is_secure: bool) {
    // Without a handshake there is no way to say why.
    if is_secure {
        return;
    }
    let reply =
        Reply::refused(503, "All connections of this server are taken.").line("Retry-After", 1).closing();
    let mut bytes = reply.head(false);
    bytes.extend_from_slice(&reply.body);
    if stream.set_nonblocking(true).is_ok() {
        // What it has sent already is taken, so that the end is no reset, which would take the reply away.
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// The client reads what was sent last; what it sends meanwhile is thrown away.
fn take_leave(stream: &ServedStream<'_>) {
    stream.end();
    let until = Instant::now() + FAREWELL;
    let mut waste = [0; 4096];
    while Instant::now() < until {
        match stream.read(&mut waste) {
            Ok(0) => break,
            Err(error) if !is_waiting(&error) => break,
            _ => {}
        }
    }
}
