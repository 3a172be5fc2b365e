//! Rounds: all disks, all NICs and the path take turns, one sample each, for each protocol.
//!
//! Stages that are measured one after the other are measurements of two machines where neighbours, heat or the
//! clock of the CPU change it meanwhile. In turns a change touches all of them alike, and what the path did can
//! be held against what its parts did in the same seconds. What the budget leaves after that goes to the path and
//! to the part that limits it: twice as many pairs tell a path that does what its part allows from one that does
//! not.

use super::disk::{self, DiskObservation, Readers};
use super::flow::Flow;
use super::network::{all_paths, sink_alone, whole_path, written_disks};
use super::observed::Observed;
use super::peers::Peers;
use super::product::{Measurement, Stage};
use super::window::WindowSpec;
use super::{STARTING_SECONDS, Stages, buckets, transfer};
use crate::event::STEADY;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::Goal;
use linerate_model::plan::schedule::{
    LEAST_ROUNDS, SINK_SECONDS, Way, fitting_rounds, flow_turn, longer_turn, rounds_of_others,
    writing_seconds,
};
use linerate_system::clock;
use std::time::Duration;

/// A turn that fails so often one after the other is given up.
const MOST_FAILURES: u32 = 2;
/// Rounds of it failed.
pub(crate) const CUT_SHORT: &str = "cut-short";
/// Figures whose 95 % interval is this narrow, as a share of them, need no further rounds.
const NARROW: f64 = 0.01;
/// What limits a rate often lets bytes go in slices of this time (`throtl_slice` of blk-throttle, a quota's period).
/// Samples that all begin at the same moment of a slice are all wrong by the same part of one.
const SLICE: Duration = Duration::from_millis(100);
/// Further pairs tell nothing that matters.
const MOST_DECIDING: u32 = 14;

/// What is measured, and all that was seen of it so far.
struct Turn {
    what: TurnKind,
    /// One after the other.
    failures: u32,
    /// A round of it has failed.
    failed: bool,
}

enum TurnKind {
    Disks(Readers, Option<Box<DiskObservation>>),
    Flow(Flow, Option<Box<Observed>>),
}

/// Measures so many rounds, and fewer where the figures are sure.
pub(super) fn take_turns(stages: &mut Stages<'_>, wanted: &[Stage], peers: &mut Peers, rounds: u32) {
    let mut turns = turns(stages, wanted, peers);
    let rounds = fit_round_trips(stages, &mut turns, rounds);
    for round in 0..rounds {
        if stages.stopped() || round >= LEAST_ROUNDS && turns.iter().all(|turn| turn.is_sure(stages)) {
            break;
        }
        let mut all = stage_order(&turns.iter().map(|turn| turn.label().0).collect::<Vec<_>>(), round);
        let with_others = round < rounds_of_others(stages.goal.experiments(), rounds);
        all.retain(|at| with_others || turns[*at].is_of(stages.goal.protocols.first()));
        take_round(stages, &mut turns, &all, peers, round, rounds);
        // Without a network there is no path, and nothing to hold further reads against.
        let mut flows = turns.iter().filter(|turn| turn.label().0 != Stage::Disk).peekable();
        if flows.peek().is_some() && flows.all(|turn| turn.failures >= MOST_FAILURES) {
            break;
        }
    }
    take_deciding(stages, &mut turns, peers, rounds);
    flow_steadily(stages, &mut turns, peers);
    let figures = turns.iter().filter_map(|turn| Some((turn.figure(stages)?, turn.rates())));
    let mut figures: Vec<(Measurement, &[f64])> = figures.collect();
    buckets::settle_credits(&stages.done, &mut figures);
    figures.into_iter().for_each(|(figure, _)| stages.measured(figure));
}

/// One sample of each of these turns, in this order.
fn take_round(
    stages: &mut Stages<'_>,
    turns: &mut [Turn],
    order: &[usize],
    peers: &mut Peers,
    round: u32,
    rounds: u32,
) {
    for at in order {
        let turn = &mut turns[*at];
        if stages.stopped() {
            break;
        }
        if turn.failures >= MOST_FAILURES || stages.sink_failed && turn.stores(stages.goal) {
            continue;
        }
        peers.keep_alive();
        turn.take(stages, peers, round, rounds);
        if let Some(figure) = turn.figure(stages) {
            stages.keep(figure);
        }
    }
}

