//! What limited a server's transfers: what its connections did with their time, and what the host did while they
//! had something to do.

use crate::evidence::{held_by, measurement_of};
use crate::flow_sockets::FlowSockets;
use crate::stream_tally::StreamTally;
use linerate_facts::host::{HostSample, HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::FlowDevices;
use linerate_measure::measure::{Measurement, Stage};
use linerate_system::clock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the host.
const EVERY: Duration = Duration::from_millis(250);

/// What all connections together did.
#[derive(Debug, Default)]
pub(super) struct ServedFlow {
    /// Files that went out, and files that came in.
    pub(super) sent: StreamTally,
    pub(super) taken: StreamTally,
    /// What the connections that moved something use of this host.
    pub(super) sockets: FlowSockets,
    /// Connections that have something to do.
    pub(super) at_work: AtomicUsize,
}

impl ServedFlow {
    /// Does a connection's work on files that go out.
    pub(super) fn sends<T>(&self, work: impl FnOnce() -> T) -> T {
        self.works(&self.sent, work)
    }

    /// The same of files that come in.
    pub(super) fn takes<T>(&self, work: impl FnOnce() -> T) -> T {
        self.works(&self.taken, work)
    }

    fn works<T>(&self, tally: &StreamTally, work: impl FnOnce() -> T) -> T {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        let done = tally.active(work);
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        done
    }

    pub(super) fn moved(&self) -> u64 {
        self.sent.moved().saturating_add(self.taken.moved())
    }
}

/// Looks at the host, as long as something is moved.
pub(super) struct HostWatch<'a> {
    sampler: HostSampler,
    flow: &'a ServedFlow,
    last: Option<HostSample>,
    looked: Instant,
    moved: u64,
    seen: HostUse,
}

impl<'a> HostWatch<'a> {
    pub(super) fn new(flow: &'a ServedFlow) -> Self {
        let sampler = HostSampler::of_cpus(&Sysroot::live()).and_devices();
        let looked = clock::now();
        HostWatch { sampler, flow, last: None, looked, moved: 0, seen: HostUse::default() }
    }

    /// A client came: from here on something may be moved.
    pub(super) fn begin(&mut self) {
        if self.last.is_none() {
            (self.last, self.looked) = (Some(self.sampler.begin()), clock::now());
        }
    }

    /// Something may be moved now.
    pub(super) fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Looks where it is time to.
    pub(super) fn tick(&mut self) {
        if clock::since(self.looked) >= EVERY {
            self.look();
        }
    }

    fn look(&mut self) {
        self.looked = clock::now();
        let moved = self.flow.moved();
        let is_at_work = self.flow.at_work.load(Ordering::Relaxed) > 0 || moved > self.moved;
        self.moved = moved;
        if !is_at_work {
            self.last = None;
            return;
        }
        let now = self.last.as_ref().map_or_else(|| self.sampler.begin(), |last| self.sampler.after(last));
        if let Some(last) = &self.last {
            self.seen.join(now.since(last));
        }
        self.last = Some(now);
    }

    /// How files were moved, in the time in which some were: of what went out (`Put`), or of what came in (`Get`) where
    /// that is more; none where nothing was moved, or it was not seen.
    pub(super) fn end(mut self, disks: &BTreeSet<String>) -> Option<Measurement> {
        self.look();
        let (sent, taken) = (&self.flow.sent, &self.flow.taken);
        let (stage, tally) = match taken.moved() > sent.moved() {
            true => (Stage::Get, taken),
            false => (Stage::Put, sent),
        };
        let seconds = self.seen.seconds;
        if tally.moved() == 0 || seconds <= 0.0 {
            return None;
        }
        // As many as there were at a time on the average.
        let active = tally.figures().active as f64 / 1e9;
        let count = (active / seconds).round().clamp(1.0, 4096.0);
        let mut worker = tally.worker(0, seconds, stage == Stage::Get);
        worker.bytes_per_second /= count;
        worker.sending_seconds /= count;
        let workers = vec![worker; count as usize];
        let held_by = held_by(&[tally.figures()]);
        let used = FlowDevices { disks: disks.clone(), ..self.flow.sockets.devices(stage == Stage::Get) };
        let measured = measurement_of(&self.seen, stage, workers, tally.moved(), &used);
        Some(Measurement { held_by, ..measured })
    }
}
