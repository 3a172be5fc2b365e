//! Whose turn it is where there is one permit alone: who had it last lets others go first that came meanwhile.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Who was told that the server is busy comes again within this time, or has lost the turn.
const TURN: Duration = Duration::from_secs(10);
/// As many who wait are remembered; a crowd of more has no order.
const MOST: usize = 16;

/// Who was served last, and who came and was not.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Option<IpAddr>,
    waiting: Vec<(IpAddr, Instant)>,
}

impl Turns {
    /// This origin came while the permit was taken.
    pub(crate) fn came(&mut self, origin: IpAddr, now: Instant) {
        self.waiting.retain(|(waiting, since)| *waiting != origin && is_fresh(*since, now));
        if self.waiting.len() < MOST {
            self.waiting.push((origin, now));
        }
    }

    /// The permit is free: may this origin have it?
    pub(crate) fn may(&self, origin: IpAddr, now: Instant) -> bool {
        let another = |(waiting, since): &(IpAddr, Instant)| *waiting != origin && is_fresh(*since, now);
        self.last != Some(origin) || !self.waiting.iter().any(another)
    }

    /// This origin has the permit.
    pub(crate) fn serve(&mut self, origin: IpAddr) {
        self.last = Some(origin);
        self.waiting.retain(|(waiting, _)| *waiting != origin);
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < TURN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_client_does_not_keep_the_only_permit() {
        let [fast, slow, other] = [1, 2, 3].map(|number| IpAddr::from([192, 0, 2, number]));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut turns = Turns::default();
        assert!(turns.may(fast, at(0)));
        turns.serve(fast);
        assert!(turns.may(fast, at(1)), "nobody else came");
        turns.came(fast, at(1));
        assert!(turns.may(fast, at(1)), "its own second connection is nobody else");
        turns.came(slow, at(2));
        assert!(!turns.may(fast, at(3)) && turns.may(slow, at(3)) && turns.may(other, at(3)));
        turns.serve(slow);
        assert!(turns.may(fast, at(4)));
        turns.came(fast, at(4));
        assert!(!turns.may(slow, at(5)), "now it is the other way round");
        turns.serve(fast);
        turns.came(slow, at(20));
        assert!(
            !turns.may(fast, at(29)) && turns.may(fast, at(30)),
            "who does not come again has lost its turn"
        );
    }
}
