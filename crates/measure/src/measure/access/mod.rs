//! Benchmarks of file access: a `Job` says what is read and written how, an `AccessResult` what came of it.
//!
//! `Prepared` makes what a job needs ready (files made and written, devices held), `conduct` runs the job on
//! it, as often as one likes.

mod bench;
mod buffer_room;
mod burst;
mod checks;
mod conduct;
mod figure;
mod files;
pub mod fio_job;
mod job;
mod latency;
mod lay_out;
mod merge;
mod meter;
mod opened;
mod own_file;
mod parts;
mod pinning;
mod result;
mod scaling;
mod series;
mod steady;
mod target;
#[cfg(test)]
mod tests;
mod worker_pool;

pub use bench::{AccessBench, PinningTrial, PinningTrials};
pub(crate) use burst::{LEAST_RATIO, burst, burst_of_flow};
pub(crate) use conduct::conduct_unpinned;
pub use conduct::{WARM_UP_SECONDS, conduct};
pub use figure::{show_transfer, title};
pub use files::{Prepared, TaskRange};
pub use job::*;
pub(crate) use latency::middle_mean;
pub use latency::{Latency, LatencyQuantile, LatencyShare};
pub use linerate_facts::host::DeviceUse;
pub use linerate_model::plan::Burst;
pub use merge::merged;
pub use opened::SourceRange;
#[cfg(test)]
pub(crate) use parts::tests::job as test_job;
pub use result::*;
pub use scaling::{Reached, curve, numbers};
pub(crate) use series::{SHORT_WINDOW_SECONDS, Series};
pub use steady::steady;
pub(crate) use steady::{MOST_ROUNDS, WINDOW_ROUNDS};
pub use target::Permissions;
