//! Drops as findings: what is wrong, with the figures, and what to do. Those of a ledger, with the reason why a
//! receiving socket's buffer was full (too small, or its reader did not get its core); and those that the counters of
//! listings show without a measurement, each with its layer and its share, by the catalogue of the live views.

use super::super::product::{Finding, Severity};
use super::product::{Layer, LedgerHost, Streams, Unit};
use super::readings::{DropReading, drop_readings};
use linerate_facts::counters::NetworkCounters;
use linerate_facts::counters::listed::{CountedListings, ListedSockets};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_size;
use linerate_facts::wording::{counted, thousands};
use linerate_model::verdict;
use linerate_model::verdict::thresholds::{CPU_OF_OTHERS, LOST};
use serde_json::json;

/// Buffers that hold less than this of the stream do not outlast a scheduler's tick.
const SHORT_SECONDS: f64 = 0.004;
const SMALL_BYTES: u64 = 1 << 20;

/// The finding of a counter that has none of its own.
const OTHER: &str = "counted-drops";

/// All of them, worst first.
pub(super) fn findings(
    (sender, sent): (&LedgerHost, &[DropReading]),
    (receiver, received): (&LedgerHost, &[DropReading]),
    streams: &Streams,
    unaccounted: i64,
) -> Vec<Finding> {
    let of_sender = sent.iter().filter_map(|one| of(sender, one, streams));
    let of_receiver = received.iter().filter_map(|one| of(receiver, one, streams));
    let mut all: Vec<Finding> = of_sender.chain(of_receiver).collect();
    all.extend(sockets(receiver, received, streams));
    all.extend(refused(sender, streams));
    all.extend(vanished(streams, unaccounted));
    all.sort_by(|a, b| {
        a.severity.cmp(&b.severity).then(b.gain.total_cmp(&a.gain)).then_with(|| a.id.cmp(&b.id))
    });
    all
}

fn host(end: &LedgerHost) -> &str {
    if end.host.is_empty() { "this host" } else { &end.host }
}

/// What the datagrams would have been worth, bytes per second.
fn gain(datagrams: u64, streams: &Streams) -> f64 {
    let gain = datagrams as f64 * f64::from(streams.datagram_bytes) / streams.seconds;
    if gain.is_finite() { gain } else { 0.0 }
}

fn share(datagrams: u64, streams: &Streams) -> f64 {
    datagrams as f64 / streams.sent.datagrams.max(1) as f64
}

/// A counter's finding. A full receive buffer has findings of its own.
fn of(end: &LedgerHost, one: &DropReading, streams: &Streams) -> Option<Finding> {
    if one.finding.is_empty() || one.finding == "udp-receive-buffer" {
        return None;
    }
    let place = one
        .interface
        .as_deref()
        .map_or_else(|| host(end).to_string(), |name| format!("{name} of {}", host(end)));
    let (severity, text) = match streams.protocol {
        Protocol::Udp if one.drop.datagrams > 0 => {
            let share = share(one.drop.datagrams, streams) * 100.0;
            let text = format!(
                "{}: {place} dropped {}, {share:.2} % of all: {}",
                one.layer,
                counted(one.drop.datagrams, "datagram"),
                one.drop.meaning
            );
            (Severity::Loss, text)
        }
        Protocol::Udp => return None,
        Protocol::Tcp if told_of_tcp(end, one) => (
            Severity::Slow,
            format!(
                "{}: {place} counted {} × {}: {}",
                one.layer, one.drop.counted, one.drop.counter, one.drop.meaning
            ),
        ),
        Protocol::Tcp => return None,
    };
    Some(
        Finding::new(severity, one.finding, text)
            .evidence(json!({
                "host": end.host, "interface": one.interface, "layer": one.layer, "counter": one.drop.counter,
                "counted": one.drop.counted, "datagrams": one.drop.datagrams,
            }))
            .remedy(one.drop.cure.clone())
            .gain(gain(one.drop.datagrams, streams)),
    )
}

/// With TCP a drop is worth a word where it is no other connection's: retransmissions above a share, and what
/// the layers below dropped.
fn told_of_tcp(end: &LedgerHost, one: &DropReading) -> bool {
    let segments = end.counters.count("Tcp", "OutSegs").unwrap_or(0).max(1);
    match one.layer {
        Layer::Tcp => one.drop.counted as f64 >= LOST * segments as f64,
        Layer::Udp => false,
        _ => !one.drop.counter.starts_with("Udp "),
    }
}

