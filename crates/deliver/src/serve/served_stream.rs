//! The bytes of a client of the server, in the clear or under TLS.

use super::kernel_tls::KernelTls;
use crate::tls::{Encryption, ServerTls};
use linerate_system::Errno;
use linerate_system::kernel_tls::send_close_notify;
use linerate_system::socket::tcp_info;
use std::io::{self, Read};
use std::net::TcpStream;

/// More is to follow in the same segment (send(2)).
const MSG_MORE: i32 = 0x8000;
/// A raised write is no signal here (send(2)).
const MSG_NOSIGNAL: i32 = 0x4000;

/// Keys are good for 2^24.5 full records of 16 KiB (RFC 8446 section 5.5), 388 GB, and the kernel makes no new ones. No
/// answer begins after so many bytes …
const MOST_BYTES_OF_KEYS: u64 = 256 << 30;
/// … and one that is still being sent is cut short after these, so that a long file does not go on under spent keys.
const MOST_BYTES_OF_LONG_ANSWER: u64 = 352 << 30;
/// 2^24.5, rounded down.
const MOST_RECORDS_OF_KEYS: u64 = 23_726_566;
const _: () = assert!(MOST_BYTES_OF_KEYS < MOST_BYTES_OF_LONG_ANSWER);
const _: () = assert!(MOST_BYTES_OF_LONG_ANSWER + (1 << 30) < MOST_RECORDS_OF_KEYS * (16 << 10));

/// One connection, of one thread.
pub(super) struct ServedStream<'a> {
    pub(super) socket: &'a TcpStream,
    tls: Option<Encryption<'a>>,
}

impl<'a> ServedStream<'a> {
    /// In the clear, or with records that the kernel encrypts and decrypts already.
    pub(super) fn plain(socket: &'a TcpStream, by_kernel: bool) -> Self {
        ServedStream { socket, tls: by_kernel.then_some(Encryption::Kernel) }
    }

    /// None where TLS does not begin. `goes_on`: the client is waited for a little longer.
    pub(super) fn secure(
        socket: &'a TcpStream,
        tls: &ServerTls,
        by_kernel: &KernelTls,
        goes_on: impl Fn() -> bool,
    ) -> Option<Self> {
        let encryption = by_kernel.begin(tls, socket, goes_on)?;
        Some(ServedStream { socket, tls: Some(encryption) })
    }

    /// Encrypted in this program, which keeps its state on the thread.
    pub(super) fn encrypts_here(&self) -> bool {
        matches!(self.tls, Some(Encryption::Here(_)))
    }

    pub(super) fn is_by_kernel(&self) -> bool {
        matches!(self.tls, Some(Encryption::Kernel))
    }

    /// The connection's keys have encrypted as much as they should: no further answer begins.
    pub(super) fn keys_are_used_up(&self) -> bool {
        self.has_encrypted(MOST_BYTES_OF_KEYS)
    }

    /// They have encrypted as much as they may: nothing more is sent, also in the middle of an answer.
    pub(super) fn keys_are_spent(&self) -> bool {
        self.has_encrypted(MOST_BYTES_OF_LONG_ANSWER)
    }

    fn has_encrypted(&self, bytes: u64) -> bool {
        self.is_by_kernel() && tcp_info(self.socket).is_ok_and(|tcp| tcp.acknowledged_bytes > bytes)
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(Encryption::Here(tls)) => tls.read(into),
            Some(Encryption::Kernel) => match (&mut &*self.socket).read(into) {
                // A record that is no data: the client's goodbye, or new keys, which end the connection, too.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(0),
                read => read,
            },
            None => (&mut &*self.socket).read(into),
        }
    }

    /// `more`: something follows at once.
    pub(super) fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        match &self.tls {
            Some(Encryption::Here(tls)) => tls.write(bytes),
            _ => {
                let flags = if more { MSG_MORE | MSG_NOSIGNAL } else { MSG_NOSIGNAL };
                socket2::SockRef::from(self.socket).send_with_flags(bytes, flags)
            }
        }
    }

    /// What was taken is with the kernel.
    pub(super) fn flush(&self) -> io::Result<()> {
        match &self.tls {
            Some(Encryption::Here(tls)) => tls.flush(),
            _ => Ok(()),
        }
    }

    /// The client learns that this is the end.
    pub(super) fn end(&self) {
        match &self.tls {
            Some(Encryption::Here(tls)) => tls.say_goodbye(),
            Some(Encryption::Kernel) => drop(send_close_notify(self.socket)),
            None => {}
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}
