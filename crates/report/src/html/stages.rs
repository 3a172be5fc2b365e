//! Every measurement with its samples as dots; many alike devices as one row that opens.

use super::text::{at, escape, letter_tag, section as card, tagged};
use crate::figure::{Figure, percent, quantity, rate};
use crate::stages::{DeviceRow, Entry, Group, grouped, rows};
use crate::verdict::RunVerdict;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_model::plan::Origin;

/// More alike devices than this become one row.
const ROWS_OF_A_KIND: usize = 8;

/// Dots drawn of one measurement.
const DOTS: usize = 200;

const STRIP_WIDTH: f64 = 132.0;

/// The section with the table.
pub(super) fn section(run: &Run, verdict: &RunVerdict) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return card("stages", "Stages", "", "<p class=\"empty\">Nothing was measured.</p>");
    }
    let entries = grouped(&rows, ROWS_OF_A_KIND);
    let mut body = String::from("<div class=\"scroll\"><table class=\"stages\">");
    body += &head();
    let mut stage: Option<Stage> = None;
    for entry in &entries {
        let now = match entry {
            Entry::One(row) => row.measurement.stage,
            Entry::Many(group) => group.rows[0].measurement.stage,
        };
        if stage != Some(now) {
            body += if stage.is_some() { "</tbody>" } else { "" };
            body +=
                &format!("<tbody><tr class=\"stage\"><th scope=\"rowgroup\" colspan=\"8\">{now}</th></tr>");
            stage = Some(now);
        }
        body += &match entry {
            Entry::One(row) => one(row, verdict),
            Entry::Many(group) => many(group, verdict),
        };
    }
    body += "</tbody></table></div>";
    body += &details(&entries, verdict);
    body += &reasons(&rows);
    let intro = "Samples: one dot a repeat, the tick is their median, the line the effective rate; from 0 at \
                 the left. Spread is \
                 (highest − lowest) ÷ median. CPU seconds are those of our processes for 10⁹ bytes.";
    card("stages", "Stages", intro, &body)
}

fn head() -> String {
    format!(
        "<thead><tr><th scope=\"col\">measurement</th><th scope=\"col\" class=\"r\">rated {}</th><th \
         scope=\"col\" class=\"r\">effective {}</th><th scope=\"col\" class=\"r\">measured {m}</th><th \
         scope=\"col\">samples {m}</th><th scope=\"col\" class=\"r\">spread {m}</th><th scope=\"col\" \
         class=\"r\">CPU s/GB {m}</th><th scope=\"col\">notes; how</th></tr></thead>",
        letter_tag(Origin::Rated),
        letter_tag(Origin::Effective),
        m = letter_tag(Origin::Measured)
    )
}

fn one(row: &DeviceRow, verdict: &RunVerdict) -> String {
    let m = row.measurement;
    let cut = verdict.cut.contains(&m.resource);
    let spread = if m.samples.len() > 1 { percent(m.spread) } else { "–".into() };
    let cpu = if m.cpu_seconds_per_gb > 0.0 { quantity(m.cpu_seconds_per_gb) } else { "–".into() };
    let rated = if m.stage == Stage::Path { "–".into() } else { tagged(&row.rated, row.unit) };
    format!(
        "<tr{}><th scope=\"row\">{}{}</th><td class=\"r\">{rated}</td><td class=\"r\">{}</td><td \
         class=\"r\"><b>{}</b></td><td>{}</td>\
         <td class=\"r num\">{spread}</td><td class=\"r num\">{cpu}</td><td class=\"how\">{}</td></tr>",
        if cut { " class=\"cut\"" } else { "" },
        escape(&row.name()),
        if cut { " <span class=\"cutmark\">bottleneck</span>" } else { "" },
        tagged(&row.effective, row.unit),
        tagged(&row.measured, row.unit),
        strip(row),
        remarks(row)
    )
}

fn remarks(row: &DeviceRow) -> String {
    let m = row.measurement;
    let mut text = String::new();
    if let Some(held) = row.held() {
        text += &format!("<span class=\"chip warn\">{held}</span> ");
    }
    if m.loss > 0.0 {
        text += &format!("<span class=\"chip bad\">{} lost</span> ", percent(m.loss));
    }
    for flag in &m.flags {
        text += &format!("<span class=\"chip\">{}</span> ", escape(flag));
    }
    text + &escape(&m.method)
}

