//! Before the rounds of a run: how many streams its TCP flows get over a path that loses packets by chance.

use super::flow::Flow;
use super::lossy_path::{ChosenStreams, LossyPath, MOST_TRIALS, streams_in_words};
use super::network::all_paths;
use super::peers::Peers;
use super::product::StreamTrial;
use super::statistics::median;
use super::tcp_figures::TcpFigures;
use super::window::WindowSpec;
use super::{Stages, transfer};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::schedule::{SETTLING_TRIPS, flow_turn};
use linerate_model::plan::{Goal, WorkerPlan, plan};
use linerate_model::verdict::thresholds::FAR_SECONDS;
use std::time::Duration;

/// What a user sees of it.
pub(super) const NAME: &str = "numbers of streams";
/// Round trips that count of a trial: slow start is over, and what it left is the same for all numbers.
const COUNTED_TRIPS: f64 = 20.0;
/// Round trips for which one stream is watched that has lost something, but too little to tell how much is lost.
const WATCHED_TRIPS: f64 = 100.0;
/// Of the time for all measurements, what the trials may take.
const OF_BUDGET: f64 = 0.25;

/// The workers of TCP flows that trials have chosen in place of the plan's.
#[derive(Clone, Debug, PartialEq)]
pub struct LossyStreams {
    pub workers: Vec<WorkerPlan>,
    /// The most that each stream sends, bytes per second.
    pub pacing_bytes_per_second: Option<f64>,
}

impl Stages<'_> {
    /// Workers of the path that the stages alone stand for: of its first protocol.
    pub(super) fn path_workers(&self) -> &[WorkerPlan] {
        self.workers_of(self.goal.first_protocol())
    }

    /// Workers of a flow over this protocol, and the most that each of them sends.
    pub(super) fn workers_of(&self, protocol: Protocol) -> &[WorkerPlan] {
        let lossy = self.lossy_streams.as_ref().filter(|_| protocol == Protocol::Tcp);
        lossy.map_or(&self.plan.workers, |lossy| &lossy.workers)
    }

    fn lossy_path(&self) -> LossyPath {
        let segment = self.done.iter().flat_map(|figure| &figure.workers).map(|worker| worker.segment_bytes);
        let rates = self.plan.paths.iter().map(|path| path.rate.known().copied());
        let link = rates.collect::<Option<Vec<f64>>>().map(|rates| rates.into_iter().fold(0.0, f64::max));
        let nics = self.plan.paths.len().max(1);
        let wanted = self.goal.rate_limit.map(|limit| limit / nics as f64);
        LossyPath {
            congestion_control: self.congestion_control(),
            loss: self.losses,
            round_trip_seconds: self.round_trip_seconds,
            segment_bytes: f64::from(segment.max().unwrap_or(0)),
            link_bytes_per_second: [link, wanted].into_iter().flatten().reduce(f64::min),
            nics: nics as u32,
            is_paced: self.goal.rate_limit.is_some(),
        }
    }
}

/// Where the user has named none: as many as the path is better with. An error where the peer is gone.
pub(super) fn choose(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    let goal = stages.goal;
    let asked = goal.workers.is_some() || goal.flow.receives() || stages.plan.loopback;
    if asked || !goal.protocols.contains(&Protocol::Tcp) || stages.stopped() {
        return Ok(());
    }
    let watched = watch_losses(stages, peers)?;
    let path = stages.lossy_path();
    let Some(most) = path.more_than_one() else { return Ok(()) };
    let windows = windows(COUNTED_TRIPS, path.round_trip_seconds, stages);
    let seconds = MOST_TRIALS as f64 * flow_turn_seconds(stages, path.round_trip_seconds, windows);
    if seconds > OF_BUDGET * goal.budget_seconds {
        let known = path.link_bytes_per_second.is_some();
        stages.note(match known {
            true => format!(
                "{}: {most} streams a NIC by that alone, trials would take {seconds:.0} s; --streams sets the number",
                path.why()
            ),
            false => format!(
                "{}: more would carry more; --streams names a number, and a --budget of {:.0} has some tried",
                path.why(),
                (seconds / OF_BUDGET).ceil()
            ),
        });
        if known {
            set(stages, ChosenStreams { streams: most, pacing_bytes_per_second: None });
        }
        return Ok(());
    }
    let first = match watched {
        Some(trial) => Some(trial),
        None => try_one(stages, peers, ChosenStreams::ONE, windows)?,
    };
    let Some(first) = first else { return Ok(()) };
    let trials = path.choose(first, &mut |asked| try_one(stages, peers, asked, windows));
    stages.lossy_streams = None;
    let trials = trials?;
    let best = trials.iter().find(|trial| trial.chosen).cloned();
    if let Some(best) = best.filter(|best| *best != StreamTrial { chosen: true, ..trials[0].clone() }) {
        let others =
            trials.iter().filter(|trial| !trial.chosen).map(streams_in_words).collect::<Vec<_>>().join("; ");
        stages.note(format!(
            "{}: {} (tried beside that: {others}); --streams sets the number for each NIC",
            path.why(),
            streams_in_words(&best)
        ));
        set(stages, best.asked());
    }
    stages.stream_trials = trials;
    Ok(())
}

