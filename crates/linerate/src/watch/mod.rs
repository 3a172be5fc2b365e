//! `linerate watch`: one sampler of raw counters, one model of rates, several views.

pub mod model;

pub use model::{Moment, SCHEMA};
