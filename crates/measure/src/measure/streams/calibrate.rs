//! Short trials before the figures: which way of sending is the fastest here, and whether another congestion
//! control would be faster.
//!
//! Trials are run one after another on the same path with everything else equal. What wins by less than their
//! noise does not count: then the way that costs less CPU time is taken. Congestion controls take turns, and
//! over a long path each turn waits until slow start is over: a window of a fifth of a second there shows which
//! one begins faster, and nothing of what it carries.

use super::job::{Handover, SenderSource, StreamDirection, StreamsJob};
use super::{StreamBench, measure_quietly};
use crate::measure::lossy_path::{ChosenStreams, LossyPath};
use crate::measure::product::{Measurement, StreamTrial};
use crate::measure::statistics::{Interval, median};
use crate::measure::window::WindowSpec;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_model::plan::PathPlan;
use linerate_model::plan::long_path::{CongestionControl, FEWEST_LOSSES, LossCount};
use linerate_model::verdict::thresholds::FAR_SECONDS;
use linerate_transport::flow::stream::{SendMethod, TcpSample};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One trial: long enough for TCP's slow start on a path within a country.
const TRIAL: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(200), window: Duration::from_millis(150), repeats: 3 };
/// Turns of each congestion control: so many have an interval.
const TURNS: usize = 3;
/// A turn of a near path.
const NEAR_TURN: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(150), window: Duration::from_millis(150), repeats: 1 };
/// Of a far one: round trips in which it finds its rate, and those that count. Where packets are lost by chance, slow
/// start leaves several times the window that they let stand, and some losses later it is gone: over 50 ms with one in a
/// thousand, cubic still had three to six times what it keeps after 20 round trips.
const TURN_WARM_UP_TRIPS: f64 = 60.0;
const TURN_COUNTED_TRIPS: f64 = 20.0;
/// Where something is lost, but too little to tell its share, one stream is watched for so many times the counted part of
/// such a turn: of one segment in a thousand over 20 to 200 ms it loses a dozen meanwhile.
const MORE_OF_A_TURN: u32 = 12;
/// Rates closer than this are equal.
const NOISE: f64 = 0.05;

/// A way that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodTrial {
    pub method: SendMethod,
    pub write_bytes: u32,
    /// Where it was named; none: the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    pub bytes_per_second: f64,
    /// Its windows, bytes per second; `bytes_per_second` is their median.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
    /// Of the sending host.
    pub cpu_seconds_per_gb: f64,
    /// The agent sent, and not we.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_peer: bool,
    /// Taken for the figures.
    pub chosen: bool,
}

impl MethodTrial {
    /// Where the true rate lies at 95 %, bytes per second; none: too few windows to tell.
    pub fn interval(&self) -> Option<Interval> {
        Interval::of(&self.samples)
    }

    /// Of what was measured of one way, in one or several turns; none of no turn.
    fn of(job: &StreamsJob, turns: &[Measurement]) -> Option<Self> {
        let samples: Vec<f64> = turns.iter().flat_map(|turn| turn.samples.iter().copied()).collect();
        let by_peer = job.direction == StreamDirection::Receive;
        let costs = turns.iter().map(|turn| sender_cost(turn, by_peer)).sum::<f64>();
        (!samples.is_empty()).then(|| MethodTrial {
            method: job.method,
            write_bytes: job.write_bytes,
            congestion_control: job.congestion_control.clone(),
            bytes_per_second: median(&samples),
            samples,
            cpu_seconds_per_gb: costs / turns.len() as f64,
            by_peer,
            chosen: false,
        })
    }
}

/// Ways of sending from memory over TCP.
const FROM_MEMORY: [(SendMethod, u32); 4] = [
    (SendMethod::Write, 128 << 10),
    (SendMethod::Write, 512 << 10),
    (SendMethod::Splice, 512 << 10),
    (SendMethod::Zerocopy, 512 << 10),
];
/// Of a file that the page cache holds.
const FROM_CACHE: [(SendMethod, u32); 3] =
    [(SendMethod::Write, 1 << 20), (SendMethod::Sendfile, 1 << 20), (SendMethod::Splice, 1 << 20)];

