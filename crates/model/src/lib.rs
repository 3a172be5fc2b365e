//! What a server could carry.

#![forbid(unsafe_code)]

pub mod plan;
pub mod verdict;

// The tests take in a file of linerate-testing, which names this crate from outside.
#[cfg(test)]
extern crate self as linerate_model;
