//! One connection: requests one after another, each within its time. While it waits for its client it has no thread.

use super::Shared;
use super::answer::{Answer, Asking, answer, refused};
use super::body::BodySender;
use super::reply::Reply;
use super::rest::{Next, Rest};
use super::served_stream::{Security, ServedStream};
use super::take::{BodyReader, HeldFile, take};
use super::tally::{AccessLine, Tally};
use super::work::{LaterRequest, Turn, Work};
use crate::http::head::{HeadError, MOST_HEAD_BYTES, RequestHead, parse_request};
use linerate_measure::measure::TcpFigures;
use linerate_system::clock;
use linerate_system::readiness::{Interest, is_waiting, wait_readable};
use linerate_transport::admission::{PendingEntry, Permit, prepare_control};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A connection that keeps its thread looks this often at its client's time, and whether the server ends.
const LOOK: Duration = Duration::from_millis(100);
/// From the accept to the end of the handshake.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// A head has to be whole this long after its first byte.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The next request of a client is mostly here within this; what comes later is waited for without a thread.
const LINGER: Duration = Duration::from_millis(2);
/// A connection that asks for nothing is closed after this.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// What a client still sends is thrown away for so long, so that it gets to read why it was refused.
const FAREWELL: Duration = Duration::from_millis(200);
/// Of that, at a time.
const WASTE_BYTES: usize = 64 << 10;
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

/// By which right a connection is here. Under TLS it has no thread and no permit before its handshake is at its end, and the
/// first such goes where there are too many.
pub(super) enum Admission {
    /// Its handshake is not at its end.
    Pending(PendingEntry<u64>),
    Admitted(#[expect(dead_code, reason = "it is given back with the connection")] Permit),
}

impl Admission {
    /// It had to go before its handshake was at its end.
    pub(super) fn is_driven_out(&self) -> bool {
        matches!(self, Admission::Pending(entry) if !entry.is_there())
    }

    /// The same, or its time for that is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Admission::Pending(entry) if !entry.is_there() || entry.deadline <= clock::now())
    }

    /// Whether it may stay, now that its handshake is at its end.
    pub(super) fn is_admitted(&mut self, client: IpAddr, shared: &Shared<'_>) -> bool {
        if matches!(self, Admission::Admitted(_)) {
            return true;
        }
        match shared.permits.take(client) {
            Ok(permit) => {
                Tally::add(&shared.tally.connections, 1);
                *self = Admission::Admitted(permit);
                true
            }
            Err(_) => {
                Tally::add(&shared.tally.refused, 1);
                false
            }
        }
    }
}

/// A client: on a thread while there is something to do, else it costs its descriptor and this.
pub(super) struct Connection<'s> {
    socket: TcpStream,
    /// Under which epoll reports it.
    number: u64,
    client: IpAddr,
    shared: &'s Shared<'s>,
    admission: Admission,
    security: Security,
    /// What came and was not looked at yet.
    buffer: Vec<u8>,
    /// When the wait for a handshake, a request, or the rest of its head, began.
    since: Instant,
    /// What is left of an answer.
    rest: Option<Box<Rest>>,
    later: Option<Box<LaterRequest>>,
    /// All was said; what its client still sends is thrown away until then.
    leaves: Option<Instant>,
}

