//! What the judge says, in words: what is at its limit, by which rule, or what is missing.

use super::evidence::{CpuUsers, DiskEvidence, DropEvidence, LinkEvidence, ReadsEvidence};
use super::limit::{Limit, Missing};
use super::thresholds::*;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::usage::CoreUse;
use std::fmt::{Display, Formatter, Result};

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Limit::LateDisk { frames } => write!(f, "the disks: {frames} frames came too late from them"),
            Limit::LateNetwork { frames } => {
                write!(f, "the network: {frames} frames could not be sent in time")
            }
            Limit::LateCpu { frames } => write!(f, "the CPU: {frames} frames were not handled in time"),
            Limit::Demand { bytes_per_second } => {
                write!(f, "the flow asked for no more than {}", show_bytes_rate(*bytes_per_second))
            }
            Limit::ReceiverThread { share } => {
                write!(f, "the receiver: one of its threads uses {} of a CPU", percent(*share))
            }
            Limit::ReceiverQuota { throttled } => {
                write!(
                    f,
                    "the receiver: its CPU quota throttled it in {} of its periods",
                    percent(*throttled)
                )
            }
            Limit::ReceiverRateLimit { bytes_per_second } => {
                write!(
                    f,
                    "the receiver: it takes no more than its rate limit of {}",
                    show_bytes_rate(*bytes_per_second)
                )
            }
            Limit::Quota { throttled, .. } if *throttled >= QUOTA_THROTTLED => write!(
                f,
                "the CPU quota of this control group throttled it in {} of its periods",
                percent(*throttled)
            ),
            Limit::Quota { used, .. } => {
                write!(
                    f,
                    "the CPU quota of this control group: {} of it is used",
                    percent(used.unwrap_or(1.0))
                )
            }
            Limit::Thread { share } => {
                write!(f, "the CPU: a worker works {} of the time on its CPU", percent(*share))
            }
            Limit::OwnCpu { share } => {
                write!(f, "the CPU: the program itself uses {} of the CPUs that it may use", percent(*share))
            }
            Limit::Cpus { full, of, fullest, users } => {
                cpus(f, *full, *of, fullest)?;
                users.map_or(Ok(()), |users| of_users(f, users))
            }
            Limit::Window { datagrams, receiver, share, bytes, round_trip_seconds } => {
                let whose = match (receiver, datagrams) {
                    (true, true) => "what the receiver's buffer has room for",
                    (true, false) => "the receiver's window",
                    _ => "our own send buffer",
                };
                let what = if *datagrams { "UDP's window" } else { "TCP's window" };
                write!(f, "{what}: {whose} was full {} of the time", percent(*share))?;
                let round_trip = round_trip_seconds * 1e3;
                match bytes {
                    Some(bytes) => write!(
                        f,
                        "; it lets {} through in a round trip of {round_trip:.2} ms",
                        show_size(*bytes as u64)
                    ),
                    None => write!(f, "; the round trip is {round_trip:.2} ms"),
                }
            }
            Limit::OfSender(limit) => of_sender(f, limit),
            Limit::ReceiverCpus => write!(f, "the receiver: all of its CPUs are busy"),
            Limit::ReceiverInterrupts { cpu, share } => write!(
                f,
                "the receiver: its CPU {cpu} is {} busy, most of it with interrupts of the network",
                percent(*share)
            ),
            Limit::Source { count, share, disk } => {
                write!(f, "the disks: {} for them {} of the time", wait(*count), percent(*share))?;
                // A disk that is throttled before its queue has next to nothing in it.
                let at_it = disk.as_ref().filter(|disk| disk.queue_depth.is_some_and(|depth| depth >= 0.5));
                at_it.map_or(Ok(()), |disk| write!(f, " ({})", at_work(disk)))
            }
            Limit::Sink { count, share, part } => {
                write!(f, "the network: {} for it {} of the time: ", wait(*count), percent(*share))?;
                match part {
                    Some(part) => part.fmt(f),
                    None => {
                        write!(
                            f,
                            "no link of this host and no CPU that it needs is full, so the way there or the receiver"
                        )
                    }
                }
            }
            Limit::Incoming { count, share, part } => {
                write!(f, "the network: {} for it {} of the time: ", wait(*count), percent(*share))?;
                match part {
                    Some(part) => part.fmt(f),
                    None => {
                        write!(
                            f,
                            "no link of this host and no CPU that it needs is full, so the server or the way from it"
                        )
                    }
                }
            }
            Limit::Written { count, share, disk } => {
                write!(f, "the disks: {} for them {} of the time", wait(*count), percent(*share))?;
                let at_it = disk.as_ref().filter(|disk| disk.queue_depth.is_some_and(|depth| depth >= 0.5));
                at_it.map_or(Ok(()), |disk| write!(f, " ({})", at_work(disk)))
            }
            Limit::Stored { sink } => {
                let disk = sink.disk.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
                let busy = sink.busy.map(|busy| format!(", the disk is busy {} of it", percent(busy)));
                let (host, wait) = (&sink.host, percent(sink.waiting_disk));
                write!(f, "the sink's disk{disk} on {host}: receivers wait for it {wait} of the time")?;
                write!(f, "{}", busy.unwrap_or_default())
            }
            Limit::DiskBusy(disk) => write!(f, "the disk: {}", at_work(disk)),
            Limit::DiskDeep(disk) => {
                let (rate, depth) = (disk.bytes_per_second / 1e6, disk.queue_depth.unwrap_or(0.0));
                write!(f, "{} moves {rate:.0} MB/s with {depth:.0} requests waiting", disk.name)
            }
            Limit::DiskPauses(disk) => write!(
                f,
                "too few requests in flight: {} has nothing to do {} of the time",
                disk.name,
                percent(1.0 - disk.busy.unwrap_or(0.0))
            ),
            Limit::FewReads(ReadsEvidence { reads, fewer, gain }) => write!(
                f,
                "too few reads in flight: {reads} of a worker carry {gain:.1} times what {fewer} carry"
            ),
            Limit::Volume { name, members, busiest } => write!(
                f,
                "the volume {name}: of its {members} disks none is busy for more than {} of the time",
                percent(*busiest)
            ),
            Limit::Link(link) => full_link(f, link),
            Limit::Shaper { nic, discipline, per_second } => write!(
                f,
                "the shaper {discipline} of {nic} held packets back {per_second:.0} times per second to keep its rate"
            ),
            Limit::SlowReceiver { share } => write!(
                f,
                "the other program: it takes what comes too slowly, TCP's window to it was closed {} of the time",
                percent(*share)
            ),
            Limit::MemoryStalled { share } => {
                write!(f, "memory is short: nothing went on in {} of the time", percent(*share))
            }
            Limit::Drops(drop) => drops(f, drop),
            Limit::ZeroWindows { per_second } => write!(
                f,
                "programs here read too slowly: TCP closed its window {per_second:.0} times per second"
            ),
            Limit::Retransmits { share } => {
                write!(f, "TCP retransmits {:.2} % of its segments", share * 100.0)
            }
            Limit::Steal { cpu, share } => {
                write!(f, "the hypervisor gave {} of CPU {cpu} to others", percent(*share))
            }
        }
    }
}

