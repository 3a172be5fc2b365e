//! The sending end of a TCP stream: paces where a rate is asked, hands bytes over by the chosen method, ends
//! in order; and the kernel's view of its connection, looked at some times a second.

use super::hand::{Hand, Position};
use super::{
    RECEIVER_TIMEOUT, StreamCounters, StreamThread, TcpSample, bump, is_waiting, other_end_gone,
    receiver_silent, spec,
};
use crate::pace::{Pace, spread_by_kernel};
use linerate_sums::{Crc, CrcAlgorithm};
use linerate_system::stop::Stop;
use linerate_system::{affinity, clock, connection};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What was sent is waited for so long at the end, so that the last view has all of it: within the second in
/// which Ctrl-C ends.
const SETTLE_WAIT: Duration = Duration::from_millis(300);
/// The least that a paced sender hands over at once: below a large segment each call would cost more than its
/// bytes.
const LEAST_BURST_BYTES: usize = 16 << 10;

/// Sends until the limit, or the stop.
pub(super) fn send(thread: &mut StreamThread<'_>, stream: &TcpStream) -> io::Result<()> {
    let StreamThread { spec, content, counters, .. } = *thread;
    let socket = socket2::SockRef::from(stream);
    if let Some(name) = &spec.congestion_control {
        spec::set_congestion_control(&socket, name)?;
    }
    let _ = socket.set_tcp_user_timeout(Some(RECEIVER_TIMEOUT));
    if let Some(rate) = spec.bytes_per_second {
        // Best effort: the rate is kept without it.
        let _ = spread_by_kernel(stream, rate);
        affinity::wake_on_time();
    }
    if let (None, Some(rate)) = (spec.bytes_per_second, spec.pacing_bytes_per_second) {
        // Best effort: what a queue drops then is sent again.
        let _ = connection::set_pacing_rate(stream, rate.max(1.0) as u64);
    }
    let (mut hand, round_bytes) = Hand::new(spec, stream, content)?;
    let position = Position::new(spec, content, round_bytes)?;
    let view = TcpView::new(stream, counters);
    let mut account = StreamAccount { thread, view, position };
    let mut digest = spec.verify.then(|| Crc::new(CrcAlgorithm::Crc64Nvme));
    let pace = spec.bytes_per_second.map(|rate| Pace::new(rate, clock::now()));
    let result =
        send_all(&mut hand, &mut account, pace, LEAST_BURST_BYTES, digest.as_mut()).map_err(receiver_named);
    if let Some(digest) = digest {
        counters.checksum.store(digest.finalize(), Ordering::Relaxed);
    }
    hand.finish(counters);
    // The receiver learns of the end when it has taken all that came before.
    let _ = stream.shutdown(Shutdown::Write);
    let patience = clock::now() + SETTLE_WAIT;
    while result.is_ok()
        && connection::unacknowledged_bytes(stream).is_ok_and(|bytes| bytes > 0)
        && clock::now() < patience
    {
        // The stream has ended, by a stop perhaps: its last bytes are acknowledged all the same.
        clock::sleep(Duration::from_millis(1));
    }
    account.view.store();
    result
}

/// How much is sent, and who counts it.
pub(crate) trait SendAccount {
    /// Where in the content the next bytes are, and how many, at most `most`; none: all were sent.
    fn next(&mut self, most: usize) -> Option<(u64, usize)>;

    /// Of those that were next so many were sent, maybe none.
    fn sent(&mut self, next: usize, sent: usize);

    /// Nothing more is to be sent once it has ended.
    fn stop(&self) -> &Stop;

