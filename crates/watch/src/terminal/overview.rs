//! The first page: what somebody needs who was woken up. Network, disks, processes, CPUs, losses; of
//! each as much as there is room for.

use super::network::{self, Columns};
use super::pieces::{
    TextRole, bits, bytes, count, fit, graph, outside, percent, piece, pushed_right, sparkline, stack,
};
use super::state::{self, View};
use super::{programs, storage};
use crate::history::{SeriesKind, sum};
use crate::model::{Core, DiskRates, DropLine, NicRates, summed};
use linerate_facts::printable::columns;
use ratatui::text::{Line, Span};

/// A terminal of fewer rows has no section of processes.
const ROWS_FOR_PROCESSES: usize = 14;

/// Sections, each with a title that says it in short.
pub(crate) fn lines(view: &View<'_>, width: usize, rows: usize) -> Vec<Line<'static>> {
    let (shown_nics, shown_disks) = (state::visible_nics(view), state::visible_disks(view));
    // In the order in which rows are given: what is lost comes before the third NIC.
    let nics = (nics(view, &shown_nics.rows, width), shown_nics.folded);
    let disks = (disks(view, &shown_disks.rows, width), shown_disks.folded);
    let mut sections = vec![nics, (losses(view, width), 0), disks, (cores(view, width), 0)];
    if rows >= ROWS_FOR_PROCESSES {
        sections.push((programs::section(view, width), 0));
    }
    let needs: Vec<usize> = sections.iter().map(|((_, body), _)| body.len()).collect();
    // A row between sections, where there is room for all.
    let airy = needs.iter().sum::<usize>() + 2 * sections.len() <= rows;
    let mut room = shares(&needs, rows.saturating_sub(sections.len()));
    let used: usize = room.iter().sum::<usize>() + if airy { 2 * sections.len() } else { sections.len() };
    // Losses are at the end of the screen.
    let (losses, losses_room) = (sections.remove(1), room.remove(1));
    sections.push(losses);
    room.push(losses_room);
    let mut lines = Vec::new();
    let mut graphs = graphs(view, width, rows.saturating_sub(used));
    for (((title, body), folded), room) in sections.into_iter().zip(room) {
        let left = body.len() - room;
        lines.push(more(view, title, left, folded, width));
        lines.extend(body.into_iter().take(room));
        // Below the NICs, which come first.
        lines.append(&mut graphs);
        if airy {
            lines.push(Line::default());
        }
    }
    lines
}

/// What all NICs sent and received, over the span, in the rows that are left.
fn graphs(view: &View<'_>, width: usize, free: usize) -> Vec<Line<'static>> {
    let rows = free.saturating_sub(2).min(12);
    if rows < 3 {
        return Vec::new();
    }
    let theme = view.theme;
    let past = |kind| view.history.past(view.state.span, kind, "");
    let half = width / 2;
    let sent = graph(theme, TextRole::Out, past(SeriesKind::SumSend).as_ref(), half, rows);
    let received = graph(theme, TextRole::In, past(SeriesKind::SumReceive).as_ref(), half, rows);
    let span = view.state.span.word();
    // The head of the screen says the span, too.
    let words = ["sent", "received"].map(|word| match half < 36 {
        true => format!("{:11}{word}", ""),
        false => format!("{:11}{word}, last {span}", ""),
    });
    let beside = |left: Line<'static>, right: Line<'static>| {
        let gap = half.saturating_sub(left.width());
        let spans = left.spans.into_iter().chain([Span::raw(" ".repeat(gap))]).chain(right.spans);
        Line::from(spans.collect::<Vec<_>>())
    };
    let [left, right] = words.map(|word| Line::from(piece(theme, TextRole::Soft, word)));
    let mut lines = vec![Line::default(), beside(left, right)];
    lines.extend(sent.into_iter().zip(received).map(|(left, right)| beside(left, right)));
    lines
}

/// Rows go round: one for each section that still needs one, until none are left.
fn shares(needs: &[usize], mut rows: usize) -> Vec<usize> {
    let mut rows_of = vec![0; needs.len()];
    while rows > 0 && rows_of != needs {
        for (rows_of, need) in rows_of.iter_mut().zip(needs) {
            if *rows_of < *need && rows > 0 {
                *rows_of += 1;
                rows -= 1;
            }
        }
    }
    rows_of
}

/// How many there was no room for, and how many are folded away.
fn more(view: &View<'_>, title: Line<'static>, left: usize, folded: usize, width: usize) -> Line<'static> {
    let words = match (left, folded) {
        (0, 0) => return title,
        (left, 0) => format!("+{left} "),
        (0, folded) => format!("{folded} idle: a "),
        (left, folded) => format!("+{left}, {folded} idle: a "),
    };
    pushed_right(title.spans, piece(view.theme, TextRole::Soft, words), width)
}

fn nics(view: &View<'_>, shown: &[&NicRates], width: usize) -> (Line<'static>, Vec<Line<'static>>) {
    let View { moment, theme, .. } = *view;
    let sent = sum(summed(&moment.nics).map(|nic| nic.send.bits_per_second));
    let received = sum(summed(&moment.nics).map(|nic| nic.receive.bits_per_second));
    let mut title = vec![
        piece(theme, TextRole::Title, " Network "),
        piece(theme, TextRole::Out, format!("{} {}  ", theme.mark("↑", "out"), bits(sent))),
        piece(theme, TextRole::In, format!("{} {}  ", theme.mark("↓", "in"), bits(received))),
    ];
    let columns = Columns::of(view, width);
    if width >= 70 {
        let past = view.history.past(view.state.span, SeriesKind::SumSend, "");
        // Above those of the rows, where they have some.
        let taken = Line::from(title.clone()).width();
        let (from, wide) = columns.graph().unwrap_or((taken, (width - 60).min(60)));
        title.push(Span::raw(" ".repeat(from.saturating_sub(taken))));
        title.push(sparkline(theme, TextRole::Out, past.as_ref(), None, wide));
    }
    (Line::from(title), shown.iter().map(|nic| network::row(view, nic, &columns)).collect())
}

fn disks(view: &View<'_>, shown: &[&DiskRates], width: usize) -> (Line<'static>, Vec<Line<'static>>) {
    let View { moment, theme, .. } = *view;
    // The bytes of virtual disks are those of the disks below; where none of those moves any (loop devices over files in
    // memory), they are their own.
    let moves =
        |disk: &DiskRates| disk.read.bytes_per_second > Some(0.0) || disk.write.bytes_per_second > Some(0.0);
    let moving = || moment.disks.iter().filter(|disk| moves(disk));
    let virtual_only = moving().count() > 0 && moving().all(|disk| disk.is_virtual);
    let counted = || moment.disks.iter().filter(|disk| disk.is_virtual == virtual_only);
    let read = sum(counted().map(|disk| disk.read.bytes_per_second));
    let written = sum(counted().map(|disk| disk.write.bytes_per_second));
    let title = Line::from(vec![
        piece(theme, TextRole::Title, " Disks "),
        piece(theme, TextRole::In, format!("read {}  ", bytes(read))),
        piece(theme, TextRole::Out, format!("write {}  ", bytes(written))),
    ]);
    (title, shown.iter().map(|disk| storage::row(view, disk, width)).collect())
}

fn cores(view: &View<'_>, width: usize) -> (Line<'static>, Vec<Line<'static>>) {
    let View { moment, theme, .. } = *view;
    let total = moment.cpus.total.as_ref();
    let mut title = vec![
        piece(theme, TextRole::Title, " CPU "),
        piece(theme, TextRole::Plain, format!("{} busy", percent(total.map(|total| total.busy())))),
        piece(theme, TextRole::Soft, format!("  softirq {}", percent(total.map(|total| total.softirq)))),
    ];
    if total.is_some_and(|total| total.steal > 0.005) {
        title.push(piece(
            theme,
            TextRole::Warn,
            format!("  stolen {}", percent(total.map(|total| total.steal))),
        ));
    }
    if width >= 60 {
        title.push(piece(
            theme,
            TextRole::Soft,
            format!("  {} interrupts/s", count(moment.cpus.interrupts_per_second)),
        ));
    }
    let mut busiest: Vec<&Core> = moment.cpus.each.iter().collect();
    let many = busiest.len() > 16;
    if many {
        // Of many cores, those that may hold the rest.
        let busy = |core: &Core| core.eight.map_or(0.0, |eight| eight.busy());
        busiest.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        busiest.truncate(16);
    }
    let mut lines = grid(view, &busiest, width);
    lines.extend(programs::busiest_by_cpu(view, width));
    (Line::from(title), lines)
}

/// Cores as stacked bars, as many beside each other as fit.
pub(crate) fn grid(view: &View<'_>, cores: &[&Core], width: usize) -> Vec<Line<'static>> {
    let across = ((width - 1) / 26).clamp(1, 8);
    let each = (width - 1) / across;
    let digits = 4;
    let cell = |core: &Core| -> Vec<Span<'static>> {
        let busy = percent(core.eight.map(|eight| eight.busy()));
        let mut spans = vec![piece(view.theme, TextRole::Soft, format!("{:>digits$} ", core.number))];
        spans.extend(stack(view.theme, core.eight.as_ref(), each.saturating_sub(digits + 8)));
        spans.push(piece(view.theme, TextRole::Plain, format!("{busy:>6} ")));
        spans
    };
    cores
        .chunks(across)
        .map(|row| Line::from(row.iter().flat_map(|core| cell(core)).collect::<Vec<_>>()))
        .collect()
}

fn losses(view: &View<'_>, width: usize) -> (Line<'static>, Vec<Line<'static>>) {
    let View { moment, theme, .. } = *view;
    let mut growing: Vec<&DropLine> =
        moment.drops.iter().filter(|line| line.per_second.is_some_and(|rate| rate > 0.0)).collect();
    growing.sort_by(|a, b| b.per_second.unwrap_or(0.0).total_cmp(&a.per_second.unwrap_or(0.0)));
    let title = match growing.len() {
        0 => Line::from(vec![
            piece(theme, TextRole::Title, " Losses "),
            piece(theme, TextRole::Good, "none now"),
        ]),
        1 => Line::from(vec![
            piece(theme, TextRole::Title, " Losses "),
            piece(theme, TextRole::Bad, "1 counter grows"),
        ]),
        some => Line::from(vec![
            piece(theme, TextRole::Title, " Losses "),
            piece(theme, TextRole::Bad, format!("{some} counters grow")),
        ]),
    };
    (title, growing.into_iter().map(|line| loss(view, line, width)).collect())
}

/// Where a cure is whole that has no room here.
const CURE_ELSEWHERE: &str = "cure: key 5";

/// One counter that grows, and its cure: whole, or the page that has it.
fn loss(view: &View<'_>, line: &DropLine, width: usize) -> Line<'static> {
    let theme = view.theme;
    let place = line.interface.as_deref().unwrap_or(&line.layer);
    // `softnet squeezed` says its layer itself.
    let name = match line.counter.starts_with(place) {
        true => line.counter.clone(),
        false => format!("{place} {}", line.counter),
    };
    let name = fit(theme, &name, if width >= 100 { 34 } else { 22 });
    let rate = format!(" {:>6}/s {}  ", count(line.per_second), outside(&line.unit));
    let mut spans =
        vec![Span::raw("  "), piece(theme, TextRole::Bad, name), piece(theme, TextRole::Bad, rate)];
    let left = width.saturating_sub(Line::from(spans.clone()).width());
    let cure = theme.signs(outside(&line.cure));
    let text = if columns(&cure) <= left { cure } else { CURE_ELSEWHERE.to_string() };
    if columns(&text) <= left {
        spans.push(piece(theme, TextRole::Plain, text));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_round_until_none_are_left() {
        assert_eq!(shares(&[2, 3, 16, 1], 3), [1, 1, 1, 0]);
        assert_eq!(shares(&[2, 3, 16, 1], 10), [2, 3, 4, 1]);
        assert_eq!(shares(&[2, 3, 1, 1], 100), [2, 3, 1, 1]);
        assert_eq!(shares(&[0, 0, 0, 0], 5), [0; 4]);
    }
}
