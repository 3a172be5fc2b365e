//! HTTP/1.1 as the two ends need it: heads within bounds, chunks, ranges, conditions, times, paths and URLs. Pure: nothing
//! here touches a socket or a file.

pub mod chunks;
pub mod conditions;
pub mod head;
pub mod ranges;
pub mod url;
