//! The course of an experiment: some seconds in which the flow is only observed, then slots in which takers take, until
//! the shares are known well enough or the time is over. All counters are read at each look of the flow's watch.

use super::program::{ExperimentError, ForeignFlow, ProgramTakerSpec};
use super::receivers::{Receiver, ReceiverUse};
use super::slots::{DOSE, LATER, MOST_DOSE, Taking, part_of};
use super::takers::{Purpose, Takers, disk_taker};
use crate::measure::Stages;
use crate::measure::flow::Flow;
use crate::measure::others::others_cpus;
use crate::measure::running::RunningWorkers;
use crate::measure::window::{Meter, WorkerCounts};
use linerate_facts::counters::{AgentProcess, DiskCounters};
use linerate_facts::host::{HostSample, HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CoreUse;
use linerate_model::shares::{
    Hopeless, NoiseReport, ObservedFlow, RaisedSetting, ShareCounts, ShareRecord, TakenUnit, Timing, timing,
};
use linerate_system::clock;
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::start::WorkerStart;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing is taken for so long at first.
const OBSERVED: Duration = Duration::from_secs(3);
/// Samples of the flow's rate meanwhile.
const SAMPLES: usize = 6;
/// A disk that moves less than this part of what is read of it is hardly what the bytes come from.
const FROM_ELSEWHERE: f64 = 0.8;
/// CPUs that are busy for less of the time cannot limit.
const BUSY: f64 = 0.2;

/// An experiment under way.
pub(in crate::measure) struct Experiment {
    takers: Takers,
    /// What is counted apart: resources of the paths.
    subflows: Vec<String>,
    /// Who counts a flow that linerate does not move.
    foreign: Option<Box<dyn ForeignFlow>>,
    /// Cannot be taken from, and may be busy.
    untaken: Vec<String>,
    host: HostSampler,
    agents: Vec<AgentProcess>,
    counters: Vec<Arc<WorkerCounters>>,
    streams: Vec<Option<TcpStream>>,
    /// The first reading, with the host's processes; none before the flow is counted.
    first: Option<(Instant, HostSample)>,
    latest: Option<Reading>,
    /// What the flow uses of the CPUs of its pools, by taker, known from when it is only observed: what other programs use
    /// of them may change from then on. Of a program all time of its CPUs counts: taking then slows all that it computes.
    cpu_nanos_per_byte: Vec<Option<f64>>,
    /// Share of the time in which the flow needs a CPU, of one that linerate does not move.
    cpu_busy: f64,
    /// Observing and taking together.
    longest: Duration,
    round_trip_seconds: f64,
    /// What is read comes mostly from elsewhere than the disks, a cache above them or few compressed bytes: the reads count,
    /// not what the devices move.
    counts_reads: bool,
    /// Workers of the flow itself, and the bytes that one of them moves at once.
    own_workers: u32,
    block_bytes: u64,
    /// The flow's rate while nothing was taken, sample by sample, bytes a second.
    pub(super) undisturbed: Vec<f64>,
    phase: Phase,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    flow: Vec<u64>,
    used: Vec<u64>,
    taken: Vec<u64>,
    own_cpu_nanos: Vec<u64>,
}

enum Phase {
    Observing(Vec<ShareCounts>),
    Taking(Box<Taking>),
    /// No share would be known in time.
    Hopeless(ExperimentError),
}

impl Experiment {
    /// Nothing is taken yet.
    pub(super) fn new(stages: &Stages<'_>, takers: Takers, flow: &Flow) -> Self {
        let own = takers.purposes.iter().filter(|purpose| **purpose == Purpose::Flow).count();
        Experiment {
            agents: stages.agents.clone(),
            subflows: stages.plan.paths.iter().map(|path| path.resource.clone()).collect(),
            round_trip_seconds: stages.round_trip_seconds,
            own_workers: u32::try_from(own).unwrap_or(u32::MAX),
            block_bytes: flow.workers.iter().map(|worker| worker.block_bytes).max().unwrap_or(0),
            ..Experiment::taking(stages.sysroot, takers, flow.windows.window.div_f64(LATER))
        }
    }

    /// The same with the flow of a program, whose takers have started: their counters, and the streams of those that send.
    pub(super) fn of_program(
        sysroot: &Sysroot,
        takers: Takers,
        (counters, streams): (Vec<Arc<WorkerCounters>>, Vec<Option<TcpStream>>),
        spec: &ProgramTakerSpec,
        flow: Box<dyn ForeignFlow>,
    ) -> Self {
        Experiment {
            subflows: vec![spec.name.clone()],
            foreign: Some(flow),
            untaken: spec.untaken.clone(),
            counters,
            streams,
            cpu_busy: spec.cpu_busy,
            round_trip_seconds: spec.round_trip_seconds,
            own_workers: spec.threads,
            block_bytes: spec.step_bytes,
            ..Experiment::taking(sysroot, takers, spec.longest)
        }
    }

    fn taking(sysroot: &Sysroot, takers: Takers, longest: Duration) -> Self {
        let disks =
            (0..takers.all.len()).flat_map(|at| takers.disks(at)).map(|disk| disk.name.clone()).collect();
        Experiment {
            host: HostSampler::of_cpus(sysroot).and_disks(disks),
            agents: Vec::new(),
            cpu_nanos_per_byte: vec![None; takers.all.len()],
            takers,
            subflows: Vec::new(),
            foreign: None,
            untaken: Vec::new(),
            counters: Vec::new(),
            streams: Vec::new(),
            first: None,
            latest: None,
            cpu_busy: 0.0,
            longest,
            round_trip_seconds: 0.0,
            counts_reads: false,
            own_workers: 0,
            block_bytes: 0,
            undisturbed: Vec::new(),
            phase: Phase::Observing(Vec::new()),
        }
    }

    /// What a worker of the flow may move.
    pub(in crate::measure) fn gated(&self, position: usize, start: WorkerStart) -> WorkerStart {
        self.takers.gated(position, start)
    }

    /// What a worker is there for.
    pub(in crate::measure) fn purpose(&self, position: usize) -> Purpose {
        self.takers.purposes[position]
    }

    /// The flow runs: starts what is not part of it.
    pub(in crate::measure) fn start(
        &mut self,
        stages: &Stages<'_>,
        running: &mut RunningWorkers<'_>,
        streams: &[Option<TcpStream>],
    ) -> Result<(), ExperimentError> {
        self.takers.start(running, |source, reads, gate| disk_taker(stages, source, reads, gate))?;
        self.counters.clone_from(&running.counters);
        let clone = |stream: &Option<TcpStream>| stream.as_ref().and_then(|stream| stream.try_clone().ok());
        self.streams = streams.iter().map(clone).collect();
        Ok(())
    }

    /// What was recorded; or why nothing was.
    pub(super) fn end(mut self) -> Result<ShareRecord, ExperimentError> {
        self.takers.end();
        match self.phase {
            Phase::Taking(taking) => taking.end(),
            Phase::Observing(_) => Err(ExperimentError::FlowEnded),
            Phase::Hopeless(why) => Err(why),
        }
    }

    /// A look at all counters; false: it is over.
    pub(super) fn look(&mut self) -> bool {
        let Some((begin, _)) = self.first else {
            // The processes are read once: what that costs is before the first reading.
            let sample = self.host.begin();
            self.takers.look_at_receivers();
            let begin = clock::now();
            self.takers.read_once(begin, begin + OBSERVED);
            self.first = Some((begin, sample));
            self.latest = self.read(begin);
            return true;
        };
        let Some(now) = self.read(clock::now()) else { return false };
        let Some(before) = self.latest.replace(now.clone()) else { return true };
        let (counts, elapsed) = (now.since(&before), now.at - begin);
        match &mut self.phase {
            Phase::Observing(ticks) => {
                ticks.push(counts);
                if elapsed >= OBSERVED {
                    let ticks = std::mem::take(ticks);
                    self.undisturbed = samples(&ticks);
                    self.phase = self.begin_taking(&ticks, elapsed).unwrap_or_else(Phase::Hopeless);
                }
                true
            }
            Phase::Taking(taking) => {
                taking.tick(&self.takers, counts, now.at);
                !taking.ended && elapsed < taking.end_of(self.longest)
            }
            Phase::Hopeless(_) => false,
        }
    }

    /// None: a flow that linerate does not move is not there any more.
    fn read(&mut self, at: Instant) -> Option<Reading> {
        let sample = self.host.sample();
        let (taken, own_cpu_nanos) = self.takers.got(&self.counters, &self.streams);
        let flow = match &mut self.foreign {
            Some(flow) => vec![flow.bytes()?],
            None => self.takers.flow(&self.counters, &self.streams, self.subflows.len()),
        };
        let host = self.first.as_ref().map(|(_, first)| sample.since(first)).unwrap_or_default();
        let used = |taker: usize| {
            let (own, paths) = (self.takers.disks(taker), self.takers.nics(taker));
            let of_flow = self.cpu_nanos_per_byte[taker].map(|cost| cost * flow.iter().sum::<u64>() as f64);
            if !self.takers.receivers(taker).is_empty() {
                return taken[taker] + of_flow.unwrap_or(0.0) as u64;
            }
            if let Some(cores) = self.takers.cores(taker) {
                let of_takers = || own_cpu_nanos.iter().sum::<u64>() as f64;
                if self.foreign.is_some() {
                    let since = self.first.as_ref().map_or(Duration::ZERO, |(begin, _)| at - *begin);
                    return (cores.len() as f64 * since.as_secs_f64() * 1e9 + of_takers()) as u64;
                }
                let busy = || self.of_pool(taker, &host).map(CoreUse::busy).sum::<f64>() * host.seconds * 1e9;
                return of_flow.map_or_else(busy, |nanos| nanos + of_takers()) as u64;
            }
            let moved = own.iter().map(|disk| {
                let of_device = |counted: &&DiskCounters| counted.name == disk.name && !self.counts_reads;
                let counted = sample.disks.iter().find(of_device);
                // What nobody counts for the device is what was read of it here.
                counted.map_or_else(
                    || self.takers.read_of(disk, &self.counters),
                    |counted| counted.read_bytes + counted.written_bytes,
                )
            });
            let moved = moved.sum::<u64>();
            let sent = paths.iter().map(|path| flow[*path]).sum::<u64>();
            if paths.is_empty() { moved } else { sent + taken[taker] }
        };
        let used = (0..self.takers.all.len()).map(used).collect();
        Some(Reading { at, flow, used, taken, own_cpu_nanos })
    }

    /// CPUs of the pool that are busy, less what other programs use of them, as large a part as the pool has of all; at
    /// least what linerate's own threads use of them.
    fn own_of_cpus(&self, taker: usize, host: &HostUse, own: f64, others: f64) -> f64 {
        let busy: f64 = self.of_pool(taker, host).map(CoreUse::busy).sum();
        let part = busy / host.busy_cpus().max(f64::MIN_POSITIVE);
        (busy - part * others).max(part * own)
    }

    fn of_pool<'h>(&self, taker: usize, host: &'h HostUse) -> impl Iterator<Item = &'h CoreUse> {
        let pool = self.takers.cores(taker).unwrap_or_default().to_vec();
        host.cpus.iter().filter(move |cpu| pool.contains(&cpu.core))
    }

    /// Chooses the times of a slot and the doses by what was observed.
    fn begin_taking(&mut self, ticks: &[ShareCounts], elapsed: Duration) -> Result<Phase, ExperimentError> {
        self.look_at_host(ticks.iter().flat_map(|tick| &tick.flow).sum());
        let per_second = |of: &dyn Fn(&ShareCounts) -> u64| {
            ticks.iter().map(of).sum::<u64>() as f64 / elapsed.as_secs_f64().max(1e-9)
        };
        let undisturbed = per_second(&|tick: &ShareCounts| tick.flow.iter().sum());
        let workers = f64::from(self.own_workers.max(1));
        let reads_counted = |taker: usize| {
            let disks = self.takers.disks(taker).iter().filter(|_| self.counts_reads);
            disks.map(|disk| self.takers.readers(disk) as f64 / workers).reduce(|a, b| a + b)
        };
        let used = |taker: usize| match self.cpu_nanos_per_byte[taker].or_else(|| reads_counted(taker)) {
            Some(per_byte) => per_byte * undisturbed,
            None => per_second(&|tick: &ShareCounts| tick.used[taker]),
        };
        let busy = |taker: &usize| self.takers.all[*taker].resource.busy;
        let (active, left): (Vec<usize>, Vec<usize>) = (0..self.takers.all.len())
            .partition(|at| used(*at) > 0.0 && busy(at).is_none_or(|busy| busy >= BUSY));
        if active.is_empty() {
            return Err(ExperimentError::NothingToTake);
        }
        let raised = self.takers.raised.as_ref();
        let observed = ObservedFlow {
            ticks,
            period_ms: None,
            round_trip_seconds: (self.round_trip_seconds > 0.0).then_some(self.round_trip_seconds),
            queue_seconds: self.queue_seconds(ticks),
            drain_seconds: raised.map(|raised| self.drain_seconds(raised, undisturbed)),
            step_bytes: Some(self.block_bytes),
            threads: Some(self.own_workers),
            takes_cpu: active.iter().any(|at| self.takers.all[*at].resource.unit == TakenUnit::CpuNanos),
            dose: DOSE,
            budget_seconds: self.longest.saturating_sub(OBSERVED).as_secs_f64(),
        };
        let (dose, noise, chosen, raises) = match dose(observed.clone()) {
            (dose, noise, chosen) if chosen.is_ok() || raised.is_none() => {
                (dose, noise, chosen, raised.is_some())
            }
            _ => {
                let (dose, noise, chosen) = dose(ObservedFlow { drain_seconds: None, ..observed });
                (dose, noise, chosen, false)
            }
        };
        // What nothing counts may be full, too, and so may what its agent takes nothing of.
        let untaken = left.iter().filter(|at| busy(at).is_none_or(|busy| busy >= BUSY));
        let record = ShareRecord {
            taken: active.iter().map(|at| self.takers.all[*at].resource.clone()).collect(),
            raised: raised.filter(|_| raises).cloned().into_iter().collect(),
            subflows: self.subflows.clone(),
            busy_untaken: untaken
                .map(|at| self.takers.all[*at].resource.id.clone())
                .chain(self.untaken.iter().cloned())
                .collect(),
            timing: chosen.map_err(ExperimentError::Hopeless)?,
            noise,
            slots: Vec::new(),
        };
        let part = |at: usize| part_of(dose, self.takers.all[at].resource.kind);
        let doses = active.iter().map(|at| part(*at) * used(*at)).collect();
        // Any number will do, if it is another one next time.
        let seed = elapsed.as_nanos() as u64;
        Ok(Phase::Taking(Box::new(Taking::new(record, seed, active, dose, doses, undisturbed))))
    }

    /// What the host did while nothing was taken: how busy each pool of CPUs was, and with whose work. Of a disk nothing
    /// says how busy it is: a throttle holds requests back before they are counted, and a drive that takes many at once is
    /// busy with one of them.
    fn look_at_host(&mut self, flow_bytes: u64) {
        let Some((_, first)) = &self.first else { return };
        let mut last = self.host.sample();
        self.host.add_processes(&mut last);
        let host = last.since_beside(first, &self.agents);
        let own = host.cpu_seconds / host.seconds.max(1e-9);
        let others = others_cpus(&host.cpus, own, None, &host.processes);
        self.look_at_disks(&host, flow_bytes);
        for at in 0..self.takers.all.len() {
            let receivers = self.takers.receivers(at);
            if !receivers.is_empty() {
                let takes = receivers.iter().all(|receiver| receiver.takes);
                // None: not all of them are known.
                let used: Option<Vec<ReceiverUse>> = receivers.iter().map(Receiver::used).collect();
                let used = used.unwrap_or_default();
                let cpus: Vec<f64> = used.iter().map(|used| used.cpus).collect();
                let nanos = cpus.iter().sum::<f64>() * host.seconds * 1e9;
                self.cpu_nanos_per_byte[at] = (takes && flow_bytes > 0).then(|| nanos / flow_bytes as f64);
                self.takers.all[at].resource.busy = used.iter().map(|used| used.busy).reduce(f64::max);
                self.takers.part(at, &cpus);
                continue;
            }
            // One that is full is enough to limit.
            let fullest = self.of_pool(at, &host).map(CoreUse::busy).reduce(f64::max);
            // Whatever CPU a thread of a program moves to is as slow then: each loses as large a part.
            if fullest.is_some() && self.foreign.is_some() {
                self.takers.all[at].resource.busy = Some(self.cpu_busy);
                continue;
            }
            self.takers.all[at].resource.busy = fullest;
            if fullest.is_some() && flow_bytes > 0 {
                let nanos = self.own_of_cpus(at, &host, own, others) * host.seconds * 1e9;
                self.cpu_nanos_per_byte[at] = Some(nanos / flow_bytes as f64);
            }
            let used = self.used_of_members(at, &host);
            self.takers.part(at, &used);
        }
    }

    /// Whether the devices move what is read of them.
    fn look_at_disks(&mut self, host: &HostUse, flow_bytes: u64) {
        let moved: f64 = (0..self.takers.all.len())
            .filter(|at| !self.takers.disks(*at).is_empty())
            .flat_map(|at| self.used_of_members(at, host))
            .sum();
        self.counts_reads =
            self.foreign.is_none() && moved * host.seconds < FROM_ELSEWHERE * flow_bytes as f64;
    }

    /// How long a further read waits behind the flow's own: of one read of each disk, asked for when these ticks began, the
    /// last to come. Looks are as far apart as ticks: what comes within the first has not waited.
    fn queue_seconds(&self, ticks: &[ShareCounts]) -> f64 {
        let waited = |at: usize| {
            let came = ticks.iter().rposition(|tick| tick.taken[at] > 0).unwrap_or(ticks.len());
            ticks[..came].iter().map(|tick| tick.nanos as f64 * 1e-9).sum()
        };
        let disks = (0..self.takers.all.len()).filter(|at| !self.takers.disks(*at).is_empty());
        disks.map(waited).fold(0.0, f64::max)
    }

    /// What the raised workers have under way when their slot ends still takes from the disks, at half of the flow's rate:
    /// where slots are too short for that to settle, nothing is raised.
    fn drain_seconds(&self, raised: &RaisedSetting, bytes_per_second: f64) -> f64 {
        2.0 * raised.from as f64 * self.block_bytes as f64 / bytes_per_second.max(1.0)
    }

    /// What the flow used of each member of a taker, while it was observed.
    fn used_of_members(&self, at: usize, host: &HostUse) -> Vec<f64> {
        let busy = |core: &u32| host.cpus.iter().find(|cpu| cpu.core == *core).map_or(0.0, CoreUse::busy);
        let read = |name: &str| host.disks.iter().find(|disk| disk.name == name);
        let sent = |path: &usize| self.latest.as_ref().map_or(0.0, |latest| latest.flow[*path] as f64);
        let cores = self.takers.cores(at).unwrap_or_default().iter().map(busy);
        let disks = self.takers.disks(at).iter();
        let disks = disks.map(|disk| read(&disk.name).map_or(0.0, |disk| disk.read_bytes_per_second));
        cores.chain(disks).chain(self.takers.nics(at).iter().map(sent)).collect()
    }
}