/// Tries the ways of sending that there are for this job, sets the best one in it, and gives all.
pub(crate) fn choose_method(bench: &mut StreamBench<'_>, job: &mut StreamsJob) -> Vec<MethodTrial> {
    let methods: &[(SendMethod, u32)] = match (job.protocol, &job.behind) {
        // The engine segments where the kernel can, and a file past the cache is read into buffers of its
        // own.
        (Protocol::Udp, _) | (_, SenderSource::Cold(_)) => &[],
        (Protocol::Tcp, SenderSource::Memory) => &FROM_MEMORY,
        (Protocol::Tcp, SenderSource::Cached(_)) => &FROM_CACHE,
    };
    let mut trials: Vec<MethodTrial> = Vec::new();
    for (method, write_bytes) in methods {
        // Zerocopy towards this very machine is copied, always: not worth a trial.
        if bench.stopped() || (*method == SendMethod::Zerocopy && bench.loopback) {
            continue;
        }
        let trial_job = StreamsJob { method: *method, write_bytes: *write_bytes, ..trial_of(job) };
        trials.extend(
            attempt(bench, &trial_job, TRIAL).and_then(|watched| MethodTrial::of(&trial_job, &[watched])),
        );
    }
    if let Some(best) = best(&trials) {
        trials[best].chosen = true;
        (job.method, job.write_bytes) = (trials[best].method, trials[best].write_bytes);
    }
    trials
}

/// The same for what the agent sends to us: another host, another kernel, perhaps another best way. What won
/// is the job's `peer`.
pub(crate) fn choose_peer_method(bench: &mut StreamBench<'_>, job: &mut StreamsJob) -> Vec<MethodTrial> {
    let mut asked = StreamsJob {
        direction: StreamDirection::Receive,
        behind: SenderSource::Memory,
        peer: None,
        ..job.clone()
    };
    let trials = choose_method(bench, &mut asked);
    if trials.iter().any(|trial| trial.chosen) {
        job.peer = Some(Handover { method: asked.method, write_bytes: asked.write_bytes });
    }
    trials
}

/// The system's congestion control and the others that this kernel has, in turns, by the job's own method; empty
/// where there is no other. Nothing is chosen: what applications get is the system's.
///
/// # Errors
/// A sentence, where the path is so long that the turns take more than `most_seconds`.
pub(crate) fn compare_congestion_controls(
    bench: &mut StreamBench<'_>,
    job: &StreamsJob,
    most_seconds: f64,
) -> Result<Vec<MethodTrial>, String> {
    let named = |name| StreamsJob { congestion_control: name, ..trial_of(job) };
    let jobs: Vec<StreamsJob> =
        std::iter::once(None).chain(others(bench.machine).into_iter().map(Some)).map(named).collect();
    if jobs.len() < 2 || bench.stopped() {
        return Ok(Vec::new());
    }
    let mut turns: Vec<Vec<Measurement>> = jobs.iter().map(|_| Vec::new()).collect();
    // The first tells how long a round trip is; it counts where that is short.
    let Some(first) = attempt(bench, &jobs[0], NEAR_TURN) else { return Ok(Vec::new()) };
    let windows = turn_windows(round_trip_seconds(&first));
    let seconds = windows.total().as_secs_f64() * (TURNS * jobs.len()) as f64;
    if windows.warm_up == NEAR_TURN.warm_up {
        turns[0].push(first);
    } else if seconds > most_seconds {
        return Err(format!("comparing congestion controls over so long a path takes {seconds:.0} s"));
    }
    for round in 0..TURNS {
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            if turns[at].len() <= round && !bench.stopped() {
                let watched = attempt(bench, &jobs[at], windows);
                let own = watched.iter().filter(|_| at == 0);
                own.for_each(|watched| bench.losses.join(counted_losses(watched)));
                turns[at].extend(watched);
            }
        }
    }
    Ok(jobs.iter().zip(&turns).filter_map(|(job, turns)| MethodTrial::of(job, turns)).collect())
}

/// How many streams this path is better with, where it is far and loses packets by chance, and how they are paced: by
/// trials, all of which it gives; the job has what is taken. Empty where more than one are not considered.
pub(crate) fn choose_streams(bench: &mut StreamBench<'_>, job: &mut StreamsJob) -> Vec<StreamTrial> {
    let nics = bench.paths.len().max(1) as u32;
    let one = StreamsJob { streams: nics, ..trial_of(job) };
    let congestion_control = control_of(bench.machine, job);
    if bench.stopped() || bench.loopback || matches!(congestion_control, CongestionControl::Other(_)) {
        return Vec::new();
    }
    // The first tells how long a round trip is.
    let Some(first) = attempt(bench, &one, NEAR_TURN) else { return Vec::new() };
    let round_trip_seconds = round_trip_seconds(&first);
    if round_trip_seconds < FAR_SECONDS {
        return Vec::new();
    }
    let windows = turn_windows(round_trip_seconds);
    let Some(first) = one_stream(bench, &one, windows) else { return Vec::new() };
    let path = LossyPath {
        congestion_control,
        loss: bench.losses,
        round_trip_seconds,
        segment_bytes: first.iter().map(segment_bytes).fold(0.0, f64::max),
        link_bytes_per_second: link(bench.paths),
        nics,
        is_paced: job.bytes_per_second.is_some(),
    };
    if bench.stopped() || path.more_than_one().is_none() {
        return Vec::new();
    }
    let mut try_one = |asked: ChosenStreams| {
        let streams = asked.streams.saturating_mul(nics);
        let trial_job =
            StreamsJob { streams, pacing_bytes_per_second: asked.pacing_bytes_per_second, ..one.clone() };
        let watched = attempt(bench, &trial_job, windows).filter(|_| !bench.stopped());
        Ok(watched.map(|watched| stream_trial(asked, &[watched])))
    };
    let first = stream_trial(ChosenStreams::ONE, &first);
    let trials = path.choose(first, &mut try_one).unwrap_or_default();
    if let Some(taken) = trials.iter().find(|trial| trial.chosen) {
        job.streams = taken.streams.saturating_mul(nics);
        job.pacing_bytes_per_second = taken.pacing_bytes_per_second;
    }
    trials
}

