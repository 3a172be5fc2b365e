//! Benchmarks of file access: a `Job` says what is read and written how, an `AccessResult` what came of it.
//!
//! `Prepared` makes what a job needs ready (files made and written, devices held), `conduct` runs the job on
//! it, as often as one likes.

mod bench;
mod burst;
mod checks;
mod conduct;
mod figure;
mod files;
pub mod fio_job;
mod job;
mod lay_out;
mod opened;
mod parts;
mod result;
mod target;
#[cfg(test)]
mod tests;
mod trend;
mod worker_pool;

pub use bench::{AccessBench, PinningTrial, PinningTrials};
pub(crate) use burst::{LEAST_RATIO, SHORT_WINDOW_SECONDS, Series, burst, burst_of_flow};
pub(crate) use conduct::conduct_unpinned;
pub use conduct::{WARM_UP_SECONDS, conduct};
pub use figure::{merged, show_transfer, title};
pub use files::{Prepared, TaskRange};
pub use job::*;
pub use linerate_facts::host::DeviceUse;
pub use linerate_model::plan::Burst;
pub use opened::SourceRange;
pub(crate) use result::middle_mean;
pub use result::*;
pub use target::Permissions;
pub(crate) use trend::{MOST_ROUNDS, WINDOW_ROUNDS};
pub use trend::{Reached, curve, numbers, steady};

#[cfg(test)]
pub(crate) use parts::tests::job as test_job;
