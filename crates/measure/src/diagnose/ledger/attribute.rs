//! Each lost datagram to the counter that dropped it (UDP).
//!
//! A packet that is dropped once may be counted three times: a full queue at the sender counts in `qdisc
//! drops`, `Ip OutDiscards` and `Udp SndbufErrors`; a full backlog behind a veth in `softnet dropped`,
//! `rx_dropped` there and `tx_dropped` here. One of them is believed, the others are told with it.

use super::product::{Drop, Layer, LedgerHost, Others, Streams, Unit};
use super::readings::{self, DropReading};
use super::share::{Share, bounds, deal, signed};

/// UDP_MAX_SEGMENTS of `include/linux/udp.h` (64 before 6.9).
const MOST_SEGMENTS: u64 = 128;
/// Payload of the longest UDP datagram over IPv4, and so of a train.
const LONGEST_TRAIN_BYTES: u64 = 65_507;
/// Packets that a host sends by itself: neighbour discovery, reports of groups.
const OWN_CHATTER: u64 = 16;

/// What a counter's share is about.
struct Candidate {
    of_receiver: bool,
    /// Index in the host's list.
    index: usize,
    /// After IP of the receiver.
    late: bool,
    share: Share,
}

/// Writes into the drops of both hosts how many datagrams of our own they were. Gives what is left over, and
/// drops of others.
pub(super) fn attribute(
    (sender, sent): (&LedgerHost, &mut Vec<DropReading>),
    (receiver, received): (&LedgerHost, &mut Vec<DropReading>),
    streams: &Streams,
    lost: i64,
) -> (i64, Vec<Others>) {
    // Trains pass a veth whose MTU they would not fit (`is_skb_forwardable`).
    if !sender.offload.segmented || streams.received.datagrams == 0 {
        too_long(receiver, received, streams);
    }
    let mut all = candidates(sender, sent, receiver, received, streams);
    let lost_here = u64::try_from(lost).unwrap_or(0);
    let (early_lost, late_lost) = split(receiver, &all, streams, lost_here);
    let mut left = lost.min(0);
    let mut others = Vec::new();
    for (late, lost) in [(false, early_lost), (true, late_lost)] {
        let own = || all.iter().filter(|one| one.late == late);
        let mut shares: Vec<Share> = own().map(|one| one.share).collect();
        let over = deal(lost, &mut shares);
        let excused = match over {
            ..0 => of_others(
                over.unsigned_abs(),
                late,
                (sender, sent),
                (receiver, received),
                streams,
                &mut others,
            ),
            _ => 0,
        };
        left = left.saturating_add(over).saturating_add(signed(excused));
        for (one, share) in all.iter_mut().filter(|one| one.late == late).zip(shares) {
            one.share = share;
        }
    }
    for one in &all {
        let host = if one.of_receiver { &mut *received } else { &mut *sent };
        write(&mut host[one.index].drop, one.share);
    }
    let on_the_wire = wire(sender, receiver, &all, streams, left);
    if let Some(report) = on_the_wire {
        left = left.saturating_sub(signed(report.drop.datagrams));
        received.push(report);
    }
    (left, others)
}

fn write(drop: &mut Drop, share: Share) {
    drop.datagrams = share.given;
    if drop.unit == Unit::Fragments {
        return;
    }
    drop.unit = match drop.counted {
        counted if share.given > counted && counted > 0 => {
            Unit::Trains { datagrams_each: share.given as f64 / counted as f64 }
        }
        _ if share.given > 0 => Unit::Datagrams,
        _ => drop.unit,
    };
}

/// Most datagrams of a train.
fn longest_train(streams: &Streams) -> u64 {
    (LONGEST_TRAIN_BYTES / u64::from(streams.datagram_bytes.max(1))).clamp(1, MOST_SEGMENTS)
}