/// The receive buffer's: one for each cause, the datagrams with the first.
fn sockets(receiver: &LedgerHost, received: &[DropReading], streams: &Streams) -> Vec<Finding> {
    let full = |one: &&DropReading| one.finding == "udp-receive-buffer" && one.drop.datagrams > 0;
    let datagrams =
        received.iter().filter(full).fold(0u64, |sum, one| sum.saturating_add(one.drop.datagrams));
    if datagrams == 0 || streams.protocol == Protocol::Tcp {
        return Vec::new();
    }
    let counted = received.iter().filter(full).fold(0u64, |sum, one| sum.saturating_add(one.drop.counted));
    let causes = socket_causes(receiver, streams);
    let finding = |(index, cause): (usize, Cause)| {
        Finding::loss(
            cause.id,
            format!(
                "socket: {} dropped {datagrams} datagrams, {:.2} % of all: {}",
                host(receiver),
                share(datagrams, streams) * 100.0,
                cause.meaning
            ),
        )
        .evidence(json!({
            "host": receiver.host, "layer": Layer::Socket, "counter": "Udp \
                RcvbufErrors", "counted": counted, "datagrams": datagrams,
            "receive_buffer_bytes": streams.received.receive_buffer_bytes,
        }))
        .remedy(cause.cure)
        .gain(if index == 0 { gain(datagrams, streams) } else { 0.0 })
    };
    causes.into_iter().enumerate().map(finding).collect()
}

/// Sends that the kernel refused for their length.
fn refused(sender: &LedgerHost, streams: &Streams) -> Option<Finding> {
    let interface = sender.interface.as_deref().and_then(|name| sender.counters.interface(name));
    let mtu = interface.and_then(|one| one.mtu.known().copied());
    (streams.sent.too_long > 0).then(|| Finding::loss("mtu-mismatch", format!(
            "{} refused {} sends of datagrams of {} bytes (EMSGSIZE): the path takes less",
            host(sender), streams.sent.too_long, streams.datagram_bytes
        )).evidence(json!({ "host": sender.host, "too_long": streams.sent.too_long, "datagram_bytes": streams.datagram_bytes, "mtu": mtu })).remedy("one MTU on both hosts and every switch between them, or datagrams that fit"))
}

/// Datagrams that no counter has.
fn vanished(streams: &Streams, unaccounted: i64) -> Option<Finding> {
    let datagrams = u64::try_from(unaccounted).ok().filter(|datagrams| share(*datagrams, streams) > 1e-6)?;
    if streams.protocol == Protocol::Tcp {
        return None;
    }
    Some(
        Finding::loss(
            "udp-loss",
            format!(
                "{datagrams} datagrams, {:.2} % of all, vanished and no counter of either host has them: the \
             network between dropped them",
                share(datagrams, streams) * 100.0
            ),
        )
        .evidence(json!({ "datagrams": datagrams, "sent": streams.sent.datagrams }))
        .remedy(
            "look at the drops of the switch's ports, at flow control, and at the MTU of every port on \
                 the way; or send slower",
        )
        .gain(gain(datagrams, streams)),
    )
}

/// The cause, with its finding's id, what it means, and its cure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    pub id: &'static str,
    pub meaning: String,
    pub cure: String,
}

/// All causes that the figures show, the first the one to cure first; at least one.
pub(super) fn socket_causes(receiver: &LedgerHost, streams: &Streams) -> Vec<Cause> {
    let mut causes: Vec<Cause> = core_cause(receiver, streams).into_iter().collect();
    let buffer = streams.received.receive_buffer_bytes;
    if causes.is_empty() || is_small_buffer(streams) {
        let size = if buffer == 0 { String::new() } else { format!(" of {}", show_size(buffer)) };
        // The kernel doubles what is asked for, and the limit is on what is asked for.
        let wanted = (64u64 << 20).max(buffer.saturating_mul(2)).min(1 << 30);
        causes.push(Cause {
            id: "udp-receive-buffer",
            meaning: format!("the receiving socket's buffer{size} was full"),
            cure: format!(
                "`sysctl -w net.core.rmem_max={wanted}` on {}, and ask for as much",
                host_name(receiver)
            ),
        });
    }
    causes
}

/// The buffer holds little of what comes.
fn is_small_buffer(streams: &Streams) -> bool {
    let received = &streams.received;
    let rate = if streams.seconds > 0.0 { received.bytes as f64 / streams.seconds } else { 0.0 };
    let buffer = received.receive_buffer_bytes;
    buffer > 0 && (buffer < SMALL_BYTES || (buffer as f64) < rate * SHORT_SECONDS)
}

