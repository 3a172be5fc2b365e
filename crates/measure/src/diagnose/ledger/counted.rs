//! What the counters of listings show, without a measurement: each drop with its layer, its share, what it means and what cures
//! it. The catalogue is that of the live views.

use super::super::product::{Finding, Severity};
use super::drops::{DropReading, told};
use super::product::{Layer, Unit};
use linerate_facts::counters::NetworkCounters;
use linerate_facts::counters::listed::{CountedListings, ListedSockets};
use linerate_facts::wording::{counted, thousands};
use linerate_model::verdict::thresholds::LOST;
use serde_json::json;

/// Of a counter that has no finding of its own.
const OTHER: &str = "counted-drops";

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
    let all = told(counters, None);
    let mut found: Vec<Finding> = all.into_iter().map(|one| finding(when, counters, &one)).collect();
    // The order of the layers stays among those of one severity.
    found.sort_by_key(|finding| finding.severity);
    found
}

fn finding(when: &str, counters: &NetworkCounters, one: &DropReading) -> Finding {
    let drop = &one.drop;
    let passed = passed(counters, &drop.counter, one.interface.as_deref());
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
    Finding::new(severity(one, share), id, text)
        .evidence(json!({
            "interface": one.interface, "layer": one.layer, "counter": drop.counter, "counted": drop.counted, "share": share,
        }))
        .remedy(drop.cure.clone())
}

/// Few of many is normal; what TCP sent again is no loss.
fn severity(one: &DropReading, share: Option<f64>) -> Severity {
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
fn passed(counters: &NetworkCounters, counter: &str, interface: Option<&str>) -> Option<(&'static str, u64)> {
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
