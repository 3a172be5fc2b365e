//! The kernel and the devices, for linerate. All `unsafe` of the project is here; no policy is.
//!
//! The safety seam: a [`buffers::Lease`] is one block of a buffer pool. Safe code gives it to a
//! [`queue::Queue`] to be read into, written or sent from, and gets it back when the request is over, so a
//! buffer that the kernel may still touch is out of reach.

pub mod addresses;
pub mod affinity;
pub mod attributes;
pub mod beneath;
pub mod buffers;
pub mod clock;
pub mod connection;
pub mod counters;
pub mod drop_trace;
pub mod ethtool;
pub mod file;
pub mod handover;
pub mod kernel_tls;
mod lock;
pub mod mapping;
pub mod memory;
pub mod namespace;
mod netlink;
pub mod private_folder;
pub mod process;
pub mod qdisc;
pub mod queue;
pub mod readiness;
pub mod segmentation;
pub mod side_file;
pub mod socket;
pub mod stop;
pub mod storage;
pub mod system_calls;
pub mod tcp_sockets;
pub mod trains;
pub mod user;
pub mod zerocopy;

/// The kernel's error numbers by name.
pub use lock::lock;
pub use rustix::io::Errno;
