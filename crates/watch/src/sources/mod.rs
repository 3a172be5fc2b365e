//! What is read of the machine, in groups that are asked together; each group has a thread of its own
//! (`pace`).

mod details;
mod drivers;
mod fast;
mod meters;
mod processes;

pub use details::Details;
pub use details::DiskDetails;
pub use details::LinkNow;

pub use drivers::DriverReading;
pub use fast::KernelReading;
pub use fast::NetworkReading;
pub(crate) use fast::RESOURCES;
pub use meters::MeterReading;
pub(crate) use meters::MetersReading;

pub(super) use details::details;
pub(super) use drivers::drivers;
pub(super) use fast::{disks, interrupts, kernel, network};
pub(super) use meters::{hwmon, rapl};
pub(super) use processes::{FIRST_READINGS, processes};
