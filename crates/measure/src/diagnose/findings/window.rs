//! A window that held TCP: the finding says what was under way, what the link needs, and the value to set.

use super::super::product::Finding;
use super::Context;
use crate::measure::{LimitedBy, Measurement};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_machine::topology::line_rate;
use linerate_model::verdict::thresholds::WINDOW_CLOSED;
use serde_json::json;

/// Below this round trip a window that holds TCP has other reasons than the way's length: a receiver that is late.
const LONG_SECONDS: f64 = 0.002;

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
