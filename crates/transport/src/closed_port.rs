//! ICMP's "port unreachable" on a connected UDP socket: the kernel reports each answer once and lets the next
//! send pass, so that one alone may be trouble of a moment, or a receiver that is not open yet. What counts
//! is that they go on.

use std::time::{Duration, Instant};

/// Reports that follow one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedPort {
    patience: Duration,
    first_and_last: Option<(Instant, Instant)>,
}

impl ClosedPort {
    /// The port counts as closed once it has been reported so for `patience`, without as long a pause.
    pub(crate) fn new(patience: Duration) -> Self {
        ClosedPort { patience, first_and_last: None }
    }

    /// One more report; true where it has gone on for too long.
    pub(crate) fn reported(&mut self, now: Instant) -> bool {
        let before = self.first_and_last.filter(|(_, last)| now.duration_since(*last) < self.patience);
        let first = before.map_or(now, |(first, _)| first);
        self.first_and_last = Some((first, now));
        now.duration_since(first) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_report_now_and_then_is_no_closed_port() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut port = ClosedPort::new(second);
        assert!((0..10).all(|count| !port.reported(start + second * count)), "each after a pause");
        let mut port = ClosedPort::new(second);
        let closed: Vec<bool> = (0..4).map(|count| port.reported(start + second * count / 2)).collect();
        assert_eq!(closed, [false, false, true, true]);
    }
}