    /// A call, or a while of waiting, is over.
    fn tick(&mut self, _hand: &Hand<'_>) {}
}

/// The one loop that sends a stream of bytes over TCP, by whichever method: until all were sent, or until its stop.
pub(crate) fn send_all(
    hand: &mut Hand<'_>,
    account: &mut impl SendAccount,
    mut pace: Option<Pace>,
    least_burst_bytes: usize,
    mut digest: Option<&mut Crc>,
) -> io::Result<()> {
    let most = hand.most_bytes();
    let burst = pace.as_ref().map_or(most, |pace| pace.burst_bytes(least_burst_bytes.min(most), most));
    while !account.stop().is_ended() {
        if pace.as_ref().is_some_and(|pace| pace.slept(account.stop())) {
            account.tick(hand);
            continue;
        }
        let Some((at, bytes)) = account.next(burst) else { break };
        let sent = match hand.send(at, bytes, digest.as_deref_mut()) {
            Ok(sent) => sent,
            Err(error) if is_waiting(&error) => 0,
            Err(error) if other_end_gone(&error) && account.stop().is_ended() => break,
            Err(error) => return Err(error),
        };
        account.sent(bytes, sent);
        if let Some(pace) = pace.as_mut().filter(|_| sent > 0) {
            pace.sent(sent, clock::now());
        }
        account.tick(hand);
    }
    Ok(())
}

/// A stream's own.
struct StreamAccount<'a, 'b> {
    thread: &'a mut StreamThread<'b>,
    view: TcpView<'a>,
    position: Position,
}

impl SendAccount for StreamAccount<'_, '_> {
    fn next(&mut self, most: usize) -> Option<(u64, usize)> {
        self.position.next(most)
    }

    fn sent(&mut self, _: usize, sent: usize) {
        if sent > 0 {
            self.position.sent(sent);
            self.thread.counters.progress.add(sent as u64);
            bump(&self.thread.counters.calls, 1);
        }
    }

    fn stop(&self) -> &Stop {
        self.thread.stop
    }

    fn tick(&mut self, hand: &Hand<'_>) {
        let now = clock::now();
        self.thread.tick(now);
        self.view.tick(now);
        hand.tell(self.thread.counters);
    }
}

fn receiver_named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::TimedOut => receiver_silent("acknowledged"),
        kind if other_end_gone(&error) => {
            let text =
                format!("the receiver closed the connection before the end: {error}; did its agent stop?");
            io::Error::new(kind, text)
        }
        _ => error,
    }
}

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks at one connection.
#[derive(Debug)]
pub(super) struct TcpView<'a> {
    stream: &'a TcpStream,
    counters: &'a StreamCounters,
    congestion_control: String,
    last: Instant,
}

impl<'a> TcpView<'a> {
    pub(super) fn new(stream: &'a TcpStream, counters: &'a StreamCounters) -> Self {
        let view =
            TcpView { stream, counters, congestion_control: congestion_control(stream), last: clock::now() };
        view.store();
        view
    }

    /// Looks when it is time to.
    pub(super) fn tick(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) >= LOOK_EVERY {
            self.last = now;
            self.store();
        }
    }

    /// Looks now.
    pub(super) fn store(&self) {
        let Some(sample) = TcpSample::of(self.stream, &self.congestion_control) else { return };
        if let Ok(mut tcp) = self.counters.tcp.lock() {
            *tcp = Some(sample);
        }
    }
}

/// Its congestion control; empty where the kernel does not report.
pub(crate) fn congestion_control(stream: &TcpStream) -> String {
    let name = socket2::SockRef::from(stream).tcp_congestion().unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

impl TcpSample {
    /// As it is now; none where the kernel does not report.
    pub(crate) fn of(stream: &TcpStream, congestion_control: &str) -> Option<TcpSample> {
        let view = connection::view(stream).ok()?;
        let info = &view.info;
        Some(TcpSample {
            retransmits: info.retransmits.into(),
            rtt_micros: info.rtt_us,
            rtt_variation_micros: view.rtt_variation_us,
            // Unmeasured: all ones (struct minmax, include/linux/win_minmax.h).
            min_rtt_micros: if view.min_rtt_us == u32::MAX { 0 } else { view.min_rtt_us },
            congestion_window_bytes: u64::from(view.congestion_window_segments)
                * u64::from(info.segment_bytes),
            send_window_bytes: view.send_window_bytes.into(),
            delivery_rate: view.delivery_rate,
            busy_micros: info.busy_us,
            receiver_limited_micros: info.receiver_limited_us,
            send_buffer_limited_micros: info.send_buffer_limited_us,
            segment_bytes: info.segment_bytes,
            path_mtu: view.path_mtu,
            congestion_control: congestion_control.into(),
        })
    }
}
