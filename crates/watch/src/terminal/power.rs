//! Power: watts, what that is above idle, and joules per GB moved.

use super::pieces::{bytes, flowing, outside, piece, sparkline};
use super::theme::TextRole;
use super::view::View;
use crate::history::SeriesKind;
use crate::model::PowerSource;
use linerate_facts::printable::wrapped;
use ratatui::text::{Line, Span};

/// The page.
pub(crate) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let View { moment, theme, .. } = *view;
    let energy = &moment.energy;
    let mut lines = Vec::new();
    match (energy.watts, energy.by.known()) {
        (Some(watts), by) => {
            let by = by.map_or(String::new(), |by| format!("  by {}", outside(by)));
            lines.push(Line::from(vec![
                piece(theme, TextRole::Strong, format!(" {watts:.0} W")),
                piece(theme, TextRole::Soft, by),
            ]));
            let past = view.history.past(view.state.span, SeriesKind::Power, "");
            lines.push(Line::from(vec![
                Span::raw(" "),
                sparkline(theme, TextRole::Plain, past.as_ref(), None, width.saturating_sub(2).min(60)),
            ]));
        }
        (None, _) => {
            let why = energy.by.why().unwrap_or("no meter has reported yet");
            let rows =
                wrapped(&theme.signs(format!("Power is unknown: {}", outside(why))), width.saturating_sub(2));
            lines.extend(
                rows.into_iter().map(|row| Line::from(piece(theme, TextRole::Soft, format!(" {row}")))),
            );
        }
    }
    lines.push(Line::from(piece(
        theme,
        TextRole::Plain,
        format!(" moved {}", bytes(energy.moved_bytes_per_second)),
    )));
    if let Some(joules) = energy.joules_per_gb {
        let above = energy
            .joules_per_gb_above_idle
            .map_or(String::new(), |above| format!(", {above:.1} J above idle"));
        lines.push(Line::from(piece(theme, TextRole::Plain, format!(" {joules:.1} J per GB moved{above}"))));
    }
    lines.push(Line::default());
    lines.extend(moment.power.iter().flat_map(|meter| meter_lines(view, meter, width)));
    lines
}

fn meter_lines(view: &View<'_>, meter: &PowerSource, width: usize) -> Vec<Line<'static>> {
    let watts = match (meter.watts.known(), meter.watts.why()) {
        (Some(watts), _) => format!("{watts:>7.1} W"),
        (None, why) => format!("unknown: {}", outside(why.unwrap_or_default())),
    };
    let indent = if meter.part_of_another { "   " } else { " " };
    let mut text = format!("{indent}{}  {watts}", outside(&meter.name));
    text.extend(meter.idle_watts.map(|idle| format!("  idle {idle:.1} W")));
    text.extend(meter.above_idle_watts.map(|above| format!("  {above:+.1} W above idle")));
    text.extend(meter.joules.map(|joules| format!("  {:.2} kJ so far", joules / 1000.0)));
    flowing(vec![piece(view.theme, TextRole::Plain, text)], 5, width)
}
