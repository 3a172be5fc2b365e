//! TLS records by the kernel (Documentation/networking/tls.rst): once both ends have agreed on keys, what is written to
//! the socket is encrypted on its way, so that sendfile(2) and the rings work as in the clear.
//!
//! Only of TLS 1.3. A read that meets a record that is not data (an alert, new keys) fails with EIO.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The record type of an alert (RFC 8446 section 5.1).
const ALERT: u8 = 21;
/// “warning”, “close_notify” (RFC 8446 section 6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// How records are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl RecordCipher {
    /// Its number, and how many bytes of the IV are the salt.
    fn numbers(self) -> (u16, usize) {
        match self {
            RecordCipher::Aes128Gcm => (libc::TLS_CIPHER_AES_GCM_128, 4),
            RecordCipher::Aes256Gcm => (libc::TLS_CIPHER_AES_GCM_256, 4),
            RecordCipher::ChaCha20Poly1305 => (libc::TLS_CIPHER_CHACHA20_POLY1305, 0),
        }
    }

    fn key_bytes(self) -> usize {
        match self {
            RecordCipher::Aes128Gcm => 16,
            RecordCipher::Aes256Gcm | RecordCipher::ChaCha20Poly1305 => 32,
        }
    }
}

/// The keys of one direction.
pub struct RecordKeys<'k> {
    pub cipher: RecordCipher,
    /// As long as the cipher's.
    pub key: &'k [u8],
    pub iv: [u8; 12],
    /// Number of the next record.
    pub sequence: u64,
}

impl RecordKeys<'_> {
    /// `struct tls12_crypto_info_aes_gcm_128` and its like: info, IV, key, salt, number.
    fn crypto_info(&self) -> io::Result<Vec<u8>> {
        if self.key.len() != self.cipher.key_bytes() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (number, salt_bytes) = self.cipher.numbers();
        let (salt, iv) = self.iv.split_at(salt_bytes);
        Ok([
            &libc::TLS_1_3_VERSION.to_ne_bytes()[..],
            &number.to_ne_bytes(),
            iv,
            self.key,
            salt,
            &self.sequence.to_be_bytes(),
        ]
        .concat())
    }
}

/// The ciphers with which this kernel encrypts and decrypts records: each tried on a connection of its own. The error is
/// the kernel's, where there is none.
pub fn ciphers() -> io::Result<Vec<RecordCipher>> {
    let mut refused = io::Error::from(io::ErrorKind::Unsupported);
    let mut taken = Vec::new();
    for cipher in [RecordCipher::Aes128Gcm, RecordCipher::Aes256Gcm, RecordCipher::ChaCha20Poly1305] {
        match takes(cipher) {
            Ok(()) => taken.push(cipher),
            Err(error) => refused = error,
        }
    }
    if taken.is_empty() { Err(refused) } else { Ok(taken) }
}

fn takes(cipher: RecordCipher) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    let key = vec![0; cipher.key_bytes()];
    let keys = RecordKeys { cipher, key: &key, iv: [0; 12], sequence: 0 };
    begin(&socket)?;
    encrypt(&socket, &keys)?;
    decrypt(&socket, &keys)
}

