//! When a window begins and ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at `stop`.
const LOOK: Duration = Duration::from_millis(20);

/// When a window begins and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    pub begin: Instant,
    pub warm_up: Duration,
    pub length: Duration,
}

pub(crate) fn sleep_until(moment: Instant, stop: &AtomicBool) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}
