//! The keys, and what the marks mean.

use super::pieces::{legend, piece};
use super::theme::TextRole;
use super::view::View;
use ratatui::text::Line;

const KEYS: [(&str, &str); 12] = [
    ("1 to 7, Tab", "pages: overview, NICs, disks, CPU, ledger, power, processes"),
    ("m h d", "graphs of the last minute, hour, day"),
    ("up, down", "scroll; also j k, PgUp PgDn, Home End"),
    ("a", "show also what is idle and virtual, or has no link"),
    ("s", "processes; again: by what they read, write, send, receive, by CPU"),
    ("e", "what slows the marked process, as `linerate explain` says it"),
    ("p", "pause, go on"),
    ("Esc", "back to the overview"),
    ("q, Ctrl-C", "quit"),
    ("Ctrl-Z", "to the shell; `fg` comes back"),
    ("Ctrl-L", "redraw"),
    ("?", "this help"),
];

/// The help.
pub(crate) fn lines(view: &View<'_>) -> Vec<Line<'static>> {
    let theme = view.theme;
    let mut lines = vec![Line::from(piece(theme, TextRole::Title, " Keys"))];
    for (key, what) in KEYS {
        lines.push(Line::from(vec![
            piece(theme, TextRole::Strong, format!("  {key:12}")),
            piece(theme, TextRole::Plain, what),
        ]));
    }
    let texts = [
        " The busiest NICs and disks come first. Bars end at the link's rate; where it is",
        " unknown, and for disks, at what `linerate run` measured here. Without that a",
        " NIC has none, and that of a disk is the share of the time with a request.",
        " Sparklines show the highest moment of each step. What is not known is a -.",
        " CPU, by what the time went to; the rest is idle:",
    ];
    lines.push(Line::default());
    lines.extend(texts.map(|text| Line::from(piece(theme, TextRole::Soft, text))));
    let mut classes = legend(theme);
    classes.spans.insert(0, "  ".into());
    lines.push(classes);
    lines
}
