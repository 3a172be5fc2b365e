//! Flows that are only observed: which window, and whether there is hope.

use super::super::*;
use linerate_testing::Dice;

const TICK: u64 = 25_000_000;

/// Four seconds of ticks, each of which carries this many times the mean.
fn ticks(mut times: impl FnMut(usize) -> f64) -> Vec<ShareCounts> {
    let mut bytes = |index| (25e6 * times(index).max(0.0)) as u64;
    (0..160)
        .map(|index| ShareCounts { nanos: TICK, flow: vec![bytes(index)], ..ShareCounts::default() })
        .collect()
}

fn flow(ticks: &[ShareCounts]) -> ObservedFlow<'_> {
    ObservedFlow { ticks, dose: 0.1, budget_seconds: 40.0, ..ObservedFlow::default() }
}

fn times(flow: &ObservedFlow<'_>) -> (u32, u32, Option<u32>) {
    let timing = timing(flow).1.expect("times");
    (timing.settling_ms, timing.window_ms, timing.period_ms)
}

#[test]
fn a_steady_flow_has_the_shortest_slots() {
    let mut dice = Dice::new(1);
    let steady = ticks(|_| 1.0 + 0.02 * dice.normal());
    let steady = flow(&steady);
    // Two ticks, and three, which is more than 60 ms.
    assert_eq!(times(&steady), (50, 80, None));
    let (noise, _) = timing(&steady);
    assert!((noise.forecast_seconds - 4.48).abs() < 1e-9, "the least number of slots is enough: {noise:?}");
    let halves = noise.allan.windows(2).all(|pair| pair[1].1 < 1.3 * pair[0].1);
    assert!(halves && (noise.at_window / 0.011 - 1.0).abs() < 0.4, "{noise:?}");
}

#[test]
fn what_is_known_of_the_flow_makes_slots_longer() {
    let mut dice = Dice::new(2);
    let steady = ticks(|_| 1.0 + 0.02 * dice.normal());
    let steady = flow(&steady);
    assert_eq!(times(&ObservedFlow { takes_cpu: true, ..steady.clone() }), (100, 80, None));
    assert_eq!(times(&ObservedFlow { round_trip_seconds: Some(0.03), ..steady.clone() }), (300, 600, None));
    assert_eq!(times(&ObservedFlow { drain_seconds: Some(0.31), ..steady.clone() }), (310, 80, None));
    assert_eq!(times(&ObservedFlow { period_ms: Some(150), ..steady.clone() }), (150, 600, Some(150)));
    // Four steps of what is taken, at a tenth of 1 GB/s; but not more than what is enough for any flow.
    let taken = |bytes| ObservedFlow { step_bytes: Some(bytes), ..steady.clone() };
    assert_eq!(times(&taken(4 << 20)), (50, 180, None));
    assert_eq!(times(&taken(32 << 20)), (50, 400, None));
    // Ten steps of each of eight threads at 1 GB/s.
    let steps = ObservedFlow { step_bytes: Some(8 << 20), threads: Some(8), ..steady.clone() };
    assert_eq!(times(&steps), (50, 680, None));
    // Five of them, and three periods, where there is no time for more.
    assert_eq!(times(&ObservedFlow { budget_seconds: 25.0, ..steps.clone() }), (50, 340, None));
    let raised = ObservedFlow { budget_seconds: 25.0, drain_seconds: Some(0.1), ..steps };
    assert!(
        matches!(timing(&raised).1, Err(Hopeless::TooLong { .. })),
        "left out rather than measured badly"
    );
    // What waits behind the flow's own reads is waited for, as far as the fewest slots leave time.
    let queued = |seconds| ObservedFlow {
        period_ms: Some(100),
        budget_seconds: 21.0,
        queue_seconds: seconds,
        ..steady.clone()
    };
    assert_eq!(times(&queued(0.0)), (100, 400, Some(100)));
    assert_eq!(times(&queued(0.17)), (170, 400, Some(100)));
    assert_eq!(times(&queued(0.25)), (206, 400, Some(100)));
    assert_eq!(times(&queued(0.42)), (318, 300, Some(100)));
    let nearly = ObservedFlow { period_ms: Some(99), budget_seconds: 25.0, ..steady.clone() };
    assert_eq!(times(&nearly), (100, 396, Some(99)));
    let periods = ObservedFlow { period_ms: Some(170), budget_seconds: 25.0, ..steady.clone() };
    assert_eq!(times(&periods), (170, 510, Some(170)));
    let far = timing(&ObservedFlow { round_trip_seconds: Some(0.2), ..steady });
    assert_eq!(far.1, Err(Hopeless::Slow { window_ms: 4000 }));
}

#[test]
fn a_shaper_shows_its_period() {
    let mut dice = Dice::new(3);
    let bursts = ticks(|index| [2.1, 1.9, 0.0, 0.0][index % 4] + 0.05 * dice.normal());
    assert_eq!(times(&flow(&bursts)), (100, 400, Some(100)));
    // 130 ms, which is not a whole number of ticks.
    let wave = ticks(|index| 1.0 + 0.5 * (std::f64::consts::TAU * index as f64 * 25.0 / 130.0).sin());
    let (_, window_ms, period_ms) = times(&flow(&wave));
    assert!(period_ms.is_some_and(|period| (129..=131).contains(&period)), "{period_ms:?}");
    assert_eq!(window_ms % period_ms.unwrap_or(1), 0);
}

