//! Keeps a rate by our own clock: bursts of at most about a millisecond, each when it is due. For the streams of
//! `flow::stream` and those of iperf3, of which each has one sender and a rate of its own.
//!
//! The workers of a flow, `get`, `put` and `serve` keep to `RateLimit` and `Allowance` instead, which several threads
//! share without a lock, and whose rate another host may change.
//!
//! Not the kernel's alone: it takes SO_MAX_PACING_RATE on UDP and ignores it without the fq queueing discipline.
//! Within a burst TCP's segments are spread by it ([`spread_by_kernel`]), so that a shallow queue on the way has room.
//! Bursts have a timetable; who comes late to one makes up for it: at once for half a millisecond, which is
//! how late a sleep may end, then a little at a time. So the average is right, and no more than about a
//! millisecond's worth goes out together.

use linerate_system::stop::Stop;
use linerate_system::{clock, connection};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The kernel spreads the segments of a burst at so much more than the rate, which counts headers and is kept
/// by the bursts.
const KERNEL_PACE: f64 = 1.25;
/// Above this rate, bytes per second, it is not asked to: its timer per segment held 40 Gb/s to 24.
const KERNEL_PACES_TO: f64 = 1.3e9;

/// A burst lasts this long at the rate.
const BURST: Duration = Duration::from_micros(500);
/// After a delay bursts follow one another so much faster than the rate, until the timetable is met again.
const CATCH_UP_FACTOR: f64 = 1.1;
/// What is later than this is given up: the rate cannot be kept, or the host slept.
const LATEST: Duration = Duration::from_secs(1);

/// Has the kernel spread the segments of a TCP connection that keeps to `bytes_per_second`, alone or with others
/// (SO_MAX_PACING_RATE). False: it does not, because the rate is too high for that or the kernel refuses; the bursts
/// keep the rate without it.
pub fn spread_by_kernel(connection: &impl AsFd, bytes_per_second: f64) -> bool {
    let is_paced = bytes_per_second > 0.0 && bytes_per_second <= KERNEL_PACES_TO;
    is_paced
        && connection::set_pacing_rate(connection, (bytes_per_second * KERNEL_PACE).ceil() as u64).is_ok()
}

/// The timetable of one sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    nanos_per_byte: f64,
    /// When the next burst is due.
    due: Instant,
    /// Not before this, however late it is.
    earliest: Instant,
    /// Part of a nanosecond that `due` has not seen yet.
    rest_nanos: f64,
}

impl Pace {
    /// `bytes_per_second` from now on; a rate that is none counts as a very slow one.
    pub(crate) fn new(bytes_per_second: f64, now: Instant) -> Self {
        let rate = if bytes_per_second.is_finite() { bytes_per_second.max(1.0) } else { 1.0 };
        Pace { nanos_per_byte: 1e9 / rate, due: now, earliest: now, rest_nanos: 0.0 }
    }

    /// Bytes of a burst: half a millisecond's worth, between these bounds.
    pub(crate) fn burst_bytes(&self, least: usize, most: usize) -> usize {
        ((BURST.as_nanos() as f64 / self.nanos_per_byte) as usize).clamp(least, most.max(least))
    }

