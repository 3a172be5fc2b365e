//! The ledger: which layer of which host dropped a packet, and what cures it. Of measured streams there is one for each
//! figure, direction and other host, from the figure's own counts and both hosts' counters.
//!
//! The numbers in the datagrams say how many were lost; the counters of both hosts say where. Their units
//! differ: with UDP_SEGMENT and UDP_GRO the kernel counts trains, a queueing discipline counts segments that
//! passed and trains that it dropped, a veth counts trains with one header each. What no counter explains is
//! shown as unaccounted.

mod attribute;
mod catalogue;
mod findings;
mod lines;
mod product;
mod readings;
mod share;
#[cfg(test)]
mod tests;

use crate::measure::Measurement;
use crate::measure::streams::{HostCounters, NicAccount, StreamDirection, StreamFigure, StreamsResult};
pub use findings::counted_findings;
use linerate_facts::counters::MISSED_BY_TRACE;
use linerate_facts::protocol::Protocol;
pub use product::*;
use readings::{DropReading, drop_readings};
pub use readings::{drops, drops_by_interface};
use serde::{Deserialize, Serialize};
use share::signed;

/// Reasons that are worth a line.
const MOST_REASONS: usize = 8;

/// The ledger of the streams of one direction. Pure; total: what is not known leaves a line without figures.
pub fn ledger(sender: &LedgerHost, receiver: &LedgerHost, streams: &Streams) -> Ledger {
    if sender.host != receiver.host {
        return of_hosts(sender, receiver, streams);
    }
    // Two namespaces of one machine, or two machines that somebody named alike.
    let called =
        |end: &LedgerHost, role: &str| LedgerHost { host: format!("{} ({role})", end.host), ..end.clone() };
    of_hosts(&called(sender, "sender"), &called(receiver, "receiver"), streams)
}

fn of_hosts(sender: &LedgerHost, receiver: &LedgerHost, streams: &Streams) -> Ledger {
    let mut sent: Vec<DropReading> = drop_readings(&sender.counters, sender.interface.as_deref());
    sent.retain(|one| lines::is_outgoing(one) && belongs(one, streams.protocol));
    let mut received: Vec<DropReading> = drop_readings(&receiver.counters, receiver.interface.as_deref());
    received.retain(|one| lines::is_incoming(one) && belongs(one, streams.protocol));
    let duplicates = streams.received.duplicated;
    let lost_datagrams =
        difference(streams.sent.datagrams, streams.received.datagrams.saturating_sub(duplicates));
    let doubled_bytes = duplicates.saturating_mul(u64::from(streams.datagram_bytes));
    let lost_bytes = difference(streams.sent.bytes, streams.received.bytes.saturating_sub(doubled_bytes));
    let (unaccounted_datagrams, mut others) = match streams.protocol {
        Protocol::Udp => {
            attribute::attribute((sender, &mut sent), (receiver, &mut received), streams, lost_datagrams)
        }
        Protocol::Tcp => (0, Vec::new()),
    };
    name_socket(receiver, &mut received, streams);
    others.extend(in_the_same_counters(sender, receiver, streams));
    Ledger {
        protocol: streams.protocol,
        until_nic: false,
        lines: lines::lines((sender, &sent), (receiver, &received), streams),
        lost_datagrams: if streams.protocol == Protocol::Udp { lost_datagrams } else { 0 },
        lost_bytes,
        unaccounted_datagrams,
        unaccounted_bytes: unaccounted_bytes(streams, (lost_datagrams, lost_bytes), unaccounted_datagrams),
        others,
        reasons: reasons(sender).into_iter().chain(reasons(receiver)).collect(),
        findings: findings::findings((sender, &sent), (receiver, &received), streams, unaccounted_datagrams),
    }
}

/// What the kernel of a host says of its drops, most first.
fn reasons(end: &LedgerHost) -> Vec<Reason> {
    let known = end.counters.drop_reasons.known().into_iter().flatten();
    let one = |(reason, counted): (&String, &u64)| Reason {
        host: end.host.clone(),
        reason: reason.clone(),
        counted: *counted,
    };
    let mut all: Vec<Reason> = known.filter(|(_, counted)| **counted > 0).map(one).collect();
    // What is missing is said first: without it the others would pass for all.
    let missing = |one: &Reason| one.reason == MISSED_BY_TRACE;
    all.sort_by(|a, b| {
        missing(b).cmp(&missing(a)).then(b.counted.cmp(&a.counted)).then_with(|| a.reason.cmp(&b.reason))
    });
    all.truncate(MOST_REASONS);
    all
}

