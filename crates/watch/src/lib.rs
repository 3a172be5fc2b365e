//! `linerate watch`: one sampler of raw counters, one model of rates, several views. It looks on beside
//! anything, changes nothing, and costs less than 1 % of a core.
//!
//! [`Watch`] takes samples and makes a [`Moment`] of each; a [`Replay`] gives the moments of a recording.

#![forbid(unsafe_code)]

pub mod bottleneck;
mod build;
pub mod flow;
pub mod history;
mod kept;
pub mod latest_moment;
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

pub use build::Builder;
pub use metrics::{openmetrics, prometheus_text};
pub use model::{Moment, SCHEMA};
pub use pace::NoThread;
pub use record::{RecordError, Recorder};
pub use replay::{Replay, ReplayError};
pub use sample::{HostSample, Sampler, WatchSpec};

use linerate_facts::sysroot::Sysroot;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Samples at a pace, and moments made of them.
#[derive(Debug)]
pub struct Watch {
    sampler: Sampler,
    builder: Builder,
    interval: Duration,
    due: Instant,
}

impl Watch {
    /// Takes the first sample, which has no rates.
    pub fn start(sysroot: &Sysroot, order: &WatchSpec) -> Result<Watch, NoThread> {
        let host = sysroot.text("/proc/sys/kernel/hostname").unwrap_or_else(|_| "this host".into());
        let (mut sampler, mut builder) = (Sampler::start(sysroot, order)?, Builder::new(host, order));
        builder.moment(&sampler.sample());
        Ok(Watch { sampler, builder, interval: order.interval, due: Instant::now() + order.interval })
    }

    /// The next moment, when its time has come; none where the user stopped before.
    pub fn next(&mut self, stop: &AtomicBool) -> Option<Moment> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
        let moment = self.builder.moment(&self.sampler.sample());
        // Ticks that were missed (a suspended machine) are left out, not made up for.
        let now = Instant::now();
        while self.due <= now {
            self.due += self.interval;
        }
        Some(moment)
    }
}
