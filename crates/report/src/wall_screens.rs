//! How the screens of this host do, as a view that is drawn again and again while they run.

use super::grid::{self, Column, number, text};
use super::wall::{flow, sentence};
use linerate_facts::grouping::distinct;
use linerate_facts::printable::{printable, shortened};
use linerate_facts::units::show_bits_rate;
use linerate_wall::show::{ScreenSnapshot, ScreenState};

/// How they do now: no line wider than `width`, no more than `height` lines. One screen has a few lines, of
/// several each has one.
pub fn live(screens: &[ScreenSnapshot], width: usize, height: usize) -> String {
    // The last column stays free: some terminals begin a new line after it.
    let width = width.saturating_sub(1).max(1);
    let wrong = distinct(screens.iter().filter_map(|screen| screen.problem.as_deref()));
    let wrong: Vec<String> = wrong.into_iter().flat_map(|problem| sentence(problem, width)).collect();
    let mut lines = match screens {
        [only] => screen_facts(only, &wrong, width),
        several => {
            let room = height.saturating_sub(wrong.len());
            wrong.into_iter().chain(table(several, width, room)).collect()
        }
    };
    lines.truncate(height);
    lines.iter().map(|line| shortened(&printable(line), width) + "\n").collect()
}

fn name(screen: &ScreenSnapshot) -> String {
    screen.report.tile.map_or_else(|| format!("port {}", screen.listen.port()), |tile| tile.to_string())
}

fn state(screen: &ScreenSnapshot) -> String {
    match screen.state {
        ScreenState::Waiting => "waits".into(),
        ScreenState::Playing => "plays".into(),
        ScreenState::Paused => "paused".into(),
        ScreenState::Ended => "at its end".into(),
        ScreenState::Gone { seconds } => format!("gone {seconds:.0} s"),
    }
}

/// The facts that matter most come first: a small terminal cuts the last ones off.
fn screen_facts(screen: &ScreenSnapshot, wrong: &[String], width: usize) -> Vec<String> {
    let report = &screen.report;
    let state = match screen.state {
        ScreenState::Waiting => "waits for its stream".to_string(),
        ScreenState::Gone { seconds } => format!("the stream is gone for {seconds:.0} s"),
        _ => state(screen),
    };
    let mut head = vec![format!("{}: {state}", name(screen))];
    if screen.state != ScreenState::Waiting {
        head.extend(report.frame.map(|frame| format!("frame {frame}")));
        head.push(format!("{:.1} frames/s", screen.frames_per_second));
        head.push(show_bits_rate(screen.bytes_per_second));
    }
    let mut frames = vec![
        format!("{} shown", report.frames_shown),
        format!("{} late", report.frames_late),
        format!("{} torn", report.frames_torn),
        format!("{} missing", report.frames_missing),
    ];
    frames.extend(report.frames_window_dropped.map(|dropped| format!("{dropped} passed over by the window")));
    if report.frames_proven + report.frames_wrong > 0 {
        frames.push(format!("{} proven", report.frames_proven));
        frames.push(format!("{} wrong", report.frames_wrong));
    }
    let mut losses = vec![format!("{} datagrams lost", report.datagrams_lost), reordered(screen)];
    if let Some((now, high)) = screen.skew_ms.zip(screen.skew_p99_ms) {
        losses.push(format!("skew {now:+.1} ms, {high:+.1} ms at most in 99 %"));
    }
    if report.datagrams_foreign > 0 {
        losses.push(format!("{} of another stream", report.datagrams_foreign));
    }
    let mut about: Vec<String> = screen.size.map(|size| size.to_string()).into_iter().collect();
    about.extend(screen.rate.map(|rate| format!("to be {rate} frames/s")));
    about.push(format!("on {}", screen.listen));
    let mut lines = flow(&head, width);
    lines.extend_from_slice(wrong);
    lines.extend([frames, losses, about].iter().flat_map(|facts| flow(facts, width)));
    lines
}

fn reordered(screen: &ScreenSnapshot) -> String {
    match screen.reorder_depth {
        0 => "none reordered".into(),
        depth => format!("{} reordered, by {depth} at most", screen.report.datagrams_reordered),
    }
}

const SCREENS: [Column; 11] = [
    text("screen", 0),
    text("state", 0),
    number("rate", 1),
    number("shown", 2),
    number("late", 3),
    number("torn", 4),
    number("missing", 5),
    number("lost", 6),
    number("skew ms", 7),
    number("depth", 8),
    number("frames/s", 9),
];

