//! What every other crate builds on: a [`fact::Fact`] is known or says why it is not; a [`sysroot::Sysroot`]
//! reads the live or a recorded `/sys` and `/proc`, and [`counters`] and [`usage`] what the kernel counts there;
//! [`host`] has what a host did between two moments.
//! [`units`], [`wording`] and [`printable`] write values, counts and foreign text for people,
//! [`metrics`] writes them for Prometheus; [`grouping`] puts what is alike together; [`secret_file`] reads keys and
//! tokens; [`random`] has numbers that a seed repeats; [`failure`] has the exit statuses.

#![forbid(unsafe_code)]

pub mod counters;
pub mod fact;
pub mod failure;
pub mod grouping;
pub mod host;
mod host_use;
pub mod metrics;
pub mod printable;
pub mod protocol;
pub mod random;
pub mod room;
pub mod secret_file;
pub mod sysroot;
pub mod units;
pub mod usage;
pub mod wording;
