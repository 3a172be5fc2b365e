//! The sending end of a TCP stream: paces where a rate is asked, hands bytes over by the chosen method, ends
//! in order.

use super::content::Position;
use super::hand::Hand;
use super::tcp_view::TcpView;
use super::{
    Content, CpuClock, STOP_CHECK, StreamCounters, StreamSpec, bump, is_waiting, other_end_gone, prepare,
};
use crate::pace::{Pace, spread_by_kernel};
use linerate_system::{affinity, connection};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What was sent is waited for so long at the end, so that the last view has all of it: within the second in
/// which Ctrl-C ends.
const SETTLE_WAIT: Duration = Duration::from_millis(300);
/// A receiver that acknowledges nothing for this long is gone (TCP_USER_TIMEOUT, tcp(7)).
const PATIENCE: Duration = Duration::from_secs(20);
/// The least that a paced sender hands over at once: below a large segment each call would cost more than its
/// bytes.
const LEAST_BURST_BYTES: usize = 16 << 10;

/// Sends until the limit, or `stop`.
pub(super) fn send(
    spec: &StreamSpec,
    stream: &TcpStream,
    content: Content,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    if let Some(name) = &spec.congestion_control {
        prepare::set_congestion_control(&socket, name)?;
    }
    let _ = socket.set_tcp_user_timeout(Some(PATIENCE));
    if let Some(rate) = spec.bytes_per_second {
        // Best effort: the rate is kept without it.
        let _ = spread_by_kernel(stream, rate);
        affinity::wake_on_time();
    }
    if let (None, Some(rate)) = (spec.bytes_per_second, spec.pacing_bytes_per_second) {
        // Best effort: what a queue drops then is sent again.
        let _ = connection::set_pacing_rate(stream, rate.max(1.0) as u64);
    }
    let (hand, round_bytes) = Hand::new(spec, stream, &content)?;
    let position = Position::new(spec, &content, round_bytes)?;
    let mut view = TcpView::new(stream, counters);
    let mut sender = Sender { spec, counters, stop, clock, view: &mut view, hand, position };
    let result = sender.run();
    sender.hand.finish(counters);
    // The receiver learns of the end when it has taken all that came before.
    let _ = stream.shutdown(Shutdown::Write);
    let patience = Instant::now() + SETTLE_WAIT;
    while result.is_ok()
        && connection::unacknowledged_bytes(stream).is_ok_and(|bytes| bytes > 0)
        && Instant::now() < patience
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    view.store();
    result
}

struct Sender<'a, 'b> {
    spec: &'a StreamSpec,
    counters: &'a StreamCounters,
    stop: &'a AtomicBool,
    clock: &'a mut CpuClock,
    view: &'a mut TcpView<'b>,
    hand: Hand<'b>,
    position: Position,
}

impl Sender<'_, '_> {
    fn run(&mut self) -> io::Result<()> {
        let mut digest = self.spec.verify.then(|| crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme));
        let result = self.send_all(digest.as_mut());
        if let Some(digest) = digest {
            self.counters.checksum.store(digest.finalize(), Ordering::Relaxed);
        }
        result
    }

    fn send_all(&mut self, mut digest: Option<&mut crc_fast::Digest>) -> io::Result<()> {
        let mut pace = self.spec.bytes_per_second.map(|rate| Pace::new(rate, Instant::now()));
        let most = self.hand.most_bytes();
        let burst = pace.as_ref().map_or(most, |pace| pace.burst_bytes(LEAST_BURST_BYTES.min(most), most));
        while !self.stop.load(Ordering::Relaxed) {
            let wait = pace.as_ref().map_or(Duration::ZERO, |pace| pace.wait(Instant::now()));
            if !wait.is_zero() {
                std::thread::sleep(wait.min(STOP_CHECK));
                self.tick();
                continue;
            }
            let Some((at, bytes)) = self.position.next(burst) else { break };
            match self.hand.send(at, bytes) {
                Ok(sent) => {
                    if let Some(digest) = &mut digest {
                        self.hand.digest(digest, at, sent)?;
                    }
                    self.hand.sent(sent);
                    self.position.sent(sent);
                    self.counters.progress.add(sent as u64);
                    bump(&self.counters.calls, 1);
                    if let Some(pace) = &mut pace {
                        pace.sent(sent, Instant::now());
                    }
                }
                Err(error) if is_waiting(&error) => {}
                Err(error) if other_end_gone(&error) && self.stop.load(Ordering::Relaxed) => break,
                Err(error) => return Err(explained(error)),
            }
            self.tick();
        }
        Ok(())
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.clock.tick(now, &self.counters.cpu_nanos);
        self.view.tick(now);
        self.hand.tell(self.counters);
    }
}

fn explained(error: io::Error) -> io::Error {
    let text = match error.kind() {
        io::ErrorKind::TimedOut => {
            "the receiver has acknowledged nothing for 20 s: is its host up, the link plugged in and its \
             agent running?"
                .to_string()
        }
        _ if other_end_gone(&error) => {
            format!("the receiver closed the connection before the end: {error}; did its agent stop?")
        }
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}
