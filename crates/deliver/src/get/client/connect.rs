//! A connection to one address is opened.

use super::{ClientSettings, LOOK};
use linerate_system::readiness::{begin_connect, wait_writable};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An address that does not answer within this is left for the next.
const CONNECT: Duration = Duration::from_secs(3);

pub(super) fn connect(address: SocketAddr, settings: &ClientSettings<'_>) -> io::Result<TcpStream> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    begin_connect(&socket, address)?;
    let until = Instant::now() + CONNECT.min(settings.timeout);
    while !wait_writable(&socket, LOOK)? {
        if settings.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        }
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    linerate_transport::admission::prepare_control(&socket)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    Ok(stream)
}