/// The flow's rate, bytes a second, in parts of equal time; the rest is in none.
fn samples(ticks: &[ShareCounts]) -> Vec<f64> {
    let rate = |part: &[ShareCounts]| {
        let nanos: u64 = part.iter().map(|tick| tick.nanos).sum();
        part.iter().flat_map(|tick| &tick.flow).sum::<u64>() as f64 / (nanos as f64 * 1e-9)
    };
    ticks.chunks_exact((ticks.len() / SAMPLES).max(1)).map(rate).collect()
}

/// The smallest dose with which the shares are known in time, and the times of its slots.
fn dose(observed: ObservedFlow<'_>) -> (f64, NoiseReport, Result<Timing, Hopeless>) {
    let of = |dose: f64| {
        let (noise, chosen) = timing(&ObservedFlow { dose, ..observed.clone() });
        (dose, noise, chosen)
    };
    let [small, large] = [DOSE, MOST_DOSE].map(of);
    if small.2.is_ok() && small.1.forecast_seconds <= observed.budget_seconds { small } else { large }
}

impl Reading {
    fn since(&self, before: &Reading) -> ShareCounts {
        let less = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect()
        };
        ShareCounts {
            nanos: u64::try_from((self.at - before.at).as_nanos()).unwrap_or(u64::MAX),
            flow: less(&self.flow, &before.flow),
            used: less(&self.used, &before.used),
            taken: less(&self.taken, &before.taken),
            wanted: vec![0; self.taken.len()],
            own_cpu_nanos: less(&self.own_cpu_nanos, &before.own_cpu_nanos),
        }
    }
}

