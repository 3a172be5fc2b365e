//! The kernel's view of a stream's TCP connection, looked at some times a second.

use super::{StreamCounters, TcpSample};
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
        let name = socket2::SockRef::from(stream).tcp_congestion().unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_string();
        let view = TcpView { stream, counters, congestion_control: name, last: Instant::now() };
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
        let Ok(view) = connection::view(self.stream) else { return };
        let sample = TcpSample {
            retransmits: u64::from(view.info.retransmits),
            rtt_micros: view.info.rtt_us,
            rtt_variation_micros: view.rtt_variation_us,
            // The kernel says all ones while it has not measured any.
            min_rtt_micros: if view.min_rtt_us == u32::MAX { 0 } else { view.min_rtt_us },
            congestion_window_bytes: u64::from(view.congestion_window_segments)
                * u64::from(view.info.segment_bytes),
            send_window_bytes: u64::from(view.send_window_bytes),
            delivery_rate: view.delivery_rate,
            busy_micros: view.info.busy_us,
            receiver_limited_micros: view.info.receiver_limited_us,
            send_buffer_limited_micros: view.info.send_buffer_limited_us,
            segment_bytes: view.info.segment_bytes,
            path_mtu: view.path_mtu,
            congestion_control: self.congestion_control.clone(),
        };
        if let Ok(mut tcp) = self.counters.tcp.lock() {
            *tcp = Some(sample);
        }
    }
}
