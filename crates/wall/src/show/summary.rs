//! What a screen tells at its end: as JSON and as text.

use super::WindowSummary;
use super::deadline::{Timing, nanos};
use super::screen::{Origin, Screen};
use super::socket::Granted;
use crate::control::ScreenReport;
use crate::geometry::{FrameRate, Size};
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_system::clock;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// A stream that has been silent for so long has ended with its server, where that is gone.
const ENDED_NANOS: i64 = 1_000_000_000;

/// `linerate wall show --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowSummary {
    pub schema: u32,
    pub version: String,
    pub screens: Vec<ScreenSummary>,
    /// CPU time of the whole process, seconds.
    pub cpu_seconds: f64,
    pub cpu_seconds_per_gb: Option<f64>,
}

/// One screen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScreenSummary {
    pub listen: SocketAddr,
    #[serde(flatten)]
    pub report: ScreenReport,
    /// From the first datagram of a stream to the last.
    pub seconds: f64,
    pub size: Option<Size>,
    /// `told`, `server` or `stream`: where the size and the rate come from.
    pub size_from: Option<String>,
    pub frames_per_second: Option<FrameRate>,
    pub rate_from: Option<String>,
    /// The stream that was believed last.
    pub ssrc: Option<u32>,
    pub source: Option<SocketAddr>,
    /// `clock`: timestamps are ticks of our clock; `arrival`: they are not, and time counts from the first
    /// frame.
    pub timing: Option<String>,
    pub latency_ms: f64,
    /// Of the foreign ones: no RTP video.
    pub datagrams_malformed: u64,
    /// Of frames that had been shown.
    pub datagrams_late: u64,
    /// With pixels beyond the frame.
    pub datagrams_outside: u64,
    /// Streams that were believed, one after the other.
    pub streams: u64,
    /// Times that a sender began to count again.
    pub restarts: u64,
    /// How many numbers the latest of all datagrams was behind the newest.
    pub reorder_depth: u64,
    /// Shown before their time, because a newer one needed the buffer.
    pub frames_early: u64,
    /// Begun before we listened: neither shown nor counted as torn.
    pub frames_joined_within: u64,
    pub frame_buffers: u64,
    pub receive_buffer_asked_bytes: u64,
    pub receive_buffer_bytes: u64,
    /// What the kernel dropped for want of buffer, in its unit (trains).
    pub socket_drops: u64,
    /// `stamp`, `file` or `server`; none without `--verify`.
    pub verified_by: Option<String>,
    /// Whole frames of which nobody says what they should be.
    pub frames_unproven: u64,
    /// A server was named and it answered.
    pub server_answered: Option<bool>,
    /// What became of the frames in its window, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSummary>,
    /// CPU time of this screen's thread, without that of its window, seconds.
    pub cpu_seconds: f64,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}

