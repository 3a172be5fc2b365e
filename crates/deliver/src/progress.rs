//! A transfer while it goes on: how far it is, how fast, and what limits it at present, for a line now and then.

use super::evidence::ServerFacts;
use crate::evidence::{TransferLimit, held_by, limit_of, measurement_of, workers_within};
use crate::flow_sockets::FlowSockets;
use crate::stream_tally::{StreamFigures, StreamTally};
use linerate_facts::host::{HostSample, HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::{FlowDevices, disks_below};
use linerate_machine::probe::probe;
use linerate_measure::measure::{Measurement, Stage};
use linerate_system::clock;
use linerate_system::stop::Stop;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The rate that says how much time is left is that of the last so many times.
const RECENT: usize = 5;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferProgress {
    /// Of this line: 1.
    pub schema: u32,
    /// Since the transfer began.
    pub seconds: f64,
    /// Of files that are there, those of an earlier start included.
    pub bytes: u64,
    /// None: a server did not say how long all files are.
    pub total_bytes: Option<u64>,
    /// Since the last line.
    pub bytes_per_second: f64,
    /// None: nothing came lately, or the total is not known.
    pub seconds_left: Option<f64>,
    /// Since the last line.
    pub limit: TransferLimit,
}

/// Who wants to see it, and how often.
pub struct ProgressWatch<'a> {
    pub every: Duration,
    /// Of all files, where it is known.
    pub total_bytes: Option<u64>,
    pub show: &'a (dyn Fn(&TransferProgress) + Sync),
}

/// What is looked at.
pub(crate) struct WatchedTransfer<'a> {
    pub(crate) stage: Stage,
    /// Where the files are on this host.
    pub(crate) paths: &'a [PathBuf],
    pub(crate) streams: &'a [StreamTally],
    pub(crate) sockets: &'a FlowSockets,
    pub(crate) rate_limit: Option<f64>,
    pub(crate) server: &'a ServerFacts,
    /// Bytes that are there.
    pub(crate) there: &'a AtomicU64,
}

impl WatchedTransfer<'_> {
    /// Does the work of a transfer, and shows how far it is meanwhile; also what the host did.
    pub(crate) fn during<T>(
        &self,
        sysroot: &Sysroot,
        watch: Option<&ProgressWatch<'_>>,
        work: impl FnOnce() -> T,
    ) -> (T, HostUse) {
        let sampler = HostSampler::of_cpus(sysroot).and_devices();
        let before = sampler.begin();
        let done = self.shown(watch, work);
        (done, sampler.after(&before).since(&before))
    }

    fn shown<T>(&self, watch: Option<&ProgressWatch<'_>>, work: impl FnOnce() -> T) -> T {
        let Some(watch) = watch else { return work() };
        let over = Stop::new();
        std::thread::scope(|scope| {
            let look = || self.look_until(&over, watch);
            let begun = std::thread::Builder::new().name("progress".into()).spawn_scoped(scope, look);
            if let Err(error) = begun {
                tracing::warn!(%error, "no thread for the lines of progress");
            }
            // Also where the work panics: its scope waits for the thread of the lines.
            let _ends = over.ends_at_drop();
            work()
        })
    }

    fn look_until(&self, over: &Stop, watch: &ProgressWatch<'_>) {
        let (sysroot, begun) = (Sysroot::live(), clock::now());
        let disks = disks_below(&sysroot, &probe(&sysroot), self.paths);
        let sampler = HostSampler::of_cpus(&sysroot).and_devices();
        let last = self.sample(sampler.begin());
        let mut past = PastLooks { sampler, disks, rates: Vec::new(), last };
        let mut due = begun + watch.every;
        while !over.wait_until(due) {
            (watch.show)(&self.look(&mut past, begun, watch.total_bytes));
            // A line that was missed is not made up for.
            while due <= clock::now() {
                due += watch.every;
            }
        }
    }

    fn sample(&self, host: HostSample) -> TransferSample {
        TransferSample {
            there: self.there.load(Ordering::Relaxed),
            figures: self.streams.iter().map(StreamTally::figures).collect(),
            host,
        }
    }

    fn look(&self, past: &mut PastLooks, begun: Instant, total_bytes: Option<u64>) -> TransferProgress {
        let now = self.sample(past.sampler.after(&past.last.host));
        let host = now.host.since(&past.last.host);
        let figures = now.figures.iter().zip(&past.last.figures).map(|(now, then)| now.since(then));
        let figures: Vec<StreamFigures> = figures.collect();
        let moved: u64 = figures.iter().map(|figures| figures.moved).sum();
        let workers = workers_within(&figures, host.seconds, self.stage == Stage::Get);
        let used =
            FlowDevices { disks: past.disks.clone(), ..self.sockets.devices(self.stage == Stage::Get) };
        let measured = measurement_of(&host, self.stage, workers, moved, &used);
        let measured = Measurement { held_by: held_by(&figures), ..self.server.beside(measured) };
        let rate = moved as f64 / host.seconds.max(1e-9);
        past.last = now;
        past.rates.push(rate);
        past.rates.drain(..past.rates.len().saturating_sub(RECENT));
        let lately = past.rates.iter().sum::<f64>() / past.rates.len() as f64;
        let bytes = past.last.there.min(total_bytes.unwrap_or(u64::MAX));
        let left = total_bytes.map(|total| (total - bytes) as f64);
        TransferProgress {
            schema: 1,
            seconds: clock::since(begun).as_secs_f64(),
            bytes,
            total_bytes,
            bytes_per_second: rate,
            seconds_left: left.filter(|_| lately > 0.0).map(|left| left / lately),
            limit: limit_of(&measured, self.rate_limit),
        }
    }
}