/// Further samples of the path and of what limits it, as many as the budget holds.
fn take_deciding(stages: &mut Stages<'_>, turns: &mut [Turn], peers: &mut Peers, rounds: u32) {
    if rounds < LEAST_ROUNDS || stages.goal.seconds.is_some() || turns.iter().any(|turn| turn.failed) {
        return;
    }
    let Some(mut pair) = deciding(stages, turns) else { return };
    let each = |turn: &Turn| turn.windows(stages).total().as_secs_f64() + STARTING_SECONDS / 4.0;
    let stored = |turn: &Turn| if turn.stores(stages.goal) { SINK_SECONDS } else { 0.0 };
    let seconds: f64 = pair.iter().map(|at| each(&turns[*at]) + stored(&turns[*at])).sum();
    let spent = writing_seconds(&stages.plan.sources) + clock::since(stages.begin).as_secs_f64();
    let left = stages.goal.budget_seconds - spent;
    let more = ((left / seconds).max(0.0) as u32).min(MOST_DECIDING);
    for round in rounds..rounds + more {
        let failed = pair.iter().any(|at| turns[*at].failed);
        if stages.stopped() || failed || pair.iter().all(|at| turns[*at].is_sure(stages)) {
            break;
        }
        take_round(stages, turns, &pair, peers, round, rounds + more);
        pair.reverse();
    }
}

/// Lets the path flow for as long as a listener needs, such as a power meter. Its figure is that of the turns.
fn flow_steadily(stages: &mut Stages<'_>, turns: &mut [Turn], peers: &mut Peers) {
    let Some(seconds) = stages.listener.steady_seconds() else { return };
    let protocol = stages.goal.protocols.first().copied();
    let is_path = |turn: &&mut Turn| match &turn.what {
        TurnKind::Flow(flow, Some(_)) => flow.stage == Stage::Path && Some(flow.protocol) == protocol,
        _ => false,
    };
    let Some(turn) = turns.iter_mut().find(is_path) else { return };
    if stages.stopped() || turn.failed || turn.stores(stages.goal) {
        return;
    }
    peers.keep_alive();
    let TurnKind::Flow(flow, _) = &mut turn.what else { return };
    let windows = WindowSpec { window: Duration::from_secs_f64(seconds), repeats: 1, ..flow.windows };
    stages.started(flow.stage, &format!("{}{STEADY}", flow.name), windows);
    let turn_windows = std::mem::replace(&mut flow.windows, windows);
    let flowed = transfer::observe(stages, peers, flow);
    flow.windows = turn_windows;
    if let Err(why) = flowed {
        peers.close();
        stages.note(format!("the path did not flow steadily: {why}"));
    }
}

/// The path over the first protocol, and the slowest of what was measured beside it.
fn deciding(stages: &Stages<'_>, turns: &[Turn]) -> Option<[usize; 2]> {
    let protocol = stages.goal.protocols.first().copied()?;
    let rate = |at: &usize| turns[*at].figure(stages).map_or(f64::INFINITY, |figure| figure.bytes_per_second);
    let (paths, parts): (Vec<usize>, Vec<usize>) = (0..turns.len())
        .filter(|at| turns[*at].is_of(Some(&protocol)))
        .partition(|at| turns[*at].label().0 == Stage::Path);
    let part = parts.into_iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    Some([part, *paths.first()?])
}

/// Gives the flows the round trips that they need, and says how many rounds of that fit. What the budget leaves then
/// makes the turns of flows over a far way longer.
fn fit_round_trips(stages: &mut Stages<'_>, turns: &mut [Turn], rounds: u32) -> u32 {
    let (schedule, trip) = (stages.plan.schedule, stages.round_trip_seconds);
    let (named, mut longer, mut round_seconds) = (stages.goal.seconds.is_some(), false, 0.0);
    let mut over_network = 0;
    for turn in turns.iter_mut() {
        let TurnKind::Flow(flow, _) = &mut turn.what else {
            round_seconds += flow_turn(&schedule, schedule.together_seconds, named, 0.0).whole_seconds;
            continue;
        };
        let planned = flow.windows;
        // A disk that is written alone has no round trips.
        let trip = if flow.stage == Stage::Disk { 0.0 } else { trip };
        let fitted = flow_turn(&schedule, planned.window.as_secs_f64(), named, trip);
        flow.set_turn(fitted);
        longer |= flow.windows.total() > planned.total();
        over_network += u32::from(flow.stage != Stage::Disk);
        let stored = if flow.stores(stages.goal) { SINK_SECONDS } else { 0.0 };
        round_seconds += fitted.whole_seconds + stored;
    }
    if !longer && !stages.goal.experiments() {
        return rounds;
    }
    let spent = writing_seconds(&stages.plan.sources) + clock::since(stages.begin).as_secs_f64();
    let (rounds, note) = fitting_rounds(stages.goal, rounds, spent, round_seconds);
    if !longer {
        return rounds;
    }
    note.into_iter().for_each(|note| {
        stages.note(format!("round trips of {:.0} ms take longer windows: {note}", trip * 1e3));
    });
    let left = stages.goal.budget_seconds - spent - f64::from(rounds) * round_seconds;
    let each = left / f64::from(rounds.max(1)) / f64::from(over_network.max(1));
    let way = Way { round_trip_seconds: trip, trips_between_losses: stages.trips_between_losses() };
    for turn in turns {
        if let TurnKind::Flow(flow, _) = &mut turn.what
            && flow.stage != Stage::Disk
            && !named
        {
            let fitted = flow_turn(&schedule, flow.windows.window.as_secs_f64(), named, trip);
            flow.set_turn(longer_turn(fitted, each, way));
        }
    }
    rounds
}

