//! The counters that tell of a drop: at which layer, what it means, and what cures it.
//!
//! Names are the kernel's (`include/uapi/linux/snmp.h`, `Documentation/networking/statistics.rst`); drivers have theirs.

use super::product::{Layer, Unit};

/// One counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Group of `/proc/net/snmp` or `/proc/net/netstat`; of an interface's, empty.
    pub group: &'static str,
    pub name: &'static str,
    pub layer: Layer,
    pub unit: Unit,
    /// Id of the finding; empty: the ledger's line says enough.
    pub finding: &'static str,
    pub meaning: &'static str,
    pub cure: &'static str,
}

const fn entry(
    (group, name): (&'static str, &'static str),
    layer: Layer,
    unit: Unit,
    finding: &'static str,
    meaning: &'static str,
    cure: &'static str,
) -> Entry {
    Entry { group, name, layer, unit, finding, meaning, cure }
}

use Layer::{Ip, NicRing, Socket, Tcp, Udp, Wire};
use Unit::{Datagrams, Fragments, Packets};

const RECEIVE_BUFFER: &str = "udp-receive-buffer";
const FRAGMENTS: &str = "ip-fragments";
const RETRANSMITS: &str = "tcp-retransmits";
const TCP_MEMORY: &str = "tcp-memory";
const LISTEN: &str = "listen-queue";
const MTU: &str = "mtu-mismatch";
const RING: &str = "nic-ring";
const LINK: &str = "link-errors";

/// Of UDP and of UDP-Lite; the same names stand with `Udp6` before them in `/proc/net/snmp6`.
pub(super) const OF_UDP: [Entry; 5] = [
    entry(
        ("Udp", "RcvbufErrors"),
        Socket,
        Datagrams,
        RECEIVE_BUFFER,
        "the receiving socket's buffer was full",
        "a larger receive buffer: `sysctl -w net.core.rmem_max=67108864`",
    ),
    entry(
        ("Udp", "SndbufErrors"),
        Socket,
        Datagrams,
        "",
        "the queue below refused what was sent, or the send buffer was full",
        "send slower, or a larger send buffer: `sysctl -w net.core.wmem_max=67108864`",
    ),
    entry(
        ("Udp", "InCsumErrors"),
        Udp,
        Datagrams,
        LINK,
        "the checksum was wrong",
        "look for a NIC, a cable or a switch that damages packets; try `ethtool -K NIC rx off` once",
    ),
    entry(
        ("Udp", "MemErrors"),
        Socket,
        Datagrams,
        RECEIVE_BUFFER,
        "UDP had used up its memory on this host",
        "raise `net.ipv4.udp_mem`",
    ),
    entry(
        ("Udp", "NoPorts"),
        Udp,
        Datagrams,
        "udp-no-socket",
        "nobody listened on that port",
        "start the receiver before the sender, and stop it after",
    ),
];

/// Of IP; the same names stand with `Ip6` before them in `/proc/net/snmp6`.
pub(super) const OF_IP: [Entry; 9] = [
    entry(
        ("Ip", "OutDiscards"),
        Ip,
        Packets,
        "",
        "the layer below did not take it: the queueing discipline or the interface dropped it",
        "see the line of the queueing discipline; send slower or lengthen its queue",
    ),
    entry(
        ("Ip", "OutNoRoutes"),
        Ip,
        Packets,
        "no-route",
        "there was no route",
        "`ip route get ADDRESS` shows which is missing",
    ),
    entry(
        ("Ip", "InDiscards"),
        Ip,
        Packets,
        "",
        "there was no memory for it, or a filter dropped it",
        "look at `nft list ruleset` and at free memory",
    ),
    entry(
        ("Ip", "InHdrErrors"),
        Ip,
        Packets,
        LINK,
        "the header was damaged, or its time to live used up",
        "look for a routing loop, or a NIC or cable that damages packets",
    ),
    entry(
        ("Ip", "InAddrErrors"),
        Ip,
        Packets,
        "",
        "it was addressed to nobody here",
        "check addresses and `net.ipv4.conf.*.rp_filter`",
    ),
    entry(
        ("Ip", "FragFails"),
        Ip,
        Datagrams,
        MTU,
        "it is longer than the next interface takes and must not be cut",
        "one MTU on the whole path, or datagrams that fit it",
    ),
    entry(
        ("Ip", "FragCreates"),
        Ip,
        Fragments,
        "",
        "datagrams were cut in pieces: one piece lost loses all",
        "datagrams that fit the path MTU, or a larger MTU on the whole path",
    ),
    entry(
        ("Ip", "ReasmFails"),
        Ip,
        Datagrams,
        FRAGMENTS,
        "datagrams could not be put together: a piece was missing, or the memory for pieces was full",
        "datagrams that fit the path MTU; `sysctl -w net.ipv4.ipfrag_high_thresh=67108864`",
    ),
    entry(
        ("Ip", "ReasmTimeout"),
        Ip,
        Datagrams,
        FRAGMENTS,
        "a piece of a datagram never came",
        "datagrams that fit the path MTU",
    ),
];

