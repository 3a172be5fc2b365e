//! Processors, what interrupts them, memory and pressure; and power: watts, what that is above idle, and
//! joules per GB moved.

use super::overview::grid;
use super::pieces::{
    TextRole, bytes, count, fit, flowing, legend, outside, percent, piece, sparkline, stack,
};
use super::programs::busiest_by_cpu;
use super::state::View;
use crate::history::SeriesKind;
use crate::model::{Core, IrqLine, PowerSource};
use linerate_facts::printable::wrapped;
use linerate_facts::units::show_size;
use ratatui::text::{Line, Span};

/// Interrupts shown at most: the busiest.
const INTERRUPTS: usize = 12;

/// The page.
pub(crate) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let View { moment, theme, .. } = *view;
    let mut all = vec![piece(theme, TextRole::Title, " all  ")];
    all.extend(stack(theme, moment.cpus.total.as_ref(), width.saturating_sub(14)));
    all.push(piece(
        theme,
        TextRole::Plain,
        format!("{:>6}", percent(moment.cpus.total.map(|total| total.busy()))),
    ));
    let cores: Vec<&Core> = moment.cpus.each.iter().collect();
    let mut classes = legend(theme);
    classes.spans.insert(0, " ".into());
    let mut lines = vec![Line::from(all)];
    lines.extend(grid(view, &cores, width));
    lines.extend(busiest_by_cpu(view, width));
    lines.push(classes);
    lines.push(counts(view));
    lines.extend(softnet(view));
    lines.push(Line::default());
    lines.extend(memory(view));
    lines.push(Line::default());
    lines.extend(interrupts(view, width));
    lines
}

fn counts(view: &View<'_>) -> Line<'static> {
    let cpus = &view.moment.cpus;
    let mut text = format!(
        " {} interrupts/s  {} context switches/s  {} run  {} wait for disks",
        count(cpus.interrupts_per_second),
        count(cpus.context_switches_per_second),
        cpus.running,
        cpus.blocked
    );
    if let Some(share) = cpus.throttled_share.filter(|share| *share > 0.0) {
        text.push_str(&format!("  the quota held it in {} of the periods", percent(Some(share))));
    }
    Line::from(piece(view.theme, TextRole::Soft, text))
}

/// Cores whose softirq drops or cannot keep up.
fn softnet(view: &View<'_>) -> Vec<Line<'static>> {
    let grows = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    let troubled = view
        .moment
        .softnet
        .iter()
        .filter(|core| grows(core.dropped_per_second) || grows(core.squeezed_per_second));
    troubled
        .take(8)
        .map(|core| {
            let text = format!(
                " softnet, core {}: {} packets/s, {}/s dropped, {} rounds/s squeezed",
                core.core,
                count(core.processed_per_second),
                count(core.dropped_per_second),
                count(core.squeezed_per_second)
            );
            Line::from(piece(
                view.theme,
                if grows(core.dropped_per_second) { TextRole::Bad } else { TextRole::Warn },
                text,
            ))
        })
        .collect()
}

fn memory(view: &View<'_>) -> Vec<Line<'static>> {
    let View { moment, theme, .. } = *view;
    let memory = &moment.memory;
    let mut text = format!(
        "{} of {} available  cached {}  dirty {}  being written {}",
        show_size(memory.available),
        show_size(memory.total),
        show_size(memory.cached),
        show_size(memory.dirty),
        show_size(memory.writeback)
    );
    if memory.huge_total > 0 {
        text.push_str(&format!(
            "  huge pages {} of {} free",
            show_size(memory.huge_free),
            show_size(memory.huge_total)
        ));
    }
    let mut lines = vec![Line::from(vec![
        piece(theme, TextRole::Title, " Memory "),
        piece(theme, TextRole::Plain, text),
    ])];
    let pressure: Vec<String> = moment
        .pressure
        .iter()
        .map(|one| {
            let some = one.some_share.or(one.some_10s);
            let full = one.full_share.or(one.full_10s);
            match some {
                Some(_) => format!("{} {} (all {})", outside(&one.resource), percent(some), percent(full)),
                None => format!("{} all {}", outside(&one.resource), percent(full)),
            }
        })
        .collect();
    if !pressure.is_empty() {
        lines.push(Line::from(vec![
            piece(theme, TextRole::Title, " Waiting "),
            piece(theme, TextRole::Plain, pressure.join("  ")),
        ]));
    }
    lines
}

fn interrupts(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let theme = view.theme;
    if view.moment.irqs.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::from(piece(theme, TextRole::Title, " Interrupts"))];
    let name = if width >= 76 { 34 } else { 16 };
    let line = |irq: &IrqLine| {
        let cores: Vec<String> = irq.by_core.iter().take(3).map(|(core, _)| core.to_string()).collect();
        let word = if cores.len() == 1 { "core" } else { "cores" };
        let more = if irq.by_core.len() > 3 { " and others" } else { "" };
        let text = format!(
            "  {:>5} {} {:>6}/s  {word} {}{more}",
            outside(&irq.number),
            fit(theme, &irq.name, name),
            count(irq.per_second),
            cores.join(" ")
        );
        Line::from(piece(theme, TextRole::Plain, text))
    };
    lines.extend(view.moment.irqs.iter().take(INTERRUPTS).map(line));
    lines
}

/// The page.
pub(crate) fn power_lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
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
