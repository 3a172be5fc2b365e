//! The ledger's lines: what passed each layer, from the sending program to the receiving one, and what each
//! dropped.

use super::product::{Drop, Layer, LedgerHost, LedgerLine, Streams, Unit};
use super::readings::{self, DropReading, ETHERNET_BYTES, Headers, interfaces};
use linerate_facts::protocol::Protocol;

/// What passed.
struct Passed {
    layer: Layer,
    interface: Option<String>,
    counter: &'static str,
    datagrams: Option<u64>,
    bytes: Option<u64>,
    unit: Unit,
}

/// Whose counters of IP are read.
#[derive(Clone, Copy)]
enum IpDirection {
    In,
    Out,
}

/// All lines, in the order that a byte passes them: from the sending program to the receiving one.
pub(super) fn lines(
    (sender, sent): (&LedgerHost, &[DropReading]),
    (receiver, received): (&LedgerHost, &[DropReading]),
    streams: &Streams,
) -> Vec<LedgerLine> {
    let out = outgoing(sender, sent, streams).into_iter();
    let mut lines: Vec<LedgerLine> = out.map(|passed| line(sender, passed, sent, streams)).collect();
    let headers = Headers::of(sender, streams);
    let mut incoming_lines = incoming(receiver, &headers, received, streams);
    // A loss on the wire is of no interface.
    if received.iter().any(|one| one.layer == Layer::Wire) {
        let wire = Passed {
            layer: Layer::Wire,
            interface: None,
            counter: "",
            datagrams: None,
            bytes: None,
            unit: Unit::Packets,
        };
        incoming_lines.insert(0, wire);
    }
    lines.extend(incoming_lines.into_iter().map(|passed| line(receiver, passed, received, streams)));
    lines
}

/// Whether a counter counts what leaves a host (else: what comes in).
pub(super) fn is_outgoing(one: &DropReading) -> bool {
    let names = [
        "SndbufErrors",
        "OutDiscards",
        "OutNoRoutes",
        "FragFails",
        "FragCreates",
        "RetransSegs",
        "TCPTimeouts",
        "TCPLostRetransmit",
        "bw_out_allowance_exceeded",
    ];
    let qdisc = one.layer == Layer::Qdisc && one.name != "ingress";
    qdisc || one.name.starts_with("tx") || names.contains(&one.name.as_str())
}

/// Whether a counter counts what comes into a host. A filter of clsact may count both.
pub(super) fn is_incoming(one: &DropReading) -> bool {
    !is_outgoing(one) || one.name == "clsact"
}

fn line(end: &LedgerHost, passed: Passed, readings: &[DropReading], streams: &Streams) -> LedgerLine {
    let here = |one: &&DropReading| {
        let same = one.interface == passed.interface || passed.layer == Layer::Wire;
        one.layer == passed.layer && same
    };
    let drops: Vec<Drop> = readings.iter().filter(here).map(|one| one.drop.clone()).collect();
    let lost = |drop: &Drop| match streams.protocol {
        Protocol::Udp => drop.datagrams,
        Protocol::Tcp if drop.unit == Unit::Packets => drop.counted,
        Protocol::Tcp => 0,
    };
    let worst = drops.iter().max_by_key(|drop| (drop.datagrams, drop.counted));
    LedgerLine {
        host: end.host.clone(),
        interface: passed.interface,
        layer: passed.layer,
        counter: passed.counter.to_string(),
        datagrams: passed.datagrams,
        bytes: passed.bytes,
        unit: passed.unit,
        dropped: drops.iter().map(lost).fold(0, u64::saturating_add),
        cure: worst.map(|drop| drop.cure.clone()),
        drops,
    }
}

/// From the program to the wire.
fn outgoing(sender: &LedgerHost, readings: &[DropReading], streams: &Streams) -> Vec<Passed> {
    let sent = &streams.sent;
    let mut passed = vec![program(sent.datagrams, sent.bytes, streams)];
    passed.push(match streams.protocol {
        Protocol::Udp => {
            let unit = unit(sender.offload.segmented, sent.datagrams, sent.trains);
            let others = readings::udp_sent_by_others(sender, streams).unwrap_or(0);
            let count = sender.counters.both("Udp", "OutDatagrams");
            counted(Layer::Udp, "Udp OutDatagrams", count.map(|count| count.saturating_sub(others)), unit)
        }
        Protocol::Tcp => counted(Layer::Tcp, "Tcp OutSegs", None, Unit::Packets),
    });
    // Counted before a datagram is cut.
    passed.push(ip(sender, &Headers::whole(streams), streams, IpDirection::Out));
    let headers = Headers::of(sender, streams);
    for one in interfaces(&sender.counters, sender.interface.as_deref()) {
        let root = one.qdiscs.known().and_then(|all| all.first()).filter(|qdisc| qdisc.kind != "noqueue");
        let counts = root.and_then(|qdisc| Some((*qdisc.packets.known()?, *qdisc.bytes.known()?)));
        let payload = counts.map(|(packets, bytes)| headers.payload(bytes, packets, ETHERNET_BYTES));
        if root.is_some() || one.qdiscs.known().is_none() || queue_drops(readings, &one.name) {
            passed.push(of_payload(Layer::Qdisc, &one.name, "qdisc packets", payload, streams));
        }
        let payload = readings::payload_of_interface(one, &headers, "tx");
        passed.push(of_payload(Layer::NicRing, &one.name, "tx_packets", payload, streams));
    }
    passed
}