impl Limit {
    /// The same without what it is about, for a sentence that has just named it, one thing or `several`: `the
    /// worker spent 92 % of the time waiting for it`.
    pub fn clause(&self, several: bool) -> String {
        let it = if several { "them" } else { "it" };
        let waited = |count: u32, share: f64| {
            let workers = if count == 1 { "the worker" } else { "the workers" };
            format!("{workers} spent {} of the time waiting for {it}", percent(share))
        };
        match self {
            Limit::Source { count, share, .. } => waited(*count, *share),
            Limit::Sink { count, share, part: None } => waited(*count, *share),
            Limit::Incoming { count, share, part: None } => waited(*count, *share),
            Limit::Written { count, share, .. } => waited(*count, *share),
            Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. } => {
                part.clause(several)
            }
            _ => {
                let text = self.to_string();
                let text = match self {
                    Limit::Volume { .. } => {
                        text.split_once(": ").map_or(text.clone(), |(_, rest)| rest.into())
                    }
                    _ => text,
                };
                let subjects = [
                    "too few reads in flight: ",
                    "the disk: ",
                    "the CPU: ",
                    "the receiver: ",
                    "the sender: ",
                    "TCP's window: ",
                    "UDP's window: ",
                ];
                let found = subjects.iter().find_map(|subject| text.strip_prefix(subject));
                found.map(str::to_string).unwrap_or(text)
            }
        }
    }

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
                 for {} of the time or more before an empty queue, is limited by that buffer",
                percent(WINDOW_CLOSED)
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
                format!(
                    "a host whose CPUs are all busy for {} of the time or more is full",
                    percent(CPU_FULL)
                )
            }
            Limit::ReceiverQuota { .. } | Limit::Quota { .. } => format!(
                "a control group that is throttled in {} of its periods or more, or uses {} of its quota, is \
                 limited by it",
                percent(QUOTA_THROTTLED),
                percent(QUOTA_USED)
            ),
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
            Limit::Volume { .. } => format!(
                "a volume that is waited for while each of its disks pauses for {} of the time or more limits \
                 itself",
                percent(1.0 - DISK_IDLE)
            ),
            Limit::Shaper { .. } => format!(
                "a queueing discipline that holds packets of the flow back {DROPS_PER_SECOND:.0} times per second or \
                 more gives the rate"
            ),
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
            Limit::MemoryStalled { .. } => {
                format!(
                    "all tasks waited for memory in {} of the interval or more (PSI)",
                    percent(MEMORY_STALLED)
                )
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
                    "no single part: the workers work {}, wait for the disks {} and for the network {} of the \
                     time, and none is half of it",
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

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn wait(count: u32) -> &'static str {
    if count == 1 { "the worker waits" } else { "the workers wait" }
}

