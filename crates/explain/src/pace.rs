//! How often what costs CPU time is looked at: so seldom that all of it costs a few percent of a CPU, whatever the program
//! has open. The looks follow each other in one thread, so that each is of the processes that the one before it found;
//! `watch`, whose sources may hang, has a thread for each of them instead.

use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use std::time::{Duration, Instant};

/// From one look to the next there are so many times the CPU time of the look: it costs half a percent of a CPU at most.
const TIMES_THE_COST: u32 = 200;
/// Children, threads and connections may live for less than a second.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// When it is time to look at something again.
#[derive(Debug, Default)]
pub(crate) struct LookPace {
    /// None: it was not looked at yet.
    due: Option<Instant>,
}

/// A look that has begun.
pub(crate) struct BegunLook {
    pub(crate) at: Instant,
    cpu_before: Duration,
}

impl LookPace {
    /// A look, where it is time for one; `is_last`: in any case.
    pub(crate) fn begin(&self, is_last: bool) -> Option<BegunLook> {
        let at = clock::now();
        let is_due = is_last || self.due.is_none_or(|due| at >= due);
        is_due.then(|| BegunLook { at, cpu_before: thread_cpu() })
    }

    /// It was never looked at.
    pub(crate) fn is_first(&self) -> bool {
        self.due.is_none()
    }

    pub(crate) fn end(&mut self, look: BegunLook) {
        self.end_after(look.at, thread_cpu().saturating_sub(look.cpu_before));
    }

    fn end_after(&mut self, begun: Instant, cost: Duration) {
        self.due = Some(begun + (cost * TIMES_THE_COST).max(LEAST_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;

    #[test]
    fn a_look_that_costs_more_is_taken_less_often() {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let ms = Duration::from_millis;
        let mut pace = LookPace::default();
        for (cost, next) in [(ms(0), ms(100)), (ms(2), ms(400))] {
            let look = pace.begin(false).expect("it is time");
            pace.end_after(look.at, cost);
            assert!(!pace.is_first());
            clock.advance(next - ms(1));
            assert!(pace.begin(false).is_none() && pace.begin(true).is_some());
            clock.advance(ms(1));
        }
    }
}