fn many(group: &Group, verdict: &RunVerdict) -> String {
    let cut = group.rows.iter().any(|row| verdict.cut.contains(&row.measurement.resource));
    format!(
        "<tr{}><th scope=\"row\">{}, each alone{}</th><td class=\"r num\">{}</td><td class=\"r \
         num\">{}</td><td class=\"r num\"><b>{}</b></td>\
         <td>{}</td><td class=\"r num\">≤ {}</td><td class=\"r num\">≤ {}</td><td class=\"how\">{} \
         {}</td></tr>",
        if cut { " class=\"cut\"" } else { "" },
        escape(&group.name()),
        if cut { " <span class=\"cutmark\">bottleneck</span>" } else { "" },
        ranged(group, |row| &row.rated),
        ranged(group, |row| &row.effective),
        ranged(group, |row| &row.measured),
        strip_of_group(group),
        percent(group.largest(|m| m.spread)),
        quantity(group.largest(|m| m.cpu_seconds_per_gb)),
        escape(&group.slowest_text()),
        escape(&group.remarks())
    )
}

/// Lowest and highest with their tag.
fn ranged(group: &Group, figure: impl for<'r, 's> Fn(&'r DeviceRow<'s>) -> &'r Figure + Copy) -> String {
    let known = group.rows.iter().all(|row| figure(row).value.is_some());
    let origin = if known { figure(&group.rows[0]).origin } else { Origin::Unknown };
    format!("<span class=\"num\">{}</span> {}", group.range(figure), letter_tag(origin))
}

/// The single devices behind the rows that stand for many.
fn details(entries: &[Entry], verdict: &RunVerdict) -> String {
    let mut text = String::new();
    for entry in entries {
        let Entry::Many(group) = entry else { continue };
        let rows: String = group.rows.iter().map(|row| one(row, verdict)).collect();
        text += &format!(
            "<details><summary>{}, each alone</summary><div class=\"scroll\"><table \
             class=\"stages\">{}<tbody>{rows}</tbody></table></div></details>",
            escape(&group.name()),
            head()
        );
    }
    text
}

/// Why figures are unknown, each reason once.
fn reasons(rows: &[DeviceRow]) -> String {
    let figures = rows.iter().flat_map(|row| [&row.rated, &row.effective, &row.measured]);
    let mut reasons: Vec<&String> = figures.filter_map(|figure| figure.why.as_ref()).collect();
    reasons.sort();
    reasons.dedup();
    let listed: Vec<String> = reasons.iter().take(6).map(|why| escape(why)).collect();
    if listed.is_empty() {
        String::new()
    } else {
        format!("<p class=\"caption\">Unknown: {}.</p>", listed.join("; "))
    }
}

/// Samples as dots on a line from 0.
fn strip(row: &DeviceRow) -> String {
    let samples: Vec<f64> = row.measurement.samples.iter().copied().filter_map(rate).collect();
    let text: Vec<String> = samples.iter().take(12).map(|sample| row.unit.show(*sample)).collect();
    dots(&samples, row.measured.value, row.effective.value, &text.join(", "))
}

/// Medians of the devices as dots.
fn strip_of_group(group: &Group) -> String {
    let medians: Vec<f64> = group.rows.iter().filter_map(|row| row.measured.value).collect();
    let effective = group.rows.iter().filter_map(|row| row.effective.value).reduce(f64::max);
    dots(&medians, None, effective, &format!("{} devices, a dot each", medians.len()))
}

fn dots(samples: &[f64], median: Option<f64>, effective: Option<f64>, text: &str) -> String {
    let longest = samples.iter().copied().chain(median).chain(effective).fold(0.0, f64::max);
    if longest <= 0.0 || samples.is_empty() {
        return "–".into();
    }
    let place = |value: f64| at(5.0 + value / longest * (STRIP_WIDTH - 10.0));
    let mut svg = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {w} 18\" width=\"{w}\" height=\"18\" role=\"img\" \
         aria-label=\"{t}\"><title>{t}</title>\
         <path class=\"axis\" d=\"M5 9H{}\"/>",
        at(STRIP_WIDTH - 5.0),
        w = at(STRIP_WIDTH),
        t = escape(text)
    );
    for value in effective.iter() {
        svg += &format!("<path class=\"effective\" d=\"M{} 1V17\"/>", place(*value));
    }
    for value in median.iter() {
        svg += &format!("<path class=\"median\" d=\"M{} 3V15\"/>", place(*value));
    }
    for sample in samples.iter().take(DOTS) {
        svg += &format!("<circle cx=\"{}\" cy=\"9\" r=\"3\"/>", place(*sample));
    }
    svg + "</svg>"
}