/// Of TCP, which sends again what was lost: it costs time, not data.
pub(super) const OF_TCP: [Entry; 20] = [
    entry(
        ("Tcp", "RetransSegs"),
        Tcp,
        Packets,
        RETRANSMITS,
        "segments were sent again",
        "find where packets are dropped (the lines below), or send slower",
    ),
    entry(
        ("Tcp", "InErrs"),
        Tcp,
        Packets,
        LINK,
        "segments came damaged",
        "look for a NIC, a cable or a switch that damages packets",
    ),
    entry(
        ("Tcp", "InCsumErrors"),
        Tcp,
        Packets,
        LINK,
        "the checksum was wrong",
        "look for a NIC, a cable or a switch that damages packets",
    ),
    entry(
        ("Tcp", "AttemptFails"),
        Tcp,
        Packets,
        "",
        "connections were refused",
        "check that the other end listens",
    ),
    entry(
        ("TcpExt", "TCPTimeouts"),
        Tcp,
        Packets,
        RETRANSMITS,
        "nothing was acknowledged for so long that a timer had to fire",
        "find where packets are dropped; look for a path that is interrupted",
    ),
    entry(
        ("TcpExt", "TCPLostRetransmit"),
        Tcp,
        Packets,
        RETRANSMITS,
        "segments were lost, sent again, and lost again",
        "find where packets are dropped; a queue on the way is too short",
    ),
    entry(
        ("TcpExt", "TCPSynRetrans"),
        Tcp,
        Packets,
        "",
        "opening a connection took more than one try",
        "check the path and the listener's queue",
    ),
    entry(
        ("TcpExt", "PruneCalled"),
        Socket,
        Packets,
        TCP_MEMORY,
        "the receive buffer overran and had to be cleared",
        "raise the third value of `net.ipv4.tcp_rmem`; read faster",
    ),
    entry(
        ("TcpExt", "RcvPruned"),
        Socket,
        Packets,
        TCP_MEMORY,
        "segments were dropped because the receive buffer overran",
        "raise the third value of `net.ipv4.tcp_rmem`; read faster",
    ),
    entry(
        ("TcpExt", "OfoPruned"),
        Socket,
        Packets,
        TCP_MEMORY,
        "segments out of order were dropped because the receive buffer overran",
        "raise the third value of `net.ipv4.tcp_rmem`; find where packets are lost",
    ),
    entry(
        ("TcpExt", "TCPRcvCollapsed"),
        Socket,
        Packets,
        TCP_MEMORY,
        "segments were copied together to save receive buffer",
        "raise the third value of `net.ipv4.tcp_rmem`",
    ),
    entry(
        ("TcpExt", "TCPRcvQDrop"),
        Socket,
        Packets,
        TCP_MEMORY,
        "segments were dropped because the receive buffer was full",
        "raise the third value of `net.ipv4.tcp_rmem`; read faster",
    ),
    entry(
        ("TcpExt", "TCPZeroWindowDrop"),
        Socket,
        Packets,
        "",
        "segments came though the window was closed",
        "nothing: the other end probes the window",
    ),
    entry(
        ("TcpExt", "TCPOFODrop"),
        Socket,
        Packets,
        TCP_MEMORY,
        "segments out of order were dropped for want of receive buffer",
        "raise the third value of `net.ipv4.tcp_rmem`",
    ),
    entry(
        ("TcpExt", "TCPBacklogDrop"),
        Socket,
        Packets,
        TCP_MEMORY,
        "segments came faster than the program's own work on the socket ended",
        "raise `net.ipv4.tcp_rmem` and `net.core.rmem_max`; another core for the reader",
    ),
    entry(
        ("TcpExt", "TCPAbortOnMemory"),
        Socket,
        Packets,
        TCP_MEMORY,
        "connections were closed for want of memory",
        "raise `net.ipv4.tcp_mem`",
    ),
    entry(
        ("TcpExt", "ListenOverflows"),
        Socket,
        Packets,
        LISTEN,
        "connections waited for a listener whose queue was full",
        "raise `net.core.somaxconn` and the listener's backlog",
    ),
    entry(
        ("TcpExt", "ListenDrops"),
        Socket,
        Packets,
        LISTEN,
        "connections were dropped by a listener",
        "raise `net.core.somaxconn` and the listener's backlog",
    ),
    entry(
        ("TcpExt", "TCPReqQFullDrop"),
        Socket,
        Packets,
        LISTEN,
        "opening connections were dropped: the queue was full",
        "raise `net.ipv4.tcp_max_syn_backlog`",
    ),
    entry(
        ("TcpExt", "IPReversePathFilter"),
        Ip,
        Packets,
        "",
        "the answer would leave by another interface than the packet came",
        "`sysctl -w net.ipv4.conf.all.rp_filter=2`, or the right routes",
    ),
];

