//! What is no file goes out: all of it, by a thread that waits for the client.

use super::Shared;
use super::served_stream::ServedStream;
use linerate_system::clock;
use linerate_system::readiness::is_waiting;
use std::io;
use std::time::{Duration, Instant};

/// A reply that is no file has to be taken within this, where the program encrypts.
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
