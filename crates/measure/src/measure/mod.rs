//! The third step: memory, disk, network, then the whole path. `measure(…) -> Measurements`.

pub mod access;
mod buckets;
mod disk;
mod evidence;
pub mod experiment;
mod flow;
mod incoming;
pub mod load;
mod lossy_path;
mod memory;
pub mod memory_sweep;
mod network;
mod observed;
pub(crate) mod others;
mod path_trials;
mod peer_figures;
mod peers;
pub(crate) mod product;
pub mod rdma;
mod read_again;
mod rounds;
pub mod running;
mod sender;
pub mod statistics;
mod stream_trials;
pub mod streams;
mod tcp_figures;
mod transfer;
mod trust;
pub mod window;

use crate::event::{Event, Listener, WorkerShares};
pub use access::{AccessResult, LoadCurve, MemoryPoint, Scaling};
use access::{Burst, Series, burst_of_flow};
use buckets::Bucket;
pub(crate) use disk::UNREAD;
pub use evidence::TransferWaits;
use linerate_facts::counters::AgentProcess;
use linerate_facts::host::HostSampler;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::long_path::LossCount;
use linerate_model::plan::schedule::{FEWEST_ROUNDS, LEAST_ROUNDS, SINK_SECONDS};
use linerate_model::plan::{Goal, Plan, SourcePlan, WorkerPlan, volume_members};
use linerate_model::shares::ShareRecord;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::flow::rate_limit::RateLimit;
use linerate_transport::flow::sink::SinkFolder;
pub use others::OthersUse;
pub(crate) use others::busy_before;
pub use peers::Peers;
pub use product::*;
pub(crate) use read_again::READ_AGAIN;
use read_again::SourceReading;
pub use read_again::{PAGE_CACHE, ReadAgain};
pub(crate) use rounds::CUT_SHORT;
use running::RunningWorkers;
pub(crate) use running::started;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use stream_trials::LossyStreams;
use streams::MethodTrial;
pub use tcp_figures::TcpFigures;
use trust::RateLimits;
pub use trust::SPREAD;
pub use window::WindowSpec;
use window::{Meter, Watch, WindowObservation, WorkerWatch};

/// What the host does without us is looked at for so long.
const BEFORE: Duration = Duration::from_millis(250);
/// A worker may make no progress for so long: shorter than a user's patience, longer than any slow disk's block.
const PATIENCE: Duration = Duration::from_secs(4);
/// Opening, connecting and stopping of one measurement on a slow machine, seconds.
const STARTING_SECONDS: f64 = 0.5;
/// The budget may be passed by this much, seconds, before devices alone are left out.
const GRACE_SECONDS: f64 = 4.0;

/// What is measured, on what, and who hears of it.
pub struct Stages<'a> {
    pub machine: &'a Machine,
    pub goal: &'a Goal,
    pub plan: &'a Plan,
    pub sysroot: &'a Sysroot,
    /// Set by Ctrl-C: what was measured so far is kept.
    pub stop: &'a Stop,
    pub listener: &'a mut dyn Listener,
    /// io_uring may be used.
    pub io_uring: bool,
    /// Directories in which a flow that comes in is stored, by the plan's sources.
    pub sinks: &'a [Arc<SinkFolder>],
    /// What stores, at either end, did not keep what it was given, or hangs: it is not asked again.
    sink_failed: bool,
    /// Called after each figure with all so far, to save them.
    pub save: &'a mut dyn FnMut(&Measurements),
    done: Measurements,
    errors: Vec<String>,
    notes: Vec<String>,
    begin: Instant,
    /// CPUs that were busy before.
    busy_before: Option<f64>,
    /// Processes of the peers, as they describe themselves.
    agents: Vec<AgentProcess>,
    /// Reads in flight of each worker, where a trial has chosen fewer than the plan.
    reads: Option<u32>,
    /// What was tried for it; goes with the first figure of the path.
    reads_trials: Vec<ReadsTrial>,
    /// Blocks go out over TCP without a copy; and the trials of that.
    zero_copy: bool,
    method_trials: Vec<MethodTrial>,
    /// Streams of TCP flows, where trials have chosen others than the plan's; and the trials of that.
    lossy_streams: Option<LossyStreams>,
    stream_trials: Vec<StreamTrial>,
    /// The longest of the paths' shortest round trips, seconds, as far as TCP has shown them; 0: not known.
    round_trip_seconds: f64,
    /// Of all TCP streams from here so far.
    losses: LossCount,
    /// Of each source, where its writing showed one.
    buckets: Vec<Option<Bucket>>,
    /// Of each source, what was read of it.
    reading: Vec<SourceReading>,
    /// What was taken from the path, and what it lost.
    experiment: Option<ShareRecord>,
    /// Why there is none, where something was to be taken.
    no_experiment: Option<String>,
    /// The path's rate before anything was taken from it, sample by sample; none where what limits is inferred, from
    /// samples of the path and of its parts in the same seconds.
    undisturbed: Vec<f64>,
}