/// Of an interface, by the names of sysfs.
pub(super) const OF_INTERFACE: [Entry; 12] = [
    entry(
        ("", "rx_missed_errors"),
        NicRing,
        Packets,
        RING,
        "the ring was full: the host did not take packets fast enough",
        "a longer ring: `ethtool -G NIC rx MAX`; more queues on more cores",
    ),
    entry(
        ("", "rx_fifo_errors"),
        NicRing,
        Packets,
        RING,
        "the card's own buffer was full",
        "a longer ring: `ethtool -G NIC rx MAX`; flow control: `ethtool -A NIC rx on`",
    ),
    entry(
        ("", "rx_over_errors"),
        NicRing,
        Packets,
        RING,
        "the card's own buffer was full",
        "a longer ring: `ethtool -G NIC rx MAX`",
    ),
    entry(
        ("", "rx_dropped"),
        NicRing,
        Packets,
        RING,
        "the driver or the kernel behind it dropped them",
        "a longer ring: `ethtool -G NIC rx MAX`; more queues on more cores",
    ),
    entry(
        ("", "rx_nohandler"),
        NicRing,
        Packets,
        "",
        "the interface is not meant to receive",
        "check that the address is on the right interface of the bond or bridge",
    ),
    entry(
        ("", "rx_crc_errors"),
        Wire,
        Packets,
        LINK,
        "frames came damaged",
        "clean or replace cable and transceiver; look at the error correction (FEC) of both ends",
    ),
    entry(
        ("", "rx_frame_errors"),
        Wire,
        Packets,
        LINK,
        "frames came damaged",
        "clean or replace cable and transceiver",
    ),
    entry(
        ("", "rx_length_errors"),
        Wire,
        Packets,
        MTU,
        "frames were longer or shorter than this interface takes",
        "one MTU on both hosts and every switch between them",
    ),
    entry(
        ("", "tx_dropped"),
        NicRing,
        Packets,
        RING,
        "the driver dropped what it was to send",
        "a longer ring: `ethtool -G NIC tx MAX`",
    ),
    entry(
        ("", "tx_fifo_errors"),
        NicRing,
        Packets,
        RING,
        "the card's own buffer ran empty or full",
        "a longer ring: `ethtool -G NIC tx MAX`",
    ),
    entry(
        ("", "tx_carrier_errors"),
        Wire,
        Packets,
        LINK,
        "the link went away",
        "look at the cable and the other end",
    ),
    entry(
        ("", "tx_aborted_errors"),
        Wire,
        Packets,
        LINK,
        "sending was given up",
        "look for half duplex: `ethtool NIC`",
    ),
];

/// Of drivers (`ethtool -S`): what the kernel's own counters do not show apart. They repeat packets of the counters above.
pub(super) const OF_DRIVERS: [Entry; 10] = [
    entry(
        ("", "rx_out_of_buffer"),
        NicRing,
        Packets,
        RING,
        "mlx5: no descriptor was free",
        "a longer ring: `ethtool -G NIC rx MAX`; more queues on more cores",
    ),
    entry(
        ("", "rx_discards_phy"),
        NicRing,
        Packets,
        RING,
        "mlx5: the port's buffer was full: PCIe or the host was too slow",
        "check the card's slot and MaxPayload; flow control on the switch",
    ),
    entry(
        ("", "rx_no_dma_resources"),
        NicRing,
        Packets,
        RING,
        "ixgbe: no descriptor was free",
        "a longer ring: `ethtool -G NIC rx MAX`",
    ),
    entry(
        ("", "rx_no_buffer_count"),
        NicRing,
        Packets,
        RING,
        "igb, e1000e: no descriptor was free for a moment",
        "a longer ring: `ethtool -G NIC rx MAX`",
    ),
    entry(
        ("", "port.rx_dropped"),
        NicRing,
        Packets,
        RING,
        "i40e: the port's buffer was full",
        "a longer ring; flow control on the switch",
    ),
    entry(
        ("", "rx_dropped.nic"),
        NicRing,
        Packets,
        RING,
        "ice: the port's buffer was full",
        "a longer ring; flow control on the switch",
    ),
    entry(
        ("", "rx_oversize_pkts_phy"),
        Wire,
        Packets,
        MTU,
        "mlx5: frames were longer than the port takes",
        "one MTU on both hosts and every switch between them",
    ),
    entry(
        ("", "rx_crc_errors_phy"),
        Wire,
        Packets,
        LINK,
        "mlx5: frames came damaged",
        "clean or replace cable and transceiver; look at FEC of both ends",
    ),
    entry(
        ("", "rx_symbol_err_phy"),
        Wire,
        Packets,
        LINK,
        "mlx5: symbols came damaged",
        "clean or replace cable and transceiver; look at FEC of both ends",
    ),
    entry(
        ("", "tx_discards_phy"),
        NicRing,
        Packets,
        RING,
        "mlx5: the port could not send for too long",
        "look for pause frames of the switch: `ethtool -S NIC | grep pause`",
    ),
];

