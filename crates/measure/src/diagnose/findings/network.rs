//! Findings about the network: drops, loss, MTU, a link that is down, congestion control; and a window that held TCP:
//! what was under way, what the link needs, and the value to set.

use super::super::product::Finding;
use super::Context;
use crate::measure::{LimitedBy, Measurement, Stage};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_machine::rates::ethernet::{Stack, goodput_share, payload_bytes};
use linerate_machine::topology::line_rate;
use linerate_model::plan::PathPlan;
use linerate_model::plan::long_path::CongestionControl;
use linerate_model::verdict::thresholds::{LOST, WINDOW_CLOSED};
use serde_json::json;

/// TCP segments below this share of what the MTU holds mean a smaller MTU on the way.
const SEGMENT: f64 = 0.9;
/// So many times what is kept over minutes is worth a word.
const MUCH_LESS: f64 = 1.25;
/// A receive buffer that holds some milliseconds of 100 Gb/s.
const GOOD_BUFFER_BYTES: u64 = 64 << 20;

/// Below this round trip a window that holds TCP has other reasons than the way's length: a receiver that is late.
const LONG_SECONDS: f64 = 0.002;

/// `udp-receive-buffer`: the receiving socket's buffer overflowed.
pub(super) fn receive_buffer(context: &Context) -> Vec<Finding> {
    let drops = |figure: &Measurement| figure.receiver.as_ref().map_or(0, |receiver| receiver.socket_drops);
    let dropping = context.figures.all.iter().filter(|figure| drops(figure) > 0);
    let Some(worst) = dropping.max_by(|a, b| a.loss.total_cmp(&b.loss).then(drops(a).cmp(&drops(b)))) else {
        return Vec::new();
    };
    let Some(receiver) = &worst.receiver else { return Vec::new() };
    let wanted = GOOD_BUFFER_BYTES.max(receiver.receive_buffer_bytes.saturating_mul(4)).min(1 << 30);
    vec![Finding::loss("udp-receive-buffer", format!(
            "{}’s socket buffer of {} overflowed {} in “{}”: {:.2} % of what was sent is lost",
            if receiver.host.is_empty() { "the receiver" } else { &receiver.host },
            show_size(receiver.receive_buffer_bytes),
            counted(receiver.socket_drops, "time"),
            worst.name,
            worst.loss * 100.0
        )).evidence(json!({
            "measurement": worst.name, "socket_drops": receiver.socket_drops, "datagrams": receiver.datagrams,
            "receive_buffer_bytes": receiver.receive_buffer_bytes, "loss": worst.loss, "busiest_thread": receiver.busiest_thread,
        })).remedy(format!(
            "on the receiver: `linerate tune apply --finding udp-receive-buffer` (or `sysctl -w \
             net.core.rmem_max={wanted}`), then start the agent again"
        )).gain(worst.loss / (1.0 - worst.loss.min(0.99)) * worst.bytes_per_second)]
}

/// `udp-loss`: datagrams vanished between the two sockets.
pub(super) fn loss(context: &Context) -> Vec<Finding> {
    let vanished = |figure: &&Measurement| {
        let drops = figure.receiver.as_ref().map_or(0, |receiver| receiver.socket_drops);
        figure.protocol == Some(Protocol::Udp) && figure.loss >= LOST && drops == 0
    };
    let Some(worst) = context.figures.all.iter().filter(vanished).max_by(|a, b| a.loss.total_cmp(&b.loss))
    else {
        return Vec::new();
    };
    vec![Finding::loss("udp-loss", format!(
            "{:.2} % of the datagrams of “{}” were lost on the way; the receiver's socket dropped none",
            worst.loss * 100.0,
            worst.name
        )).evidence(json!({ "measurement": worst.name, "loss": worst.loss, "bytes_per_second": worst.bytes_per_second })).remedy("look for drops of the NICs and switches (`ethtool -S`, `tc -s qdisc`), or send slower")]
}

/// `loss-over-time`: the losses that were counted on a far way let TCP keep less over minutes than the rounds showed,
/// which are the first seconds of a flow. Those of one round trip are one: what a queue drops at a time weighs little.
pub(super) fn loss_over_time(context: &Context) -> Vec<Finding> {
    let control = CongestionControl::of(context.machine, context.goal);
    let Some(figure) = context.figures.path(Protocol::Tcp) else { return Vec::new() };
    let (rate, tcp) = (figure.bytes_per_second, figure.evidence().tcp);
    let Some(flow) = tcp.lossy(&control) else { return Vec::new() };
    let Some(kept) = flow.response().filter(|kept| rate >= MUCH_LESS * kept) else { return Vec::new() };
    let share = flow.loss.share();
    vec![
        Finding::note(
            "loss-over-time",
            format!(
                "TCP loses {:.2} % of its segments, one now and then, over a round trip of {:.0} ms: {} keeps {} over \
                 minutes with that (the response function of {}), less than the {} of these first seconds",
                100.0 * share.unwrap_or(0.0),
                1e3 * flow.round_trip_seconds,
                control.name(),
                show_bytes_rate(kept),
                control.response_source(),
                show_bytes_rate(rate)
            ),
        )
        .evidence(json!({
            "losses": flow.loss.losses, "segments": flow.loss.segments, "loss_share": share,
            "round_trip_seconds": flow.round_trip_seconds, "bytes_per_second": rate, "kept_bytes_per_second": kept,
        }))
        .remedy(
            "move long files over several streams; `linerate network` tries whether another congestion control \
             carries more on this way",
        ),
    ]
}

