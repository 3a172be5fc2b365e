//! A long path: what TCP's windows and the loss on the way let through, and what to change. Arithmetic alone: a
//! stream may have one window under way in a round trip; where packets are lost by chance, the window itself is as
//! large as loss lets it be: for Reno by Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance
//! Algorithm", CCR 27(3), 1997; for CUBIC by RFC 9438, section 5.2.

mod chance_loss;
mod words;

pub use chance_loss::{FEWEST_LOSSES, KeptRate, LossCount, LossyFlow};

use super::Goal;
use super::flow::{Flow, FlowEnd, FlowPlan};
use super::parts::{DeviceKind, MachineParts};
use crate::verdict::LimitKind;
use crate::verdict::thresholds::{LOSS_AGREES_FROM, LOSS_AGREES_TO};
use linerate_facts::units::show_size;
use linerate_machine::probe::Machine;
use linerate_machine::rates::ethernet::{Stack, payload_bytes};
use serde::Serialize;

/// A sender that waits for room is woken when a third of its buffer is free (`sk_stream_min_wspace` in Linux's
/// include/net/sock.h): the buffer holds between two thirds and all.
const OF_SEND_BUFFER: f64 = 5.0 / 6.0;
/// What Linux announces of a receive buffer: the rest is for its own book-keeping (`tcp_adv_win_scale` of 1,
/// https://docs.kernel.org/networking/ip-sysctl.html; since Linux 6.6 by what packets really take, often more).
const OF_RECEIVE_BUFFER: f64 = 0.5;
/// Segments that a stream begins with (RFC 6928).
const FIRST_SEGMENTS: f64 = 10.0;
/// CUBIC's C and β (RFC 9438, sections 4.1 and 4.6).
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
/// More streams than this fill no link in practice.
const MOST_STREAMS: f64 = 1024.0;
/// A link that this part of a stream more would fill is full.
const SLACK: f64 = 0.05;

/// How a sender answers a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    Reno,
    Cubic,
    /// Loss does not set its rate, or not in a way that is known.
    Other(String),
}

impl CongestionControl {
    /// By Linux's name of it.
    pub fn named(name: &str) -> Self {
        match name {
            "reno" => CongestionControl::Reno,
            "cubic" => CongestionControl::Cubic,
            other => CongestionControl::Other(other.to_string()),
        }
    }

    /// Of our TCP sockets: what the user has named, else the system's.
    pub fn of(machine: &Machine, goal: &Goal) -> Self {
        let system = machine.kernel.tcp_congestion_control.known();
        CongestionControl::named(goal.congestion_control.as_ref().or(system).map_or("", String::as_str))
    }

    /// Linux's name of it.
    pub fn name(&self) -> &str {
        match self {
            CongestionControl::Reno => "reno",
            CongestionControl::Cubic => "cubic",
            CongestionControl::Other(name) => name,
        }
    }

    /// Who found how its rate follows from loss.
    pub fn response_source(&self) -> &'static str {
        match self {
            CongestionControl::Reno => "Mathis et al. 1997",
            CongestionControl::Cubic => "RFC 9438",
            CongestionControl::Other(_) => "nobody",
        }
    }

    /// Segments under way on the average where this share of them is lost by chance; none: not known.
    pub fn window_segments(&self, loss: f64, round_trip_seconds: f64) -> Option<f64> {
        let reno = (1.5 / loss).sqrt();
        let factor = (CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA))).powf(0.25);
        let cubic = factor * (round_trip_seconds / loss).powf(0.75);
        match self {
            CongestionControl::Reno => Some(reno),
            // It is never slower than Reno would be (RFC 9438, section 4.3).
            CongestionControl::Cubic => Some(cubic.max(reno)),
            CongestionControl::Other(_) => None,
        }
    }
}

/// Streams of which one carries so much that fill a link, both in bytes per second; none where more than 1024 would have
/// to, or where it is not known.
pub fn streams_to_fill(link: f64, one_stream: f64) -> Option<u32> {
    let needed = (link / one_stream - SLACK).ceil();
    (needed.is_finite() && needed <= MOST_STREAMS).then(|| needed.max(1.0) as u32)
}

