//! What the judge says, in words: what is at its limit, by which rule, or what is missing.

use super::each_connection::ConnectionLimit;
use super::evidence::{CpuUsers, DiskEvidence, DropEvidence, LinkEvidence, ReadsEvidence};
use super::limit::Limit;
use super::thresholds::*;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::usage::CoreUse;
use linerate_facts::wording::{counted, percent};
use std::fmt::{Display, Formatter, Result};
mod rules;
mod shares;

pub use shares::share_sentence;

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Limit::LateDisk { frames } => {
                write!(f, "the disks: {} came too late from them", counted(*frames, "frame"))
            }
            Limit::LateNetwork { frames } => {
                write!(f, "the network: {} could not be sent in time", counted(*frames, "frame"))
            }
            Limit::LateCpu { frames } => {
                write!(f, "the CPU: it did not handle {} in time", counted(*frames, "frame"))
            }
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
                let bytes_per_second = show_bytes_rate(*bytes_per_second);
                write!(f, "the receiver: it takes no more than its rate limit of {bytes_per_second}")
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
            Limit::FullWindow { bytes, window_bytes, round_trip_seconds, was_set } => {
                let (under_way, window) = (show_size(*bytes as u64), show_size(*window_bytes as u64));
                let round_trip = round_trip_seconds * 1e3;
                write!(
                    f,
                    "TCP's window: {under_way} are under way in a round trip of {round_trip:.2} ms, and the receiver \
                     allows {window}"
                )?;
                let queue =
                    "; where the round trip is shorter without load, a queue before a slower link fills it";
                f.write_str(if *was_set { "" } else { queue })
            }
            Limit::EachConnection(ConnectionLimit { bytes_per_second, streams: [few, many] }) => {
                let (rate, among) =
                    (show_bytes_rate(*bytes_per_second), if *few == 1 { "one alone" } else { "few" });
                write!(
                    f,
                    "each connection gets {rate}, {among} as well as each of {many}: a limit of each connection, the \
                     server's or that of TCP's window; more connections bring more (--streams)"
                )
            }
            Limit::OfSender(limit) => of_sender(f, limit),
            Limit::ReceiverCpus => write!(f, "the receiver: all of its CPUs are busy"),
            Limit::ReceiverInterrupts { cpu, share } => write!(
                f,
                "the receiver: its CPU {cpu} is {} busy, most of it with interrupts of the network",
                percent(*share)
            ),
            Limit::Source { count, share, disk } | Limit::Written { count, share, disk } => {
                write!(f, "the disks: {} for them {} of the time", wait(*count), percent(*share))?;
                // A disk that is throttled before its queue has next to nothing in it.
                let at_it = disk.as_ref().filter(|disk| disk.queue_depth.is_some_and(|depth| depth >= 0.5));
                at_it.map_or(Ok(()), |disk| write!(f, " ({})", at_work(disk)))
            }
            Limit::Sink { count, share, part } | Limit::Incoming { count, share, part } => {
                write!(f, "the network: {} for it {} of the time: ", wait(*count), percent(*share))?;
                let goes_out = matches!(self, Limit::Sink { .. });
                let beyond =
                    if goes_out { "the way there or the receiver" } else { "the server or the way from it" };
                match part {
                    Some(part) => part.fmt(f),
                    None => {
                        write!(f, "no link of this host and no CPU that it needs is full, so {beyond}")
                    }
                }
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
            Limit::FewRequests { name, at_once, seconds, .. } if *at_once > 1.0 => write!(
                f,
                "too few requests in flight: {name} has {at_once:.0} at a time, each takes {:.3} ms, and none waits for \
                 another",
                seconds * 1e3
            ),
            Limit::FewRequests { name, seconds, flush_seconds, .. } => {
                let (each, flush) = (seconds * 1e3, flush_seconds * 1e3);
                write!(f, "one request at a time: ")?;
                match flush_seconds > &0.0 {
                    true => write!(f, "each takes {each:.3} ms, {flush:.3} ms of it the flush to {name}"),
                    false => write!(f, "{name} has it for most of the {each:.3} ms that each takes"),
                }
            }
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
            Limit::LinkUnknown { why } => {
                write!(
                    f,
                    "what of it is unknown, because it is not known by which interface the flow goes ({why})"
                )
            }
            Limit::SlowReceiver { share } => write!(
                f,
                "the other program: it takes what comes too slowly, TCP's window to it was closed {} of the time",
                percent(*share)
            ),
            Limit::OwnPauses { share } => {
                let share = percent(*share);
                write!(f, "the program itself: it waits by a clock of its own {share} of the time")
            }
            Limit::NoRequests { share } => {
                let share = percent(*share);
                write!(f, "nobody asks for more: it waits for the next request {share} of the time")
            }
            Limit::Pipe { full, share, peer } => {
                let does = if *full { "takes what is written into" } else { "fills" };
                let peer = peer.as_deref().unwrap_or("it");
                let share = percent(*share);
                write!(
                    f,
                    "the other program: {peer} {does} their pipe too slowly, it is waited for {share} of the time"
                )
            }
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
            Limit::Others { full: 1, fullest, share } => {
                let share = percent(*share);
                write!(f, "other programs: they used {share} of CPU {fullest}, which the flow needs")
            }
            Limit::Others { full, share, .. } => {
                let share = percent(*share);
                write!(f, "other programs: they used {share} of the {full} CPUs that the flow needs")
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
                    "other programs: ",
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

/// `sda had 15.8 requests in flight, 0.61 ms each`, and beside it what it showed alone.
fn at_work(disk: &DiskEvidence) -> String {
    let (name, depth) = (&disk.name, disk.queue_depth.unwrap_or(0.0));
    let each = |seconds: f64| format!("{:.2} ms each", seconds * 1e3);
    let now = disk.latency_seconds.map(|seconds| format!(", {}", each(seconds))).unwrap_or_default();
    match disk.bytes_in_flight().zip(disk.alone) {
        Some((bytes, alone)) => format!(
            "{name} had {depth:.1} requests in flight ({}){now}; alone {}, {}",
            show_size(bytes as u64),
            show_size(alone.bytes_in_flight as u64),
            each(alone.latency_seconds)
        ),
        None => format!("{name} had {depth:.1} requests in flight{now}"),
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
