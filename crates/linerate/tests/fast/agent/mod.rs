//! The agent from outside, on loopback: who gets in, what it counts, how it ends, and what it withstands.
//!
//! Receivers and streams are stand-ins that only count, but in `engine`; those of `flow` have their own
//! tests.

mod bounds;
mod clock;
mod endings;
mod engine;
mod link_local;
mod malformed;
mod own;
pub mod running;
mod sessions;
mod sink;
mod strangers;
mod streams;
mod taking;
mod versions;