/// The counters that may have dropped datagrams of our own, each packet in one of them only.
fn candidates(
    sender: &LedgerHost,
    sent: &mut [DropReading],
    receiver: &LedgerHost,
    received: &mut [DropReading],
    streams: &Streams,
) -> Vec<Candidate> {
    let train = longest_train(streams);
    let out_each = if sender.offload.segmented { train } else { 1 };
    let in_each = if sender.offload.segmented || receiver.offload.coalesced { train } else { 1 };
    let mut all = Vec::new();
    let pieces = readings::pieces(sender, streams);
    let mut add = |of_receiver, index, late, counted: u64, each| {
        let share = Share::new(counted, each);
        // Of a datagram in pieces one to all may be dropped.
        let least = if late { share.least } else { share.least.div_ceil(pieces) };
        all.push(Candidate { of_receiver, index, late, share: Share { least, ..share } });
    };
    let veth_told = received.iter().any(|one| one.name == "rx_dropped");
    let mut refused = told_back(sender, streams);
    let mut believed = false;
    for (index, one) in sent.iter_mut().enumerate() {
        let counted = match (one.layer, one.name.as_str()) {
            (Layer::Qdisc, _) => again(one, &mut refused),
            // A veth's is the other end's rx_dropped.
            (_, "tx_dropped") if veth_told && is_veth(sender, one) => {
                same(one, "the same packets as rx_dropped of the other end")
            }
            (
                _,
                "tx_dropped" | "tx_fifo_errors" | "tx_carrier_errors" | "tx_aborted_errors" | "FragFails",
            ) => one.drop.counted,
            _ => 0,
        };
        if counted > 0 {
            add(false, index, false, counted, out_each);
        }
        believed |= one.layer == Layer::Qdisc || one.name == "tx_dropped";
    }
    for (index, one) in sent.iter_mut().enumerate() {
        match one.name.as_str() {
            "OutDiscards" | "SndbufErrors" if believed => {
                same(one, "the same packets as the drops of the lines below");
            }
            "SndbufErrors" => {
                same(one, "the same packets as Ip OutDiscards, or sends that were tried again");
            }
            "OutDiscards" => {
                let counted = again(one, &mut refused);
                add(false, index, false, counted, out_each);
            }
            _ => {}
        }
    }
    let mut in_backlog = backlog(received);
    for (index, one) in received.iter_mut().enumerate() {
        match (one.layer, one.name.as_str()) {
            (Layer::Softnet, "dropped") => add(true, index, false, in_backlog.0, in_each),
            (_, "rx_dropped") => {
                let in_softnet = in_backlog.1.min(one.drop.counted);
                in_backlog.1 -= in_softnet;
                if in_softnet == one.drop.counted {
                    same(one, "the same packets as softnet dropped");
                }
                add(true, index, false, one.drop.counted - in_softnet, in_each);
            }
            (Layer::Qdisc, "clsact" | "ingress") => add(true, index, false, one.drop.counted, in_each),
            (
                _,
                "rx_missed_errors" | "rx_fifo_errors" | "rx_over_errors" | "rx_crc_errors"
                | "rx_frame_errors" | "rx_length_errors",
            ) => {
                add(true, index, false, one.drop.counted, 1);
            }
            (_, "InHdrErrors" | "InDiscards" | "InAddrErrors" | "NoPorts") => {
                add(true, index, true, one.drop.counted, in_each)
            }
            (_, "RcvbufErrors" | "MemErrors" | "InErrors" | "InCsumErrors") if one.layer != Layer::Tcp => {
                add(true, index, true, one.drop.counted, in_each);
            }
            _ => {}
        }
    }
    all.retain(|one| one.share.most > 0);
    all
}

/// The packets of `softnet dropped` that are of these interfaces: each is in `rx_dropped`, too, and the
/// softnet's counter is the whole host's. Twice, to be taken from the interfaces one after the other.
fn backlog(received: &[DropReading]) -> (u64, u64) {
    let sum = |name: &str, layer: Layer| {
        let own = received.iter().filter(|one| one.name == name && one.layer == layer);
        own.fold(0u64, |sum, one| sum.saturating_add(one.drop.counted))
    };
    let both = sum("dropped", Layer::Softnet).min(sum("rx_dropped", Layer::NicRing));
    (both, both)
}

/// Frames that are longer than the receiver's interface takes: a veth or a bridge drops them without a
/// counter of their own.
fn too_long(receiver: &LedgerHost, received: &mut [DropReading], streams: &Streams) {
    let packet = u64::from(streams.datagram_bytes).saturating_add(readings::Headers::whole(streams).bytes());
    for one in received.iter_mut().filter(|one| one.name == "rx_dropped") {
        let interface = one.interface.as_deref().and_then(|name| receiver.counters.interface(name));
        let Some(mtu) = interface.and_then(|interface| interface.mtu.known().copied()) else { continue };
        if packet > mtu {
            one.layer = Layer::Wire;
            one.finding = "mtu-mismatch";
            one.drop.meaning = format!("packets of {packet} bytes, longer than its MTU of {mtu}");
            one.drop.cure =
                "one MTU on both hosts and every switch between them, or datagrams that fit".into();
        }
    }
}

/// Sends that failed with ENOBUFS because the queue was full: the program knows, and sends them again. With
/// the others, `udp_send_skb` counts SndbufErrors and tells nobody.
fn told_back(sender: &LedgerHost, streams: &Streams) -> u64 {
    let count = |group, name| sender.counters.both(group, name).unwrap_or(0);
    streams.sent.refused.min(count("Ip", "OutDiscards").saturating_sub(count("Udp", "SndbufErrors")))
}

