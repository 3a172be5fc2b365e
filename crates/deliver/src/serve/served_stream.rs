//! The bytes of a client of the server, in the clear or under TLS; whether the kernel encrypts them, and why
//! it does not. What is not a file goes out by a thread that waits for the client.

use super::work::Turn;
use super::{FileServerSettings, Shared};
use crate::body_paths::PIECE_BYTES;
use crate::tls::{Encryption, Handshake, HandshakeError};
use linerate_system::kernel_tls::{self, RecordCipher, send_close_notify};
use linerate_system::readiness::is_waiting;
use linerate_system::socket::tcp_info;
use linerate_system::{Errno, clock, lock};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// More is to follow in the same segment (send(2)).
const MSG_MORE: i32 = 0x8000;
/// A raised write is not a signal here (send(2)).
const MSG_NOSIGNAL: i32 = 0x4000;
/// What the socket has no room for is refused at once (send(2)).
const MSG_DONTWAIT: i32 = 0x40;

/// 2^24.5, rounded down: after so many full records of 16 KiB, 388 GB, keys are spent (RFC 8446 section 5.5), and the
/// kernel makes no new ones.
const MOST_RECORDS_OF_KEYS: u64 = 23_726_566;
const RECORD_BYTES: u64 = 16 << 10;
/// What may go out between two looks, and be on its way.
const UNSEEN_BYTES: u64 = 1 << 30;
const _: () = assert!(PIECE_BYTES <= UNSEEN_BYTES / 2);
const _: () = assert!(KeyLimits::OF_KERNEL.new_answers < KeyLimits::OF_KERNEL.long_answer);
const _: () = assert!(KeyLimits::OF_KERNEL.long_answer + UNSEEN_BYTES < MOST_RECORDS_OF_KEYS * RECORD_BYTES);

/// How many bytes the keys of a connection encrypt.
#[derive(Clone, Copy, Debug)]
struct KeyLimits {
    /// No answer begins after so many …
    new_answers: u64,
    /// … and one that is still being sent is cut short after these, so that a long file does not go on under spent keys.
    long_answer: u64,
}

impl KeyLimits {
    const OF_KERNEL: KeyLimits = KeyLimits { new_answers: 256 << 30, long_answer: 352 << 30 };
}

/// Who encrypts a connection's bytes.
pub(super) enum Security {
    Plain,
    /// Nothing of the handshake has come yet.
    Silent,
    Agreeing(Box<Handshake>),
    /// The kernel, or this program on the thread that the connection is on.
    Agreed,
}

impl Security {
    /// The connection's bytes, once there is TLS where there is to be; else what it waits for, or its end.
    pub(super) fn stream<'a>(
        &mut self,
        socket: &'a TcpStream,
        shared: &'a Shared<'_>,
    ) -> Result<ServedStream<'a>, Turn> {
        let Some(tls) = &shared.tls else { return Ok(ServedStream::plain(socket, false)) };
        let failed = |error: HandshakeError| {
            tracing::debug!(%error, "TLS");
            Turn::Over
        };
        let mut handshake = match std::mem::replace(self, Security::Agreed) {
            Security::Agreed => return Ok(ServedStream::plain(socket, true)),
            Security::Plain | Security::Silent => Box::new(Handshake::new(tls).map_err(failed)?),
            Security::Agreeing(handshake) => handshake,
        };
        match handshake.go_on(socket).map_err(failed)? {
            Some(interest) => {
                *self = Security::Agreeing(handshake);
                Err(Turn::Waits(interest))
            }
            None => ServedStream::secure(socket, *handshake, &shared.kernel_tls).ok_or(Turn::Over),
        }
    }
}

/// One connection, of one thread.
pub(super) struct ServedStream<'a> {
    pub(super) socket: &'a TcpStream,
    tls: Option<Encryption<'a>>,
    keys: KeyLimits,
}

impl<'a> ServedStream<'a> {
    /// In the clear, or with records that the kernel encrypts and decrypts already.
    pub(super) fn plain(socket: &'a TcpStream, by_kernel: bool) -> Self {
        ServedStream { socket, tls: by_kernel.then_some(Encryption::Kernel), keys: KeyLimits::OF_KERNEL }
    }

    /// With its handshake done; none where the kernel does not take its keys.
    pub(super) fn secure(socket: &'a TcpStream, handshake: Handshake, by_kernel: &KernelTls) -> Option<Self> {
        let encryption = by_kernel.begin(handshake, socket)?;
        Some(ServedStream { socket, tls: Some(encryption), keys: KeyLimits::OF_KERNEL })
    }

    /// As if the kernel encrypted it, with keys for so few bytes.
    #[cfg(test)]
    pub(super) fn with_keys_for(socket: &'a TcpStream, new_answers: u64, long_answer: u64) -> Self {
        let keys = KeyLimits { new_answers, long_answer };
        ServedStream { socket, tls: Some(Encryption::Kernel), keys }
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
        self.has_encrypted(self.keys.new_answers)
    }

    /// They have encrypted as much as they may: nothing more is sent, also in the middle of an answer.
    pub(super) fn keys_are_spent(&self) -> bool {
        self.has_encrypted(self.keys.long_answer)
    }

