//! Counters of UDP, IP, TCP and of the softirq before them.

use super::Family;
use super::Layer::{Ip, Socket, Softnet, Tcp, Udp};
use super::Unit::{Datagrams, Fragments, Packets};

/// Of UDP; the same names stand with `Udp6` before them in `/proc/net/snmp6`.
pub(in super::super) const OF_UDP: [Family; 5] = [
    Family {
        group: "Udp",
        layer: Socket,
        unit: Datagrams,
        finding: "udp-receive-buffer",
        cure: "a larger receive buffer: `sysctl -w net.core.rmem_max=67108864`; a reader on a core of its \
               own",
        counters: &[("RcvbufErrors", "the receiving socket's buffer was full")],
    },
    Family {
        group: "Udp",
        layer: Socket,
        unit: Datagrams,
        finding: "udp-receive-buffer",
        cure: "raise `net.ipv4.udp_mem`",
        counters: &[("MemErrors", "UDP had used up its memory on this host")],
    },
    Family {
        group: "Udp",
        layer: Socket,
        unit: Datagrams,
        finding: "",
        cure: "send slower, or a larger send buffer: `sysctl -w net.core.wmem_max=67108864`",
        counters: &[("SndbufErrors", "the queue below refused what was sent, or the send buffer was full")],
    },
    Family {
        group: "Udp",
        layer: Udp,
        unit: Datagrams,
        finding: "link-errors",
        cure: "look for a NIC, a cable or a switch that damages packets; try `ethtool -K NIC rx off` once",
        counters: &[("InCsumErrors", "the checksum was wrong")],
    },
    Family {
        group: "Udp",
        layer: Udp,
        unit: Datagrams,
        finding: "udp-no-socket",
        cure: "start the receiver before the sender, and stop it after",
        counters: &[("NoPorts", "nobody listened on that port")],
    },
];

/// Of IP; the same names stand with `Ip6` before them in `/proc/net/snmp6`.
pub(in super::super) const OF_IP: [Family; 8] = [
    Family {
        group: "Ip",
        layer: Ip,
        unit: Packets,
        finding: "",
        cure: "see the line of the queueing discipline; send slower or lengthen its queue",
        counters: &[(
            "OutDiscards",
            "the layer below did not take it: the queueing discipline or the interface dropped it",
        )],
    },
    Family {
        group: "Ip",
        layer: Ip,
        unit: Packets,
        finding: "no-route",
        cure: "`ip route get ADDRESS` shows which is missing",
        counters: &[("OutNoRoutes", "there was no route")],
    },
    Family {
        group: "Ip",
        layer: Ip,
        unit: Packets,
        finding: "",
        cure: "look at `nft list ruleset`, at free memory, at addresses and `net.ipv4.conf.*.rp_filter`",
        counters: &[
            ("InDiscards", "there was no memory for it, or a filter dropped it"),
            ("InAddrErrors", "it was addressed to nobody here"),
        ],
    },
    Family {
        group: "Ip",
        layer: Ip,
        unit: Packets,
        finding: "link-errors",
        cure: "look for a routing loop, or a NIC or cable that damages packets",
        counters: &[("InHdrErrors", "the header was damaged, or its time to live used up")],
    },
    Family {
        group: "Ip",
        layer: Ip,
        unit: Datagrams,
        finding: "mtu-mismatch",
        cure: "one MTU on the whole path, or datagrams that fit it",
        counters: &[("FragFails", "it is longer than the next interface takes and must not be cut")],
    },
    Family {
        group: "Ip",
        layer: Ip,
        unit: Fragments,
        finding: "",
        cure: "datagrams that fit the path MTU, or a larger MTU on the whole path",
        counters: &[("FragCreates", "datagrams were cut in pieces: one piece lost loses all")],
    },
    Family {
        group: "Ip",
        layer: Ip,
        unit: Datagrams,
        finding: "ip-fragments",
        cure: "datagrams that fit the path MTU; `sysctl -w net.ipv4.ipfrag_high_thresh=67108864`",
        counters: &[
            ("ReasmFails", "they could not be put together: a piece was missing, or the memory was full"),
            ("ReasmTimeout", "a piece of a datagram never came"),
        ],
    },
    Family {
        group: "TcpExt",
        layer: Ip,
        unit: Packets,
        finding: "",
        cure: "`sysctl -w net.ipv4.conf.all.rp_filter=2`, or the right routes",
        counters: &[("IPReversePathFilter", "the answer would leave by another interface")],
    },
];

