//! When a window begins and ends.

use std::time::{Duration, Instant};

/// When a window begins and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    pub begin: Instant,
    pub warm_up: Duration,
    pub length: Duration,
}
