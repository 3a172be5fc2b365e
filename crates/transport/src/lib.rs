//! How bytes move.

#![forbid(unsafe_code)]

pub mod address;
pub mod admission;
pub mod agent;
mod closed_port;
pub mod flow;
pub mod iperf3;
mod lock;
mod pace;

pub use lock::lock;
