//! The steps taken so far, each with its repeats; a step's point is the one whose latency is the middle of
//! them.

use super::{Keep, LoadEnd, LoadPoint, Offer, RequestServer};
use crate::measure::access::middle_mean;
use crate::measure::statistics::median;

/// A verdict nearer to the limit than this is confirmed.
const NEAR: f64 = 0.15;
/// Steps that a confirmed verdict is the median of; more where these do not agree.
const CONFIRMED: usize = 3;
const DISPUTED: usize = 5;

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Steps {
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
