//! Socket buffers and the packet path of `net.core`.

use super::super::shape::Shape;
use super::{Advice, Entry, Look, Risk, Stage, Where};

const NET: &str = "https://docs.kernel.org/admin-guide/sysctl/net.html";
/// What the kernel takes for these: a signed 32-bit number.
const MOST: u64 = i32::MAX as u64;
/// A receive buffer that holds 5 ms of 100 Gb/s.
const GOOD_BUFFER_BYTES: u64 = 64 << 20;
/// From here on zerocopy has thousands of sends open: 100 Gb/s, in bytes per second.
const FAST: f64 = 12.5e9;

pub const ENTRIES: &[Entry] = &[
    Entry {
        id: "rmem-max",
        what: "largest receive buffer that a program may ask for",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.rmem_max"),
        shape: Shape::Words,
        advice: largest_buffer,
        source: NET,
        risk: Risk::Low,
        harm: "a program that asks for much memory gets it",
        findings: &["udp-receive-buffer"],
        range: Some((2304, MOST)),
    },
    Entry {
        id: "wmem-max",
        what: "largest send buffer that a program may ask for",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.wmem_max"),
        shape: Shape::Words,
        advice: largest_buffer,
        source: NET,
        risk: Risk::Low,
        harm: "a program that asks for much memory gets it",
        findings: &[],
        range: Some((4608, MOST)),
    },
    Entry {
        id: "rmem-default",
        what: "receive buffer of a program that asks for none; not TCP",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.rmem_default"),
        shape: Shape::Words,
        advice: |_| Advice::leave("only for programs that drop UDP datagrams and never ask for a buffer"),
        source: NET,
        risk: Risk::Low,
        harm: "every such socket may take as much",
        findings: &[],
        range: Some((2304, MOST)),
    },
    Entry {
        id: "optmem-max",
        what: "memory for the notifications of zerocopy sends, each socket",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.optmem_max"),
        shape: Shape::Words,
        advice: |look| match look.seen.rate() {
            Err(why) => Advice::Unknown(why),
            Ok(rate) if rate < FAST => look
                .at_least(131_072, "the default since Linux 6.7; zerocopy sends fail with ENOBUFS beyond it"),
            Ok(_) => look
                .at_least(1 << 20, "100 Gb/s and more have so many zerocopy sends open that 128 KiB run out"),
        },
        source: NET,
        risk: Risk::Low,
        harm: "memory of the kernel, bounded by socket",
        findings: &[],
        range: Some((0, MOST)),
    },
    Entry {
        id: "default-qdisc",
        what: "queueing discipline of interfaces that come up from now on",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.default_qdisc"),
        shape: Shape::Words,
        advice: |look| match look.now {
            "pfifo_fast" => Advice::change(
                "fq",
                "paces each connection, so that its bursts do not overflow the small buffers of switches; interfaces that are up keep theirs",
            ),
            _ => Advice::Right,
        },
        source: NET,
        risk: Risk::Low,
        harm: "none for interfaces that are up",
        findings: &[],
        range: None,
    },
    Entry {
        id: "netdev-max-backlog",
        what: "packets that wait for a CPU which another one handed them to",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.netdev_max_backlog"),
        shape: Shape::Words,
        advice: |look| {
            match softnet(look, 1) {
            Err(why) => Advice::Unknown(why),
            Ok(0) => Advice::Right,
            Ok(drops) => look.at_least(look.number().unwrap_or(1000).saturating_mul(4).clamp(4000, 250_000), format!("{drops} packets were dropped from full backlogs since the boot (/proc/net/softnet_stat, column 2)")),
        }
        },
        source: NET,
        risk: Risk::Low,
        harm: "packets wait longer under overload",
        findings: &[],
        range: Some((1, MOST)),
    },
    Entry {
        id: "netdev-budget",
        what: "packets that one round of receiving takes",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.netdev_budget"),
        shape: Shape::Words,
        advice: |look| squeezed(look, 600),
        source: NET,
        risk: Risk::Low,
        harm: "other work of that core waits longer",
        findings: &[],
        range: Some((1, MOST)),
    },
    Entry {
        id: "netdev-budget-usecs",
        what: "microseconds that one round of receiving takes",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.netdev_budget_usecs"),
        shape: Shape::Words,
        advice: |look| squeezed(look, 8000),
        source: NET,
        risk: Risk::Low,
        harm: "other work of that core waits longer",
        findings: &[],
        range: Some((1, MOST)),
    },
    Entry {
        id: "busy-poll",
        what: "microseconds that poll and select spin for packets",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.busy_poll"),
        shape: Shape::Words,
        advice: |look| {
            look.exactly("0", "a server that moves bulk needs its cores; a program that needs the latency asks with SO_BUSY_POLL")
        },
        source: NET,
        risk: Risk::Medium,
        harm: "latency of programs that rely on it",
        findings: &[],
        range: Some((0, MOST)),
    },
    Entry {
        id: "busy-read",
        what: "microseconds that reads of a socket spin for packets",
        stage: Stage::Network,
        at: Where::Sysctl("net.core.busy_read"),
        shape: Shape::Words,
        advice: |look| {
            look.exactly("0", "a server that moves bulk needs its cores; a program that needs the latency asks with SO_BUSY_POLL")
        },
        source: NET,
        risk: Risk::Medium,
        harm: "latency of programs that rely on it",
        findings: &[],
        range: Some((0, MOST)),
    },
];

/// What is on the way at full rate, at least 64 MiB; never lowered.
fn largest_buffer(look: &Look<'_>) -> Advice {
    let (wanted, why) = match look.seen.on_the_way() {
        Ok(bytes) => (
            bytes.max(GOOD_BUFFER_BYTES),
            format!("holds what is on the way at {}; TCP's own sizing has its own limit", look.seen.told()),
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

fn squeezed(look: &Look<'_>, wanted: u64) -> Advice {
    match softnet(look, 2) {
        Err(why) => Advice::Unknown(why),
        Ok(0) => Advice::Right,
        Ok(times) => look.at_least(wanted, format!("{times} rounds of receiving ended with packets left since the boot (/proc/net/softnet_stat, column 3)")),
    }
}

/// A column of softnet_stat, from 0, over all CPUs.
fn softnet(look: &Look<'_>, column: usize) -> Result<u64, String> {
    let text = look.seen.sysroot.text("/proc/net/softnet_stat")?;
    let of_line = |line: &str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
    text.lines()
        .map(|line| {
            of_line(line).ok_or_else(|| "/proc/net/softnet_stat: not in a form that is known".to_string())
        })
        .sum()
}