/// What of a counter is lost, where some of it was sent again.
///
/// `left`: those that no other queue has had yet.
fn again(one: &mut DropReading, left: &mut u64) -> u64 {
    let refused = (*left).min(one.drop.counted);
    *left -= refused;
    if refused > 0 {
        one.drop.meaning = format!(
            "{}; {refused} of these were reported to the program, which sent them \
                     again",
            one.drop.meaning
        );
    }
    one.drop.counted - refused
}

/// The counter repeats others.
fn same(one: &mut DropReading, why: &str) -> u64 {
    one.finding = "";
    one.drop.meaning = why.into();
    0
}

fn is_veth(end: &LedgerHost, one: &DropReading) -> bool {
    let interface = one.interface.as_deref().and_then(|name| end.counters.interface(name));
    interface.is_some_and(|interface| interface.kind.known().is_some_and(|kind| kind == "veth"))
}

/// The datagrams lost before the receiver's IP, and after it. Where both sides have drops, IP's count of what
/// came decides.
fn split(receiver: &LedgerHost, all: &[Candidate], streams: &Streams, lost: u64) -> (u64, u64) {
    let of = |late: bool| {
        let shares: Vec<Share> = all.iter().filter(|one| one.late == late).map(|one| one.share).collect();
        bounds(&shares)
    };
    let (early, late) = (of(false), of(true));
    if late.1 == 0 {
        return (lost, 0);
    }
    if early.1 == 0 {
        // The rest of a loss that the host cannot have caused is the path's.
        let here = lost.min(late.1);
        return (lost - here, here);
    }
    let taken = streams.received.datagrams.saturating_add(streams.received.foreign);
    let came = readings::datagrams_into_ip(receiver, streams);
    let guess = came.map_or(late.0, |came| came.saturating_sub(taken));
    let least = late.0.max(lost.saturating_sub(early.1)).min(lost);
    let most = late.1.min(lost.saturating_sub(early.0)).max(least);
    let here = guess.clamp(least, most);
    (lost - here, here)
}

/// How many of the drops beyond ours may be others'; they are told with the largest counter.
fn of_others(
    over: u64,
    late: bool,
    (sender, sent): (&LedgerHost, &[DropReading]),
    (receiver, received): (&LedgerHost, &[DropReading]),
    streams: &Streams,
    others: &mut Vec<Others>,
) -> u64 {
    let (end, report) = match late {
        true => {
            (receiver, received.iter().find(|one| matches!(one.name.as_str(), "RcvbufErrors" | "NoPorts")))
        }
        false => (
            sender,
            sent.iter()
                .find(|one| one.layer == Layer::Qdisc)
                .or(received.iter().find(|one| one.name == "rx_dropped")),
        ),
    };
    let possible = match late {
        true => {
            let dropped = receiver.counters.both("Udp", "InErrors").unwrap_or(0);
            let no_port = receiver.counters.both("Udp", "NoPorts").unwrap_or(0);
            dropped.saturating_sub(streams.received.socket_drops).saturating_add(no_port)
        }
        false => readings::others_sent(sender, streams).saturating_add(OWN_CHATTER),
    };
    let excused = over.min(possible);
    if let Some(report) = report.filter(|_| excused > 0) {
        others.push(Others {
            host: end.host.clone(),
            counter: report.drop.counter.clone(),
            counted: excused,
        });
    }
    excused
}

/// What left the sender's interface and did not come to the receiver's, as far as their counters say so.
fn wire(
    sender: &LedgerHost,
    receiver: &LedgerHost,
    all: &[Candidate],
    streams: &Streams,
    left: i64,
) -> Option<DropReading> {
    let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
    let headers = readings::Headers::of(sender, streams);
    let out = readings::payload_of_interfaces(sender, &headers, streams, "tx")?;
    let came = readings::payload_of_interfaces(receiver, &headers, streams, "rx")?;
    // Dropped at the receiver's interface: not among those that came.
    let at_ring = all
        .iter()
        .filter(|one| one.of_receiver && !one.late)
        .fold(0u64, |sum, one| sum.saturating_add(one.share.given));
    let missing = out.saturating_sub(came).saturating_sub(at_ring).min(left);
    (missing > 0).then(|| DropReading {
        layer: Layer::Wire,
        interface: None,
        name: "between".into(),
        finding: "udp-loss",
        drop: Drop {
            counter: "tx_packets − rx_packets".into(),
            counted: missing,
            datagrams: missing,
            unit: Unit::Datagrams,
            meaning: "they left one interface and did not come to the other: a switch between dropped them, \
                      or a smaller MTU"
                .into(),
            cure:
                "look at the drops of the switch's ports, at flow control, and at the MTU of every port on \
                   the way; or send slower"
                    .into(),
        },
    })
}
