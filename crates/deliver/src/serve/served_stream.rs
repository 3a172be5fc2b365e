//! The bytes of a client of the server, in the clear or under TLS.

use crate::tls::{ServerTls, TlsServerStream};
use std::io::{self, Read};
use std::net::TcpStream;

/// More is to follow in the same segment (send(2)).
const MSG_MORE: i32 = 0x8000;
/// A raised write is no signal here (send(2)).
const MSG_NOSIGNAL: i32 = 0x4000;

/// One connection, of one thread.
pub(super) struct ServedStream<'a> {
    pub(super) socket: &'a TcpStream,
    tls: Option<TlsServerStream<'a>>,
}

impl<'a> ServedStream<'a> {
    /// None where TLS does not begin.
    pub(super) fn new(socket: &'a TcpStream, tls: Option<&ServerTls>) -> Option<Self> {
        let tls = match tls {
            Some(tls) => Some(TlsServerStream::new(tls, socket).ok()?),
            None => None,
        };
        Some(ServedStream { socket, tls })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.read(into),
            None => (&mut &*self.socket).read(into),
        }
    }

    /// `more`: something follows at once.
    pub(super) fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.write(bytes),
            None => {
                let flags = if more { MSG_MORE | MSG_NOSIGNAL } else { MSG_NOSIGNAL };
                socket2::SockRef::from(self.socket).send_with_flags(bytes, flags)
            }
        }
    }

    /// What was taken is with the kernel.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.tls.as_ref().map_or(Ok(()), TlsServerStream::flush)
    }

    /// The client learns that this is the end.
    pub(super) fn end(&self) {
        if let Some(tls) = &self.tls {
            tls.say_goodbye();
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}
