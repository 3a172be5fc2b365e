//! What the counters of one host show of the streams: drops, where they are not 0, and what passed a layer, in datagrams
//! and in bytes of payload, from counters with other units.
//!
//! Bytes less a header for each packet are the payload, whether the packets are datagrams or trains: each has
//! one header in its counter.

use super::catalogue::{self, CounterEntry, Family, entries, qdisc_cure};
use super::product::{Drop, Layer, LedgerHost, Streams, Unit};
use linerate_facts::counters::{
    Counters, InterfaceCounters, NetworkCounters, QdiscCounters, SoftnetCounters,
};
use linerate_facts::protocol::Protocol;

const OTHER_UDP_ERRORS: Family = Family {
    group: "Udp",
    layer: Layer::Udp,
    unit: Unit::Datagrams,
    finding: "",
    cure: "look at the filters of the receiving sockets, and at the drop reasons (`perf record -e \
           skb:kfree_skb`)",
    counters: &[],
};

pub(super) const ETHERNET_BYTES: u64 = 14;

/// One of them, with where it was read.
#[derive(Clone, Debug)]
pub(super) struct DropReading {
    pub layer: Layer,
    pub interface: Option<String>,
    /// The kernel's own name, or the kind of the queueing discipline.
    pub name: String,
    /// Id of its finding; empty: none.
    pub finding: &'static str,
    pub drop: Drop,
}

/// Every drop counter of a host that is not 0, in the order of the layers, with its meaning and its cure.
pub fn drops(counters: &NetworkCounters) -> Vec<(Layer, Drop)> {
    drop_readings(counters, None).into_iter().map(|one| (one.layer, one.drop)).collect()
}

/// The same, each with the interface that it is of, where it is of one.
pub fn drops_by_interface(counters: &NetworkCounters) -> Vec<(Layer, Option<String>, Drop)> {
    drop_readings(counters, None).into_iter().map(|one| (one.layer, one.interface, one.drop)).collect()
}

/// The same with more about each; of one interface or of all.
pub(super) fn drop_readings(counters: &NetworkCounters, interface: Option<&str>) -> Vec<DropReading> {
    let mut found: Vec<DropReading> = Vec::new();
    for entry in entries(&catalogue::OF_UDP) {
        found.extend(of(&entry, None, counters.both("Udp", entry.name)));
    }
    found.extend(other_udp_errors(counters));
    for entry in entries(&catalogue::OF_IP).chain(entries(&catalogue::OF_TCP)) {
        let count = match entry.family.group {
            "Ip" => counters.both("Ip", entry.name),
            group => counters.count(group, entry.name),
        };
        found.extend(of(&entry, None, count));
    }
    found.extend(softnet(counters));
    for one in interfaces(counters, interface) {
        found.extend(of_interface(one));
    }
    found.sort_by_key(|one| one.layer);
    found
}

/// The interface of this name, or all.
pub(super) fn interfaces<'a>(
    counters: &'a NetworkCounters,
    name: Option<&'a str>,
) -> impl Iterator<Item = &'a InterfaceCounters> {
    counters.interfaces.iter().filter(move |one| name.is_none_or(|name| one.name == name))
}

fn of(entry: &CounterEntry, interface: Option<&str>, count: Option<u64>) -> Option<DropReading> {
    let counted = count.filter(|count| *count > 0)?;
    let family = entry.family;
    Some(DropReading {
        layer: family.layer,
        interface: interface.map(str::to_string),
        name: entry.name.to_string(),
        finding: family.finding,
        drop: Drop {
            counter: format!("{} {}", family.group, entry.name).trim().to_string(),
            counted,
            datagrams: 0,
            unit: family.unit,
            meaning: entry.meaning.to_string(),
            cure: interface.map_or_else(|| family.cure.to_string(), |name| family.cure.replace("NIC", name)),
        },
    })
}

/// `InErrors` has all the others in it; what it has beyond them.
fn other_udp_errors(counters: &NetworkCounters) -> Option<DropReading> {
    let part = |name| counters.both("Udp", name).unwrap_or(0);
    let known =
        ["RcvbufErrors", "InCsumErrors", "MemErrors"].map(part).into_iter().fold(0, u64::saturating_add);
    let rest = counters.both("Udp", "InErrors")?.saturating_sub(known);
    let meaning = "datagrams were not taken for another reason: a socket's filter, or damage";
    let entry = CounterEntry { family: &OTHER_UDP_ERRORS, name: "InErrors", meaning };
    of(&entry, None, Some(rest))
}

