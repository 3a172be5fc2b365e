//! Moves bytes: lanes from a source through buffers to a sink, and the receivers at the other end.

pub mod progress;
pub mod receive;
