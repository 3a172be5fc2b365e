//! The measurements, cleaned of what is not a number, and looked up by what they measured.

use crate::measure::{LimitedBy, Measurement, Measurements, ReceiverResult, Stage, UNREAD, WorkerResult};
use linerate_facts::protocol::Protocol;
use linerate_model::verdict::ReadsEvidence;

/// No rate or share is larger; keeps sums finite whatever a file holds.
const LARGEST: f64 = 1e15;
/// What is smaller is nothing; keeps quotients finite.
const SMALLEST: f64 = 1e-9;

/// Measurements without NaN, infinities and negatives; those that moved no bytes are left out.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub all: Measurements,
}

impl Figures {
    /// Cleans.
    pub(crate) fn new(measurements: &Measurements) -> Self {
        let cleaned = measurements.iter().map(clean);
        Figures { all: cleaned.filter(|figure| figure.bytes_per_second > 0.0).collect() }
    }

    /// One device read alone.
    pub(crate) fn disk_alone(&self, resource: &str) -> Option<&Measurement> {
        self.last(|figure| figure.stage == Stage::Disk && !figure.together && figure.resource == resource)
    }

    /// The sink of the other host, written alone.
    pub(crate) fn sink_alone(&self) -> Option<&Measurement> {
        self.last(|figure| figure.stage == Stage::Disk && figure.sink.is_some())
    }

    /// All devices read at once.
    pub(crate) fn disks_together(&self) -> Option<&Measurement> {
        self.last(|figure| figure.stage == Stage::Disk && figure.together && !flagged(figure, UNREAD))
    }

    /// The same where no CPU looked at what was read.
    pub(crate) fn unread_disks(&self) -> Option<&Measurement> {
        self.last(|figure| figure.stage == Stage::Disk && figure.together && flagged(figure, UNREAD))
    }

    /// One NIC alone; the best where several paths use it.
    pub(crate) fn network_alone(
        &self,
        resource: &str,
        protocol: Protocol,
        with_file: bool,
    ) -> Option<&Measurement> {
        let of_it = self
            .network(protocol, with_file)
            .filter(|figure| !figure.together && figure.resource == resource);
        of_it.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    }

    /// All paths at once.
    pub(crate) fn networks_together(&self, protocol: Protocol, with_file: bool) -> Option<&Measurement> {
        self.network(protocol, with_file).rfind(|figure| figure.together)
    }

    /// All paths at once, or the only one there is.
    pub(crate) fn whole_network(&self, protocol: Protocol, with_file: bool) -> Option<&Measurement> {
        let mut alone = self.network(protocol, with_file).filter(|figure| !figure.together);
        let only = alone.next().filter(|_| alone.next().is_none());
        self.networks_together(protocol, with_file).or(only)
    }

    /// All disks at once, or the only one there is.
    pub(crate) fn whole_disk(&self) -> Option<&Measurement> {
        let own = |figure: &&Measurement| figure.stage == Stage::Disk && figure.sink.is_none();
        let mut alone = self.all.iter().filter(own).filter(|figure| !figure.together);
        let only = alone.next().filter(|_| alone.next().is_none());
        self.disks_together().or(only)
    }

    /// Every network figure of a protocol.
    pub(crate) fn network(
        &self,
        protocol: Protocol,
        with_file: bool,
    ) -> impl DoubleEndedIterator<Item = &Measurement> {
        self.all.iter().filter(move |figure| {
            figure.stage == Stage::Network
                && figure.protocol == Some(protocol)
                && figure.with_file == with_file
        })
    }

    /// The whole way from disk to peer.
    pub(crate) fn path(&self, protocol: Protocol) -> Option<&Measurement> {
        self.last(|figure| figure.stage == Stage::Path && figure.protocol == Some(protocol))
    }

