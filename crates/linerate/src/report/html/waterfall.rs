//! Where speed gets lost: rated → effective → measured → predicted → achieved, each bar against the one before.

use super::text::{at, escape, kept_together, tagged, word_tag};
use crate::measure::Stage;
use crate::plan::{Origin, Resource, ResourceKind};
use crate::report::figure::{Figure, Unit, percent};
use crate::report::stages::{Row, rows};
use crate::report::verdict::{Verdict, named, plural, resources};
use crate::run::Run;

struct Bar {
    name: &'static str,
    note: String,
    figure: Figure,
}

/// The section with the bars.
pub(super) fn section(run: &Run, verdict: &Verdict) -> String {
    let bars = bars(run, verdict);
    let longest = bars.iter().filter_map(|bar| bar.figure.value).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let mut before: Option<f64> = None;
    let mut body = String::from("<div class=\"waterfall\">");
    for bar in &bars {
        body += &row(bar, before, longest);
        before = bar.figure.value.or(before);
    }
    body += "</div><p class=\"caption\">Each bar on one scale; the pale part is what was lost against the last known bar above.</p>";
    body += &protocols(run);
    super::text::section("waterfall", "Where speed gets lost", "", &body)
}

/// Prediction and result of each protocol, where more than one was measured.
fn protocols(run: &Run) -> String {
    let all = run.diagnosis.iter().flat_map(|diagnosis| &diagnosis.by_protocol);
    let rows: Vec<String> = all
        .map(|one| {
            let predicted = Figure::of_fact(&one.predicted.bytes_per_second, Origin::Measured);
            let reached = Some(one.achieved.bytes_per_second).filter(|rate| *rate > 0.0);
            let achieved = Figure::of(reached, Origin::Measured);
            let share = if one.achieved.of_predicted > 0.0 { percent(one.achieved.of_predicted) } else { "–".into() };
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r num\">{share}</td><td>{}</td></tr>",
                one.protocol,
                tagged(&predicted, Unit::Bytes),
                tagged(&achieved, Unit::Bytes),
                escape(&kept_together(&one.bottleneck.sentence))
            )
        })
        .collect();
    if rows.len() < 2 {
        return String::new();
    }
    format!(
        "<h3>By protocol</h3><div class=\"scroll\"><table class=\"protocols\"><thead><tr><th scope=\"col\">protocol</th>\
         <th scope=\"col\" class=\"r\">predicted</th><th scope=\"col\" class=\"r\">achieved</th>\
         <th scope=\"col\" class=\"r\">of predicted</th><th scope=\"col\">bottleneck</th></tr></thead><tbody>{}</tbody></table></div>",
        rows.concat()
    )
}

fn bars(run: &Run, verdict: &Verdict) -> Vec<Bar> {
    let known = resources(run);
    let (rated, rated_note) = rated(&known);
    let (measured, measured_note) = measured(run);
    let cut = named(&verdict.cut, &known);
    let achieved =
        verdict.of_predicted.map(|share| format!("{} of predicted", percent(share))).unwrap_or_default();
    vec![
        Bar { name: "Data sheets", note: rated_note, figure: rated },
        Bar {
            name: "Ceiling",
            note: "less protocol overhead, by the model".into(),
            figure: verdict.ceiling.clone(),
        },
        Bar { name: "Slowest stage", note: measured_note, figure: measured },
        Bar {
            name: "Predicted",
            note: if cut.is_empty() { cut } else { format!("held by {cut}") },
            figure: verdict.predicted.clone(),
        },
        Bar { name: "Achieved", note: achieved, figure: verdict.achieved.clone() },
    ]
}

