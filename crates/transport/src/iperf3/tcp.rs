//! TCP data: blocks from memory out, and whatever comes in.
//!
//! Blocks go out as pages of a file in memory (sendfile): between two cores that moves half as much again as
//! copying them (measured against Debian's server: 13 and 9 Gb/s on a busy machine, 15 with blocks of 256
//! KiB), and is what iperf3 does with `-Z`.

use super::data_stream::Iperf3StreamSpec;
use super::flags::Flags;
use super::tally::Iperf3Tally;
use crate::flow::counters::IncomingCounts;
use crate::flow::receive::{READ_BYTES, Terms, take};
use crate::flow::stream::{
    Content, Hand, Position, SendAccount, SendMethod, StreamRole, StreamSpec, send_all,
};
use linerate_facts::protocol::Protocol;
use linerate_system::clock::POLL_INTERVAL;
use linerate_system::stop::Stop;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;

/// Less than a segment at once would only cost calls.
const LEAST_WRITE: usize = 1448;

/// Pages are handed over where a block is at least this large; below it, looking them up costs more than
/// copying.
const LEAST_PAGES: usize = 64 << 10;

/// Sends until it is told to stop, or the bytes asked for are sent. An error says what ended it before.
pub(crate) fn send(
    stream: &TcpStream,
    stream_spec: &Iperf3StreamSpec,
    flags: &Flags,
    tally: &Iperf3Tally,
) -> io::Result<()> {
    stream.set_write_timeout(Some(POLL_INTERVAL))?;
    let block_bytes = stream_spec.block_bytes;
    let of = |method| {
        let write_bytes = u32::try_from(block_bytes).unwrap_or(u32::MAX);
        let spec = StreamSpec { method, write_bytes, ..StreamSpec::new(Protocol::Tcp, StreamRole::Send) };
        let (hand, round_bytes) = Hand::new(&spec, stream, &Content::Memory)?;
        Ok((hand, Position::new(&spec, &Content::Memory, round_bytes)?))
    };
    let pages = if block_bytes >= LEAST_PAGES { SendMethod::Sendfile } else { SendMethod::Write };
    // A host may refuse files in memory.
    let (mut hand, position) = of(pages).or_else(|_: io::Error| of(SendMethod::Write))?;
    let mut account = TestAccount { flags, tally, position, block_bytes };
    send_all(&mut hand, &mut account, stream_spec.pace(), LEAST_WRITE, None)
}

/// All streams of a test share the bytes that may be sent.
struct TestAccount<'a> {
    flags: &'a Flags,
    tally: &'a Iperf3Tally,
    position: Position,
    block_bytes: usize,
}

impl SendAccount for TestAccount<'_> {
    fn next(&mut self, most: usize) -> Option<(u64, usize)> {
        let (at, bytes) = self.position.next(most.min(self.block_bytes))?;
        Some((at, self.flags.take(bytes))).filter(|(_, bytes)| *bytes > 0)
    }

    fn sent(&mut self, next: usize, sent: usize) {
        self.flags.give_back(next - sent);
        if sent > 0 {
            self.position.sent(sent);
            self.tally.progress.add(sent as u64);
        }
    }

    fn stop(&self) -> &Stop {
        &self.flags.sending
    }
}

/// Takes until it is told to stop, or the other end has sent all.
pub(crate) fn receive(
    mut stream: &TcpStream,
    spec: &Iperf3StreamSpec,
    flags: &Flags,
    tally: &Iperf3Tally,
) -> io::Result<()> {
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    let terms = Terms { pace: spec.receive_pace.clone(), ..Terms::default() };
    let unread = AtomicU64::new(0);
    let counts = IncomingCounts::of_stream(&tally.progress, &unread, &unread);
    let mut block = vec![0; spec.block_bytes.min(READ_BYTES)];
    match take(&mut stream, &mut block, &terms, counts, &flags.receiving) {
        // The other end closed while something of our own was on its way: it has sent what it had.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset && flags.sending.is_ended() => Ok(()),
        taken => taken,
    }
}
