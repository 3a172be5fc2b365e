//! Sockets bound to an address and an interface of this host before they connect, and connected in time.

use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::readiness::begin_connect;
use linerate_system::stop::Stop;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

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