/// Slices of a throttle every 100 ms, each fifth of which holds more: there is no time for slots of fifteen slices.
#[test]
fn uneven_bursts_are_measured_by_the_burst() {
    let mut dice = Dice::new(5);
    let sizes = [4.0, 1.0, 1.0, 1.0, 1.0];
    let uneven =
        ticks(|index| if index % 4 == 0 { sizes[index / 4 % 5] } else { 0.0 } + 0.02 * dice.normal());
    let (_, _, period_ms) = times(&ObservedFlow { dose: 0.2, budget_seconds: 60.0, ..flow(&uneven) });
    assert!(period_ms.is_some_and(|period| (99..=101).contains(&period)), "{period_ms:?}");
}

#[test]
fn edge_noise_makes_the_window_longer_and_wandering_is_hopeless() {
    // Steps of uneven length: noise falls with the length of the window, not with its root.
    let high = |index: usize| (index as f64 + 2.5 * (index as f64 / 9.0).sin()) as usize / 6 % 2 == 1;
    let steps = ticks(|index| if high(index) { 1.3 } else { 0.7 });
    assert!(times(&flow(&steps)).1 >= 800);
    let (mut dice, mut level) = (Dice::new(4), 0.0f64);
    let wandering = ticks(|_| {
        level += 0.4 * dice.normal();
        1.0 + level.sin() / 1.4
    });
    let (noise, hopeless) = timing(&flow(&wandering));
    let Err(Hopeless::Noisy { seconds, budget_seconds, .. }) = hopeless else { panic!("{hopeless:?}") };
    assert!(seconds > budget_seconds && noise.at_window > 0.06, "{noise:?}");
    let steady = ticks(|_| 1.0);
    let short = ObservedFlow { budget_seconds: 4.0, ..flow(&steady) };
    assert!(matches!(timing(&short).1, Err(Hopeless::TooLong { .. })), "too short for 32 slots");
    assert_eq!(timing(&flow(&steady[..10])).1, Err(Hopeless::NoFlow));
    assert_eq!(timing(&flow(&ticks(|_| 0.0))).1, Err(Hopeless::NoFlow));
}

#[test]
fn a_slot_is_cut_to_its_window_exactly() {
    let timing = Timing { settling_ms: 110, window_ms: 40, period_ms: None };
    let ticks: Vec<ShareCounts> = (0..8)
        .map(|index| ShareCounts {
            nanos: TICK,
            flow: vec![100 * index],
            taken: vec![1000],
            ..ShareCounts::default()
        })
        .collect();
    let slot = SlotRecord::cut(5, &ticks, &timing).expect("a slot");
    // 15 ms of the tick that begins at 100 ms, all of the next.
    assert_eq!((slot.mask, slot.counted.nanos), (5, 40_000_000));
    assert_eq!((slot.counted.flow[0], slot.counted.taken[0]), (240 + 500, 600 + 1000));
    assert_eq!(SlotRecord::cut(5, &ticks[..5], &timing), None, "it ends too early");
    assert_eq!(SlotRecord::cut(5, &[], &Timing { settling_ms: 0, window_ms: 0, period_ms: None }), None);
}

/// Slices of two throttles every 100 ms, which come up to 6 ms sooner or later.
#[test]
fn a_burst_at_an_edge_of_a_window_counts_in_part() {
    let mut dice = Dice::new(7);
    let mut bytes = vec![0u64; 60_000];
    for period in (0..60_000).step_by(100) {
        for at in [20, 50] {
            bytes[period + at + (13.0 * dice.uniform()) as usize] += 5_000_000;
        }
    }
    let tick = |bytes: &[u64]| ShareCounts {
        nanos: 20_000_000,
        flow: vec![bytes.iter().sum()],
        ..ShareCounts::default()
    };
    let ticks: Vec<ShareCounts> = bytes.chunks(20).map(tick).collect();
    let cuts = |period_ms| {
        let timing = Timing { settling_ms: 170, window_ms: 300, period_ms };
        let mut flows = Vec::new();
        let mut from = 0;
        while let Some(slot) = ticks.get(from..from + 24 + flows.len() % 5) {
            let cut = SlotRecord::cut(0, slot, &timing).expect("a window");
            let seconds = cut.counted.nanos as f64 / 1e9;
            flows.push(cut.counted.flow[0] as f64 / seconds / 100e6);
            from += slot.len();
        }
        (flows.iter().map(|flow| (flow - 1.0).powi(2)).sum::<f64>() / flows.len() as f64).sqrt()
    };
    let (sharp, sloping) = (cuts(None), cuts(Some(100)));
    assert!(sharp > 0.03 && sloping < 0.65 * sharp, "{sloping} of {sharp}");
    let observed = |period_ms| timing(&ObservedFlow { period_ms, ..flow(&ticks[..200]) }).0;
    let (noise, curve) = (observed(Some(100)), observed(None).allan);
    assert!(noise.at_window < 0.5 * curve[4].1, "{noise:?}");
}
