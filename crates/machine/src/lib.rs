//! What a server is: [`probe`] makes a `Machine` of a live system, a recorded one, or what other tools wrote about
//! one; [`topology`] is the one judge of its PCIe links; [`rates`] has what links and memory carry by their
//! standards; [`flow_devices`] says what of it a flow uses; [`capture`] records a machine without what reveals whose it is.

#![forbid(unsafe_code)]

pub mod capture;
pub mod flow_devices;
pub mod probe;
pub mod rates;
pub mod topology;