/// The meter of a flow that is experimented with.
pub(in crate::measure) struct Experimenting<'a, M> {
    pub flow: M,
    pub experiment: &'a mut Experiment,
    /// The flow's and the experiment's own.
    pub running: &'a RunningWorkers<'a>,
}

impl<M: Meter> Meter for Experimenting<'_, M> {
    type Error = M::Error;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, M::Error> {
        self.flow.marks()
    }

    fn workers(&self) -> Vec<WorkerCounts> {
        self.flow.workers()
    }

    fn look(&mut self, counted: bool) -> bool {
        // None ends by itself but by a failure, and what is left is another flow: nothing is taken beside that.
        !self.running.any_ended() && self.flow.look(counted) && (!counted || self.experiment.look())
    }

    fn is_settled(&mut self) -> bool {
        self.flow.is_settled()
    }
}

#[cfg(test)]
mod tests {
    use super::super::takers::TakenDisk;
    use super::*;
    use crate::measure::access::DeviceUse;

    fn from_vda(receivers: Vec<Receiver>) -> Experiment {
        let disk = ("disk:vda".to_string(), TakenDisk::new("vda".into(), 0));
        let takers = Takers::taking_from(clock::now(), vec![disk], Vec::new(), Vec::new(), receivers);
        Experiment::taking(&Sysroot::live(), takers, Duration::from_secs(20))
    }

