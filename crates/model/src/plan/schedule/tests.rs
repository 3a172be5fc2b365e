//! Schedules within any budget.

use super::super::goal::RunFlow;
use super::super::product::Writing;
use super::super::tests::{goal, paths, sources};
use super::*;
use proptest::prelude::*;

fn total(disks: usize, nics: usize, goal: &Goal) -> (Schedule, Vec<String>, f64) {
    let (schedule, notes) = fit(&sources(disks), &paths(nics), goal);
    let seconds = seconds_of(&Counts::of(&sources(disks), &paths(nics), goal), &schedule);
    (schedule, notes, seconds)
}

#[test]
fn a_small_machine_gets_the_wished_lengths() {
    let (schedule, notes, seconds) = total(1, 1, &goal());
    assert_eq!((schedule.alone_seconds, schedule.path_seconds, schedule.alone_limit), (0.8, 0.7, 0));
    assert_eq!(schedule.rounds, 6);
    assert!(notes.is_empty() && seconds < 50.0, "{seconds} {notes:?}");
}

#[test]
fn writing_scratch_files_is_part_of_the_budget_and_leaves_six_rounds() {
    for (disks, seconds) in [(1, 3.0), (1, 8.0), (4, 8.0), (24, 8.0)] {
        let mut written = sources(disks);
        for source in &mut written {
            source.writing = Some(Writing { seconds, ..Writing::default() });
        }
        let (schedule, _) = fit(&written, &paths(1), &goal());
        let measuring = seconds_of(&Counts::of(&written, &paths(1), &goal()), &schedule);
        assert_eq!(schedule.rounds, 6);
        assert!(measuring + seconds <= 54.5, "{disks} disks: {measuring} s after {seconds} s of writing");
    }
}

#[test]
fn the_lab_is_measured_alone_with_samples_that_hold_several_blocks() {
    for (disks, nics) in [(4, 1), (2, 2), (2, 1)] {
        let (schedule, notes, seconds) = total(disks, nics, &goal());
        assert!(schedule.alone_limit == 0 && notes.is_empty());
        assert!(schedule.alone_seconds >= 0.2 && schedule.path_seconds >= 0.7, "{schedule:?}");
        assert!(seconds <= 50.0 && schedule.rounds == 6, "{seconds} {schedule:?}");
    }
}

