//! How long each measurement takes, so that all of them fit the budget however many devices there are.
//!
//! First what is measured once, within a third of the budget: memory; each device alone, where there are
//! several; the network with a cached file behind it. Then rounds, in which all disks, all NICs and the path
//! take turns, one sample each: what changes with the minute (neighbours, heat, the clock of the CPU) touches
//! all of them alike. Six rounds are needed for a figure with a 95 % interval, and so to confirm anything.
//!
//! Too many devices for the budget: the samples of what is alone shrink down to 0.15 s, then fewer are measured
//! alone (the rest only together). A budget that holds no three rounds shrinks everything, down to the shortest
//! samples that say anything; one that does not hold those is passed, and a note says by how much. `Goal::seconds`
//! overrides all of that.

use super::goal::Goal;
use super::product::{PathPlan, Plan, Schedule, SourcePlan};
use crate::verdict::thresholds::FAR_SECONDS;
use linerate_facts::protocol::Protocol;
use linerate_facts::wording::counted;

/// All memory measurements together, seconds.
const MEMORY_SECONDS: f64 = 2.0;
/// Opening files, connecting, closing and asking the receiver, for each measurement, seconds.
const SETUP_SECONDS: f64 = 0.1;
/// The room that a sink takes for a measurement, what its disk still has to write at the end, and its fsync, seconds.
pub const SINK_SECONDS: f64 = 0.3;
/// What is not counted before a window, seconds. Limits of cgroups hand out their bytes in steps of a tenth of a
/// second from the first request on (`throtl_slice` in the kernel's block/blk-throttle.c): a window that begins
/// together with a step holds one more or one less, a seventh of it; one that begins between two, and is a
/// whole number of them long, holds as many as it should.
pub const WARM_UP_SECONDS: f64 = 0.35;
const STEP_SECONDS: f64 = 0.1;

/// Round trips of a flow that are not counted, at most, and those of a sample: TCP finds its rate within them, mostly in
/// half of them (`Settling`).
pub const SETTLING_TRIPS: f64 = 40.0;
const COUNTED_TRIPS: f64 = 10.0;
/// The same, at most, where the budget holds more: over a far way TCP's window goes up and down, and losses by chance
/// are so seldom, that ten round trips hold a part of one of its teeth (RFC 9438, section 5).
const MOST_SETTLING_TRIPS: f64 = 80.0;
const MOST_COUNTED_TRIPS: f64 = 100.0;
/// The same in losses, where they come by chance: what slow start left is gone after some of them, and a sample of fewer
/// is a part of one tooth. One in ten thousand comes once in 80 round trips of the window that it lets stand.
const SETTLING_LOSSES: f64 = 3.0;
const COUNTED_LOSSES: f64 = 4.0;
/// Round trips of opening and closing a flow.
const OPENING_TRIPS: f64 = 6.0;

/// Choosing the reads in flight on the path, seconds.
const TRIAL_SECONDS: f64 = 4.0;
const MOST_TRIALS: f64 = 8.0;
/// One sample of a round, seconds.
const WINDOW_SECONDS: f64 = 0.7;
const LONGEST_ALONE_SECONDS: f64 = 0.8;
/// The same where what limits is measured by taking: what is alone then tells only how far that could be raised, and so do
/// rounds.
const LONGEST_BESIDE_EXPERIMENT_SECONDS: f64 = 0.2;
const WINDOW_BESIDE_EXPERIMENT_SECONDS: f64 = 0.3;
const SHORTEST_ALONE_SECONDS: f64 = 0.15;
/// Two whole steps of a throttle. Less holds one step or none as it falls: samples of 0.04 s of a disk of 50 MB/s
/// were 3,000 times as far apart as their median.
const SHORTEST_WINDOW_SECONDS: f64 = 2.0 * STEP_SECONDS;
/// Between two steps, past the first, which lets all requests that wait go at once.
const SHORTEST_WARM_UP_SECONDS: f64 = 0.15;
/// Samples of what is measured at one go.
const REPEATS: u32 = 3;
/// Fewer rounds have no interval that holds the median in 95 % of all cases.
pub const LEAST_ROUNDS: u32 = 6;
/// The fewest rounds with opening and closing, and the one of each further protocol, as default runs took them, seconds.
const ROUNDS_SECONDS: f64 = 8.0;
const FURTHER_PROTOCOL_SECONDS: f64 = 2.0;
/// Fewer have no interval at all.
pub const FEWEST_ROUNDS: u32 = 3;
/// More tell nothing that matters.
const MOST_ROUNDS: u32 = 20;

