//! The kernel's view of a stream's TCP connection, looked at some times a second.

use super::{StreamCounters, TcpSample};
use linerate_system::clock;
use linerate_system::connection;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(200);

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
        if now.saturating_duration_since(self.last) >= EVERY {
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
