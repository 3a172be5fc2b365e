//! The agent from outside, on loopback: who gets in, what it counts, how it ends, and what it withstands.
//!
//! The receivers are stand-ins that only count; those of `flow` have their own tests.

mod bounds;
mod clock;
mod endings;
mod malformed;
mod own;
mod running;
mod sessions;
mod strangers;
mod streams;
mod versions;
