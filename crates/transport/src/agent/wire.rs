//! The outermost layer: sockets bound to an address and an interface of this host, connected in time; how a
//! connection opens; reads and writes that end at a deadline, however slowly the bytes drip.

use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::readiness::begin_connect;
use linerate_system::stop::Stop;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// First bytes of a control connection; the digit is the version of the framing.
pub const CONTROL_MAGIC: [u8; 4] = *b"LRc1";

/// First bytes of a data connection; a token of 32 bytes follows.
pub const DATA_MAGIC: [u8; 4] = *b"LRd1";

/// What the agent answers to a data connection that it admitted (ASCII ACK).
pub(crate) const ADMITTED: u8 = 0x06;

/// A stream whose reads and writes together end at a deadline.
///
/// A timeout of the socket alone starts again with each byte, so that one byte a second would hold a thread
/// for ever.
pub struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineStream<'a> {
    /// Everything through this value ends within `time`.
    pub fn new(stream: &'a TcpStream, time: Duration) -> Self {
        DeadlineStream::until(stream, clock::now() + time)
    }

    /// Everything through this value ends at `deadline`.
    pub fn until(stream: &'a TcpStream, deadline: Instant) -> Self {
        DeadlineStream { stream, deadline }
    }

    fn remaining(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(clock::now());
        // The kernel takes microseconds, and 0 means "for ever".
        if left < Duration::from_micros(1) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer).map_err(timed_out)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(buffer).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a connection shall leave this host: an address of its own, an interface; none: as the routes say.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalBinding<'a> {
    pub local: Option<SocketAddr>,
    /// Name of the interface (SO_BINDTODEVICE).
    pub device: Option<&'a str>,
}

/// A socket towards `peer`, bound. `prepare` sets its options before that.
pub(crate) fn bound(
    peer: SocketAddr,
    kind: Type,
    way: LocalBinding<'_>,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<Socket, Failure> {
    let lacks = |what: String| Failure::Lacks(format!("no socket for a connection to {peer}: {what}"));
    let socket = Socket::new(Domain::for_address(peer), kind, None)
        .map_err(|error| lacks(format!("{error}; too many open files? Raise `ulimit -n`")))?;
    prepare(&socket).map_err(|error| lacks(error.to_string()))?;
    if let Some(device) = way.device {
        socket.bind_device(Some(device.as_bytes())).map_err(|error| {
            lacks(match error.kind() {
                ErrorKind::PermissionDenied => {
                    format!("to bind it to the interface {device} needs CAP_NET_RAW: run as root")
                }
                _ => format!(
                    "it cannot be bound to the interface {device}: {error}; `ip link` shows those \
                              that are there"
                ),
            })
        })?;
    }
    if let Some(local) = way.local {
        socket.bind(&local.into()).map_err(|error| {
            lacks(match error.kind() {
                ErrorKind::AddrNotAvailable => {
                    format!(
                        "no interface of this host has the address {}: `ip address` shows them",
                        local.ip()
                    )
                }
                _ => format!("it cannot be bound to {local}: {error}"),
            })
        })?;
    }
    Ok(socket)
}

/// Connects within `patience`, or until `stop` (`Interrupted`).
pub(crate) fn connect_within(
    socket: Socket,
    address: SocketAddr,
    patience: Duration,
    stop: &Stop,
) -> io::Result<TcpStream> {
    begin_connect(&socket, address)?;
    await_news(clock::now() + patience, stop, |left| stop.wait_writable(&socket, left))?;
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Polls until there is news; an error where there is none in time (`TimedOut`), or before `stop` (`Interrupted`).
pub(super) fn await_news(
    until: Instant,
    stop: &Stop,
    poll: impl Fn(Option<Duration>) -> io::Result<bool>,
) -> io::Result<()> {
    while !poll(Some(until.saturating_duration_since(clock::now())))? {
        if stop.is_ended() {
            return Err(io::Error::new(ErrorKind::Interrupted, "stopped"));
        }
        if clock::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dripping_bytes_do_not_move_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let dripper = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("a connection");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let (stream, _) = listener.accept().expect("a connection");
        let began = Instant::now();
        let mut buffer = [0; 1 << 20];
        let error = DeadlineStream::new(&stream, Duration::from_millis(300))
            .read_exact(&mut buffer)
            .expect_err("late");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(stream);
        dripper.join().expect("the dripper ends");
    }
}
