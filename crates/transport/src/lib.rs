//! How bytes move between hosts: [`flow`] has the workers, streams and UDP trains; [`agent`] is the other end and
//! the way to it; [`admission`] decides who is let in, for every server here; [`iperf3`] speaks that tool's
//! protocol from both ends; [`perftest`] has perftest's programs move bytes by RDMA; [`ssh`] starts programs on
//! another host.

#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate linerate_testing;
#[cfg(test)]
mod tests;

pub mod address;
pub mod admission;
pub mod agent;
mod closed_port;
pub mod flow;
pub mod iperf3;
pub mod pace;
pub mod perftest;
pub mod ssh;