fn softnet(counters: &NetworkCounters) -> Vec<DropReading> {
    let Some(cores) = counters.softnet.known() else { return Vec::new() };
    let one = |entry: CounterEntry| {
        let of_core = |core: &SoftnetCounters| match entry.name {
            "dropped" => core.dropped.known().copied(),
            "squeezed" => core.squeezed.known().copied(),
            _ => core.flow_limited.known().copied(),
        };
        of(&entry, None, Some(cores.iter().filter_map(of_core).fold(0, u64::saturating_add)))
    };
    entries(&catalogue::OF_SOFTNET).filter_map(one).collect()
}

fn of_interface(one: &InterfaceCounters) -> Vec<DropReading> {
    let own = entries(&catalogue::OF_INTERFACE)
        .filter_map(|entry| of(&entry, Some(&one.name), one.count(entry.name)));
    let drivers = entries(&catalogue::OF_DRIVERS)
        .filter_map(|entry| of(&entry, Some(&one.name), of_driver(one.driver.known()?, entry.name)));
    let qdiscs = one.qdiscs.known().into_iter().flatten().filter_map(|qdisc| of_qdisc(one, qdisc));
    own.chain(drivers).chain(qdiscs).collect()
}

/// All queues together, where the name has one for each.
fn of_driver(counters: &Counters, pattern: &str) -> Option<u64> {
    if let Some(count) = counters.get(pattern) {
        return count.known().copied();
    }
    let fixed = pattern.split('*').next().filter(|fixed| fixed.len() < pattern.len())?;
    let from = counters.range(fixed.to_string()..).take_while(|(name, _)| name.starts_with(fixed));
    let own =
        from.filter(|(name, _)| catalogue::matches(pattern, name)).filter_map(|(_, count)| count.known());
    own.copied().reduce(u64::saturating_add)
}

/// A root's drops have those of its children in them (`qdisc_tree_reduce_backlog`, and each parent's own
/// count on enqueueing): only the outermost and those beside it are counted, and the cure is the innermost's.
fn of_qdisc(one: &InterfaceCounters, qdisc: &QdiscCounters) -> Option<DropReading> {
    if !matches!(qdisc.parent.as_str(), "root" | "ingress") {
        return None;
    }
    let counted = qdisc.drops.known().copied().filter(|drops| *drops > 0)?;
    let inner = one.qdiscs.known()?.iter().find(|inner| {
        let drops = inner.drops.known().copied().unwrap_or(0);
        drops > 0 && qdisc.parent == "root" && !matches!(inner.parent.as_str(), "root" | "ingress")
    });
    let kind = inner.map_or(qdisc.kind.as_str(), |inner| inner.kind.as_str());
    Some(DropReading {
        layer: Layer::Qdisc,
        interface: Some(one.name.clone()),
        name: qdisc.kind.clone(),
        finding: "qdisc-drops",
        drop: Drop {
            counter: format!("{} {} drops", qdisc.kind, qdisc.handle),
            counted,
            datagrams: 0,
            unit: Unit::Packets,
            meaning: match qdisc.kind.as_str() {
                "clsact" | "ingress" => "a filter dropped them".into(),
                _ => format!("the queue of {kind} was full"),
            },
            cure: qdisc_cure(kind, &one.name),
        },
    })
}

/// Headers before the payload. Of a datagram that IP cut in pieces the first alone has that of UDP.
pub(super) struct Headers {
    /// Of IP, each packet's, bytes.
    ip: u64,
    /// Of what is in it, bytes: TCP with timestamps.
    transport: u64,
    pieces: u64,
}

impl Headers {
    /// Before IP cuts a datagram.
    pub(super) fn whole(streams: &Streams) -> Headers {
        let transport = if streams.protocol == Protocol::Udp { 8 } else { 32 };
        Headers { ip: if streams.ipv6 { 40 } else { 20 }, transport, pieces: 1 }
    }

    /// On the way, in so many pieces as this host sends.
    pub(super) fn of(sender: &LedgerHost, streams: &Streams) -> Headers {
        let pieces = pieces(sender, streams);
        let whole = Headers::whole(streams);
        // IPv6 has a header of eight bytes in each piece.
        let piece = if streams.ipv6 && pieces > 1 { 8 } else { 0 };
        Headers { pieces, ip: whole.ip + piece, ..whole }
    }

    /// Of a packet that is whole, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.ip + self.transport
    }

    /// Payload in `bytes` of so many packets, each with `link` bytes before its headers.
    pub(super) fn payload(&self, bytes: u64, packets: u64, link: u64) -> u64 {
        let all = packets.saturating_mul(self.ip + link);
        bytes.saturating_sub(all.saturating_add(packets.div_ceil(self.pieces).saturating_mul(self.transport)))
    }
}