/// Counters of the other protocol say nothing of these streams.
fn belongs(one: &DropReading, protocol: Protocol) -> bool {
    let other: &[&str] = match protocol {
        Protocol::Udp => &["Tcp ", "TcpExt "],
        Protocol::Tcp => &["Udp "],
    };
    !other.iter().any(|group| one.drop.counter.starts_with(group))
}

fn difference(more: u64, less: u64) -> i64 {
    signed(more).saturating_sub(signed(less))
}

/// The bytes that go with the datagrams, all of one size but the last of a stream.
fn unaccounted_bytes(streams: &Streams, (datagrams, bytes): (i64, i64), unaccounted: i64) -> i64 {
    match streams.protocol {
        Protocol::Tcp => bytes,
        Protocol::Udp if datagrams == 0 => bytes,
        Protocol::Udp if unaccounted == 0 => 0,
        Protocol::Udp => {
            let share = i128::from(bytes) * i128::from(unaccounted) / i128::from(datagrams);
            share.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
        }
    }
}

/// A full receive buffer has its cause beside it: the core, or its size.
fn name_socket(receiver: &LedgerHost, received: &mut [DropReading], streams: &Streams) {
    let full = received.iter_mut().filter(|one| one.name == "RcvbufErrors" && one.drop.datagrams > 0);
    for one in full {
        if let Some(cause) = findings::socket_causes(receiver, streams).into_iter().next() {
            one.drop.meaning = cause.meaning;
            one.drop.cure = cause.cure;
        }
    }
}

/// Traffic of others in the counters that the ledger reads.
fn in_the_same_counters(sender: &LedgerHost, receiver: &LedgerHost, streams: &Streams) -> Vec<Others> {
    if streams.protocol == Protocol::Tcp {
        return Vec::new();
    }
    let of_others = |end: &LedgerHost, counter: &str, counted: Option<u64>| {
        let counted = counted.filter(|counted| *counted > 0)?;
        Some(Others { host: end.host.clone(), counter: counter.into(), counted })
    };
    let out = of_others(sender, "Udp OutDatagrams", readings::udp_sent_by_others(sender, streams));
    let taken = of_others(receiver, "Udp InDatagrams", readings::udp_taken_by_others(receiver, streams));
    out.into_iter().chain(taken).collect()
}

/// A ledger and what it is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLedger {
    /// Name of the figure.
    pub measurement: String,
    /// Send: from here.
    pub direction: StreamDirection,
    #[serde(flatten)]
    pub ledger: Ledger,
}

/// Of every figure whose hosts told their counters.
pub fn ledgers(measurements: &[Measurement]) -> Vec<MeasuredLedger> {
    let mut all = Vec::new();
    for measurement in measurements {
        let Some(result) = measurement.streams.as_deref() else { continue };
        let Some(own) = result.counters.iter().find(|host| !host.peer) else { continue };
        if let Some(nic) = &result.at_nic {
            all.push(until_nic(measurement, result, own, nic));
        }
        for peer in result.counters.iter().filter(|host| host.peer) {
            for direction in [StreamDirection::Send, StreamDirection::Receive] {
                let streams = streams_of(result, peer, direction);
                if streams.is_empty() {
                    continue;
                }
                let ledger = ledger_of(measurement, result, (own, peer), direction, &streams);
                all.push(MeasuredLedger { measurement: measurement.name.clone(), direction, ledger });
            }
        }
    }
    all
}

/// Nobody receives: what left by the NIC is the last that is counted.
fn until_nic(
    measurement: &Measurement,
    result: &StreamsResult,
    own: &HostCounters,
    nic: &NicAccount,
) -> MeasuredLedger {
    let streams: Vec<&StreamFigure> = result.streams.iter().collect();
    let mut totals = total_counts(measurement, result, StreamDirection::Send, &streams);
    totals.received.bytes = nic.payload_bytes;
    // To the nearest: the packets of others are in the count, too.
    let each = u64::from(totals.datagram_bytes.max(1));
    totals.received.datagrams = ((nic.payload_bytes + each / 2) / each).min(totals.sent.datagrams);
    let here = host_of(own, &measurement.cpu_by_core, &streams);
    let mut ledger = ledger(&here, &LedgerHost { host: String::new(), ..LedgerHost::default() }, &totals);
    ledger.lines.retain(|line| line.host == here.host);
    ledger.until_nic = true;
    MeasuredLedger { measurement: measurement.name.clone(), direction: StreamDirection::Send, ledger }
}

