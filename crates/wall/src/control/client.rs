//! The other end of the control channel: a screen's, a joystick's, a script's.

use super::hub::{Greeting, MAGIC, PROTOCOL};
use super::{ControlMessage, ControlRequest, DEFAULT_PORT};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_transport::admission::prepare_control;
use linerate_transport::agent::{Broken, Channel, DeadlineStream, Key, initiate_as, no_connection};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Largest answer: the status of a wall of 4,096 tiles.
const ANSWER_BYTES: usize = 16 << 20;
/// A server that takes nothing for so long is gone.
const SEND: Duration = Duration::from_secs(10);
const CHUNK_BYTES: usize = 64 << 10;

/// A connection to a server. After any error it is of no use any more: connect again.
///
/// A connection that neither joined nor watches must say something every two minutes.
pub struct Client {
    server: SocketAddr,
    stream: TcpStream,
    channel: Channel,
    /// Answers that are still to come, in their order.
    awaited: VecDeque<Answer>,
    /// What came while an answer was waited for.
    kept: VecDeque<ControlMessage>,
}

/// What a request is answered by, beside [`Message::Refused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Movies,
    Status,
    Assignment,
    Sums,
}

impl Answer {
    fn to(request: &ControlRequest) -> Option<Answer> {
        Some(match request {
            ControlRequest::Movies => Answer::Movies,
            ControlRequest::Status => Answer::Status,
            ControlRequest::Join { .. } => Answer::Assignment,
            ControlRequest::Sums { .. } => Answer::Sums,
            ControlRequest::Report(_) | ControlRequest::Ready { .. } | ControlRequest::AllReady { .. } => {
                return None;
            }
            _ => Answer::Done,
        })
    }

    fn is(self, message: &ControlMessage) -> bool {
        match message {
            ControlMessage::Done => self == Answer::Done,
            ControlMessage::Movies { .. } => self == Answer::Movies,
            ControlMessage::Status(_) => self == Answer::Status,
            ControlMessage::Assignment(_) => self == Answer::Assignment,
            ControlMessage::Sums { .. } => self == Answer::Sums,
            ControlMessage::Refused { .. } => true,
            ControlMessage::Timeline(_) | ControlMessage::Lead(_) | ControlMessage::Show { .. } => false,
        }
    }
}