    fn has_encrypted(&self, bytes: u64) -> bool {
        self.is_by_kernel() && tcp_info(self.socket).is_ok_and(|tcp| tcp.acknowledged_bytes > bytes)
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(Encryption::Here(tls)) => tls.read(into),
            Some(Encryption::Kernel) => match (&mut &*self.socket).read(into) {
                // A record that is not data: the client's goodbye, or new keys, which end the connection, too.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(0),
                read => read,
            },
            None => (&mut &*self.socket).read(into),
        }
    }

    /// What goes without a wait; a wait for as long as the socket has one where this program encrypts. `more`: something
    /// follows at once.
    pub(super) fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        match &self.tls {
            Some(Encryption::Here(tls)) => tls.write(bytes),
            _ => {
                let flags = MSG_NOSIGNAL | MSG_DONTWAIT | if more { MSG_MORE } else { 0 };
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

/// Of one server.
#[derive(Debug)]
pub(super) struct KernelTls {
    /// What it encrypts with.
    ciphers: Vec<RecordCipher>,
    /// Why records are encrypted in this program; none: the kernel does it.
    why_not: Mutex<Option<String>>,
}

impl KernelTls {
    /// Tried once, where it is of use.
    pub(super) fn new(settings: &FileServerSettings) -> Self {
        let ciphers = match (&settings.tls, settings.writable.is_some()) {
            (None, _) => Ok(Vec::new()),
            // A client that sends much changes its keys, which the kernels of today do not follow.
            (_, true) => Err("a server that takes files follows its clients' changes of keys".into()),
            (_, false) => kernel_tls::ciphers().map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => "this kernel has no TLS: modprobe tls".into(),
                _ => format!("this kernel does not: {error}"),
            }),
        };
        let (ciphers, why_not) = match ciphers {
            Ok(ciphers) => (ciphers, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        KernelTls { ciphers, why_not: Mutex::new(why_not) }
    }

    /// In words; none: the kernel encrypts.
    pub(super) fn why_not(&self) -> Option<String> {
        lock(&self.why_not).clone()
    }

    /// None where there is no connection.
    pub(super) fn begin<'a>(&self, handshake: Handshake, socket: &'a TcpStream) -> Option<Encryption<'a>> {
        let by_kernel = if lock(&self.why_not).is_none() { &self.ciphers[..] } else { &[] };
        match handshake.finish(socket, by_kernel) {
            Ok(encryption) => Some(encryption),
            Err(error) => {
                tracing::debug!(%error, "TLS");
                // This connection is lost, for its keys are; the next ones need not be.
                if let HandshakeError::Kernel(why) = error {
                    *lock(&self.why_not) =
                        Some(format!("this kernel did not take the keys of a connection: {why}"));
                }
                None
            }
        }
    }
}

/// A reply that is not a file has to be taken within this, where the program encrypts.
const REPLY_TIME: Duration = Duration::from_secs(30);

/// The client may send its body.
pub(super) fn send_interim(stream: &ServedStream<'_>, shared: &Shared<'_>) -> io::Result<()> {
    send_all(stream, b"HTTP/1.1 100 Continue\r\n\r\n", false, shared)
}

/// All of it, by a thread that waits for the client. `more`: something follows at once.
pub(super) fn send_all(
    stream: &ServedStream<'_>,
    bytes: &[u8],
    more: bool,
    shared: &Shared<'_>,
) -> io::Result<()> {
    let patience = clock::now() + REPLY_TIME;
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.send(rest, more) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => rest = &rest[sent..],
            Err(error) if is_waiting(&error) => {
                if clock::now() > patience || shared.stop.is_ended() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let left = patience.saturating_duration_since(clock::now());
                shared.stop.wait_writable(stream.socket, Some(left))?;
            }
            Err(error) => return Err(error),
        }
    }
    flush(stream, patience, shared)
}

/// What TLS has taken goes to the kernel.
pub(super) fn flush(stream: &ServedStream<'_>, patience: Instant, shared: &Shared<'_>) -> io::Result<()> {
    loop {
        match stream.flush() {
            Err(error) if is_waiting(&error) && clock::now() < patience && !shared.stop.is_ended() => {}
            flushed => return flushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    /// Both ends of a connection; what the first one sends is read by the test.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        (listener.accept().expect("accepted").0, client)
    }

    /// By what its peer has acknowledged, as many bytes as this.
    fn sent(stream: &ServedStream<'_>, client: &mut TcpStream, mut bytes: usize) {
        let begun = Instant::now();
        let before = tcp_info(stream.socket).expect("its state").acknowledged_bytes;
        let wanted = before + bytes as u64;
        while bytes > 0 {
            let now = stream.send(&vec![7; bytes.min(16 << 10)], false).expect("sent");
            client.read_exact(&mut vec![0; now]).expect("read");
            bytes -= now;
        }
        while tcp_info(stream.socket).expect("its state").acknowledged_bytes < wanted {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody acknowledges it");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn keys_that_the_kernel_holds_begin_no_answer_and_then_send_nothing_more() {
        let (server, mut client) = connection();
        let stream = ServedStream::with_keys_for(&server, 100_000, 200_000);
        for (used_up, spent) in [(false, false), (true, false), (true, false), (true, true)] {
            sent(&stream, &mut client, 60_000);
            assert_eq!((stream.keys_are_used_up(), stream.keys_are_spent()), (used_up, spent));
        }
        // In the clear there are no keys.
        let stream = ServedStream { tls: None, ..stream };
        assert!(!stream.keys_are_used_up() && !stream.keys_are_spent());
    }
}
