//! A connection is opened to one of the addresses of a host: the next is tried beside one that is silent
//! (RFC 8305), so that a dead one costs a short while, and only once. Its bytes go in the clear or under TLS.

#[cfg(test)]
mod tests;

use super::TransferError;
use super::settings::{ClientSettings, TakenAddress};
use crate::dialled::AwaitedConnections;
use crate::http::url::HttpUrl;
#[cfg(test)]
use crate::tests::network;
use crate::tls::{ClientHandshake, ClientTls, TlsClientStream};
use linerate_facts::printable::foreign;
use linerate_system::clock;
use linerate_system::readiness::{begin_connect, is_waiting};
use linerate_system::stop::{STOP_CHECK, Stop};
use rustls::CertificateError;
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use thiserror::Error;

/// An address that does not answer within this is dead.
const CONNECT: Duration = Duration::from_secs(3);
/// A silent address has this for itself, then the next is tried beside it (RFC 8305 section 5).
const BESIDE: Duration = Duration::from_millis(250);
/// Where several are being tried, each is looked at for so long in turn.
const TURN: Duration = Duration::from_millis(10);
/// All addresses of a host together have this.
const ALL: Duration = Duration::from_secs(10);
/// The most addresses whose reasons are said.
const MOST_SAID: usize = 8;

/// A handshake of TLS that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why there is no connection to an address; its name stands before it.
#[derive(Debug, Error)]
enum ConnectError {
    #[error("to bind it to {nic} needs CAP_NET_RAW: run as root")]
    NotAllowed { nic: String },
    #[error("it cannot be bound to {to}: {error}")]
    NotBound { to: String, error: io::Error },
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error(transparent)]
    Socket(#[from] io::Error),
}

struct Attempt {
    socket: Socket,
    taken: TakenAddress,
    begun: Instant,
}

/// The first address that answers; where none does, why, of each.
pub(super) fn connect(
    settings: &ClientSettings<'_>,
    url: &HttpUrl,
) -> Result<(TcpStream, TakenAddress), TransferError> {
    if let Some(awaited) = &settings.awaited {
        return opened_by_other_end(settings, url, awaited);
    }
    settings.look_up(url)?;
    #[cfg(test)]
    if let Some(opened) = connect_without_sockets(settings, url) {
        return opened;
    }
    let begun = clock::now();
    let (mut attempts, mut tried): (Vec<Attempt>, Vec<SocketAddr>) = (Vec::new(), Vec::new());
    let mut failures = Vec::new();
    loop {
        let is_due = attempts.last().is_none_or(|last| clock::since(last.begun) >= BESIDE);
        let next = if is_due && clock::since(begun) < ALL {
            settings.book.take(url, &tried, settings.keeps_to_one)
        } else {
            None
        };
        if let Some(taken) = next {
            tried.push(taken.address);
            match begin_attempt(settings, taken.address) {
                Ok(socket) => attempts.push(Attempt { socket, taken, begun: clock::now() }),
                Err(why) => failures.push(failure_of(&taken, &why)),
            }
            continue;
        }
        if attempts.is_empty() {
            return Err(TransferError::Unreachable {
                authority: url.authority(),
                why: all_reasons(failures),
            });
        }
        settings.check_stop()?;
        if let Some(open) = first_answer(settings, url, &mut attempts, &mut failures)? {
            return Ok(open);
        }
    }
}

/// In the tests' network, address after address; none: this thread is in no such network.
#[cfg(test)]
fn connect_without_sockets(
    settings: &ClientSettings<'_>,
    url: &HttpUrl,
) -> Option<Result<(TcpStream, TakenAddress), TransferError>> {
    let (mut tried, mut failures) = (Vec::new(), Vec::new());
    while let Some(taken) = settings.book.take(url, &tried, settings.keeps_to_one) {
        match crate::tests::network::connected()? {
            Ok(stream) => {
                taken.answered();
                return Some(Ok((stream, taken)));
            }
            Err(error) => failures.push(failure_of(&taken, &error.into())),
        }
        tried.push(taken.address);
    }
    Some(Err(TransferError::Unreachable { authority: url.authority(), why: all_reasons(failures) }))
}

