//! NICs: a row each in the overview, and the page with everything that is known of them.

use super::pieces::{TextRole, bar, bits, count, fit, outside, percent, piece, sparkline};
use super::state::{self, View};
use crate::history::SeriesKind;
use crate::model::{NicDirection, NicQueue, NicRates};
use linerate_model::verdict::thresholds::LINK_FULL;
use ratatui::text::{Line, Span};

/// How the columns of a row share the width.
pub(crate) struct Columns {
    name: usize,
    bar: usize,
    rate: usize,
    spark: usize,
    share: bool,
    /// No room for two bars.
    narrow: bool,
}

impl Columns {
    /// For a terminal of this width.
    pub(crate) fn of(view: &View<'_>, width: usize) -> Columns {
        let longest = view.moment.nics.iter().map(|nic| nic.name.chars().count()).max().unwrap_or(4);
        let (share, narrow) = (width >= 76, width < 60);
        let name = longest.clamp(4, if share { 15 } else { 9 });
        let rate = if narrow { 9 } else { 10 };
        let spark = if width >= 110 { (width / 8).min(30) } else { 0 };
        if narrow {
            let bar = width.saturating_sub(2 + name + 2 * (2 + rate)).min(20);
            return Columns { name, bar, rate, spark, share, narrow };
        }
        // Two arrows, two rates, two shares, spaces; a word on losses where there is room.
        let fixed = 2 + name + 2 * (2 + rate) + if share { 12 } else { 2 } + spark + 13;
        Columns { name, bar: (width.saturating_sub(fixed) / 2).saturating_sub(1), rate, spark, share, narrow }
    }
}

impl Columns {
    /// Where a row's graph begins and how wide it is; none where there is no room for one.
    pub(crate) fn graph(&self) -> Option<(usize, usize)> {
        // As `row` puts them: an arrow, a bar, a rate, and the share with its space.
        let one_direction = 1 + self.bar + 1 + self.rate + if self.share { 6 } else { 0 };
        (self.spark > 0 && !self.narrow).then_some((1 + self.name + 1 + 2 * one_direction + 1, self.spark))
    }
}

/// One row: both directions on the scale of the link.
pub(crate) fn row(view: &View<'_>, nic: &NicRates, columns: &Columns) -> Line<'static> {
    let theme = view.theme;
    let alive = nic.carrier != Some(false);
    let role = match losses(nic) {
        Some(_) => TextRole::Bad,
        None if alive => TextRole::Plain,
        None => TextRole::Soft,
    };
    let name = piece(theme, role, fit(theme, &nic.name, columns.name));
    if columns.narrow {
        return narrow_row(view, nic, name, columns);
    }
    let mut spans = vec![Span::raw(" "), name, Span::raw(" ")];
    for (arrow, side, role) in
        [(theme.mark("↑", "^"), &nic.send, TextRole::Out), (theme.mark("↓", "v"), &nic.receive, TextRole::In)]
    {
        spans.push(piece(theme, role, arrow.to_string()));
        spans.extend(side_bar(view, nic, side, role, columns.bar));
        spans.push(piece(
            theme,
            TextRole::Plain,
            format!(" {:>1$}", bits(side.bits_per_second), columns.rate),
        ));
        if columns.share {
            spans.push(piece(theme, TextRole::Soft, format!("{:>5} ", percent(side.share_of_link))));
        } else {
            spans.push(Span::raw(" "));
        }
    }
    if columns.spark > 0 {
        let past = view.history.past(view.state.span, SeriesKind::NicSend, &nic.name);
        let link = nic.link_bits_per_second.known().copied();
        spans.extend([Span::raw(" "), sparkline(theme, TextRole::Out, past.as_ref(), link, columns.spark)]);
    }
    match losses(nic) {
        Some(rate) => spans.push(piece(theme, TextRole::Bad, format!(" {}/s lost", count(Some(rate))))),
        None if !alive => spans.push(piece(theme, TextRole::Soft, " no carrier")),
        None => {}
    }
    Line::from(spans)
}

/// One bar, of the direction that has more of the link, and both rates.
fn narrow_row(view: &View<'_>, nic: &NicRates, name: Span<'static>, columns: &Columns) -> Line<'static> {
    let theme = view.theme;
    let rate = |side: &NicDirection| side.bits_per_second.unwrap_or(0.0);
    let (side, role) = if rate(&nic.send) >= rate(&nic.receive) {
        (&nic.send, TextRole::Out)
    } else {
        (&nic.receive, TextRole::In)
    };
    let mut spans = vec![Span::raw(" "), name, Span::raw(" ")];
    spans.extend(side_bar(view, nic, side, role, columns.bar));
    for (arrow, side, role) in
        [(theme.mark("↑", "^"), &nic.send, TextRole::Out), (theme.mark("↓", "v"), &nic.receive, TextRole::In)]
    {
        spans.extend([
            piece(theme, role, format!(" {arrow}")),
            piece(theme, TextRole::Plain, format!("{:>1$}", bits(side.bits_per_second), columns.rate)),
        ]);
    }
    Line::from(spans)
}

/// On the scale of the link, or of what was measured; an empty track where neither is known, for nothing says what is full.
fn side_bar(
    view: &View<'_>,
    nic: &NicRates,
    side: &NicDirection,
    role: TextRole,
    columns: usize,
) -> Vec<Span<'static>> {
    let full = side.share_of_link.is_some_and(|share| share >= LINK_FULL);
    let measured = nic.measured_bits_per_second.filter(|most| *most > 0.0);
    let share = side.share_of_link.or_else(|| Some(side.bits_per_second? / measured?));
    bar(view.theme, if full { TextRole::Bad } else { role }, share, columns)
}

