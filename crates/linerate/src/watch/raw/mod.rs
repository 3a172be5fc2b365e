//! What the kernel counts, read as it is: text of `/proc` and `/sys` into numbers, without rates and without judgement.

mod disks;
mod interrupts;
mod kept;
mod kernel;
mod network;

pub use disks::{DiskCounters, parse_diskstats};
pub use interrupts::{Interrupts, IrqCounts, parse_interrupts, parse_softirqs};
pub use kept::{Kept, Timed};
pub use kernel::{PressureCounters, PressureLine, Stat, parse_meminfo, parse_pressure, parse_stat};
pub use network::{NicCounters, parse_net_dev};

/// A name from a file of the kernel's, as far as it may be printed.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