/// The resources of the sources that are measured alone, in the order of the sources; each once.
pub fn alone_disks(plan: &Plan) -> Vec<String> {
    let disks = distinct_resources(&plan.sources);
    let limit = limit(&plan.schedule, disks.len());
    disks.into_iter().take(limit).map(str::to_string).collect()
}

/// Indices of the paths that are measured alone.
pub fn alone_paths(plan: &Plan) -> std::ops::Range<usize> {
    0..limit(&plan.schedule, plan.paths.len())
}

fn limit(schedule: &Schedule, devices: usize) -> usize {
    if schedule.alone_limit == 0 { devices } else { devices.min(schedule.alone_limit) }
}

fn distinct_resources(sources: &[SourcePlan]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let disks = sources.iter().filter(|source| source.is_disk()).map(|source| source.resource.as_str());
    disks.filter(|resource| seen.insert(*resource)).collect()
}

/// How many of what there is to measure.
#[derive(Clone, Copy, Debug)]
struct Counts {
    disks: usize,
    paths: usize,
    protocols: usize,
    /// Sinks of the peer that are measured alone, and whether what the path carries is stored.
    sinks: usize,
    stored: bool,
    /// The flow comes in: the disks are written.
    comes_in: bool,
    experiments: bool,
}

impl Counts {
    fn of(sources: &[SourcePlan], paths: &[PathPlan], goal: &Goal) -> Self {
        let distinct = |wanted: Protocol| usize::from(goal.protocols.contains(&wanted));
        Counts {
            disks: distinct_resources(sources).len(),
            paths: paths.len(),
            protocols: distinct(Protocol::Tcp) + distinct(Protocol::Udp),
            sinks: usize::from(goal.writes_sink_alone() && !paths.is_empty()),
            stored: goal.flow.stores(),
            comes_in: goal.flow.receives(),
            experiments: goal.experiments(),
        }
    }
}

