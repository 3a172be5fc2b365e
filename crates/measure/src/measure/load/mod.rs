//! Load tests: how many requests a second a storage system answers as ever more users ask, and the most of it
//! under a limit of latency.
//!
//! A step offers one load and gives a point. Searching is a pure affair between the search and a [`RequestServer`]:
//! the tests have a simulated one. A step that fails is taken once more: one error of a device shall not end a search of
//! minutes, and shall not be hidden either.
//!
//! How the search comes to the same answer again (three identical runs of a tool that steps by single samples
//! chose depths of 14, 17 and 36): each step's rate is the median of windows; a verdict near the limit, or
//! the first against it, is taken as the median of three steps, or of five where the three disagree; the
//! limit is then bisected to within 4 %; and what is given as the highest has to hold once more, else the
//! search takes a step back.

mod closed;
mod open;
#[cfg(test)]
mod simulated;

use super::access::{Latency, LoadCurve, LoadPoint, middle_mean};
use super::statistics::median;
pub use closed::closed;
pub(crate) use open::{at_rate, highest_rate};

/// An offered rate of which less than this part was done was too much.
const BEHIND: f64 = 1.0 / 0.97;

/// A verdict nearer to the limit than this is confirmed.
const NEAR: f64 = 0.15;
/// Steps that a confirmed verdict is the median of; more where these do not agree.
const CONFIRMED: usize = 3;
const DISPUTED: usize = 5;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Statistic {
    Mean,
    P50,
    P90,
    P95,
    P99,
    #[strum(serialize = "p99.9")]
    P99_9,
    #[strum(serialize = "p99.99")]
    P99_99,
}

impl Statistic {
    /// As on the command line: `mean`, `p99`, `p99.9`.
    pub fn word(self) -> &'static str {
        self.into()
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

/// All that was measured.
#[derive(Debug)]
struct Steps {
    keep: Keep,
    steps: Vec<(Offer, Vec<LoadPoint>)>,
}

impl Steps {
    /// None yet.
    pub(crate) fn new(keep: Keep) -> Self {
        Steps { keep, steps: Vec::new() }
    }

    /// Measures the offer until it has so many repeats; its point.
    pub(crate) fn measure(
        &mut self,
        server: &mut dyn RequestServer,
        offer: Offer,
        repeats: usize,
    ) -> Result<LoadPoint, LoadEnd> {
        let at = match self.steps.iter().position(|(known, _)| *known == offer) {
            Some(at) => at,
            None => {
                self.steps.push((offer, Vec::new()));
                self.steps.len() - 1
            }
        };
        while self.steps[at].1.len() < repeats.max(1) {
            match server.step(offer) {
                Ok(point) => self.steps[at].1.push(point),
                Err(ended) => {
                    self.steps.retain(|(_, points)| !points.is_empty());
                    return Err(ended);
                }
            }
        }
        Ok(self.middle(&self.steps[at].1))
    }

    /// Latency ÷ limit of an offer: once where it is well within the limit, else confirmed.
    pub(crate) fn used(&mut self, server: &mut dyn RequestServer, offer: Offer) -> Result<f64, LoadEnd> {
        let first = self.measure(server, offer, 1)?;
        let used = self.keep.used(&first);
        if used < 1.0 - NEAR {
            return Ok(used);
        }
        self.measure(server, offer, CONFIRMED)?;
        let within = |point: &&LoadPoint| self.keep.used(point) <= 1.0;
        let known =
            self.steps.iter().find(|(known, _)| *known == offer).map_or(&[][..], |(_, points)| points);
        let agreed = [0, known.len()].contains(&known.iter().filter(within).count());
        let confirmed = self.measure(server, offer, if agreed { CONFIRMED } else { DISPUTED })?;
        Ok(self.keep.used(&confirmed))
    }

    /// The points, by load.
    pub(crate) fn points(&self) -> Vec<(Offer, LoadPoint)> {
        let mut points: Vec<_> =
            self.steps.iter().map(|(offer, points)| (*offer, self.middle(points))).collect();
        let load = |offer: &Offer| offer.requests_per_second.unwrap_or(f64::from(offer.workers));
        points.sort_by(|one, other| load(&one.0).total_cmp(&load(&other.0)));
        points
    }

    /// The middle one by what is kept, with the median of the rates and the mean latency that goes with it.
    fn middle(&self, points: &[LoadPoint]) -> LoadPoint {
        let mut sorted: Vec<&LoadPoint> = points.iter().collect();
        sorted.sort_by(|one, other| self.keep.used(one).total_cmp(&self.keep.used(other)));
        let mut point = sorted.get(sorted.len() / 2).copied().cloned().unwrap_or_default();
        let rates: Vec<f64> = points.iter().map(|point| point.operations_per_second).collect();
        point.operations_per_second = median(&rates);
        point.latency.mean = middle_mean(points.iter().map(|point| point.latency.mean));
        point.within_limit = self.keep.used(&point) <= 1.0;
        point
    }
}

/// What takes steps, and is told of those that failed.
pub trait Taker {
    /// A step: its point, and what failed in it.
    fn once(&mut self) -> Result<(LoadPoint, Vec<String>), LoadEnd>;

