//! Why no part is named as the limit.

use super::super::limit::Missing;
use super::super::thresholds::*;
use linerate_facts::units::show_size;
use linerate_facts::wording::percent;
use std::fmt::{Display, Formatter, Result};

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Missing::NothingNear => write!(
                f,
                "no link at {}, no CPU at {}, no disk with a deep queue at its best rate, no drops",
                percent(LINK_FULL),
                percent(CPU_FULL)
            ),
            Missing::Memory => write!(
                f,
                "memory is what is measured: a CPU that waits for it counts as busy, so the kernel's \
                 counters cannot part the two"
            ),
            Missing::Route => write!(f, "nothing is known of what this stage waits for"),
            Missing::KeepsItsRate => write!(f, "no frame is left out: the flow keeps its rate"),
            Missing::NoSinglePart { busy, waiting_source, waiting_sink, pauses } => {
                write!(
                    f,
                    "no single limit: {} working, {} waiting for the disks, {} for the network",
                    percent(*busy),
                    percent(*waiting_source),
                    percent(*waiting_sink)
                )?;
                let Some(disk) = pauses else { return Ok(()) };
                let idle = percent(1.0 - disk.busy.unwrap_or(0.0));
                write!(f, "; {} has nothing to do for {idle} of it", disk.name)?;
                match disk.bytes_in_flight().zip(disk.alone) {
                    Some((bytes, alone)) => {
                        let (now, alone) = (show_size(bytes as u64), show_size(alone.bytes_in_flight as u64));
                        write!(f, ", and {now} of reads to work on at a time, alone {alone}")
                    }
                    None => Ok(()),
                }
            }
            Missing::BytesOfNoDisk => write!(
                f,
                "no disk of this host shows these bytes: they are of the page cache, of memory, of another \
                 host, or not yet in a moment"
            ),
            Missing::DiskCounters => write!(f, "no disk of this host shows how many requests wait at it"),
            Missing::DiskPauses { name } => {
                write!(f, "{name} is without a request for part of the time, and no CPU is full")
            }
            Missing::Queue { name } => write!(
                f,
                "{name} always had a request, and it is not clear whether requests waited for each other in it or would be \
                 answered as fast if there were more"
            ),
            Missing::HeldBefore { name, waiting_seconds, of_seconds } => write!(
                f,
                "of the {:.2} ms that a request takes it waits {:.2} ms before {name} gets it: for a throttle (io.max of \
                 its control group), for a layer above the disk, or for its turn",
                of_seconds * 1e3,
                waiting_seconds * 1e3
            ),
            Missing::TooShort => write!(f, "it was too short to tell what limited it"),
            Missing::OtherHost => write!(
                f,
                "no link at {} and no CPU at {} here, nothing dropped; the other host's CPUs and what is \
                 between are not seen from here",
                percent(LINK_FULL),
                percent(CPU_FULL)
            ),
        }
    }
}