/// Packets dropped and damaged per second, both directions; none where none are.
fn losses(nic: &NicRates) -> Option<f64> {
    let all = [&nic.receive, &nic.send]
        .into_iter()
        .flat_map(|side| [side.drops_per_second, side.errors_per_second]);
    let sum: f64 = all.flatten().sum();
    (sum > 0.0).then_some(sum)
}

/// The last line of a page that does not show all.
pub(crate) fn folded(view: &View<'_>, count: usize) -> Option<Line<'static>> {
    let words = format!(" {count} idle or without a link: a shows all");
    (count > 0).then(|| Line::from(piece(view.theme, TextRole::Soft, words)))
}

/// The page.
pub(crate) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    if view.moment.nics.is_empty() {
        return vec![Line::from(piece(view.theme, TextRole::Soft, " There is no interface but lo."))];
    }
    let shown = state::visible_nics(view);
    let mut lines: Vec<_> = shown.rows.iter().flat_map(|nic| block(view, nic, width)).collect();
    lines.extend(folded(view, shown.folded));
    lines
}

fn block(view: &View<'_>, nic: &NicRates, width: usize) -> Vec<Line<'static>> {
    let theme = view.theme;
    let link = match (nic.link_bits_per_second.known(), nic.link_bits_per_second.why()) {
        (Some(rate), _) => format!("link {}", bits(Some(*rate))),
        (None, why) => format!("link rate unknown ({})", outside(why.unwrap_or_default())),
    };
    let mut title = vec![piece(theme, TextRole::Title, format!(" {}", outside(&nic.name)))];
    title.extend(
        nic.driver.as_deref().map(|driver| piece(theme, TextRole::Soft, format!("  {}", outside(driver)))),
    );
    title.push(piece(theme, TextRole::Soft, format!("  {link}")));
    if !nic.built_on.is_empty() {
        title.push(piece(theme, TextRole::Soft, format!("  built on {}", outside(&nic.built_on.join(", ")))));
    }
    if nic.carrier == Some(false) {
        title.push(piece(theme, TextRole::Warn, "  no carrier"));
    }
    let mut lines = vec![Line::from(title)];
    lines.push(side(view, nic, &nic.send, SeriesKind::NicSend, width));
    lines.push(side(view, nic, &nic.receive, SeriesKind::NicReceive, width));
    for (word, side) in [("sent", &nic.send), ("received", &nic.receive)] {
        lines.extend(trouble(view, word, side));
    }
    let grows = |per_second: Option<f64>| {
        if per_second.is_some_and(|rate| rate > 0.0) { TextRole::Bad } else { TextRole::Soft }
    };
    lines.extend(nic.ethtool.iter().map(|counter| {
        let text = format!(
            "    {} {}/s  {} in all",
            fit(theme, &counter.name, 32),
            count(counter.per_second),
            counter.total
        );
        Line::from(piece(theme, grows(counter.per_second), text))
    }));
    lines.extend(nic.queues.iter().map(|queue| queue_line(view, queue)));
    lines.push(Line::default());
    lines
}

fn side(
    view: &View<'_>,
    nic: &NicRates,
    side: &NicDirection,
    kind: SeriesKind,
    width: usize,
) -> Line<'static> {
    let theme = view.theme;
    let (arrow, role) = match kind {
        SeriesKind::NicSend => (theme.mark("↑", "out"), TextRole::Out),
        _ => (theme.mark("↓", "in "), TextRole::In),
    };
    let wide = width >= 76;
    let figures = match wide {
        true => format!(
            " {:>10} {:>5} {:>6} packets/s ",
            bits(side.bits_per_second),
            percent(side.share_of_link),
            count(side.packets_per_second)
        ),
        false => format!(" {:>10} {:>5} ", bits(side.bits_per_second), percent(side.share_of_link)),
    };
    let free = width.saturating_sub(figures.chars().count() + arrow.chars().count() + 4);
    let spark = if wide { free / 2 } else { 0 };
    let mut spans = vec![Span::raw("  "), piece(theme, role, format!("{arrow} "))];
    spans.extend(side_bar(view, nic, side, role, free - spark));
    spans.push(piece(theme, TextRole::Plain, figures));
    let past = view.history.past(view.state.span, kind, &nic.name);
    spans.push(sparkline(theme, role, past.as_ref(), nic.link_bits_per_second.known().copied(), spark));
    Line::from(spans)
}

fn trouble(view: &View<'_>, word: &str, side: &NicDirection) -> Option<Line<'static>> {
    let (drops, errors) = (side.drops_per_second.unwrap_or(0.0), side.errors_per_second.unwrap_or(0.0));
    let text =
        format!("    of what is {word}: {} drops/s, {} errors/s", count(Some(drops)), count(Some(errors)));
    (drops > 0.0 || errors > 0.0).then(|| Line::from(piece(view.theme, TextRole::Bad, text)))
}

fn queue_line(view: &View<'_>, queue: &NicQueue) -> Line<'static> {
    let theme = view.theme;
    let mut text = format!("    queue {}", fit(theme, &queue.name, 4));
    let figures = [
        ("in", queue.receive_packets_per_second),
        ("out", queue.send_packets_per_second),
        ("irq", queue.interrupts_per_second),
    ];
    for (word, figure) in figures {
        text.push_str(&format!(" {word} {:>6}/s", count(figure)));
    }
    text.extend(queue.core.map(|core| format!("  core {core}")));
    let mut spans = vec![piece(theme, TextRole::Plain, text)];
    if queue.drops_per_second.is_some_and(|rate| rate > 0.0) {
        spans.push(piece(theme, TextRole::Bad, format!("  {}/s dropped", count(queue.drops_per_second))));
    }
    Line::from(spans)
}
