//! The kernel and the devices, for linerate. All `unsafe` of the project is here; no policy is.
//!
//! The safety seam: a [`buffers::Lease`] is one block of the buffer pool. Safe code gives it to an [`io::Io`] to be read into
//! or sent from and gets it back with the completion, so a buffer that the kernel may still touch is out of reach.

pub mod addresses;
pub mod affinity;
pub mod batch;
pub mod blocking;
pub mod buffers;
pub mod connection;
pub mod counters;
pub mod device;
pub mod drop_trace;
pub mod ethtool;
pub mod fake;
pub mod file;
pub mod handover;
pub mod io;
pub mod latency;
pub mod limits;
pub mod mapping;
pub mod memory;
pub mod namespace;
pub mod process;
pub mod qdisc;
pub mod queue;
pub mod readiness;
pub mod ring;
pub mod socket;
pub mod storage;
pub mod trains;
pub mod zerocopy;