fn control_of(machine: &Machine, job: &StreamsJob) -> CongestionControl {
    let system = machine.kernel.tcp_congestion_control.known();
    let name = job.congestion_control.as_ref().or(system);
    CongestionControl::named(name.map_or("", String::as_str))
}

/// Payload that one of the NICs is known to carry; none where one is not.
fn link(paths: &[PathPlan]) -> Option<f64> {
    let rates: Option<Vec<f64>> = paths.iter().map(|path| path.rate.known().copied()).collect();
    rates.and_then(|rates| rates.into_iter().reduce(f64::max))
}

/// One stream a NIC, in one turn, or in two where it loses something, but less than says how much. What it lost counts.
fn one_stream(bench: &mut StreamBench<'_>, job: &StreamsJob, turn: WindowSpec) -> Option<Vec<Measurement>> {
    let first = attempt(bench, job, turn)?;
    bench.losses.join(counted_losses(&first));
    let loses = tcp_of(&first).any(|tcp| tcp.retransmits > 0);
    let mut turns = vec![first];
    if loses && bench.losses.losses < FEWEST_LOSSES && !bench.stopped() {
        let more = attempt(bench, job, WindowSpec { repeats: MORE_OF_A_TURN, ..turn });
        more.iter().for_each(|watched| bench.losses.join(counted_losses(watched)));
        turns.extend(more);
    }
    Some(turns)
}

/// Of these turns, which are not none.
fn stream_trial(chosen_streams: ChosenStreams, turns: &[Measurement]) -> StreamTrial {
    let mut loss = LossCount::default();
    turns.iter().for_each(|watched| loss.join(counted_losses(watched)));
    let samples: Vec<f64> = turns.iter().flat_map(|watched| watched.samples.iter().copied()).collect();
    StreamTrial {
        streams: chosen_streams.streams,
        pacing_bytes_per_second: chosen_streams.pacing_bytes_per_second,
        bytes_per_second: median(&samples),
        loss_share: loss.share().unwrap_or(0.0),
        chosen: false,
    }
}

/// Of all streams, as `run` counts them.
fn counted_losses(measurement: &Measurement) -> LossCount {
    let mut all = LossCount::default();
    for stream in measurement.streams.iter().flat_map(|result| &result.streams) {
        all.join(LossCount { losses: stream.losses, segments: stream.loss_segments });
    }
    all
}

fn tcp_of(measurement: &Measurement) -> impl Iterator<Item = &TcpSample> {
    measurement.streams.iter().flat_map(|result| &result.streams).filter_map(|stream| stream.tcp.as_ref())
}

/// Payload of the largest segments.
fn segment_bytes(measurement: &Measurement) -> f64 {
    tcp_of(measurement).map(|tcp| f64::from(tcp.segment_bytes)).fold(0.0, f64::max)
}

/// Of one turn over a path with this round trip.
fn turn_windows(round_trip_seconds: f64) -> WindowSpec {
    let trips = |count: f64| Duration::from_secs_f64((count * round_trip_seconds).clamp(0.0, 60.0));
    WindowSpec {
        warm_up: NEAR_TURN.warm_up.max(trips(TURN_WARM_UP_TRIPS)),
        window: NEAR_TURN.window.max(trips(TURN_COUNTED_TRIPS)),
        repeats: 1,
    }
}

/// The longest of the streams' shortest round trips; 0: unknown.
fn round_trip_seconds(measurement: &Measurement) -> f64 {
    f64::from(tcp_of(measurement).map(|tcp| tcp.min_rtt_micros).max().unwrap_or(0)) * 1e-6
}