/// Whether the queueing disciplines of an interface dropped something. A line is shown for that as well: a discipline
/// without a queue (a filter of clsact) counts drops, and nothing that passed.
fn queue_drops(readings: &[DropReading], interface: &str) -> bool {
    readings.iter().any(|one| one.layer == Layer::Qdisc && one.interface.as_deref() == Some(interface))
}

/// From the wire to the program.
fn incoming(
    receiver: &LedgerHost,
    headers: &Headers,
    readings: &[DropReading],
    streams: &Streams,
) -> Vec<Passed> {
    let mut passed = Vec::new();
    for one in interfaces(&receiver.counters, receiver.interface.as_deref()) {
        let payload = readings::payload_of_interface(one, headers, "rx");
        passed.push(of_payload(Layer::NicRing, &one.name, "rx_packets", payload, streams));
        if queue_drops(readings, &one.name) {
            passed.push(of_payload(Layer::Qdisc, &one.name, "qdisc packets", None, streams));
        }
    }
    passed.push(counted(Layer::Softnet, "softnet processed", None, Unit::Packets));
    passed.push(ip(receiver, headers, streams, IpDirection::In));
    let received = &streams.received;
    match streams.protocol {
        Protocol::Udp => {
            let others = readings::udp_taken_by_others(receiver, streams).unwrap_or(0);
            let count =
                receiver.counters.both("Udp", "InDatagrams").map(|count| count.saturating_sub(others));
            // Fewer than there were datagrams: with UDP_GRO it counts trains.
            let own = received.datagrams.saturating_add(received.foreign);
            let trains = count.filter(|count| *count < own);
            let unit = unit(trains.is_some(), own, trains.unwrap_or(0));
            passed.push(counted(Layer::Udp, "Udp InDatagrams", count, unit));
        }
        Protocol::Tcp => passed.push(counted(Layer::Tcp, "Tcp InSegs", None, Unit::Packets)),
    }
    passed.push(Passed {
        layer: Layer::Socket,
        counter: "taken from the socket",
        ..program(received.datagrams, received.bytes, streams)
    });
    passed.push(program(received.datagrams.saturating_sub(received.duplicated), received.bytes, streams));
    passed
}

/// The program's own account.
fn program(datagrams: u64, bytes: u64, streams: &Streams) -> Passed {
    let udp = streams.protocol == Protocol::Udp;
    Passed {
        layer: Layer::Application,
        interface: None,
        counter: if udp { "numbers of the datagrams" } else { "bytes of the streams" },
        datagrams: udp.then_some(datagrams),
        bytes: Some(bytes),
        unit: if udp { Unit::Datagrams } else { Unit::Bytes },
    }
}

fn unit(trains: bool, datagrams: u64, count: u64) -> Unit {
    match trains && count > 0 {
        true => Unit::Trains { datagrams_each: datagrams as f64 / count as f64 },
        false => Unit::Datagrams,
    }
}

fn counted(layer: Layer, counter: &'static str, count: Option<u64>, unit: Unit) -> Passed {
    let datagrams = count.map(|count| match unit {
        Unit::Trains { datagrams_each } => (count as f64 * datagrams_each).round() as u64,
        _ => count,
    });
    Passed { layer, interface: None, counter, datagrams, bytes: None, unit }
}

/// Packets and bytes that IP took in or sent out, of the version of the streams.
fn ip(end: &LedgerHost, headers: &Headers, streams: &Streams, direction: IpDirection) -> Passed {
    let counters = &end.counters;
    let of_ip = |packets, octets| (counters.count("Ip", packets), counters.count("IpExt", octets));
    let of_ip6 = |packets, octets| (counters.count6(packets), counters.count6(octets));
    let (counter, (count, bytes)) = match (direction, streams.ipv6) {
        (IpDirection::In, true) => ("Ip6InReceives", of_ip6("Ip6InReceives", "Ip6InOctets")),
        (IpDirection::In, false) => ("Ip InReceives", of_ip("InReceives", "InOctets")),
        (IpDirection::Out, true) => ("Ip6OutRequests", of_ip6("Ip6OutRequests", "Ip6OutOctets")),
        (IpDirection::Out, false) => ("Ip OutRequests", of_ip("OutRequests", "OutOctets")),
    };
    let payload = count.zip(bytes).map(|(count, bytes)| headers.payload(bytes, count, 0));
    let whole = payload.and_then(|payload| readings::datagrams_of(payload, streams));
    let each = whole.zip(count).filter(|(whole, count)| whole > count && *count > 0);
    Passed {
        layer: Layer::Ip,
        interface: None,
        counter,
        datagrams: whole,
        bytes: payload,
        unit: each.map_or(Unit::Packets, |(whole, count)| Unit::Trains {
            datagrams_each: whole as f64 / count as f64,
        }),
    }
}

fn of_payload(
    layer: Layer,
    interface: &str,
    counter: &'static str,
    payload: Option<u64>,
    streams: &Streams,
) -> Passed {
    Passed {
        layer,
        interface: Some(interface.to_string()),
        counter,
        datagrams: payload.and_then(|payload| readings::datagrams_of(payload, streams)),
        bytes: payload,
        unit: Unit::Packets,
    }
}
