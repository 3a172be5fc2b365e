//! What a transfer learns of its server: the rate limit that it says, and what came of it with few streams and with many.

use crate::http::head::HeaderLines;
use crate::stream_windows::StreamWindows;
use linerate_measure::measure::Measurement;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header line by which `linerate serve` says its limit, bytes per second for all its clients together.
pub(crate) const RATE_LIMIT_LINE: &str = "Linerate-Rate-Limit";

/// Of one transfer.
pub(crate) struct ServerFacts {
    /// Bytes per second; 0: it says none.
    rate_limit: AtomicU64,
    pub(crate) windows: StreamWindows,
}

impl ServerFacts {
    /// `alone`: the first stream begins before the others.
    pub(crate) fn new(alone: bool) -> Self {
        ServerFacts { rate_limit: AtomicU64::new(0), windows: StreamWindows::new(alone) }
    }

    /// What an answer said last.
    pub(crate) fn learn(&self, rate_limit: Option<u64>) {
        self.rate_limit.store(rate_limit.unwrap_or(0), Ordering::Relaxed);
    }

    /// A measurement, with these facts.
    pub(crate) fn beside(&self, measurement: Measurement) -> Measurement {
        let rate_limit = Some(self.rate_limit.load(Ordering::Relaxed)).filter(|rate| *rate > 0);
        Measurement {
            sender_rate_limit: rate_limit.map(|rate| rate as f64),
            stream_windows: self.windows.windows(),
            ..measurement
        }
    }
}

/// The limit that an answer's head says; none: nothing, or what is no rate.
pub(crate) fn rate_limit_of(headers: &HeaderLines) -> Option<u64> {
    let text = headers.text(&RATE_LIMIT_LINE.to_ascii_lowercase())?;
    text.parse().ok().filter(|rate| *rate > 0)
}
