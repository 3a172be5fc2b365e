//! Slots, one after the other: who takes how much and when, what was counted meanwhile, and when enough is known.

use super::program::ExperimentError;
use super::takers::Takers;
use linerate_model::plan::ResourceKind;
use linerate_model::shares::{
    LEAST_SLOTS, ShareCounts, ShareRecord, ShareReport, SlotPlan, SlotRecord, SlotSchedule, Timing, estimate,
    is_narrow, may_stop,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Taken of what the flow uses of a resource; and where that does not tell enough.
pub(super) const DOSE: f64 = 0.1;
pub(super) const MOST_DOSE: f64 = 0.2;
/// A flow that moves less than this much less while something is taken from it than while it is not, over so long, halves the
/// dose for its cycle; a second time ends the experiment.
const MOST_LOST: f64 = 0.25;
const JUDGED_NANOS: u64 = 300_000_000;
/// Standard deviations that a window of a quiet flow hardly ever leaves.
const SIGMAS: f64 = 4.0;
/// Slots of a longer window are not made longer: there would be no time for enough of them.
const SHORT_WINDOW_MS: u32 = 150;
/// Looks come late on a busy machine, and slots end with them: slots that are nearly enough become so in so much of the time.
pub(super) const LATER: f64 = 1.15;
/// Fewer slots than this say nothing.
const SPARED_SLOTS: usize = 16;

/// Slots, one after the other.
pub(super) struct Taking {
    record: ShareRecord,
    schedule: SlotSchedule,
    /// Takers (by their place among all) in the order of the record.
    active: Vec<usize>,
    /// Taken of what the flow uses of each of those, and units a second of that.
    dose: f64,
    doses: Vec<f64>,
    /// What the flow moved while each takes, and while it does not, since it was last judged; nothing is raised in these.
    judged: Vec<[Moved; 2]>,
    /// Takers that have harmed the flow once.
    suspects: u32,
    is_harmed: bool,
    waiting: VecDeque<SlotPlan>,
    slot: Option<Slot>,
    /// The first slot of this cycle.
    cycle_begin: usize,
    report: Option<ShareReport>,
    pub ended: bool,
}

/// Bytes of the flow, and nanoseconds.
type Moved = (u64, u64);

struct Slot {
    plan: SlotPlan,
    end: Instant,
    ticks: Vec<ShareCounts>,
}

impl Taking {
    /// Of these takers (by their place among all, in the order of the record), with these doses at first.
    pub(super) fn new(
        record: ShareRecord,
        seed: u64,
        active: Vec<usize>,
        dose: f64,
        doses: Vec<f64>,
        undisturbed: f64,
    ) -> Self {
        let observed = ((undisturbed * JUDGED_NANOS as f64 * 1e-9) as u64, JUDGED_NANOS);
        Taking {
            schedule: SlotSchedule::of(&record, seed),
            judged: vec![[(0, 0), observed]; active.len()],
            record,
            active,
            dose,
            doses,
            suspects: 0,
            is_harmed: false,
            waiting: VecDeque::new(),
            slot: None,
            cycle_begin: 0,
            report: None,
            ended: false,
        }
    }

    /// What was recorded; or why that says nothing.
    pub(super) fn end(self) -> Result<ShareRecord, ExperimentError> {
        let slots = self.record.slots.len();
        match () {
            () if self.is_harmed && slots < SPARED_SLOTS => Err(ExperimentError::Spared),
            () if slots == 0 => Err(ExperimentError::FlowEnded),
            () => Ok(self.record),
        }
    }

    #[cfg(test)]
    pub(super) fn record(&self) -> &ShareRecord {
        &self.record
    }

    /// When it is over: later, where a few slots more are enough to decide.
    pub(super) fn end_of(&self, longest: Duration) -> Duration {
        let is_nearly_enough = (LEAST_SLOTS - 6..LEAST_SLOTS).contains(&self.record.slots.len());
        if is_nearly_enough { longest.mul_f64(LATER) } else { longest }
    }

    /// What was counted since the last look, at this moment.
    pub(super) fn tick(&mut self, takers: &Takers, mut counted: ShareCounts, now: Instant) {
        let keep = |all: &[u64]| -> Vec<u64> { self.active.iter().map(|at| all[*at]).collect() };
        counted = ShareCounts {
            used: keep(&counted.used),
            taken: keep(&counted.taken),
            own_cpu_nanos: keep(&counted.own_cpu_nanos),
            ..counted
        };
        if let Some(slot) = &mut self.slot {
            let seconds = counted.nanos as f64 * 1e-9;
            let wanted = |(column, dose): (usize, &f64)| match slot.plan.mask >> column & 1 {
                1 => (dose * seconds) as u64,
                _ => 0,
            };
            counted.wanted = self.doses.iter().enumerate().map(wanted).collect();
            slot.ticks.push(counted);
            if now < slot.end {
                return;
            }
        }
        if let Some(slot) = self.slot.take() {
            self.keep(&slot);
        }
        if self.waiting.is_empty() {
            self.end_cycle();
        }
        if !self.ended {
            self.slot = self.waiting.pop_front().map(|plan| self.open(takers, plan, now));
        }
    }

    /// Opens the gates of the next slot.
    fn open(&self, takers: &Takers, plan: SlotPlan, begin: Instant) -> Slot {
        let Timing { settling_ms, window_ms, .. } = self.record.timing;
        let length = u64::from(settling_ms) + u64::from(window_ms) + u64::from(plan.unused_ms);
        let end = begin + Duration::from_millis(length);
        let mut doses = vec![0.0; self.active.iter().max().map_or(0, |last| last + 1)];
        for (column, (at, dose)) in self.active.iter().zip(&self.doses).enumerate() {
            if plan.mask >> column & 1 == 1 {
                doses[*at] = *dose;
            }
        }
        let raises = plan.mask >> self.active.len() & 1 == 1;
        takers.open(&doses, raises, begin, end);
        Slot { plan, end, ticks: Vec::new() }
    }

    /// What was counted in its window.
    fn keep(&mut self, slot: &Slot) {
        let Some(cut) = SlotRecord::cut(slot.plan.mask, &slot.ticks, &self.record.timing) else { return };
        // What more workers of the flow's own cost it is not harm by a taker.
        if cut.mask >> self.active.len() == 0 {
            self.judge(&cut);
        }
        self.record.slots.push(cut);
    }

    /// A flow that lost much of its rate is spared.
    fn judge(&mut self, slot: &SlotRecord) {
        // What a window changes by itself is not harm.
        let most_lost = MOST_LOST.max(self.dose + SIGMAS * self.record.noise.at_window).min(1.0);
        for (column, moved) in self.judged.iter_mut().enumerate() {
            let is_on = slot.mask >> column & 1 == 1;
            let (bytes, nanos) = &mut moved[usize::from(!is_on)];
            (*bytes, *nanos) = (*bytes + slot.counted.flow.iter().sum::<u64>(), *nanos + slot.counted.nanos);
            if moved.iter().any(|(_, nanos)| *nanos < JUDGED_NANOS) {
                continue;
            }
            let [on, off] = moved.map(|(bytes, nanos)| bytes as f64 / nanos as f64);
            *moved = Default::default();
            if on < (1.0 - most_lost) * off {
                self.is_harmed |= self.suspects >> column & 1 == 1;
                self.suspects |= 1 << column;
                self.doses.iter_mut().for_each(|dose| *dose /= 2.0);
            }
        }
        self.ended |= self.is_harmed;
    }

    /// Looks at the shares, sets the doses by what the flow uses now, and plans the next slots.
    fn end_cycle(&mut self) {
        if !self.record.slots.is_empty() {
            let report = estimate(&self.record, &[]);
            let is_too_short = report.carry_over.is_some();
            self.ended |= self.report.as_ref().is_some_and(|before| may_stop(before, &report));
            if self.needs_more(&report) {
                self.dose = MOST_DOSE;
            }
            self.report = Some(report);
            self.reset_doses();
            if is_too_short && self.record.timing.window_ms <= SHORT_WINDOW_MS {
                self.begin_again();
            }
        }
        self.waiting = self.schedule.next_cycle().into();
        self.cycle_begin = self.record.slots.len();
    }

    /// A slot felt the one before it: all are twice as long from now on.
    fn begin_again(&mut self) {
        let Timing { settling_ms, window_ms, .. } = &mut self.record.timing;
        (*settling_ms, *window_ms) = (2 * *settling_ms, 2 * *window_ms);
        // Any number will do.
        let seed = self.record.slots.drain(..).map(|slot| slot.counted.flow.iter().sum::<u64>() % 1000).sum();
        (self.report, self.ended) = (None, self.is_harmed);
        self.schedule = SlotSchedule::of(&self.record, seed);
    }

    /// The shares are not known well enough, and the flow loses so little that twice as much does no harm.
    fn needs_more(&self, report: &ShareReport) -> bool {
        let shares = report.resources.iter().filter_map(|resource| resource.share.ok());
        let lost = MOST_DOSE * shares.map(|share| share.value.max(0.0)).sum::<f64>();
        self.suspects == 0 && !is_narrow(report) && lost < MOST_LOST
    }

    fn reset_doses(&mut self) {
        let cycle = &self.record.slots[self.cycle_begin..];
        let seconds = cycle.iter().map(|slot| slot.counted.nanos).sum::<u64>() as f64 * 1e-9;
        for (column, rate) in self.doses.iter_mut().enumerate() {
            let own =
                |slot: &SlotRecord| slot.counted.used[column].saturating_sub(slot.counted.taken[column]);
            let used = cycle.iter().map(own).sum::<u64>() as f64;
            if used > 0.0 && seconds > 0.0 {
                *rate = part_of(self.dose, self.record.taken[column].kind) * used / seconds;
            }
        }
    }
}

/// What is taken of one resource: of its host's CPUs an agent takes no more than a tenth.
pub(super) fn part_of(dose: f64, kind: ResourceKind) -> f64 {
    if kind == ResourceKind::Receiver { dose.min(DOSE) } else { dose }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::shares::{Decision, RaisedSetting, ShareLimit, TakenUnit, decide};
    use linerate_system::clock;
    use linerate_testing::{experiment, taken_part};

    const TICK: Duration = Duration::from_millis(20);
    /// Bytes a second of the flow while nothing is taken, and a tenth of that.
    const RATE: f64 = 1e9;

    /// An experiment on one disk.
    fn taking() -> Taking {
        let part = || taken_part("disk:vda", ResourceKind::Disk, TakenUnit::Bytes);
        let mut record = experiment([part(), part()], RATE, [0.0; 2], 0);
        record.taken.truncate(1);
        Taking::new(record, 7, vec![0], DOSE, vec![DOSE * RATE], RATE)
    }

    /// Lets so many ticks go by, in each of which the flow loses this many times what was taken so many ticks before, and varies
    /// from slot to slot.
    fn run_with(taking: &mut Taking, ticks: u32, share: f64, varies: f64, late: usize) {
        let begin = clock::now();
        let mut felt = VecDeque::from(vec![0.0; late]);
        let takers = Takers::taking_from(begin, Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for tick in 0..ticks {
            let mask = taking.slot.as_ref().map_or(0, |slot| slot.plan.mask);
            let (takes, raises) = (mask & 1 == 1, mask & 2 == 2);
            let dose = if takes { taking.doses[0] } else { 0.0 };
            felt.push_back(dose);
            let lost = share * felt.pop_front().unwrap_or_default();
            let of_slot = varies * (taking.record.slots.len() * 7919 % 13) as f64 / 13.0;
            let noise = 1.0 + 0.01 * f64::from(tick * 7919 % 11) / 11.0 + of_slot;
            let of = |rate: f64| (rate * TICK.as_secs_f64()) as u64;
            let raised = if raises { 0.86 } else { 1.0 };
            let flow = of((RATE - lost) * noise * raised);
            let counted = ShareCounts {
                nanos: TICK.as_nanos() as u64,
                flow: vec![flow],
                used: vec![flow + of(dose)],
                taken: vec![of(dose)],
                wanted: vec![0],
                own_cpu_nanos: vec![0],
            };
            taking.tick(&takers, counted, begin + TICK * tick);
            if taking.ended {
                return;
            }
        }
    }

    fn run(taking: &mut Taking, ticks: u32, share: f64) {
        run_with(taking, ticks, share, 0.0, 0);
    }

    #[test]
    fn a_full_disk_is_found_by_its_slots_and_then_it_ends() {
        let mut full = taking();
        run(&mut full, 2_000, 1.0);
        let report = estimate(&full.record, &[]);
        let share = report.resources[0].share.expect("a share");
        assert!((share.value - 1.0).abs() < 0.1, "{share:?}");
        assert_eq!(decide(&full.record, &report), Decision::Measured(ShareLimit::Resource(0)));
        assert!(full.ended && full.record.slots.len() < 64, "{} slots", full.record.slots.len());
        let windows = full.record.slots.iter().map(|slot| slot.counted.nanos);
        assert!(windows.into_iter().all(|nanos| nanos == 400_000_000), "settling is not counted");
    }

    #[test]
    fn a_disk_with_room_has_none_of_the_share() {
        let mut room = taking();
        run(&mut room, 2_000, 0.0);
        let report = estimate(&room.record, &[]);
        let share = report.resources[0].share.expect("a share");
        assert!(share.value.abs() < 0.1 && share.high() < 0.5, "{share:?}");
    }

    #[test]
    fn more_is_taken_where_a_tenth_does_not_tell() {
        let [mut varies, mut quiet] = [taking(), taking()];
        run_with(&mut varies, 500, 0.6, 0.2, 0);
        run(&mut quiet, 500, 0.6);
        assert_eq!((varies.dose, quiet.dose), (MOST_DOSE, DOSE));
    }

    #[test]
    fn an_agent_takes_no_more_than_a_tenth() {
        let parts = [ResourceKind::Receiver, ResourceKind::Cpu].map(|kind| part_of(MOST_DOSE, kind));
        assert_eq!((parts, part_of(DOSE / 2.0, ResourceKind::Receiver)), ([DOSE, MOST_DOSE], DOSE / 2.0));
    }

    /// More of the flow's own workers cost a virtual disk a seventh, beside the fifth that is taken.
    #[test]
    fn what_raising_costs_is_no_harm() {
        let mut raised = taking();
        raised.record.raised = vec![RaisedSetting { id: "streams".into(), from: 1, to: 2 }];
        raised = Taking::new(raised.record, 7, vec![0], MOST_DOSE, vec![MOST_DOSE * RATE], RATE);
        run(&mut raised, 2_000, 1.0);
        assert!(!raised.is_harmed && raised.record.slots.len() >= 32, "{} slots", raised.record.slots.len());
    }

    /// What is taken is missed 80 ms later: a slot of 0.1 s feels the one before it.
    #[test]
    fn short_slots_that_feel_the_one_before_begin_again_twice_as_long() {
        let mut late = taking();
        late.record.timing = Timing { settling_ms: 40, window_ms: 60, period_ms: None };
        late = Taking::new(late.record, 7, vec![0], DOSE, vec![DOSE * RATE], RATE);
        run_with(&mut late, 2_000, 1.0, 0.0, 4);
        let twice = Timing { settling_ms: 80, window_ms: 120, period_ms: None };
        assert_eq!((late.record.timing, late.ended), (twice, true));
        let share = estimate(&late.record, &[]).resources[0].share.expect("a share");
        assert!((share.value - 1.0).abs() < 0.1, "{share:?}");
    }

    /// Taking harms far more than what is taken.
    #[test]
    fn a_flow_that_loses_a_quarter_is_spared_and_then_left_alone() {
        let mut harmed = taking();
        run(&mut harmed, 2_000, 6.0);
        assert!(harmed.is_harmed && harmed.ended);
        assert!(harmed.doses[0] <= DOSE * RATE / 4.0, "{:?}", harmed.doses);
        assert!(harmed.record.slots.len() <= 5, "{} slots", harmed.record.slots.len());
    }
}