/// Of the softirq.
pub(super) const SOFTNET_DROPPED: Entry = entry(
    ("softnet", "dropped"),
    Layer::Softnet,
    Packets,
    "softnet-dropped",
    "a core's queue of received packets was full",
    "a longer queue: `sysctl -w net.core.netdev_max_backlog=100000`; more receiving cores",
);
pub(super) const SOFTNET_SQUEEZED: Entry = entry(
    ("softnet", "squeezed"),
    Layer::Softnet,
    Packets,
    "",
    "a core took as many packets as it may in a round and left more",
    "`sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000`",
);
pub(super) const SOFTNET_LIMITED: Entry = entry(
    ("softnet", "flow limit"),
    Layer::Softnet,
    Packets,
    "softnet-dropped",
    "one flow had filled more than half of a core's queue",
    "`sysctl -w net.core.netdev_max_backlog=100000`, or no bit in net.core.flow_limit_cpu_bitmap",
);

/// What cures the drops of a queueing discipline.
pub(super) fn qdisc_cure(kind: &str, interface: &str) -> String {
    match kind {
        "tbf" => format!(
            "a higher rate or a longer queue (`tc qdisc change dev {interface} … tbf … limit BYTES`), or send no faster than its rate"
        ),
        "htb" | "hfsc" | "cbq" => format!(
            "a higher rate or longer queues of the classes of {kind} on {interface}, or send no faster than they let through"
        ),
        "pfifo" | "bfifo" | "pfifo_head_drop" => {
            format!("a longer queue: `tc qdisc change dev {interface} … {kind} limit N`")
        }
        "pfifo_fast" | "mq" => format!(
            "a longer queue: `ip link set {interface} txqueuelen 10000`, then put the qdisc anew; or send slower"
        ),
        "clsact" | "ingress" => format!(
            "a filter on {interface} drops them: `tc filter show dev {interface} egress` and `ingress`"
        ),
        "netem" => format!("netem on {interface} loses them on purpose: `tc qdisc del dev {interface} root`"),
        "fq" => format!(
            "a longer queue for each flow: `tc qdisc change dev {interface} … fq flow_limit 1000`; fewer and larger sends"
        ),
        "codel" | "fq_codel" | "cake" | "red" | "pie" | "fq_pie" => {
            format!("{kind} on {interface} drops to keep delay low: send slower, or use fq")
        }
        other => format!("send slower, or lengthen the queue of {other} on {interface}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_stands_once_and_names_its_cure() {
        let all = [&OF_UDP[..], &OF_IP, &OF_TCP, &OF_INTERFACE, &OF_DRIVERS].concat();
        let names: BTreeSet<(&str, &str)> = all.iter().map(|entry| (entry.group, entry.name)).collect();
        assert_eq!(names.len(), all.len());
        for entry in all {
            assert!(entry.meaning.len() > 10 && entry.cure.len() > 10, "{entry:?}");
            assert!(
                entry.meaning.starts_with(|c: char| c.is_lowercase() || entry.meaning.starts_with("UDP")),
                "{entry:?}"
            );
        }
    }

    #[test]
    fn every_queueing_discipline_has_a_cure() {
        for kind in ["tbf", "htb", "pfifo", "pfifo_fast", "clsact", "netem", "fq", "fq_codel", "unheard-of"] {
            assert!(qdisc_cure(kind, "eth7").contains("eth7"), "{kind}");
        }
    }
}
