//! TCP and UDP: `net.ipv4`.

use super::sockets::round_up;
use super::{
    Advice, CatalogueContext, Risk, Setting, SettingGroup, SettingStage, TCP_RECEIVE, TCP_SEND, UDP_RECEIVE,
    Where,
};

const IP: &str = "https://docs.kernel.org/networking/ip-sysctl.html";
const MOST: u64 = i32::MAX as u64;
/// The kernel counts the memory of `tcp_mem` and `udp_mem` in pages.
const PAGE_BYTES: u64 = 4096;
/// A window-based congestion control is often faster below this round trip.
const SHORT_SECONDS: f64 = 0.005;

const fn entry(
    id: &'static str,
    what: &'static str,
    name: &'static str,
    advice: fn(&CatalogueContext<'_>) -> Advice,
    risk: Risk,
    harm: &'static str,
) -> Setting {
    let group = SettingGroup { stage: SettingStage::Network, figure: TCP_SEND };
    group.entry(id, what, Where::Sysctl(name), advice, IP, harm).with_risk(risk)
}

pub(crate) const ENTRIES: &[Setting] = &[
    Setting {
        findings: &["tcp-receive-buffer", "tcp-window"],
        figure: TCP_RECEIVE,
        ..entry(
            "tcp-rmem",
            "receive buffer of a TCP connection: least, first, most",
            "net.ipv4.tcp_rmem",
            buffer,
            Risk::Medium,
            "each connection may take as much memory",
        )
    },
    Setting {
        findings: &["tcp-window"],
        ..entry(
            "tcp-wmem",
            "send buffer of a TCP connection: least, first, most",
            "net.ipv4.tcp_wmem",
            buffer,
            Risk::Medium,
            "each connection may take as much memory",
        )
    },
    entry(
        "tcp-mem",
        "memory of all TCP connections together, in pages",
        "net.ipv4.tcp_mem",
        |look| pages(look, 16),
        Risk::Medium,
        "too little makes TCP drop, too much the machine swap",
    ),
    Setting {
        figure: UDP_RECEIVE,
        ..entry(
            "udp-mem",
            "memory of all UDP sockets together, in pages",
            "net.ipv4.udp_mem",
            |look| pages(look, 8),
            Risk::Medium,
            "too little makes UDP drop, too much the machine swap",
        )
    },
    Setting {
        findings: &["congestion-control"],
        ..entry(
            "tcp-congestion-control",
            "how a TCP connection finds its rate",
            "net.ipv4.tcp_congestion_control",
            congestion,
            Risk::Medium,
            "fairness towards other traffic",
        )
    },
    entry(
        "tcp-mtu-probing",
        "find the path's MTU where no message reports it: 0 off, 1 after a black hole, 2 always",
        "net.ipv4.tcp_mtu_probing",
        |look| {
            if look.has_mtu_above(1500) && look.now == "0" {
                return Advice::change(
                    "1",
                    "an interface here has jumbo frames: a smaller link on the way would swallow them in \
                     silence",
                );
            }
            Advice::Right
        },
        Risk::Low,
        "a connection that lost packets for another reason may shrink its segments",
    ),
    entry(
        "tcp-no-metrics-save",
        "do not remember figures of a peer from one connection to the next",
        "net.ipv4.tcp_no_metrics_save",
        |look| look.exactly("1", "one bad transfer would slow the start of the next one to the same peer"),
        Risk::Low,
        "connections to peers that are known start as others",
    ),
    entry(
        "tcp-slow-start-after-idle",
        "begin again with a small window after a pause",
        "net.ipv4.tcp_slow_start_after_idle",
        |look| look.exactly("0", "a stream that pauses for a moment keeps its window"),
        Risk::Low,
        "a burst after each pause",
    ),
    entry(
        "tcp-notsent-lowat",
        "bytes not yet sent above which a socket counts as full",
        "net.ipv4.tcp_notsent_lowat",
        |look| match look.facts.rate() {
            Err(why) => Advice::Unknown(why.to_string()),
            Ok(rate) => look.at_least(
                round_up((rate * 1e-3) as u64).clamp(131_072, MOST),
                format!(
                    "below a millisecond of {} a sender that is late for its turn leaves the link idle",
                    look.facts.basis()
                ),
            ),
        },
        Risk::Low,
        "data waits longer in the send buffer",
    ),
    entry(
        "local-port-range",
        "first and last port of connections that go out",
        "net.ipv4.ip_local_port_range",
        |_| Advice::leave("28,000 connections to one address fit; more streams than that want 1024 65535"),
        Risk::Low,
        "a port that a server wants may be taken",
    ),
    Setting {
        range: Some((0, 1)),
        ..entry(
            "tcp-sack",
            "selective acknowledgements (RFC 2018)",
            "net.ipv4.tcp_sack",
            |look| {
                look.never_else(
                    "1",
                    "stale advice: without them each loss costs a round trip, and the \
                                      window of a fast path never recovers",
                )
            },
            Risk::Low,
            "none known",
        )
    },
    Setting {
        range: Some((0, 2)),
        ..entry(
            "tcp-timestamps",
            "timestamps (RFC 7323)",
            "net.ipv4.tcp_timestamps",
            |look| match look.now {
                "0" => Advice::stale(
                    "1",
                    "stale advice: they guard the sequence numbers, which wrap within 0.4 s at 100 Gb/s, and \
                     measure the round trip",
                ),
                _ => Advice::Right,
            },
            Risk::Low,
            "12 bytes a segment",
        )
    },
    Setting {
        range: Some((0, 1)),
        ..entry(
            "tcp-window-scaling",
            "windows above 64 KiB (RFC 7323)",
            "net.ipv4.tcp_window_scaling",
            |look| {
                look.never_else(
                    "1",
                    "stale advice: without it a connection carries 64 KiB a round trip, whatever the buffers",
                )
            },
            Risk::Low,
            "none known",
        )
    },
    Setting {
        range: Some((0, 1)),
        findings: &["tcp-receive-buffer"],
        figure: TCP_RECEIVE,
        ..entry(
            "tcp-moderate-rcvbuf",
            "the kernel sizes receive buffers",
            "net.ipv4.tcp_moderate_rcvbuf",
            |look| {
                look.never_else("1", "stale advice: a connection would stay at the first size of tcp_rmem")
            },
            Risk::Low,
            "none known",
        )
    },
];

/// Twice what is under way: the kernel keeps a part of the buffer for what each packet costs it. Never
/// lowered, and never above what the memory has for a hundred connections.
fn buffer(look: &CatalogueContext<'_>) -> Advice {
    let Some([least, first, most]) = look.numbers().and_then(|numbers| <[u64; 3]>::try_from(numbers).ok())
    else {
        return Advice::Unknown(format!("“{}” is not three numbers", look.now));
    };
    let bytes = match look.facts.on_the_way() {
        Ok(bytes) => bytes,
        Err(why) => return Advice::Unknown(why.to_string()),
    };
    let memory = look.facts.machine.memory.total_bytes.known().map_or(u64::MAX, |total| total / 100);
    let wanted = round_up(bytes.saturating_mul(2)).min(MOST).min(memory.max(6_291_456));
    if most >= wanted {
        return Advice::Right;
    }
    let why =
        format!("twice what is on the way at {}, so that one connection can fill it", look.facts.basis());
    Advice::change(format!("{least} {first} {wanted}"), why)
}

/// The kernel's own sizes, where somebody wrote bytes for pages. `share`: the kernel starts from this part of
/// the memory (`tcp_init_mem` in net/ipv4/tcp.c, `udp_init` in net/ipv4/udp.c).
fn pages(look: &CatalogueContext<'_>, share: u64) -> Advice {
    let Some(numbers) = look.numbers() else {
        return Advice::Unknown(format!("“{}” is not three numbers", look.now));
    };
    let Some(total) = look.facts.machine.memory.total_bytes.known().map(|bytes| bytes / PAGE_BYTES) else {
        return Advice::Unknown("the size of the memory is not known".into());
    };
    if numbers.iter().all(|pages| *pages <= total) {
        return Advice::Right;
    }
    let limit = (total / share).max(128);
    let least = limit / 4 * 3;
    Advice::stale(
        format!("{least} {limit} {}", least * 2),
        format!(
            "stale advice: these are pages of 4 KiB, not bytes, and the machine has {total}; this is the \
             kernel's own size"
        ),
    )
}

fn congestion(look: &CatalogueContext<'_>) -> Advice {
    let available = look.facts.machine.kernel.tcp_available_congestion_control.known();
    let cubic = available.is_some_and(|all| all.iter().any(|name| name == "cubic"));
    let short = look.facts.goal.round_trip.is_some_and(|time| time.as_secs_f64() < SHORT_SECONDS);
    if look.now == "bbr" && cubic && short {
        return Advice::change(
            "cubic",
            "bbr paces each connection; on a short path without loss cubic is often faster: measure both",
        );
    }
    Advice::leave("measure which one is faster: linerate network --congestion-control cubic,bbr")
}