/// To wait for messages beside other things, once [`Client::next`] has no more that are here.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Client {
    /// Connects to `HOST`, `HOST:PORT`, `[V6]:PORT` or `V6` (port 7412 where none is given) and shows the
    /// key.
    pub fn connect(server: &str, key: &Key, timeout: Duration) -> Result<Client, Failure> {
        let server = linerate_transport::address::resolve_named("--server", server, DEFAULT_PORT)?;
        let deadline = clock::now() + timeout;
        let stream = TcpStream::connect_timeout(&server, timeout.max(Duration::from_millis(1)))
            .map_err(|error| unreachable(server, &error, timeout))?;
        let refused = |broken: &Broken| refused(server, broken, timeout);
        prepare_control(&stream).map_err(|error| refused(&error.into()))?;
        let mut wire = DeadlineStream::until(&stream, deadline);
        let channel = initiate_as(&MAGIC, &mut wire, key).map_err(|broken| refused(&broken))?;
        let mut client = Client {
            server,
            stream: stream.try_clone().map_err(|error| refused(&error.into()))?,
            channel,
            awaited: VecDeque::new(),
            kept: VecDeque::new(),
        };
        let sealed = client.channel.sender.encrypt(&Greeting::ours().text());
        sealed.and_then(|sealed| Ok(wire.write_all(&sealed)?)).map_err(|broken| refused(&broken))?;
        let text = client.text_until(deadline).and_then(|text| text.ok_or(Broken::Late));
        let text = text.map_err(|broken| refused(&broken))?;
        match serde_json::from_slice::<Greeting>(&text) {
            Ok(greeting) if greeting.protocol == PROTOCOL => Ok(client),
            Ok(greeting) => Err(Failure::Lacks(format!(
                "the server at {server} runs linerate {} (wall protocol {}), this is linerate {} (wall \
                 protocol {PROTOCOL}); install \
                 the same version on both hosts",
                greeting.linerate.chars().filter(|c| c.is_ascii_graphic()).take(20).collect::<String>(),
                greeting.protocol,
                env!("CARGO_PKG_VERSION")
            ))),
            Err(_) => Err(refused(&Broken::Foreign)),
        }
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Sends a request and does not wait for its answer, which `next` gives in its turn.
    pub fn send(&mut self, request: &ControlRequest) -> Result<(), Failure> {
        let text = serde_json::to_vec(request)
            .map_err(|error| Failure::Usage(format!("the request cannot be written as JSON: {error}")))?;
        let sealed = self.channel.sender.encrypt(&text).map_err(|broken| self.lost(&broken))?;
        if let Err(error) = DeadlineStream::new(&self.stream, SEND).write_all(&sealed) {
            return Err(self.last_words(&error.into()));
        }
        self.awaited.extend(Answer::to(request));
        Ok(())
    }

    /// The next message; none where none came within the time (zero: one that is already here).
    pub fn next(&mut self, timeout: Duration) -> Result<Option<ControlMessage>, Failure> {
        match self.kept.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.message_until(clock::now() + timeout).map(|found| found.map(|(message, _)| message)),
        }
    }

    /// Answers that are still to come.
    pub fn awaited(&self) -> usize {
        self.awaited.len()
    }

    /// Sends a request and waits for its answer; what comes in between (the timeline, `Show`, a watched
    /// status) is kept for `next`. [`Request::Ready`], [`Request::AllReady`] and [`Request::Report`] have no
    /// answer: `send` them. An answer that does not come in time is an error. [`Message::Refused`] is an
    /// answer.
    pub fn ask(&mut self, request: &ControlRequest, timeout: Duration) -> Result<ControlMessage, Failure> {
        if Answer::to(request).is_none() {
            return Err(Failure::Usage("this request has no answer: send it, and do not wait".into()));
        }
        self.send(request)?;
        let deadline = clock::now() + timeout;
        while let Some((message, answers)) = self.message_until(deadline)? {
            if answers && self.awaited.is_empty() {
                return Ok(message);
            }
            self.kept.push_back(message);
        }
        Err(self.lost(&Broken::Late))
    }

    /// A message, and whether it is the answer to the oldest request that waits for one.
    fn message_until(&mut self, deadline: Instant) -> Result<Option<(ControlMessage, bool)>, Failure> {
        let text = match self.text_until(deadline) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            Err(broken) => return Err(self.lost(&broken)),
        };
        let message: ControlMessage =
            serde_json::from_slice(&text).map_err(|error| self.lost(&Broken::Message(error)))?;
        let answers = self.awaited.front().is_some_and(|awaited| awaited.is(&message));
        if answers {
            self.awaited.pop_front();
        }
        Ok(Some((message, answers)))
    }

    fn text_until(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Broken> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            if let Some(text) = self.channel.receiver.pop(ANSWER_BYTES)? {
                return Ok(Some(text));
            }
            let read = match deadline <= clock::now() {
                true => self.read_now(&mut chunk),
                false => DeadlineStream::until(&self.stream, deadline).read(&mut chunk),
            };
            match read {
                Ok(0) => return Err(Broken::Closed),
                Ok(length) => self.channel.receiver.push(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read_now(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let read = self.stream.read(chunk);
        self.stream.set_nonblocking(false)?;
        read
    }

    /// The server may have said why it closed.
    fn last_words(&mut self, broken: &Broken) -> Failure {
        let deadline = clock::now() + Duration::from_millis(200);
        while let Ok(Some(text)) = self.text_until(deadline) {
            if let Ok(ControlMessage::Refused { why }) = serde_json::from_slice(&text) {
                return Failure::Lacks(format!("the server at {} says: {why}", self.server));
            }
        }
        self.lost(broken)
    }

    fn lost(&self, broken: &Broken) -> Failure {
        let server = self.server;
        Failure::Lacks(match broken {
            Broken::Closed => format!("the server at {server} closed the connection: was it stopped?"),
            Broken::Late => {
                format!(
                    "the server at {server} does not answer: is the host down, the cable out or the CPU \
                     overloaded?"
                )
            }
            other => format!("the connection to the server at {server} is lost: {other}"),
        })
    }
}

fn unreachable(server: SocketAddr, error: &io::Error, timeout: Duration) -> Failure {
    let cause = no_connection(server.port(), error, timeout);
    Failure::Lacks(format!("no server of a wall at {server}: {cause}; start `linerate wall serve` there"))
}

fn refused(server: SocketAddr, broken: &Broken, timeout: Duration) -> Failure {
    Failure::Lacks(match broken {
        Broken::Closed => format!(
            "the server at {server} refused the connection: it has another key (give the one that `linerate \
             wall serve` uses, with \
             --key-file FILE or LINERATE_KEY), or too many connections"
        ),
        Broken::OtherVersion(digit) => format!(
            "the server at {server} speaks version {digit} of the control channel, this linerate {} speaks \
             version {}; install the \
             same version on both hosts",
            env!("CARGO_PKG_VERSION"),
            char::from(MAGIC[3])
        ),
        Broken::Late => format!(
            "{server} took the connection but did not answer within {:.1} s: is it the control port of \
             `linerate wall serve`, and not \
             another service?",
            timeout.as_secs_f64()
        ),
        Broken::Foreign => format!(
            "what answers at {server} is not a server of a wall; start `linerate wall serve` there, or name its \
             port with --server HOST:PORT"
        ),
        other => format!("the server at {server} cannot be talked to: {other}"),
    })
}