/// What bounds the bytes of a stream that are under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamWindow {
    /// All of it is used.
    Given(f64),
    /// The largest send buffer, bytes.
    SendBuffer(f64),
    /// The largest receive buffer, bytes.
    ReceiveBuffer(f64),
}

impl StreamWindow {
    /// Bytes under way on the average.
    pub fn usable_bytes(self) -> f64 {
        match self {
            StreamWindow::Given(bytes) => bytes,
            StreamWindow::SendBuffer(bytes) => bytes * OF_SEND_BUFFER,
            StreamWindow::ReceiveBuffer(bytes) => bytes * OF_RECEIVE_BUFFER,
        }
    }

    fn words(self) -> String {
        let show = |bytes: f64| show_size(bytes as u64);
        match self {
            StreamWindow::Given(bytes) => format!("a window of {}", show(bytes)),
            StreamWindow::SendBuffer(bytes) => {
                format!("a send buffer of {} at most (net.ipv4.tcp_wmem here)", show(bytes))
            }
            StreamWindow::ReceiveBuffer(bytes) => {
                format!("a receive buffer of {} at most (net.ipv4.tcp_rmem here)", show(bytes))
            }
        }
    }
}

/// The way that is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct LongPathSpec {
    pub round_trip_seconds: f64,
    /// Share of the packets that are lost by chance.
    pub loss: Option<f64>,
    pub streams: u32,
    /// None: not known.
    pub window: Option<StreamWindow>,
    /// None: not known.
    pub congestion_control: Option<CongestionControl>,
}

/// What the way lets through.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LongPath {
    pub round_trip_seconds: f64,
    pub loss: Option<f64>,
    pub streams: u32,
    /// Payload of all streams, bytes per second; none: neither the link nor a window is known.
    pub bytes_per_second: Option<f64>,
    /// Where loss sets it: between these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What limits: the window, loss, or another part of the flow.
    pub kind: LimitKind,
    /// What the window alone lets through, of all streams, bytes per second.
    pub by_window: Option<f64>,
    /// What loss alone lets through.
    pub by_loss: Option<f64>,
    /// Bytes of a stream that have to be under way for all that the rest of the flow carries.
    pub window_to_fill_bytes: Option<u64>,
    /// The largest send and receive buffer that allow it, by Linux.
    pub buffers_to_fill_bytes: Option<[u64; 2]>,
    /// Streams of what one carries now that carry all of it.
    pub streams_to_fill: Option<u32>,
    /// Until a stream has what it gets; counted out where linerate measures.
    pub slow_start_seconds: Option<f64>,
    /// All of it in sentences.
    pub sentences: Vec<String>,
}

/// What a long path lets through of a flow whose hardware is planned.
pub fn long_path(parts: &MachineParts, plan: &FlowPlan, flow: &Flow, spec: &LongPathSpec) -> LongPath {
    let trip = spec.round_trip_seconds;
    let streams = f64::from(spec.streams.max(1));
    let segment = segment_bytes(parts, flow);
    let link = plan.likely.bytes_per_second.known().copied();
    let by_window = spec.window.map(|window| streams * window.usable_bytes() / trip);
    let loss = spec.loss.filter(|loss| *loss > 0.0);
    let segments =
        loss.zip(spec.congestion_control.as_ref()).and_then(|(loss, how)| how.window_segments(loss, trip));
    let by_loss = segments.map(|segments| streams * segments * segment / trip);
    let all = [(link, LimitKind::Unknown), (by_window, LimitKind::Window), (by_loss, LimitKind::Loss)];
    let least = all
        .into_iter()
        .filter_map(|(rate, kind)| Some((rate?, kind)))
        .min_by(|one, other| one.0.total_cmp(&other.0));
    let kind = match least {
        Some((_, LimitKind::Unknown)) => kind_of_hardware(plan),
        Some((_, kind)) => kind,
        None => LimitKind::Unknown,
    };
    let of_path = matches!(kind, LimitKind::Window | LimitKind::Loss);
    let rate = least.map(|(rate, _)| rate);
    let upper = [link, by_window].into_iter().flatten().fold(f64::INFINITY, f64::min);
    let interval = rate
        .filter(|_| kind == LimitKind::Loss)
        .map(|rate| [rate * LOSS_AGREES_FROM, (rate * LOSS_AGREES_TO).min(upper)]);
    let fill = link.map(|link| link * trip / streams);
    let buffers =
        fill.map(|bytes| [bytes / OF_SEND_BUFFER, bytes / OF_RECEIVE_BUFFER].map(|one| one.ceil() as u64));
    let needed = link.zip(rate).filter(|_| of_path);
    let grown = rate.map(|rate| rate * trip / streams / (FIRST_SEGMENTS * segment));
    let mut path = LongPath {
        round_trip_seconds: trip,
        loss: spec.loss,
        streams: spec.streams.max(1),
        bytes_per_second: rate,
        interval,
        kind,
        by_window,
        by_loss,
        window_to_fill_bytes: fill.map(|bytes| bytes.ceil() as u64),
        buffers_to_fill_bytes: buffers,
        streams_to_fill: needed.and_then(|(link, rate)| streams_to_fill(link, rate / streams)),
        slow_start_seconds: grown.map(|times| times.max(1.0).log2().ceil() * trip),
        sentences: Vec::new(),
    };
    path.sentences = path.words(spec, segment, link);
    path
}