    #[test]
    fn of_a_disk_that_moves_less_than_is_read_the_reads_count() {
        let counts_reads = |read_bytes_per_second| {
            let disk = DeviceUse { name: "vda".into(), read_bytes_per_second, ..DeviceUse::default() };
            let mut experiment = from_vda(Vec::new());
            let host = HostUse { seconds: 1.0, disks: vec![disk], ..HostUse::default() };
            experiment.look_at_disks(&host, 100_000_000);
            experiment.counts_reads
        };
        assert_eq!([0.0, 70e6, 90e6].map(counts_reads), [true, true, false]);
    }

    /// Three seconds of a flow, beside which a read of the disk came in this tick.
    fn ticks(came: u64) -> Vec<ShareCounts> {
        let tick = |at: u64| {
            let moved = 1_000_000 + at * 7919 % 11;
            let (flow, used, taken) = (vec![moved], vec![moved, 0], vec![u64::from(at == came), 0]);
            ShareCounts { nanos: 20_000_000, flow, used, taken, ..Default::default() }
        };
        (0..150).map(tick).collect()
    }

    fn begun(experiment: &mut Experiment, came: u64) -> Box<Taking> {
        let Ok(Phase::Taking(taking)) = experiment.begin_taking(&ticks(came), OBSERVED) else {
            panic!("nothing is taken")
        };
        taking
    }

