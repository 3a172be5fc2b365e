//! Softnet by core, TCP, and UDP's drops by cause.

use super::Readings;
use crate::model::{SoftnetCore, Tcp, Udp};
use crate::sources::NetworkReading;
use linerate_facts::counters::rates::{Elapsed, Width, rounded, sum};
use linerate_facts::counters::{Counters, SoftnetCounters};

pub(crate) fn softnet(both: &Readings<Vec<SoftnetCounters>>) -> Vec<SoftnetCore> {
    let one = |now: &SoftnetCounters| {
        let before = both
            .before
            .as_ref()
            .and_then(|(before, span)| Some((before.iter().find(|before| before.core == now.core)?, *span)));
        let count = |of: fn(&SoftnetCounters) -> Option<u64>| of(now).unwrap_or(0);
        let rate = |of: fn(&SoftnetCounters) -> Option<u64>| {
            let (before, span) = before?;
            span.rate_of(of(before)?, of(now)?, Width::Bits32)
        };
        SoftnetCore {
            core: now.core,
            processed_per_second: rate(|core| core.processed.known().copied()),
            dropped_per_second: rate(|core| core.dropped.known().copied()),
            squeezed_per_second: rate(|core| core.squeezed.known().copied()),
            flow_limited_per_second: rate(|core| core.flow_limited.known().copied()),
            backlog: now.backlog.known().copied(),
            processed: count(|core| core.processed.known().copied()),
            dropped: count(|core| core.dropped.known().copied()),
            squeezed: count(|core| core.squeezed.known().copied()),
        }
    };
    both.now.iter().map(one).collect()
}

/// A counter of the protocols' files. UDP's are of both IP versions: IPv6 has a file of its own.
fn count(network: &NetworkReading, group: &str, name: &str) -> Option<u64> {
    let known = |counters: &Counters, name: &str| counters.get(name)?.known().copied();
    let file = if group == "TcpExt" { &network.netstat } else { &network.snmp };
    let four = known(file.as_ref().ok()?.value.get(group)?, name)?;
    let six = match group {
        "Udp" => network.snmp6.as_ref().ok().and_then(|file| known(&file.value, &format!("Udp6{name}"))),
        _ => None,
    };
    Some(four.saturating_add(six.unwrap_or(0)))
}

pub(crate) fn tcp_and_udp(before: Option<&NetworkReading>, now: &NetworkReading) -> (Tcp, Udp) {
    let span =
        before.and_then(|before| Elapsed::between(before.snmp.as_ref().ok()?.at, now.snmp.as_ref().ok()?.at));
    let total = |group: &str, name: &str| count(now, group, name);
    let rate =
        |group: &str, name: &str| span?.rate_known(count(before?, group, name), count(now, group, name));
    let (sent, again) = (rate("Tcp", "OutSegs"), rate("Tcp", "RetransSegs"));
    let tcp = Tcp {
        // A state, and no counter.
        established: total("Tcp", "CurrEstab"),
        segments_in_per_second: rate("Tcp", "InSegs"),
        segments_out_per_second: sent,
        retransmits_per_second: again,
        // The kernel counts what it sends again among the segments sent.
        retransmit_share: sent
            .zip(again)
            .filter(|(sent, _)| *sent > 0.0)
            .map(|(sent, again)| rounded(again / sent)),
        timeouts_per_second: rate("TcpExt", "TCPTimeouts"),
        resets_out_per_second: rate("Tcp", "OutRsts"),
        errors_in_per_second: rate("Tcp", "InErrs"),
        listen_overflows_per_second: rate("TcpExt", "ListenOverflows"),
        zero_windows_per_second: rate("TcpExt", "TCPToZeroWindowAdv"),
        pruned_per_second: sum([rate("TcpExt", "PruneCalled"), rate("TcpExt", "TCPRcvCollapsed")]),
        retransmits: total("Tcp", "RetransSegs"),
        segments_in: total("Tcp", "InSegs"),
        segments_out: total("Tcp", "OutSegs"),
    };
    let causes = ["RcvbufErrors", "InCsumErrors", "MemErrors"].map(|name| rate("Udp", name));
    let known = sum(causes).unwrap_or(0.0);
    let udp = Udp {
        datagrams_in_per_second: rate("Udp", "InDatagrams"),
        datagrams_out_per_second: rate("Udp", "OutDatagrams"),
        receive_buffer_drops_per_second: causes[0],
        send_buffer_drops_per_second: rate("Udp", "SndbufErrors"),
        checksum_drops_per_second: causes[1],
        memory_drops_per_second: causes[2],
        no_port_per_second: rate("Udp", "NoPorts"),
        // `InErrors` has all the others in it.
        other_drops_per_second: rate("Udp", "InErrors").map(|all| rounded((all - known).max(0.0))),
        datagrams_in: total("Udp", "InDatagrams"),
        datagrams_out: total("Udp", "OutDatagrams"),
    };
    (tcp, udp)
}