/// Of the two that most systems choose between, the ones that are there and not the system's own.
fn others(machine: &Machine) -> Vec<String> {
    let kernel = &machine.kernel;
    let system = kernel.tcp_congestion_control.known().cloned().unwrap_or_default();
    let there = kernel.tcp_available_congestion_control.known().cloned().unwrap_or_default();
    ["cubic", "bbr"]
        .map(String::from)
        .into_iter()
        .filter(|name| *name != system && there.contains(name))
        .collect()
}

/// The job as a trial: without what only the figure needs.
fn trial_of(job: &StreamsJob) -> StreamsJob {
    StreamsJob { verify: false, latency: false, ..job.clone() }
}

fn attempt(bench: &mut StreamBench<'_>, job: &StreamsJob, trial: WindowSpec) -> Option<Measurement> {
    let windows = std::mem::replace(&mut bench.windows, trial);
    if job.behind.file().is_some() {
        bench.windows.repeats = 1;
    }
    let measured = measure_quietly(bench, job).measurement;
    bench.windows = windows;
    measured
}

/// CPU seconds per GB of the host that sent.
fn sender_cost(measurement: &Measurement, by_peer: bool) -> f64 {
    let peer = measurement.receiver.as_ref().filter(|_| by_peer);
    peer.map_or(measurement.cpu_seconds_per_gb, |peer| peer.cpu_seconds_per_gb)
}

/// The fastest; of those within the noise of it, the one that costs its sender least.
fn best(trials: &[MethodTrial]) -> Option<usize> {
    let most = trials.iter().map(|trial| trial.bytes_per_second).fold(0.0, f64::max);
    let near = |index: &usize| trials[*index].bytes_per_second > most * (1.0 - NOISE);
    (0..trials.len())
        .filter(near)
        .min_by(|a, b| trials[*a].cpu_seconds_per_gb.total_cmp(&trials[*b].cpu_seconds_per_gb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::streams::{StreamFigure, StreamsResult};

    fn trial(bytes_per_second: f64, cpu_seconds_per_gb: f64) -> MethodTrial {
        MethodTrial {
            method: SendMethod::Write,
            write_bytes: 1,
            congestion_control: None,
            bytes_per_second,
            samples: Vec::new(),
            cpu_seconds_per_gb,
            by_peer: false,
            chosen: false,
        }
    }

    #[test]
    fn the_fastest_wins_and_of_equals_the_cheapest() {
        assert_eq!(best(&[trial(5e9, 0.1), trial(9e9, 0.3), trial(8.8e9, 0.1)]), Some(2));
        assert_eq!(best(&[trial(5e9, 0.1), trial(9e9, 0.3), trial(8e9, 0.1)]), Some(1));
        assert_eq!(best(&[]), None);
    }

    fn one_turn(losses: u64, loss_segments: f64, retransmits: u64, samples: &[f64]) -> Measurement {
        let tcp = TcpSample { retransmits, segment_bytes: 1448, ..TcpSample::default() };
        let stream = StreamFigure { losses, loss_segments, tcp: Some(tcp), ..StreamFigure::default() };
        let job = StreamsJob::plain(Protocol::Tcp, StreamDirection::Send);
        let result = StreamsResult::plain(job, Vec::new(), vec![stream.clone(), stream]);
        Measurement { samples: samples.to_vec(), streams: Some(Box::new(result)), ..Measurement::default() }
    }

    /// Of 800 segments that were sent again in slow start none is a loss of the path.
    #[test]
    fn a_trial_has_the_losses_that_came_one_by_one_and_the_samples_of_all_its_turns() {
        let turns = [one_turn(1, 2000.0, 800, &[1e6]), one_turn(4, 3000.0, 9, &[2e6, 3e6])];
        assert_eq!(counted_losses(&turns[1]), LossCount { losses: 8, segments: 6000.0 });
        let asked = ChosenStreams { streams: 2, pacing_bytes_per_second: None };
        let trial = stream_trial(asked, &turns);
        assert_eq!((trial.streams, trial.bytes_per_second, trial.loss_share), (2, 2e6, 1e-3));
        assert_eq!(segment_bytes(&turns[0]), 1448.0);
    }

    /// Slow start over 100 ms takes a second and more: a turn that is over by then compares beginnings.
    #[test]
    fn a_turn_is_as_long_as_the_way_makes_it() {
        let seconds = |trip: f64| {
            let WindowSpec { warm_up, window, repeats } = turn_windows(trip);
            assert_eq!(repeats, 1);
            (warm_up.as_secs_f64(), window.as_secs_f64())
        };
        assert_eq!(seconds(0.0), (0.15, 0.15));
        assert_eq!(seconds(0.001), (0.15, 0.15));
        assert_eq!(seconds(0.1), (6.0, 2.0));
        assert!(turn_windows(1e9).total() <= Duration::from_secs(120));
    }
}
