//! The ledger: which layer of which host dropped a packet, and what cures it.
//!
//! The numbers in the datagrams say how many were lost; the counters of both hosts say where. Their units
//! differ: with UDP_SEGMENT and UDP_GRO the kernel counts trains, a queueing discipline counts segments that
//! passed and trains that it dropped, a veth counts trains with one header each. What no counter explains is
//! shown as unaccounted.

mod attribute;
mod catalogue;
mod counted;
mod drops;
mod findings;
mod lines;
mod measured;
mod passed;
mod product;
mod share;
mod socket;

pub use counted::counted_findings;
pub use drops::{drops, drops_by_interface};
pub use measured::{MeasuredLedger, ledgers};
pub use product::*;

use drops::{DropReading, told};
use linerate_facts::counters::MISSED_BY_TRACE;
use linerate_facts::protocol::Protocol;
use share::signed;

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
    let mut sent: Vec<DropReading> = told(&sender.counters, sender.interface.as_deref());
    sent.retain(|one| lines::is_outgoing(one) && belongs(one, streams.protocol));
    let mut received: Vec<DropReading> = told(&receiver.counters, receiver.interface.as_deref());
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

/// Reasons that are worth a line.
const MOST_REASONS: usize = 8;

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
        if let Some(cause) = socket::causes(receiver, streams).into_iter().next() {
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
    let told = |end: &LedgerHost, counter: &str, counted: Option<u64>| {
        let counted = counted.filter(|counted| *counted > 0)?;
        Some(Others { host: end.host.clone(), counter: counter.into(), counted })
    };
    let out = told(sender, "Udp OutDatagrams", passed::udp_sent_by_others(sender, streams));
    let taken = told(receiver, "Udp InDatagrams", passed::udp_taken_by_others(receiver, streams));
    out.into_iter().chain(taken).collect()
}

#[cfg(test)]
mod tests;
