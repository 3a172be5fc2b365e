//! What bounds a connection: places, requests a second, times.

use std::time::{Duration, Instant};

/// Connections that have not shown the key yet; also those of the page, shown or not.
pub const STRANGERS: usize = 64;
/// A connection has so long to show the key.
pub const ADMISSION: Duration = Duration::from_secs(3);
/// Largest request.
pub const REQUEST_BYTES: usize = 64 << 10;
/// Requests that one connection may send for long. A joystick sends 60 a second, a screen with a barrier one a frame.
const REQUESTS_PER_SECOND: f64 = 300.0;
/// Requests that it may send at once.
const REQUESTS_AT_ONCE: f64 = 600.0;
/// A connection that neither joined nor watches, and says nothing for so long, gives its place to another.
pub const IDLE: Duration = Duration::from_secs(120);
/// Whoever does not take a message within this is gone, or might as well be.
pub const SEND: Duration = Duration::from_secs(5);
/// Statuses a second that a connection may watch.
pub const WATCH_PER_SECOND: f64 = 10.0;

/// Connections that know the key: a screen for each tile, as many again that come back before they are missed, and people.
pub fn known_places(tiles: usize) -> usize {
    tiles.saturating_mul(2).saturating_add(64)
}

/// What a connection may still ask at this time.
pub struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    /// All of it.
    pub fn new(now: Instant) -> Allowance {
        Allowance { left: REQUESTS_AT_ONCE, at: now }
    }

    /// One request. False: it is one too many.
    pub fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + passed * REQUESTS_PER_SECOND).min(REQUESTS_AT_ONCE);
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_a_second_pass_for_ever_and_a_thousand_do_not() {
        let start = Instant::now();
        let passed = |per_second: u64| {
            let mut allowance = Allowance::new(start);
            (0..per_second * 20)
                .take_while(|n| allowance.take(start + Duration::from_micros(n * 1_000_000 / per_second)))
                .count() as u64
        };
        assert_eq!(passed(60), 1200);
        assert_eq!(passed(300), 6000);
        assert!((600..2000).contains(&passed(1000)), "{}", passed(1000));
    }
}
