//! `netstat -s` as text, for hosts of which there is only its listing: the lines that name a drop or a total,
//! with the words of net-tools (`statistics.c`) old and new. Lines with a name of the kernel's own
//! (`InOctets: 42`) are taken as they are.

use super::protocols::{count, named};
use super::{Counters, Groups, NetworkCounters};
use crate::fact::Fact;

/// In which group, the words around the number, the kernel's name. `%` stands for the number.
const WORDS: [(&str, &str, &str); 45] = [
    ("Ip", "% total packets received", "InReceives"),
    ("Ip", "% with invalid addresses", "InAddrErrors"),
    ("Ip", "% with invalid headers", "InHdrErrors"),
    ("Ip", "% forwarded", "ForwDatagrams"),
    ("Ip", "% incoming packets discarded", "InDiscards"),
    ("Ip", "% incoming packets delivered", "InDelivers"),
    ("Ip", "% requests sent out", "OutRequests"),
    ("Ip", "% outgoing packets dropped", "OutDiscards"),
    ("Ip", "% dropped because of missing route", "OutNoRoutes"),
    ("Ip", "% fragments dropped after timeout", "ReasmTimeout"),
    ("Ip", "% reassemblies required", "ReasmReqds"),
    ("Ip", "% packets reassembled ok", "ReasmOKs"),
    ("Ip", "% packet reassembles failed", "ReasmFails"),
    // net-tools calls the datagrams that were cut “fragments received ok”.
    ("Ip", "% fragments received ok", "FragOKs"),
    ("Ip", "% fragments failed", "FragFails"),
    ("Ip", "% fragments created", "FragCreates"),
    ("Icmp", "% icmp messages received", "InMsgs"),
    ("Icmp", "% input icmp message failed", "InErrors"),
    ("Icmp", "% icmp messages sent", "OutMsgs"),
    ("Icmp", "% icmp messages failed", "OutErrors"),
    ("Tcp", "% active connections openings", "ActiveOpens"),
    ("Tcp", "% active connection openings", "ActiveOpens"),
    ("Tcp", "% passive connection openings", "PassiveOpens"),
    ("Tcp", "% failed connection attempts", "AttemptFails"),
    ("Tcp", "% connection resets received", "EstabResets"),
    ("Tcp", "% connections established", "CurrEstab"),
    ("Tcp", "% segments received", "InSegs"),
    ("Tcp", "% segments send out", "OutSegs"),
    ("Tcp", "% segments sent out", "OutSegs"),
    ("Tcp", "% segments retransmitted", "RetransSegs"),
    ("Tcp", "% segments retransmited", "RetransSegs"),
    ("Tcp", "% bad segments received", "InErrs"),
    ("Tcp", "% resets sent", "OutRsts"),
    ("Udp", "% packets received", "InDatagrams"),
    ("Udp", "% packets to unknown port received", "NoPorts"),
    ("Udp", "% packet receive errors", "InErrors"),
    ("Udp", "% packets sent", "OutDatagrams"),
    ("Udp", "% receive buffer errors", "RcvbufErrors"),
    ("Udp", "% send buffer errors", "SndbufErrors"),
    ("TcpExt", "% packets pruned from receive queue because of socket buffer overrun", "PruneCalled"),
    ("TcpExt", "% packets pruned from receive queue", "RcvPruned"),
    ("TcpExt", "% packets collapsed in receive queue due to low socket buffer", "TCPRcvCollapsed"),
    ("TcpExt", "% times the listen queue of a socket overflowed", "ListenOverflows"),
    ("TcpExt", "% syns to listen sockets dropped", "ListenDrops"),
    ("TcpExt", "% other tcp timeouts", "TCPTimeouts"),
];

/// More of TCP's; apart, because they are many.
const MORE_OF_TCP: [(&str, &str); 8] = [
    ("% icmp packets dropped because they were out-of-window", "OutOfWindowIcmps"),
    ("% packets dropped from out-of-order queue because of socket buffer overrun", "OfoPruned"),
    ("% fast retransmits", "TCPFastRetrans"),
    ("% retransmits in slow start", "TCPSlowStartRetrans"),
    ("% timeouts in loss state", "TCPLossFailures"),
    ("% timeouts after reno fast retransmit", "TCPRenoFailures"),
    ("% connections aborted due to timeout", "TCPAbortOnTimeout"),
    ("% connections aborted due to memory pressure", "TCPAbortOnMemory"),
];

/// Groups of `/proc/net/netstat`; the others are those of `/proc/net/snmp`.
const OF_NETSTAT: [&str; 3] = ["TcpExt", "IpExt", "MPTcpExt"];
const OF_SNMP: [&str; 6] = ["Ip", "Icmp", "IcmpMsg", "Tcp", "Udp", "UdpLite"];

/// Reads the listing. Lines that it does not know are left out; a group that is not in the listing is not
/// there.
pub fn from_netstat(text: &str) -> NetworkCounters {
    let (mut snmp, mut netstat) = (Groups::new(), Groups::new());
    let mut group = "";
    for line in text.lines().take(10_000) {
        let line = line.trim();
        if let Some(name) =
            OF_NETSTAT.iter().chain(&OF_SNMP).find(|name| line.strip_suffix(':') == Some(name))
        {
            group = name;
            continue;
        }
        let Some((name, value)) = counter(group, line) else { continue };
        let groups = if OF_NETSTAT.contains(&group) { &mut netstat } else { &mut snmp };
        let counters: &mut Counters = groups.entry(group.to_string()).or_default();
        // “packet receive errors” is in each group once; a second one is no more true than the first.
        counters.entry(name).or_insert(value);
    }
    let listed = |groups: Groups| {
        Fact::from_option((!groups.is_empty()).then_some(groups), "not in the listing of netstat -s")
    };
    NetworkCounters {
        snmp: listed(snmp),
        netstat: listed(netstat),
        snmp6: Fact::unknown("not in the listing of netstat -s"),
        softnet: Fact::unknown("not in the listing of netstat -s"),
        ..NetworkCounters::default()
    }
}

/// The counter of a line: by its words, or by a name of the kernel's own.
fn counter(group: &str, line: &str) -> Option<(String, Fact<u64>)> {
    if group.is_empty() {
        return None;
    }
    if let Some((name, value)) = line.split_once(": ")
        && let Some(name) = named(name)
    {
        return Some((name, count(value.trim())));
    }
    let number = line.split_ascii_whitespace().next()?;
    let value = count(number);
    value.known()?;
    let rest = line.strip_prefix(number)?.trim_end_matches('.').to_ascii_lowercase();
    let fits = |words: &str| words.strip_prefix('%') == Some(rest.as_str());
    let of_group =
        WORDS.iter().find(|(own, words, _)| *own == group && fits(words)).map(|(_, _, name)| *name);
    let of_tcp = || {
        let own = MORE_OF_TCP.iter().filter(|_| group == "TcpExt");
        own.into_iter().find(|(words, _)| fits(words)).map(|(_, name)| *name)
    };
    Some((of_group.or_else(of_tcp)?.to_string(), value))
}
