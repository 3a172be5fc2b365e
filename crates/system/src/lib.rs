//! The kernel and the devices, for linerate. All `unsafe` of the project is here; no policy is.

pub mod addresses;
pub mod counters;
pub mod device;
pub mod ethtool;
pub mod limits;
