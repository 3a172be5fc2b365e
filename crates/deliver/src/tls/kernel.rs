//! A server's connection whose records are the kernel's once client and server have agreed on keys.

use super::records::{RecordState, SingleRecords};
use super::server::ServerTls;
use super::stream::TlsServerStream;
use linerate_system::kernel_tls::{self, RecordCipher, RecordKeys};
use linerate_system::readiness::{Interest, is_waiting};
use rustls::{CipherSuite, ConnectionTrafficSecrets, ServerConnection};
use std::io;
use std::net::TcpStream;

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
