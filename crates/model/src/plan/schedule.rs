//! How long each measurement takes, so that all of them fit the budget however many devices there are.
//!
//! The measurements of a run, and what each costs (warm-up, `repeats` samples, and the time to open, connect
//! and close): memory: a fixed time. Disk: each device alone, and all together where there are several.
//! Network, for each protocol from memory and again with a file behind: each path alone, and all together
//! where there are several. Path: one for each protocol.
//!
//! Too many for the budget: all samples shrink together to a point, then the samples of what is alone down to
//! 0.15 s, then fewer are measured alone (the rest only together), and at last everything shrinks.
//! `Goal::seconds` overrides all of that.

use super::product::{Goal, PathPlan, Plan, Schedule, SourcePlan};
use linerate_facts::protocol::Protocol;

/// All memory measurements together, seconds.
const MEMORY_SECONDS: f64 = 2.0;
/// Opening files, connecting, closing and asking the receiver, for each measurement, seconds.
const SETUP_SECONDS: f64 = 0.2;
const WARM_UP_SECONDS: f64 = 0.3;

/// Lengths of one sample, seconds.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    alone: f64,
    together: f64,
    path: f64,
}

const WISHED: Lengths = Lengths { alone: 0.8, together: 1.0, path: 2.0 };
const SHORT: Lengths = Lengths { alone: 0.4, together: 0.6, path: 1.2 };
const SHORTEST_ALONE_SECONDS: f64 = 0.15;

/// One kind of measurement: how often, and how long each takes with all its samples, seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// `memory`, `disk alone`, `disk together`, `network alone`, `network together`, `path`.
    pub what: &'static str,
    pub count: usize,
    pub seconds_each: f64,
}

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
    sources.iter().map(|source| source.resource.as_str()).filter(|resource| seen.insert(*resource)).collect()
}

/// How many of what there is to measure.
#[derive(Clone, Copy, Debug)]
struct Counts {
    disks: usize,
    paths: usize,
    protocols: usize,
}

impl Counts {
    fn of(sources: &[SourcePlan], paths: &[PathPlan], goal: &Goal) -> Self {
        let distinct = |wanted: Protocol| usize::from(goal.protocols.contains(&wanted));
        Counts {
            disks: distinct_resources(sources).len(),
            paths: paths.len(),
            protocols: distinct(Protocol::Tcp) + distinct(Protocol::Udp),
        }
    }
}

/// The times of a plan with these sources and paths, and what the user should know about them.
pub(super) fn fit(sources: &[SourcePlan], paths: &[PathPlan], goal: &Goal) -> (Schedule, Vec<String>) {
    let counts = Counts::of(sources, paths, goal);
    let budget = if goal.budget_seconds.is_finite() { goal.budget_seconds.max(0.0) } else { f64::MAX };
    let repeats = goal.repeats.max(1);
    let schedule = |lengths: Lengths, alone_limit: usize| Schedule {
        warm_up_seconds: WARM_UP_SECONDS,
        alone_seconds: lengths.alone,
        together_seconds: lengths.together,
        path_seconds: lengths.path,
        repeats,
        alone_limit,
    };
    let takes = |schedule: &Schedule| sum(&work(&counts, schedule));
    if let Some(seconds) = goal.seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0) {
        let chosen = schedule(Lengths { alone: seconds, together: seconds, path: seconds }, 0);
        let total = takes(&chosen);
        let note =
            format!("with samples of {seconds} s as asked for, all measurements take about {total:.0} s");
        return (chosen, if total > budget { vec![note] } else { Vec::new() });
    }
    for (longest, shortest) in [(WISHED, SHORT), (SHORT, Lengths { alone: SHORTEST_ALONE_SECONDS, ..SHORT })]
    {
        if let Some(lengths) =
            longest_that_fits(longest, shortest, |lengths| takes(&schedule(lengths, 0)) <= budget)
        {
            return (schedule(lengths, 0), Vec::new());
        }
    }
    let shortest = Lengths { alone: SHORTEST_ALONE_SECONDS, ..SHORT };
    let most = counts.disks.max(counts.paths).max(1);
    let fitting = (1..most).rev().find(|limit| takes(&schedule(shortest, *limit)) <= budget);
    let mut chosen = schedule(shortest, fitting.unwrap_or(1));
    let mut notes = left_out(sources, paths, &chosen, budget);
    if takes(&chosen) > budget {
        squeeze(&mut chosen, budget, takes);
        notes.push(format!("a budget of {budget} s is short: the figures spread more than usual"));
    }
    (chosen, notes)
}

/// The longest lengths between two that fit, by bisection; none where the shortest do not.
fn longest_that_fits(longest: Lengths, shortest: Lengths, fits: impl Fn(Lengths) -> bool) -> Option<Lengths> {
    let at = |share: f64| Lengths {
        alone: shortest.alone + share * (longest.alone - shortest.alone),
        together: shortest.together + share * (longest.together - shortest.together),
        path: shortest.path + share * (longest.path - shortest.path),
    };
    if fits(longest) {
        return Some(longest);
    }
    if !fits(shortest) {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        if fits(at(middle)) { low = middle } else { high = middle }
    }
    Some(at(low))
}

/// Shrinks warm-up and samples by one factor; a budget below the fixed costs cannot be met.
fn squeeze(schedule: &mut Schedule, budget: f64, takes: impl Fn(&Schedule) -> f64) {
    let fixed = Schedule {
        warm_up_seconds: 0.0,
        alone_seconds: 0.0,
        together_seconds: 0.0,
        path_seconds: 0.0,
        ..*schedule
    };
    let fixed_seconds = takes(&fixed);
    let share = ((budget - fixed_seconds) / (takes(schedule) - fixed_seconds)).clamp(0.05, 1.0);
    schedule.warm_up_seconds *= share;
    schedule.alone_seconds *= share;
    schedule.together_seconds *= share;
    schedule.path_seconds *= share;
}