impl ScreenSummary {
    /// `server` is there where one was named, with what is wrong with the way to it.
    pub(super) fn of(
        screen: &Screen,
        listen: SocketAddr,
        granted: Granted,
        server: Option<Option<String>>,
        cpu: Duration,
    ) -> ScreenSummary {
        let Screen { tally, checker, size, rate, .. } = screen;
        let stream = screen.gate.stream();
        let size_told = size.or(screen.order.size.map(|size| (size, Origin::Told)));
        let mut summary = ScreenSummary {
            listen,
            report: screen.report(),
            seconds: tally.span.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9),
            size: size_told.map(|(size, _)| size),
            size_from: size_told.map(|(_, origin)| origin.to_string()),
            frames_per_second: rate.map(|(rate, _)| rate),
            rate_from: rate.map(|(_, origin)| origin.to_string()),
            ssrc: stream.map(|stream| stream.ssrc),
            source: stream.map(|stream| stream.from),
            timing: match screen.deadlines.timing() {
                Timing::Unknown => None,
                Timing::Clock => Some("clock".into()),
                Timing::Arrival { .. } => Some("arrival".into()),
            },
            latency_ms: screen.deadlines.due(0) as f64 / 1e6,
            datagrams_malformed: tally.malformed,
            datagrams_late: tally.late_datagrams,
            datagrams_outside: tally.outside,
            streams: tally.streams,
            restarts: screen.restarts(),
            reorder_depth: screen.reorder_depth(),
            frames_early: tally.early,
            frames_joined_within: tally.joined_within,
            frame_buffers: screen.frames.as_ref().map_or(0, |frames| frames.buffers() as u64),
            receive_buffer_asked_bytes: granted.asked_bytes,
            receive_buffer_bytes: granted.bytes,
            socket_drops: tally.socket_drops,
            verified_by: checker.as_ref().map(|checker| checker.by().into()),
            frames_unproven: checker.as_ref().map_or(0, |checker| checker.unproven),
            server_answered: server.as_ref().map(|_| tally.assigned),
            window: screen.window(),
            cpu_seconds: cpu.as_secs_f64(),
            problems: tally.problems.clone(),
        };
        let silence = tally.span.map(|(_, last)| nanos(clock::date()).saturating_sub(last));
        // A server that ends first takes its stream with it.
        let has_ended = tally.assigned && silence.is_some_and(|silence| silence > ENDED_NANOS);
        summary.problems.extend(server.flatten().filter(|_| !has_ended));
        summary.add_problems(screen, granted);
        summary
    }

    /// What the counts say, in sentences.
    fn add_problems(&mut self, screen: &Screen, granted: Granted) {
        let ScreenReport { datagrams, datagrams_foreign, frames_torn, datagrams_lost, .. } = self.report;
        if datagrams == 0 {
            self.problems.push(match datagrams_foreign {
                0 => format!(
                    "nothing came to {}: is the sender running, and does it send to this address and port?",
                    self.listen
                ),
                foreign => {
                    let why = screen.tally.newest_malformed;
                    let why =
                        why.map_or(String::new(), |why| format!("; the newest is not RTP video: {why}"));
                    format!(
                        "none of the {foreign} datagrams that came belong to the stream that is expected{why}"
                    )
                }
            });
        }
        if datagrams > 0 && self.size.is_none() {
            self.problems.push("no frame was whole, so the size is not known: give it with --sdp".into());
        }
        if self.datagrams_outside > 0 {
            let size = self.size.map(|size| size.to_string()).unwrap_or_default();
            self.problems
                .push(format!("the sender's frames are larger than {size}: give their size with --sdp"));
        } else if frames_torn > 0 && datagrams_lost == 0 && self.report.frames_shown == 0 {
            let size = self.size.map(|size| size.to_string()).unwrap_or_default();
            self.problems.push(format!(
                "no frame was whole although no datagram was lost: the sender's frames are smaller than \
                 {size}, or it stops within them"
            ));
        }
        let frame_bytes = self.size.map_or(0, |size| size.frame_bytes() as u64);
        if self.report.datagrams_lost > 0 || self.socket_drops > 0 {
            self.problems.extend(granted.remedy(frame_bytes));
        }
        if let Some(wrong) = screen.checker.as_ref().and_then(|checker| checker.newest_wrong.as_deref()) {
            self.problems.push(format!("the newest wrong frame: {wrong}"));
        }
        if self.frames_unproven > 0 {
            self.problems.push(format!(
                "nobody says what {} frames should be: the server has no checksums of them",
                self.frames_unproven
            ));
        }
    }

    /// With `--verify`: every frame was proven, and nothing was lost.
    pub fn is_proven(&self) -> bool {
        let ScreenReport { frames_wrong, frames_torn, frames_missing, frames_proven, datagrams_lost, .. } =
            self.report;
        frames_proven > 0
            && frames_wrong + frames_torn + frames_missing + datagrams_lost + self.frames_unproven == 0
    }

    /// A few lines for a person.
    pub fn text(&self) -> String {
        let r = &self.report;
        let mut text = String::new();
        let tile = r.tile.map_or("screen".into(), |tile| format!("screen {tile}"));
        let size = self.size.map_or("size unknown".into(), |size| size.to_string());
        let rate = self.frames_per_second.map_or(String::new(), |rate| format!(" at {rate} frames/s"));
        let source = match (self.source, self.ssrc) {
            (Some(source), Some(ssrc)) => format!(", from {source}, SSRC {ssrc:#010x}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "{tile} on {}: {size}{rate}{source}", self.listen);
        let _ = writeln!(
            text,
            "  frames      {} shown, {} late, {} torn, {} missing{}",
            r.frames_shown,
            r.frames_late,
            r.frames_torn,
            r.frames_missing,
            match &self.verified_by {
                Some(by) => format!("; {} proven by {by}, {} wrong", r.frames_proven, r.frames_wrong),
                None => String::new(),
            }
        );
        let rate = if self.seconds > 0.0 { r.bytes as f64 / self.seconds } else { 0.0 };
        let _ = writeln!(
            text,
            "  datagrams   {} ({}, {}), {} lost, {} reordered{}, {} duplicated, {} foreign",
            r.datagrams,
            show_size(r.bytes),
            show_bits_rate(rate),
            r.datagrams_lost,
            r.datagrams_reordered,
            if self.reorder_depth > 0 {
                format!(" (by {} at most)", self.reorder_depth)
            } else {
                String::new()
            },
            r.datagrams_doubled,
            r.datagrams_foreign
        );
        if let (Some(median), Some(high)) = (r.presented_p50_ms, r.presented_p99_ms) {
            let from = if self.timing.as_deref() == Some("clock") { "its tick" } else { "its arrival" };
            let _ = writeln!(
                text,
                "  presented   {median:.1} ms after {from} (median), {high:.1} ms (99th percentile)"
            );
        }
        if let Some(window) = &self.window {
            let _ = writeln!(text, "{}", window_line(window));
        }
        let _ = writeln!(
            text,
            "  buffer      {} of {} asked for; {} dropped there; {} frame buffers",
            show_size(self.receive_buffer_bytes),
            show_size(self.receive_buffer_asked_bytes),
            self.socket_drops,
            self.frame_buffers
        );
        for problem in &self.problems {
            let _ = writeln!(text, "  problem     {problem}");
        }
        text
    }
}

fn window_line(window: &WindowSummary) -> String {
    let size = window.size.map_or(String::new(), |size| format!("{size}, "));
    let full = if window.full_screen { "full screen, " } else { "" };
    let taken = window.taken_p50_ms.zip(window.taken_p99_ms).map_or(String::new(), |(median, high)| {
        format!("; taken {median:.1} ms after the deadline (median), {high:.1} ms (99th percentile)")
    });
    let by = if window.pixels_by == "requests" { " by requests, without shared memory" } else { "" };
    let WindowSummary { frames_shown, frames_dropped, .. } = window;
    format!("  window      {size}{full}{frames_shown} shown{by}, {frames_dropped} dropped{taken}")
}

impl ShowSummary {
    /// Of all screens of this process.
    pub fn new(screens: Vec<ScreenSummary>, cpu: Duration) -> ShowSummary {
        let bytes: u64 = screens.iter().map(|screen| screen.report.bytes).sum();
        let cpu_seconds = cpu.as_secs_f64();
        ShowSummary {
            schema: 1,
            version: env!("CARGO_PKG_VERSION").into(),
            screens,
            cpu_seconds,
            cpu_seconds_per_gb: (bytes > 0).then(|| cpu_seconds / (bytes as f64 / 1e9)),
        }
    }

    /// Every screen's lines, and the CPU.
    pub fn text(&self) -> String {
        let mut text: String = self.screens.iter().map(ScreenSummary::text).collect();
        let per_gb = self.cpu_seconds_per_gb.map_or(String::new(), |cost| format!(", {cost:.2} s per GB"));
        let _ = writeln!(text, "CPU           {:.2} s{per_gb}", self.cpu_seconds);
        text
    }
}
