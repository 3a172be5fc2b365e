//! One screen, as lines: the head (host, time, bottleneck), the page, the keys, and what the marks mean. Pure:
//! the same view at the same size is the same lines.

use super::pieces::{TextRole, fit_to, legend, outside, piece, pushed_right};
use super::state::{Page, View};
use super::{ledger, network, overview, processors, programs, storage};
use linerate_facts::printable::wrapped;
use ratatui::text::{Line, Span};
use std::time::{Duration, UNIX_EPOCH};

/// The smallest terminal that a useful view fits into.
pub(crate) const SMALLEST: (u16, u16) = (40, 10);

/// The year 9999: later times have no date.
const LATEST_MS: u64 = 253_402_300_799_000;

/// The lines of a screen, as many as it has rows, and how far down the person is: no further than the page goes.
pub(crate) fn compose(view: &View<'_>, width: u16, height: u16) -> (Vec<Line<'static>>, usize) {
    let down = view.state.down;
    if width < SMALLEST.0 || height < SMALLEST.1 {
        return (too_small(width, height), down);
    }
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = vec![head(view, width)];
    lines.extend(bottleneck(view, width, height));
    let rows = height - lines.len() - 1;
    let body = if view.state.help { help_lines(view) } else { page(view, width, rows) };
    let page_end = body.len().saturating_sub(rows);
    let furthest = match view.state.page {
        // The page below the help stays where it is.
        _ if view.state.help => down,
        Page::Processes => page_end.max(view.moment.processes.busiest.len().saturating_sub(1)),
        _ => page_end,
    };
    lines.extend(scrolled(view, body, rows));
    lines.resize(height - 1, Line::default());
    lines.push(keys(view, width));
    (lines, down.min(furthest))
}

fn page(view: &View<'_>, width: usize, rows: usize) -> Vec<Line<'static>> {
    match view.state.page {
        Page::Overview => overview::lines(view, width, rows),
        Page::Nics => network::lines(view, width),
        Page::Disks => storage::lines(view, width),
        Page::Cpu => processors::lines(view, width),
        Page::Ledger => ledger::lines(view, width),
        Page::Power => processors::power_lines(view, width),
        Page::Processes => programs::lines(view, width),
    }
}

/// What fits, from where the person has gone down to; the last row says how much is left.
fn scrolled(view: &View<'_>, body: Vec<Line<'static>>, rows: usize) -> Vec<Line<'static>> {
    let (all, down) = (body.len(), view.state.down.min(body.len().saturating_sub(rows)));
    let mut shown: Vec<_> = body.into_iter().skip(down).take(rows).collect();
    let left = all - down - shown.len();
    if left > 0 && rows > 1 {
        let arrow = view.theme.mark("↓", "down");
        shown.truncate(rows - 1);
        shown.push(Line::from(piece(
            view.theme,
            TextRole::Soft,
            format!("   {arrow} {} more lines", left + 1),
        )));
    }
    shown
}

/// Host, time and page; the rest where there is room.
fn head(view: &View<'_>, width: usize) -> Line<'static> {
    let View { moment, theme, state, .. } = *view;
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(moment.at_ms).unwrap_or(0).min(LATEST_MS));
    let date = humantime::format_rfc3339_seconds(at).to_string();
    let time = date.get(11..19).unwrap_or_default();
    let mut spans = vec![
        piece(theme, TextRole::Strong, format!(" {}", fit_to(theme, &moment.host, width / 3))),
        piece(theme, TextRole::Soft, format!("  {time}")),
    ];
    if state.paused.is_some() {
        spans.push(piece(theme, TextRole::Warn, "  paused"));
    }
    if view.ended {
        spans.push(piece(theme, TextRole::Warn, "  replay ended"));
    }
    let mut left = width.saturating_sub(Line::from(spans.clone()).width());
    let (page, span) = (state.page.word(), state.span.word());
    let right = [format!("{page}, last {span} "), format!("{page}, {span} "), format!("{page} ")];
    let right = right.into_iter().find(|right| right.len() < left).unwrap_or_default();
    left = left.saturating_sub(right.len());
    let mut rest = vec![" UTC".to_string()];
    if moment.interval_ms > 0.0 {
        rest.push(format!("  every {:.1} s", moment.interval_ms / 1000.0));
    }
    rest.extend(Some(format!("  {}", outside(view.note))).filter(|_| !view.note.is_empty()));
    for text in rest {
        let columns = text.chars().count();
        if columns < left {
            left -= columns;
            spans.push(piece(theme, TextRole::Soft, text));
        }
    }
    pushed_right(spans, piece(theme, TextRole::Soft, right), width)
}

/// The sentence, in one row or two.
fn bottleneck(view: &View<'_>, width: usize, height: usize) -> Vec<Line<'static>> {
    let View { moment, theme, .. } = *view;
    let (role, text) = match &moment.bottleneck {
        _ if moment.interval_ms <= 0.0 => (TextRole::Soft, "The first look: rates come with the next."),
        Some(text) => (TextRole::Warn, text.as_str()),
        None => (TextRole::Good, "Nothing is near its limit."),
    };
    let most = if height >= 16 { 2 } else { 1 };
    let mut rows = wrapped(&theme.signs(outside(text)), width.saturating_sub(2));
    if rows.len() > most {
        rows.truncate(most);
        if let Some(last) = rows.last_mut() {
            let fitting: String = last.chars().take(width.saturating_sub(4)).collect();
            *last = format!("{fitting}{}", theme.mark("…", "..."));
        }
    }
    rows.into_iter().map(|row| Line::from(piece(theme, role, format!(" {row}")))).collect()
}

/// The last row.
fn keys(view: &View<'_>, width: usize) -> Line<'static> {
    let View { theme, state, .. } = *view;
    let mut spans = vec![Span::raw(" ")];
    let mut left = width - 1;
    // Blanks at the end of the row are left out.
    let mut add = |text: String, role: TextRole| {
        let text = if text.len() > left { text.trim_end().to_string() } else { text };
        if text.len() <= left {
            left -= text.len();
            spans.push(piece(theme, role, text));
        }
    };
    for (place, page) in Page::ALL.into_iter().enumerate() {
        let here = page == state.page;
        let role = if here { TextRole::Title } else { TextRole::Soft };
        // What is there for everybody goes first; words where there is room.
        let word = if width >= 80 || (here && width >= 60) {
            let gap = if width >= 100 { "  " } else { " " };
            format!("{} {}{gap}", place + 1, page.word())
        } else {
            format!("{} ", place + 1)
        };
        add(word, role);
    }
    for text in [" q quit  ", "? help  ", "a all  ", "m/h/d span  ", "p pause"] {
        add(text.into(), TextRole::Soft);
    }
    Line::from(spans)
}

/// One sentence, in as many rows as there are.
fn too_small(width: u16, height: u16) -> Vec<Line<'static>> {
    let (columns, rows) = SMALLEST;
    let text = format!(
        "linerate watch needs a terminal of {columns} x {rows}; this one is {width} x {height}. q quits."
    );
    wrapped(&text, usize::from(width)).into_iter().take(usize::from(height)).map(Line::from).collect()
}

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
pub(crate) fn help_lines(view: &View<'_>) -> Vec<Line<'static>> {
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
