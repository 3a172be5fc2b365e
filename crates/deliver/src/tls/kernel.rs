//! A server's connection whose records are the kernel's once client and server have agreed on keys.

use super::server::ServerTls;
use super::stream::TlsServerStream;
use linerate_system::kernel_tls::{self, RecordCipher, RecordKeys};
use rustls::{CipherSuite, ConnectionTrafficSecrets, ServerConnection};
use std::io::{self, Read};
use std::net::TcpStream;

/// The bytes before a record: its type, a version, its length.
const RECORD_HEADER_BYTES: usize = 5;

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

/// Agrees on keys, and gives them to the kernel, where it has the cipher: `by_kernel` are those that it takes. Other
/// connections stay here, those of TLS 1.2 among them, and all do where the kernel does not take the first step. The
/// socket has a time limit for reads and writes; `goes_on` says before each of them whether to wait on.
pub(crate) fn begin<'a>(
    tls: &ServerTls,
    socket: &'a TcpStream,
    by_kernel: &[RecordCipher],
    goes_on: impl Fn() -> bool,
) -> Result<Encryption<'a>, HandshakeError> {
    let mut connection = ServerConnection::new(std::sync::Arc::clone(&tls.config))?;
    let mut records = SingleRecords { socket, header: [0; RECORD_HEADER_BYTES], known: 0, left: 0 };
    while connection.is_handshaking() || connection.wants_write() {
        // A client that sends a byte now and then never lets a read wait.
        if !goes_on() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        match step(&mut connection, &mut records) {
            Err(HandshakeError::Connection(error)) if is_waiting(&error) => {}
            stepped => stepped?,
        }
    }
    let cipher = cipher_of(&connection).filter(|cipher| by_kernel.contains(cipher));
    if cipher.is_none() || kernel_tls::begin(socket).is_err() {
        return Ok(Encryption::Here(Box::new(TlsServerStream::of(connection, socket))));
    }
    let secrets = connection.dangerous_extract_secrets()?;
    with_keys(&secrets.tx, |keys| kernel_tls::encrypt(socket, keys))?;
    with_keys(&secrets.rx, |keys| kernel_tls::decrypt(socket, keys))?;
    Ok(Encryption::Kernel)
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

fn step(connection: &mut ServerConnection, records: &mut SingleRecords<'_>) -> Result<(), HandshakeError> {
    while connection.wants_write() {
        connection.write_tls(&mut &*records.socket)?;
    }
    if connection.is_handshaking() {
        if connection.read_tls(records)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if let Err(error) = connection.process_new_packets() {
            // The client learns why, as far as it goes at once.
            let _ = connection.write_tls(&mut &*records.socket);
            return Err(error.into());
        }
    }
    Ok(())
}

fn is_waiting(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
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

/// Reads no byte beyond a record before the next read: what follows the handshake is for the kernel to decrypt.
struct SingleRecords<'a> {
    socket: &'a TcpStream,
    header: [u8; RECORD_HEADER_BYTES],
    /// Bytes of the header that were read.
    known: usize,
    /// Bytes of the record that were not.
    left: usize,
}

impl Read for SingleRecords<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = if self.left > 0 { self.left } else { RECORD_HEADER_BYTES - self.known };
        let room = wanted.min(into.len());
        let read = (&mut &*self.socket).read(&mut into[..room])?;
        if self.left > 0 {
            self.left -= read;
            return Ok(read);
        }
        self.header[self.known..self.known + read].copy_from_slice(&into[..read]);
        self.known += read;
        if self.known == RECORD_HEADER_BYTES {
            self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            self.known = 0;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    /// Each read gets a byte, so none of them waits.
    #[test]
    fn a_client_that_trickles_through_its_handshake_is_given_up() {
        let Ok(tls) = ServerTls::made(&[std::net::Ipv4Addr::LOCALHOST.into()]) else {
            return eprintln!("skipped: this CPU has not what TLS needs");
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (far, _) = listener.accept().expect("accepted");
        far.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
        // A record of 16,000 bytes, of which it sends a thousand at most.
        let trickle = std::thread::spawn(move || {
            let bytes = [22, 3, 1, 62, 128].into_iter().chain(std::iter::repeat_n(1, 1000));
            for byte in bytes {
                if near.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let begun = Instant::now();
        let ended = begin(&tls, &far, &[], || begun.elapsed() < Duration::from_millis(500));
        let timed_out = matches!(&ended, Err(HandshakeError::Connection(error)) if error.kind() == io::ErrorKind::TimedOut);
        assert!(timed_out && !trickle.is_finished());
        drop(ended);
        drop(far);
        trickle.join().expect("ended");
    }

    #[test]
    fn what_follows_a_record_is_left_in_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (far, _) = listener.accept().expect("accepted");
        let mut records = SingleRecords { socket: &far, header: [0; RECORD_HEADER_BYTES], known: 0, left: 0 };
        near.write_all(&[22, 3, 3, 0, 3, 7, 8, 9, 22, 3, 3, 0, 1, 5, 99]).expect("sent");
        let mut room = [0; 100];
        let mut taken = Vec::new();
        while taken.len() < 14 {
            let read = records.read(&mut room).expect("read");
            assert!(read > 0 && read <= RECORD_HEADER_BYTES);
            taken.extend_from_slice(&room[..read]);
        }
        assert_eq!(taken, [22, 3, 3, 0, 3, 7, 8, 9, 22, 3, 3, 0, 1, 5]);
        assert_eq!((&far).read(&mut room).expect("read"), 1, "99 is still there");
        assert_eq!(room[0], 99);
    }
}