/// Whatever host a URL names, it is the other end's.
fn opened_by_other_end(
    settings: &ClientSettings<'_>,
    url: &HttpUrl,
    awaited: &AwaitedConnections,
) -> Result<(TcpStream, TakenAddress), TransferError> {
    let no_connection = |why: String| TransferError::Unreachable { authority: url.authority(), why };
    let came = awaited.next(settings.stop).and_then(|stream| Ok((stream.peer_addr()?, stream)));
    settings.check_stop()?;
    let (peer, stream) =
        came.map_err(|error| no_connection(format!("the other host opened none: {error}")))?;
    settings.book.enter(url, &[SocketAddr::new(peer.ip(), url.port)], None);
    let taken = settings.book.take(url, &[], true);
    let taken = taken.ok_or_else(|| no_connection("no address".into()))?;
    taken.answered();
    let stream = prepared_stream(Socket::from(stream)).map_err(|error| no_connection(error.to_string()))?;
    Ok((stream, taken))
}

fn begin_attempt(settings: &ClientSettings<'_>, address: SocketAddr) -> Result<Socket, ConnectError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(nic) = &settings.nic {
        let name = || nic.name.clone();
        socket.bind_device(Some(nic.name.as_bytes())).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ConnectError::NotAllowed { nic: name() },
            _ => ConnectError::NotBound { to: name(), error },
        })?;
        if let Some(own) = nic.address {
            let not_bound = |error| ConnectError::NotBound { to: own.to_string(), error };
            socket.bind(&SocketAddr::new(own, 0).into()).map_err(not_bound)?;
        }
    }
    begin_connect(&socket, address)?;
    Ok(socket)
}

/// Waits a moment; attempts that fail are gone from the list.
fn first_answer(
    settings: &ClientSettings<'_>,
    url: &HttpUrl,
    attempts: &mut Vec<Attempt>,
    failures: &mut Vec<String>,
) -> Result<Option<(TcpStream, TakenAddress)>, TransferError> {
    let broken = |error| TransferError::broken(url, error);
    let patience = CONNECT.min(settings.timeout);
    let (mut waiting, mut open, is_alone) = (Vec::new(), None, attempts.len() == 1);
    for attempt in attempts.drain(..) {
        let age = clock::since(attempt.begun);
        // Then the next address is tried, or this one is given up.
        let alone = if age < BESIDE { BESIDE - age } else { patience.saturating_sub(age) };
        let time = if is_alone { alone } else { TURN };
        let is_ready = settings.stop.wait_writable(&attempt.socket, Some(time)).map_err(broken)?;
        let error = if is_ready { attempt.socket.take_error().map_err(broken)? } else { None };
        match (is_ready, error) {
            (true, Some(error)) => failures.push(failure_of(&attempt.taken, &error.into())),
            (true, None) if open.is_none() => open = Some(attempt),
            (false, _) if clock::since(attempt.begun) >= patience => {
                failures.push(failure_of(&attempt.taken, &ConnectError::Silent(patience)));
            }
            _ => waiting.push(attempt),
        }
    }
    let Some(Attempt { socket, taken, begun }) = open else {
        *attempts = waiting;
        return Ok(None);
    };
    // A far one is not late: it had no more time than the one that answered.
    let late = BESIDE.max(2 * clock::since(begun));
    waiting.iter().filter(|one| clock::since(one.begun) >= late).for_each(|one| one.taken.was_late());
    taken.answered();
    let stream = prepared_stream(socket).map_err(broken)?;
    Ok(Some((stream, taken)))
}

fn failure_of(taken_address: &TakenAddress, why: &ConnectError) -> String {
    taken_address.failed();
    format!("{}: {why}", taken_address.address)
}