/// The times of a plan with these sources and paths, and what the user should know about them.
pub(super) fn fit(sources: &[SourcePlan], paths: &[PathPlan], goal: &Goal) -> (Schedule, Vec<String>) {
    let counts = Counts::of(sources, paths, goal);
    let budget = if goal.budget_seconds.is_finite() { goal.budget_seconds.max(0.0) } else { f64::MAX };
    let wished = goal.repeats.clamp(1, MOST_ROUNDS.max(goal.repeats));
    let schedule = |alone: f64, window: f64, alone_limit: usize, rounds: u32| Schedule {
        warm_up_seconds: WARM_UP_SECONDS,
        alone_seconds: alone,
        together_seconds: window,
        path_seconds: window,
        repeats: REPEATS,
        rounds,
        alone_limit,
    };
    if let Some(seconds) = goal.seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0) {
        let chosen = schedule(seconds, seconds, 0, wished);
        let total = seconds_of(&counts, &chosen);
        let note =
            format!("with samples of {seconds} s as asked for, all measurements take about {total:.0} s");
        return (chosen, if total > budget { vec![note] } else { Vec::new() });
    }
    let experiment = goal.experiment_seconds();
    let (longest, window) = match experiment > 0.0 {
        true => (LONGEST_BESIDE_EXPERIMENT_SECONDS, WINDOW_BESIDE_EXPERIMENT_SECONDS),
        false => (LONGEST_ALONE_SECONDS, WINDOW_SECONDS),
    };
    let first = |alone: f64, limit: usize| seconds_of(&counts, &schedule(alone, window, limit, 0));
    let one_round = seconds_of(&counts, &schedule(0.0, window, 0, 1)) - first(0.0, 0);
    let six_rounds = first(SHORTEST_ALONE_SECONDS, 1) + f64::from(LEAST_ROUNDS) * one_round;
    let budget = left_of(budget, sources, six_rounds);
    // Half of what an experiment leaves: the stages are held against each other in rounds only where it decides nothing.
    let share = if experiment > 0.0 { (budget - experiment) / 2.0 } else { budget / 3.0 };
    let part = share.min(budget - experiment - f64::from(wished.min(LEAST_ROUNDS)) * one_round);
    let mut notes = Vec::new();
    let each = first(1.0, 0) - first(0.0, 0);
    let (alone, alone_limit) = match longest_that_fits(longest, (part - first(0.0, 0)) / each) {
        Some(alone) => (alone, 0),
        None => {
            let most = counts.disks.max(counts.paths).max(1);
            let fitting = (1..most).rev().find(|limit| first(SHORTEST_ALONE_SECONDS, *limit) <= part);
            let limit = fitting.unwrap_or(usize::from(most > 1));
            // One disk and one path have nothing beside them.
            notes = if most > 1 { left_out(sources, paths, limit, budget) } else { Vec::new() };
            (SHORTEST_ALONE_SECONDS, limit)
        }
    };
    let room = (budget - experiment - first(alone, alone_limit)).max(0.0);
    let fitting =
        if one_round > 0.0 { (room / one_round + 1e-9).min(f64::from(u32::MAX)) as u32 } else { wished };
    let rounds = fitting.min(wished).max(FEWEST_ROUNDS.min(wished));
    let mut chosen = schedule(alone, window, alone_limit, rounds);
    // What is measured by taking needs no rounds to be confirmed.
    if rounds < LEAST_ROUNDS && one_round > 0.0 && experiment == 0.0 {
        let needed = first(alone, alone_limit) + f64::from(LEAST_ROUNDS) * one_round;
        notes.push(too_few(rounds, wished, budget, needed));
    }
    let takes = |schedule: &Schedule| seconds_of(&counts, schedule);
    if takes(&chosen) > budget {
        squeeze(&mut chosen, budget, takes);
        notes.push(short(budget, &chosen, takes(&chosen)));
    }
    (chosen, notes)
}

/// What the writing of scratch files, which are all written at once, left of the budget; not less than six rounds
/// take, where the whole of it would hold them.
fn left_of(budget: f64, sources: &[SourcePlan], six_rounds: f64) -> f64 {
    (budget - writing_seconds(sources)).max(six_rounds.min(budget))
}

/// What the writing of the scratch files, all at once, took.
pub fn writing_seconds(sources: &[SourcePlan]) -> f64 {
    let writing = sources.iter().filter_map(|source| source.writing.as_ref()).map(|writing| writing.seconds);
    writing.fold(0.0, f64::max)
}

/// One flow's turn in a round, where a round trip takes so long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowTurn {
    pub warm_up_seconds: f64,
    pub window_seconds: f64,
    /// With its opening and its end.
    pub whole_seconds: f64,
}

/// At least as long as scheduled; a length that the user has named stays.
pub fn flow_turn(schedule: &Schedule, window_seconds: f64, named: bool, round_trip_seconds: f64) -> FlowTurn {
    let trip = if round_trip_seconds.is_finite() { round_trip_seconds.max(0.0) } else { 0.0 };
    let warm_up_seconds = schedule.warm_up_seconds.max(SETTLING_TRIPS * trip);
    let window_seconds = if named { window_seconds } else { window_seconds.max(COUNTED_TRIPS * trip) };
    let whole_seconds = SETUP_SECONDS + OPENING_TRIPS * trip + warm_up_seconds + window_seconds;
    FlowTurn { warm_up_seconds, window_seconds, whole_seconds }
}

/// A way that a flow goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    pub round_trip_seconds: f64,
    /// Round trips from one loss of a stream to its next, where packets are lost by chance.
    pub trips_between_losses: Option<f64>,
}