/// `mtu-mismatch`: the ends differ, or TCP's segments tell of a smaller MTU in between.
pub(super) fn mtu_mismatch(context: &Context) -> Vec<Finding> {
    if context.plan.loopback {
        return Vec::new();
    }
    context.plan.paths.iter().filter_map(|path| mismatch(context, path)).collect()
}

fn mismatch(context: &Context, path: &PathPlan) -> Option<Finding> {
    let mtu = *path.mtu.known()?;
    let ipv6 = path.peer.is_ipv6();
    let full = payload_bytes(mtu, Stack::tcp(ipv6))?;
    let segment = largest_segment(context, &path.resource);
    let peer = path.peer_mtu.known().copied().filter(|peer| *peer != mtu);
    let small_segment = segment.filter(|segment| f64::from(*segment) < SEGMENT * f64::from(full));
    let text = match (peer, small_segment) {
        (None, None) => return None,
        (Some(peer), _) => format!("{} has an MTU of {mtu}, the peer's interface {peer}", path.name),
        (None, Some(segment)) => format!(
            "{} has an MTU of {mtu}, but TCP sends segments of {segment} bytes, not {full}: something on the \
             way has a smaller MTU",
            path.name
        ),
    };
    let smallest = peer
        .unwrap_or(mtu)
        .min(mtu)
        .min(small_segment.unwrap_or(mtu).saturating_add(Stack::tcp(ipv6).header_bytes()));
    let share = |mtu| goodput_share(mtu, Stack::tcp(ipv6), false);
    let faster = share(mtu).zip(share(smallest)).map_or(0.0, |(large, small)| large / small - 1.0);
    let capacity = context.headline().resource(&path.resource).map_or(0.0, |nic| nic.capacity);
    Some(Finding::slow("mtu-mismatch", text).evidence(json!({
            "path": path.name, "mtu": mtu, "peer_mtu": path.peer_mtu.known(), "segment_bytes": segment, "full_segment_bytes": full,
        })).remedy(format!(
            "set one MTU on both hosts and every switch between them (`linerate tune apply --setting \
             mtu:{0}={mtu}`, or `ip link set {0} mtu {mtu}`), and check with `ping -M do -s {1}`",
            path.nic.as_deref().unwrap_or(&path.name),
            mtu.saturating_sub(if ipv6 { 48 } else { 28 })
        )).gain(if context.binds(&path.resource) {
            context.gain_with(&path.resource, capacity * (1.0 + faster))
        } else {
            0.0
        }))
}

/// The largest TCP segment that any connection of a NIC used.
fn largest_segment(context: &Context, nic: &str) -> Option<u32> {
    let tcp = context.figures.all.iter().filter(|figure| figure.protocol == Some(Protocol::Tcp));
    let workers = tcp.flat_map(|figure| &figure.workers).filter(|worker| worker.path.as_deref() == Some(nic));
    workers.map(|worker| worker.segment_bytes).max().filter(|bytes| *bytes > 0)
}

/// `nic-down`: an interface of a path is down.
pub(super) fn nic_down(context: &Context) -> Vec<Finding> {
    let used = |name: &str| context.plan.paths.iter().any(|path| path.nic.as_deref() == Some(name));
    let down = context.machine.nics.iter().filter(|nic| {
        used(&nic.name) && nic.state.known().is_some_and(|state| state == "down" || state == "lowerlayerdown")
    });
    down.map(|nic| {
        Finding::slow("nic-down", format!("{} is down", nic.name))
            .evidence(json!({ "nic": nic.name, "state": nic.state.known() }))
            .remedy(format!(
                "`ip link set {} up`; if it stays down, look at the cable and the other end",
                nic.name
            ))
    })
    .collect()
}

