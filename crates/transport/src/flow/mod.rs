//! Moves bytes: workers from a source through buffers to a sink, and the receivers at the other end.
//!
//! A worker is one pinned thread with its own ring and its own buffer pool (`worker`); it reads blocks that a
//! `Cursor` deals out (`source`) and sends them on TCP or, held by a window, on UDP (`window`, `wire`).
//! `receive` is the other end. Nothing here allocates, logs or locks per block; what happens is counted in
//! `counters` and `progress` and read by somebody else.

pub mod access;
pub mod counters;
pub mod cpu_taker;
pub mod progress;
pub mod rate_limit;
pub mod receive;
pub mod sink;
pub mod source;
pub mod start;
pub mod store;
pub mod stream;
pub mod udp;
pub mod udp_receive;
pub mod window;
pub mod wire;
pub mod worker;
