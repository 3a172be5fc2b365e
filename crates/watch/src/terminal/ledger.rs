//! The loss ledger with its cures, TCP and UDP, links, and what could not be read.

use super::pieces::{TextRole, count, flowing, outside, percent, piece};
use super::state::View;
use crate::model::DropLine;
use linerate_facts::printable::wrapped;
use ratatui::text::{Line, Span};

/// The page: what grows, with its cure, first.
pub(crate) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let View { moment, theme, .. } = *view;
    let grows = |line: &DropLine| line.per_second.is_some_and(|rate| rate > 0.0);
    let (growing, still): (Vec<_>, Vec<_>) = moment.drops.iter().partition(|line| grows(line));
    let mut lines = Vec::new();
    if growing.is_empty() {
        lines.push(Line::from(piece(theme, TextRole::Good, " Nothing is lost now.")));
    }
    for line in growing {
        lines.extend(counter(view, line, TextRole::Bad, width));
        let texts = [("", &line.meaning), ("cure: ", &line.cure)];
        for (word, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            let rows = wrapped(&theme.signs(format!("{word}{}", outside(text))), width.saturating_sub(6));
            lines.extend(
                rows.into_iter().map(|row| Line::from(piece(theme, TextRole::Plain, format!("     {row}")))),
            );
        }
    }
    if !still.is_empty() {
        lines.push(Line::from(piece(theme, TextRole::Title, " Lost before, not now")));
        lines.extend(still.into_iter().flat_map(|line| counter(view, line, TextRole::Soft, width)));
    }
    lines.push(Line::default());
    lines.extend(protocols(view, width));
    lines.extend(links(view, width));
    lines.extend(sources(view, width));
    lines
}

fn counter(view: &View<'_>, line: &DropLine, role: TextRole, width: usize) -> Vec<Line<'static>> {
    let place = line.interface.as_deref().map_or(String::new(), |name| format!(", {}", outside(name)));
    let name = format!("  {}{place}: {} ", outside(&line.layer), outside(&line.counter));
    let rate = format!(" {} {}/s  {} in all", count(line.per_second), outside(&line.unit), line.total);
    flowing(vec![piece(view.theme, role, name), piece(view.theme, role, rate)], 5, width)
}

fn protocols(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let View { moment, theme, .. } = *view;
    let (tcp, udp) = (&moment.tcp, &moment.udp);
    let part = |text: String, rate: Option<f64>| {
        piece(theme, if rate.is_some_and(|rate| rate > 0.0) { TextRole::Warn } else { TextRole::Soft }, text)
    };
    let connections = tcp.established.map_or("-".to_string(), |count| count.to_string());
    let tcp = vec![
        piece(theme, TextRole::Title, " TCP "),
        piece(
            theme,
            TextRole::Plain,
            format!(
                "{connections} connections  in {}/s  out {}/s  ",
                count(tcp.segments_in_per_second),
                count(tcp.segments_out_per_second)
            ),
        ),
        part(
            format!(
                "retransmitted {}/s ({})  ",
                count(tcp.retransmits_per_second),
                percent(tcp.retransmit_share)
            ),
            tcp.retransmits_per_second,
        ),
        part(format!("time-outs {}/s  ", count(tcp.timeouts_per_second)), tcp.timeouts_per_second),
        part(format!("zero windows {}/s", count(tcp.zero_windows_per_second)), tcp.zero_windows_per_second),
    ];
    let mut lines = flowing(tcp, 5, width);
    let causes = [
        ("receive buffer full", udp.receive_buffer_drops_per_second),
        ("send buffer full", udp.send_buffer_drops_per_second),
        ("checksum", udp.checksum_drops_per_second),
        ("memory", udp.memory_drops_per_second),
        ("no program listened", udp.no_port_per_second),
        ("other", udp.other_drops_per_second),
    ];
    let mut spans: Vec<Span<'static>> = vec![
        piece(theme, TextRole::Title, " UDP "),
        piece(
            theme,
            TextRole::Plain,
            format!(
                "in {}/s  out {}/s  ",
                count(udp.datagrams_in_per_second),
                count(udp.datagrams_out_per_second)
            ),
        ),
    ];
    let dropped: Vec<_> =
        causes.into_iter().filter(|(_, rate)| rate.is_some_and(|rate| rate > 0.0)).collect();
    match dropped.is_empty() {
        true => spans.push(piece(theme, TextRole::Soft, "no drops")),
        false => spans.extend(
            dropped
                .into_iter()
                .map(|(cause, rate)| piece(theme, TextRole::Bad, format!("{cause} {}/s  ", count(rate)))),
        ),
    }
    lines.extend(flowing(spans, 5, width));
    lines
}

fn links(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let theme = view.theme;
    let line = |link: &crate::model::PcieLink| {
        let device = link.device.as_deref().map_or(String::new(), |device| format!(" ({})", outside(device)));
        let was = link.was.as_deref().map_or(String::new(), |was| format!(", was {}", outside(was)));
        let text = format!(
            " {}{device}: {} GT/s x{} of {} GT/s x{}{was}",
            outside(&link.address),
            link.gigatransfers_per_second,
            link.width,
            link.best_gigatransfers_per_second,
            link.best_width
        );
        let role = if link.was.is_some() { TextRole::Bad } else { TextRole::Warn };
        flowing(vec![piece(theme, TextRole::Title, " PCIe"), piece(theme, role, text)], 6, width)
    };
    view.moment.links.iter().flat_map(line).collect()
}

/// What did not answer, and what cannot be read here.
fn sources(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let theme = view.theme;
    let slow = view.moment.slow.iter().map(|source| (TextRole::Warn, outside(source)));
    let unknown = view
        .moment
        .unknown
        .iter()
        .map(|(source, why)| (TextRole::Soft, format!("{}: {}", outside(source), outside(why))));
    slow.chain(unknown)
        .flat_map(|(role, text)| {
            wrapped(&theme.signs(text), width.saturating_sub(2)).into_iter().map(move |row| (role, row))
        })
        .map(|(role, row)| Line::from(piece(theme, role, format!(" {row}"))))
        .collect()
}
