//! Network interfaces: frames, queues, rings, offloads, interrupts; and what each of these settings should be,
//! by the interface's rate, its queues and the cores near it.

use super::super::goal::{wire_rate, without_wire};
use super::{
    Advice, CatalogueContext, Risk, Setting, SettingGroup, SettingStage, TCP_RECEIVE, TCP_SEND, Where,
};
use crate::setting_place::Shape;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Nic, cpu_list};
use linerate_machine::rates::ethernet::{Stack, goodput_share};

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
                Some(nic) if fifo && wire_rate(nic).is_some_and(|rate| rate >= FAST_BYTES_PER_SECOND) => {
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

/// 10 Gb/s in bytes per second: what is slower needs none of this.
const FAST_BYTES_PER_SECOND: f64 = 1.25e9;
/// Drivers that the kernel lets set no adaptive-rx: `supported_coalesce_params` of each in drivers/net/ethernet lacks
/// it (Linux 5.7 and later, net/ethtool/coalesce.c). The old ioctl answers 0 for them, as for one that is off.
const NOT_ADAPTIVE: [&str; 8] = ["e1000", "e1000e", "igb", "igc", "ixgbe", "r8169", "sky2", "tg3"];
/// A queue per core beyond this many gains nothing.
const MOST_CHANNELS: u32 = 64;

pub(super) fn nic<'a>(look: &CatalogueContext<'a>) -> Option<&'a Nic> {
    look.facts.machine.nic(look.device)
}

/// Cores near the NIC.
fn local_cores(look: &CatalogueContext<'_>) -> Vec<u32> {
    look.facts.local_cpus(nic(look).and_then(|nic| nic.node.known().copied()))
}

pub(super) fn channels(look: &CatalogueContext<'_>) -> Advice {
    let most = nic(look).and_then(|nic| nic.details.channels.known()).map(|(_, most)| *most);
    match (nic(look), most) {
        (Some(nic), _) if without_wire(nic) => Advice::leave("no wire behind it"),
        (_, None) => Advice::Unknown("the driver does not report its channels".into()),
        (_, Some(most)) => {
            let cores = u32::try_from(local_cores(look).len()).unwrap_or(u32::MAX);
            look.at_least(
                u64::from(most.min(cores).clamp(1, MOST_CHANNELS)),
                "a queue for each core near the card",
            )
        }
    }
}

pub(super) fn ring(
    look: &CatalogueContext<'_>,
    rings: Option<&linerate_facts::fact::Fact<(u32, u32)>>,
) -> Advice {
    match (nic(look).and_then(wire_rate), rings.and_then(|ring| ring.known())) {
        (_, None) => Advice::Unknown("the driver does not report its rings".into()),
        (Some(rate), Some((_, most))) if rate >= FAST_BYTES_PER_SECOND => look.at_least(
            u64::from((*most).min(8192)),
            "bursts wait in the ring while the core is at other work; 8192 or the most that the card has",
        ),
        _ => Advice::leave("a slow link, or none that is known, needs no larger ring"),
    }
}

pub(super) fn adaptive(look: &CatalogueContext<'_>) -> Advice {
    let driver = |nic: &Nic| nic.driver.known().cloned().unwrap_or_default();
    match nic(look) {
        Some(nic) if NOT_ADAPTIVE.contains(&driver(nic).as_str()) => {
            Advice::leave(&format!("{} cannot do this", driver(nic)))
        }
        Some(nic) if !without_wire(nic) => {
            look.exactly("1", "many packets an interrupt under load, few without")
        }
        _ => Advice::leave("no wire behind it"),
    }
}

/// The gain is arithmetic; that the whole segment can do it, nobody here knows.
pub(super) fn mtu(look: &CatalogueContext<'_>) -> Advice {
    let Some(now) = look.number().and_then(|mtu| u32::try_from(mtu).ok()) else {
        return Advice::Unknown(format!("“{}” is not a number", look.now));
    };
    let fast = nic(look).and_then(wire_rate).is_some_and(|rate| rate >= FAST_BYTES_PER_SECOND);
    if !fast || now >= 9000 {
        return Advice::Right;
    }
    let share = |mtu| goodput_share(mtu, Stack::tcp(false), false);
    Advice::Change {
        value: "9000".into(),
        why: "a sixth of the packets, and more payload in each; try the path first: ping -M do -s 8972"
            .into(),
        stale: false,
        gain: share(9000).zip(share(now)).map(|(large, small)| large / small - 1.0),
    }
}

/// One core near the card for each queue, in order; where the driver has a hint, that.
pub(super) fn affinity(look: &CatalogueContext<'_>) -> Advice {
    let local = local_cores(look);
    if local.is_empty() {
        return Advice::Unknown("the cores are not known".into());
    }
    let hint = look.at.parent().and_then(|folder| look.facts.sysroot.text(folder.join("affinity_hint")).ok());
    let hinted = hint.and_then(|mask| cpu_list::parse_mask(&mask)).filter(|cpus| !cpus.is_empty());
    // A hint for every core is none.
    let hinted = hinted.filter(|cpus| {
        cpus.len() < look.facts.local_cpus(None).len() && cpus.iter().all(|cpu| local.contains(cpu))
    });
    let (cpus, why) = match hinted {
        Some(cpus) => (cpus, "the driver's own hint"),
        None => {
            let index = look.queue.unwrap_or(0) as usize % local.len();
            (vec![local[index]], "one core near the card for each queue")
        }
    };
    let wanted = cpu_list::show(&cpus);
    if look.now == wanted { Advice::Right } else { Advice::change(wanted, why) }
}

/// Where the card has fewer queues than there are cores near it, and no more to give.
fn receive_steering(look: &CatalogueContext<'_>) -> Advice {
    let Some(nic) = nic(look).filter(|nic| !without_wire(nic)) else {
        return Advice::leave("no wire behind it");
    };
    let queues = nic.rx_queues.known().copied().unwrap_or(1).max(1);
    let most = nic.details.channels.known().map_or(queues, |(_, most)| *most);
    let local = local_cores(look);
    if local.len() as u64 <= u64::from(queues) || most > queues || any_core(look.now) {
        return Advice::Right;
    }
    let cores = cpu_list::show(&local);
    Advice::change(
        cores,
        format!(
            "{} for {}: packets are spread over them",
            counted(queues, "queue"),
            counted(local.len(), "core")
        ),
    )
}

/// Some core is in the set.
fn any_core(now: &str) -> bool {
    cpu_list::parse_list(now).is_some_and(|cpus| !cpus.is_empty())
}

/// Each core its queue, where the driver left that open.
fn send_steering(look: &CatalogueContext<'_>) -> Advice {
    let Some(nic) = nic(look).filter(|nic| !without_wire(nic)) else {
        return Advice::leave("no wire behind it");
    };
    let queues = nic.tx_queues.known().copied().unwrap_or(1) as usize;
    let cpus = look.facts.local_cpus(None);
    if queues < 2 || any_core(look.now) || cpus.is_empty() {
        return Advice::Right;
    }
    let queue = look.queue.unwrap_or(0) as usize;
    let own: Vec<u32> = cpus
        .iter()
        .copied()
        .enumerate()
        .filter(|(index, _)| index % queues == queue)
        .map(|(_, cpu)| cpu)
        .collect();
    if own.is_empty() {
        return Advice::Right;
    }
    Advice::change(cpu_list::show(&own), "each core sends through a queue of its own, without a lock")
}
