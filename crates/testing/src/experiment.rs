//! What an experiment counts of a flow whose limit is planted.

use linerate_facts::random::Random;
use linerate_model::plan::ResourceKind;
use linerate_model::shares::{
    NoiseReport, ShareCounts, ShareRecord, SlotRecord, SlotSchedule, TakenResource, TakenUnit, Timing,
};

/// What two CPUs can do in a slot, nanoseconds.
const CPU_NANOS: f64 = 8e8;

/// A part that is taken from.
pub fn taken_part(id: &str, kind: ResourceKind, unit: TakenUnit) -> TakenResource {
    TakenResource { id: id.into(), members: Vec::new(), kind, unit, pool: None, busy: None }
}

/// So many cycles of 16 slots, in each of which the flow moves so many bytes and loses these shares of a tenth that is taken
/// of two parts.
pub fn experiment(taken: [TakenResource; 2], bytes: f64, shares: [f64; 2], cycles: usize) -> ShareRecord {
    let timing = Timing { settling_ms: 100, window_ms: 400, period_ms: None };
    let (mut schedule, mut random) = (SlotSchedule::new(timing, 2, 7), Random::new(11));
    let of_cpu = taken.each_ref().map(|part| part.unit == TakenUnit::CpuNanos);
    let slots = (0..cycles).flat_map(|_| schedule.next_cycle()).map(|plan| {
        let dose = [0, 1].map(|column| f64::from(plan.mask >> column & 1) / 10.0);
        let noise = 1.0 + 0.002 * (random.unit() - 0.5);
        let flow = bytes * (1.0 - shares[0] * dose[0] - shares[1] * dose[1]) * noise;
        let amounts = [0, 1].map(|at| dose[at] * if of_cpu[at] { CPU_NANOS } else { bytes });
        let used = [0, 1].map(|at| amounts[at] + if of_cpu[at] { CPU_NANOS } else { flow });
        let own = [0, 1].map(|at| if of_cpu[at] { amounts[at] } else { 0.0 });
        let [used, own_cpu_nanos, taken] = [used, own, amounts].map(|all| all.map(|it| it as u64).to_vec());
        let (nanos, flow, wanted) = (400_000_000, vec![flow as u64], taken.clone());
        let counted = ShareCounts { nanos, flow, used, taken, wanted, own_cpu_nanos };
        SlotRecord { mask: plan.mask, counted }
    });
    let slots = slots.collect();
    let (raised, subflows, busy_untaken) = (Vec::new(), vec![taken[1].id.clone()], Vec::new());
    let (taken, noise) = (taken.to_vec(), NoiseReport::default());
    ShareRecord { taken, raised, subflows, busy_untaken, timing, noise, slots }
}