struct TransferSample {
    there: u64,
    figures: Vec<StreamFigures>,
    host: HostSample,
}

/// What the next look is compared with.
struct PastLooks {
    sampler: HostSampler,
    disks: BTreeSet<String>,
    rates: Vec<f64>,
    last: TransferSample,
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::verdict::LimitKind;
    use std::sync::Mutex;

    /// One that fetches.
    fn watched<'a>(
        streams: &'a [StreamTally],
        there: &'a AtomicU64,
        (sockets, server): &'a (FlowSockets, ServerFacts),
    ) -> WatchedTransfer<'a> {
        WatchedTransfer { stage: Stage::Get, paths: &[], streams, sockets, rate_limit: None, server, there }
    }

    /// One stream in the middle of a piece that waits for its server all the time.
    #[test]
    fn what_limits_is_said_in_the_middle_of_a_piece() {
        let (streams, there) = ([StreamTally::default()], AtomicU64::new(0));
        let facts = (FlowSockets::default(), ServerFacts::new(false));
        let watched = watched(&streams, &there, &facts);
        let lines = Mutex::new(Vec::new());
        let show = |line: &TransferProgress| lines.lock().expect("no panic").push(line.clone());
        let watch =
            ProgressWatch { every: Duration::from_millis(400), total_bytes: Some(1 << 40), show: &show };
        let seen = |count| lines.lock().expect("no panic").len() >= count;
        watched.shown(Some(&watch), || {
            streams[0].at_work(|| {
                while !seen(3) {
                    streams[0].add_moved(1 << 10);
                    there.fetch_add(1 << 10, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        });
        let lines = lines.into_inner().expect("no panic");
        let (first, last) = (&lines[0], &lines[2]);
        assert!(first.bytes > 0 && last.bytes > first.bytes && last.seconds > first.seconds, "{lines:?}");
        assert!(last.bytes_per_second > 0.0 && last.seconds_left.is_some_and(|left| left > 1e3), "{last:?}");
        // Others may have the CPUs of this host meanwhile.
        let kind = last.limit.kind;
        assert!(
            last.limit.waiting_network > 0.7 && kind.is_some_and(|kind| kind != LimitKind::Disk),
            "{last:?}"
        );
        let json = serde_json::to_value(last).expect("JSON");
        assert_eq!((&json["schema"], &json["total_bytes"]), (&1.into(), &(1u64 << 40).into()));
    }

    #[test]
    fn work_that_panics_ends_the_lines_of_progress() {
        let (there, facts) = (AtomicU64::new(0), (FlowSockets::default(), ServerFacts::new(false)));
        let watched = watched(&[], &there, &facts);
        let watch = ProgressWatch { every: Duration::from_millis(10), total_bytes: Some(1), show: &|_| {} };
        let work = || watched.shown(Some(&watch), || panic!("as a bug would"));
        // It returns at all: a hang is what this is about.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        assert!(ended.is_err());
    }

    #[test]
    fn without_anyone_who_looks_there_is_no_thread() {
        let (there, facts) = (AtomicU64::new(0), (FlowSockets::default(), ServerFacts::new(false)));
        let watched = watched(&[], &there, &facts);
        assert_eq!(watched.shown(None, || std::thread::current().id()), std::thread::current().id());
    }
}
