//! The second step: which lanes, which measurements, within which time; and the ceiling that the parts allow.

pub mod capacity;
mod product;

pub use product::*;
