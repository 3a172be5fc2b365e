//! What a server could carry, before and after measuring: [`plan`] chooses workers and times and solves the graph
//! of capacities; [`alike`] says which of several like things does less than the others; [`shares`] says what a
//! flow loses while a little of one resource is taken; [`verdict`] is the one place that says what limits a flow, by
//! which threshold.

#![forbid(unsafe_code)]

pub mod alike;
pub mod plan;
pub mod shares;
pub mod verdict;

// The tests take in a file of linerate-testing, which names this crate from outside.
#[cfg(test)]
extern crate self as linerate_model;
