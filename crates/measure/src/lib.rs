//! Measure, diagnose, conduct a run.

#![forbid(unsafe_code)]

pub mod diagnose;
pub mod event;
pub mod measure;
pub mod run;
