//! Every measurement with its samples as dots; many alike devices as one row that opens.

use super::pieces::{card, heading, letter_tag, table, tagged};
use crate::figure::{Figure, percent, quantity, rate};
use crate::markup::{Markup, at, html};
use crate::stages::{DeviceRow, Entry, Group, grouped, rows};
use crate::verdict::RunVerdict;
use linerate_facts::wording::counted;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_model::plan::Origin;

/// More alike devices than this become one row.
const ROWS_OF_A_KIND: usize = 8;

/// Dots drawn of one measurement.
const DOTS: usize = 200;

const STRIP_WIDTH: f64 = 132.0;

/// Columns in which something is known; the others are left out.
#[derive(Clone, Copy)]
struct KnownColumns {
    rated: bool,
    effective: bool,
}

/// The section with the table.
pub(super) fn section(run: &Run, verdict: &RunVerdict) -> Markup {
    let rows = rows(run);
    if rows.is_empty() {
        let empty = html! { p class="empty" { "Nothing was measured." } };
        return card("stages", "Stages", html! {}, empty);
    }
    let entries = grouped(&rows, ROWS_OF_A_KIND);
    let known = KnownColumns {
        rated: rows.iter().any(|row| row.measurement.stage != Stage::Path && row.rated.value.is_some()),
        effective: rows.iter().any(|row| row.effective.value.is_some()),
    };
    let stage_of = |entry: &Entry| match entry {
        Entry::One(row) => row.measurement.stage,
        Entry::Many(group) => group.rows[0].measurement.stage,
    };
    let stages = html! {
        @for entries in entries.chunk_by(|one, next| stage_of(one) == stage_of(next)) {
            tbody {
                tr class="stage" { th scope="rowgroup" colspan=(6 + usize::from(known.rated) + usize::from(known.effective)) { (stage_of(&entries[0])) } }
                @for entry in entries {
                    @match entry {
                        Entry::One(row) => (one(row, verdict, known)),
                        Entry::Many(group) => (many(group, verdict, known)),
                    }
                }
            }
        }
    };
    let intro = html! {
        "Samples: one dot a repeat, the tick is their median, the line the effective rate; from 0 at the left. Spread \
         is (highest − lowest) ÷ median. CPU seconds are those of our processes for 10⁹ bytes."
    };
    let body =
        html! { (table("stages", head(known), stages)) (details(&entries, verdict, known)) (reasons(&rows)) };
    card("stages", "Stages", intro, body)
}

fn head(known: KnownColumns) -> Markup {
    let measured = || letter_tag(Origin::Measured);
    html! {
        (heading(false, html! { "measurement" }))
        @if known.rated { (heading(true, html! { "rated " (letter_tag(Origin::Rated)) })) }
        @if known.effective { (heading(true, html! { "effective " (letter_tag(Origin::Effective)) })) }
        (heading(true, html! { "measured " (measured()) }))
        (heading(false, html! { "samples " (measured()) }))
        (heading(true, html! { "spread " (measured()) }))
        (heading(true, html! { "CPU s/GB " (measured()) }))
        (heading(false, html! { "notes; how" }))
    }
}

fn one(row: &DeviceRow, verdict: &RunVerdict, known: KnownColumns) -> Markup {
    let m = row.measurement;
    let cut = verdict.cut.contains(&m.resource);
    let spread = if m.samples.len() > 1 { percent(m.spread) } else { "–".into() };
    let cpu = if m.cpu_seconds_per_gb > 0.0 { quantity(m.cpu_seconds_per_gb) } else { "–".into() };
    html! {
        tr class=[cut.then_some("cut")] {
            th scope="row" { (row.name()) (cut_mark(cut, verdict)) }
            @if known.rated {
                td class="r" { @if m.stage == Stage::Path { "–" } @else { (tagged(&row.rated, row.unit)) } }
            }
            @if known.effective { td class="r" { (tagged(&row.effective, row.unit)) } }
            td class="r" { b { (tagged(&row.measured, row.unit)) } }
            td { (strip(row)) }
            td class="r num" { (spread) }
            td class="r num" { (cpu) }
            td class="how" { (remarks(row)) }
        }
    }
}

fn cut_mark(cut: bool, verdict: &RunVerdict) -> Markup {
    let (class, word) =
        if verdict.confirmed { ("cutmark", "bottleneck") } else { ("cutmark predicted", "predicted") };
    html! { @if cut { " " span class=(class) { (word) } } }
}

