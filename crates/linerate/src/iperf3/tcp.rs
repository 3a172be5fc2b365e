//! TCP data: blocks from memory out, and whatever comes in.

use super::control::later;
use super::crew::{Flags, Order};
use super::pace::{Next, Pace, wait};
use super::tally::Tally;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A blocked call looks at its flag this often.
const LOOK: Duration = Duration::from_millis(50);
/// A paced sender writes what is due in this time at once.
const BURST: Duration = Duration::from_millis(1);
/// Less than a segment at once would only cost calls.
const LEAST_WRITE: usize = 1448;

/// Sends until it is told to stop, or the bytes asked for are sent. An error says what ended it before.
pub fn send(mut stream: &TcpStream, order: &Order, flags: &Flags, tally: &Tally) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let block = super::udp::payload(order.block_bytes);
    let mut pace = Pace::new(order.bits_per_second, Instant::now());
    let most = pace.as_ref().map_or(block.len(), |pace| pace.bytes_in(BURST).clamp(LEAST_WRITE, 1 << 20));
    let most = most.min(block.len());
    while !flags.stop_sending() {
        if let Some(pace) = &mut pace
            && let Next::Wait(time) = pace.next(Instant::now())
        {
            wait(time);
            continue;
        }
        let wish = flags.take(most);
        if wish == 0 {
            break;
        }
        let sent = match stream.write(&block[..wish]) {
            Ok(sent) => sent,
            Err(error) if later(&error) => 0,
            Err(error) => return Err(error),
        };
        flags.give_back(wish - sent);
        tally.progress.add(sent as u64);
        if let Some(pace) = &mut pace {
            pace.sent(sent, Instant::now());
        }
    }
    Ok(())
}

/// Takes until it is told to stop, or the other end has sent all.
pub fn receive(mut stream: &TcpStream, order: &Order, flags: &Flags, tally: &Tally) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut block = vec![0; order.block_bytes];
    while !flags.stop_receiving() {
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(count) => tally.progress.add(count as u64),
            Err(error) if later(&error) => {}
            // The other end closed while something of ours was on its way: it has sent what it had.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && flags.ending() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