/// The reader's core was others', or was all used up by itself.
fn core_cause(receiver: &LedgerHost, streams: &Streams) -> Option<Cause> {
    let thread = streams.received.thread?;
    let core = receiver.cores.iter().find(|core| core.core == thread.core)?;
    let own = thread.cpu_seconds / streams.seconds;
    // A peer's shares may be no numbers.
    let saturated = own.is_finite() && verdict::is_full(core);
    if !saturated {
        return None;
    }
    let others = (core.user + core.nice + core.system + core.steal - own).max(0.0);
    let (own, all) = (own * 100.0, core.busy() * 100.0);
    if others > CPU_OF_OTHERS {
        return Some(Cause {
            id: "receiver-core-busy",
            meaning: format!(
                "the reader had {own:.0} % of core {}, and others {:.0} %: datagrams waited until the buffer \
                 was full",
                thread.core,
                others * 100.0
            ),
            cure: format!(
                "another core for the reader (`--pin`), or move the other work off core {}",
                thread.core
            ),
        });
    }
    Some(Cause {
        id: "one-core-saturated",
        meaning: format!("the reader's core {} was {all:.0} % busy, {own:.0} % with reading", thread.core),
        cure:
            "more streams on more cores; UDP_GRO and larger datagrams; interrupts on another core than the \
               reader"
                .into(),
    })
}

fn host_name(end: &LedgerHost) -> &str {
    if end.host.is_empty() { "the receiver" } else { &end.host }
}

/// Every counter of drops that is not 0: those that grew between two listings, then those since the boot; of each the worst first.
pub fn counted_findings(listings: &CountedListings) -> Vec<Finding> {
    let between = since("between the listings", &listings.between);
    let since_boot = since("since the boot", &listings.since_boot);
    between.into_iter().chain(since_boot).chain(listings.sockets.iter().flat_map(of_sockets)).collect()
}

/// What the connections of `ss -ti` waited for.
fn of_sockets(all: &ListedSockets) -> Vec<Finding> {
    let waited = |(waiting, most): (u64, f64), for_what: &str, remedy: &str| {
        let text = format!(
            "TCP: {} of {} waited for {for_what}, one of them {} of the time that it was busy",
            waiting,
            counted(all.connections, "connection"),
            percent(most)
        );
        let evidence =
            json!({ "layer": Layer::Tcp, "connections": all.connections, "waiting": waiting, "share": most });
        (waiting > 0).then(|| Finding::slow("tcp-window", text).evidence(evidence).remedy(remedy))
    };
    let share = all.retransmitted_bytes as f64 / all.sent_bytes.max(1) as f64;
    let retransmitted = (LOST..=1.0).contains(&share).then(|| {
        let text = format!(
            "TCP: {} retransmitted {} of {} bytes, {}",
            counted(all.connections, "connection"),
            thousands(all.retransmitted_bytes),
            thousands(all.sent_bytes),
            percent(share)
        );
        let evidence = json!({ "layer": Layer::Tcp, "counter": "bytes_retrans", "counted": all.retransmitted_bytes, "share": share });
        let remedy = "find where packets are dropped (the other lines), or send slower";
        Finding::slow("tcp-retransmits", text).evidence(evidence).remedy(remedy)
    });
    let receiver = "raise the third value of `net.ipv4.tcp_rmem` on the receiving host, or read faster there";
    let sender = "raise the third value of `net.ipv4.tcp_wmem` here, or the program's own send buffer";
    [
        retransmitted,
        waited(all.by_receiver, "the receiver's window", receiver),
        waited(all.by_send_buffer, "the sender's own buffer", sender),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn since(when: &str, counters: &NetworkCounters) -> Vec<Finding> {
    let all = drop_readings(counters, None);
    let mut found: Vec<Finding> = all.into_iter().map(|one| counted_finding(when, counters, &one)).collect();
    // The order of the layers stays among those of one severity.
    found.sort_by_key(|finding| finding.severity);
    found
}

fn counted_finding(when: &str, counters: &NetworkCounters, one: &DropReading) -> Finding {
    let drop = &one.drop;
    let passed = passed_beside(counters, &drop.counter, one.interface.as_deref());
    let passed = passed.filter(|(_, passed)| *passed >= drop.counted && *passed > 0);
    let share = passed.map(|(_, passed)| drop.counted as f64 / passed as f64);
    let of_all = passed.zip(share).map(|((of, _), share)| format!(", {} of the {of}", percent(share)));
    let place = one.interface.as_deref().map_or(String::new(), |name| format!(", {name}"));
    let text = format!(
        "{}{place}: {} × {} {when}{}: {}",
        one.layer,
        thousands(drop.counted),
        drop.counter,
        of_all.unwrap_or_default(),
        drop.meaning
    );
    let id = if one.finding.is_empty() { OTHER } else { one.finding };
    Finding::new(counted_severity(one, share), id, text)
        .evidence(json!({
            "interface": one.interface, "layer": one.layer, "counter": drop.counter, "counted": drop.counted, "share": share,
        }))
        .remedy(drop.cure.clone())
}

/// Few of many is normal; what TCP sent again is not a loss.
fn counted_severity(one: &DropReading, share: Option<f64>) -> Severity {
    let many = share.is_none_or(|share| share >= LOST);
    let is_lost = !one.finding.is_empty() && one.drop.unit != Unit::Fragments;
    match one.layer {
        _ if !many || !is_lost => Severity::Note,
        Layer::Tcp => Severity::Slow,
        _ => Severity::Loss,
    }
}

/// `1.2 %`; two digits of what is less.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.1.. => format!("{percent:.1} %"),
        0.001.. => format!("{percent:.3} %"),
        _ => "less than 0.001 %".into(),
    }
}