impl<'s> Connection<'s> {
    /// None where its socket is of no use.
    pub(super) fn new(
        socket: TcpStream,
        (number, client): (u64, IpAddr),
        admission: Admission,
        shared: &'s Shared<'s>,
    ) -> Option<Self> {
        let prepared = prepare_control(&socket).and_then(|()| {
            socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(GONE))?;
            socket.set_read_timeout(Some(LOOK))?;
            socket.set_write_timeout(Some(LOOK))
        });
        let security = if shared.tls.is_some() { Security::Silent } else { Security::Plain };
        prepared.ok().map(|()| Connection {
            socket,
            number,
            client,
            shared,
            admission,
            security,
            buffer: Vec::new(),
            since: clock::now(),
            rest: None,
            later: None,
            leaves: None,
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn client(&self) -> IpAddr {
        self.client
    }

    /// When it has to be looked at though its client does nothing.
    pub(super) fn deadline(&self) -> Instant {
        match (&self.rest, self.leaves, &self.admission) {
            (.., Admission::Pending(entry)) => entry.deadline,
            (_, Some(until), _) => until,
            (Some(rest), ..) => rest.deadline(),
            (None, ..) if self.buffer.is_empty() => self.since + IDLE_TIME,
            (None, ..) => self.since + HEAD_TIME,
        }
    }

    /// It had to go before its handshake was at its end.
    pub(super) fn is_driven_out(&self) -> bool {
        self.admission.is_driven_out()
    }

    /// Does what there is to do. Encrypted here it goes on until the client leaves, is given up, or the server ends.
    pub(super) fn turn(&mut self, work: Work) -> Turn {
        let shared = self.shared;
        if let Some(until) = self.leaves {
            return throw_away(&self.socket, until);
        }
        if self.admission.is_over() {
            return Turn::Over;
        }
        let stream = match self.security.stream(&self.socket, shared) {
            Ok(stream) => stream,
            Err(turn) => return turn,
        };
        let encrypts_here = stream.encrypts_here();
        let _held = encrypts_here.then(|| shared.threads.hold());
        let mut sender = BodySender::new(&stream, shared);
        let mut held = None;
        let goes_on = self.rest.is_some() || self.later.is_some();
        let mut next = match (self.rest.take(), self.later.take()) {
            (Some(rest), _) => rest.go_on(&mut sender, &stream, shared),
            (None, Some(later)) => {
                let asking = Asking { shared, socket: &self.socket, client: self.client, moves: false };
                let answered = answer(&later.request, later.permit, &asking);
                send_reply(&later.request, answered, &stream, &mut sender, &asking)
            }
            (None, None) => Next::Request,
        };
        if goes_on {
            // The wait for the next request begins with the end of this answer.
            self.since = clock::now();
        }
        if !self.admission.is_admitted(self.client, shared) {
            next = Rest::new(all_taken(), None, false, true).send(&mut sender, &stream, shared);
        }
        loop {
            match next {
                Next::Request if work != Work::Move => return Turn::GoesTo(Work::Move),
                Next::Request => {}
                Next::Rest(rest, turn) => {
                    self.rest = Some(rest);
                    return turn;
                }
                Next::Later(later) => {
                    let work = later.work;
                    self.later = Some(later);
                    return Turn::GoesTo(work);
                }
                Next::Leave => break,
                Next::Lost => return Turn::Over,
            }
            let waits = !encrypts_here && held.is_none();
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
                    count_reply(&reply, shared);
                    next = Rest::new(reply, None, false, true).send(&mut sender, &stream, shared);
                    continue;
                }
            };
            let asking = Asking { shared, socket: &self.socket, client: self.client, moves: waits };
            next = answer_request(request, &asking, &stream, &mut self.buffer, &mut held, &mut sender);
            self.since = clock::now();
        }
        stream.end();
        let until = clock::now() + FAREWELL;
        self.leaves = Some(until);
        if encrypts_here { throw_away_here(&stream, until) } else { throw_away(&self.socket, until) }
    }
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
fn answer_request(
    request: RequestHead,
    asking: &Asking<'_, '_>,
    stream: &ServedStream<'_>,
    buffer: &mut Vec<u8>,
    held: &mut Option<HeldFile>,
    sender: &mut BodySender<'_>,
) -> Next {
    let shared = asking.shared;
    if request.method != "PUT" || !shared.writable {
        return match answer(&request, None, asking) {
            Answer::Later(work, permit) => Next::Later(Box::new(LaterRequest { request, work, permit })),
            answered => send_reply(&request, answered, stream, sender, asking),
        };
    }
    let _held = shared.threads.hold();
    match shared.flow.takes(|| take_file(&request, (stream, buffer), held, shared)) {
        Ok(reply) => send_reply(&request, Answer::Reply(reply, None), stream, sender, asking),
        // The client left in the middle of its file.
        Err(error) => {
            tracing::debug!(%error, "a file did not come");
            Tally::add(&shared.tally.cut_short, 1);
            Next::Lost
        }
    }
}

fn send_reply(
    request: &RequestHead,
    answered: Answer,
    stream: &ServedStream<'_>,
    sender: &mut BodySender<'_>,
    asking: &Asking<'_, '_>,
) -> Next {
    let shared = asking.shared;
    let (reply, part) = match answered {
        Answer::Reply(reply, part) => (reply, part),
        // It is with the threads of its work already.
        Answer::Later(..) => return Next::Lost,
    };
    count_reply(&reply, shared);
    let is_last = reply.closes || stream.keys_are_used_up() || shared.stop.is_ended();
    let keeps = request.keeps_alive() && !is_last;
    tracing::debug!(method = request.method, target = request.target, status = reply.status, "answered");
    let log = shared.access_log.as_ref();
    let line = log.map(|log| AccessLine::new(log, asking.client, request, reply.status));
    Rest::new(reply, part, keeps, request.method != "HEAD").logged(line).send(sender, stream, shared)
}

fn take_file(
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

fn count_reply(reply: &Reply, shared: &Shared<'_>) {
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
        if shared.stop.is_ended() {
            return Err(NoRequest::Over);
        }
        if !buffer.is_empty() && clock::since(*since) > HEAD_TIME {
            let reply = Reply::refused(408, "The request did not come to its end in time.").closing();
            return Err(NoRequest::Refused(reply));
        }
        let is_here = || wait_readable(&[stream.socket.as_fd()], LINGER).is_ok_and(|ready| ready == [true]);
        // It may be here for long already, and have waited for a thread.
        let is_idle = buffer.is_empty() && clock::since(*since) > IDLE_TIME;
        if (waits || is_idle) && !is_here() {
            return Err(if is_idle { NoRequest::Over } else { NoRequest::Later });
        }
        let room = (MOST_HEAD_BYTES + 1 - buffer.len().min(MOST_HEAD_BYTES)).min(chunk.len());
        match stream.read(&mut chunk[..room]) {
            Ok(0) => return Err(NoRequest::Over),
            Ok(read) => {
                if buffer.is_empty() {
                    *since = clock::now();
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

fn all_taken() -> Reply {
    Reply::busy("All connections of this server are taken.").closing()
}

/// A client that is turned away; nobody waits for it.
pub(super) fn turn_away(mut stream: &TcpStream) {
    let reply = all_taken();
    let mut bytes = reply.head(false);
    bytes.extend_from_slice(&reply.body);
    if stream.set_nonblocking(true).is_ok() {
        // What it has sent already is taken, so that the end is not a reset, which would take the reply away.
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// The client reads what was sent last; what it sends meanwhile is thrown away, without a thread that waits for it.
fn throw_away(mut socket: &TcpStream, until: Instant) -> Turn {
    let (mut waste, mut left) = ([0; 4096], WASTE_BYTES);
    if socket.set_nonblocking(true).is_err() {
        return Turn::Over;
    }
    while clock::now() < until {
        match socket.read(&mut waste) {
            Ok(0) => return Turn::Over,
            Ok(read) if read < left => left -= read,
            Ok(_) => return Turn::Waits(Interest::Read),
            Err(error) if is_waiting(&error) => return Turn::Waits(Interest::Read),
            Err(_) => return Turn::Over,
        }
    }
    Turn::Over
}

/// The same by the thread of a connection that is encrypted here.
fn throw_away_here(stream: &ServedStream<'_>, until: Instant) -> Turn {
    let mut waste = [0; 4096];
    while clock::now() < until {
        match stream.read(&mut waste) {
            Ok(0) => break,
            Err(error) if !is_waiting(&error) => break,
            _ => {}
        }
    }
    Turn::Over
}
