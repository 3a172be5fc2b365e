//! Network interfaces: frames, queues, rings, offloads, interrupts.

use super::super::goal::{wire_rate, without_wire};
use super::super::shape::Shape;
use super::entry::{SettingGroup, TCP_RECEIVE, TCP_SEND};
use super::nic_advice::{
    FAST, adaptive, affinity, channels, mtu, nic, receive_steering, ring, send_steering,
};
use super::{Advice, Risk, Setting, SettingStage, Where};

const SCALING: &str = "https://docs.kernel.org/networking/scaling.html";
const NAPI: &str = "https://docs.kernel.org/networking/napi.html";
const ETHTOOL: &str = "https://man7.org/linux/man-pages/man8/ethtool.8.html";
const ABI: &str = "https://docs.kernel.org/admin-guide/abi-testing.html";

const NIC: SettingGroup = SettingGroup { stage: SettingStage::Network, figure: TCP_SEND };

/// What only a measurement can tell; all of it is about receiving.
const fn left(
    id: &'static str,
    what: &'static str,
    at: Where,
    why: &'static str,
    harm: &'static str,
) -> Setting {
    let entry = NIC.entry(id, what, at, |_| Advice::Right, NAPI, harm);
    Setting { left: Some(why), figure: TCP_RECEIVE, ..entry }
}

pub(crate) const ENTRIES: &[Setting] = &[
    Setting {
        findings: &["nic-queues"],
        risk: Risk::Medium,
        ..NIC.entry(
            "channels",
            "queues with an interrupt of their own",
            Where::CombinedChannels,
            channels,
            ETHTOOL,
            "the link may go down for a moment; interrupts are set up again",
        )
    },
    Setting {
        figure: TCP_RECEIVE,
        risk: Risk::Medium,
        ..NIC.entry(
            "rx-ring",
            "descriptors of the receive ring",
            Where::RxRing,
            |look| ring(look, nic(look).map(|nic| &nic.details.rx_ring)),
            ETHTOOL,
            "the link may go down for a moment; a large ring may not fit the cache",
        )
    },
    NIC.entry(
        "tx-ring",
        "descriptors of the transmit ring",
        Where::TxRing,
        |look| ring(look, nic(look).map(|nic| &nic.details.tx_ring)),
        ETHTOOL,
        "the link may go down for a moment",
    )
    .with_risk(Risk::Medium),
    Setting {
        figure: TCP_RECEIVE,
        ..NIC.entry(
            "adaptive-rx",
            "the driver adapts how long receive interrupts wait",
            Where::AdaptiveRx,
            adaptive,
            ETHTOOL,
            "latency changes with the load",
        )
    },
    pause("rx-pause", "the card stops sending while the switch asks it to", Where::RxPause),
    pause("tx-pause", "the card asks the switch to stop while its ring is full", Where::TxPause),
    offload("tcp-segmentation", "the card cuts TCP segments", "tx-tcp-segmentation"),
    offload("generic-segmentation", "segments are cut as late as possible", "tx-generic-segmentation"),
    Setting { figure: TCP_RECEIVE, ..offload("generic-receive", "received segments are joined", "rx-gro") },
    offload("scatter-gather", "the card gathers a packet from pieces", "tx-scatter-gather"),
    Setting {
        range: Some((68, 65_535)),
        risk: Risk::High,
        ..NIC.entry(
            "mtu",
            "largest packet",
            Where::Nic("mtu"),
            mtu,
            ABI,
            "every host and switch of the segment must have the same",
        )
    },
    NIC.entry(
        "tx-queue-length",
        "packets that wait in a pfifo_fast queue",
        Where::Nic("tx_queue_len"),
        |look| {
            let fifo =
                look.facts.machine.kernel.default_qdisc.known().is_some_and(|name| name == "pfifo_fast");
            match nic(look) {
                Some(nic) if fifo && wire_rate(nic).is_some_and(|rate| rate >= FAST) => {
                    look.at_least(10_000, "a thousand packets are 1.2 ms of 10 Gb/s")
                }
                _ => Advice::Right,
            }
        },
        ABI,
        "packets wait longer",
    ),
    left(
        "threaded-napi",
        "packets are received by threads that the scheduler places",
        Where::Nic("threaded"),
        "helps where one core is full of receiving: measure",
        "a switch of threads for each batch",
    ),
    left(
        "defer-interrupts",
        "rounds of polling before an interrupt is switched on again",
        Where::Nic("napi_defer_hard_irqs"),
        "with gro-flush-timeout: fewer interrupts for more latency",
        "latency",
    ),
    left(
        "gro-flush-timeout",
        "nanoseconds that a packet waits to be joined",
        Where::Nic("gro_flush_timeout"),
        "with defer-interrupts: fewer interrupts for more latency",
        "latency",
    ),
    Setting {
        source: SCALING,
        ..left(
            "rfs-flows",
            "flows of a queue whose packets go to the core of the program that reads them",
            Where::RxQueue("rps_flow_cnt"),
            "with rfs-entries, for many connections on cards without enough queues: entries ÷ queues",
            "memory",
        )
    },
    Setting {
        figure: TCP_RECEIVE,
        findings: &["interrupts-one-core", "interrupts-other-node", "one-core-saturated"],
        shape: Shape::List,
        ..NIC.entry(
            "irq-affinity",
            "core that takes the interrupt of a queue",
            Where::NicInterrupt,
            affinity,
            "https://docs.kernel.org/core-api/irq/irq-affinity.html",
            "irqbalance changes it back, unless it is configured not to",
        )
    },
    Setting {
        figure: TCP_RECEIVE,
        findings: &["nic-queues"],
        shape: Shape::Mask,
        risk: Risk::Medium,
        ..NIC.entry(
            "rps",
            "cores that packets of a queue are spread over",
            Where::RxQueue("rps_cpus"),
            receive_steering,
            SCALING,
            "an interrupt between cores for each batch",
        )
    },
    Setting {
        shape: Shape::Mask,
        ..NIC.entry(
            "xps",
            "cores that send through a queue",
            Where::TxQueue("xps_cpus"),
            send_steering,
            SCALING,
            "none known",
        )
    },
];

/// Right where the switch has the same, and no other way: nobody here knows the switch.
const fn pause(id: &'static str, what: &'static str, at: Where) -> Setting {
    let entry = NIC
        .entry(id, what, at, |_| Advice::Right, ETHTOOL, "one slow receiver stops a whole switch")
        .with_risk(Risk::Medium);
    Setting {
        range: Some((0, 1)),
        left: Some(
            "the switch must have the same; frames that were paused look like a slow network (ethtool -S)",
        ),
        ..entry
    }
}

const fn offload(id: &'static str, what: &'static str, feature: &'static str) -> Setting {
    NIC.entry(
        id,
        what,
        Where::Feature(feature),
        |look| match nic(look) {
            // A veth of the lab may be without on purpose.
            Some(nic) if without_wire(nic) => Advice::leave("no wire behind it"),
            _ => look
                .exactly("1", "without it the kernel handles each packet by itself, at a tenth of the rate"),
        },
        ETHTOOL,
        "a router that forwards in software may need it off",
    )
}
