//! The ledger on counters made by hand: what the lab of `tests/lab/ledger` cannot plant, and hostile ones.

use super::*;
use linerate_facts::counters::{
    Counters, InterfaceCounters, NetworkCounters, QdiscCounters, SoftnetCounters,
};
use linerate_facts::fact::Fact;
use proptest::prelude::*;

fn counters(values: &[(&str, u64)]) -> Counters {
    values.iter().map(|(name, value)| (name.to_string(), Fact::Known(*value))).collect()
}

/// A host with these counters (`Udp RcvbufErrors`), and an interface with those.
fn end(host: &str, values: &[(&str, u64)], interface: &[(&str, u64)]) -> LedgerHost {
    let mut own = NetworkCounters::default();
    let (mut snmp, mut netstat) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for (name, value) in values {
        let (group, name) = name.split_once(' ').expect("a group");
        let groups = if group.ends_with("Ext") { &mut netstat } else { &mut snmp };
        let all: &mut Counters = groups.entry(group.to_string()).or_default();
        all.insert(name.to_string(), Fact::Known(*value));
    }
    (own.snmp, own.netstat) = (Fact::Known(snmp), Fact::Known(netstat));
    own.interfaces = vec![InterfaceCounters {
        name: "eth0".into(),
        statistics: Fact::Known(counters(interface)),
        ..InterfaceCounters::default()
    }];
    LedgerHost { host: host.into(), counters: own, ..LedgerHost::default() }
}

/// `sent` datagrams of 1,472 bytes, of which `received` came.
fn streams(sent: u64, received: u64) -> Streams {
    Streams {
        protocol: Protocol::Udp,
        ipv6: false,
        datagram_bytes: 1472,
        seconds: 1.0,
        sent: SentCounts { bytes: sent * 1472, datagrams: sent, ..SentCounts::default() },
        received: ReceiverAccount {
            bytes: received * 1472,
            datagrams: received,
            ..ReceiverAccount::default()
        },
    }
}

fn line<'a>(ledger: &'a Ledger, host: &str, layer: Layer) -> &'a LedgerLine {
    let mut lines = ledger.lines.iter().filter(|line| line.host == host && line.layer == layer);
    lines.next().unwrap_or_else(|| panic!("no line of {host} {layer}: {ledger:#?}"))
}

fn adds_up(ledger: &Ledger) {
    assert_eq!((ledger.unaccounted_datagrams, ledger.unaccounted_bytes), (0, 0), "{ledger:#?}");
    let dropped: u64 = ledger.lines.iter().map(|line| line.dropped).sum();
    assert_eq!(dropped as i64, ledger.lost_datagrams, "{ledger:#?}");
}

#[test]
fn trains_of_gso_and_gro_as_they_were_measured() {
    // 165,244 errors of trains were 7,270,736 datagrams.
    let (sent, lost) = (10_000_012, 7_270_736);
    let mut sender = end("a", &[("Udp OutDatagrams", 227_273)], &[]);
    sender.offload.segmented = true;
    let mut receiver = end(
        "b",
        &[("Udp RcvbufErrors", 165_244), ("Udp InErrors", 165_244), ("Udp InDatagrams", 62_029)],
        &[],
    );
    receiver.offload.coalesced = true;
    let mut streams = streams(sent, sent - lost);
    (streams.sent.trains, streams.received.trains) = (227_273, 62_029);
    let ledger = ledger(&sender, &receiver, &streams);
    adds_up(&ledger);
    let socket = line(&ledger, "b", Layer::Socket);
    assert_eq!(socket.dropped, lost);
    assert_eq!(socket.drops.len(), 1, "InErrors is not a second loss");
    assert_eq!(socket.drops[0].unit, Unit::Trains { datagrams_each: lost as f64 / 165_244.0 });
    assert_eq!(line(&ledger, "a", Layer::Udp).datagrams, Some(sent));
    assert!(ledger.others.is_empty());
}