/// What passed where the counter counts, and what it is called.
fn passed_beside(
    counters: &NetworkCounters,
    counter: &str,
    interface: Option<&str>,
) -> Option<(&'static str, u64)> {
    let interface = interface.and_then(|name| counters.interface(name));
    let (of, passed) = match (counter, interface) {
        ("Tcp RetransSegs", _) => ("segments sent", counters.count("Tcp", "OutSegs")),
        ("Tcp InErrs" | "Tcp InCsumErrors", _) => ("segments received", counters.count("Tcp", "InSegs")),
        ("Ip OutDiscards" | "Ip OutNoRoutes", _) => ("packets sent", counters.both("Ip", "OutRequests")),
        ("Ip InDiscards" | "Ip InAddrErrors" | "Ip InHdrErrors", _) => {
            ("packets received", counters.both("Ip", "InReceives"))
        }
        ("Ip ReasmFails", _) => ("fragments received", counters.both("Ip", "ReasmReqds")),
        ("Udp SndbufErrors", _) => ("datagrams sent", counters.both("Udp", "OutDatagrams")),
        ("Udp RcvbufErrors" | "Udp InErrors" | "Udp InCsumErrors" | "Udp MemErrors", _) => {
            ("datagrams received", counters.both("Udp", "InDatagrams"))
        }
        ("softnet dropped", _) => {
            let cores = counters.softnet.known()?.iter().filter_map(|core| core.processed.known());
            ("packets received", cores.copied().reduce(u64::saturating_add))
        }
        (name, Some(one)) if name.starts_with("rx_") => ("packets received", one.count("rx_packets")),
        (name, Some(one)) if name.starts_with("tx_") => ("packets sent", one.count("tx_packets")),
        (name, Some(one)) if name.ends_with(" drops") => {
            let root = one.qdiscs.known()?.iter().find(|discipline| name.starts_with(&discipline.kind))?;
            ("packets that passed", root.packets.known().copied())
        }
        _ => return None,
    };
    Some((of, passed?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::counters::listed::{driver_counters, netstat, over_time};

    /// D1.3, section 12: “thing[s] to look for are IP packets dropped, IP fragments failed, […] and SndbufErrors”.
    #[test]
    fn each_drop_has_layer_share_meaning_and_cure() {
        let text = "Ip:\n 74733541 requests sent out\n 273 outgoing packets dropped\n 1952857 fragments failed\nTcp:\n  \
            51102689 segments send out\n  604892 segments retransmitted\nUdp:\n 23775230 packets sent\n SndbufErrors: 2\n";
        let driver = "bw_out_allowance_exceeded: 40\nqueue_0_rx_bad_csum: 1\nqueue_7_rx_bad_csum: 2\n[0]: rx_discards: 7\n";
        let listings = [
            ("netstat", netstat(text).expect("counters")),
            ("ethtool", driver_counters("ens5", driver).expect("counters")),
        ];
        let all = counted_findings(&over_time(&listings));
        for (begins, severity, remedy) in [
            ("IP: 1,952,857 × Ip FragFails since the boot: it is longer", Severity::Loss, "one MTU"),
            (
                "IP: 273 × Ip OutDiscards since the boot, less than 0.001 % of the packets sent: the layer",
                Severity::Note,
                "queue",
            ),
            (
                "TCP: 604,892 × Tcp RetransSegs since the boot, 1.2 % of the segments sent: ",
                Severity::Slow,
                "send slower",
            ),
            ("socket: 2 × Udp SndbufErrors since the boot, less than", Severity::Note, "net.core.wmem_max"),
            (
                "wire, ens5: 40 × bw_out_allowance_exceeded since the boot: ena: ",
                Severity::Loss,
                "larger instance",
            ),
            ("wire, ens5: 3 × queue_*_rx_bad_csum since", Severity::Loss, "checksum"),
            ("NIC ring, ens5: 7 × [*]: rx_discards since", Severity::Loss, "ethtool -G ens5 rx MAX"),
        ] {
            let one = all
                .iter()
                .find(|one| one.text.starts_with(begins))
                .unwrap_or_else(|| panic!("{begins}: {all:#?}"));
            assert_eq!(one.severity, severity, "{one:?}");
            assert!(one.remedy.contains(remedy) || one.text.contains(remedy), "{one:?}");
        }
        let between = over_time(&[listings[0].clone(), listings[0].clone()]);
        assert_eq!(counted_findings(&between), [], "nothing grew");
    }
}
