//! Counters of interfaces, of their queueing disciplines, and of drivers (`ethtool -S`), which show what the kernel's
//! own do not tell apart. They repeat packets of the interface's counters.
//!
//! A `*` stands for the number of a queue, a priority or a port; the counts of all of them are one. Each name was looked up in
//! the driver's source, which is named beside it (below `drivers/net/` of the kernel).

use super::Family;
use super::Layer::{self, NicRing, Wire};
use super::Unit::Packets;

const RING: &str = "nic-ring";
const LINK: &str = "link-errors";
pub(super) const MTU: &str = "mtu-mismatch";
const LONGER_RING: &str = "a longer ring: `ethtool -G NIC rx MAX`; more queues on more cores";
const CLEAN_LINK: &str =
    "clean or replace cable and transceiver; look at the error correction (FEC) of both ends";
const ONE_MTU: &str = "one MTU on both hosts and every switch between them";

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

pub(in crate::diagnose::ledger) const OF_DRIVERS: [Family; 9] = [
    family(
        NicRing,
        RING,
        LONGER_RING,
        &[
            // ethernet/mellanox/mlx5/core/en_stats.c
            ("rx_out_of_buffer", "mlx5: no descriptor was free"),
            // ethernet/intel/ixgbe/ixgbe_ethtool.c
            ("rx_no_dma_resources", "ixgbe: no descriptor was free"),
            // ethernet/intel/igb/igb_ethtool.c, e1000e/ethtool.c
            ("rx_no_buffer_count", "igb, e1000e: no descriptor was free for a moment"),
            // ethernet/intel/igb/igb_ethtool.c, igc/igc_ethtool.c
            ("rx_queue_*_drops", "igb, igc: the queue had no descriptor free"),
            // ethernet/amazon/ena/ena_ethtool.c
            ("queue_*_rx_empty_rx_ring", "ena: the queue had no descriptor free"),
            // ethernet/broadcom/bnxt/bnxt_ethtool.c: of a ring, all rings together
            ("[*]: rx_discards", "bnxt: the ring had no buffer free"),
            ("rx_total_discard_pkts", "bnxt: rings had no buffer free, all of them together"),
            // ethernet/sfc/ef10.c; siena has the older name
            ("port_rx_nodesc_drops", "sfc: no descriptor was free"),
            ("rx_nodesc_drops", "sfc: no descriptor was free"),
            ("rx_nodesc_drop_cnt", "sfc: no descriptor was free"),
            // ethernet/emulex/benet/be_ethtool.c
            ("rxq*: rx_drops_no_frags", "be2net: the driver had posted no buffer"),
            ("rx_drops_no_erx_descr", "be2net: the card's queue of descriptors ran over"),
            // ethernet/qlogic/qede/qede_ethtool.c
            ("no_buff_discards", "qede: no buffer was free"),
            // ethernet/google/gve/gve_ethtool.c
            ("rx_no_buffers_posted[*]", "gve: the driver had posted no buffer"),
            ("rx_queue_drop_cnt[*]", "gve: the queue was full"),
        ],
    ),
    family(
        NicRing,
        RING,
        "more free memory for the kernel: `sysctl -w vm.min_free_kbytes=1048576`",
        &[
            // ethernet/emulex/benet/be_ethtool.c
            ("rxq*: rx_drops_no_skbs", "be2net: the kernel had no memory for a packet"),
            // ethernet/sfc/ef10.c
            ("rx_noskb_drops", "sfc: the kernel had no memory for a packet"),
            // hyperv/netvsc_drv.c
            ("rx_no_memory", "hv_netvsc: the kernel had no memory for a packet"),
            ("tx_no_memory", "hv_netvsc: the kernel had no memory for a packet"),
        ],
    ),
    family(
        NicRing,
        RING,
        "check the card's slot and MaxPayload; flow control on the switch; `ethtool -S NIC` for pause frames",
        &[
            // ethernet/mellanox/mlx5/core/en_stats.c
            ("rx_discards_phy", "mlx5: the port's buffer was full: PCIe or the host was too slow"),
            ("rx_prio*_discards", "mlx5: the port's buffer of a priority was full"),
            ("tx_discards_phy", "mlx5: the port could not send for too long"),
            // ethernet/intel/i40e/i40e_ethtool.c, ice/ice_ethtool.c
            ("port.rx_dropped", "i40e: the port's buffer was full"),
            ("rx_dropped.nic", "ice: the port's buffer was full"),
            // ethernet/broadcom/bnxt/bnxt_ethtool.c
            ("rx_stat_discard", "bnxt: the port's buffer was full"),
            // ethernet/emulex/benet/be_ethtool.c
            ("rx_drops_no_pbuf", "be2net: the card's packet buffer was full"),
            ("rx_input_fifo_overflow_drop", "be2net: the card's input buffer ran over"),
            // ethernet/sfc/ef10.c
            ("port_rx_overflow", "sfc: the port's buffer ran over"),
            // ethernet/qlogic/qede/qede_ethtool.c
            ("brb_discards", "qede: the port's buffer was full"),
            ("brb_truncates", "qede: the port's buffer was full within a frame"),
        ],
    ),
    family(
        NicRing,
        RING,
        "a longer ring: `ethtool -G NIC tx MAX`; fewer and larger sends",
        &[
            // ethernet/broadcom/bnxt/bnxt_ethtool.c
            ("tx_total_discard_pkts", "bnxt: the card dropped what it was to send"),
            // ethernet/emulex/benet/be_ethtool.c
            ("txq*: tx_drv_drops", "be2net: the driver dropped what it was to send"),
            // ethernet/qlogic/qede/qede_ethtool.c
            ("tx_err_drop_pkts", "qede: the card refused what it was to send"),
            // hyperv/netvsc_drv.c
            ("vf_tx_dropped", "hv_netvsc: the card behind it dropped what it was to send"),
            ("tx_too_big", "hv_netvsc: a packet was longer than the host takes"),
        ],
    ),
    family(
        NicRing,
        "",
        "nothing is lost by it: the queue waits; more queues (`ethtool -L NIC combined MAX`) or fewer and larger sends",
        &[
            // hyperv/netvsc_drv.c
            ("tx_no_space", "hv_netvsc: the channel to the host was full"),
            ("tx_send_full", "hv_netvsc: the buffer that the host takes packets from was full"),
        ],
    ),
    family(
        Wire,
        "cloud-allowance",
        "a larger instance, or send less at a time: what the provider grants this one was used up; a burst is over after \
         minutes: `linerate network --seconds 300` measures what lasts",
        &[
            // ethernet/amazon/ena/ena_ethtool.c
            ("bw_in_allowance_exceeded", "ena: more came than the instance's bandwidth allows"),
            ("bw_out_allowance_exceeded", "ena: more was sent than the instance's bandwidth allows"),
            ("pps_allowance_exceeded", "ena: more packets a second than the instance is allowed"),
            ("conntrack_allowance_exceeded", "ena: more connections than the instance is allowed"),
            (
                "linklocal_allowance_exceeded",
                "ena: more requests to the provider's own services than allowed",
            ),
        ],
    ),
    family(
        Wire,
        MTU,
        ONE_MTU,
        &[
            // ethernet/mellanox/mlx5/core/en_stats.c
            ("rx_oversize_pkts_phy", "mlx5: frames were longer than the port takes"),
            // ethernet/emulex/benet/be_ethtool.c
            ("rx_drops_mtu", "be2net: frames were longer than the port takes"),
            // ethernet/google/gve/gve_ethtool.c
            ("rx_drops_packet_over_mru[*]", "gve: packets were longer than the queue takes"),
            // ethernet/broadcom/bnxt/bnxt_ethtool.c
            ("rx_mtu_err_frames", "bnxt: frames were longer than the port takes"),
        ],
    ),
    family(
        Wire,
        LINK,
        CLEAN_LINK,
        &[
            // ethernet/mellanox/mlx5/core/en_stats.c
            ("rx_crc_errors_phy", "mlx5: frames came damaged"),
            ("rx_symbol_err_phy", "mlx5: symbols came damaged"),
            // ethernet/broadcom/bnxt/bnxt_ethtool.c
            ("rx_fcs_err_frames", "bnxt: frames came damaged"),
        ],
    ),
    family(
        Wire,
        LINK,
        "look for a NIC, a cable or a switch that damages packets; try `ethtool -K NIC rx off` once",
        &[
            // ethernet/broadcom/bnxt/bnxt_ethtool.c
            ("[*]: rx_l4_csum_errors", "bnxt: the checksum of TCP or UDP was wrong"),
            // ethernet/amazon/ena/ena_ethtool.c
            ("queue_*_rx_bad_csum", "ena: the checksum of TCP or UDP was wrong"),
            // ethernet/google/gve/gve_ethtool.c
            ("rx_drops_invalid_checksum[*]", "gve: the checksum was wrong"),
        ],
    ),
];

/// A name is what the pattern says: `*` is any number.
pub(in crate::diagnose::ledger) fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    middle.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_number() {
        for (pattern, name, is_one) in [
            ("rx_queue_*_drops", "rx_queue_11_drops", true),
            ("rx_queue_*_drops", "rx_queue__drops", false),
            ("rx_queue_*_drops", "rx_queue_x_drops", false),
            ("[*]: rx_discards", "[0]: rx_discards", true),
            ("rxq*: rx_drops_no_frags", "rxq3: rx_drops_no_frags", true),
            ("rx_no_buffers_posted[*]", "rx_no_buffers_posted[7]", true),
            ("no_buff_discards", "no_buff_discards", true),
            ("no_buff_discards", "no_buff_discards2", false),
        ] {
            assert_eq!(matches(pattern, name), is_one, "{pattern} {name}");
        }
    }
}
