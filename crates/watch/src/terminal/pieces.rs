//! The pieces that lines are made of: bars, sparklines, stacked bars, numbers in few columns; and how they
//! look: in colours, without (`NO_COLOR`, <https://no-color.org>), and where the locale knows no UTF-8.
//!
//! Without colours the meaning stays: what is bad is reversed, and the classes of a stacked bar are letters.

use crate::history::{Past, classes};
use crate::model::Eight;
use linerate_facts::printable::{self, ascii, shortened};
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// In place of a figure that is not known.
const UNKNOWN: &str = "-";

/// A text in its role. What comes from outside goes through [`outside`].
pub(crate) fn piece(theme: Theme, role: TextRole, text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), theme.style(role))
}

/// A name or sentence from outside, which must not act on the screen.
pub(crate) fn outside(text: &str) -> String {
    printable::printable(text)
}

/// A text in this many columns: cut with a mark, or filled up.
pub(crate) fn fit(theme: Theme, text: &str, columns: usize) -> String {
    let mut text = shortened(&theme.signs(outside(text)), columns);
    if !theme.unicode && text.ends_with('…') {
        text.truncate(text.len() - '…'.len_utf8());
        text.push('~');
    }
    let padding = " ".repeat(columns.saturating_sub(printable::columns(&text)));
    text + &padding
}

/// A text in at most this many columns.
pub(crate) fn fit_to(theme: Theme, text: &str, columns: usize) -> String {
    fit(theme, text, columns).trim_end().to_string()
}

/// Pieces in lines of at most `width` columns, broken at blanks; lines after the first are indented.
pub(crate) fn flowing(spans: Vec<Span<'static>>, indent: usize, width: usize) -> Vec<Line<'static>> {
    let (mut lines, mut line, mut used) = (Vec::new(), Vec::new(), 0);
    for span in spans {
        for word in span.content.split_inclusive(' ') {
            let needed = printable::columns(word.trim_end());
            if needed > 0 && used > indent && used + needed > width {
                lines.push(Line::from(std::mem::take(&mut line)));
                line.push(Span::raw(" ".repeat(indent)));
                used = indent;
            }
            used += printable::columns(word);
            line.push(Span::styled(word.to_string(), span.style));
        }
    }
    lines.push(Line::from(line));
    lines
}

/// A bar on a scale from 0 to 1. None: nothing is known, the track stays empty.
pub(crate) fn bar(theme: Theme, role: TextRole, share: Option<f64>, columns: usize) -> Vec<Span<'static>> {
    let share = share.filter(|share| share.is_finite()).unwrap_or(0.0).clamp(0.0, 1.0);
    let eighths = (share * columns as f64 * 8.0).round() as usize;
    let (mut filled, rest) = (String::new(), eighths % 8);
    if theme.unicode {
        filled.push_str(&"█".repeat(eighths / 8));
        filled.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][rest]);
    } else {
        filled.push_str(&"#".repeat((eighths + 4) / 8));
    }
    // What moves at all is seen.
    if filled.is_empty() && share > 0.0 && columns > 0 {
        filled.push_str(theme.mark("▏", "#"));
    }
    let track = theme.mark("·", ".").repeat(columns.saturating_sub(filled.chars().count()));
    vec![piece(theme, role, filled), piece(theme, TextRole::Soft, track)]
}

/// A line of the past in this many columns, on a scale that ends at `top`; none: at the highest that there was.
pub(crate) fn sparkline(
    theme: Theme,
    role: TextRole,
    past: Option<&Past>,
    top: Option<f64>,
    columns: usize,
) -> Span<'static> {
    let steps: &[char] = if theme.unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['_', '.', ':', '-', '=', '+', '*', '#']
    };
    let values = past.map(|past| columns_of(&past.most, columns)).unwrap_or_default();
    let reached = values.iter().flatten().fold(0.0_f64, |most, value| most.max(*value));
    let top = top.filter(|top| *top > 0.0).unwrap_or(reached).max(f64::MIN_POSITIVE);
    let step = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) => steps[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    let text: String = values.iter().map(step).collect();
    piece(theme, role, format!("{text:>columns$}"))
}

