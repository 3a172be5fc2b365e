//! A network of one server without sockets, for one thread with a simulated clock: what a client writes the server has
//! within the call, and the time of a wait passes at once. So everything comes in an order that a seed gives.

use crate::http::head::{RequestHead, parse_request};
use linerate_system::clock;
use socket2::{Domain, Socket, Type};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Cursor, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What comes back over a connection.
pub(crate) enum Sent {
    Bytes(Cursor<Vec<u8>>),
    Wait(Duration),
    /// These bytes, again and again.
    Endless(&'static [u8]),
    End,
    Reset,
}

impl From<Vec<u8>> for Sent {
    fn from(bytes: Vec<u8>) -> Self {
        Sent::Bytes(Cursor::new(bytes))
    }
}

/// What waits for a client.
pub(crate) type Answers = VecDeque<Sent>;

/// The server's end of one connection.
pub(crate) trait FarEnd {
    /// The client sent this; what is left of it comes again, with what follows.
    fn came(&mut self, bytes: &mut Vec<u8>, answers: &mut Answers);
}

/// A server that answers requests without a body.
pub(crate) struct Answering<F>(pub(crate) F);

impl<F: FnMut(&RequestHead, &mut Answers)> FarEnd for Answering<F> {
    fn came(&mut self, bytes: &mut Vec<u8>, answers: &mut Answers) {
        while let Ok(Some((head, length))) = parse_request(bytes) {
            bytes.drain(..length);
            (self.0)(&head, answers);
        }
    }
}

/// Takes a connection, or refuses it.
type Accept<'a> = Box<dyn FnMut() -> Option<Box<dyn FarEnd>> + 'a>;

struct Network {
    accept: Accept<'static>,
    /// By the descriptors that stand for them here.
    connections: HashMap<i32, Connection>,
}

struct Connection {
    far_end: Box<dyn FarEnd>,
    sent: Vec<u8>,
    answers: Answers,
}

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// Works with the clients of this thread in a network with this server.
pub(crate) fn with<T>(
    accept: impl FnMut() -> Option<Box<dyn FarEnd>> + 'static,
    work: impl FnOnce() -> T,
) -> T {
    NETWORK.set(Some(Network { accept: Box::new(accept), connections: HashMap::new() }));
    let done = work();
    NETWORK.set(None);
    done
}

/// A connection to the server; none: this thread is in no such network.
pub(crate) fn connected() -> Option<io::Result<TcpStream>> {
    NETWORK.with_borrow_mut(|network| {
        let network = network.as_mut()?;
        let Some(far_end) = (network.accept)() else {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a descriptor");
        let connection = Connection { far_end, sent: Vec::new(), answers: VecDeque::new() };
        network.connections.insert(socket.as_raw_fd(), connection);
        Some(Ok(socket.into()))
    })
}

/// It is one of them.
pub(crate) fn has(socket: &TcpStream) -> bool {
    of(socket, |_| ()).is_some()
}

fn of<T>(socket: &TcpStream, work: impl FnOnce(&mut Connection) -> T) -> Option<T> {
    let number = socket.as_raw_fd();
    NETWORK.with_borrow_mut(|network| Some(work(network.as_mut()?.connections.get_mut(&number)?)))
}

pub(crate) fn write(socket: &TcpStream, bytes: &[u8]) -> Option<io::Result<usize>> {
    of(socket, |connection| {
        if connection.answers.iter().any(|sent| matches!(sent, Sent::Reset)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        connection.sent.extend_from_slice(bytes);
        connection.far_end.came(&mut connection.sent, &mut connection.answers);
        Ok(bytes.len())
    })
}

/// What comes within this time.
pub(crate) fn read(socket: &TcpStream, into: &mut [u8], time: Duration) -> Option<io::Result<usize>> {
    of(socket, |Connection { answers, .. }| {
        let mut left = time;
        loop {
            let waited = match answers.front_mut() {
                Some(Sent::Bytes(bytes)) => match bytes.read(into)? {
                    0 => Duration::ZERO,
                    read => return Ok(read),
                },
                Some(Sent::Endless(bytes)) => {
                    into.iter_mut().zip(bytes.iter().cycle()).for_each(|(to, byte)| *to = *byte);
                    return Ok(into.len() / bytes.len() * bytes.len());
                }
                Some(Sent::End) => return Ok(0),
                Some(Sent::Reset) => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(Sent::Wait(wait)) if *wait <= left => *wait,
                waits => {
                    if let Some(Sent::Wait(wait)) = waits {
                        *wait -= left;
                    }
                    clock::sleep(left);
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            };
            clock::sleep(waited);
            left -= waited;
            answers.pop_front();
        }
    })
}

/// The client is gone.
pub(crate) fn closed(socket: &TcpStream) {
    NETWORK.with_borrow_mut(|network| {
        network.as_mut().map(|network| network.connections.remove(&socket.as_raw_fd()))
    });
}
