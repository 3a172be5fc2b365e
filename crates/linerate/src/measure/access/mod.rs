//! Benchmarks of file access: a `Job` says what is read and written how, an `AccessResult` what came of it.
//!
//! `Prepared` makes what a job needs ready (files made and written, devices held), `conduct` runs the job on it, as often as one likes.

mod checks;
mod conduct;
mod crew;
mod diskstats;
mod figure;
mod files;
pub mod fio_job;
mod job;
mod lay_out;
mod parts;
mod result;
mod target;
#[cfg(test)]
mod tests;

pub use conduct::{Bench, WARM_UP_SECONDS, conduct};
pub use files::Prepared;
pub use job::*;
pub use result::*;
pub use target::Permissions;