#[test]
fn a_full_backlog_behind_a_veth_is_counted_three_times_and_lost_once() {
    let mut sender = end(
        "a",
        &[("Ip OutDiscards", 50), ("Udp SndbufErrors", 50), ("Udp OutDatagrams", 950)],
        &[("tx_dropped", 50)],
    );
    sender.counters.interfaces[0].kind = Fact::Known("veth".into());
    let mut receiver = end("b", &[], &[("rx_dropped", 50)]);
    let core = |dropped| SoftnetCounters { dropped: Fact::Known(dropped), ..SoftnetCounters::default() };
    // 30 of them are of another interface of the host.
    receiver.counters.softnet = Fact::Known(vec![core(60), core(20)]);
    let ledger = ledger(&sender, &receiver, &streams(1000, 950));
    adds_up(&ledger);
    let softnet = line(&ledger, "b", Layer::Softnet);
    assert_eq!((softnet.dropped, softnet.drops[0].counted), (50, 80));
    assert!(softnet.cure.as_deref().is_some_and(|cure| cure.contains("netdev_max_backlog")));
    assert_eq!(ledger.findings[0].id, "softnet-dropped");
    assert_eq!(ledger.findings.len(), 1, "{:?}", ledger.findings);
}

#[test]
fn a_full_ring() {
    let receiver = end("b", &[], &[("rx_missed_errors", 120), ("rx_dropped", 0)]);
    let ledger = ledger(&end("a", &[], &[]), &receiver, &streams(1000, 880));
    adds_up(&ledger);
    let ring = line(&ledger, "b", Layer::NicRing);
    assert_eq!((ring.dropped, ring.interface.as_deref()), (120, Some("eth0")));
    assert!(ring.cure.as_deref().is_some_and(|cure| cure.contains("ethtool -G eth0 rx")), "{ring:?}");
    assert_eq!(ledger.findings[0].id, "nic-ring");
}

/// 63 KiB at an MTU of 9000, as in SARA's table 2 of D1.1: IP cuts each datagram into eight pieces, of which the
/// first alone has the header of UDP. Counted with eight of those, 30 of these datagrams would seem to be missing in
/// the middle.
#[test]
fn datagrams_in_pieces_are_as_many_in_the_middle_as_at_the_ends() {
    let (sent, pieces, size) = (33_417, 8, 64_512);
    let packets = sent * pieces;
    let octets = sent * (size + 8) + packets * 20;
    let interface =
        |way: &str| [(format!("{way}_packets"), packets), (format!("{way}_bytes"), octets + packets * 14)];
    let host = |name: &str, values: &[(&str, u64)], way: &str| {
        let interface = interface(way);
        let mut host = end(name, values, &interface.each_ref().map(|(name, count)| (name.as_str(), *count)));
        host.counters.interfaces[0].mtu = Fact::Known(9000);
        host
    };
    let out =
        [("Ip OutRequests", sent), ("IpExt OutOctets", sent * (size + 28)), ("Ip FragCreates", packets)];
    let sender = host("a", &[&out[..], &[("Udp OutDatagrams", sent)]].concat(), "tx");
    let came = [("Ip InReceives", packets), ("IpExt InOctets", octets), ("Udp InDatagrams", sent)];
    let receiver = host("b", &came, "rx");
    let account = streams(sent, sent);
    let streams = Streams {
        datagram_bytes: size as u32,
        sent: SentCounts { bytes: sent * size, ..account.sent },
        received: ReceiverAccount { bytes: sent * size, ..account.received },
        ..account
    };
    let ledger = ledger(&sender, &receiver, &streams);
    adds_up(&ledger);
    for (host, layer) in
        [("a", Layer::Ip), ("a", Layer::NicRing), ("b", Layer::NicRing), ("b", Layer::Ip), ("b", Layer::Udp)]
    {
        let line = line(&ledger, host, layer);
        assert_eq!(line.datagrams, Some(sent), "{host} {layer}");
        assert!(line.bytes.is_none_or(|bytes| bytes == sent * size), "{host} {layer}: {:?}", line.bytes);
    }
}