/// Figures, and what failed on the way.
#[derive(Debug, Default)]
pub struct StageFigures {
    pub measurements: Measurements,
    pub errors: Vec<String>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// Reads in flight of each worker, where a trial has chosen fewer than the plan.
    pub reads: Option<u32>,
    /// Workers of TCP flows, where trials have chosen others than the plan's.
    pub streams: Option<LossyStreams>,
    /// Sources whose writing fell to a lower rate that does not hold their reads.
    pub spared: Vec<usize>,
}

/// A trial of the path before the rounds, and what a user sees of it.
type Trial = (&'static str, fn(&mut Stages<'_>, &mut Peers) -> Result<(), String>);

/// Measures the stages that were asked for: first what is measured once, then all disks, all NICs and the path
/// in turns.
pub fn measure(mut stages: Stages<'_>, wanted: &[Stage], peers: &mut Peers) -> StageFigures {
    stages.look_before();
    stages.agents = peers.sessions().iter().filter_map(|session| session.hello().process.clone()).collect();
    for stage in [Stage::Memory, Stage::Disk, Stage::Network] {
        if !wanted.contains(&stage) || stages.stopped() {
            continue;
        }
        peers.keep_alive();
        match stage {
            // Copies on all cores are what a server in production is to be spared.
            Stage::Memory if stages.goal.rate_limit.is_some() => {
                stages.note("memory: left out, it would move more than --rate-limit".into());
            }
            Stage::Memory => memory::measure(&mut stages),
            Stage::Disk if stages.goal.flow.receives() => network::write_alone(&mut stages, peers),
            Stage::Disk => disk::measure_alone(&mut stages),
            _ => network::measure_once(&mut stages, peers),
        }
    }
    let (mut in_turns, mut rounds) = (wanted.to_vec(), stages.plan.schedule.rounds.max(1));
    let trials: [Trial; 4] = [
        (stream_trials::NAME, stream_trials::choose),
        (path_trials::READS_TRIAL, path_trials::choose_reads),
        (path_trials::COPY_TRIAL, path_trials::choose_copy),
        (experiment::NAME, experiment::conduct),
    ];
    let failed = trials
        .iter()
        .filter(|_| wanted.contains(&Stage::Path))
        .find_map(|(name, choose)| choose(&mut stages, peers).err().map(|why| format!("path {name}: {why}")));
    if let Some(why) = failed {
        peers.close();
        stages.failed(why);
        // A peer that is gone: each round would wait for it again, and disks alone need no rounds.
        in_turns.retain(|stage| *stage == Stage::Disk);
        rounds = 1;
    }
    let is_decided = stages.experiment.as_ref().is_some_and(experiment::decides);
    stages.undisturbed.retain(|_| is_decided);
    if is_decided && stages.goal.repeats <= LEAST_ROUNDS {
        // What limits is known: the devices alone tell only how far it could be raised, and another protocol's verdict is
        // observed.
        rounds = rounds.min(FEWEST_ROUNDS);
    } else if stages.goal.experiments() {
        // As many as without one: what it left of its time is theirs.
        rounds = rounds.max(stages.goal.repeats.min(LEAST_ROUNDS));
    }
    rounds::take_turns(&mut stages, &in_turns, peers, rounds);
    let Stages { done, errors, notes, reads, lossy_streams: streams, buckets, .. } = stages;
    let exceeded = |bucket: &Option<Bucket>| bucket.is_some_and(|bucket| bucket.exceeded);
    let spared = (0..buckets.len()).filter(|source| exceeded(&buckets[*source])).collect();
    StageFigures { measurements: done, errors, notes, reads, streams, spared }
}

