//! Counters of interfaces and of their queueing disciplines.

use super::Family;
use super::Layer::{self, NicRing, Wire};
use super::Unit::Packets;

pub(super) const RING: &str = "nic-ring";
pub(super) const LINK: &str = "link-errors";
pub(super) const MTU: &str = "mtu-mismatch";
pub(super) const LONGER_RING: &str = "a longer ring: `ethtool -G NIC rx MAX`; more queues on more cores";
pub(super) const CLEAN_LINK: &str =
    "clean or replace cable and transceiver; look at the error correction (FEC) of both ends";
pub(super) const ONE_MTU: &str = "one MTU on both hosts and every switch between them";

pub(super) const fn family(
    layer: Layer,
    finding: &'static str,
    cure: &'static str,
    counters: &'static [(&'static str, &'static str)],
) -> Family {
    Family { group: "", layer, unit: Packets, finding, cure, counters }
}

/// By the names of sysfs.
pub(in super::super) const OF_INTERFACE: [Family; 5] = [
    family(
        NicRing,
        RING,
        LONGER_RING,
        &[
            ("rx_missed_errors", "the ring was full: the host did not take packets fast enough"),
            ("rx_fifo_errors", "the card's own buffer was full"),
            ("rx_over_errors", "the card's own buffer was full"),
            ("rx_dropped", "the driver or the kernel behind it dropped them"),
        ],
    ),
    family(
        NicRing,
        RING,
        "a longer ring: `ethtool -G NIC tx MAX`",
        &[
            ("tx_dropped", "the driver dropped what it was to send"),
            ("tx_fifo_errors", "the card's own buffer ran empty or full"),
        ],
    ),
    family(
        NicRing,
        "",
        "check that the address is on the right interface of the bond or bridge",
        &[("rx_nohandler", "the interface is not meant to receive")],
    ),
    family(
        Wire,
        LINK,
        CLEAN_LINK,
        &[
            ("rx_crc_errors", "frames came damaged"),
            ("rx_frame_errors", "frames came damaged"),
            ("tx_carrier_errors", "the link went away"),
            ("tx_aborted_errors", "sending was given up: half duplex?"),
        ],
    ),
    family(
        Wire,
        MTU,
        ONE_MTU,
        &[("rx_length_errors", "frames were longer or shorter than this interface takes")],
    ),
];

/// What cures the drops of a queueing discipline.
pub(in super::super) fn qdisc_cure(kind: &str, nic: &str) -> String {
    match kind {
        "tbf" => format!(
            "a higher rate or a longer queue (`tc qdisc change dev {nic} … tbf … limit BYTES`), or send no \
             faster than its rate"
        ),
        "htb" | "hfsc" | "cbq" => format!(
            "a higher rate or longer queues of the classes of {kind} on {nic}, or send no faster than they \
             let through"
        ),
        "pfifo" | "bfifo" | "pfifo_head_drop" => {
            format!("a longer queue: `tc qdisc change dev {nic} … {kind} limit N`")
        }
        "pfifo_fast" | "mq" => format!(
            "a longer queue: `ip link set {nic} txqueuelen 10000`, then put the qdisc again; or send slower"
        ),
        "clsact" | "ingress" => {
            format!("a filter on {nic} drops them: `tc filter show dev {nic} egress` and `ingress`")
        }
        "netem" => format!("netem on {nic} loses them on purpose: `tc qdisc del dev {nic} root`"),
        "fq" => format!(
            "a longer queue for each flow: `tc qdisc change dev {nic} … fq flow_limit 1000`; fewer and \
             larger sends"
        ),
        "codel" | "fq_codel" | "cake" | "red" | "pie" | "fq_pie" => {
            format!("{kind} on {nic} drops to keep delay low: send slower, or use fq")
        }
        other => format!("send slower, or lengthen the queue of {other} on {nic}"),
    }
}