/// In how many pieces IP sends a datagram.
pub(super) fn pieces(sender: &LedgerHost, streams: &Streams) -> u64 {
    if sender.counters.both("Ip", "FragCreates").unwrap_or(0) == 0 {
        return 1;
    }
    let mtu =
        interfaces(&sender.counters, sender.interface.as_deref()).find_map(|one| one.mtu.known().copied());
    let room = (mtu.unwrap_or(1500).saturating_sub(20) & !7).max(8);
    (u64::from(streams.datagram_bytes) + 8).div_ceil(room).max(1)
}

/// Whole datagrams in so much payload; none for TCP.
pub(super) fn datagrams_of(payload: u64, streams: &Streams) -> Option<u64> {
    match streams.protocol {
        Protocol::Udp => payload.checked_div(u64::from(streams.datagram_bytes)),
        Protocol::Tcp => None,
    }
}

/// Datagrams that came to IP. Congestion marks are counted for each segment of a train (`ip_rcv_core`), other
/// packets one by one.
pub(super) fn datagrams_into_ip(receiver: &LedgerHost, streams: &Streams) -> Option<u64> {
    let counters = &receiver.counters;
    let marks = ["InNoECTPkts", "InECT0Pkts", "InECT1Pkts", "InCEPkts"];
    let one = |name: &str| match streams.ipv6 {
        true => counters.count6(&format!("Ip6{name}")),
        false => counters.count("IpExt", name),
    };
    let all = marks.iter().try_fold(0u64, |sum, name| Some(sum.saturating_add(one(name)?)));
    let others = match streams.ipv6 {
        true => counters.count6("Icmp6InMsgs").unwrap_or(0),
        false => counters.count("Icmp", "InMsgs").unwrap_or(0),
    };
    let tcp = counters.count("Tcp", "InSegs").unwrap_or(0);
    all.map(|all| all.saturating_sub(others).saturating_sub(tcp))
}

/// Packets that this host sent and that are not these streams'.
pub(super) fn others_sent(sender: &LedgerHost, streams: &Streams) -> u64 {
    let counters = &sender.counters;
    let tcp = counters.count("Tcp", "OutSegs").unwrap_or(0);
    let icmp = counters.count("Icmp", "OutMsgs").unwrap_or(0);
    let icmp6 = counters.count6("Icmp6OutMsgs").unwrap_or(0);
    let udp = udp_sent_by_others(sender, streams).unwrap_or(0);
    tcp.saturating_add(icmp).saturating_add(icmp6).saturating_add(udp)
}

/// Sends of UDP that are not these streams', in the unit of OutDatagrams. A send that the queue dropped is in
/// SndbufErrors instead.
pub(super) fn udp_sent_by_others(sender: &LedgerHost, streams: &Streams) -> Option<u64> {
    let out = sender.counters.both("Udp", "OutDatagrams")?;
    let dropped = sender.counters.both("Udp", "SndbufErrors").unwrap_or(0);
    let own = if sender.offload.segmented { streams.sent.trains } else { streams.sent.datagrams };
    Some(out.saturating_add(dropped).saturating_sub(own.saturating_add(streams.sent.refused)))
}

/// Datagrams of UDP taken by others' sockets, at least, in the unit of InDatagrams. With UDP_GRO nobody knows
/// how many trains were ours: no more than our datagrams.
pub(super) fn udp_taken_by_others(receiver: &LedgerHost, streams: &Streams) -> Option<u64> {
    let taken = receiver.counters.both("Udp", "InDatagrams")?;
    let received = &streams.received;
    Some(taken.saturating_sub(received.datagrams.saturating_add(received.foreign)))
}

/// Payload of one interface in one direction (`tx`, `rx`).
pub(super) fn payload_of_interface(
    one: &InterfaceCounters,
    headers: &Headers,
    direction: &str,
) -> Option<u64> {
    let packets = one.count(&format!("{direction}_packets"))?;
    let bytes = one.count(&format!("{direction}_bytes"))?;
    Some(headers.payload(bytes, packets, ETHERNET_BYTES))
}

/// Datagrams of all interfaces of the host that the streams may have used.
pub(super) fn payload_of_interfaces(
    end: &LedgerHost,
    headers: &Headers,
    streams: &Streams,
    direction: &str,
) -> Option<u64> {
    let each = interfaces(&end.counters, end.interface.as_deref())
        .map(|one| datagrams_of(payload_of_interface(one, headers, direction)?, streams));
    each.reduce(|sum, one| Some(sum?.saturating_add(one?))).flatten()
}