/// A graph of this many rows, its scale at the left: the highest moment of each step, up to `top` or the
/// highest that there was.
pub(crate) fn graph(
    theme: Theme,
    role: TextRole,
    past: Option<&Past>,
    columns: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    const SCALE: usize = 10;
    let values =
        past.map(|past| columns_of(&past.most, columns.saturating_sub(SCALE + 1))).unwrap_or_default();
    let top = values.iter().flatten().fold(0.0_f64, |most, value| most.max(*value));
    let levels: &[char] = if theme.unicode {
        &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &[' ', '.', ':', '|', '#']
    };
    let steps = levels.len() - 1;
    let row = |row: usize| {
        let below = (rows - 1 - row) * steps;
        let glyph = |value: &Option<f64>| {
            let filled = value
                .filter(|_| top > 0.0)
                .map_or(0, |value| (value / top * (rows * steps) as f64).ceil() as usize);
            levels[filled.saturating_sub(below).min(steps)]
        };
        let label = match row {
            0 => bits(Some(top)),
            last if last + 1 == rows => "0".into(),
            _ => String::new(),
        };
        let line: String = values.iter().map(glyph).collect();
        Line::from(vec![piece(theme, TextRole::Soft, format!("{label:>SCALE$} ")), piece(theme, role, line)])
    };
    (0..rows).map(row).collect()
}

/// The newest `columns` values where there are no more, else the highest of each part.
fn columns_of(values: &[Option<f32>], columns: usize) -> Vec<Option<f64>> {
    if values.is_empty() || columns == 0 {
        return Vec::new();
    }
    let widened = columns.min(values.len());
    let part = |at: usize| &values[at * values.len() / widened..(at + 1) * values.len() / widened];
    let most = |part: &[Option<f32>]| {
        part.iter()
            .flatten()
            .copied()
            .fold(None, |most: Option<f32>, value| Some(most.map_or(value, |most| most.max(value))))
    };
    (0..widened).map(|at| most(part(at)).map(f64::from)).collect()
}

/// A CPU's time as a stacked bar: each class has its share of the columns, the rest is idle.
pub(crate) fn stack(theme: Theme, eight: Option<&Eight>, columns: usize) -> Vec<Span<'static>> {
    let Some(eight) = eight else { return vec![piece(theme, TextRole::Soft, " ".repeat(columns))] };
    let (mut spans, mut until, mut drawn) = (Vec::new(), 0.0, 0);
    for (place, (_, share)) in classes(eight).into_iter().enumerate() {
        until += share.max(0.0);
        let end = ((until * columns as f64).round() as usize).min(columns);
        let (glyph, style) = theme.class(place);
        spans.push(Span::styled(glyph.to_string().repeat(end.saturating_sub(drawn)), style));
        drawn = drawn.max(end);
    }
    spans.push(piece(theme, TextRole::Soft, theme.mark("·", ".").repeat(columns - drawn)));
    spans
}

/// What the classes of a stacked bar look like.
pub(crate) fn legend(theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, (word, letter, _)) in CLASSES.into_iter().enumerate() {
        let (glyph, style) = theme.class(place);
        let mark = if theme.colours { glyph } else { letter };
        spans.extend([
            Span::styled(mark.to_string(), style),
            piece(theme, TextRole::Soft, format!(" {word}  ")),
        ]);
    }
    Line::from(spans)
}

/// `9.93 Gb/s`.
pub(crate) fn bits(bits_per_second: Option<f64>) -> String {
    match bits_per_second {
        None => UNKNOWN.into(),
        Some(0.0) => "0 b/s".into(),
        Some(value) => show_bits_rate(value / 8.0),
    }
}

/// `813 MB/s`.
pub(crate) fn bytes(bytes_per_second: Option<f64>) -> String {
    match bytes_per_second {
        None => UNKNOWN.into(),
        Some(0.0) => "0 B/s".into(),
        Some(value) => show_bytes_rate(value),
    }
}

