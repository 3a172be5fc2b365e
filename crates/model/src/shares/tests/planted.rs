//! Flows whose shares are known, with noise and drift: the intervals hold them, whatever the order and the units.

use super::super::*;
use crate::plan::ResourceKind;
use linerate_testing::Dice;
use proptest::prelude::*;

const FLOW: f64 = 1e9;
const DOSE: f64 = 0.1;
const WINDOW: f64 = 0.4;
const TIMING: Timing = Timing { settling_ms: 100, window_ms: 400, period_ms: Some(100) };

/// What is planted.
#[derive(Clone, Debug)]
struct Planted {
    shares: Vec<f64>,
    /// Gain of a raised setting.
    gain: Option<f64>,
    noise: f64,
    /// Part of what is meant that arrives, of the first taker.
    arrives: f64,
    /// Part of a slot's loss that is felt in the next one instead.
    late: f64,
    /// Part of the slots in which a neighbour takes a third of the flow.
    bursts: f64,
    cycles: usize,
    /// So many of the first are like parts.
    alike: usize,
    seed: u64,
}

impl Planted {
    fn new(shares: &[f64], noise: f64, seed: u64) -> Self {
        let shares = shares.to_vec();
        Planted { shares, gain: None, noise, arrives: 1.0, late: 0.0, bursts: 0.0, cycles: 2, alike: 0, seed }
    }

    fn record(&self) -> ShareRecord {
        let raised = self.gain.map(|_| RaisedSetting { id: "reads-in-flight".into(), from: 1, to: 2 });
        let pool = |index: usize| (index < self.alike).then(|| "nics".to_string());
        let part = |index| TakenResource { pool: pool(index), ..taken_resource(index) };
        let record = ShareRecord {
            taken: (0..self.shares.len()).map(part).collect(),
            raised: raised.into_iter().collect(),
            subflows: vec!["all".into()],
            timing: TIMING,
            ..ShareRecord::default()
        };
        ShareRecord { slots: self.slots(SlotSchedule::of(&record, self.seed)), ..record }
    }

    fn slots(&self, mut schedule: SlotSchedule) -> Vec<SlotRecord> {
        let plans: Vec<SlotPlan> = (0..self.cycles).flat_map(|_| schedule.next_cycle()).collect();
        let (mut dice, mut before) = (Dice::new(self.seed ^ 0x5eed), 0.0);
        let slots = plans.iter().enumerate().map(|(slot, plan)| {
            let on = |index: usize| f64::from(plan.mask >> index & 1);
            let wanted: Vec<f64> =
                self.shares.iter().enumerate().map(|(index, _)| on(index) * DOSE * FLOW * WINDOW).collect();
            // What is taken is not quite what is meant.
            let arrives = |index: usize| if index == 0 { self.arrives } else { 1.0 };
            let taken: Vec<f64> = wanted
                .iter()
                .enumerate()
                .map(|(index, wanted)| wanted * arrives(index) * (1.0 + 0.03 * dice.normal()))
                .collect();
            let gain = self.gain.map_or(0.0, |gain| gain * on(self.shares.len()));
            let parts = self.shares.iter().zip(&taken).map(|(share, taken)| share * taken / (FLOW * WINDOW));
            let lost = parts.sum::<f64>() - gain;
            let drift = 0.05 * (slot as f64 / 9.0).sin();
            let felt = (1.0 - self.late) * lost + self.late * before;
            before = lost;
            let is_burst = self.bursts > 0.0 && dice.uniform() < self.bursts;
            let burst = if is_burst { 1.0 / 3.0 } else { 0.0 };
            let flow = FLOW * WINDOW * (1.0 - burst - felt + drift + self.noise * dice.normal());
            let whole = |amounts: &[f64]| amounts.iter().map(|amount| amount.max(0.0) as u64).collect();
            let used: Vec<f64> = taken.iter().map(|taken| flow + taken).collect();
            let counted = ShareCounts {
                nanos: (WINDOW * 1e9) as u64,
                flow: vec![flow as u64],
                used: whole(&used),
                taken: whole(&taken),
                wanted: whole(&wanted),
                own_cpu_nanos: vec![0; taken.len()],
            };
            SlotRecord { mask: plan.mask, counted }
        });
        slots.collect()
    }

    fn decision(&self) -> Decision {
        let record = self.record();
        decide(&record, &estimate(&record, &[]))
    }
}

fn taken_resource(index: usize) -> TakenResource {
    let id = format!("nic:eth{index}");
    let (kind, unit) = (ResourceKind::Nic, TakenUnit::Bytes);
    TakenResource { id, members: Vec::new(), kind, unit, pool: None, busy: Some(0.9) }
}

