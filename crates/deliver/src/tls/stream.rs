//! One connection under TLS: as a socket, but for the handshake.

use super::client::ClientTls;
use super::error::TlsError;
use super::records::{ClientRecords, RecordState, SingleRecords};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, SupportedCipherSuite};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A client's handshake, as far as it got.
pub(crate) struct ClientHandshake {
    connection: ClientConnection,
    records: RecordState,
}

impl ClientHandshake {
    /// Nothing is sent yet. `host` is what the certificate has to be of.
    pub(crate) fn new(tls: &ClientTls, host: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_string());
        let name = name.map_err(|_| TlsError::NoName { host: host.into() })?;
        let connection = ClientConnection::new(std::sync::Arc::clone(&tls.config), name);
        let connection = connection.map_err(|why| TlsError::NotMade { why: why.to_string() })?;
        Ok(ClientHandshake { connection, records: RecordState::default() })
    }

    /// Goes on as far as it goes; an error of a certificate is a [`rustls::Error`] within.
    pub(crate) fn go_on(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        let connection = &mut self.connection;
        while connection.is_handshaking() || connection.wants_write() {
            if connection.wants_write() {
                connection.write_tls(&mut socket)?;
            } else if connection.read_tls(&mut SingleRecords { socket, state: &mut self.records })? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if let Err(error) = connection.process_new_packets() {
                // The server learns why, as far as it goes at once.
                let _ = connection.write_tls(&mut socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(())
    }

    /// Once it is at its end.
    pub(crate) fn finish(self, socket: TcpStream) -> io::Result<TlsClientStream> {
        let records = match self.connection.negotiated_cipher_suite() {
            Some(SupportedCipherSuite::Tls13(suite)) => {
                let records = |secrets| ClientRecords::new(suite, secrets);
                let records = self.connection.dangerous_extract_secrets().and_then(records);
                Records::Here(records.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?)
            }
            _ => Records::Rustls(Box::new(self.connection)),
        };
        Ok(TlsClientStream { socket, records })
    }
}

/// A client's.
pub(crate) struct TlsClientStream {
    socket: TcpStream,
    records: Records,
}

enum Records {
    Here(ClientRecords),
    /// Those of TLS 1.2.
    Rustls(Box<ClientConnection>),
}

impl TlsClientStream {
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// It need not ask its socket for the next ones.
    pub(crate) fn holds_bytes(&self) -> bool {
        match &self.records {
            Records::Here(records) => records.holds_bytes(),
            Records::Rustls(connection) => !connection.wants_read(),
        }
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.records {
            Records::Here(records) => records.read(&self.socket, into),
            Records::Rustls(connection) => {
                until_its_end(rustls::Stream::new(&mut **connection, &mut self.socket).read(into))
            }
        }
    }

    /// All that was taken goes to the kernel, or is refused for now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.records {
            Records::Here(records) => records.write(&self.socket, bytes),
            Records::Rustls(connection) => {
                rustls::Stream::new(&mut **connection, &mut self.socket).write(bytes)
            }
        }
    }

    /// What was taken and is not with the kernel yet.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.records {
            Records::Here(records) => records.flush(&self.socket),
            Records::Rustls(connection) => {
                while connection.wants_write() {
                    connection.write_tls(&mut self.socket)?;
                }
                Ok(())
            }
        }
    }
}

/// An end without a goodbye is one, too: what has a length is known by it.
fn until_its_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
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
        until_its_end(rustls::Stream::new(&mut *connection, &mut &*self.stream).read(into))
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
