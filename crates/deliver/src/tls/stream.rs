//! One connection under TLS: as a socket, but for the handshake.

use super::client::ClientTls;
use super::error::TlsError;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A client's.
pub(crate) struct TlsClientStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsClientStream {
    /// Nothing is sent yet. `host` is what the certificate has to be of.
    pub(crate) fn new(tls: &ClientTls, host: &str, stream: TcpStream) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_string());
        let name = name.map_err(|_| TlsError::NoName { host: host.into() })?;
        let connection = ClientConnection::new(std::sync::Arc::clone(&tls.config), name);
        let connection = connection.map_err(|why| TlsError::NotMade { why: why.to_string() })?;
        Ok(TlsClientStream(StreamOwned::new(connection, stream)))
    }

    /// A step of the handshake; whether it is at its end. An error of a certificate is a [`rustls::Error`] within.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        if self.0.conn.is_handshaking() {
            self.0.conn.complete_io(&mut self.0.sock)?;
        }
        Ok(!self.0.conn.is_handshaking())
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    /// It need not ask its socket for the next ones.
    pub(crate) fn holds_bytes(&self) -> bool {
        !self.0.conn.wants_read()
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // An end without a goodbye: what has a length is known by it.
        match self.0.read(into) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    /// All that was taken goes to the kernel, or is refused for now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// What was taken and is not with the kernel yet.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut self.0.sock)?;
        }
        Ok(())
    }
}

/// A server's, for the one thread that has the connection.
pub(crate) struct TlsServerStream<'a> {
    connection: RefCell<ServerConnection>,
    stream: &'a TcpStream,
}

impl<'a> TlsServerStream<'a> {
    /// With its handshake done.
    pub(super) fn of(connection: ServerConnection, stream: &'a TcpStream) -> Self {
        TlsServerStream { connection: RefCell::new(connection), stream }
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        let read = rustls::Stream::new(&mut *connection, &mut &*self.stream).read(into);
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    /// Takes some of them, or none for now.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        rustls::Stream::new(&mut *connection, &mut &*self.stream).write(bytes)
    }

    /// What was taken goes to the kernel.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        while connection.wants_write() {
            connection.write_tls(&mut &*self.stream)?;
        }
        Ok(())
    }

    /// The last record, so that the client knows the end from a connection that was cut.
    pub(crate) fn say_goodbye(&self) {
        self.connection.borrow_mut().send_close_notify();
        let _ = self.flush();
    }
}