fn share(report: &ShareReport, index: usize) -> Estimate {
    report.resources[index].share.expect("a share")
}

fn holds(estimate: Estimate, truth: f64) -> bool {
    estimate.low() <= truth && truth <= estimate.high()
}

/// How often the intervals of the given shares hold them.
fn coverage(shares: &[f64], rounds: u64) -> f64 {
    let planted = |seed| Planted::new(shares, 0.02, seed);
    (0..rounds).map(|seed| held(&planted(seed))).sum::<f64>() / rounds as f64
}

/// The part of the shares that lies in its intervals.
fn held(planted: &Planted) -> f64 {
    let (report, shares) = (estimate(&planted.record(), &[]), &planted.shares);
    let held = (0..shares.len()).filter(|index| holds(share(&report, *index), shares[*index])).count();
    held as f64 / shares.len() as f64
}

#[test]
fn intervals_hold_the_planted_shares() {
    let together = coverage(&[0.0, 0.3, 0.5, 1.0], 300);
    assert!((0.92..0.98).contains(&together), "{together}");
}

#[test]
fn placebos_have_no_share() {
    let placebos = coverage(&[0.0; 5], 300);
    assert!((0.92..0.98).contains(&placebos), "{placebos}");
}

#[test]
fn a_neighbour_in_a_slot_of_ten_does_not_make_shares_unknown() {
    let shares = [0.0, 0.3, 1.0];
    let planted = |seed, bursts| Planted { bursts, ..Planted::new(&shares, 0.01, seed) };
    let mean = |of: &dyn Fn(u64) -> f64| (0..300).map(of).sum::<f64>() / 300.0;
    let width = |seed, bursts| share(&estimate(&planted(seed, bursts).record(), &[]), 2).half_width;
    let (alone, beside) = (mean(&|seed| width(seed, 0.0)), mean(&|seed| width(seed, 0.1)));
    let coverage = mean(&|seed| held(&planted(seed, 0.1)));
    assert!((0.91..0.99).contains(&coverage), "{coverage}");
    // Slots that count alike make it 9 times as wide.
    assert!(beside < 4.0 * alone, "{beside}, {alone} without");
}

