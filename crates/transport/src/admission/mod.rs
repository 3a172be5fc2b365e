//! One admission control for everything that listens: linerate's agent, the iperf3 server, the pages, the
//! wall's control.
//!
//! - A port is opened, or one sentence says why that cannot be ([`listen()`]); every control connection is set up alike
//!   ([`prepare_control`]).
//! - A connection that has proved nothing yet is *pending*: there are few of them, each with a deadline, and from a
//!   full list goes the oldest of the origin that has most ([`SharedPending`]).
//! - Who may stay holds a *permit*: all are counted, and one origin gets half of them at most ([`Permits`]).
//! - Where there is one permit alone, who had it last lets others go first ([`Turns`]).
//!
//! What counts as one origin is an IPv4 address, or an IPv6 network of 64 bits ([`origin`]).

mod permits;

use linerate_facts::failure::Failure;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
pub use permits::{NoPermit, Permit, Permits, origin};
pub(crate) use permits::{Turns, canonical};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections that may be pending at once, where nothing else is said.
pub const PENDING_CONNECTIONS: usize = 64;
/// Time that a pending connection has to prove that it may stay, where nothing else is said.
pub const TIME_TO_PROVE: Duration = Duration::from_secs(3);

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;
/// Without descriptors nothing can be accepted: a moment later there may be one.
pub(crate) const NO_DESCRIPTOR: Duration = Duration::from_millis(10);

/// The list; `C` is what its owner keeps of a connection.
#[derive(Debug)]
pub(crate) struct Pending<C> {
    bound: usize,
    patience: Duration,
    next_number: u64,
    /// Oldest first.
    entries: Vec<PendingConnection<C>>,
}

/// One connection of the list.
#[derive(Debug)]
pub(crate) struct PendingConnection<C> {
    pub(crate) number: u64,
    pub(crate) origin: IpAddr,
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
    pub(crate) connection: C,
}

impl<C> Pending<C> {
    /// At most `bound` connections, each of which has `patience` to prove that it may stay.
    pub(crate) fn new(bound: usize, patience: Duration) -> Self {
        Pending { bound: bound.max(1), patience, next_number: 0, entries: Vec::new() }
    }

    /// Takes out the one that has to go before another may come; none where there is room.
    pub(crate) fn make_room(&mut self) -> Option<C> {
        if self.entries.len() < self.bound {
            return None;
        }
        #[cfg(test)]
        planted!(OldestOfAllGoes, return Some(self.entries.remove(0).connection));
        let origins: Vec<IpAddr> = self.entries.iter().map(|entry| entry.origin).collect();
        Some(self.entries.remove(most_crowding(&origins)?).connection)
    }

    /// Adds a connection after [`Pending::make_room`]; its number and deadline.
    pub(crate) fn add(&mut self, peer: IpAddr, connection: C) -> (u64, Instant) {
        let (number, since) = (self.next_number, clock::now());
        let deadline = since + self.patience;
        self.next_number += 1;
        self.entries.push(PendingConnection { number, origin: origin(peer), since, deadline, connection });
        (number, deadline)
    }

    /// Takes a connection out; none: it had to go before.
    pub(crate) fn remove(&mut self, number: u64) -> Option<C> {
        let place = self.entries.iter().position(|entry| entry.number == number)?;
        Some(self.entries.remove(place).connection)
    }

    /// Whether a connection is in it still.
    fn contains(&self, number: u64) -> bool {
        self.entries.iter().any(|entry| entry.number == number)
    }

    /// Takes all out, oldest first; what is to wait on is given back with [`Pending::keep`].
    pub(crate) fn take_all(&mut self) -> Vec<PendingConnection<C>> {
        std::mem::take(&mut self.entries)
    }

    /// Gives back what [`Pending::take_all`] took.
    pub(crate) fn keep(&mut self, entry: PendingConnection<C>) {
        self.entries.push(entry);
    }

    /// The connections, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.entries.iter().map(|entry| &entry.connection)
    }

    /// None is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// A list that threads or tasks share.
#[derive(Debug)]
pub struct SharedPending<C>(Arc<Mutex<Pending<C>>>);

/// A connection's entry in it; it is taken out when this is dropped.
#[derive(Debug)]
pub struct PendingEntry<C> {
    list: Arc<Mutex<Pending<C>>>,
    number: u64,
    /// Until then it has to prove that it may stay.
    pub deadline: Instant,
}

impl<C> SharedPending<C> {
    /// At most `bound` connections, each of which has `patience` to prove that it may stay.
    pub fn new(bound: usize, patience: Duration) -> Self {
        SharedPending(Arc::new(Mutex::new(Pending::new(bound, patience))))
    }

    /// Adds a connection; with its entry comes the connection that has to go for it.
    pub fn add(&self, peer: IpAddr, connection: C) -> (PendingEntry<C>, Option<C>) {
        let mut list = lock(&self.0);
        let crowded_out = list.make_room();
        let (number, deadline) = list.add(peer, connection);
        (PendingEntry { list: self.0.clone(), number, deadline }, crowded_out)
    }

    /// Takes all out, oldest first.
    pub(crate) fn take_all(&self) -> Vec<C> {
        lock(&self.0).take_all().into_iter().map(|entry| entry.connection).collect()
    }

    /// None is pending.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<C> PendingEntry<C> {
    /// It was not crowded out.
    pub fn is_there(&self) -> bool {
        lock(&self.list).contains(self.number)
    }

    /// Takes the connection out, which may stay. None: it was crowded out before, and must not go on.
    pub fn take(&self) -> Option<C> {
        lock(&self.list).remove(self.number)
    }
}

impl<C> Drop for PendingEntry<C> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The first of the origin that has most.
fn most_crowding(origins: &[IpAddr]) -> Option<usize> {
    let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
    origins.iter().for_each(|origin| *crowds.entry(*origin).or_default() += 1);
    let worst = crowds.values().max()?;
    origins.iter().position(|origin| crowds.get(origin) == Some(worst))
}

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
    let opened = match open_listener(address, dual) {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED && dual && error.kind() != ErrorKind::AddrInUse =>
        {
            open_listener((Ipv4Addr::UNSPECIFIED, address.port()).into(), dual).map_err(|_| error)
        }
        other => other,
    };
    opened.map_err(|error| ListenError::new(address, error))
}

fn open_listener(address: SocketAddr, dual: bool) -> io::Result<TcpListener> {
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
