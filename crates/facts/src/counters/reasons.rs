//! The kernel's own reasons for the packets it dropped, over a test: a trace that root may keep
//! (`system::drop_trace`).

use crate::fact::Fact;
use crate::sysroot::Sysroot;
use linerate_system::drop_trace::DropTrace;
use std::collections::BTreeMap;
use std::io;
use thiserror::Error;

/// Among the reasons: packets whose records the trace had no room for. No reason of the kernel's is written
/// like that.
pub const MISSED_BY_TRACE: &str = "not recorded";

/// Why there is no trace.
#[derive(Debug, Error)]
enum NoTrace {
    #[error("only root may trace drops")]
    NotRoot,
    #[error("not traced: {0}")]
    Refused(io::Error),
    #[error("a recorded tree does not hold them")]
    Recorded,
    #[error("{0}")]
    NotWanted(String),
}

/// A trace that runs until it is dropped, or why there is none.
#[derive(Debug)]
pub struct DropReasons(Result<DropTrace, NoTrace>);

impl DropReasons {
    /// Starts one; of a recorded tree there is none.
    pub fn start(sysroot: &Sysroot) -> Self {
        DropReasons(match sysroot.is_live() {
            true => DropTrace::start().map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => NoTrace::NotRoot,
                _ => NoTrace::Refused(error),
            }),
            false => Err(NoTrace::Recorded),
        })
    }

    /// None, and why.
    pub fn none(why: &str) -> Self {
        DropReasons(Err(NoTrace::NotWanted(why.into())))
    }

    /// Packets by reason since the start, of the whole host; those that the trace missed as [`MISSED_BY_TRACE`].
    pub fn read(&self) -> Fact<BTreeMap<String, u64>> {
        match &self.0 {
            Ok(trace) => match trace.read() {
                Ok(mut drops) => {
                    if drops.missed > 0 {
                        drops.reasons.insert(MISSED_BY_TRACE.into(), drops.missed);
                    }
                    Fact::Known(drops.reasons)
                }
                Err(error) => Fact::unknown(format!("the trace cannot be read: {error}")),
            },
            Err(why) => Fact::unknown(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_tree_has_none() {
        let reasons = DropReasons::start(&Sysroot::recorded("/nowhere"));
        assert_eq!(reasons.read().why(), Some("a recorded tree does not hold them"));
    }
}