/// Payload of a segment by the smallest MTU of the flow's NICs.
fn segment_bytes(parts: &MachineParts, flow: &Flow) -> f64 {
    let is_end = |id: &String| {
        flow.from.iter().chain(&flow.to).any(|end| matches!(end, FlowEnd::Device(device) if device == id))
    };
    let ends = parts.devices.iter().filter(|device| is_end(&device.id()));
    let of_nic = |what: &DeviceKind| match what {
        DeviceKind::Nic { mtu, ipv6, .. } => {
            payload_bytes(mtu.known().copied().unwrap_or(super::flow::USUAL_MTU), Stack::tcp(*ipv6))
        }
        _ => None,
    };
    let least = ends.filter_map(|device| of_nic(&device.what)).min();
    f64::from(least.unwrap_or(1448))
}

/// What limits the hardware.
fn kind_of_hardware(plan: &FlowPlan) -> LimitKind {
    let first = plan.likely.cut.first();
    let resource = first.and_then(|id| plan.resources.iter().find(|resource| resource.id == *id));
    resource.map_or(LimitKind::Unknown, |resource| resource.kind.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flow::{Method, plan_flow};
    use crate::plan::machine_file;
    use linerate_facts::protocol::Protocol;

    /// One port of 10 Gb/s: 9.90 Gb/s of TCP payload at an MTU of 9000.
    const SERVER: &str = "[processor]\ncores = 64\n[memory]\nrate = \"200GB/s\"\n\
        [[nic]]\nname = \"eth\"\npcie = \"4.0 x8\"\nrate = \"10G\"\nmtu = 9000\n";

    fn path(mtu: u32, spec: LongPathSpec) -> LongPath {
        let text = SERVER.replace("9000", &mtu.to_string());
        let parts = machine_file::parse(&text).expect("a machine");
        let ends: [&[&str]; 2] = [&["memory"], &["nic"]];
        let flow = Flow::between(&parts, ends, Protocol::Tcp, Method::Direct).expect("ends");
        long_path(&parts, &plan_flow(&parts, &flow), &flow, &spec)
    }

    fn spec(milliseconds: f64, streams: u32, window: Option<StreamWindow>) -> LongPathSpec {
        LongPathSpec {
            round_trip_seconds: milliseconds / 1e3,
            loss: None,
            streams,
            window,
            congestion_control: Some(CongestionControl::Cubic),
        }
    }

    fn gigabits(path: &LongPath) -> f64 {
        path.bytes_per_second.expect("a rate") * 8.0 / 1e9
    }

    /// ESnet's table of one path of 53 ms and 10 Gb/s (https://fasterdata.es.net/data-transfer-tools/): scp 0.14 Gb/s,
    /// scp with the HPN patches 1.2 Gb/s, Globus with 8 streams 6.6 Gb/s. The windows are not published; these are the
    /// round sizes that give the rates: 1 MiB for scp, whose channel has 2 MiB at most (OpenSSH's channels.h) and
    /// asks for more before it is empty; 8 MiB for the patched one; 6.5 MB buffers for each of eight streams.
    #[test]
    fn the_published_table_of_53_ms_is_windows() {
        let scp = path(9000, spec(53.0, 1, Some(StreamWindow::Given(f64::from(1 << 20)))));
        assert!((0.13..0.17).contains(&gigabits(&scp)), "{}", gigabits(&scp));
        assert_eq!(scp.kind, LimitKind::Window);
        let hpn = path(9000, spec(53.0, 1, Some(StreamWindow::Given(f64::from(8 << 20)))));
        assert!((1.1..1.3).contains(&gigabits(&hpn)), "{}", gigabits(&hpn));
        // A stream like HPN's, eight times, would be 10.1 Gb/s: the link.
        let eight = path(9000, spec(53.0, 8, Some(StreamWindow::Given(f64::from(8 << 20)))));
        assert_eq!(eight.kind, LimitKind::Nic);
        let globus = path(9000, spec(53.0, 8, Some(StreamWindow::SendBuffer(f64::from(6_500_000)))));
        assert!((6.3..6.9).contains(&gigabits(&globus)), "{}", gigabits(&globus));
        assert_eq!(hpn.streams_to_fill, Some(8));
        assert_eq!(hpn.window_to_fill_bytes.map(|bytes| bytes / 1_000_000), Some(65));
    }

    #[test]
    fn as_many_streams_as_fill_a_link_but_for_a_little() {
        assert_eq!(streams_to_fill(100.0, 25.0), Some(4));
        assert_eq!(streams_to_fill(101.0, 25.0), Some(4), "a twentieth of a stream more is none");
        assert_eq!(streams_to_fill(102.0, 25.0), Some(5));
        assert_eq!(streams_to_fill(1.0, 25.0), Some(1));
        assert_eq!((streams_to_fill(1024.0, 1.0), streams_to_fill(1026.0, 1.0)), (Some(1024), None));
        assert_eq!((streams_to_fill(1.0, 0.0), streams_to_fill(0.0, 0.0)), (None, None));
    }

    /// RFC 9438, table 1 (Reno) and table 2 (CUBIC, RTT 0.1 s): average windows in segments.
    #[test]
    fn response_functions_are_those_of_the_rfc() {
        let windows = |how: CongestionControl, trip: f64| {
            [1e-2, 1e-3, 1e-4, 1e-5, 1e-6].map(|loss| how.window_segments(loss, trip).expect("known").round())
        };
        assert_eq!(windows(CongestionControl::Reno, 0.1), [12.0, 39.0, 122.0, 387.0, 1225.0]);
        assert_eq!(windows(CongestionControl::Cubic, 0.1), [12.0, 39.0, 187.0, 1054.0, 5926.0]);
        assert_eq!(CongestionControl::named("bbr").window_segments(1e-3, 0.1), None);
    }

    #[test]
    fn loss_is_named_with_its_interval_and_streams() {
        let lossy = |streams| LongPathSpec {
            loss: Some(1e-4),
            ..spec(50.0, streams, Some(StreamWindow::SendBuffer(64e6)))
        };
        let one = path(1500, lossy(1));
        assert_eq!(one.kind, LimitKind::Loss);
        // 122 segments of 1448 bytes each 50 ms.
        assert!((gigabits(&one) * 1e3 - 28.4).abs() < 0.5, "{}", gigabits(&one));
        let [low, high] = one.interval.expect("an interval");
        assert!(high / low <= 2.0 + 1e-9);
        assert_eq!(path(1500, lossy(8)).bytes_per_second, one.bytes_per_second.map(|rate| rate * 8.0));
        let text = one.sentences.join(" ");
        for part in ["the loss is the limit", "0.01 %", "50 ms", "streams like these", "bbr"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_window_says_what_to_set() {
        let one = path(9000, spec(50.0, 1, Some(StreamWindow::SendBuffer(4_194_304.0))));
        assert_eq!(one.kind, LimitKind::Window);
        assert!((gigabits(&one) * 1e3 - 559.0).abs() < 1.0, "{}", gigabits(&one));
        let text = one.sentences.join(" ");
        for part in ["net.ipv4.tcp_wmem", "linerate tune apply --rtt 50ms", "the window is the limit"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let unknown = path(9000, spec(50.0, 1, None));
        assert_eq!(unknown.kind, LimitKind::Nic);
        let text = unknown.sentences.join(" ");
        for part in ["the window is unknown", "59.0 MiB under way", "net.ipv4.tcp_rmem", "--window"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