    #[test]
    fn busy_cpus_that_an_agent_takes_nothing_of_stay_unknown() {
        let receiver = Receiver::of("receiver-cpus:peer".into(), false, Vec::new());
        let mut experiment = from_vda(vec![receiver]);
        for (busy, unknown) in [(Some(0.9), true), (None, true), (Some(0.1), false)] {
            experiment.takers.all[1].resource.busy = busy;
            let taking = begun(&mut experiment, 0);
            let ShareRecord { taken, busy_untaken, .. } = taking.record();
            let taken: Vec<&str> = taken.iter().map(|resource| &*resource.id).collect();
            assert_eq!((taken, busy_untaken.len()), (vec!["disk:vda"], usize::from(unknown)));
            assert!(busy_untaken.iter().all(|id| id == "receiver-cpus:peer"), "{busy_untaken:?}");
        }
    }

    #[test]
    fn what_a_read_waits_for_is_when_it_came() {
        let waited = |came| (from_vda(Vec::new()).queue_seconds(&ticks(came)) * 1e3).round();
        assert_eq!([0, 7, 150].map(waited), [0.0, 140.0, 3000.0], "milliseconds");
        let settling_ms = |came| begun(&mut from_vda(Vec::new()), came).record().timing.settling_ms;
        assert_eq!((settling_ms(0) < 100, settling_ms(11)), (true, 220), "a slot settles for as long");
    }

    #[test]
    fn what_is_observed_is_six_samples() {
        let tick = |bytes| ShareCounts { nanos: 250_000_000, flow: vec![bytes; 2], ..ShareCounts::default() };
        let ticks: Vec<ShareCounts> = (1..=13).map(tick).collect();
        assert_eq!(samples(&ticks), [12.0, 28.0, 44.0, 60.0, 76.0, 92.0], "of two ticks each");
        assert_eq!(samples(&ticks[..2]), [8.0, 16.0], "no more than there are ticks");
    }
}