impl<'a> Stages<'a> {
    /// Nothing measured yet.
    #[expect(clippy::too_many_arguments, reason = "each is a product or a listener of its own")]
    pub fn new(
        machine: &'a Machine,
        goal: &'a Goal,
        plan: &'a Plan,
        sysroot: &'a Sysroot,
        stop: &'a Stop,
        listener: &'a mut dyn Listener,
        save: &'a mut dyn FnMut(&Measurements),
        io_uring: bool,
    ) -> Self {
        let (done, errors, notes) = (Vec::new(), Vec::new(), Vec::new());
        let begin = clock::now();
        let bucket = |source: &SourcePlan| {
            let burst = source.writing.as_ref().and_then(|writing| writing.burst.as_ref());
            burst.map(|burst| Bucket::emptied(burst, begin))
        };
        Stages {
            machine,
            goal,
            plan,
            sysroot,
            stop,
            listener,
            io_uring,
            sinks: &[],
            sink_failed: false,
            save,
            done,
            errors,
            notes,
            begin,
            busy_before: None,
            agents: Vec::new(),
            reads: None,
            reads_trials: Vec::new(),
            zero_copy: goal.zero_copy.unwrap_or(false),
            method_trials: Vec::new(),
            lossy_streams: None,
            stream_trials: Vec::new(),
            round_trip_seconds: 0.0,
            losses: LossCount::default(),
            buckets: plan.sources.iter().map(bucket).collect(),
            reading: plan.sources.iter().map(SourceReading::new).collect(),
            experiment: None,
            no_experiment: None,
            undisturbed: Vec::new(),
        }
    }

    /// What workers have read of these sources, in the time since their start.
    fn was_read(&mut self, sources: &[usize], running: &RunningWorkers<'_>) {
        let end = clock::now();
        for (at, bucket) in self.buckets.iter_mut().enumerate() {
            let own = sources.iter().zip(&running.counters).filter(|(source, _)| **source == at);
            let bytes: u64 = own.map(|(_, counters)| counters.progress.mark().bytes).sum();
            if let Some(bucket) = bucket.as_mut().filter(|_| bytes > 0) {
                bucket.read(running.begin, end, bytes as f64);
            }
        }
    }

    /// What the CPUs do without us.
    fn look_before(&mut self) {
        let host = HostSampler::of_cpus(self.sysroot);
        let before = host.sample();
        self.stop.wait(BEFORE);
        let meanwhile = host.sample().since(&before);
        self.busy_before = (!meanwhile.cpus.is_empty()).then(|| meanwhile.busy_cpus());
    }

