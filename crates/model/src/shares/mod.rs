//! The verdict by experiment: what a flow loses while a little of one resource is taken away. Pure: [`noise`] chooses
//! the times from a few seconds of mere observation and says what is taken when, [`record`] keeps what was
//! counted, [`estimate`] makes shares of it, [`decide`] says what limits. Whoever takes and counts is elsewhere.

mod decide;
mod estimate;
mod fit;
mod noise;
mod record;

pub use decide::{Decision, ShareLimit, Undecided, decide, is_narrow, may_stop};
pub use estimate::{
    CarryOver, CpuCosts, NoShare, PoolShare, RaiseEffect, ResourceShare, ShareReport, estimate,
};
pub use fit::{Estimate, student};
pub use noise::{Hopeless, ObservedFlow, SlotPlan, SlotSchedule, timing};
pub use record::{
    ALL_RECEIVERS, LEAST_SLOTS, NoiseReport, RaisedSetting, ShareCounts, ShareRecord, SlotRecord,
    TARGET_HALF_WIDTH, TakenResource, TakenUnit, Timing, is_receiver_cpus, planned_id, receiver_cpus,
};

#[cfg(test)]
mod tests;