/// `congestion-control`: BBR paces each connection; on a short path the window-based ones are often several
/// times faster. Where both were tried, the figures speak.
pub(super) fn congestion_control(context: &Context) -> Vec<Finding> {
    // What loopback likes says nothing of a network.
    if context.plan.loopback {
        return Vec::new();
    }
    let system = context.machine.kernel.tcp_congestion_control.known().map_or("", String::as_str);
    let used = context.goal.congestion_control.as_deref().unwrap_or(system);
    if context.figures.all.iter().any(|figure| !figure.congestion_controls.is_empty()) {
        let tried = |figure: &Measurement| super::streams::congestion_control(&figure.congestion_controls);
        return context.figures.all.iter().find_map(tried).into_iter().collect();
    }
    let network =
        |figure: &&Measurement| figure.stage == Stage::Network && figure.protocol == Some(Protocol::Tcp);
    let fastest =
        context.figures.all.iter().filter(network).map(|figure| figure.bytes_per_second).fold(0.0, f64::max);
    if used != "bbr" || fastest <= 0.0 {
        return Vec::new();
    }
    vec![
        Finding::note(
            "congestion-control",
            format!(
                "TCP ran with bbr, at most at {}: it paces each connection, and on a short path without loss \
             cubic is often faster",
                show_bytes_rate(fastest)
            ),
        )
        .evidence(json!({ "congestion_control": used, "bytes_per_second": fastest }))
        .remedy(
            "compare with `--congestion-control cubic`, or have both tried in turns: `linerate tune \
                 measure --setting tcp-congestion-control=cubic`",
        ),
    ]
}

/// `tcp-window`: a buffer here or at the receiver is smaller than what a long path has to have under way.
pub(super) fn tcp_window(context: &Context) -> Option<Finding> {
    let is_limited = |figure: &&Measurement| {
        figure.protocol == Some(Protocol::Tcp) && matches!(figure.held_by, Some(LimitedBy::Window))
    };
    let figure = context
        .figures
        .all
        .iter()
        .filter(is_limited)
        .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
    let evidence = figure.evidence().tcp;
    let trip = evidence.least_round_trip_seconds.filter(|trip| *trip >= LONG_SECONDS)?;
    let streams = f64::from(evidence.connections.max(1));
    let each = figure.bytes_per_second / streams;
    let link: Option<f64> = context.plan.paths.iter().map(|path| rated(context, path.nic.as_deref()?)).sum();
    // Where no link's rate is known, what twice the rate needs.
    let goal = link.unwrap_or(2.0 * figure.bytes_per_second).max(figure.bytes_per_second);
    let needed = (goal / streams * trip) as u64;
    let buffer = needed.saturating_mul(2).next_power_of_two().min(i32::MAX as u64);
    let receiver = evidence.receive_window_share.unwrap_or(0.0) >= WINDOW_CLOSED;
    let (whose, setting) = match (receiver, figure.incoming) {
        (true, false) => ("the receiver's buffer", "net.ipv4.tcp_rmem on the receiver"),
        (true, true) => ("this host's receive buffer", "net.ipv4.tcp_rmem here"),
        (false, false) => ("the send buffer", "net.ipv4.tcp_wmem here"),
        (false, true) => ("the sender's buffer", "net.ipv4.tcp_wmem on the sender"),
    };
    let (own, there, other) = match figure.incoming {
        false => ("--setting tcp-wmem", "receiver", "--setting tcp-rmem"),
        true => ("--setting tcp-rmem", "sender", "--setting tcp-wmem"),
    };
    let (milliseconds, rate) = (trip * 1e3, show_bits_rate(goal).replace(' ', ""));
    let to = if link.is_some() { "the link's" } else { "twice as much, of" };
    let of = if streams > 1.0 { format!("each of {streams} streams") } else { "one stream".into() };
    Some(
        Finding::slow(
            "tcp-window",
            format!(
                "{whose} held “{}”: {of} had {} under way in a round trip of {milliseconds:.1} ms, which is {}; {to} {} \
                 needs {} of each",
                figure.name,
                show_size((each * trip) as u64),
                show_bits_rate(each),
                show_bits_rate(goal),
                show_size(needed),
            ),
        )
        .evidence(json!({
            "measurement": figure.name, "round_trip_seconds": trip, "streams": streams, "bytes_per_second": figure.bytes_per_second,
            "needed_bytes": needed, "buffer_bytes": buffer, "receiver": receiver,
        }))
        .remedy(format!(
            "set the third figure of {setting} to {buffer}: here `linerate tune apply {own} --rtt \
             {milliseconds:.0}ms --rate {rate}`, on the {there} the same with `{other}`; or use more streams"
        ))
        .gain((goal - figure.bytes_per_second).max(0.0)),
    )
}

/// The rate of a NIC's link, bytes per second.
fn rated(context: &Context, name: &str) -> Option<f64> {
    let nic = context.machine.nic(name)?;
    line_rate(nic).known().copied()
}