    /// Watches workers of the plan, and beside them the CPUs and the block devices of its sources.
    fn watch_for(&self, windows: WindowSpec) -> Watch<'a> {
        let disk = |source: &SourcePlan| source.resource.strip_prefix("disk:").map(str::to_string);
        let mut devices: Vec<String> = self.plan.sources.iter().filter_map(disk).collect();
        let below = |name: &String| volume_members(self.machine, name).into_iter().map(str::to_string);
        devices.extend(devices.iter().flat_map(below).collect::<Vec<_>>());
        devices.sort();
        devices.dedup();
        let host = HostSampler::of_cpus(self.sysroot).and_disks(devices);
        let watch = Watch::new(windows, self.stop).beside(host);
        Watch { busy_before: self.busy_before, agents: self.agents.clone(), ..watch }
    }

    /// The user's, for the workers of one flow.
    fn rate_limit(&self) -> Option<Arc<RateLimit>> {
        self.goal.rate_limit.map(|rate| Arc::new(RateLimit::new(rate, clock::now())))
    }

    /// What a figure may be limited by that is not measured.
    fn rate_limits(&self, receiver: Option<f64>) -> RateLimits {
        RateLimits { receiver, own: self.goal.rate_limit }
    }

    /// Reads in flight of a worker.
    fn reads_of(&self, worker: &WorkerPlan) -> u32 {
        self.reads.map_or(worker.queue_depth, |reads| reads.min(worker.queue_depth))
    }

    /// Counters that a figure of these disks lacks.
    fn not_seen(&self, figure: &Measurement) -> Vec<String> {
        let has =
            |id: &str| figure.devices.iter().any(|device| id.strip_prefix("disk:") == Some(&device.name));
        let read = figure.workers.iter().map(|worker| &worker.source).filter(|id| id.starts_with("disk:"));
        let mut missing: Vec<String> = read.filter(|id| !has(id)).cloned().collect();
        missing.sort();
        missing.dedup();
        let without =
            [(figure.cpu_by_core.is_empty(), NO_CPU_USE), (figure.is_without_tcp_limits(), NO_TCP_TIMES)];
        missing.extend(without.iter().filter(|(lacks, _)| *lacks).map(|(_, what)| what.to_string()));
        missing
    }

    /// Parts what was counted of the sources' own devices from what was counted of the disks below volumes.
    fn part_members(&self, figure: &mut Measurement) {
        let names: BTreeSet<&str> =
            self.plan.sources.iter().filter_map(|source| source.resource.strip_prefix("disk:")).collect();
        let of = |name: &str| figure.devices.iter().find(|device| device.name == name).cloned();
        let volume = |name: &&str| {
            let below = volume_members(self.machine, name);
            let members: Option<Vec<DeviceUse>> = below.into_iter().map(of).collect();
            let members = members.filter(|members| !members.is_empty())?;
            Some(VolumeUse { name: name.to_string(), members })
        };
        figure.volumes = names.iter().filter_map(volume).collect();
        figure.devices.retain(|device| names.contains(device.name.as_str()));
    }

    /// Reads in flight over all workers of a source.
    fn reads_of_source(&self, source: usize) -> u32 {
        let own = self.path_workers().iter().filter(|worker| worker.source == source);
        let sum = own.map(|worker| self.reads_of(worker)).sum();
        if sum == 0 { self.plan.sources[source].queue_depth } else { sum }
    }

    fn stopped(&self) -> bool {
        self.stop.is_ended()
    }

    /// The core for a reader of a source without a worker: they are dealt round.
    fn core_for(&self, position: usize) -> Option<u32> {
        let cores = self.machine.cpu.usable();
        cores.get(position % cores.len().max(1)).copied()
    }

    /// A device alone is measured only if what matters more still fits the budget: all together, and the
    /// path.
    ///
    /// The plan has reckoned with the budget; this is for machines on which starting and stopping takes
    /// longer than it thought.
    fn has_time_for(&self, windows: WindowSpec) -> bool {
        let schedule = self.plan.schedule;
        let protocols = self.goal.protocols.len() as f64;
        let sinks = f64::from(u8::from(self.goal.writes_sink_alone()));
        let windows_of_rounds = f64::from(schedule.rounds) * (1.0 + sinks + 2.0 * protocols);
        let window = schedule.warm_up_seconds + schedule.path_seconds + STARTING_SECONDS / 4.0;
        let stores = f64::from(u8::from(self.goal.flow.stores())) * protocols;
        let stored = f64::from(schedule.rounds) * (sinks + stores) * SINK_SECONDS;
        let reserved = windows_of_rounds * window + stored;
        let spent = clock::since(self.begin).as_secs_f64() + windows.total().as_secs_f64();
        self.goal.seconds.is_some() || spent + reserved < self.goal.budget_seconds + GRACE_SECONDS
    }

    fn leave_out(&mut self, what: &str) {
        self.note(format!("{what}: left out, the time is better spent on the whole path"));
    }

    fn note(&mut self, note: String) {
        self.listener.hear(&Event::Note(note.clone()));
        self.notes.push(note);
    }

    fn short_name(&self, resource: &str) -> String {
        resource.split_once(':').map_or(resource, |(_, name)| name).to_string()
    }

    fn started(&mut self, stage: Stage, name: &str, windows: WindowSpec) {
        let seconds = windows.total().as_secs_f64();
        self.listener.hear(&Event::Started { stage, name: name.to_string(), seconds });
    }

    fn measured(&mut self, measurement: Measurement) {
        if measurement.samples.is_empty() {
            return; // Ctrl-C before the first sample
        }
        self.listener.hear(&Event::Measured(Box::new(measurement.clone())));
        self.keep(measurement);
    }

    /// Saves a figure, in the place of the same one with fewer samples.
    fn keep(&mut self, measurement: Measurement) {
        let same = |kept: &&mut Measurement| {
            (kept.stage, &kept.name, kept.with_file)
                == (measurement.stage, &measurement.name, measurement.with_file)
        };
        match self.done.iter_mut().find(same) {
            Some(kept) => *kept = measurement,
            None => self.done.push(measurement),
        }
        (self.save)(&self.done);
    }

    fn failed(&mut self, what: String) {
        // Once the user has stopped us, what the stop tears down is not news.
        if !self.stopped() && !self.errors.contains(&what) {
            self.listener.hear(&Event::Failed(what.clone()));
            self.errors.push(what);
        }
    }

    /// Watches running workers and lets the listener see their progress; `series` gets their bytes.
    fn watch<M: Meter>(
        &mut self,
        running: &RunningWorkers<'_>,
        meter: &mut M,
        windows: WindowSpec,
        stage: Stage,
        series: &mut Series,
    ) -> Result<WindowObservation, M::Error> {
        let watch = self.watch_for(windows);
        let incoming = self.goal.flow.receives();
        let listener = &mut *self.listener;
        let counters = running.counters.clone();
        let mut glance = WorkerWatch::new(&counters);
        let begin = running.begin;
        let mut tick = |_| {
            let moved = || counters.iter().map(|one| one.progress.mark().bytes).sum();
            series.look(clock::since(begin), moved);
            if let Some((bytes_per_second, shares)) = glance.look(&counters) {
                let shares = WorkerShares { incoming, ..shares };
                listener.hear(&Event::Progress { stage, bytes_per_second });
                listener.hear(&Event::Workers(shares));
            }
            running.alive()
        };
        watch.observe(meter, &mut tick)
    }
}

