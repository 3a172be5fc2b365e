//! TCP data: blocks from memory out, and whatever comes in.
//!
//! Blocks go out as pages of a file in memory (sendfile): between two cores that moves half as much again as
//! copying them (measured against Debian's server: 13 and 9 Gb/s on a busy machine, 15 with blocks of 256
//! KiB), and is what iperf3 does with `-Z`.

use super::data_stream::Iperf3StreamSpec;
use super::flags::Flags;
use super::tally::Tally;
use super::udp::payload;
use linerate_system::handover::{memory_file, send_file};
use linerate_system::readiness::is_waiting;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A blocked call looks at its flag this often.
const LOOK: Duration = Duration::from_millis(50);
/// Less than a segment at once would only cost calls.
const LEAST_WRITE: usize = 1448;

/// Pages are handed over where a block is at least this large; below it, looking them up costs more than
/// copying.
const LEAST_PAGES: usize = 64 << 10;

/// What is sent, over and over.
enum Source {
    /// Pages of a file in memory, which sendfile hands to the socket without copying them.
    Pages(File),
    Memory(Vec<u8>),
}

impl Source {
    fn new(bytes: usize) -> Source {
        let block = payload(bytes);
        match memory_file(&block) {
            Ok(file) if bytes >= LEAST_PAGES => Source::Pages(file),
            _ => Source::Memory(block),
        }
    }

    /// At most `bytes`, which is no more than a block.
    fn send(&self, mut stream: &TcpStream, bytes: usize) -> io::Result<usize> {
        match self {
            Source::Pages(file) => send_file(&stream, file, 0, bytes),
            Source::Memory(block) => stream.write(&block[..bytes]),
        }
    }
}

/// Sends until it is told to stop, or the bytes asked for are sent. An error says what ended it before.
pub(crate) fn send(
    stream: &TcpStream,
    order: &Iperf3StreamSpec,
    flags: &Flags,
    tally: &Tally,
) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let source = Source::new(order.block_bytes);
    let mut pace = order.pace();
    let most = pace.as_ref().map_or(order.block_bytes, |pace| pace.burst_bytes(LEAST_WRITE, 1 << 20));
    let most = most.min(order.block_bytes);
    while !flags.stop_sending() {
        let wait = pace.as_ref().map_or(Duration::ZERO, |pace| pace.wait(Instant::now()));
        if !wait.is_zero() {
            std::thread::sleep(wait.min(LOOK));
            continue;
        }
        let wish = flags.take(most);
        if wish == 0 {
            break;
        }
        let sent = match source.send(stream, wish) {
            Ok(sent) => sent,
            Err(error) if is_waiting(&error) => 0,
            Err(error) => return Err(error),
        };
        flags.give_back(wish - sent);
        if sent == 0 {
            continue;
        }
        tally.progress.add(sent as u64);
        if let Some(pace) = &mut pace {
            pace.sent(sent, Instant::now());
        }
    }
    Ok(())
}

/// Takes until it is told to stop, or the other end has sent all.
pub(crate) fn receive(
    mut stream: &TcpStream,
    order: &Iperf3StreamSpec,
    flags: &Flags,
    tally: &Tally,
) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let most =
        order.receive_pace.as_ref().map_or(usize::MAX, |pace| (pace.bytes_per_second() / 1e3) as usize);
    let mut block = vec![0; order.block_bytes.min(most.max(4 << 10))];
    while !flags.stop_receiving() {
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(count) => {
                tally.progress.add(count as u64);
                if let Some(pace) = &order.receive_pace {
                    pace.charge(count as u64, Instant::now());
                    pace.sleep_off(|| flags.stop_receiving());
                }
            }
            Err(error) if is_waiting(&error) => {}
            // The other end closed while something of our own was on its way: it has sent what it had.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && flags.ending() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