fn work(counts: &Counts, schedule: &Schedule) -> Vec<Work> {
    let each = |sample: f64| SETUP_SECONDS + schedule.warm_up_seconds + f64::from(schedule.repeats) * sample;
    let several = |devices: usize| usize::from(devices > 1);
    let network = 2 * counts.protocols;
    let item = |what, count, seconds_each| Work { what, count, seconds_each };
    vec![
        item("memory", 1, MEMORY_SECONDS),
        item("disk alone", limit(schedule, counts.disks), each(schedule.alone_seconds)),
        item("disk together", several(counts.disks), each(schedule.together_seconds)),
        item("network alone", network * limit(schedule, counts.paths), each(schedule.alone_seconds)),
        item("network together", network * several(counts.paths), each(schedule.together_seconds)),
        item("path", counts.protocols, each(schedule.path_seconds)),
    ]
}

fn sum(work: &[Work]) -> f64 {
    work.iter().map(|item| item.count as f64 * item.seconds_each).sum()
}

/// Names what is measured only together.
fn left_out(sources: &[SourcePlan], paths: &[PathPlan], schedule: &Schedule, budget: f64) -> Vec<String> {
    let disks = distinct_resources(sources);
    let disks = disks.iter().skip(limit(schedule, disks.len())).copied();
    let paths = paths.iter().skip(limit(schedule, paths.len())).map(|path| path.resource.as_str());
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
mod tests {
    use super::super::tests::{goal, paths, sources};
    use super::*;
    use proptest::prelude::*;

    fn total(disks: usize, nics: usize, goal: &Goal) -> (Schedule, Vec<String>, f64) {
        let (schedule, notes) = fit(&sources(disks), &paths(nics), goal);
        let seconds = sum(&work(&Counts::of(&sources(disks), &paths(nics), goal), &schedule));
        (schedule, notes, seconds)
    }

    #[test]
    fn a_small_machine_gets_the_wished_lengths() {
        let (schedule, notes, seconds) = total(1, 1, &goal());
        assert_eq!((schedule.alone_seconds, schedule.path_seconds, schedule.alone_limit), (0.8, 2.0, 0));
        assert!(notes.is_empty() && seconds < 45.0, "{seconds} {notes:?}");
    }

    #[test]
    fn the_lab_is_measured_alone_with_samples_that_hold_several_blocks() {
        for (disks, nics) in [(4, 1), (2, 2), (2, 1)] {
            let (schedule, notes, seconds) = total(disks, nics, &goal());
            assert!(schedule.alone_limit == 0 && notes.is_empty());
            assert!(schedule.alone_seconds >= 0.4 && schedule.path_seconds >= 1.2, "{schedule:?}");
            assert!(seconds <= 45.0);
        }
    }

    #[test]
    fn everything_fits_up_to_256_disks_and_32_paths() {
        for disks in [1, 2, 3, 8, 24, 64, 100, 256] {
            for nics in [1, 2, 4, 9, 16, 32] {
                let (schedule, notes, seconds) = total(disks, nics, &goal());
                assert!(seconds <= 45.0 + 1e-6, "{disks} × {nics}: {seconds} s");
                assert!(schedule.alone_seconds >= 0.15 && schedule.path_seconds >= 1.2);
                let capped = schedule.alone_limit > 0 && schedule.alone_limit < disks.max(nics);
                assert_eq!(capped, !notes.is_empty(), "what is left out is named: {notes:?}");
            }
        }
    }

    #[test]
    fn the_user_overrides_the_lengths() {
        let asked = Goal { seconds: Some(10.0), ..goal() };
        let (schedule, notes, _) = total(4, 2, &asked);
        assert_eq!(
            (schedule.alone_seconds, schedule.together_seconds, schedule.path_seconds),
            (10.0, 10.0, 10.0)
        );
        assert_eq!(schedule.alone_limit, 0);
        assert!(notes[0].contains("take about"), "{notes:?}");
    }

    #[test]
    fn files_of_one_disk_are_one_device() {
        let mut many = sources(3);
        many.iter_mut().for_each(|source| source.resource = "disk:one".into());
        let (schedule, _) = fit(&many, &paths(1), &goal());
        let work = work(&Counts::of(&many, &paths(1), &goal()), &schedule);
        assert_eq!((work[1].count, work[2].count), (1, 0));
    }

    proptest! {
        #[test]
        fn any_budget_that_holds_the_fixed_costs_is_met(
            disks in 0usize..300, nics in 0usize..40, budget in 12.0f64..600.0, repeats in 0u32..6,
        ) {
            let goal = Goal { budget_seconds: budget, repeats, ..goal() };
            let (schedule, _, seconds) = total(disks, nics, &goal);
            prop_assert!(seconds <= budget + 1e-6, "{seconds} > {budget}");
            prop_assert!(schedule.alone_seconds > 0.0 && schedule.repeats >= 1);
        }

        #[test]
        fn odd_goals_do_no_harm(budget in any::<f64>(), seconds in any::<Option<f64>>(), repeats in any::<u32>()) {
            let goal = Goal { budget_seconds: budget, seconds, repeats, ..goal() };
            let (schedule, _, _) = total(3, 2, &goal);
            prop_assert!(schedule.path_seconds.is_finite() && schedule.path_seconds > 0.0);
        }
    }
}