/// One sentence's part, also where there are many.
fn all_reasons(mut failures: Vec<String>) -> String {
    let more = failures.len().saturating_sub(MOST_SAID);
    failures.truncate(MOST_SAID);
    match (failures.is_empty(), more) {
        (true, _) => "its name has no address".into(),
        (false, 0) => failures.join(", "),
        (false, more) => format!("{}, and {more} more", failures.join(", ")),
    }
}

fn prepared_stream(socket: Socket) -> io::Result<TcpStream> {
    socket.set_nonblocking(false)?;
    linerate_transport::admission::prepare_control(&socket)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(STOP_CHECK))?;
    stream.set_write_timeout(Some(STOP_CHECK))?;
    Ok(stream)
}

pub(super) enum ClientWire {
    Plain(TcpStream),
    Tls(TlsClientStream),
}

impl ClientWire {
    /// With the handshake done: the server is the one that is meant.
    pub(super) fn secured(
        tls: &ClientTls,
        url: &HttpUrl,
        stream: TcpStream,
        settings: &ClientSettings<'_>,
    ) -> Result<Self, TransferError> {
        let mut handshake = ClientHandshake::new(tls, &url.host)?;
        let until = clock::now() + HANDSHAKE.min(settings.timeout);
        loop {
            match handshake.go_on(&stream) {
                Ok(()) => break,
                Err(error) if is_waiting(&error) && clock::now() < until => settings.check_stop()?,
                Err(error) => return Err(of_handshake(url, error)),
            }
        }
        let secured = handshake.finish(stream).map_err(|error| of_handshake(url, error))?;
        Ok(ClientWire::Tls(secured))
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            ClientWire::Plain(stream) => stream,
            ClientWire::Tls(stream) => stream.socket(),
        }
    }

    /// What comes next, waited for so long at most, or until `stop`; an error that only waits where nothing came.
    pub(super) fn read_within(&mut self, into: &mut [u8], time: Duration, stop: &Stop) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(read) = network::read(self.socket(), into, time) {
            return read;
        }
        let is_here = match self {
            ClientWire::Plain(_) => false,
            ClientWire::Tls(stream) => stream.holds_bytes(),
        };
        if !is_here && !stop.wait_readable(self.socket(), Some(time))? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self {
            ClientWire::Plain(stream) => stream.read(into),
            ClientWire::Tls(stream) => stream.read(into),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(written) = network::write(self.socket(), bytes) {
            return written;
        }
        match self {
            ClientWire::Plain(stream) => stream.write(bytes),
            ClientWire::Tls(stream) => stream.write(bytes),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientWire::Plain(_) => Ok(()),
            ClientWire::Tls(stream) => stream.flush(),
        }
    }
}

/// What is wrong with the server, in words that say what to do.
fn of_handshake(url: &HttpUrl, error: io::Error) -> TransferError {
    let authority = url.authority();
    let within = error.get_ref().and_then(|within| within.downcast_ref::<rustls::Error>());
    let why = match within {
        None => return TransferError::broken(url, error),
        Some(rustls::Error::InvalidCertificate(why)) => of_certificate(why),
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS there; is it http://, or another port?".into()
        }
        Some(other) => format!("TLS: {}", foreign(&other.to_string())),
    };
    TransferError::Certificate { authority, why }
}

fn of_certificate(why: &CertificateError) -> String {
    use CertificateError as C;
    match why {
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            "its certificate is of another name; name the server as its certificate does, or give its fingerprint with \
             --fingerprint"
                .into()
        }
        C::UnknownIssuer => "no authority that is believed here signed its certificate; set SSL_CERT_FILE to the \
                             authority's file, or give the certificate's fingerprint with --fingerprint"
            .into(),
        C::Expired | C::ExpiredContext { .. } => {
            "its certificate has expired; the server needs a new one".into()
        }
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is the clock of this host right?".into()
        }
        C::ApplicationVerificationFailure => {
            "its certificate has another fingerprint than that of --fingerprint; was the server started again?".into()
        }
        other => format!("its certificate: {}", foreign(&other.to_string())),
    }
}