/// A stage alone is so short that a path which loses one segment in a thousand shows two or five losses in it: then one
/// stream is tried for longer. None where that is not needed, or the budget has no room for it.
fn watch_losses(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<Option<StreamTrial>, String> {
    let trip = stages.round_trip_seconds;
    let windows = windows(WATCHED_TRIPS, trip, stages);
    let fits = flow_turn_seconds(stages, trip, windows) <= OF_BUDGET / 2.0 * stages.goal.budget_seconds;
    match fits && trip >= FAR_SECONDS && stages.losses.losses > 0 && !stages.is_lossy() {
        true => try_one(stages, peers, ChosenStreams::ONE, windows),
        false => Ok(None),
    }
}

fn windows(counted_trips: f64, round_trip_seconds: f64, stages: &Stages<'_>) -> WindowSpec {
    let schedule = stages.plan.schedule;
    let trips = |count: f64| Duration::from_secs_f64((count * round_trip_seconds).clamp(0.0, 60.0));
    WindowSpec {
        warm_up: Duration::from_secs_f64(schedule.warm_up_seconds).max(trips(SETTLING_TRIPS)),
        window: trips(counted_trips),
        repeats: 1,
    }
}

fn flow_turn_seconds(stages: &Stages<'_>, round_trip_seconds: f64, windows: WindowSpec) -> f64 {
    flow_turn(&stages.plan.schedule, windows.window.as_secs_f64(), true, round_trip_seconds).whole_seconds
}

/// TCP's flows have this number of streams a NIC from now on.
fn set(stages: &mut Stages<'_>, chosen: ChosenStreams) {
    let goal = Goal { workers: Some(chosen.streams), ..stages.goal.clone() };
    let planned = plan(
        stages.machine,
        &goal,
        stages.plan.sources.clone(),
        stages.plan.paths.clone(),
        stages.plan.loopback,
    );
    stages.lossy_streams = Some(LossyStreams {
        workers: planned.workers,
        pacing_bytes_per_second: chosen.pacing_bytes_per_second,
    });
}

/// This number of streams from memory, once; none where nothing was measured.
fn try_one(
    stages: &mut Stages<'_>,
    peers: &mut Peers,
    chosen_streams: ChosenStreams,
    windows: WindowSpec,
) -> Result<Option<StreamTrial>, String> {
    if stages.stopped() {
        return Ok(None);
    }
    set(stages, chosen_streams);
    let flow = Flow { windows, ..all_paths(stages, Protocol::Tcp) };
    let all = format!("{NAME}: {}", chosen_streams.streams);
    stages.started(flow.stage, &all, windows);
    peers.keep_alive();
    let observation = transfer::observe(stages, peers, &flow);
    stages.lossy_streams = None;
    let Some(observed) = observation?.filter(|observed| !observed.windows.samples.is_empty()) else {
        return Ok(None);
    };
    Ok(Some(StreamTrial {
        streams: chosen_streams.streams,
        pacing_bytes_per_second: chosen_streams.pacing_bytes_per_second,
        bytes_per_second: median(&observed.windows.samples),
        loss_share: TcpFigures::loss_share(&observed.tcp),
        chosen: false,
    }))
}
