//! The counters that tell of a drop: at which layer, what it means, and what cures it. Here are those of UDP, IP, TCP and
//! of the softirq before them; `interfaces` has those of interfaces.
//!
//! Names are the kernel's (`include/uapi/linux/snmp.h`, `Documentation/networking/statistics.rst`); drivers
//! have theirs.

mod interfaces;

use super::product::{Layer, Unit};
use Layer::{Ip, Socket, Softnet, Tcp, Udp};
use Unit::{Datagrams, Fragments, Packets};
pub(super) use interfaces::{OF_DRIVERS, OF_INTERFACE, matches, qdisc_cure};

/// Counters with one cure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Group of `/proc/net/snmp` or `/proc/net/netstat`; of an interface's, empty.
    pub group: &'static str,
    pub layer: Layer,
    pub unit: Unit,
    /// Id of the finding; empty: the ledger's line says enough.
    pub finding: &'static str,
    /// `NIC` stands for the interface's name.
    pub cure: &'static str,
    /// Name and meaning of each.
    pub counters: &'static [(&'static str, &'static str)],
}

/// One counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterEntry {
    pub family: &'static Family,
    pub name: &'static str,
    pub meaning: &'static str,
}

/// The counters of a table, one by one.
pub(super) fn entries(table: &'static [Family]) -> impl Iterator<Item = CounterEntry> {
    table.iter().flat_map(|family| {
        family.counters.iter().map(move |(name, meaning)| CounterEntry { family, name, meaning })
    })
}