/// `49.1k`, of things per second.
pub(crate) fn count(per_second: Option<f64>) -> String {
    let Some(value) = per_second else { return UNKNOWN.into() };
    match value {
        v if v >= 999.5e6 => format!("{:.1}G", v / 1e9),
        v if v >= 999.5e3 => format!("{:.1}M", v / 1e6),
        v if v >= 9_999.5 => format!("{:.0}k", v / 1e3),
        v if v >= 999.5 => format!("{:.1}k", v / 1e3),
        v if v < 9.95 && v.fract() != 0.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// `97 %`.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or(UNKNOWN.into(), |share| match share {
        s if s > 0.0 && s < 0.01 => "<1 %".into(),
        s => format!("{:.0} %", s * 100.0),
    })
}

/// `0.61 ms`.
pub(crate) fn milliseconds(value: Option<f64>) -> String {
    value.map_or(UNKNOWN.into(), |value| match value {
        v if v < 0.1 => format!("{:.0} us", v * 1000.0),
        v if v < 10.0 => format!("{v:.2} ms"),
        v => format!("{v:.0} ms"),
    })
}

/// A line with something at its right end, where there is room for it.
pub(crate) fn pushed_right(
    mut spans: Vec<Span<'static>>,
    right: Span<'static>,
    width: usize,
) -> Line<'static> {
    let taken = Line::from(spans.clone()).width() + right.width();
    if taken < width {
        spans.extend([Span::raw(" ".repeat(width - taken)), right]);
    }
    Line::from(spans)
}

/// What a terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub colours: bool,
    pub unicode: bool,
}

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    Plain,
    Strong,
    Soft,
    Title,
    Good,
    Warn,
    Bad,
    /// Sent and written.
    Out,
    /// Received and read.
    In,
}

impl Theme {
    /// By the environment, as other programs read it.
    pub fn of_environment() -> Theme {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        // Without a word of a locale most terminals are UTF-8 today; "C" and "POSIX" say that they are not to
        // be trusted.
        let unicode = locale.is_empty() || locale.contains("utf-8") || locale.contains("utf8");
        let plain = set("NO_COLOR").is_some()
            || set("TERM").is_some_and(|term| term == "dumb" || term.starts_with("vt"));
        Theme { colours: !plain, unicode }
    }

    /// How a role looks.
    pub fn style(self, role: TextRole) -> Style {
        let style = Style::new();
        if !self.colours {
            return match role {
                TextRole::Bad => style.add_modifier(Modifier::REVERSED),
                TextRole::Warn | TextRole::Strong | TextRole::Title => style.add_modifier(Modifier::BOLD),
                TextRole::Soft => style.add_modifier(Modifier::DIM),
                TextRole::Plain | TextRole::Good | TextRole::Out | TextRole::In => style,
            };
        }
        match role {
            TextRole::Plain => style,
            TextRole::Strong => style.add_modifier(Modifier::BOLD),
            TextRole::Soft => style.fg(Color::DarkGray),
            TextRole::Title => style.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            TextRole::Good => style.fg(Color::Green),
            TextRole::Warn => style.fg(Color::Yellow).add_modifier(Modifier::BOLD),
            TextRole::Bad => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            TextRole::Out => style.fg(Color::LightBlue),
            TextRole::In => style.fg(Color::LightGreen),
        }
    }

    /// How a class of CPU time looks, by its place in [`CLASSES`], and the letter that stands for it without
    /// colours.
    pub fn class(self, place: usize) -> (char, Style) {
        let (_, letter, colour) = CLASSES[place.min(CLASSES.len() - 1)];
        match (self.colours, self.unicode) {
            (true, true) => ('█', Style::new().fg(colour)),
            (true, false) => (letter, Style::new().fg(colour)),
            (false, _) => (letter, Style::new()),
        }
    }

    /// A text in the signs that the terminal knows. Before it is cut or wrapped: `±` takes a column, `+-` two.
    pub fn signs(self, text: String) -> String {
        if self.unicode { text } else { ascii(&text) }
    }

