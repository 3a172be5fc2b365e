//! One connection under TLS: as a socket, but for the handshake. A server's records are the kernel's once
//! client and server have agreed on keys.

use super::records::{ClientRecords, RecordState, SingleRecords};
use super::{ClientTls, ServerTls, TlsError};
use linerate_system::kernel_tls::{self, RecordCipher, RecordKeys};
use linerate_system::readiness::{Interest, is_waiting};
use rustls::pki_types::ServerName;
use rustls::{
    CipherSuite, ClientConnection, ConnectionTrafficSecrets, ServerConnection, SupportedCipherSuite,
};
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

/// Who encrypts what is sent.
pub(crate) enum Encryption<'a> {
    Here(Box<TlsServerStream<'a>>),
    Kernel,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the connection: {0}")]
    Connection(#[from] io::Error),
    /// Nobody has the keys any more.
    #[error("the kernel does not take the keys: {0}")]
    Kernel(io::Error),
}

/// A server's handshake, as far as it got. It waits for its client without a thread.
pub(crate) struct Handshake {
    connection: ServerConnection,
    records: RecordState,
}

impl Handshake {
    /// Nothing has come yet.
    pub(crate) fn new(tls: &ServerTls) -> Result<Self, HandshakeError> {
        let connection = ServerConnection::new(std::sync::Arc::clone(&tls.config))?;
        Ok(Handshake { connection, records: RecordState::default() })
    }

    /// Goes on as far as it goes without a wait; what is waited for then, none where it is at its end.
    pub(crate) fn go_on(&mut self, socket: &TcpStream) -> Result<Option<Interest>, HandshakeError> {
        socket.set_nonblocking(true)?;
        while self.connection.is_handshaking() || self.connection.wants_write() {
            match self.step(socket) {
                Err(HandshakeError::Connection(error)) if is_waiting(&error) => {
                    let writes = self.connection.wants_write();
                    return Ok(Some(if writes { Interest::Write } else { Interest::Read }));
                }
                stepped => stepped?,
            }
        }
        socket.set_nonblocking(false)?;
        Ok(None)
    }

    fn step(&mut self, socket: &TcpStream) -> Result<(), HandshakeError> {
        let connection = &mut self.connection;
        while connection.wants_write() {
            connection.write_tls(&mut &*socket)?;
        }
        if connection.is_handshaking() {
            if connection.read_tls(&mut SingleRecords { socket, state: &mut self.records })? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            if let Err(error) = connection.process_new_packets() {
                // The client learns why, as far as it goes at once.
                let _ = connection.write_tls(&mut &*socket);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Gives the keys to the kernel, where it has the cipher: `by_kernel` are those that it takes. Other connections stay
    /// here, those of TLS 1.2 among them, and all do where the kernel does not take the first step.
    pub(crate) fn finish<'a>(
        self,
        socket: &'a TcpStream,
        by_kernel: &[RecordCipher],
    ) -> Result<Encryption<'a>, HandshakeError> {
        let connection = self.connection;
        let cipher = cipher_of(&connection).filter(|cipher| by_kernel.contains(cipher));
        if cipher.is_none() || kernel_tls::begin(socket).is_err() {
            return Ok(Encryption::Here(Box::new(TlsServerStream::of(connection, socket))));
        }
        let secrets = connection.dangerous_extract_secrets()?;
        with_keys(&secrets.tx, |keys| kernel_tls::encrypt(socket, keys))?;
        with_keys(&secrets.rx, |keys| kernel_tls::decrypt(socket, keys))?;
        Ok(Encryption::Kernel)
    }
}

/// That of a connection of TLS 1.3.
fn cipher_of(connection: &ServerConnection) -> Option<RecordCipher> {
    match connection.negotiated_cipher_suite()?.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(RecordCipher::Aes128Gcm),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(RecordCipher::Aes256Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(RecordCipher::ChaCha20Poly1305),
        _ => None,
    }
}

fn with_keys(
    (sequence, secrets): &(u64, ConnectionTrafficSecrets),
    give: impl FnOnce(&RecordKeys<'_>) -> io::Result<()>,
) -> Result<(), HandshakeError> {
    let (cipher, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (RecordCipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (RecordCipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (RecordCipher::ChaCha20Poly1305, key, iv),
        _ => return Err(HandshakeError::Kernel(io::ErrorKind::Unsupported.into())),
    };
    let iv = iv.as_ref().try_into().map_err(|_| HandshakeError::Kernel(io::ErrorKind::InvalidData.into()))?;
    give(&RecordKeys { cipher, key: key.as_ref(), iv, sequence: *sequence }).map_err(HandshakeError::Kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_handshake_that_comes_byte_by_byte_never_waits_on_the_thread() {
        let Ok(tls) = ServerTls::made(&[std::net::Ipv4Addr::LOCALHOST.into()]) else {
            return eprintln!("skipped: this CPU has not what TLS needs");
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (far, _) = listener.accept().expect("accepted");
        let mut handshake = Handshake::new(&tls).expect("begun");
        // A record of 16,000 bytes, of which few come.
        for byte in [22, 3, 1, 62, 128, 1, 1, 1] {
            assert_eq!(handshake.go_on(&far).expect("it goes on"), Some(Interest::Read));
            near.write_all(&[byte]).expect("sent");
        }
        assert_eq!(handshake.go_on(&far).expect("it goes on"), Some(Interest::Read));
        drop(near);
        let ended = std::iter::repeat_with(|| handshake.go_on(&far)).find_map(Result::err).expect("it ends");
        assert!(
            matches!(ended, HandshakeError::Connection(error) if error.kind() == io::ErrorKind::UnexpectedEof)
        );
    }
}
