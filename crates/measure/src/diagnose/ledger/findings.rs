//! The ledger's drops as findings: what is wrong, with the figures, and what to do.

use super::super::product::{Finding, Severity};
use super::drops::DropReading;
use super::product::{Layer, LedgerHost, Streams};
use super::socket;
use linerate_facts::protocol::Protocol;
use linerate_facts::wording::counted;
use linerate_model::verdict::thresholds::LOST;
use serde_json::json;

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
    let causes = socket::causes(receiver, streams);
    let finding = |(index, cause): (usize, socket::Cause)| {
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
