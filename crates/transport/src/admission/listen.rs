//! Opening the ports, in one sentence why that cannot be, and what every control connection is set to.

use linerate_facts::failure::Failure;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;
/// Without descriptors nothing can be accepted: a moment later there may be one.
pub(crate) const NO_DESCRIPTOR: Duration = Duration::from_millis(10);

/// A port that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("port {} is in use on {}", .0.port(), .0.ip())]
    InUse(SocketAddr),
    #[error("no interface of this host has the address {0}")]
    NoSuchAddress(IpAddr),
    #[error("port {0} needs root (it is below 1024)")]
    Privileged(u16),
    #[error("cannot listen on {address}: {error}")]
    Refused { address: SocketAddr, error: io::Error },
}

impl ListenError {
    fn new(address: SocketAddr, error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::AddrInUse => ListenError::InUse(address),
            ErrorKind::AddrNotAvailable => ListenError::NoSuchAddress(address.ip()),
            ErrorKind::PermissionDenied => ListenError::Privileged(address.port()),
            _ => ListenError::Refused { address, error },
        }
    }

    /// With the remedy: `option` names the address; `in_use` says who may have the port, and what to do then.
    pub fn advise(&self, option: &str, in_use: &str) -> Failure {
        Failure::Lacks(match self {
            ListenError::InUse(_) => format!("{self}: {in_use}"),
            ListenError::NoSuchAddress(_) => format!("{self}: give {option} one that `ip address` shows"),
            ListenError::Privileged(_) => format!("{self}: choose a higher one with {option} ADDRESS:PORT"),
            ListenError::Refused { .. } => format!("{self}; choose another address with {option}"),
        })
    }
}

/// A listener for each address. None of them blocks: what was reported may have left before it is accepted.
///
/// A socket for every IPv6 address is one for every IPv4 address as well, unless the list names IPv4 addresses of the
/// same port itself.
pub fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, ListenError> {
    addresses.iter().map(|address| listen_on(*address, addresses)).collect()
}

/// The same; none given: for every address of this host, at `port`.
pub(crate) fn listen_or_at(addresses: &[SocketAddr], port: u16) -> Result<Vec<TcpListener>, ListenError> {
    let every = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))];
    listen(if addresses.is_empty() { &every } else { addresses })
}

/// Where every IPv6 address is meant and the host has no IPv6, it is every IPv4 address.
fn listen_on(address: SocketAddr, all: &[SocketAddr]) -> Result<TcpListener, ListenError> {
    let dual = !all.iter().any(|other| other.is_ipv4() && other.port() == address.port());
    let opened = match open(address, dual) {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED && dual && error.kind() != ErrorKind::AddrInUse =>
        {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into(), dual).map_err(|_| error)
        }
        other => other,
    };
    opened.map_err(|error| ListenError::new(address, error))
}

fn open(address: SocketAddr, dual: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(!dual)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The connection that a listener has news of. Where it is gone again, or no descriptor is to be had for it (accept(2)),
/// this waits a moment instead of spinning.
pub fn accept(listener: &TcpListener, stop: &Stop) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept() {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            if !is_waiting(&error) {
                stop.wait(NO_DESCRIPTOR);
            }
            None
        }
    }
}

/// Hands on what connects, until `stop`.
pub fn accept_all(listener: &TcpListener, stop: &Stop, mut taken: impl FnMut(TcpStream, IpAddr)) {
    while !stop.is_ended() {
        match stop.wait_readable(listener, None) {
            Ok(is_news) => {
                let accepted = is_news.then(|| accept(listener, stop)).flatten();
                accepted.into_iter().for_each(|(stream, peer)| taken(stream, peer.ip()));
            }
            // The kernel has no memory for that: a moment later it may have.
            Err(_) => drop(stop.wait(NO_DESCRIPTOR)),
        }
    }
}

/// A control connection: small messages at once, and a host that vanished without a word is noticed within
/// five seconds: by keepalive where nothing is on its way, by TCP_USER_TIMEOUT (RFC 5482) where something is.
pub fn prepare_control<'s>(stream: impl Into<SockRef<'s>>) -> io::Result<()> {
    let socket = stream.into();
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(2))
        .with_interval(Duration::from_secs(1))
        .with_retries(3);
    socket.set_tcp_user_timeout(Some(Duration::from_secs(5)))?;
    socket.set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port_of(listener: &TcpListener) -> u16 {
        listener.local_addr().expect("an address").port()
    }

    #[test]
    fn a_port_that_is_taken_and_an_address_that_is_not_here_say_so_with_the_remedy() {
        let first = listen(&["127.0.0.1:0".parse().expect("an address")]).expect("a port");
        let taken = SocketAddr::from((Ipv4Addr::LOCALHOST, port_of(&first[0])));
        let error = listen(&[taken]).expect_err("taken");
        assert!(matches!(error, ListenError::InUse(address) if address == taken));
        let text = error.advise("--listen", "who is it? Stop it").to_string();
        assert_eq!(text, format!("port {} is in use on 127.0.0.1: who is it? Stop it", taken.port()));
        let error = listen(&["192.0.2.1:0".parse().expect("an address")]).expect_err("not here");
        let text = error.advise("--page", "").to_string();
        assert!(text.contains("192.0.2.1") && text.contains("give --page one"), "{text}");
    }

    #[test]
    fn an_ipv4_address_of_the_same_port_is_left_to_its_own_listener() {
        let Ok(both) = listen_or_at(&[], 0) else { return };
        let port = port_of(&both[0]);
        drop(both);
        let wanted =
            [SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
        match listen(&wanted) {
            Ok(two) => assert_eq!(two.len(), 2),
            // Another test took the port meanwhile, or there is no IPv6 here.
            Err(error) => assert!(!matches!(error, ListenError::NoSuchAddress(_)), "{error}"),
        }
    }
}
