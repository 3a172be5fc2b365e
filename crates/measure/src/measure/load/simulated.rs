//! A device that is arithmetic, with seeded noise: for the tests of the searches.

use super::{Latency, LoadEnd, LoadPoint, Offer, RequestServer};
use linerate_testing::Dice;

/// Answers at most `capacity` requests a second, and each after `service` seconds at least.
pub(crate) struct Simulated {
    pub capacity: f64,
    pub service: f64,
    /// It comes near its capacity slowly, as devices with many channels do.
    pub soft: bool,
    /// Of rates, up or down; of latencies twice as much.
    pub noise: f64,
    /// Ctrl-C after so many steps.
    pub ends_after: Option<u32>,
    pub steps: u32,
    pub dice: Dice,
}

/// One step in so many is spoilt: a neighbour on the same host.
const SPOILT: u64 = 20;

impl Simulated {
    pub(crate) fn new(capacity: f64, service: f64, seed: u64) -> Self {
        Simulated {
            capacity,
            service,
            soft: false,
            noise: 0.03,
            ends_after: None,
            steps: 0,
            dice: Dice::new(seed),
        }
    }

    /// 99 of 100 exponential waits at this share of the capacity are shorter (M/M/1 behind a fixed service).
    fn p99(&self, rate: f64) -> f64 {
        let busy = (rate / self.capacity).min(0.999_999);
        self.service + 100f64.ln() * busy / (self.capacity * (1.0 - busy))
    }

    /// The rate whose p99 is the limit.
    pub(crate) fn highest(&self, limit: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.capacity);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.p99(middle) <= limit { low = middle } else { high = middle }
        }
        low
    }

    fn wobble(&mut self, width: f64) -> f64 {
        1.0 + width * (2.0 * self.dice.uniform() - 1.0)
    }
}

impl RequestServer for Simulated {
    fn step(&mut self, offer: Offer) -> Result<LoadPoint, LoadEnd> {
        if self.ends_after.is_some_and(|most| self.steps >= most) {
            return Err(LoadEnd::Stopped);
        }
        self.steps += 1;
        let spoilt = if self.noise > 0.0 && self.dice.uniform() * (SPOILT as f64) < 1.0 { 3.0 } else { 1.0 };
        let workers = f64::from(offer.workers);
        let (rate, mean, p99) = match offer.requests_per_second {
            None => {
                let alone = workers / self.service;
                let rate = if self.soft {
                    1.0 / (1.0 / self.capacity + 1.0 / alone)
                } else {
                    self.capacity.min(alone)
                };
                (rate / spoilt, workers / rate, 3.0 * workers / rate)
            }
            // A second's look at a queue that grows.
            Some(offered) if offered >= self.capacity => (self.capacity, 0.5, offered / self.capacity),
            Some(offered) => (offered, self.service, self.p99(offered)),
        };
        let done = rate * self.wobble(self.noise);
        // On schedule no more is done than was offered.
        let operations_per_second = offer.requests_per_second.map_or(done, |offered| rate.min(offered));
        let longer = spoilt * self.wobble(2.0 * self.noise);
        let latency = Latency { mean: mean * longer, p99: p99 * longer, ..Latency::default() };
        Ok(LoadPoint {
            workers: offer.workers,
            offered: offer.requests_per_second,
            operations_per_second,
            latency,
            spread: self.noise,
            ..LoadPoint::default()
        })
    }
}
