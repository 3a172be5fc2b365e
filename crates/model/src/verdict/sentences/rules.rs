//! The rule by which a part counts as the limit, with the threshold that it passed; or why no part is named.

use super::super::thresholds::*;
use crate::verdict::limit::{Limit, Missing};
use linerate_facts::units::show_size;
use linerate_facts::wording::percent;
use std::fmt::{Display, Formatter, Result};

impl Limit {
    /// The rule that says so.
    pub fn rule(&self) -> String {
        match self {
            Limit::LateDisk { .. } | Limit::LateNetwork { .. } | Limit::LateCpu { .. } => {
                "the flow's own count of what it left out, by stage".into()
            }
            Limit::Demand { .. } => format!(
                "a flow that moves {} of its own rate limit or more has what it asked for",
                percent(RATE_LIMIT_MET)
            ),
            Limit::ReceiverThread { .. } | Limit::Thread { .. } => format!(
                "a thread that works {} of its time or more waits for nobody: its CPU is full",
                percent(THREAD_FULL)
            ),
            Limit::Window { datagrams: true, .. } => format!(
                "a sender of datagrams that may have no more under way than the receiver's buffer holds, and waits \
                 for {} of the time or more before an empty queue, is limited by that buffer; from {} on where that \
                 is most of what it waits for",
                percent(WINDOW_CLOSED),
                percent(DATAGRAM_WINDOW_CLOSED)
            ),
            Limit::ReceiverInterrupts { .. } => format!(
                "a CPU that is busy for {} of the interval or more, half of it with interrupts, takes in no more",
                percent(CPU_FULL)
            ),
            Limit::Window { .. } => format!(
                "TCP that has data to send and may not for {} of the time or more is limited by the window, and for \
                 {} where what is on its way fills the receiver's buffer",
                percent(WINDOW_CLOSED),
                percent(FULL_WINDOW_CLOSED)
            ),
            Limit::ReceiverCpus => {
                let least = percent(CPU_FULL);
                format!("a host whose CPUs are all busy for {least} of the time or more is full")
            }
            Limit::ReceiverQuota { .. } | Limit::Quota { .. } => format!(
                "a control group that is throttled in {} of its periods or more, or uses {} of its quota, is \
                 limited by it",
                percent(QUOTA_THROTTLED),
                percent(QUOTA_USED)
            ),
            Limit::EachConnection(_) => {
                "streams that are as fast as each other, and each as fast alone as among twice as \
                                         many or more, share nothing that is full: each is limited itself"
                    .into()
            }
            Limit::OfSender(limit) => match **limit {
                Limit::ReceiverRateLimit { .. } => {
                    "the sender's agent was started with a rate limit, and sends that much".into()
                }
                _ => limit.rule(),
            },
            Limit::ReceiverRateLimit { .. } => {
                "the receiver was started with a rate limit, and takes that much".into()
            }
            Limit::OwnCpu { .. } => format!(
                "a program that uses {} of its CPUs or more is limited by them",
                percent(OWN_CPU_FULL)
            ),
            Limit::Cpus { .. } => {
                format!("a CPU that is busy for {} of the interval or more is full", percent(CPU_FULL))
            }
            Limit::Source { .. } => format!(
                "workers that have nothing to send for {} of their time or more are limited by what they \
                 read",
                percent(WAITING)
            ),
            Limit::Sink { .. } => format!(
                "workers whose data is not taken for {} of their time or more ({} where they have pauses) \
                 are limited by the way to the receiver",
                percent(WAITING),
                percent(WAITING_PACED)
            ),
            Limit::Incoming { .. } => format!(
                "workers that get nothing for {} of their time or more are limited by what is sent to them",
                percent(WAITING)
            ),
            Limit::Written { .. } => format!(
                "workers that wait for writes for {} of their time or more are limited by what they write to",
                percent(WAITING)
            ),
            Limit::Stored { .. } => format!(
                "receivers that wait for {} of their time or more until what came is written are limited by their \
                 disk",
                percent(WAITING)
            ),
            Limit::DiskBusy(_) => format!(
                "a disk with a request for {} of the time or more, where no CPU is full, answers no faster \
                 at this depth",
                percent(DISK_BUSY)
            ),
            Limit::DiskDeep(_) => format!(
                "a disk with {DISK_DEEP:.0} requests or more waiting, within {} of the best rate that this \
                 watch saw of it, gives what it can",
                percent(1.0 - DISK_NEAR_BEST)
            ),
            Limit::DiskPauses(_) => format!(
                "a disk that pauses for {} of the time or more could do more: by Little's law more requests \
                 in flight bring more",
                percent(1.0 - DISK_IDLE)
            ),
            Limit::FewReads(_) => format!(
                "reads in flight that carry {} of as much more as they are more, or more than that, are too few \
                 to fill what they are read from",
                percent(READS_CARRY)
            ),
            Limit::FewRequests { .. } => format!(
                "a program with one request in flight, which a disk has for {} of the time or more, waits for each; so does \
                 one whose requests take at most {QUEUE_EMPTY_TIMES} times the shortest",
                percent(DISK_KEPT)
            ),
            Limit::FullWindow { .. } => format!(
                "TCP of which rate × round trip is {} of the receiver's window or more has the window full",
                percent(WINDOW_FULL)
            ),
            Limit::Volume { .. } => format!(
                "a volume that is waited for while each of its disks pauses for {} of the time or more limits \
                 itself",
                percent(1.0 - DISK_IDLE)
            ),
            Limit::Shaper { .. } => format!(
                "a queueing discipline that holds packets of the flow back {DROPS_PER_SECOND:.0} times per second or \
                 more gives the rate"
            ),
            Limit::LinkUnknown { .. } => {
                "only what is known to be of the flow is named: the interfaces of its sockets' routes".into()
            }
            Limit::SlowReceiver { .. } => format!(
                "a receive window that is closed for {} of the time with data to send or more, while less than {} are \
                 on the way, is that of a program that reads too slowly",
                percent(WINDOW_CLOSED),
                show_size(LEAST_WINDOW_BYTES as u64)
            ),
            Limit::Link(_) => format!(
                "a link at {} or above, with preamble, gap and checksum of each packet, is full",
                percent(LINK_FULL)
            ),
            Limit::OwnPauses { .. } | Limit::NoRequests { .. } | Limit::Pipe { .. } => format!(
                "a program whose threads spend {} of their time or more so, while they wait for neither disk nor \
                 network, is limited by that",
                percent(WAITING)
            ),
            Limit::MemoryStalled { .. } => {
                let least = percent(MEMORY_STALLED);
                format!("all tasks waited for memory in {least} of the interval or more (PSI)")
            }
            Limit::Drops(_) => format!(
                "a counter of drops that grows by {DROPS_PER_SECOND:.0} per second or more names the layer \
                 that cannot follow"
            ),
            Limit::ZeroWindows { .. } => {
                "TCP announces a window of 0 where the receiving program does not keep up".into()
            }
            Limit::Retransmits { .. } => {
                format!("TCP that retransmits {:.1} % or more is limited by loss on the path", LOST * 100.0)
            }
            Limit::Others { .. } => format!(
                "CPUs that are busy for {} of the time or more, {} of it with other programs' work, are not full by \
                 the flow's own",
                percent(CPU_FULL),
                percent(CPU_OF_OTHERS)
            ),
            Limit::Steal { .. } => {
                format!("{} of stolen time or more is another guest's load", percent(STOLEN))
            }
        }
    }
}

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