    /// How long to wait for the next burst: zero when it is due.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.due.max(self.earliest).saturating_duration_since(now)
    }

    /// Sleeps where the next burst is not due yet, until then or until `stop`; false: it is due.
    pub(crate) fn slept(&self, stop: &Stop) -> bool {
        let wait = self.wait(clock::now());
        if !wait.is_zero() {
            stop.wait(wait);
        }
        !wait.is_zero()
    }

    /// A burst went out.
    pub(crate) fn sent(&mut self, bytes: usize, now: Instant) {
        let nanos = bytes as f64 * self.nanos_per_byte + self.rest_nanos;
        // A burst of a century is none.
        let whole = nanos.floor().min(1e18);
        self.rest_nanos = (nanos - whole).clamp(0.0, 1.0);
        let slot = self.due.max(self.earliest);
        let forgiven = now.checked_sub(BURST).unwrap_or(now);
        self.due += Duration::from_nanos(whole as u64);
        self.earliest = slot.max(forgiven) + Duration::from_nanos((whole / CATCH_UP_FACTOR) as u64);
        if now.saturating_duration_since(self.due) > LATEST {
            self.due = now - LATEST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_spreads_what_is_slow_enough() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        for too_much in [0.0, -1.0, f64::NAN, f64::INFINITY, 5e9] {
            assert!(!spread_by_kernel(&stream, too_much), "{too_much}");
        }
        assert!(connection::pacing_rate(&stream).expect("a rate") > 10_000_000_000, "none is set");
        assert!(spread_by_kernel(&stream, 100e6));
        assert_eq!(connection::pacing_rate(&stream).expect("a rate"), 125_000_000);
    }

    proptest! {
        /// On a host that wakes up late, now and then very late, the average is kept and no stretch of time
        /// gets more than its share.
        #[test]
        fn keeps_the_average_and_never_floods(
            rate in 1e4f64..1e10, datagram in 64usize..9000, late in proptest::collection::vec(0u64..3_000_000, 1..40),
        ) {
            let start = Instant::now();
            let (mut now, mut sent) = (start, 0u64);
            let mut pace = Pace::new(rate, start);
            let burst = pace.burst_bytes(datagram, 500_000);
            prop_assert!(burst == datagram || burst as f64 <= rate * BURST.as_secs_f64());
            let mut bursts: Vec<(Instant, usize)> = Vec::new();
            for step in 0..4000 {
                let wait = pace.wait(now);
                if !wait.is_zero() {
                    // Most sleeps end some microseconds late, one in sixteen much later.
                    let over = late[step % late.len()];
                    now += wait + Duration::from_nanos(if step % 16 == 0 { over } else { over / 1000 });
                }
                pace.sent(burst, now);
                sent += burst as u64;
                bursts.push((now, burst));
                now += Duration::from_nanos(burst as u64 / 20);
            }
            let seconds = now.duration_since(start).as_secs_f64();
            // What is due by now: the first burst at once, and what a late one still has to make up for.
            let due = rate * seconds;
            prop_assert!(sent as f64 <= due + 2.0 * burst as f64, "{} of {}", sent, due);
            for stretch in bursts.windows(40) {
                for (index, (at, _)) in stretch.iter().enumerate() {
                    let seconds = at.duration_since(stretch[0].0).as_secs_f64() + BURST.as_secs_f64() + 1e-7;
                    prop_assert!((index * burst) as f64 <= seconds * rate * CATCH_UP_FACTOR + burst as f64);
                }
            }
        }
    }

    #[test]
    fn the_rate_is_kept_exactly_on_any_clock() {
        let start = Instant::now();
        let mut pace = Pace::new(1_000_000.0, start);
        let (mut now, mut sent) = (start, 0);
        while now < start + Duration::from_secs(1) {
            let wait = pace.wait(now);
            if wait.is_zero() {
                pace.sent(1000, now);
                sent += 1000;
            } else {
                // A sleeper wakes up late, each time by another while.
                now += wait + Duration::from_micros(sent % 900);
            }
        }
        assert!((1_000_000..=1_002_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_long_stall_is_lost_and_not_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(1_000_000.0, start);
        let (late, mut now, mut sent) = (start + Duration::from_secs(10), start + Duration::from_secs(10), 0);
        while now < late + Duration::from_secs(30) {
            let wait = pace.wait(now);
            if wait.is_zero() {
                pace.sent(1000, now);
                sent += 1000;
                let most = 1.1 * 1.000_01 * 1e6 * (now - late + BURST).as_secs_f64();
                assert!(sent as f64 <= most + 1000.0, "{sent} bytes after {:?}", now - late);
            }
            now += wait;
        }
        // One second of the stall is made up for.
        assert!((31_000_000..=31_002_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_short_delay_is_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(1e9, start);
        let burst = pace.burst_bytes(1000, 100_000);
        let (mut now, mut sent) = (start, 0u64);
        while now < start + Duration::from_secs(2) {
            now += pace.wait(now);
            if (sent / 100_000).is_multiple_of(50) {
                now += Duration::from_micros(300);
            }
            pace.sent(burst, now);
            sent += burst as u64;
        }
        assert!((sent as f64 / 2e9 - 1.0).abs() < 0.001, "{sent}");
    }
}