#[test]
fn what_the_network_between_lost_is_seen_from_both_interfaces() {
    let bytes = |datagrams: u64| datagrams * (1472 + 42);
    let sender = end("a", &[], &[("tx_packets", 1000), ("tx_bytes", bytes(1000))]);
    let receiver = end("b", &[], &[("rx_packets", 940), ("rx_bytes", bytes(940))]);
    let seen = ledger(&sender, &receiver, &streams(1000, 940));
    adds_up(&seen);
    assert_eq!(line(&seen, "b", Layer::Wire).dropped, 60);
    assert_eq!(seen.findings[0].id, "udp-loss");
    // Without those counters it is in none.
    let unseen = ledger(&end("a", &[], &[]), &end("b", &[], &[]), &streams(1000, 940));
    assert_eq!((unseen.unaccounted_datagrams, unseen.unaccounted_bytes), (60, 60 * 1472));
    assert_eq!(unseen.findings[0].id, "udp-loss");
}

#[test]
fn sends_that_were_refused_and_sent_again_are_no_loss() {
    let tbf = QdiscCounters {
        kind: "tbf".into(),
        handle: "8001:".into(),
        parent: "root".into(),
        drops: Fact::Known(70),
        ..QdiscCounters::default()
    };
    let mut sender =
        end("a", &[("Ip OutDiscards", 70), ("Udp SndbufErrors", 0), ("Udp OutDatagrams", 1000)], &[]);
    sender.counters.interfaces[0].qdiscs = Fact::Known(vec![tbf]);
    let mut streams = streams(1000, 1000);
    streams.sent.refused = 70;
    let ledger = ledger(&sender, &end("b", &[], &[]), &streams);
    adds_up(&ledger);
    assert!(ledger.findings.is_empty() && ledger.others.is_empty(), "{ledger:#?}");
    assert!(line(&ledger, "a", Layer::Qdisc).drops[0].meaning.contains("sent them again"));
}

#[test]
fn drops_of_others_are_reported_and_not_our_own() {
    let receiver =
        end("b", &[("Udp RcvbufErrors", 500), ("Udp InErrors", 500), ("Udp InDatagrams", 7980)], &[]);
    let mut streams = streams(1000, 980);
    streams.received.socket_drops = 20;
    let ledger = ledger(&end("a", &[("Udp OutDatagrams", 1300)], &[]), &receiver, &streams);
    adds_up(&ledger);
    assert_eq!(line(&ledger, "b", Layer::Socket).dropped, 20);
    let others: Vec<(&str, u64)> =
        ledger.others.iter().map(|one| (one.counter.as_str(), one.counted)).collect();
    assert_eq!(others, [("Udp RcvbufErrors", 480), ("Udp OutDatagrams", 300), ("Udp InDatagrams", 7000)]);
}

#[test]
fn drops_that_cannot_be_of_anybody_are_shown_below_zero() {
    let receiver = end("b", &[("Udp RcvbufErrors", 500), ("Udp InErrors", 500)], &[]);
    let mut streams = streams(1000, 980);
    streams.received.socket_drops = 500;
    let ledger = ledger(&end("a", &[], &[]), &receiver, &streams);
    assert_eq!(ledger.unaccounted_datagrams, -480);
}

#[test]
fn ipv6_has_counters_of_its_own() {
    let mut receiver = end("b", &[("Udp RcvbufErrors", 0), ("Udp InErrors", 0)], &[]);
    receiver.counters.snmp6 = Fact::Known(counters(&[
        ("Udp6RcvbufErrors", 30),
        ("Udp6InErrors", 30),
        ("Ip6InReceives", 1000),
        ("Ip6InOctets", 1000 * (1472 + 48)),
    ]));
    let mut streams = streams(1000, 970);
    streams.ipv6 = true;
    let ledger = ledger(&end("a", &[], &[]), &receiver, &streams);
    adds_up(&ledger);
    assert_eq!(line(&ledger, "b", Layer::Socket).dropped, 30);
    let ip = line(&ledger, "b", Layer::Ip);
    assert_eq!((ip.datagrams, ip.bytes), (Some(1000), Some(1000 * 1472)));
    assert_eq!(ip.counter, "Ip6InReceives");
    assert_eq!(line(&ledger, "a", Layer::Ip).counter, "Ip6OutRequests");
}

