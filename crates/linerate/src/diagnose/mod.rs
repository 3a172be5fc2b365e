//! The fourth step, pure: predicted, bottleneck, findings from the machine, the plan and the measurements alone.

mod product;

use crate::measure::Measurements;
use crate::plan::{Goal, Plan};
use crate::probe::Machine;
pub use product::*;

/// What the figures mean. Pure: the same file gives the same diagnosis anywhere.
pub fn diagnose(_machine: &Machine, _goal: &Goal, _plan: &Plan, _measurements: &Measurements) -> Diagnosis {
    todo!()
}