/// Of TCP, which sends again what was lost: it costs time, not data.
pub(in super::super) const OF_TCP: [Family; 7] = [
    Family {
        group: "Tcp",
        layer: Tcp,
        unit: Packets,
        finding: "tcp-retransmits",
        cure: "find where packets are dropped (the other lines), or send slower",
        counters: &[("RetransSegs", "segments were retransmitted")],
    },
    Family {
        group: "TcpExt",
        layer: Tcp,
        unit: Packets,
        finding: "tcp-retransmits",
        cure: "find where packets are dropped (the other lines); look for a path that is interrupted",
        counters: &[
            ("TCPTimeouts", "nothing was acknowledged for so long that a timer had to fire"),
            ("TCPLostRetransmit", "segments were lost, retransmitted, and lost again"),
            ("TCPSynRetrans", "opening a connection took more than one try"),
        ],
    },
    Family {
        group: "Tcp",
        layer: Tcp,
        unit: Packets,
        finding: "link-errors",
        cure: "look for a NIC, a cable or a switch that damages packets",
        counters: &[("InErrs", "segments came damaged"), ("InCsumErrors", "the checksum was wrong")],
    },
    Family {
        group: "Tcp",
        layer: Tcp,
        unit: Packets,
        finding: "",
        cure: "check that the other end listens",
        counters: &[("AttemptFails", "connections were refused")],
    },
    Family {
        group: "TcpExt",
        layer: Socket,
        unit: Packets,
        finding: "tcp-memory",
        cure: "raise the third value of `net.ipv4.tcp_rmem` (and `net.ipv4.tcp_mem`), read faster, on a core \
               of its own",
        counters: &[
            ("PruneCalled", "the receive buffer overran and had to be cleared"),
            ("RcvPruned", "segments were dropped because the receive buffer overran"),
            ("OfoPruned", "segments out of order were dropped because the receive buffer overran"),
            ("TCPRcvCollapsed", "segments were copied together to save receive buffer"),
            ("TCPRcvQDrop", "segments were dropped because the receive buffer was full"),
            ("TCPOFODrop", "segments out of order were dropped for want of receive buffer"),
            ("TCPBacklogDrop", "segments came faster than the program's own work on the socket ended"),
            ("TCPAbortOnMemory", "connections were closed for want of memory"),
        ],
    },
    Family {
        group: "TcpExt",
        layer: Socket,
        unit: Packets,
        finding: "listen-queue",
        cure: "raise `net.core.somaxconn`, `net.ipv4.tcp_max_syn_backlog` and the listener's backlog",
        counters: &[
            ("ListenOverflows", "connections waited for a listener whose queue was full"),
            ("ListenDrops", "connections were dropped by a listener"),
            ("TCPReqQFullDrop", "opening connections were dropped: the queue was full"),
        ],
    },
    Family {
        group: "TcpExt",
        layer: Socket,
        unit: Packets,
        finding: "",
        cure: "nothing: the other end asks whether the window has opened",
        counters: &[("TCPZeroWindowDrop", "segments came though the window was closed")],
    },
];

/// Of the softirq, sums over all cores.
pub(in super::super) const OF_SOFTNET: [Family; 2] = [
    Family {
        group: "softnet",
        layer: Softnet,
        unit: Packets,
        finding: "softnet-dropped",
        cure: "a longer queue: `sysctl -w net.core.netdev_max_backlog=100000`; more receiving cores",
        counters: &[
            ("dropped", "a core's queue of received packets was full"),
            ("flow_limited", "one flow had filled more than half of a core's queue"),
        ],
    },
    Family {
        group: "softnet",
        layer: Softnet,
        unit: Packets,
        finding: "",
        cure: "`sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000`",
        counters: &[("squeezed", "a core took as many packets as it may in a round and left more")],
    },
];