/// What is said of a receiver, of the host that sends.
fn of_sender(f: &mut Formatter<'_>, limit: &Limit) -> Result {
    if let Limit::ReceiverRateLimit { bytes_per_second } = limit {
        let rate = show_bytes_rate(*bytes_per_second);
        return write!(f, "the sender: it sends no more than its rate limit of {rate}");
    }
    let text = limit.to_string();
    match text.strip_prefix("the receiver: ") {
        Some(rest) => write!(f, "the sender: {rest}"),
        None => f.write_str(&text.replace("our own send buffer", "the sender's own send buffer")),
    }
}

/// The fullest CPU; with most of its time in softirq it is the network's.
fn cpus(f: &mut Formatter<'_>, full: usize, of: usize, fullest: &CoreUse) -> Result {
    let interrupts = fullest.softirq + fullest.irq >= MOSTLY_INTERRUPTS;
    let work = if interrupts { ", most of it with interrupts of the network and the disks" } else { "" };
    let (cpu, busy) = (fullest.core, percent(fullest.busy()));
    match full {
        1 => write!(f, "CPU {cpu} is {busy} busy{work}"),
        _ if full == of => write!(f, "all {full} CPUs are busy"),
        _ => write!(f, "{full} of {of} CPUs are busy, CPU {cpu} for {busy}{work}"),
    }
}

/// Who has them, of all CPUs.
fn of_users(f: &mut Formatter<'_>, users: CpuUsers) -> Result {
    let CpuUsers { own, kernel, others } = users;
    write!(f, " (linerate {}, interrupts and kernel threads {}", percent(own), percent(kernel))?;
    if others >= 0.01 {
        write!(f, ", others {}", percent(others))?;
    }
    write!(f, ")")
}

/// `sda works on 15.8 requests at a time, 0.61 ms each`, and beside it what it showed alone.
fn at_work(disk: &DiskEvidence) -> String {
    let (name, depth) = (&disk.name, disk.queue_depth.unwrap_or(0.0));
    let each = |seconds: f64| format!("{:.2} ms each", seconds * 1e3);
    let now = disk.latency_seconds.map(|seconds| format!(", {}", each(seconds))).unwrap_or_default();
    match disk.bytes_in_flight().zip(disk.alone) {
        Some((bytes, alone)) => format!(
            "{name} works on {depth:.1} requests of together {} at a time{now}; alone on {}, {}",
            show_size(bytes as u64),
            show_size(alone.bytes_in_flight as u64),
            each(alone.latency_seconds)
        ),
        None => format!("{name} works on {depth:.1} requests at a time{now}"),
    }
}

fn full_link(f: &mut Formatter<'_>, link: &LinkEvidence) -> Result {
    let verb = if link.sends { "sends" } else { "receives" };
    let (share, rate) = (link.share * 100.0, link.bits_per_second / 1e9);
    write!(f, "{} {verb} {share:.1} % of its link of {rate} Gb/s", link.nic)
}

fn drops(f: &mut Formatter<'_>, drop: &DropEvidence) -> Result {
    let DropEvidence { layer, interface, counter, unit, per_second } = drop;
    let place = interface.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    write!(f, "{layer}{place} drops {per_second:.0} {unit} per second ({counter})")
}