/// The order of the turns of these stages in a round. What a path is held against comes right before or after it,
/// the disks between the paths of both protocols; every second round goes the other way, so that what changes
/// steadily meanwhile is as often before as behind.
fn stage_order(stages: &[Stage], round: u32) -> Vec<usize> {
    let (disks, flows): (Vec<usize>, Vec<usize>) =
        (0..stages.len()).partition(|at| stages[*at] == Stage::Disk);
    let first = flows.iter().position(|at| stages[*at] == Stage::Path).map_or(0, |path| path + 1);
    let (before, behind) = flows.split_at(first);
    let mut order: Vec<usize> = before.iter().copied().chain(disks).collect();
    order.extend(behind.iter().rev());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// This long in the mean, and in each round to another moment of a slice: multiples of the golden ratio leave no
/// large gap, however many rounds there are.
fn warm_up(mean: Duration, round: u32) -> Duration {
    let phase = (0.5 + f64::from(round) * 0.618_034).fract();
    (mean + SLICE.mul_f64(phase)).saturating_sub(SLICE / 2)
}

fn turns(stages: &Stages<'_>, wanted: &[Stage], peers: &Peers) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut add = |what| turns.push(Turn { what, failures: 0, failed: false });
    let written = written_disks(stages, None, stages.plan.schedule.together_seconds);
    if let Some(flow) = written.filter(|_| wanted.contains(&Stage::Disk)) {
        add(TurnKind::Flow(flow, None));
    }
    if wanted.contains(&Stage::Disk)
        && !stages.goal.flow.receives()
        && let Some(readers) = Readers::all(stages)
    {
        add(TurnKind::Disks(readers, None));
    }
    // A peer that was given up is asked for nothing more.
    let with_peer = wanted.iter().any(|stage| *stage != Stage::Disk);
    if let Some(flow) = sink_alone(stages, peers).filter(|_| wanted.contains(&Stage::Disk) && with_peer) {
        add(TurnKind::Flow(flow, None));
    }
    for protocol in &stages.goal.protocols {
        if wanted.contains(&Stage::Network) && !stages.plan.paths.is_empty() {
            add(TurnKind::Flow(all_paths(stages, *protocol), None));
        }
        if wanted.contains(&Stage::Path) && !stages.plan.workers.is_empty() {
            add(TurnKind::Flow(whole_path(stages, *protocol), None));
        }
    }
    turns
}

impl Turn {
    /// One sample more.
    fn take(&mut self, stages: &mut Stages<'_>, peers: &mut Peers, round: u32, rounds: u32) {
        let mut windows = self.windows(stages);
        windows.warm_up = warm_up(windows.warm_up, round);
        let (stage, name) = self.label();
        stages.started(stage, &format!("{name}, round {} of {rounds}", round + 1), windows);
        let failed_before = stages.errors.len();
        let result = match &mut self.what {
            TurnKind::Disks(readers, all) => {
                disk::observe(stages, readers, windows).map(|watched| match all {
                    Some(all) => all.join(watched),
                    None => *all = Some(Box::new(watched)),
                })
            }
            TurnKind::Flow(flow, all) => {
                let mean = std::mem::replace(&mut flow.windows, windows);
                let watched = transfer::observe(stages, peers, flow);
                flow.windows = mean;
                watched.map(|watched| match (all, watched) {
                    (Some(all), Some(watched)) => all.join(watched),
                    (all, Some(watched)) => *all = Some(Box::new(watched)),
                    _ => {}
                })
            }
        };
        if let Err(why) = result {
            // Workers that did not start leave the test open at the agents, which then refuse the next.
            peers.close();
            stages.failed(format!("{}: {why}", self.failing()));
            // A peer that is gone, or a file: the next round would wait for it again.
            self.failures = MOST_FAILURES;
        } else if stages.errors.len() > failed_before {
            self.failures += 1;
        } else {
            self.failures = 0;
        }
        self.failed |= self.failures > 0;
    }

    fn windows(&self, stages: &Stages<'_>) -> WindowSpec {
        match &self.what {
            TurnKind::Disks(..) => WindowSpec {
                warm_up: Duration::from_secs_f64(stages.plan.schedule.warm_up_seconds),
                window: Duration::from_secs_f64(stages.plan.schedule.together_seconds),
                repeats: 1,
            },
            TurnKind::Flow(flow, _) => WindowSpec { repeats: 1, ..flow.windows },
        }
    }

    /// Over this protocol, or over none.
    fn is_of(&self, protocol: Option<&Protocol>) -> bool {
        match &self.what {
            TurnKind::Disks(..) => true,
            TurnKind::Flow(flow, _) => Some(&flow.protocol) == protocol,
        }
    }

    /// A disk keeps what it moves.
    fn stores(&self, goal: &Goal) -> bool {
        matches!(&self.what, TurnKind::Flow(flow, _) if flow.stores(goal))
    }

    /// What a sentence about a failure begins with; of a disk that is written, that names itself.
    fn failing(&self) -> String {
        let (stage, name) = self.label();
        match &self.what {
            TurnKind::Flow(flow, _) => flow.failing(),
            TurnKind::Disks(..) => format!("{stage} {name}"),
        }
    }

    fn label(&self) -> (Stage, String) {
        match &self.what {
            TurnKind::Disks(readers, _) => (Stage::Disk, readers.name.clone()),
            TurnKind::Flow(flow, _) => (flow.stage, flow.name.clone()),
        }
    }

    /// What all samples so far say; none before the first.
    fn figure(&self, stages: &Stages<'_>) -> Option<Measurement> {
        let figure = match &self.what {
            TurnKind::Disks(readers, watched) => disk::describe(stages, readers, watched.as_ref()?),
            TurnKind::Flow(flow, watched) => transfer::describe(stages, flow, watched.as_ref()?),
        };
        let mut figure = Some(figure).filter(|figure| !figure.samples.is_empty())?;
        if self.failed && !figure.flags.iter().any(|flag| flag == CUT_SHORT) {
            figure.flags.push(CUT_SHORT.into());
        }
        Some(figure)
    }

    /// Of the short windows of a flow.
    fn rates(&self) -> &[f64] {
        match &self.what {
            TurnKind::Flow(_, Some(watched)) => &watched.rates,
            TurnKind::Flow(_, None) | TurnKind::Disks(..) => &[],
        }
    }

    fn is_sure(&self, stages: &Stages<'_>) -> bool {
        self.figure(stages).is_some_and(|figure| {
            let narrow = |[low, high]: [f64; 2]| high - low <= NARROW * figure.bytes_per_second;
            figure.interval.is_some_and(narrow)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six samples of a device that lets 100 ms worth of bytes go every 100 ms are right in the mean.
    #[test]
    fn samples_begin_at_every_moment_of_a_slice() {
        let mean = Duration::from_millis(350);
        let mut phases: Vec<f64> = (0..6).map(|round| warm_up(mean, round).as_secs_f64() % 0.1).collect();
        phases.sort_by(f64::total_cmp);
        assert!(phases.windows(2).all(|two| two[1] - two[0] < 0.025), "{phases:?}");
        assert!(phases[0] + 0.1 - phases[5] < 0.025, "{phases:?}");
        let all: Vec<Duration> = (0..50).map(|round| warm_up(mean, round)).collect();
        assert!(all.iter().all(|time| (300..400).contains(&time.as_millis())), "{all:?}");
        assert!((all.iter().sum::<Duration>() / 50).abs_diff(mean) < Duration::from_millis(2));
        assert_eq!(warm_up(Duration::ZERO, 0), Duration::ZERO);
    }

    #[test]
    fn a_path_is_measured_beside_what_it_is_held_against() {
        use Stage::{Disk, Network, Path};
        let all = [Disk, Network, Path, Network, Path];
        assert_eq!(stage_order(&all, 0), [1, 2, 0, 4, 3]);
        assert_eq!(stage_order(&all, 1), [3, 4, 0, 2, 1]);
        assert_eq!(stage_order(&all[..3], 0), [1, 2, 0]);
        assert_eq!(stage_order(&all[..3], 5), [0, 2, 1]);
        assert_eq!(stage_order(&[Disk], 1), [0]);
        assert_eq!(stage_order(&[Network, Network], 0), [1, 0]);
        assert!(stage_order(&[], 0).is_empty());
    }
}