fn remarks(row: &DeviceRow) -> Markup {
    let m = row.measurement;
    html! {
        @if let Some(held) = row.held() { span class="chip warn" { (held) } " " }
        @if m.loss > 0.0 { span class="chip bad" { (percent(m.loss)) " lost" } " " }
        @for flag in &m.flags { span class="chip" { (flag) } " " }
        (m.method)
    }
}

fn many(group: &Group, verdict: &RunVerdict, known: KnownColumns) -> Markup {
    let cut = group.rows.iter().any(|row| verdict.cut.contains(&row.measurement.resource));
    html! {
        tr class=[cut.then_some("cut")] {
            th scope="row" { (group.name()) ", each alone" (cut_mark(cut, verdict)) }
            @if known.rated { td class="r num" { (ranged(group, |row| &row.rated)) } }
            @if known.effective { td class="r num" { (ranged(group, |row| &row.effective)) } }
            td class="r num" { b { (ranged(group, |row| &row.measured)) } }
            td { (strip_of_group(group)) }
            td class="r num" { "≤ " (percent(group.largest(|m| m.spread))) }
            td class="r num" { "≤ " (quantity(group.largest(|m| m.cpu_seconds_per_gb))) }
            td class="how" { (group.slowest_text()) " " (group.remarks()) }
        }
    }
}

/// Lowest and highest with their tag.
fn ranged(group: &Group, figure: impl for<'r, 's> Fn(&'r DeviceRow<'s>) -> &'r Figure + Copy) -> Markup {
    let known = group.rows.iter().all(|row| figure(row).value.is_some());
    let origin = if known { figure(&group.rows[0]).origin } else { Origin::Unknown };
    html! { span class="num" { (group.range(figure)) } " " (letter_tag(origin)) }
}

/// The single devices behind the rows that stand for many.
fn details(entries: &[Entry], verdict: &RunVerdict, known: KnownColumns) -> Markup {
    let groups =
        entries.iter().filter_map(|entry| if let Entry::Many(group) = entry { Some(group) } else { None });
    html! {
        @for group in groups {
            details {
                summary { (group.name()) ", each alone" }
                (table("stages", head(known), html! { tbody { @for row in &group.rows { (one(row, verdict, known)) } } }))
            }
        }
    }
}

/// Why figures are unknown, each reason once.
fn reasons(rows: &[DeviceRow]) -> Markup {
    let figures = rows.iter().flat_map(|row| [&row.rated, &row.effective, &row.measured]);
    let mut reasons: Vec<&str> = figures.filter_map(|figure| figure.why.as_deref()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons.truncate(6);
    html! { @if !reasons.is_empty() { p class="caption" { "Unknown: " (reasons.join("; ")) "." } } }
}

/// Samples as dots on a line from 0.
fn strip(row: &DeviceRow) -> Markup {
    let samples: Vec<f64> = row.measurement.samples.iter().copied().filter_map(rate).collect();
    let text: Vec<String> = samples.iter().take(12).map(|sample| row.unit.show(*sample)).collect();
    dots(&samples, row.measured.value, row.effective.value, &text.join(", "))
}

/// Medians of the devices as dots.
fn strip_of_group(group: &Group) -> Markup {
    let medians: Vec<f64> = group.rows.iter().filter_map(|row| row.measured.value).collect();
    let effective = group.rows.iter().filter_map(|row| row.effective.value).reduce(f64::max);
    dots(&medians, None, effective, &format!("{}, a dot each", counted(medians.len(), "device")))
}

fn dots(samples: &[f64], median: Option<f64>, effective: Option<f64>, text: &str) -> Markup {
    let longest = samples.iter().copied().chain(median).chain(effective).fold(0.0, f64::max);
    if longest <= 0.0 || samples.is_empty() {
        return html! { "–" };
    }
    let place = |value: f64| at(5.0 + value / longest * (STRIP_WIDTH - 10.0));
    let width = at(STRIP_WIDTH);
    html! {
        svg class="strip" viewBox={ "0 0 " (width) " 18" } width=(width) height="18" role="img" aria-label=(text) {
            title { (text) }
            path class="axis" d={ "M5 9H" (at(STRIP_WIDTH - 5.0)) } {}
            @if let Some(value) = effective { path class="effective" d={ "M" (place(value)) " 1V17" } {} }
            @if let Some(value) = median { path class="median" d={ "M" (place(value)) " 3V15" } {} }
            @for sample in samples.iter().take(DOTS) { circle cx=(place(*sample)) cy="9" r="3" {} }
        }
    }
}
