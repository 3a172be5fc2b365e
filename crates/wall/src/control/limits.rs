//! What bounds a connection: how many there are, requests a second, times.

use std::time::Duration;

/// Largest request.
pub(crate) const REQUEST_BYTES: usize = 64 << 10;
/// Requests that one connection may send for long. A joystick sends 60 a second, a screen with a barrier one
/// a frame.
pub(crate) const REQUESTS_PER_SECOND: f64 = 300.0;
/// How far it may be ahead of that: 600 requests at once.
pub(crate) const REQUESTS_AHEAD: Duration = Duration::from_secs(2);
/// A connection that neither joined nor watches, and says nothing for so long, gives its place to another.
pub(crate) const IDLE: Duration = Duration::from_secs(120);
/// anyone who does not take a message within this is gone, or might as well be.
pub(crate) const SEND: Duration = Duration::from_secs(5);
/// Statuses a second that a connection may watch.
pub(crate) const WATCH_PER_SECOND: f64 = 10.0;

/// Connections that know the key: a screen for each tile, as many again that come back before they are
/// missed, and people.
pub(crate) fn most_connections(tiles: usize) -> usize {
    tiles.saturating_mul(2).saturating_add(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_transport::flow::allowance::Allowance;
    use std::time::Instant;

    #[test]
    fn sixty_a_second_pass_for_ever_and_a_thousand_do_not() {
        let start = Instant::now();
        let passed = |per_second: u64| {
            let allowance = Allowance::new(REQUESTS_PER_SECOND, start);
            (0..per_second * 20)
                .take_while(|n| {
                    allowance.charge(1, start + Duration::from_micros(n * 1_000_000 / per_second))
                        <= REQUESTS_AHEAD
                })
                .count() as u64
        };
        assert_eq!(passed(60), 1200);
        assert_eq!(passed(300), 6000);
        assert!((600..2000).contains(&passed(1000)), "{}", passed(1000));
    }
}