#[test]
fn the_full_one_is_measured_or_nothing_is() {
    let mut measured = 0;
    for seed in 0..60 {
        let noise = [0.005, 0.02, 0.05][seed as usize % 3];
        match Planted::new(&[0.0, 1.0, 0.0], noise, seed).decision() {
            Decision::Measured(limit) => {
                assert_eq!(limit, ShareLimit::Resource(1), "seed {seed}");
                measured += 1;
            }
            Decision::Undecided(_) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(measured >= 42, "{measured}");
}

#[test]
fn two_that_share_it_are_a_tie_and_nothing_full_is_that() {
    let decision = |shares: &[f64]| Planted::new(shares, 0.004, 3).decision();
    assert_eq!(decision(&[0.5, 0.5, 0.0]), Decision::Tie(vec![0, 1]));
    assert_eq!(decision(&[0.9, 0.0, 0.9]), Decision::Tie(vec![0, 2]));
    assert_eq!(decision(&[0.0, 0.05, 0.0]), Decision::NothingFull);
    assert_eq!(decision(&[0.4, 0.0, 0.0]), Decision::Undecided(Undecided::Incomplete));
    let wide = Planted::new(&[0.5, 0.0, 0.0], 0.05, 3).decision();
    assert!(matches!(wide, Decision::Undecided(Undecided::Wide(_))), "{wide:?}");
}

/// Like parts that are taken from together in every second cycle: what they have together is known better.
#[test]
fn what_like_parts_have_together_is_known_better() {
    let count = |together: bool, counts: &dyn Fn(&ShareRecord, &ShareReport) -> bool| {
        let is_so = |seed| {
            let planted = Planted { alike: 4, ..Planted::new(&[0.25, 0.25, 0.25, 0.25, 0.0], 0.03, seed) };
            let mut record = planted.record();
            if !together {
                record.slots = planted.slots(SlotSchedule::new(TIMING, 5, seed));
            }
            counts(&record, &estimate(&record, &[]))
        };
        (0..100).filter(|seed| is_so(*seed)).count()
    };
    let holds_all = count(true, &|_, report| holds(report.pools[0].share, 1.0));
    let is_measured = |record: &ShareRecord, report: &ShareReport| {
        decide(record, report) == Decision::Measured(ShareLimit::Pool(0))
    };
    let measured = [true, false].map(|together| count(together, &is_measured));
    assert!(holds_all >= 90 && measured[0] >= measured[1] + 25, "{holds_all}, {measured:?}");
}

#[test]
fn what_raises_the_flow_limits_it_whatever_is_full() {
    let latency = Planted { gain: Some(0.3), ..Planted::new(&[0.9, 0.0], 0.01, 5) };
    assert_eq!(latency.decision(), Decision::Measured(ShareLimit::Setting(0)));
    // A tenth more is little beside a part that limits, and leaves doubt beside none.
    let little = |share| Planted { gain: Some(0.105), ..Planted::new(&[share, 0.0], 0.02, 5) }.decision();
    assert_eq!(little(0.9), Decision::Measured(ShareLimit::Resource(0)));
    assert_eq!(little(0.0), Decision::Undecided(Undecided::WideSetting(0)));
    let no_gain = Planted { gain: Some(0.0), ..latency };
    assert!(holds(estimate(&no_gain.record(), &[]).raised[0].gain.expect("a gain"), 0.0));
    assert_eq!(no_gain.decision(), Decision::Measured(ShareLimit::Resource(0)));
}

#[test]
fn a_taker_that_does_not_arrive_is_unknown_and_leaves_doubt() {
    let planted = Planted { arrives: 0.3, ..Planted::new(&[0.0, 1.0], 0.01, 1) };
    let mut record = planted.record();
    let report = estimate(&record, &[]);
    assert!(matches!(report.resources[0].share, Err(NoShare::DidNotArrive { arrived }) if arrived < 0.35));
    assert!(holds(share(&report, 1), 1.0));
    let not_taken = Undecided::NotTaken(vec!["nic:eth0".into()]);
    assert_eq!(decide(&record, &report), Decision::Undecided(not_taken));
    record.taken[0].busy = Some(0.05);
    let idle = decide(&record, &estimate(&record, &[]));
    assert_eq!(idle, Decision::Measured(ShareLimit::Resource(1)), "what is idle need not be taken from");
    record.busy_untaken = vec!["memory:0".into()];
    let untaken = Undecided::NotTaken(vec!["memory:0".into()]);
    assert_eq!(decide(&record, &estimate(&record, &[])), Decision::Undecided(untaken));
}

#[test]
fn what_is_felt_late_is_not_half_a_share() {
    let late = Planted { late: 0.4, cycles: 3, ..Planted::new(&[1.0, 0.0, 0.0], 0.005, 2) };
    let decision = late.decision();
    let Decision::Undecided(Undecided::CarryOver(carry_over)) = decision else { panic!("{decision:?}") };
    assert!(carry_over.id == "nic:eth0" && (carry_over.lag.value - 0.4).abs() < 0.1, "{carry_over:?}");
    let three = Planted::new(&[1.0, 0.0, 0.0], 0.02, 0);
    let four = Planted::new(&[0.25, 0.25, 0.25, 0.25, 0.0, 0.0], 0.04, 0);
    for planted in [three, Planted { alike: 4, gain: Some(0.0), ..four }] {
        let record = |seed| Planted { seed, ..planted.clone() }.record();
        let wrongly = (0..100).filter(|seed| estimate(&record(*seed), &[]).carry_over.is_some()).count();
        assert!(wrongly <= 2, "{wrongly} of 100: {planted:?}");
    }
}

/// What is taken of the second part is felt in the slot after, though it has no share.
#[test]
fn what_is_felt_late_is_missing_in_the_shares() {
    let objects = |share: f64| {
        let mut record = Planted { cycles: 3, ..Planted::new(&[share, 0.0], 0.005, 2) }.record();
        let late: Vec<u64> = record.slots.iter().map(|slot| slot.counted.taken[1] * 2 / 5).collect();
        let felt = record.slots.iter_mut().skip(1).zip(late);
        felt.for_each(|(slot, late)| slot.counted.flow[0] -= late);
        estimate(&record, &[]).carry_over.is_some()
    };
    assert_eq!([0.5, 1.0].map(objects), [true, false]);
}

#[test]
fn a_window_of_half_periods_decides_nothing() {
    let mut record = Planted::new(&[1.0, 0.0], 0.01, 1).record();
    record.timing.window_ms = 350;
    let aliased = Undecided::Aliased { window_ms: 350, period_ms: 100 };
    assert_eq!(decide(&record, &estimate(&record, &[])), Decision::Undecided(aliased));
}

#[test]
fn a_cheap_taker_does_not_show_room() {
    let mut record = Planted::new(&[0.1, 0.0], 0.005, 1).record();
    record.taken[0].kind = ResourceKind::Disk;
    let report = estimate(&record, &[]);
    assert!(report.resources[0].rise.is_some_and(|rise| holds(rise, 0.9)), "{report:?}");
    assert_eq!(decide(&record, &report), Decision::Undecided(Undecided::CheapTaker(0)));
    record.taken[0].busy = Some(0.4);
    assert_eq!(decide(&record, &estimate(&record, &[])), Decision::NothingFull);
}

/// A NIC and the CPUs; a byte's cost of the CPUs by the taker's own threads, and as it is known.
fn beside_cpus(shares: [f64; 2], own: f64, known: Option<f64>) -> (Decision, Estimate) {
    let mut record = Planted::new(&shares, 0.005, 4).record();
    record.taken[1] =
        TakenResource { kind: ResourceKind::Cpu, unit: TakenUnit::CpuNanos, ..taken_resource(1) };
    for slot in &mut record.slots {
        let cost = (slot.counted.taken[0] as f64 * own) as u64;
        slot.counted.own_cpu_nanos = vec![cost, slot.counted.taken[1]];
        slot.counted.used[1] += cost;
    }
    let report = estimate(&record, &[known, None]);
    (decide(&record, &report), share(&report, 0))
}

/// Sending is 0.6 of what full CPUs do: what is sent beside the flow costs it as much as the CPUs lose.
#[test]
fn what_takers_cost_the_cpus_is_no_share_of_theirs() {
    let (decision, nic) = beside_cpus([0.6, 1.0], 0.0, None);
    assert!(decision == Decision::Tie(vec![0, 1]) && holds(nic, 0.6), "nobody knows its cost: {nic:?}");
    let (_, nic) = beside_cpus([0.4, 1.0], 1.0 / 3.0, None);
    assert!(holds(nic, 0.4) && holds(nic, 0.07), "threads have a part of it: {nic:?}");
    let (decision, nic) = beside_cpus([0.6, 1.0], 0.1, Some(0.6));
    assert_eq!(decision, Decision::Measured(ShareLimit::Resource(1)));
    assert!(holds(nic, 0.0) && nic.half_width > 0.15, "as sure as the cost: {nic:?}");
    // Full CPUs are what makes it dear: of a NIC that is full beside idle CPUs nothing is taken off.
    let (decision, nic) = beside_cpus([0.95, 0.0], 0.1, Some(0.6));
    assert_eq!(decision, Decision::Measured(ShareLimit::Resource(0)));
    assert!(holds(nic, 0.95) && nic.half_width < 0.05, "{nic:?}");
}

/// A byte that is sent beside the flow costs the receiver as much as one of the flow.
#[test]
fn what_is_sent_beside_the_flow_costs_its_receiver_as_much() {
    let beside_receiver = |nic, receiver| {
        let mut record = Planted::new(&[nic, receiver, 0.0], 0.005, 4).record();
        let (kind, unit) = (ResourceKind::Receiver, TakenUnit::CpuNanos);
        record.taken[1] = TakenResource { kind, unit, ..taken_resource(1) };
        record.taken[2] = TakenResource { kind: ResourceKind::Disk, ..taken_resource(2) };
        let report = estimate(&record, &[]);
        (decide(&record, &report), share(&report, 0))
    };
    for (nic, receiver) in [(1.0, 1.0), (1.0, 1.5), (0.0, 1.0)] {
        let (decision, share) = beside_receiver(nic, receiver);
        assert_eq!(decision, Decision::Measured(ShareLimit::Resource(1)), "{nic} {receiver}: {share:?}");
        assert!(share.value.abs() < 0.1, "{nic} {receiver}: {share:?}");
    }
    let (decision, share) = beside_receiver(1.0, 0.0);
    assert!(decision == Decision::Measured(ShareLimit::Resource(0)) && holds(share, 1.0), "{share:?}");
}

/// Of 200 runs that may end at each cycle's end: in how many an interval does not hold, and how many are far off.
#[test]
fn stopping_early_errs_as_rarely_as_it_says() {
    let truth = [1.0, 0.0, 0.2];
    let (mut looked, mut missed, mut far, mut ended) = (0, 0, 0, 0);
    for seed in 0..200 {
        let whole = Planted { cycles: 5, ..Planted::new(&truth, 0.017, seed) }.record();
        let report = |cycles: usize| {
            estimate(&ShareRecord { slots: whole.slots[..16 * cycles].to_vec(), ..whole.clone() }, &[])
        };
        let mut before = report(1);
        for cycles in 2..=5 {
            let now = report(cycles);
            if may_stop(&before, &now) || cycles == 5 {
                let off = |index: usize| (share(&now, index).value - truth[index]).abs();
                looked += truth.len();
                ended += usize::from(cycles < 5);
                missed += (0..3).filter(|index| !holds(share(&now, *index), truth[*index])).count();
                far += (0..3).filter(|index| off(*index) > 0.25).count();
                break;
            }
            before = now;
        }
    }
    assert!(ended > 100 && missed * 100 <= looked * 8 && far == 0, "{ended} {missed} of {looked}, {far}");
}

#[test]
fn a_replay_gives_the_same_to_the_last_bit() {
    let record = Planted { gain: Some(0.1), ..Planted::new(&[0.3, 0.7], 0.03, 9) }.record();
    let text = serde_json::to_string(&record).expect("JSON");
    assert!(text.len() < 200 * record.slots.len() + 1000, "{} bytes", text.len());
    let again: ShareRecord = serde_json::from_str(&text).expect("a record");
    assert_eq!(again, record);
    assert_eq!(estimate(&again, &[]), estimate(&record, &[]));
}

fn close(a: Estimate, b: Estimate) -> bool {
    (a.value - b.value).abs() < 1e-6 && (a.half_width - b.half_width).abs() < 1e-6
}

fn counted() -> impl Strategy<Value = ShareCounts> {
    let amounts = || prop::collection::vec(prop_oneof![Just(0), 0..1000u64, any::<u64>()], 0..4);
    let nanos = prop_oneof![Just(0), Just(25_000_000), any::<u64>()];
    (nanos, amounts(), amounts(), amounts(), amounts(), amounts()).prop_map(
        |(nanos, flow, used, taken, wanted, own_cpu_nanos)| ShareCounts {
            nanos,
            flow,
            used,
            taken,
            wanted,
            own_cpu_nanos,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Names, order and units are nothing.
    #[test]
    fn order_and_units_do_not_matter(seed in 0..1000u64, turn in 1usize..4, unit in 2u64..900) {
        let shares = [0.0, 0.3, 0.5, 1.0];
        let record = Planted::new(&shares, 0.02, seed).record();
        let report = estimate(&record, &[]);
        let mut turned = record.clone();
        for slot in &mut turned.slots {
            let counted = &mut slot.counted;
            for amounts in [&mut counted.used, &mut counted.taken, &mut counted.wanted] {
                amounts[0] *= unit;
                amounts.rotate_left(turn);
            }
            counted.flow[0] *= unit;
            slot.mask = (slot.mask >> turn | slot.mask << (4 - turn)) & 15;
        }
        let other = estimate(&turned, &[]);
        for index in 0..4 {
            prop_assert!(close(share(&other, index), share(&report, (index + turn) % 4)));
        }
        prop_assert!(close(other.sum.expect("a sum"), report.sum.expect("a sum")));
    }

    /// Whatever was counted.
    #[test]
    fn no_record_panics(
        ticks in prop::collection::vec((any::<u32>(), counted()), 0..40),
        takers in 0usize..5, raised in 0usize..3, subflows in 0usize..3,
        settling_ms in any::<u32>(), window_ms in any::<u32>(), period_ms in prop::option::of(any::<u32>()),
    ) {
        let mut record = Planted::new(&vec![0.0; takers], 0.0, 1).record();
        let timing = Timing { settling_ms, window_ms, period_ms };
        let setting = RaisedSetting { id: "streams".into(), from: 1, to: 2 };
        record.raised = vec![setting; raised];
        record.subflows = (0..subflows).map(|index| index.to_string()).collect();
        let counted: Vec<ShareCounts> = ticks.iter().map(|(_, counted)| counted.clone()).collect();
        let cut = SlotRecord::cut(1, &counted, &Timing { settling_ms: settling_ms % 100, window_ms: 50, ..timing });
        prop_assert!(cut.is_none_or(|slot| slot.counted.nanos <= 50_000_000));
        record.slots = ticks.into_iter().map(|(mask, counted)| SlotRecord { mask, counted }).collect();
        record.timing = timing;
        let report = estimate(&record, &[]);
        let _ = (decide(&record, &report), may_stop(&report, &report));
        let flow = ObservedFlow {
            ticks: &counted, period_ms, threads: Some(settling_ms), step_bytes: Some(u64::from(window_ms)),
            round_trip_seconds: Some(f64::from(settling_ms)), takes_cpu: takers > 1,
            ..ObservedFlow::default()
        };
        let _ = super::super::timing(&flow);
    }
}
