//! The streams of `linerate network`: bytes from memory or from a file over TCP or UDP, counted datagram by datagram.
//!
//! A lane (`flow::lane`) is the short way from a disk to the wire, with nothing of ours in its datagrams. A stream is the measuring
//! instrument: it knows what was lost, doubled and late, how the kernel treated it, and it runs in either direction. The client always
//! opens it (so that it passes firewalls, and so that nothing is sent to an address that did not ask); who sends is in `StreamSpec`.

mod counters;
mod spec;

pub use counters::{StreamCounters, StreamSample, TcpSample, ZeroCopy};
pub use spec::{Role, SendMethod, StreamSpec};
