//! The receiving end of a TCP stream: takes the bytes until the sender ends it.

use super::super::receive::broken_stream;
use super::tcp_view::TcpView;
use super::{CpuClock, StreamCounters, StreamSpec, bump, is_waiting};
use linerate_system::buffers::Pool;
use linerate_system::socket;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes a read, and what a sleeping receiver waits for: large enough that calls and waking up do not cost, small enough
/// that the blocks of a few streams stay in one core's second-level cache. Reads of 512 KiB, woken at 256 KiB too, let one
/// stream over a veth carry half of it (bench/README.md): its sender's core does TCP's work for a receiver that sleeps.
const READ_BYTES: usize = 256 << 10;

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
        // Waking up for each segment costs a receiver more than copying it (SO_RCVLOWAT, socket(7)).
        let _ = socket::set_receive_low_water(stream, READ_BYTES);
    }
    let mut pool = Pool::new(1, READ_BYTES)?;
    let Some(mut lease) = pool.take() else { return Err(io::ErrorKind::OutOfMemory.into()) };
    let buffer = lease.bytes_mut();
    let mut digest = spec.verify.then(|| crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme));
    let mut view = TcpView::new(stream, counters);
    let mut reader = stream;
    let result = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        let taken = if discards { socket::discard(stream, READ_BYTES) } else { reader.read(buffer) };
        match taken {
            Ok(0) => break Ok(()),
            Ok(length) => {
                if let Some(digest) = &mut digest {
                    digest.update(&buffer[..length]);
                }
                counters.progress.add(length as u64);
                bump(&counters.calls, 1);
            }
            Err(error) if is_waiting(&error) => {}
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
