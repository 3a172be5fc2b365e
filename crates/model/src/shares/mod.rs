//! The verdict by experiment: what a flow loses while a little of one resource is taken away.
//!
//! All of it is pure: [`schedule`] chooses how long a slot is from a few seconds of mere observation, and says what is
//! taken in which slot; [`record`] keeps what was counted; [`estimate`] makes shares of it; [`decide`] says what limits.
//! `measure`'s `experiment` takes and counts.

mod decide;
mod estimate;
mod fit;
mod record;
mod schedule;

pub use decide::{Decision, ShareLimit, Undecided, decide, is_narrow, may_stop};
pub use estimate::{
    CarryOver, CpuCosts, NoShare, PoolShare, RaiseEffect, ResourceShare, ShareReport, estimate,
};
pub use fit::{Estimate, student};
pub use record::{
    ALL_RECEIVERS, LEAST_SLOTS, NoiseReport, RaisedSetting, ShareCounts, ShareRecord, SlotRecord,
    TARGET_HALF_WIDTH, TakenResource, TakenUnit, Timing, is_receiver_cpus, planned_id, receiver_cpus,
};
pub use schedule::{Hopeless, ObservedFlow, SlotPlan, SlotSchedule, timing};

#[cfg(test)]
mod tests;
