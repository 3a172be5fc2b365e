//! Disks: a row each in the overview, and the page.

use super::network::folded;
use super::pieces::{TextRole, bar, bytes, count, fit, milliseconds, outside, piece, sparkline};
use super::state::{self, View};
use crate::history::SeriesKind;
use crate::model::{DiskRates, DiskWay};
use linerate_facts::units::show_size;
use ratatui::text::{Line, Span};

/// Reads and writes together on the disk's scale; where it was never measured the share of the time that it had a request.
pub(crate) fn share(disk: &DiskRates) -> Option<f64> {
    let now = disk.read.bytes_per_second.unwrap_or(0.0) + disk.write.bytes_per_second.unwrap_or(0.0);
    disk.scale_bytes_per_second().map(|most| now / most).or(disk.busy_share)
}

/// One row.
pub(crate) fn row(view: &View<'_>, disk: &DiskRates, width: usize) -> Line<'static> {
    let theme = view.theme;
    let queue = disk.queue_depth.map_or("-".into(), |depth| format!("{depth:.1}"));
    let columns = match width {
        ..80 => 8,
        80..100 => 10,
        _ => 14,
    };
    let name = fit(theme, &disk.name, columns);
    let mut spans = vec![Span::raw(" "), piece(theme, TextRole::Plain, name), Span::raw(" ")];
    if width < 80 {
        spans.push(piece(theme, TextRole::In, format!("{:>9} ", bytes(disk.read.bytes_per_second))));
        spans.push(piece(theme, TextRole::Out, format!("{:>9} ", bytes(disk.write.bytes_per_second))));
        spans.push(piece(theme, TextRole::Soft, format!("q {queue}")));
        return Line::from(spans);
    }
    spans.extend(bar(theme, TextRole::In, share(disk), width.saturating_sub(67 + columns).min(40)));
    for (word, side, role) in [("r", &disk.read, TextRole::In), ("w", &disk.write, TextRole::Out)] {
        spans.push(piece(theme, role, format!(" {word} {:>9}", bytes(side.bytes_per_second))));
        spans.push(piece(
            theme,
            TextRole::Soft,
            format!(" {:>5}/s {:>7}", count(side.requests_per_second), latency(side)),
        ));
    }
    spans.push(piece(theme, TextRole::Plain, format!("  q {queue:>5}")));
    Line::from(spans)
}

fn latency(side: &DiskWay) -> String {
    match side.latency_ms {
        None => String::new(),
        known => milliseconds(known),
    }
}

/// The page.
pub(crate) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    if view.moment.disks.is_empty() {
        return vec![Line::from(piece(view.theme, TextRole::Soft, " There is no disk."))];
    }
    let shown = state::visible_disks(view);
    let mut lines: Vec<_> = shown.rows.iter().flat_map(|disk| block(view, disk, width)).collect();
    lines.extend(folded(view, shown.folded));
    lines
}

fn block(view: &View<'_>, disk: &DiskRates, width: usize) -> Vec<Line<'static>> {
    let theme = view.theme;
    let mut title = vec![piece(theme, TextRole::Title, format!(" {}", outside(&disk.name)))];
    title.extend(
        disk.model
            .as_deref()
            .map(|model| piece(theme, TextRole::Soft, format!("  {}", outside(model.trim())))),
    );
    title.extend(disk.size_bytes.map(|size| piece(theme, TextRole::Soft, format!("  {}", show_size(size)))));
    if disk.is_virtual {
        title.push(piece(theme, TextRole::Soft, "  virtual: its bytes are those of disks below"));
    }
    let depth = disk.queue_depth.map_or("-".into(), |depth| format!("{depth:.1}"));
    let mut queue = format!("    queue {depth} deep, {} in flight", disk.in_flight);
    for (word, rate) in [("discards", disk.discard.requests_per_second), ("flushes", disk.flushes_per_second)]
    {
        if rate.is_some_and(|rate| rate > 0.0) {
            queue.push_str(&format!(", {} {word}/s", count(rate)));
        }
    }
    let best =
        disk.best_bytes_per_second.map_or(String::new(), |best| format!(", most seen {}", bytes(Some(best))));
    let measured = disk.measured_bytes_per_second;
    let best = best + &measured.map_or(String::new(), |rate| format!(", measured {}", bytes(Some(rate))));
    vec![
        Line::from(title),
        side(view, disk, &disk.read, SeriesKind::DiskRead, width),
        side(view, disk, &disk.write, SeriesKind::DiskWrite, width),
        Line::from(piece(theme, TextRole::Soft, format!("{queue}{best}"))),
        Line::default(),
    ]
}

fn side(view: &View<'_>, disk: &DiskRates, side: &DiskWay, kind: SeriesKind, width: usize) -> Line<'static> {
    let theme = view.theme;
    let (word, role) =
        if kind == SeriesKind::DiskRead { ("read ", TextRole::In) } else { ("write", TextRole::Out) };
    let wide = width >= 76;
    let figures = match wide {
        true => {
            let size = side
                .request_bytes
                .map_or(String::new(), |size| format!("of {}", show_size(size.max(0.0) as u64)));
            format!(
                " {:>9} {:>6}/s {size:<12} {:>7} ",
                bytes(side.bytes_per_second),
                count(side.requests_per_second),
                latency(side)
            )
        }
        false => {
            format!(" {:>9} {:>6}/s ", bytes(side.bytes_per_second), count(side.requests_per_second))
        }
    };
    let free = width.saturating_sub(figures.chars().count() + word.len() + 4);
    let spark = if wide { free / 2 } else { 0 };
    let now = side.bytes_per_second.zip(disk.scale_bytes_per_second());
    let mut spans = vec![Span::raw("  "), piece(theme, role, format!("{word} "))];
    spans.extend(bar(theme, role, now.map(|(now, best)| now / best), free - spark));
    spans.push(piece(theme, TextRole::Plain, figures));
    let past = view.history.past(view.state.span, kind, &disk.name);
    spans.push(sparkline(theme, role, past.as_ref(), disk.scale_bytes_per_second(), spark));
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_end_at_what_was_measured_or_at_more_that_was_seen() {
        let of = |best, measured| {
            let read = DiskWay { bytes_per_second: Some(100.0), ..DiskWay::default() };
            let disk = DiskRates {
                read,
                best_bytes_per_second: best,
                measured_bytes_per_second: measured,
                ..DiskRates::default()
            };
            share(&disk)
        };
        assert_eq!(of(Some(100.0), None), None);
        assert_eq!(of(Some(100.0), Some(400.0)), Some(0.25));
        assert_eq!(of(Some(400.0), Some(200.0)), Some(0.25));
        assert_eq!(of(None, Some(200.0)), Some(0.5));
        assert_eq!(of(Some(0.0), None), None);
    }
}
