//! A machine described in a file (TOML): parts only, as their data sheets have them. `parse(text) -> Parts`.
//!
//! ```toml
//! [processor]
//! sockets = 1
//! cores = 4
//!
//! [memory]
//! kind = "DDR3"
//! speed = 1333            # configured MT/s
//! channels = 3            # of each node
//!
//! [[slot]]
//! name = "slot1"
//! pcie = "2.0 x8"
//!
//! [[nic]]
//! name = "eth0"
//! on = "slot1"
//! pcie = "2.0 x8"
//! rate = "10G"
//!
//! [[disk]]
//! name = "ssd"            # ssd0 to ssd5
//! count = 6
//! read = "250MB/s"
//! ```
//!
//! `[[volume]]` is software over disks, with what somebody measured of it.
//!
//! `on` says what a part is plugged into: a slot, hub, switch, controller, bus, or `node0`; where it is
//! absent, the node of a machine that has only one. What is wrong is reported with its line.

mod build;
mod names;
mod numbers;
mod tables;
mod values;

use super::parts::MachineParts;
pub(super) use numbers::{is_max_payload, memory_rate};
use std::ops::Range;
pub(super) use values::{PartValueError, pcie, rate};

/// A description is written by hand; what is larger is something else.
pub const LARGEST_FILE_BYTES: usize = 1 << 20;

/// Parts that one entry may stand for, and parts of a machine.
const MOST_OF_ONE: u32 = 1024;
const MOST_PARTS: usize = 4096;
/// Longest name.
const LONGEST_NAME: usize = 64;

/// Where in the text, and what is wrong with it.
type Wrong = (Range<usize>, String);

/// What is wrong with a machine file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct MachineFileError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in letters.
    pub column: usize,
    /// The thing, and the remedy.
    pub message: String,
}

/// Reads a machine file.
pub fn parse(text: &str) -> Result<MachineParts, MachineFileError> {
    if text.len() > LARGEST_FILE_BYTES {
        let message = format!("{} bytes are not a description of a machine: at most 1 MiB", text.len());
        return Err(MachineFileError { line: 1, column: 1, message });
    }
    let words: tables::File = toml::from_str(text).map_err(|error| {
        // The parser's own messages may have several lines.
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        located(text, error.span().unwrap_or(0..0), message)
    })?;
    build::build(&words).map_err(|(span, message)| located(text, span, message))
}

fn located(text: &str, span: Range<usize>, message: String) -> MachineFileError {
    let before = text.get(..span.start.min(text.len())).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    MachineFileError {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message,
    }
}

#[cfg(test)]
mod tests;
