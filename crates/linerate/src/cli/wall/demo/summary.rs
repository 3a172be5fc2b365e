//! What a demo says at its end: all screens in three lines.

use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_facts::wording::counted;
use linerate_wall::movie::Manifest;
use linerate_wall::show::ScreenSummary;
use linerate_wall::status::WallStatus;
use std::fmt::Write;

/// All screens together, and their server.
#[derive(Debug)]
pub(super) struct DemoSummary {
    /// What was shown, of which tiles, at which rate.
    wall: String,
    bytes_per_second: f64,
    seconds: f64,
    shown: u64,
    late: u64,
    torn: u64,
    missing: u64,
    proven: u64,
    wrong: u64,
    datagrams_lost: u64,
    /// Frames that the server did not send.
    left_out: u64,
    /// Frames that the windows could not show in time.
    unseen: u64,
    held_by: Option<String>,
    /// A screen without a proven frame.
    dark: Vec<String>,
}

impl DemoSummary {
    /// Of what the screens counted and the server left out.
    pub(super) fn of(movie: &Manifest, screens: &[ScreenSummary], server: &WallStatus) -> DemoSummary {
        let sum = |of: fn(&ScreenSummary) -> u64| screens.iter().map(of).sum::<u64>();
        let seconds = screens.iter().map(|screen| screen.seconds).fold(0.0, f64::max);
        let count = screens.len();
        let dark = screens.iter().filter(|screen| screen.report.frames_proven == 0);
        DemoSummary {
            wall: format!(
                "{}, {} tiles of {} pixels at {} frames/s",
                counted(count, "screen"),
                movie.grid,
                movie.tile,
                movie.frames_per_second
            ),
            bytes_per_second: sum(|screen| screen.report.bytes) as f64 / seconds.max(1e-3),
            seconds,
            shown: sum(|screen| screen.report.frames_shown),
            late: sum(|screen| screen.report.frames_late),
            torn: sum(|screen| screen.report.frames_torn),
            missing: sum(|screen| screen.report.frames_missing),
            proven: sum(|screen| screen.report.frames_proven),
            wrong: sum(|screen| screen.report.frames_wrong),
            datagrams_lost: sum(|screen| screen.report.datagrams_lost),
            left_out: server.frames_dropped,
            unseen: sum(|screen| screen.report.frames_window_dropped.unwrap_or(0)),
            held_by: server.held_by.clone(),
            dark: dark.filter_map(|screen| Some(screen.report.tile?.to_string())).collect(),
        }
    }

    /// Every screen proved frames, and nothing was lost or wrong.
    pub(super) fn is_well(&self) -> bool {
        let lost = self.torn + self.missing + self.wrong + self.left_out + self.datagrams_lost;
        self.dark.is_empty() && lost == 0
    }

    /// For a person.
    pub(super) fn text(&self) -> String {
        let DemoSummary { shown, late, torn, missing, proven, wrong, left_out, unseen, .. } = self;
        let mut text = format!(
            "{} ({}) for {:.1} s to {}\n",
            show_bits_rate(self.bytes_per_second),
            show_bytes_rate(self.bytes_per_second),
            self.seconds,
            self.wall
        );
        let _ = writeln!(
            text,
            "  frames     {} shown, {late} of them late; {proven} proven, {wrong} wrong",
            shown + late
        );
        let _ = writeln!(
            text,
            "  lost       {torn} torn, {missing} missing, {left_out} left out by the server; {} datagrams; {unseen} \
             not painted in time",
            self.datagrams_lost
        );
        if !self.dark.is_empty() {
            let _ = writeln!(text, "  problem    no frame came to {}", self.dark.join(", "));
        }
        if !self.is_well() {
            let why = self.held_by.as_deref().unwrap_or("this machine did not keep up with its own screens");
            let _ = writeln!(text, "  problem    {why}; try fewer tiles (--tiles) or smaller ones (--tile)");
        }
        text
    }
}
