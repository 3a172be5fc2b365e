//! Load tests: how many requests a second a storage system answers as ever more users ask, and the most of it
//! under a limit of latency.
//!
//! A step offers one load and gives a point. Searching is a pure affair between the search and a `Server`:
//! the tests have a simulated one.
//!
//! How the search comes to the same answer again (three identical runs of a tool that steps by single samples
//! chose depths of 14, 17 and 36): each step's rate is the median of windows; a verdict near the limit, or
//! the first against it, is taken as the median of three steps, or of five where the three disagree; the
//! limit is then bisected to within 4 %; and what is given as the highest has to hold once more, else the
//! search takes a step back.

mod again;
mod closed;
mod open;
#[cfg(test)]
mod simulated;
mod steps;

use super::access::{Latency, LoadCurve, LoadPoint};
pub use again::{Taker, twice};
pub use closed::closed;
pub(crate) use open::{at_rate, highest_rate};

/// What is offered in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Users, each with one request in flight; in an open loop the most requests in flight.
    pub workers: u32,
    /// Requests a second on schedule; none: each user asks again as soon as it is answered.
    pub requests_per_second: Option<f64>,
}

/// What answers requests.
pub trait RequestServer {
    /// Offers the load for a while. An error ends the search; what was measured before counts.
    fn step(&mut self, offer: Offer) -> Result<LoadPoint, LoadEnd>;

    /// The number of users next to the wanted one that can be had.
    fn workers(&self, wanted: u32) -> u32 {
        wanted
    }
}

/// Why there is no more to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadEnd {
    /// Ctrl-C.
    Stopped,
    Failed(String),
}

/// The curve as far as it came, and what ended it early.
#[derive(Debug)]
pub struct Searched {
    pub curve: LoadCurve,
    pub ended: Option<LoadEnd>,
}

/// Which latency is kept, and where the limit is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keep {
    pub of: Statistic,
    /// Seconds.
    pub limit: f64,
}

/// Of the latencies of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    Mean,
    P50,
    P90,
    P95,
    P99,
    P99_9,
    P99_99,
}

impl Statistic {
    /// As on the command line: `mean`, `p99`, `p99.9`.
    pub fn word(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::P50 => "p50",
            Statistic::P90 => "p90",
            Statistic::P95 => "p95",
            Statistic::P99 => "p99",
            Statistic::P99_9 => "p99.9",
            Statistic::P99_99 => "p99.99",
        }
    }

    /// By its word.
    pub fn named(word: &str) -> Option<Self> {
        use Statistic::{Mean, P50, P90, P95, P99, P99_9, P99_99};
        [Mean, P50, P90, P95, P99, P99_9, P99_99].into_iter().find(|known| known.word() == word)
    }

    fn of(self, latency: &Latency) -> f64 {
        match self {
            Statistic::Mean => latency.mean,
            Statistic::P50 => latency.p50,
            Statistic::P90 => latency.p90,
            Statistic::P95 => latency.p95,
            Statistic::P99 => latency.p99,
            Statistic::P99_9 => latency.p99_9,
            Statistic::P99_99 => latency.p99_99,
        }
    }
}

impl Keep {
    /// `mean ≤ 100 ms`.
    pub fn words(&self) -> String {
        let ms = self.limit * 1e3;
        let decimals = if ms.fract() == 0.0 { 0 } else { 3 };
        format!("{} ≤ {ms:.decimals$} ms", self.of.word())
    }

    /// Latency ÷ limit; in an open loop no less than what was offered ÷ what was done, once the schedule was
    /// not kept.
    fn used(&self, point: &LoadPoint) -> f64 {
        let latency = self.of.of(&point.latency) / self.limit;
        let behind = point.offered.map_or(0.0, |offered| offered / point.operations_per_second.max(1e-9));
        // A queue that grows has no latency of its own: it depends on how long one looks.
        if behind > BEHIND { latency.max(behind) } else { latency }
    }
}

/// An offered rate of which less than this part was done was too much.
const BEHIND: f64 = 1.0 / 0.97;