impl Measurement {
    /// It had two rates. A mean of both would be neither; what lasts is what counts.
    fn set_burst(&mut self, burst: Burst) {
        self.bytes_per_second = burst.sustained_bytes_per_second;
        self.interval = None;
        self.flags.push("burst".into());
        self.burst = Some(burst);
    }

    /// The same of a flow over a network, by its short windows: then no CPU or buffer held it.
    pub(crate) fn set_burst_of_flow(&mut self, rates: &[f64], window_seconds: f64) {
        // What others or a quota took for a part of the time falls like credits.
        let explained =
            matches!(self.held_by, Some(LimitedBy::Demand | LimitedBy::Others | LimitedBy::Quota));
        if let Some(burst) = burst_of_flow(&self.samples, rates, window_seconds).filter(|_| !explained) {
            (self.held_by, self.lower_bound) = (None, false);
            self.set_burst(burst);
        }
    }

    /// Earlier samples of the same flow.
    fn add_earlier(&mut self, samples: &[f64]) {
        self.samples.splice(..0, samples.iter().copied());
        self.bytes_per_second = statistics::median(&self.samples);
        self.interval = statistics::Interval::of(&self.samples).map(|interval| [interval.low, interval.high]);
        self.spread = statistics::spread(&self.samples);
    }

    /// A figure from what was seen; the stage adds its own fields.
    fn of(stage: Stage, name: String, resource: String, observation: &WindowObservation) -> Self {
        let bytes_per_second = statistics::median(&observation.samples);
        let per_gb = |seconds: f64| {
            if observation.bytes == 0 { 0.0 } else { seconds * 1e9 / observation.bytes as f64 }
        };
        Measurement {
            stage,
            name,
            resource,
            together: false,
            bytes_per_second,
            interval: statistics::Interval::of(&observation.samples)
                .map(|interval| [interval.low, interval.high]),
            spread: statistics::spread(&observation.samples),
            samples: observation.samples.clone(),
            cpu_seconds_per_gb: per_gb(observation.host.cpu_seconds),
            busy_seconds_per_gb: per_gb(observation.busy_seconds),
            cpu_share: observation.cpu_share(),
            others: observation.others(),
            quota: observation.quota(),
            devices: observation.host.disks.clone(),
            cpu_by_core: observation.host.cpus.clone(),
            seconds: observation.host.seconds,
            ..Measurement::default()
        }
    }
}
