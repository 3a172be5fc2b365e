//! Processors, what interrupts them, memory and pressure.

use super::overview::grid;
use super::pieces::{count, fit, legend, outside, percent, piece, stack};
use super::programs::busiest_by_cpu;
use super::theme::TextRole;
use super::view::View;
use crate::model::{Core, IrqLine};
use linerate_facts::units::show_size;
use ratatui::text::Line;

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
