//! Benchmarks of file access: a `Job` says what is read and written how, an `AccessResult` what came of it.

mod job;
mod result;

pub use job::*;
pub use result::*;