    /// It failed, and is taken again.
    fn failed(&mut self, error: &str);

    /// It failed, and went well when it was taken again.
    fn went_well(&mut self, error: &str);
}

/// The point of a step in which nothing failed: the first, or the second. What failed in the second as well
/// ends the search.
pub fn twice(taker: &mut impl Taker) -> Result<LoadPoint, LoadEnd> {
    let (point, errors) = taker.once()?;
    let Some(error) = errors.into_iter().next() else { return Ok(point) };
    taker.failed(&error);
    let (point, errors) = taker.once()?;
    match errors.into_iter().next() {
        Some(again) => Err(LoadEnd::Failed(again)),
        None => {
            taker.went_well(&error);
            Ok(point)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::simulated::Simulated;
    use super::*;

    /// A simulated device that fails in some of its steps, counted from 1.
    struct Failing {
        device: Simulated,
        fails_in: Vec<u32>,
        taken: u32,
        messages: Vec<String>,
    }

    impl Failing {
        fn in_steps(fails_in: &[u32]) -> Self {
            let device = Simulated { noise: 0.0, ..Simulated::new(5000.0, 0.002, 7) };
            Failing { device, fails_in: fails_in.to_vec(), taken: 0, messages: Vec::new() }
        }

        fn search(&mut self) -> Searched {
            closed(self, Keep { of: Statistic::Mean, limit: 0.02 }, 256)
        }
    }

    struct Step<'a>(&'a mut Failing, Offer);

    impl Taker for Step<'_> {
        fn once(&mut self) -> Result<(LoadPoint, Vec<String>), LoadEnd> {
            let Step(failing, offer) = self;
            failing.taken += 1;
            let mut point = failing.device.step(*offer)?;
            if !failing.fails_in.contains(&failing.taken) {
                return Ok((point, Vec::new()));
            }
            // What a step with an error measured is not to be believed.
            point.operations_per_second = 1.0;
            Ok((point, vec![format!("EIO in step {}", failing.taken), "and another".into()]))
        }

        fn failed(&mut self, error: &str) {
            self.0.messages.push(format!("again: {error}"));
        }

        fn went_well(&mut self, error: &str) {
            self.0.messages.push(format!("well: {error}"));
        }
    }

    impl RequestServer for Failing {
        fn step(&mut self, offer: Offer) -> Result<LoadPoint, LoadEnd> {
            twice(&mut Step(self, offer))
        }
    }

    fn rates(searched: &Searched) -> Vec<(u32, f64)> {
        searched.curve.points.iter().map(|point| (point.workers, point.operations_per_second)).collect()
    }

    #[test]
    fn one_error_is_reported_and_changes_nothing() {
        let without = Failing::in_steps(&[]).search();
        assert!(rates(&without).len() > 4 && without.ended.is_none(), "{without:?}");
        for step in [1, 2, 4] {
            let mut failing = Failing::in_steps(&[step]);
            let searched = failing.search();
            assert_eq!(rates(&searched), rates(&without));
            assert_eq!(searched.ended, None);
            let error = format!("EIO in step {step}");
            assert_eq!(failing.messages, [format!("again: {error}"), format!("well: {error}")]);
        }
    }

    #[test]
    fn an_error_that_comes_again_ends_the_search_with_what_was_measured() {
        let without = rates(&Failing::in_steps(&[]).search());
        let mut failing = Failing::in_steps(&[3, 4]);
        let searched = failing.search();
        assert_eq!(searched.ended, Some(LoadEnd::Failed("EIO in step 4".into())));
        let kept = rates(&searched);
        assert!(!kept.is_empty() && kept.len() < without.len(), "{searched:?}");
        assert!(kept.iter().all(|point| without.contains(point)), "{searched:?}");
        assert_eq!(failing.messages, ["again: EIO in step 3"]);
        assert_eq!(failing.taken, 4);
    }

    #[test]
    fn a_stop_in_the_second_try_is_a_stop() {
        let mut failing = Failing::in_steps(&[1]);
        failing.device.ends_after = Some(1);
        let searched = highest_rate(&mut failing, Keep { of: Statistic::P99, limit: 0.02 }, 256);
        assert_eq!(searched.ended, Some(LoadEnd::Stopped));
        assert!(searched.curve.points.is_empty());
    }
}
