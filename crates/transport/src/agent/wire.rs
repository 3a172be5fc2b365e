//! The outermost layer: how a connection opens, and reads and writes that end at a deadline, however slowly
//! the bytes drip.

use linerate_system::clock;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// First bytes of a control connection; the digit is the version of the framing.
pub const CONTROL_MAGIC: [u8; 4] = *b"LRc1";

/// First bytes of a data connection; a token of 32 bytes follows.
pub const DATA_MAGIC: [u8; 4] = *b"LRd1";

/// What the agent answers to a data connection that it admitted (ASCII ACK).
pub(crate) const ADMITTED: u8 = 0x06;

/// A stream whose reads and writes together end at a deadline.
///
/// A timeout of the socket alone starts again with each byte, so that one byte a second would hold a thread
/// for ever.
pub struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineStream<'a> {
    /// Everything through this value ends within `time`.
    pub fn new(stream: &'a TcpStream, time: Duration) -> Self {
        DeadlineStream::until(stream, clock::now() + time)
    }

    /// Everything through this value ends at `deadline`.
    pub fn until(stream: &'a TcpStream, deadline: Instant) -> Self {
        DeadlineStream { stream, deadline }
    }

    fn remaining(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(clock::now());
        // The kernel takes microseconds, and 0 means "for ever".
        if left < Duration::from_micros(1) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer).map_err(timed_out)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(buffer).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dripping_bytes_do_not_move_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let dripper = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("a connection");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let (stream, _) = listener.accept().expect("a connection");
        let began = Instant::now();
        let mut buffer = [0; 1 << 20];
        let error = DeadlineStream::new(&stream, Duration::from_millis(300))
            .read_exact(&mut buffer)
            .expect_err("late");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(stream);
        dripper.join().expect("the dripper ends");
    }
}