    /// Disks or NICs that showed less than they can, since other programs took a part of what they need.
    pub(crate) fn held_by_others(&self) -> Option<&Measurement> {
        let part = |stage| matches!(stage, Stage::Disk | Stage::Network);
        self.last(|figure| part(figure.stage) && figure.held_by == Some(LimitedBy::Others))
    }

    /// The trial of reads in flight, on whichever path it was made.
    pub(crate) fn reads_in_flight(&self) -> Option<ReadsEvidence> {
        self.all.iter().find_map(Measurement::reads_evidence)
    }

    /// A memory figure by its name.
    pub(crate) fn memory(&self, name: &str) -> Option<&Measurement> {
        self.last(|figure| figure.stage == Stage::Memory && figure.name == name)
    }

    fn last(&self, is_it: impl Fn(&Measurement) -> bool) -> Option<&Measurement> {
        self.all.iter().rev().find(|figure| is_it(figure))
    }
}

/// Something other than the measured thing held the stage.
pub(super) fn held(figure: &Measurement) -> bool {
    figure.lower_bound || figure.held_by.is_some() || held_by_cpu(figure)
}

/// The CPU or its quota held the stage.
pub(super) fn held_by_cpu(figure: &Measurement) -> bool {
    matches!(figure.held_by, Some(LimitedBy::Cpu | LimitedBy::Quota)) || flagged(figure, "quota")
}

/// The measurement carries this flag.
pub(super) fn flagged(figure: &Measurement, flag: &str) -> bool {
    figure.flags.iter().any(|other| other == flag)
}

/// What held a stage, as words.
pub(super) fn holder(figure: &Measurement) -> &'static str {
    match figure.held_by {
        Some(by) => by.words(),
        None if flagged(figure, "quota") => LimitedBy::Quota.words(),
        None => "limited by something else",
    }
}

/// What the workers that fit moved in a measurement, bytes per second; none where it reports no workers of
/// that kind.
pub(super) fn workers_rate(figure: &Measurement, of_it: impl Fn(&WorkerResult) -> bool) -> Option<f64> {
    let mut rates =
        figure.workers.iter().filter(|worker| of_it(worker)).map(|worker| worker.bytes_per_second).peekable();
    rates.peek()?;
    Some(rates.sum()).filter(|rate: &f64| *rate > 0.0)
}

fn clean(figure: &Measurement) -> Measurement {
    let mut cleaned = figure.clone();
    let Measurement { bytes_per_second, samples, spread, cpu_seconds_per_gb, seconds, loss, .. } =
        &mut cleaned;
    for value in [bytes_per_second, spread, cpu_seconds_per_gb, seconds, loss].into_iter().chain(samples) {
        number(value);
    }
    for worker in &mut cleaned.workers {
        let WorkerResult {
            bytes_per_second, cpu_share, waiting_source, waiting_sink, receiver_limited, ..
        } = worker;
        [bytes_per_second, cpu_share, waiting_source, waiting_sink, receiver_limited]
            .into_iter()
            .for_each(number);
    }
    let mut cores: Vec<_> = cleaned.cpu_by_core.iter_mut().collect();
    number(&mut cleaned.sync_seconds);
    for receiver in cleaned.receiver.iter_mut().chain(&mut cleaned.sender) {
        let ReceiverResult {
            cpu_seconds_per_gb, busiest_thread, throttled, quota_cores, cpu_by_core, ..
        } = receiver;
        [cpu_seconds_per_gb, busiest_thread, throttled, quota_cores].into_iter().for_each(number);
        cores.extend(cpu_by_core);
    }
    for core in cores {
        let classes = [&mut core.user, &mut core.nice, &mut core.system, &mut core.idle];
        classes.into_iter().for_each(number);
        [&mut core.iowait, &mut core.irq, &mut core.softirq, &mut core.steal].into_iter().for_each(number);
    }
    cleaned
}

fn number(value: &mut f64) {
    *value = if *value >= SMALLEST { value.min(LARGEST) } else { 0.0 };
}
