//! `linerate watch`: one sampler of raw counters, one model of rates, several views. It looks on beside
//! anything, changes nothing, and costs less than 1 % of a core.
//!
//! [`LiveWatch`] takes samples and makes a [`Moment`] of each; a [`Replay`] gives the moments of a recording.

#![forbid(unsafe_code)]

pub mod bottleneck;
mod build;
pub mod history;
pub mod lines;
mod metrics;
pub mod model;
pub mod pace;
pub mod page;
mod record;
mod replay;
mod sample;
pub mod sources;
pub mod terminal;

pub use build::MomentBuilder;
pub use metrics::{openmetrics, prometheus_text};
pub use model::{Moment, SCHEMA};
pub use pace::NoThread;
pub use record::{RecordError, Recorder};
pub use replay::{Replay, ReplayError};
pub use sample::{Sampler, WatchSample, WatchSpec};

use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::time::{Duration, Instant};

/// Samples at a pace, and moments made of them.
#[derive(Debug)]
pub struct LiveWatch {
    sampler: Sampler,
    builder: MomentBuilder,
    interval: Duration,
    due: Instant,
}

impl LiveWatch {
    /// Takes the first sample, which has no rates.
    pub fn start(sysroot: &Sysroot, spec: &WatchSpec) -> Result<LiveWatch, NoThread> {
        let host = sysroot.text("/proc/sys/kernel/hostname").unwrap_or_else(|_| "this host".into());
        let (mut sampler, mut builder) = (Sampler::start(sysroot, spec)?, MomentBuilder::new(host, spec));
        builder.moment(&sampler.sample());
        Ok(LiveWatch { sampler, builder, interval: spec.interval, due: clock::now() + spec.interval })
    }

    /// The next moment, when its time has come; none where the user stopped before.
    pub fn next(&mut self, stop: &Stop) -> Option<Moment> {
        if stop.wait_until(self.due) {
            return None;
        }
        let moment = self.builder.moment(&self.sampler.sample());
        // Ticks that were missed (a suspended machine) are left out, not made up for.
        let now = clock::now();
        while self.due <= now {
            self.due += self.interval;
        }
        Some(moment)
    }
}
