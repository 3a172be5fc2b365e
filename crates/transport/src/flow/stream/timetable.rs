//! When small requests are due.

use std::time::{Duration, Instant};

/// Requests that are later than this are left out.
const LATEST: Duration = Duration::from_secs(1);
const SHORTEST_INTERVAL: Duration = Duration::from_micros(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// When requests are due. Who comes late makes up for all of it at once: a pace that makes up for it little by little would
/// add what is left of one delay to the times of many requests.
#[derive(Debug)]
pub(super) struct Timetable {
    interval: Duration,
    pub(super) due: Instant,
}

impl Timetable {
    /// From now on; an interval that is none counts as a very long one.
    pub(super) fn new(interval_seconds: f64) -> Self {
        let interval = Duration::try_from_secs_f64(interval_seconds).unwrap_or(LONGEST_INTERVAL);
        Timetable { interval: interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL), due: Instant::now() }
    }

    /// The next one's time, if it has come; else how long it takes until then.
    pub(super) fn take(&mut self, now: Instant) -> Result<Instant, Duration> {
        let wait = self.due.saturating_duration_since(now);
        if !wait.is_zero() {
            return Err(wait);
        }
        let due = self.due;
        self.due += self.interval;
        // The host slept, or it cannot keep up.
        let oldest = now.checked_sub(LATEST).unwrap_or(self.due);
        self.due = self.due.max(oldest);
        Ok(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_asker_makes_up_for_all_of_it_at_once() {
        let mut timetable = Timetable::new(0.004);
        let start = timetable.due;
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(timetable.take(at(0)), Ok(at(0)));
        assert_eq!(timetable.take(at(1)), Err(Duration::from_millis(3)));
        // It was held up for 20 ms.
        let late: Vec<_> = std::iter::from_fn(|| timetable.take(at(24)).ok()).collect();
        assert_eq!(late, [4, 8, 12, 16, 20, 24].map(at));
        assert_eq!(timetable.take(at(24)), Err(Duration::from_millis(4)));
        // For ten seconds: the last second counts.
        assert_eq!(timetable.take(at(10_000)), Ok(at(28)));
        assert_eq!(timetable.take(at(10_000)), Ok(at(9_000)));
        for none in [f64::INFINITY, f64::NAN, -1.0] {
            assert_eq!(Timetable::new(none).interval, LONGEST_INTERVAL);
        }
        assert_eq!(Timetable::new(0.0).interval, SHORTEST_INTERVAL);
    }
}