    /// The arrows and marks of a line: one that UTF-8 knows, or one of ASCII.
    pub fn mark(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

/// The classes of CPU time in the order of [`crate::history::classes`]: word, letter, colour.
const CLASSES: [(&str, char, Color); 7] = [
    ("user", 'u', Color::Blue),
    ("nice", 'n', Color::LightBlue),
    ("system", 's', Color::Yellow),
    ("softirq", 'q', Color::Red),
    ("irq", 'i', Color::Magenta),
    ("steal", 't', Color::White),
    ("iowait", 'w', Color::DarkGray),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::SeriesKind;

    const PLAIN: Theme = Theme { colours: false, unicode: true };
    const ASCII: Theme = Theme { colours: false, unicode: false };

    fn text(spans: &[Span<'_>]) -> String {
        spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_share_and_never_longer() {
        assert_eq!(text(&bar(PLAIN, TextRole::Out, Some(0.5), 8)), "████····");
        assert_eq!(text(&bar(ASCII, TextRole::Out, Some(0.5), 8)), "####....");
        assert_eq!(text(&bar(PLAIN, TextRole::Out, Some(0.0), 4)), "····");
        assert_eq!(text(&bar(PLAIN, TextRole::Out, Some(1e-9), 4)), "▏···");
        for share in
            [None, Some(f64::NAN), Some(-1.0), Some(1.0), Some(7.0), Some(f64::INFINITY), Some(0.999)]
        {
            for columns in [0, 1, 7, 30] {
                assert_eq!(
                    text(&bar(PLAIN, TextRole::Out, share, columns)).chars().count(),
                    columns,
                    "{share:?} {columns}"
                );
            }
        }
    }

    #[test]
    fn a_stack_adds_up_and_names_its_classes_without_colours() {
        let eight = Eight { user: 0.25, system: 0.25, softirq: 0.25, idle: 0.25, ..Eight::default() };
        assert_eq!(text(&stack(PLAIN, Some(&eight), 8)), "uussqq··");
        let full = Eight { user: 0.6, system: 0.6, ..Eight::default() };
        assert_eq!(text(&stack(PLAIN, Some(&full), 10)).chars().count(), 10);
        assert_eq!(text(&stack(PLAIN, None, 5)), "     ");
    }

    #[test]
    fn a_sparkline_shows_the_highest_of_each_part_and_nothing_where_nothing_is_known() {
        let most = vec![None, None, Some(1.0), Some(8.0), Some(2.0), Some(4.0)];
        let past = Past { kind: SeriesKind::NicSend, name: String::new(), mean: most.clone(), most };
        let line =
            |top, columns| sparkline(PLAIN, TextRole::Out, Some(&past), top, columns).content.into_owned();
        assert_eq!(line(None, 6), "  ▁█▂▄");
        assert_eq!(line(None, 3), " █▄");
        assert_eq!(line(Some(80.0), 6), "  ▁▁▁▁");
        assert_eq!(line(None, 8), "    ▁█▂▄");
        assert_eq!(sparkline(PLAIN, TextRole::Out, None, None, 4).content, "    ");
    }

    #[test]
    fn a_graph_fills_its_rows_from_below() {
        let most = vec![Some(0.0), Some(2e9), Some(4e9), None, Some(1e9)];
        let past = Past { kind: SeriesKind::SumSend, name: String::new(), mean: most.clone(), most };
        let rows: Vec<String> =
            graph(PLAIN, TextRole::Out, Some(&past), 16, 2).iter().map(|line| text(&line.spans)).collect();
        assert_eq!(rows, [" 4.00 Gb/s   █  ", "         0  ██ ▄"]);
        assert_eq!(graph(PLAIN, TextRole::Out, None, 16, 3).len(), 3);
    }

    #[test]
    fn names_from_outside_are_cut_and_do_not_act() {
        assert_eq!(fit(PLAIN, "enp23s0f0", 6), "enp23…");
        assert_eq!(fit(ASCII, "eth0", 6), "eth0  ");
        assert!(!fit(PLAIN, "a\x1b[2Jb", 9).contains('\x1b'));
    }

    #[test]
    fn numbers_take_few_columns() {
        let counts = [0.0, 0.4, 12.0, 999.0, 1_500.0, 49_057.0, 8_300_000.0].map(|value| count(Some(value)));
        assert_eq!(counts, ["0", "0.4", "12", "999", "1.5k", "49k", "8.3M"]);
        assert_eq!([None, Some(0.0), Some(0.004), Some(0.968)].map(percent), ["-", "0 %", "<1 %", "97 %"]);
        assert_eq!([Some(0.04), Some(0.61), Some(18.4)].map(milliseconds), ["40 us", "0.61 ms", "18 ms"]);
    }
}