/// A flow's turn over a far way, longer by what the budget leaves for it. Half of that goes to what is not counted:
/// where slow start has left a window that losses by chance do not let stand, it takes many of them to be gone.
pub fn longer_turn(turn: FlowTurn, left_seconds: f64, way: Way) -> FlowTurn {
    let trip = way.round_trip_seconds;
    let is_far = trip.is_finite() && trip >= FAR_SECONDS;
    if !is_far || left_seconds.is_nan() || left_seconds <= 0.0 {
        return turn;
    }
    let of_losses = |losses: f64| way.trips_between_losses.map_or(0.0, |trips| losses * trips);
    let most = |trips: f64, now: f64| (trips * trip - now).max(0.0);
    let most_settling = MOST_SETTLING_TRIPS.max(of_losses(SETTLING_LOSSES));
    let most_counted = MOST_COUNTED_TRIPS.max(of_losses(COUNTED_LOSSES));
    // A sample that begins too early is wrong whatever its length: where losses are known, that comes first.
    let first = if way.trips_between_losses.is_some() { MOST_SETTLING_TRIPS } else { 0.0 };
    let first = most(first, turn.warm_up_seconds).min(left_seconds);
    let warm_up = (first + (left_seconds - first) / 2.0).min(most(most_settling, turn.warm_up_seconds));
    let window = (left_seconds - warm_up).min(most(most_counted, turn.window_seconds));
    FlowTurn {
        warm_up_seconds: turn.warm_up_seconds + warm_up,
        window_seconds: turn.window_seconds + window,
        whole_seconds: turn.whole_seconds + warm_up + window,
    }
}

/// Rounds of this length that fit the budget after so much of it is spent, of those that were planned; and what
/// the user should know where too few do.
pub fn fitting_rounds(goal: &Goal, planned: u32, spent: f64, round_seconds: f64) -> (u32, Option<String>) {
    let budget = if goal.budget_seconds.is_finite() { goal.budget_seconds.max(0.0) } else { f64::MAX };
    if goal.seconds.is_some() || round_seconds <= 0.0 {
        return (planned, None);
    }
    let fitting = ((budget - spent).max(0.0) / round_seconds + 1e-9).min(f64::from(u32::MAX)) as u32;
    let rounds = fitting.max(FEWEST_ROUNDS).min(planned);
    let few = rounds < LEAST_ROUNDS.min(planned);
    let needed = spent + f64::from(LEAST_ROUNDS) * round_seconds;
    (rounds, few.then(|| too_few(rounds, goal.repeats, budget, needed)))
}

/// What an experiment may take when so much of the budget is spent: the rounds behind it keep their time.
pub fn experiment_seconds(goal: &Goal, spent: f64) -> f64 {
    let further = goal.protocols.len().saturating_sub(1) as f64 * FURTHER_PROTOCOL_SECONDS;
    goal.experiment_seconds().min(goal.budget_seconds - spent - ROUNDS_SECONDS - further).max(0.0)
}

fn too_few(rounds: u32, wished: u32, budget: f64, needed: f64) -> String {
    if wished < LEAST_ROUNDS {
        let wished = counted(wished, "round");
        return format!("{wished}, as asked for, can confirm nothing: {LEAST_ROUNDS} do (--repeats)");
    }
    format!(
        "{budget:.0} s hold {}; the verdict is confirmed from {LEAST_ROUNDS} on: --budget {:.0}",
        counted(rounds, "round"),
        needed.ceil()
    )
}

/// Rounds in which protocols but the first take their turn: beside an experiment few rounds hold them once, for what
/// limits them is observed.
pub fn rounds_of_others(experiments: bool, rounds: u32) -> u32 {
    if experiments && rounds <= FEWEST_ROUNDS { rounds.min(1) } else { rounds }
}

/// Samples of what is alone, of which these would fit; none where the shortest do not.
fn longest_that_fits(longest: f64, fitting: f64) -> Option<f64> {
    let steps = (fitting / STEP_SECONDS + 1e-6).floor();
    match fitting {
        _ if fitting >= longest || fitting.is_nan() => Some(longest),
        _ if fitting < SHORTEST_ALONE_SECONDS => None,
        _ => Some(if steps > 1.0 { steps * STEP_SECONDS } else { fitting }),
    }
}

