//! Socket buffers and the packet path of `net.core`.

use super::{
    Advice, CatalogueContext, Risk, Setting, SettingGroup, SettingStage, TCP_RECEIVE, TCP_SEND, UDP_RECEIVE,
    UDP_SEND, Where,
};
use linerate_facts::counters::{SoftnetCounters, parse_softnet};
use linerate_facts::fact::Fact;
use linerate_facts::wording::counted;

const NET: &str = "https://docs.kernel.org/admin-guide/sysctl/net.html";
/// What the kernel takes for these: a signed 32-bit number.
const MOST: u64 = i32::MAX as u64;
/// A receive buffer that holds 5 ms of 100 Gb/s.
const GOOD_BUFFER_BYTES: u64 = 64 << 20;
/// From here on zerocopy has thousands of sends open: 100 Gb/s, in bytes per second.
const FAST: f64 = 12.5e9;

const fn entry(
    id: &'static str,
    what: &'static str,
    name: &'static str,
    advice: fn(&CatalogueContext<'_>) -> Advice,
    risk: Risk,
    harm: &'static str,
) -> Setting {
    let group = SettingGroup { stage: SettingStage::Network, figure: TCP_RECEIVE };
    let entry = group.entry(id, what, Where::Sysctl(name), advice, NET, harm).with_risk(risk);
    Setting { range: Some((0, MOST)), ..entry }
}

/// The largest buffer that a program may ask for, and the least that the kernel takes for it.
const fn largest(id: &'static str, what: &'static str, name: &'static str, least: u64) -> Setting {
    let harm = "a program that asks for much memory gets it";
    Setting { range: Some((least, MOST)), ..entry(id, what, name, largest_buffer, Risk::Low, harm) }
}

/// A core that waits for packets by spinning.
const fn spinning(id: &'static str, what: &'static str, name: &'static str) -> Setting {
    entry(
        id,
        what,
        name,
        |look| {
            look.exactly(
                "0",
                "a server that moves bulk needs its cores; a program that needs the latency asks with \
                 SO_BUSY_POLL",
            )
        },
        Risk::Medium,
        "latency of programs that rely on it",
    )
}

pub(crate) const ENTRIES: &[Setting] = &[
    Setting {
        findings: &["udp-receive-buffer"],
        figure: UDP_RECEIVE,
        ..largest("rmem-max", "largest receive buffer that a program may ask for", "net.core.rmem_max", 2304)
    },
    Setting {
        figure: UDP_SEND,
        ..largest("wmem-max", "largest send buffer that a program may ask for", "net.core.wmem_max", 4608)
    },
    Setting {
        range: Some((2304, MOST)),
        figure: UDP_RECEIVE,
        left: Some("only for programs that drop UDP datagrams and never ask for a buffer"),
        ..entry(
            "rmem-default",
            "receive buffer of a program that asks for none; not TCP",
            "net.core.rmem_default",
            |_| Advice::Right,
            Risk::Low,
            "every such socket may take as much",
        )
    },
    Setting {
        figure: TCP_SEND,
        ..entry(
            "optmem-max",
            "memory for the notifications of zerocopy sends, each socket",
            "net.core.optmem_max",
            |look| match look.facts.rate() {
                Err(why) => Advice::Unknown(why.to_string()),
                Ok(rate) if rate < FAST => look.at_least(
                    131_072,
                    "the default since Linux 6.7; zerocopy sends fail with ENOBUFS beyond it",
                ),
                Ok(_) => look.at_least(
                    1 << 20,
                    "at 100 Gb/s and more, the open zerocopy sends need more than 128 KiB",
                ),
            },
            Risk::Low,
            "memory of the kernel, bounded by socket",
        )
    },
    Setting {
        range: None,
        figure: TCP_SEND,
        ..entry(
            "default-qdisc",
            "queueing discipline of interfaces that come up from now on",
            "net.core.default_qdisc",
            |look| match look.now {
                "pfifo_fast" => Advice::change(
                    "fq",
                    "paces each connection, so that its bursts do not overflow the small buffers of \
                     switches; interfaces that are up keep theirs",
                ),
                _ => Advice::Right,
            },
            Risk::Low,
            "none for interfaces that are up",
        )
    },
    Setting {
        range: Some((1, MOST)),
        figure: UDP_RECEIVE,
        ..entry(
            "netdev-max-backlog",
            "packets that wait for a CPU which another one handed them to",
            "net.core.netdev_max_backlog",
            backlog,
            Risk::Low,
            "packets wait longer under overload",
        )
    },
    Setting {
        range: Some((1, MOST)),
        ..entry(
            "netdev-budget",
            "packets that one round of receiving takes",
            "net.core.netdev_budget",
            |look| squeezed(look, 600),
            Risk::Low,
            "other work of that core waits longer",
        )
    },
    Setting {
        range: Some((1, MOST)),
        ..entry(
            "netdev-budget-usecs",
            "microseconds that one round of receiving takes",
            "net.core.netdev_budget_usecs",
            |look| squeezed(look, 8000),
            Risk::Low,
            "other work of that core waits longer",
        )
    },
    Setting {
        left: Some("with rfs-flows, for many connections on cards without enough queues: 32768"),
        source: "https://docs.kernel.org/networking/scaling.html",
        ..entry(
            "rfs-entries",
            "flows whose packets go to the core of the program that reads them",
            "net.core.rps_sock_flow_entries",
            |_| Advice::Right,
            Risk::Low,
            "memory",
        )
    },
    Setting {
        range: Some((1, MOST)),
        source: "https://docs.kernel.org/networking/nf_conntrack-sysctl.html",
        ..entry(
            "conntrack-max",
            "connections that the firewall follows",
            "net.netfilter.nf_conntrack_max",
            followed,
            Risk::Low,
            "some 300 bytes of the kernel for each",
        )
    },
    spinning("busy-poll", "microseconds that poll and select spin for packets", "net.core.busy_poll"),
    spinning("busy-read", "microseconds that reads of a socket spin for packets", "net.core.busy_read"),
];

fn backlog(look: &CatalogueContext<'_>) -> Advice {
    match softnet(look, |cpu| &cpu.dropped) {
        Fact::Unknown { why } => Advice::Unknown(why),
        Fact::Known(0) => Advice::Right,
        Fact::Known(drops) => look.at_least(
            look.number().unwrap_or(1000).saturating_mul(4).clamp(4000, 250_000),
            format!(
                "{drops} packets were dropped from full backlogs since the boot (/proc/net/softnet_stat, \
                     column 2)"
            ),
        ),
    }
}

/// A full table drops the packets of new connections.
fn followed(look: &CatalogueContext<'_>) -> Advice {
    match look.facts.sysroot.parse::<u64>("/proc/sys/net/netfilter/nf_conntrack_count").known() {
        None => Advice::Unknown("/proc/sys/net/netfilter/nf_conntrack_count cannot be read".into()),
        Some(count) => match look.number() {
            Some(most) if count.saturating_mul(5) >= most.saturating_mul(4) => look.at_least(
                most.saturating_mul(2).min(MOST),
                format!(
                    "{count} of {most} are followed now: beyond it new connections are dropped; data \
                         ports need none of it (notrack)"
                ),
            ),
            _ => Advice::Right,
        },
    }
}

/// What is under way at full rate, at least 64 MiB; never lowered.
fn largest_buffer(look: &CatalogueContext<'_>) -> Advice {
    let (wanted, why) = match look.facts.on_the_way() {
        Ok(bytes) => (
            bytes.max(GOOD_BUFFER_BYTES),
            format!("holds what is on the way at {}; TCP's own sizing has its own limit", look.facts.basis()),
        ),
        Err(_) => (
            GOOD_BUFFER_BYTES,
            "holds 5 ms of 100 Gb/s, so that a receiver that is late for its turn loses nothing".into(),
        ),
    };
    look.at_least(round_up(wanted).min(MOST), why)
}

/// The next power of two.
pub(super) fn round_up(bytes: u64) -> u64 {
    bytes.checked_next_power_of_two().unwrap_or(u64::MAX)
}

fn squeezed(look: &CatalogueContext<'_>, wanted: u64) -> Advice {
    match softnet(look, |cpu| &cpu.squeezed) {
        Fact::Unknown { why } => Advice::Unknown(why),
        Fact::Known(0) => Advice::Right,
        Fact::Known(times) => look.at_least(
            wanted,
            format!(
                "{} of receiving ended with packets left since the boot (/proc/net/softnet_stat, column 3)",
                counted(times, "round")
            ),
        ),
    }
}

/// One counter of softnet_stat, over all CPUs.
fn softnet(look: &CatalogueContext<'_>, counter: fn(&SoftnetCounters) -> &Fact<u64>) -> Fact<u64> {
    let cpus = look.facts.sysroot.fact("/proc/net/softnet_stat").and_then(|text| {
        Fact::from_option(parse_softnet(&text), "/proc/net/softnet_stat: not in a form that is known")
    });
    cpus.map(|cpus| cpus.iter().filter_map(|cpu| counter(cpu).known()).sum())
}