/// The connection's records will be the kernel's. Without the module `tls` there is no such protocol: ENOENT.
pub fn begin(socket: &TcpStream) -> io::Result<()> {
    set_bytes(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Whether the kernel makes this socket's TLS records, or will; false of what is not a TCP socket.
pub(crate) fn has_begun(file: &Arc<File>) -> bool {
    let mut name = [0u8; 16];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of the name, and how many.
    let answer = unsafe {
        libc::getsockopt(
            file.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_ULP,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    answer == 0 && name.starts_with(b"tls")
}

/// What is sent from now on is encrypted.
pub fn encrypt(socket: &TcpStream, keys: &RecordKeys<'_>) -> io::Result<()> {
    set_bytes(socket, libc::SOL_TLS, libc::TLS_TX, &keys.crypto_info()?)
}

/// What is received from now on is decrypted; nothing of it may have been read before.
pub fn decrypt(socket: &TcpStream, keys: &RecordKeys<'_>) -> io::Result<()> {
    set_bytes(socket, libc::SOL_TLS, libc::TLS_RX, &keys.crypto_info()?)
}

/// The last record: the other end knows that this is the end, and that the connection was not cut.
pub fn send_close_notify(socket: &TcpStream) -> io::Result<()> {
    // SAFETY: it only computes.
    const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(1) } as usize;
    /// As the kernel wants its control messages.
    #[repr(align(8))]
    struct Control([u8; CONTROL_BYTES]);
    let mut control = Control([0; CONTROL_BYTES]);
    let mut alert = CLOSE_NOTIFY;
    let mut part = libc::iovec { iov_base: alert.as_mut_ptr().cast(), iov_len: alert.len() };
    // SAFETY: all fields of these plain structs may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the control buffer is aligned and long enough for one header and one byte (CMSG_SPACE(1)), and the part and
    // its bytes live through the call.
    let sent = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        (*first).cmsg_level = libc::SOL_TLS;
        (*first).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*first).cmsg_len = libc::CMSG_LEN(1) as _;
        *libc::CMSG_DATA(first) = ALERT;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_bytes(socket: &TcpStream, level: i32, option: i32, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe bytes that live through the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            bytes.as_ptr().cast(),
            bytes.len() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_laid_out_as_the_kernel_reads_them() {
        let key: Vec<u8> = (100..132).collect();
        let iv = std::array::from_fn(|at| at as u8);
        let info = |cipher, key: &[u8]| RecordKeys { cipher, key, iv, sequence: 7 }.crypto_info();
        // `sizeof` of the three structs of linux/tls.h.
        let lengths = [
            (RecordCipher::Aes128Gcm, 40),
            (RecordCipher::Aes256Gcm, 56),
            (RecordCipher::ChaCha20Poly1305, 56),
        ];
        for (cipher, length) in lengths {
            let info = info(cipher, &key[..cipher.key_bytes()]).expect("a key as long as the cipher's");
            assert_eq!(info.len(), length, "{cipher:?}");
            assert_eq!(info[..2], libc::TLS_1_3_VERSION.to_ne_bytes());
            assert_eq!(info[length - 8..], [0, 0, 0, 0, 0, 0, 0, 7]);
        }
        let gcm = info(RecordCipher::Aes128Gcm, &key[..16]).expect("laid out");
        assert_eq!((&gcm[4..12], &gcm[12..28], &gcm[28..32]), (&iv[4..], &key[..16], &iv[..4]));
        let short = info(RecordCipher::Aes256Gcm, &key[..16]);
        assert_eq!(short.expect_err("too short a key").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn files_and_plain_connections_have_no_tls() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        assert!(!has_begun(&Arc::new(File::from(std::os::fd::OwnedFd::from(socket)))));
        assert!(!has_begun(&Arc::new(tempfile::tempfile().expect("a file"))));
    }

    /// Both ends by the kernel, with the same keys.
    #[test]
    fn what_one_end_encrypts_the_other_reads() {
        let ciphers = match ciphers() {
            Ok(ciphers) => ciphers,
            Err(error) => return eprintln!("skipped: TLS by this kernel: {error}"),
        };
        ciphers.into_iter().for_each(assert_both_ends_agree);
    }

    fn assert_both_ends_agree(cipher: RecordCipher) {
        use std::io::{Read, Write};
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        let key = vec![3; cipher.key_bytes()];
        let keys = RecordKeys { cipher, key: &key, iv: [5; 12], sequence: 9 };
        begin(&near).and_then(|()| encrypt(&near, &keys)).expect("encrypts");
        begin(&far).and_then(|()| decrypt(&far, &keys)).expect("decrypts");
        near.write_all(b"in the clear here").expect("sent");
        let mut read = [0; 17];
        far.read_exact(&mut read).expect("read");
        assert_eq!(&read, b"in the clear here");
        send_close_notify(&near).expect("sent");
        let end = far.read(&mut read).expect_err("no data");
        assert_eq!(end.raw_os_error(), Some(libc::EIO));
        let file = |socket: TcpStream| Arc::new(File::from(std::os::fd::OwnedFd::from(socket)));
        assert!(has_begun(&file(near)));
    }
}
