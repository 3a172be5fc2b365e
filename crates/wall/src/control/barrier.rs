//! The barrier of the screens: a tick is shown once all that take part hold it, or one that does not come in
//! time is left behind.
//!
//! A screen takes part from its first `Ready` on that is not behind by a whole tick: tiles are sent one after
//! the other, so that the screen of a later one never comes first. One that lets the others wait longer than
//! [`PATIENCE`] is no longer waited for, until it keeps up again: so a dead screen stops the wall once for a
//! moment, and a slow one never again.
//!
//! Of several servers each has its own; for that of the one that leads, another server is one screen, which
//! holds what all of its screens hold.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The others wait so long for a screen: about two frames of a film.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Which screens hold which tick.
#[derive(Default)]
pub(crate) struct Barrier {
    /// The newest tick that was shown.
    shown: Option<u64>,
    /// By the number of its connection: the newest tick that it holds, and since when.
    screens: HashMap<u64, (u64, Instant)>,
}

/// What comes of a `Ready`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadyResult {
    /// Some are not there yet.
    Wait,
    /// All hold this tick: all shall show it.
    Show(u64),
    /// The others have shown it already: this one shall catch up.
    Late(u64),
}

impl Barrier {
    /// A screen holds a tick, and so, or without them for ever, all before it.
    pub(crate) fn ready(&mut self, screen: u64, tick: u64, now: Instant) -> ReadyResult {
        if let Some(shown) = self.shown
            && tick <= shown
        {
            // Who shows this tick a little after the others is waited for at the next one.
            if tick == shown {
                self.screens.entry(screen).or_insert((tick, now));
            }
            return ReadyResult::Late(shown);
        }
        match self.screens.get_mut(&screen) {
            Some((held, _)) if tick <= *held => return ReadyResult::Wait,
            // It holds more, but what it waits for is older: the time goes on.
            Some((held, since)) => {
                *since = if self.shown >= Some(*held) { now } else { *since };
                *held = tick;
            }
            None => {
                self.screens.insert(screen, (tick, now));
            }
        }
        self.judge()
    }

    /// A connection ended. What the others wait for may be complete now.
    pub(crate) fn leave(&mut self, screen: u64) -> ReadyResult {
        self.screens.remove(&screen).map_or(ReadyResult::Wait, |_| self.judge())
    }

    /// When somebody will have waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting().map(|(_, since)| since + PATIENCE).min()
    }

    /// Leaves behind those who let others wait too long.
    pub(crate) fn pass(&mut self, now: Instant) -> ReadyResult {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return ReadyResult::Wait;
        }
        let shown = self.shown;
        self.screens.retain(|_, (held, _)| Some(*held) > shown);
        self.judge()
    }

    /// Those that hold more than what was shown.
    fn waiting(&self) -> impl Iterator<Item = (u64, Instant)> {
        self.screens.values().copied().filter(|(held, _)| Some(*held) > self.shown)
    }

    fn judge(&mut self) -> ReadyResult {
        let held_by_all = self.screens.values().map(|(held, _)| *held).min();
        match held_by_all {
            Some(tick) if Some(tick) > self.shown => {
                self.shown = Some(tick);
                ReadyResult::Show(tick)
            }
            _ => ReadyResult::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_millis(millis)
    }

    #[test]
    fn a_tick_is_shown_when_all_hold_it_or_a_later_one() {
        let mut barrier = Barrier::default();
        assert_eq!(barrier.ready(1, 10, at(0)), ReadyResult::Show(10), "nobody else is there");
        assert_eq!(barrier.ready(2, 11, at(1)), ReadyResult::Wait);
        assert_eq!(barrier.ready(2, 12, at(2)), ReadyResult::Wait);
        assert_eq!(barrier.ready(1, 11, at(3)), ReadyResult::Show(11));
        // The first one lost 12 and holds 13.
        assert_eq!(barrier.ready(1, 13, at(4)), ReadyResult::Show(12));
        assert_eq!(barrier.ready(3, 11, at(5)), ReadyResult::Late(12), "it catches up");
        assert_eq!(barrier.ready(2, 13, at(6)), ReadyResult::Show(13), "and is not waited for");
        assert_eq!(barrier.ready(3, 13, at(7)), ReadyResult::Late(13), "now it keeps up");
        assert_eq!(barrier.ready(1, 14, at(8)), ReadyResult::Wait);
        assert_eq!(barrier.ready(2, 14, at(8)), ReadyResult::Wait);
        assert_eq!(barrier.ready(3, 14, at(25)), ReadyResult::Show(14), "and all show together");
    }

    #[test]
    fn a_dead_screen_stops_the_wall_once() {
        let mut barrier = Barrier::default();
        barrier.ready(1, 10, at(0));
        assert_eq!(barrier.ready(2, 11, at(0)), ReadyResult::Wait);
        assert_eq!(barrier.ready(1, 11, at(0)), ReadyResult::Show(11));
        // 2 dies.
        assert_eq!(barrier.ready(1, 12, at(40)), ReadyResult::Wait);
        assert_eq!(barrier.deadline(), Some(at(140)));
        assert_eq!(barrier.pass(at(139)), ReadyResult::Wait);
        assert_eq!(barrier.pass(at(140)), ReadyResult::Show(12));
        assert_eq!(barrier.ready(1, 13, at(141)), ReadyResult::Show(13), "nobody waits any more");
        // 2 comes back late, then in time.
        assert_eq!(barrier.ready(2, 12, at(150)), ReadyResult::Late(13));
        assert_eq!(barrier.ready(1, 14, at(151)), ReadyResult::Show(14));
        assert_eq!(barrier.ready(2, 15, at(152)), ReadyResult::Wait, "it takes part again");
        assert_eq!(barrier.leave(2), ReadyResult::Wait);
        assert_eq!(barrier.ready(1, 15, at(153)), ReadyResult::Show(15));
    }

    proptest! {
        #[test]
        fn ticks_are_shown_in_order_and_nobody_waits_for_ever(
            steps in prop::collection::vec((0u64..4, 0u64..30, 0u64..60, any::<bool>()), 1..200)
        ) {
            let mut barrier = Barrier::default();
            let (mut now, mut shown) = (0, None);
            for (screen, tick, passed, leaves) in steps {
                now += passed;
                let verdicts = [
                    barrier.pass(at(now)),
                    if leaves { barrier.leave(screen) } else { barrier.ready(screen, tick, at(now)) },
                ];
                for verdict in verdicts {
                    if let ReadyResult::Show(tick) = verdict {
                        prop_assert!(Some(tick) > shown);
                        shown = Some(tick);
                    }
                }
                if let Some(deadline) = barrier.deadline() {
                    prop_assert!(deadline <= at(now) + PATIENCE);
                    let mut later = Barrier { shown: barrier.shown, screens: barrier.screens.clone() };
                    prop_assert!(matches!(later.pass(deadline), ReadyResult::Show(_)));
                }
            }
        }
    }
}
