//! What passed a layer, in datagrams and in bytes of payload, from counters with other units.
//!
//! Bytes less a header for each packet are the payload, whether the packets are datagrams or trains: each has
//! one header in its counter.

use super::drops::interfaces;
use super::product::{LedgerHost, Streams};
use linerate_facts::counters::InterfaceCounters;
use linerate_facts::protocol::Protocol;

pub(super) const ETHERNET_BYTES: u64 = 14;

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
pub(super) fn datagrams(payload: u64, streams: &Streams) -> Option<u64> {
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
pub(super) fn of_interface(one: &InterfaceCounters, headers: &Headers, direction: &str) -> Option<u64> {
    let packets = one.count(&format!("{direction}_packets"))?;
    let bytes = one.count(&format!("{direction}_bytes"))?;
    Some(headers.payload(bytes, packets, ETHERNET_BYTES))
}

/// Datagrams of all interfaces of the host that the streams may have used.
pub(super) fn of_interfaces(
    end: &LedgerHost,
    headers: &Headers,
    streams: &Streams,
    direction: &str,
) -> Option<u64> {
    let each = interfaces(&end.counters, end.interface.as_deref())
        .map(|one| datagrams(of_interface(one, headers, direction)?, streams));
    each.reduce(|sum, one| Some(sum?.saturating_add(one?))).flatten()
}
