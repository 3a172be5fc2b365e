//! When a frame is due.
//!
//! A server of our own sends the start of a tick as timestamp, and a screen shows the frame a latency later
//! on its own clock: so all tiles show it at the same moment. Other senders begin at a random number (RFC
//! 3550, 5.1). Then time counts from the arrival of the first frame, and follows the sender's clock slowly.

use crate::geometry::FrameRate;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A timestamp further from now is none of our clock's, nanoseconds.
const FAR: i64 = 2_000_000_000;
/// The clock of RTP video (RFC 3551).
const RTP_HERTZ: i128 = 90_000;
const NANOS: i128 = 1_000_000_000;
/// An arrival moves the time that is counted from arrivals by this part of its difference: two clocks drift
/// apart by less.
const FOLLOW: i64 = 32;
/// A frame that comes so much later than was expected moves it at once: its sender stood still (GStreamer
/// does, after its first frame), and those behind it will be as late.
const STOOD_STILL: i64 = 10_000_000;

/// Nanoseconds since 1970; enough until 2262.
pub(crate) fn nanos(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(i64::MAX)
}

/// The time from which frames are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// No frame came yet.
    Unknown,
    /// Timestamps are times of our clock.
    Clock,
    /// They are not: so many nanoseconds lie between.
    Arrival { offset: i64 },
}

/// When the frames of one stream are due.
#[derive(Debug)]
pub(crate) struct Deadlines {
    rate: Option<FrameRate>,
    latency: i64,
    timing: Timing,
}

impl Deadlines {
    /// Frames are shown `latency` after the start of their tick.
    pub(crate) fn new(rate: Option<FrameRate>, latency: Duration) -> Deadlines {
        let latency = i64::try_from(latency.as_nanos()).unwrap_or(i64::MAX / 4);
        Deadlines { rate, latency, timing: Timing::Unknown }
    }

    /// The first datagram of a frame arrived: the start of its tick, nanoseconds since 1970.
    pub(crate) fn start(&mut self, timestamp: u32, arrived: i64) -> i64 {
        let stamped = time_of(timestamp, arrived);
        let distance = arrived.saturating_sub(stamped);
        if let Timing::Arrival { offset } = &mut self.timing {
            let error = distance.saturating_sub(*offset);
            if error.saturating_abs() <= FAR {
                *offset += if error > STOOD_STILL { error } else { error / FOLLOW };
                return stamped.saturating_add(*offset);
            }
        }
        if distance.saturating_abs() > FAR {
            self.timing = Timing::Arrival { offset: distance };
            return arrived;
        }
        self.timing = Timing::Clock;
        // Exactly, where the rate is known: a timestamp is rounded to 11 µs.
        self.rate.map_or(stamped, |rate| nanos(rate.start_of(rate.tick_of(timestamp, time(arrived)))))
    }

    /// When a frame whose tick begins then is due.
    pub(crate) fn due(&self, start: i64) -> i64 {
        start.saturating_add(self.latency)
    }

    /// The tick of a timestamp, where timestamps are ticks.
    pub(crate) fn tick(&self, timestamp: u32, near: i64) -> Option<u64> {
        let rate = self.rate.filter(|_| self.timing == Timing::Clock)?;
        Some(rate.tick_of(timestamp, time(near)))
    }

    /// Ticks from one frame to a later one.
    pub(crate) fn ticks_between(&self, earlier: u32, later: u32) -> Option<u64> {
        let rate = self.rate?;
        let units = u64::try_from(later.wrapping_sub(earlier).cast_signed()).ok()?;
        let (above, below) = (units * u64::from(rate.numerator), 90_000 * u64::from(rate.denominator));
        Some((above + below / 2) / below)
    }

    /// How frames are timed.
    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// Length of a frame, nanoseconds; a guess where the rate is not known yet.
    pub(crate) fn period(&self) -> i64 {
        self.rate.map_or(40_000_000, |rate| i64::try_from(rate.frame_nanos()).unwrap_or(i64::MAX / 4))
    }

    /// The rate is known now, or another.
    pub(crate) fn set_rate(&mut self, rate: FrameRate, latency: Duration) {
        self.rate = Some(rate);
        self.latency = i64::try_from(latency.as_nanos()).unwrap_or(i64::MAX / 4);
    }

    /// Another stream, or one that has jumped.
    pub(crate) fn begin_anew(&mut self) {
        self.timing = Timing::Unknown;
    }
}

/// The time that a timestamp stands for on our clock: of all that it may, the one nearest to now.
fn time_of(timestamp: u32, near: i64) -> i64 {
    let units = i128::from(near) * RTP_HERTZ / NANOS;
    let distance = timestamp.wrapping_sub(units as u32).cast_signed();
    i64::try_from((units + i128::from(distance)) * NANOS / RTP_HERTZ).unwrap_or(i64::MAX)
}

/// Back to the clock's own type.
pub(crate) fn time(nanos: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILM: FrameRate = FrameRate { numerator: 24, denominator: 1 };
    const NOW: i64 = 1_790_000_000_123_456_789;

    #[test]
    fn ticks_of_our_clock_are_due_a_latency_after_their_start() {
        let mut deadlines = Deadlines::new(Some(FILM), Duration::from_millis(40));
        let tick = FILM.tick_at(time(NOW));
        let start = deadlines.start(FILM.timestamp_of(tick), NOW);
        assert_eq!((start, deadlines.timing()), (nanos(FILM.start_of(tick)), Timing::Clock));
        assert_eq!(deadlines.due(start), start + 40_000_000);
        assert_eq!(deadlines.tick(FILM.timestamp_of(tick), NOW), Some(tick));
        assert_eq!(deadlines.ticks_between(FILM.timestamp_of(tick), FILM.timestamp_of(tick + 5)), Some(5));
    }

    #[test]
    fn other_senders_count_from_their_arrival() {
        let mut deadlines = Deadlines::new(Some(FILM), Duration::from_millis(40));
        let strange = FILM.timestamp_of(FILM.tick_at(time(NOW))).wrapping_add(0x4000_0000);
        assert_eq!(deadlines.start(strange, NOW), NOW);
        assert!(matches!(deadlines.timing(), Timing::Arrival { .. }));
        assert_eq!(deadlines.tick(strange, NOW), None);
        // The next frame a period later, one that is 8 ms late moves the time by a quarter of a millisecond.
        let next = deadlines.start(strange.wrapping_add(3750), NOW + 41_666_666);
        assert!((next - NOW - 41_666_666).abs() < 20_000, "{}", next - NOW);
        let late = deadlines.start(strange.wrapping_add(7500), NOW + 83_333_333 + 8_000_000);
        assert!((late - NOW - 83_333_333 - 250_000).abs() < 20_000, "{}", late - NOW);
        // One that is 300 ms late moves it by as much.
        let late = deadlines.start(strange.wrapping_add(11_250), NOW + 125_000_000 + 300_000_000);
        assert!((late - NOW - 425_000_000).abs() < 50_000, "{}", late - NOW);
        // A sender that stood still for a minute is anchored again.
        let after = deadlines.start(strange.wrapping_add(15_000), NOW + 60_000_000_000);
        assert_eq!(after, NOW + 60_000_000_000);
    }
}
