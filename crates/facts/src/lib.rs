//! What every step stands on.

#![forbid(unsafe_code)]

pub mod counters;
pub mod fact;
pub mod failure;
pub mod memory;
pub mod natural_order;
pub mod printable;
pub mod protocol;
pub mod sysroot;
pub mod units;
pub mod usage;
pub mod wording;
