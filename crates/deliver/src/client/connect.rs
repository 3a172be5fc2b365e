//! A connection is opened to one of the addresses of a host: the next is tried beside one that is silent
//! (RFC 8305), so that a dead one costs a short while, and only once.

use super::settings::TakenAddress;
use super::{ClientSettings, TransferError};
use crate::dialled::AwaitedConnections;
use crate::http::url::HttpUrl;
use linerate_system::clock;
use linerate_system::readiness::begin_connect;
use linerate_system::stop::STOP_CHECK;
use socket2::{Domain, Socket, Type};
use std::io;
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
    settings.book.look_up(url, settings.nic.as_ref())?;
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

#[cfg(test)]
mod tests;