const fn family(
    (group, layer, unit): (&'static str, Layer, Unit),
    finding: &'static str,
    cure: &'static str,
    counters: &'static [(&'static str, &'static str)],
) -> Family {
    Family { group, layer, unit, finding, cure, counters }
}

/// Of UDP; the same names stand with `Udp6` before them in `/proc/net/snmp6`.
pub(super) const OF_UDP: [Family; 5] = [
    family(
        ("Udp", Socket, Datagrams),
        "udp-receive-buffer",
        "a larger receive buffer: `sysctl -w net.core.rmem_max=67108864`; a reader on a core of its \
               own",
        &[("RcvbufErrors", "the receiving socket's buffer was full")],
    ),
    family(
        ("Udp", Socket, Datagrams),
        "udp-receive-buffer",
        "raise `net.ipv4.udp_mem`",
        &[("MemErrors", "UDP had used up its memory on this host")],
    ),
    family(
        ("Udp", Socket, Datagrams),
        "",
        "send slower, or a larger send buffer: `sysctl -w net.core.wmem_max=67108864`",
        &[("SndbufErrors", "the queue below refused what was sent, or the send buffer was full")],
    ),
    family(
        ("Udp", Udp, Datagrams),
        "link-errors",
        "look for a NIC, a cable or a switch that damages packets; try `ethtool -K NIC rx off` once",
        &[("InCsumErrors", "the checksum was wrong")],
    ),
    family(
        ("Udp", Udp, Datagrams),
        "udp-no-socket",
        "start the receiver before the sender, and stop it after",
        &[("NoPorts", "nobody listened on that port")],
    ),
];

/// Of IP; the same names stand with `Ip6` before them in `/proc/net/snmp6`.
pub(super) const OF_IP: [Family; 8] = [
    family(
        ("Ip", Ip, Packets),
        "",
        "see the line of the queueing discipline; send slower or lengthen its queue",
        &[(
            "OutDiscards",
            "the layer below did not take it: the queueing discipline or the interface dropped it",
        )],
    ),
    family(
        ("Ip", Ip, Packets),
        "no-route",
        "`ip route get ADDRESS` shows which is missing",
        &[("OutNoRoutes", "there was no route")],
    ),
    family(
        ("Ip", Ip, Packets),
        "",
        "look at `nft list ruleset`, at free memory, at addresses and `net.ipv4.conf.*.rp_filter`",
        &[
            ("InDiscards", "there was no memory for it, or a filter dropped it"),
            ("InAddrErrors", "it was addressed to nobody here"),
        ],
    ),
    family(
        ("Ip", Ip, Packets),
        "link-errors",
        "look for a routing loop, or a NIC or cable that damages packets",
        &[("InHdrErrors", "the header was damaged, or its time to live used up")],
    ),
    family(
        ("Ip", Ip, Datagrams),
        "mtu-mismatch",
        "one MTU on the whole path, or datagrams that fit it",
        &[("FragFails", "it is longer than the next interface takes and must not be cut")],
    ),
    family(
        ("Ip", Ip, Fragments),
        "",
        "datagrams that fit the path MTU, or a larger MTU on the whole path",
        &[("FragCreates", "datagrams were cut in pieces: one piece lost loses all")],
    ),
    family(
        ("Ip", Ip, Datagrams),
        "ip-fragments",
        "datagrams that fit the path MTU; `sysctl -w net.ipv4.ipfrag_high_thresh=67108864`",
        &[
            ("ReasmFails", "they could not be put together: a piece was missing, or the memory was full"),
            ("ReasmTimeout", "a piece of a datagram never came"),
        ],
    ),
    family(
        ("TcpExt", Ip, Packets),
        "",
        "`sysctl -w net.ipv4.conf.all.rp_filter=2`, or the right routes",
        &[("IPReversePathFilter", "the answer would leave by another interface")],
    ),
];

/// Of TCP, which sends again what was lost: it costs time, not data.
pub(super) const OF_TCP: [Family; 7] = [
    family(
        ("Tcp", Tcp, Packets),
        "tcp-retransmits",
        "find where packets are dropped (the other lines), or send slower",
        &[("RetransSegs", "segments were retransmitted")],
    ),
    family(
        ("TcpExt", Tcp, Packets),
        "tcp-retransmits",
        "find where packets are dropped (the other lines); look for a path that is interrupted",
        &[
            ("TCPTimeouts", "nothing was acknowledged for so long that a timer had to fire"),
            ("TCPLostRetransmit", "segments were lost, retransmitted, and lost again"),
            ("TCPSynRetrans", "opening a connection took more than one try"),
        ],
    ),
    family(
        ("Tcp", Tcp, Packets),
        "link-errors",
        "look for a NIC, a cable or a switch that damages packets",
        &[("InErrs", "segments came damaged"), ("InCsumErrors", "the checksum was wrong")],
    ),
    family(
        ("Tcp", Tcp, Packets),
        "",
        "check that the other end listens",
        &[("AttemptFails", "connections were refused")],
    ),
    family(
        ("TcpExt", Socket, Packets),
        "tcp-memory",
        "raise the third value of `net.ipv4.tcp_rmem` (and `net.ipv4.tcp_mem`), read faster, on a core \
               of its own",
        &[
            ("PruneCalled", "the receive buffer overran and had to be cleared"),
            ("RcvPruned", "segments were dropped because the receive buffer overran"),
            ("OfoPruned", "segments out of order were dropped because the receive buffer overran"),
            ("TCPRcvCollapsed", "segments were copied together to save receive buffer"),
            ("TCPRcvQDrop", "segments were dropped because the receive buffer was full"),
            ("TCPOFODrop", "segments out of order were dropped for want of receive buffer"),
            ("TCPBacklogDrop", "segments came faster than the program's own work on the socket ended"),
            ("TCPAbortOnMemory", "connections were closed for want of memory"),
        ],
    ),
    family(
        ("TcpExt", Socket, Packets),
        "listen-queue",
        "raise `net.core.somaxconn`, `net.ipv4.tcp_max_syn_backlog` and the listener's backlog",
        &[
            ("ListenOverflows", "connections waited for a listener whose queue was full"),
            ("ListenDrops", "connections were dropped by a listener"),
            ("TCPReqQFullDrop", "opening connections were dropped: the queue was full"),
        ],
    ),
    family(
        ("TcpExt", Socket, Packets),
        "",
        "nothing: the other end asks whether the window has opened",
        &[("TCPZeroWindowDrop", "segments came though the window was closed")],
    ),
];

/// Of the softirq, sums over all cores.
pub(super) const OF_SOFTNET: [Family; 2] = [
    family(
        ("softnet", Softnet, Packets),
        "softnet-dropped",
        "a longer queue: `sysctl -w net.core.netdev_max_backlog=100000`; more receiving cores",
        &[
            ("dropped", "a core's queue of received packets was full"),
            ("flow_limited", "one flow had filled more than half of a core's queue"),
        ],
    ),
    family(
        ("softnet", Softnet, Packets),
        "",
        "`sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000`",
        &[("squeezed", "a core took as many packets as it may in a round and left more")],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_is_once_and_names_its_cure() {
        let tables: [&'static [Family]; 6] =
            [&OF_UDP, &OF_IP, &OF_TCP, &OF_SOFTNET, &OF_INTERFACE, &OF_DRIVERS];
        let all: Vec<CounterEntry> = tables.into_iter().flat_map(entries).collect();
        let names: BTreeSet<_> = all.iter().map(|entry| (entry.family.group, entry.name)).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() > 50, "{}", all.len());
        for entry in all {
            assert!(entry.meaning.len() > 10 && entry.family.cure.len() > 10, "{entry:?}");
            assert!(!entry.meaning.ends_with('.') && !entry.family.cure.ends_with('.'), "{entry:?}");
        }
    }

    #[test]
    fn every_queueing_discipline_has_a_cure() {
        for kind in ["tbf", "htb", "pfifo", "pfifo_fast", "clsact", "netem", "fq", "fq_codel", "unheard-of"] {
            assert!(qdisc_cure(kind, "eth7").contains("eth7"), "{kind}");
        }
    }
}
