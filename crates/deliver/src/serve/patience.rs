//! When a client that takes next to nothing is given up.

use std::time::Duration;

/// A client that has not taken so much …
const SLOW_BYTES: u64 = 64 << 10;
/// … in so long a time of waiting for it is given up.
pub(super) const SLOW_TIME: Duration = Duration::from_secs(30);

/// How long was waited for one answer's client since it took something worth it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    waited: Duration,
    taken: u64,
}

impl Patience {
    /// It took these bytes in this time.
    pub(super) fn took(&mut self, bytes: u64, time: Duration) {
        self.waited += time;
        self.taken += bytes;
        if self.taken >= SLOW_BYTES {
            *self = Patience::default();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.waited >= SLOW_TIME
    }

    /// Time until it is over, if nothing is taken.
    pub(super) fn left(&self) -> Duration {
        SLOW_TIME.saturating_sub(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_takes_a_little_in_time_is_not_given_up() {
        let mut patience = Patience::default();
        patience.took(SLOW_BYTES - 1, SLOW_TIME - Duration::from_secs(1));
        assert_eq!((patience.is_over(), patience.left()), (false, Duration::from_secs(1)));
        patience.took(1, Duration::from_millis(900));
        assert_eq!(patience.left(), SLOW_TIME, "it took enough");
        patience.took(SLOW_BYTES - 1, SLOW_TIME);
        assert!(patience.is_over());
    }
}