/// The least of what the disks and the NICs are rated for, each kind summed; unknown as soon as one of them is.
fn rated(known: &[&Resource]) -> (Figure, String) {
    let mut least: Option<(Figure, ResourceKind)> = None;
    for kind in [ResourceKind::Disk, ResourceKind::Nic] {
        let sum = Figure::sum(known.iter().filter(|r| r.kind == kind).map(|r| Figure::rated(r)));
        let Some(value) = sum.value else {
            let why = sum.why.clone().unwrap_or_else(|| format!("no data sheet of the {}", plural(kind)));
            return (Figure::unknown(Some(why)), String::new());
        };
        if least.as_ref().is_none_or(|(figure, _)| figure.value.is_some_and(|other| value < other)) {
            least = Some((sum, kind));
        }
    }
    match least {
        Some((figure, kind)) => (figure, format!("the {} together", plural(kind))),
        None => (Figure::unknown(None), String::new()),
    }
}

/// The slower of disks and network in the headline protocol, each measured with all devices at once.
fn measured(run: &Run) -> (Figure, String) {
    let rows = rows(run);
    let headline = run.goal.protocols.first().copied();
    let of = |stage: Stage| -> Option<&Row> {
        let fits = |row: &&Row| {
            let m = row.measurement;
            m.stage == stage && !m.with_file && (stage == Stage::Disk || m.protocol == headline)
        };
        let alone: Vec<&Row> = rows.iter().filter(fits).filter(|row| !row.measurement.together).collect();
        let together = rows.iter().filter(fits).find(|row| row.measurement.together);
        together.or(if alone.len() == 1 { alone.first().copied() } else { None })
    };
    // One stage alone would look like a bound of the whole path.
    let (Some(disk), Some(network)) = (of(Stage::Disk), of(Stage::Network)) else {
        let why = "disks and network were not both measured with all devices at once";
        return (Figure::unknown(Some(why.into())), String::new());
    };
    let rate = |row: &Row| row.measured.value.unwrap_or(f64::MAX);
    let slowest = if rate(disk) <= rate(network) { disk } else { network };
    (slowest.measured.clone(), format!("{}: {}", slowest.measurement.stage, slowest.name()))
}

fn row(bar: &Bar, before: Option<f64>, longest: f64) -> String {
    let note = bar.figure.why.as_deref().filter(|_| bar.figure.value.is_none()).unwrap_or(&bar.note);
    let class = match bar.name {
        "Achieved" => "achieved",
        _ => crate::report::figure::origin_word(bar.figure.origin),
    };
    let scaled = |value: f64| (value / longest * 1000.0).clamp(0.0, 1000.0);
    let (svg, value, change) = match bar.figure.value {
        Some(value) => {
            let width = scaled(value);
            let lost = before.map(scaled).filter(|before| *before > width);
            let lost = lost.map(|before| {
                format!(
                    "<rect class=\"lost\" x=\"{}\" width=\"{}\" height=\"22\"/>",
                    at(width),
                    at(before - width)
                )
            });
            let bar_svg = format!("<rect class=\"{class}\" width=\"{}\" height=\"22\"/>", at(width.max(2.0)));
            let text = format!(
                "{}<span class=\"bits\">{}</span>",
                bar.figure.show(Unit::Bytes),
                Unit::Bits.show(value)
            );
            (lost.unwrap_or_default() + &bar_svg, text, change(before, value))
        }
        None => (
            "<rect class=\"empty\" x=\"1\" y=\"1\" width=\"998\" height=\"20\"/>".into(),
            "unknown".into(),
            String::new(),
        ),
    };
    format!(
        "<div class=\"wrow\"><div class=\"wname\"><b>{}</b> {}<span class=\"note\">{}</span></div>\
         <svg class=\"wbar\" viewBox=\"0 0 1000 22\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{svg}</svg>\
         <div class=\"wvalue num\">{value}{change}</div></div>",
        bar.name,
        word_tag(bar.figure.origin),
        escape(note)
    )
}

fn change(before: Option<f64>, value: f64) -> String {
    let Some(before) = before.filter(|before| *before > 0.0) else { return String::new() };
    let change = value / before - 1.0;
    if change.abs() < 0.0005 {
        return "<span class=\"change\">±0 %</span>".into();
    }
    let sign = if change < 0.0 { "−" } else { "+" };
    format!("<span class=\"change\">{sign}{}</span>", percent(change.abs()))
}
