//! `linerate watch`: one sampler of raw counters, one model of rates, several views.

pub mod board;
pub mod history;
pub mod model;
pub mod page;
pub mod terminal;

pub use model::{Moment, SCHEMA};
