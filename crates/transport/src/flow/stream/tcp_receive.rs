//! The receiving end of a TCP stream: takes the bytes until the sender ends it.

use super::super::receive::{TCP_READ_BYTES, broken_stream, wake_seldom};
use super::tcp_view::TcpView;
use super::{CpuClock, StreamCounters, StreamSpec, bump, only_waiting};
use linerate_system::buffers::Pool;
use linerate_system::socket;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Receives until the other end's end, or `stop`.
pub(super) fn receive(
    spec: &StreamSpec,
    stream: &TcpStream,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    let discards = spec.discard && !spec.verify;
    // Nothing is copied, so that waking up costs little, and while a receiver sleeps the sender's core may have to do TCP's
    // work for it: a tenth of the rate on loopback.
    if !discards {
        wake_seldom(stream);
    }
    let mut pool = Pool::new(1, TCP_READ_BYTES)?;
    let Some(mut lease) = pool.take() else { return Err(io::ErrorKind::OutOfMemory.into()) };
    let buffer = lease.bytes_mut();
    let mut digest = spec.verify.then(|| crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme));
    let mut view = TcpView::new(stream, counters);
    let mut reader = stream;
    let result = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        let taken = if discards { socket::discard(stream, TCP_READ_BYTES) } else { reader.read(buffer) };
        match taken {
            Ok(0) => break Ok(()),
            Ok(length) => {
                if let Some(digest) = &mut digest {
                    digest.update(&buffer[..length]);
                }
                counters.progress.add(length as u64);
                bump(&counters.calls, 1);
            }
            Err(error) if only_waiting(&error) => {}
            Err(error) => break Err(broken_stream(error)),
        }
        let now = Instant::now();
        clock.tick(now, &counters.cpu_nanos);
        view.tick(now);
    };
    if let Some(digest) = digest {
        counters.checksum.store(digest.finalize(), Ordering::Relaxed);
    }
    view.store();
    result
}