/// A line a screen, as many as there is room for: of more the worst. Columns that do not fit are left away
/// from the right.
fn table(screens: &[ScreenSnapshot], width: usize, height: usize) -> Vec<String> {
    let room = height.saturating_sub(1);
    let mut shown: Vec<(usize, &ScreenSnapshot)> = screens.iter().enumerate().collect();
    if shown.len() > room {
        shown.sort_by_key(|(_, screen)| std::cmp::Reverse(harm(screen)));
        shown.truncate(room.saturating_sub(1));
        shown.sort_by_key(|(index, _)| *index);
    }
    let rows: Vec<Vec<String>> = shown.iter().map(|(_, screen)| row(screen)).collect();
    let mut lines = grid::lines(&SCREENS, &rows, width);
    let hidden = screens.len() - shown.len();
    if hidden > 0 {
        lines.push(format!("and {hidden} more that do better"));
    }
    lines
}

fn row(screen: &ScreenSnapshot) -> Vec<String> {
    let report = &screen.report;
    vec![
        name(screen),
        state(screen),
        show_bits_rate(screen.bytes_per_second),
        report.frames_shown.to_string(),
        report.frames_late.to_string(),
        report.frames_torn.to_string(),
        report.frames_missing.to_string(),
        report.datagrams_lost.to_string(),
        screen.skew_ms.map_or("–".into(), |skew| format!("{skew:+.1}")),
        screen.reorder_depth.to_string(),
        format!("{:.1}", screen.frames_per_second),
    ]
}

/// How bad it is with a screen: one whose stream is gone before all others.
fn harm(screen: &ScreenSnapshot) -> (bool, u64) {
    let report = &screen.report;
    let frames = report.frames_late + report.frames_torn + report.frames_missing + report.frames_wrong;
    (matches!(screen.state, ScreenState::Gone { .. } | ScreenState::Waiting), frames + report.datagrams_lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::printable::columns;
    use linerate_wall::control::ScreenReport;

    fn screen(at: u16, state: ScreenState) -> ScreenSnapshot {
        ScreenSnapshot {
            listen: ([127, 0, 0, 1], 5004 + at).into(),
            state,
            report: ScreenReport {
                tile: format!("r0c{at}").parse().ok(),
                frame: Some(17),
                frames_shown: 240,
                frames_late: u64::from(at),
                datagrams_lost: 3,
                datagrams_reordered: 12,
                ..ScreenReport::default()
            },
            size: "640x400".parse().ok(),
            rate: "24".parse().ok(),
            bytes_per_second: 18.6e6,
            frames_per_second: 24.0,
            reorder_depth: 5,
            skew_ms: Some(0.12),
            skew_p99_ms: Some(1.9),
            problem: Some("the server \u{1b}[2J cannot be reached; is it running?".into()),
        }
    }

    #[test]
    fn a_view_fits_its_terminal() {
        for count in [0, 1, 2, 15, 64] {
            let screens: Vec<ScreenSnapshot> =
                (0..count).map(|at| screen(at, ScreenState::Playing)).collect();
            for (width, height) in [(80, 24), (40, 10), (200, 60), (10, 3), (1, 1)] {
                let view = live(&screens, width, height);
                assert!(view.lines().count() <= height, "{width}x{height}:\n{view}");
                assert!(view.lines().all(|line| columns(line) < width.max(2)), "{width}x{height}:\n{view}");
                assert!(!view.contains('\u{1b}'), "{view:?}");
            }
        }
    }

    #[test]
    fn a_small_terminal_has_all_that_counts_of_one_screen() {
        let view = live(&[screen(0, ScreenState::Playing)], 40, 10);
        let all = "r0c0: plays|24.0 frames/s|149 Mb/s|240 shown|0 late\
            |0 torn|3 datagrams lost|by 5 at most|skew +0.1 ms|the server";
        for word in all.split('|') {
            assert!(view.contains(word), "“{word}” in:\n{view}");
        }
    }

    #[test]
    fn each_state_has_its_word_and_the_worst_screens_are_shown_first() {
        let of = |state| live(&[screen(0, state)], 80, 24);
        assert!(of(ScreenState::Waiting).contains("r0c0: waits for its stream"));
        assert!(of(ScreenState::Paused).contains("paused") && of(ScreenState::Ended).contains("at its end"));
        assert!(of(ScreenState::Gone { seconds: 3.4 }).contains("the stream is gone for 3 s"));
        let mut screens: Vec<ScreenSnapshot> = (0..15).map(|at| screen(at, ScreenState::Playing)).collect();
        screens[2].state = ScreenState::Gone { seconds: 2.0 };
        screens.iter_mut().for_each(|screen| screen.problem = None);
        let view = live(&screens, 80, 8);
        let named: Vec<&str> = view.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(named, ["screen", "r0c2", "r0c10", "r0c11", "r0c12", "r0c13", "r0c14", "and"], "{view}");
        assert!(view.contains("gone 2 s") && view.contains("9 more"), "{view}");
    }
}