/// Shrinks warm-up and samples, all by the same part of what lies between them and the shortest that say anything;
/// a budget that does not hold those cannot be met.
fn squeeze(schedule: &mut Schedule, budget: f64, takes: impl Fn(&Schedule) -> f64) {
    let shortest = Schedule {
        warm_up_seconds: SHORTEST_WARM_UP_SECONDS,
        alone_seconds: SHORTEST_ALONE_SECONDS,
        together_seconds: SHORTEST_WINDOW_SECONDS,
        path_seconds: SHORTEST_WINDOW_SECONDS,
        ..*schedule
    };
    let least = takes(&shortest);
    // Where nothing has samples, there is nothing to shrink.
    let between = (takes(schedule) - least).max(f64::MIN_POSITIVE);
    let share = ((budget - least) / between).clamp(0.0, 1.0);
    let shrink = |from: &mut f64, to: f64| *from = to + share * (*from - to);
    shrink(&mut schedule.warm_up_seconds, shortest.warm_up_seconds);
    shrink(&mut schedule.alone_seconds, shortest.alone_seconds);
    shrink(&mut schedule.together_seconds, shortest.together_seconds);
    shrink(&mut schedule.path_seconds, shortest.path_seconds);
}

/// What a schedule that was squeezed takes, and what is to be thought of its figures.
fn short(budget: f64, schedule: &Schedule, takes: f64) -> String {
    if takes <= budget + 1e-6 {
        return format!("a budget of {budget} s is short: the figures spread more than usual");
    }
    format!(
        "a budget of {budget} s is too short: with samples of {:.1} s, the shortest that say anything, all \
         measurements take up to {:.0} s",
        schedule.path_seconds,
        takes.ceil()
    )
}

/// What all measurements but the experiment take, seconds.
fn seconds_of(counts: &Counts, schedule: &Schedule) -> f64 {
    let once = |sample: f64| SETUP_SECONDS + schedule.warm_up_seconds + sample;
    let each = |sample: f64| once(f64::from(schedule.repeats) * sample);
    let alone = each(schedule.alone_seconds);
    let outward = |count: usize| if counts.comes_in { 0.0 } else { count as f64 };
    let several = |devices: usize| if devices > 1 { limit(schedule, devices) } else { 0 };
    let (disks, networks) = (usize::from(counts.disks > 0), counts.protocols * usize::from(counts.paths > 0));
    let flows = if disks > 0 || counts.comes_in { networks } else { 0 };
    let storing = if counts.stored { SINK_SECONDS } else { 0.0 };
    let written = if counts.comes_in { disks } else { counts.sinks };
    let settling = if counts.comes_in { storing } else { 0.0 };
    let turns = (disks + counts.sinks) as f64 * once(schedule.together_seconds) + written as f64 * storing;
    let turns_of = |protocols: usize| {
        networks.min(protocols) as f64 * once(schedule.together_seconds)
            + flows.min(protocols) as f64 * (once(schedule.path_seconds) + storing)
    };
    let others = turns_of(counts.protocols) - turns_of(1);
    MEMORY_SECONDS
        + several(counts.disks) as f64 * (alone + settling)
        + outward(disks) * alone
        + (counts.protocols * several(counts.paths)) as f64 * alone
        + outward(flows) * alone
        + outward(flows.min(1)) * (TRIAL_SECONDS + MOST_TRIALS * storing)
        + f64::from(schedule.rounds) * (turns + turns_of(1))
        + f64::from(rounds_of_others(counts.experiments, schedule.rounds)) * others
}

/// Names what is measured only together.
fn left_out(sources: &[SourcePlan], paths: &[PathPlan], limit: usize, budget: f64) -> Vec<String> {
    let disks = distinct_resources(sources);
    let disks = disks.iter().skip(limit).copied();
    let paths = paths.iter().skip(limit).map(|path| path.resource.as_str());
    let names: Vec<&str> = disks.chain(paths).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let shown = names[..names.len().min(4)].join(", ");
    let more = if names.len() > 4 { format!(" and {} more", names.len() - 4) } else { String::new() };
    vec![format!(
        "{shown}{more}: measured only together with the others, {budget:.0} s do not hold each alone"
    )]
}

#[cfg(test)]
mod tests;
