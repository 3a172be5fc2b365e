//! What the other host has of the bytes that a stream sends, as it comes to be known.

use crate::stream_windows::{ALONE_BYTES, StreamWindows};
use linerate_system::clock;
use std::time::{Duration, Instant};

/// The first bytes that a stream sends go into buffers on the way, whatever the other host takes.
const BUFFER_FILL_TIME: Duration = Duration::from_millis(50);

/// What the other host has of the bytes that a stream sends, as it comes to be known: in steps, where its window is full
/// and opens by a part of its buffer at a time.
pub(crate) struct SentBytes<'a> {
    windows: &'a StreamWindows,
    /// When the first bytes of this body went out.
    first: Instant,
    /// Of the connection at hand, when it was looked last.
    acknowledged: u64,
    /// Of this body, before the windows count it.
    filled: u64,
    is_counted: bool,
}

impl<'a> SentBytes<'a> {
    pub(crate) fn new(windows: &'a StreamWindows) -> Self {
        SentBytes { windows, first: clock::now(), acknowledged: 0, filled: 0, is_counted: false }
    }

    /// A body follows on a connection of which so much is acknowledged.
    pub(crate) fn begin(&mut self, acknowledged: u64) {
        self.end();
        (self.first, self.acknowledged, self.filled) = (clock::now(), acknowledged, 0);
    }

    /// The last bytes of the body are on their way.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.windows.stream_ended();
        }
    }

    /// So much is acknowledged now; a window ends with a step.
    pub(crate) fn acknowledged_now(&mut self, acknowledged: u64) {
        let came = acknowledged.saturating_sub(std::mem::replace(&mut self.acknowledged, acknowledged));
        self.filled += came;
        match came {
            0 => {}
            _ if self.is_counted => self.windows.add_bytes(came),
            _ if clock::since(self.first) >= BUFFER_FILL_TIME => {
                self.is_counted = true;
                self.windows.stream_started();
            }
            _ if self.filled >= ALONE_BYTES => self.windows.let_others_start(),
            _ => {}
        }
    }
}

impl Drop for SentBytes<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;

    /// A stream alone whose server takes 5 MB/s in steps, then two; looked at every 100 ms.
    #[test]
    fn what_fills_buffers_on_the_way_is_in_no_window_of_a_sender() {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let windows = StreamWindows::new(true);
        let looks = |streams: &mut [SentBytes<'_>]| {
            streams.iter_mut().for_each(|stream| stream.begin(1_000));
            let mut acknowledged = 1_000;
            for came in [3_000_000, 0, 1_000_000, 500_000, 500_000] {
                clock.advance(Duration::from_millis(100));
                acknowledged += came;
                streams.iter_mut().for_each(|stream| stream.acknowledged_now(acknowledged));
            }
        };
        looks(&mut [SentBytes::new(&windows)]);
        windows.wait_for_first(|| panic!("three windows"));
        looks(&mut [SentBytes::new(&windows), SentBytes::new(&windows)]);
        let shown = windows.windows();
        let rates =
            shown.iter().map(|window| (window.streams, (window.bytes as f64 / window.seconds / 1e6).round()));
        let expected = [(1, 5.0), (1, 5.0), (1, 5.0), (2, 5.0), (2, 15.0), (2, 10.0)];
        assert_eq!(rates.collect::<Vec<_>>(), expected, "{shown:?}");
    }
}