/// The streams to or from this host.
fn streams_of<'r>(
    result: &'r StreamsResult,
    peer: &HostCounters,
    direction: StreamDirection,
) -> Vec<&'r StreamFigure> {
    let mine = |stream: &&StreamFigure| stream.direction == direction && peer.paths.contains(&stream.path);
    result.streams.iter().filter(mine).collect()
}

fn ledger_of(
    measurement: &Measurement,
    result: &StreamsResult,
    (own, peer): (&HostCounters, &HostCounters),
    direction: StreamDirection,
    streams: &[&StreamFigure],
) -> Ledger {
    let here = host_of(own, &measurement.cpu_by_core, streams);
    let there = host_of(
        peer,
        measurement.receiver.as_ref().map_or(&[][..], |receiver| &receiver.cpu_by_core),
        streams,
    );
    let totals = total_counts(measurement, result, direction, streams);
    match direction {
        StreamDirection::Receive => ledger(&there, &here, &totals),
        StreamDirection::Send | StreamDirection::Both => ledger(&here, &there, &totals),
    }
}

fn host_of(host: &HostCounters, cores: &[crate::measure::CoreUse], streams: &[&StreamFigure]) -> LedgerHost {
    LedgerHost {
        host: host.host.clone(),
        counters: host.counters.clone(),
        // Several paths: the sum of what was read is meant.
        interface: host.interface.clone().filter(|_| host.paths.len() == 1),
        offload: Offload {
            segmented: streams
                .iter()
                .any(|stream| stream.trains > 0 && stream.trains < stream.sent_datagrams),
            coalesced: streams
                .iter()
                .any(|s| s.received_trains > 0 && s.received_trains < s.received_datagrams),
        },
        cores: cores.to_vec(),
    }
}

fn total_counts(
    measurement: &Measurement,
    result: &StreamsResult,
    direction: StreamDirection,
    streams: &[&StreamFigure],
) -> Streams {
    let sum =
        |of: fn(&StreamFigure) -> u64| streams.iter().map(|stream| of(stream)).fold(0, u64::saturating_add);
    let busiest = streams.iter().max_by(|a, b| a.receiver_cpu_share.total_cmp(&b.receiver_cpu_share));
    let receiving_core = |stream: &StreamFigure| match direction {
        StreamDirection::Receive => stream.core,
        StreamDirection::Send | StreamDirection::Both => stream.peer_core,
    };
    let sent_datagrams = sum(|stream| stream.sent_datagrams);
    let granted =
        streams.iter().map(|stream| stream.buffers.receive_granted_bytes).filter(|bytes| *bytes > 0);
    Streams {
        protocol: measurement.protocol.unwrap_or(Protocol::Tcp),
        ipv6: result.path_mtus.iter().any(|path| path.v6),
        datagram_bytes: sum(|stream| stream.sent_bytes).checked_div(sent_datagrams).unwrap_or(0) as u32,
        seconds: measurement.seconds,
        sent: SentCounts {
            bytes: sum(|stream| stream.sent_bytes),
            datagrams: sent_datagrams,
            trains: sum(|stream| stream.trains),
            refused: sum(|stream| stream.refused_sends),
            too_long: 0,
        },
        received: ReceiverAccount {
            bytes: sum(|stream| stream.received_bytes),
            datagrams: sum(|stream| stream.received_datagrams),
            trains: sum(|stream| stream.received_trains),
            duplicated: sum(|stream| stream.duplicated),
            foreign: sum(|stream| stream.foreign),
            socket_drops: sum(|stream| stream.socket_drops),
            receive_buffer_bytes: granted.min().unwrap_or(0),
            thread: busiest.and_then(|stream| {
                let cpu_seconds = stream.receiver_cpu_share * measurement.seconds;
                Some(Thread { core: receiving_core(stream)?, cpu_seconds })
            }),
        },
    }
}