#[test]
fn everything_fits_up_to_256_disks_and_32_paths() {
    for disks in [1, 2, 3, 8, 24, 64, 100, 256] {
        for nics in [1, 2, 4, 9, 16, 32] {
            let (schedule, notes, seconds) = total(disks, nics, &goal());
            assert!(seconds <= 50.0 + 1e-6, "{disks} × {nics}: {seconds} s");
            assert!(schedule.alone_seconds >= 0.15 && schedule.path_seconds >= 0.7);
            assert_eq!(schedule.rounds, 6, "{disks} × {nics}");
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
    let seconds = |sources: &[SourcePlan]| seconds_of(&Counts::of(sources, &paths(1), &goal()), &schedule);
    assert_eq!(seconds(&many), seconds(&sources(1)));
    assert!(seconds(&sources(3)) > seconds(&many), "each of three is measured alone");
}

#[test]
fn a_budget_without_six_rounds_says_which_one_has_them() {
    let short = Goal { budget_seconds: 30.0, ..goal() };
    let (schedule, notes, seconds) = total(1, 1, &short);
    assert!(schedule.rounds == 3 && seconds <= 30.0, "{schedule:?}");
    let note = notes.last().expect("a note");
    let needed: f64 = note.rsplit(' ').next().and_then(|last| last.parse().ok()).expect("a budget");
    assert!(note.starts_with("30 s hold 3 rounds"), "{note}");
    let enough = Goal { budget_seconds: needed, ..goal() };
    assert_eq!(total(1, 1, &enough).0.rounds, 6, "{note}");
    let few = Goal { repeats: 3, ..goal() };
    assert!(total(1, 1, &few).1[0].contains("confirm nothing"));
}

#[test]
fn a_budget_without_the_shortest_samples_is_passed_and_says_so() {
    let tcp = |budget_seconds| Goal { protocols: vec![Protocol::Tcp], budget_seconds, ..goal() };
    for disks in [1, 2, 8] {
        let (schedule, notes, seconds) = total(disks, 1, &tcp(5.0));
        assert_eq!((schedule.path_seconds, schedule.together_seconds, schedule.rounds), (0.2, 0.2, 3));
        assert!(schedule.alone_seconds >= 0.15 && schedule.warm_up_seconds >= 0.15, "{schedule:?}");
        let note = notes.last().expect("a note");
        assert!(note.starts_with("a budget of 5 s is too short: with samples of 0.2 s"), "{note}");
        let named: f64 = note.rsplit(' ').nth(1).and_then(|word| word.parse().ok()).expect("a time");
        assert_eq!(named, seconds.ceil(), "{note}");
        // The time that it names is a budget that holds.
        let (_, notes, seconds) = total(disks, 1, &tcp(named));
        let short = notes.last().expect("a note");
        assert!(seconds <= named && short.contains("is short"), "{seconds}: {short}");
    }
}

/// One disk, one NIC, both protocols: with the experiment no more than the usual budget. Whether it confirms anything is not
/// a matter of rounds, and of one disk and one path nothing is left out.
#[test]
fn a_run_with_an_experiment_takes_forty_seconds_in_fewer_rounds() {
    for budget_seconds in [40.0, 57.0] {
        let goal = Goal { experiment: true, budget_seconds, ..goal() };
        let (schedule, notes, seconds) = total(1, 1, &goal);
        assert!(
            goal.protocols.len() == 2 && schedule.rounds < 6 && notes.is_empty(),
            "{schedule:?} {notes:?}"
        );
        assert!(seconds + goal.experiment_seconds() <= budget_seconds, "{seconds}");
        // Of what is left the rounds behind it, and one of the other protocol, keep ten.
        let left = [budget_seconds, 28.0, 5.0].map(|left| experiment_seconds(&goal, budget_seconds - left));
        assert_eq!(left, [goal.experiment_seconds(), 18.0, 0.0]);
    }
    assert_eq!([0, 1, 3, 4, 6].map(|rounds| rounds_of_others(true, rounds)), [0, 1, 1, 4, 6]);
    assert_eq!(rounds_of_others(false, 3), 3);
}

#[test]
fn a_long_way_gets_its_round_trips() {
    let (schedule, ..) = total(1, 1, &goal());
    let turn = |trip: f64| flow_turn(&schedule, schedule.path_seconds, false, trip);
    assert_eq!((turn(0.005).warm_up_seconds, turn(0.005).window_seconds), (WARM_UP_SECONDS, 0.7));
    assert_eq!((turn(0.1).warm_up_seconds, turn(0.1).window_seconds), (4.0, 1.0));
    assert_eq!(flow_turn(&schedule, 0.5, true, 0.1).window_seconds, 0.5, "as the user has named it");
    assert_eq!(turn(f64::NAN), turn(0.0));
    // Four flows of 100 ms: what was planned for no way at all does not fit.
    let round = 4.0 * turn(0.1).whole_seconds;
    let (rounds, note) = fitting_rounds(&goal(), 6, 12.0, round);
    let note = note.expect("a note");
    assert!(rounds == 3 && note.starts_with("50 s hold 3 rounds"), "{rounds}: {note}");
    let needed: f64 = note.rsplit(' ').next().and_then(|last| last.parse().ok()).expect("a budget");
    let enough = Goal { budget_seconds: needed, ..goal() };
    assert_eq!(fitting_rounds(&enough, 6, 12.0, round), (6, None));
    let named = Goal { seconds: Some(1.0), ..goal() };
    assert_eq!(fitting_rounds(&named, 6, 12.0, round), (6, None));
}

#[test]
fn what_the_budget_leaves_makes_turns_over_a_far_way_longer() {
    let (schedule, ..) = total(1, 1, &goal());
    let turn = |trip: f64| flow_turn(&schedule, schedule.path_seconds, false, trip);
    let way = |trip: f64| Way { round_trip_seconds: trip, ..Way::default() };
    let longer = |left: f64, trip: f64| {
        let longer = longer_turn(turn(trip), left, way(trip));
        (longer.warm_up_seconds, longer.window_seconds)
    };
    assert_eq!(longer(2.0, 0.1), (5.0, 2.0));
    assert_eq!(longer(10.0, 0.1), (8.0, 7.0), "80 round trips before, the rest is counted");
    assert_eq!(longer(f64::INFINITY, 0.1), (8.0, 10.0));
    for (left, trip) in [(10.0, 0.001), (0.0, 0.1), (-3.0, 0.1), (f64::NAN, 0.1), (10.0, f64::NAN)] {
        assert_eq!(longer_turn(turn(trip), left, way(trip)), turn(trip));
    }
    assert_eq!(longer_turn(turn(0.1), 2.0, way(0.1)).whole_seconds, turn(0.1).whole_seconds + 2.0);
    // One in ten thousand comes every 82 round trips of the window that it lets stand; one in a hundred every 8.
    let lossy = |trips: f64| {
        let longer =
            longer_turn(turn(0.1), f64::INFINITY, Way { trips_between_losses: Some(trips), ..way(0.1) });
        (longer.warm_up_seconds.round(), longer.window_seconds.round())
    };
    assert_eq!((lossy(82.0), lossy(8.0)), ((25.0, 33.0), (8.0, 10.0)));
    let short = longer_turn(turn(0.1), 4.0, Way { trips_between_losses: Some(26.0), ..way(0.1) });
    assert_eq!((short.warm_up_seconds, short.window_seconds), (8.0, 1.0), "that it begins late comes first");
}

proptest! {
    #[test]
    fn any_budget_that_holds_the_shortest_samples_is_met_and_another_is_named(
        disks in 0usize..300, nics in 0usize..40, budget in 0.0f64..600.0, repeats in 0u32..6,
    ) {
        let goal = Goal { budget_seconds: budget, repeats, ..goal() };
        let (schedule, notes, seconds) = total(disks, nics, &goal);
        let is_met = seconds <= budget + 1e-6;
        prop_assert!(is_met != notes.iter().any(|note| note.contains("is too short")), "{seconds} > {budget}");
        // Nothing is passed by more than what three rounds of the shortest samples take.
        prop_assert!(is_met || seconds < 17.0 && schedule.path_seconds < 0.2 + 1e-9, "{seconds} > {budget}");
        prop_assert!(schedule.path_seconds >= 0.2 && schedule.alone_seconds >= 0.15, "{schedule:?}");
        prop_assert!(schedule.repeats >= 1);
    }

    #[test]
    fn a_sink_takes_its_turns_within_the_budget(
        disks in 1usize..60, nics in 1usize..8, budget in 18.5f64..600.0, limited in any::<bool>(),
    ) {
        let plain = Goal { protocols: vec![Protocol::Tcp], budget_seconds: budget, ..goal() };
        let rate_limit = limited.then_some(1e9);
        let stored = Goal { flow: RunFlow::DiskToDisk, rate_limit, ..plain.clone() };
        let (schedule, _, seconds) = total(disks, nics, &stored);
        prop_assert!(seconds <= budget + 1e-6, "{seconds} > {budget}");
        // The same schedule without a sink is shorter by its turns.
        let without = seconds_of(&Counts::of(&sources(disks), &paths(nics), &plain), &schedule);
        let turn = SETUP_SECONDS + schedule.warm_up_seconds + schedule.together_seconds + SINK_SECONDS;
        let turn = if limited { 0.0 } else { turn };
        let turns = f64::from(schedule.rounds) * (turn + SINK_SECONDS) + MOST_TRIALS * SINK_SECONDS;
        prop_assert!((seconds - without - turns).abs() < 1e-6);
    }

    #[test]
    fn what_comes_in_is_received_and_written_within_the_budget(
        disks in 0usize..40, nics in 1usize..8, budget in 18.5f64..600.0,
    ) {
        let flow = if disks > 0 { RunFlow::NetworkToDisk } else { RunFlow::NetworkToMemory };
        let goal = Goal { protocols: vec![Protocol::Tcp], budget_seconds: budget, flow, ..goal() };
        let mut ends = sources(disks);
        if disks == 0 {
            ends.push(SourcePlan::memory());
        }
        let (schedule, _) = fit(&ends, &paths(nics), &goal);
        let counts = Counts::of(&ends, &paths(nics), &goal);
        let seconds = seconds_of(&counts, &schedule);
        prop_assert!(seconds <= budget + 1e-6, "{seconds} > {budget}");
        let sample = SETUP_SECONDS + schedule.warm_up_seconds + schedule.together_seconds;
        let (turns, stored) = if disks > 0 { (3.0, 2.0) } else { (2.0, 0.0) };
        let longer = Schedule { rounds: schedule.rounds + 1, ..schedule };
        let round = seconds_of(&counts, &longer) - seconds;
        prop_assert!((round - turns * sample - stored * SINK_SECONDS).abs() < 1e-6);
    }

    #[test]
    fn odd_goals_do_no_harm(budget in any::<f64>(), seconds in any::<Option<f64>>(), repeats in any::<u32>()) {
        let goal = Goal { budget_seconds: budget, seconds, repeats, ..goal() };
        let (schedule, _, _) = total(3, 2, &goal);
        prop_assert!(schedule.path_seconds.is_finite() && schedule.path_seconds > 0.0);
    }
}