#[test]
fn tcp_loses_no_byte_and_reports_what_it_sent_again() {
    let sender = end("a", &[("Tcp OutSegs", 10_000), ("Tcp RetransSegs", 300), ("Udp RcvbufErrors", 9)], &[]);
    let receiver =
        end("b", &[("TcpExt TCPRcvQDrop", 5), ("Tcp InSegs", 9_700)], &[("rx_missed_errors", 300)]);
    let mut streams = Streams { protocol: Protocol::Tcp, ..streams(0, 0) };
    (streams.sent.bytes, streams.received.bytes) = (1 << 30, 1 << 30);
    let ledger = ledger(&sender, &receiver, &streams);
    assert_eq!((ledger.lost_datagrams, ledger.lost_bytes, ledger.unaccounted_bytes), (0, 0, 0));
    let ids: Vec<&str> = ledger.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["nic-ring", "tcp-memory", "tcp-retransmits"]);
    assert_eq!(line(&ledger, "b", Layer::NicRing).dropped, 300);
    let udp = ledger.lines.iter().flat_map(|line| &line.drops).any(|drop| drop.counter.starts_with("Udp"));
    assert!(!udp, "UDP is others'");
}

#[test]
fn nothing_known_is_a_ledger_without_figures() {
    let ledger = ledger(&LedgerHost::default(), &LedgerHost::default(), &streams(10, 10));
    adds_up(&ledger);
    assert!(ledger.findings.is_empty());
    assert_eq!(ledger.lines.first().map(|line| line.host.trim()), Some("(sender)"), "both have one name");
    let json = serde_json::to_string(&ledger).expect("JSON");
    assert_eq!(serde_json::from_str::<Ledger>(&json).expect("a ledger"), ledger);
}

const NAMES: &str = "Udp RcvbufErrors, Udp InErrors, Udp SndbufErrors, Udp OutDatagrams, Udp InDatagrams, Udp NoPorts, \
     Ip OutDiscards, Ip FragCreates, Ip InReceives, Ip OutRequests, IpExt InNoECTPkts, IpExt InECT0Pkts, \
     IpExt InOctets, IpExt OutOctets, Tcp OutSegs, Icmp InMsgs";
const OF_INTERFACE: &str =
    "rx_dropped, rx_missed_errors, tx_dropped, rx_bytes, rx_packets, tx_bytes, tx_packets, rx_crc_errors";

proptest! {
    /// A peer may send any numbers.
    #[test]
    fn any_counters_give_a_ledger(
        sender in proptest::collection::vec(prop_oneof![0u64..100, any::<u64>()], 24),
        receiver in proptest::collection::vec(prop_oneof![0u64..100, any::<u64>()], 24),
        own in proptest::collection::vec(prop_oneof![0u64..100, any::<u64>()], 8),
        (datagram_bytes, segmented, coalesced, ipv6, tcp) in any::<(u32, bool, bool, bool, bool)>(),
        seconds in any::<f64>(),
    ) {
        let make = |host: &str, values: &[u64]| {
            let named: Vec<(&str, u64)> = NAMES.split(", ").zip(values.iter().copied()).collect();
            let interface: Vec<(&str, u64)> = OF_INTERFACE.split(", ").zip(values[16..].iter().copied()).collect();
            let mut end = end(host, &named, &interface);
            let qdisc = QdiscCounters { kind: "tbf".into(), parent: "root".into(), drops: Fact::Known(values[0]), packets: Fact::Known(values[1]), bytes: Fact::Known(values[2]), ..QdiscCounters::default() };
            end.counters.interfaces[0].qdiscs = Fact::Known(vec![qdisc]);
            end.counters.softnet = Fact::Known(vec![SoftnetCounters { dropped: Fact::Known(values[3]), ..SoftnetCounters::default() }; 2]);
            end.offload = Offload { segmented, coalesced };
            end
        };
        let streams = Streams {
            protocol: if tcp { Protocol::Tcp } else { Protocol::Udp },
            ipv6,
            datagram_bytes,
            seconds,
            sent: SentCounts { bytes: own[0], datagrams: own[1], trains: own[2], refused: own[3], too_long: own[4] },
            received: ReceiverAccount { bytes: own[5], datagrams: own[6], trains: own[7], duplicated: own[3], foreign: own[4], socket_drops: own[2], receive_buffer_bytes: own[1], thread: None },
        };
        let ledger = ledger(&make("a", &sender), &make("b", &receiver), &streams);
        let json = serde_json::to_string(&ledger).expect("JSON");
        prop_assert!(serde_json::from_str::<Ledger>(&json).is_ok(), "{}", json);
    }
}
