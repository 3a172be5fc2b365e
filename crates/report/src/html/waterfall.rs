//! Where speed gets lost: rated → effective → measured → predicted → achieved, each bar against the one
//! before.

use super::word_tag;
use crate::document::{Part, drawn};
use crate::figure::{Figure, Unit, percent};
use crate::markup::{Markup, at, html};
use crate::stages::{DeviceRow, rows};
use crate::verdict::{RunVerdict, named, plural, resources};
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_model::plan::{Resource, ResourceKind};

/// A stage that is slower than the path by less is as fast.
const STAGE_NOISE: f64 = 0.02;

struct Bar {
    name: &'static str,
    note: String,
    figure: Figure,
}

/// The bars; nothing where none is known.
pub(crate) fn part<'a>(run: &Run, verdict: &RunVerdict) -> Part<'a> {
    drawn("waterfall", "Where speed gets lost", picture(run, verdict))
}

fn picture(run: &Run, verdict: &RunVerdict) -> Markup {
    let (bars, unknown): (Vec<Bar>, Vec<Bar>) =
        bars(run, verdict).into_iter().partition(|bar| bar.figure.value.is_some());
    let unknown: Vec<String> = unknown.iter().map(|bar| bar.figure.missing(bar.name)).collect();
    let longest = bars.iter().filter_map(|bar| bar.figure.value).fold(0.0, f64::max);
    if longest <= 0.0 {
        return html! {};
    }
    let known = |index: usize| bars[..index].iter().rev().find_map(|bar| bar.figure.value);
    html! {
        div class="waterfall" {
            @for (index, bar) in bars.iter().enumerate() { (row(bar, known(index), longest)) }
        }
        p class="caption" {
            "Each bar on one scale; the pale part is what was lost against the bar above."
            @if !unknown.is_empty() { " Unknown: " (unknown.join("; ")) "." }
        }
    }
}

fn bars(run: &Run, verdict: &RunVerdict) -> Vec<Bar> {
    let known = resources(run);
    let (rated, rated_note) = rated(&known);
    let (measured, measured_note) = on_path(measured(run), &verdict.achieved);
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
            note: if cut.is_empty() { cut } else { format!("limited by {cut}") },
            figure: verdict.predicted.clone(),
        },
        Bar { name: "Achieved", note: achieved, figure: verdict.achieved.clone() },
    ]
}

/// The least of what the disks and the NICs are rated for, each kind summed; unknown as soon as one of them
/// is.
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
    let of = |stage: Stage| -> Option<&DeviceRow> {
        let fits = |row: &&DeviceRow| {
            let m = row.measurement;
            m.stage == stage && !m.with_file && (stage == Stage::Disk || m.protocol == headline)
        };
        let alone: Vec<&DeviceRow> =
            rows.iter().filter(fits).filter(|row| !row.measurement.together).collect();
        let together = rows.iter().filter(fits).find(|row| row.measurement.together);
        together.or(if alone.len() == 1 { alone.first().copied() } else { None })
    };
    // One stage alone would look like a bound of the whole path.
    let (Some(disk), Some(network)) = (of(Stage::Disk), of(Stage::Network)) else {
        let why = "disks and network were not both measured with all devices at once";
        return (Figure::unknown(Some(why.into())), String::new());
    };
    let rate = |row: &DeviceRow| row.measured.value.unwrap_or(f64::MAX);
    let slowest = if rate(disk) <= rate(network) { disk } else { network };
    (slowest.measured.clone(), format!("{}: {}", slowest.measurement.stage, slowest.name()))
}

/// A stage that was slower than the path is none of its stages: it was measured at another moment, or in another way.
fn on_path((stage, note): (Figure, String), achieved: &Figure) -> (Figure, String) {
    let slower =
        stage.value.zip(achieved.value).is_some_and(|(stage, path)| stage < path * (1.0 - STAGE_NOISE));
    if !slower {
        return (stage, note);
    }
    let why = format!("{note} alone was slower than the path, which is not a loss of the path");
    (Figure::unknown(Some(why)), String::new())
}

fn row(bar: &Bar, before: Option<f64>, longest: f64) -> Markup {
    let class = match bar.name {
        "Achieved" => "achieved",
        _ => bar.figure.origin.into(),
    };
    let scaled = |value: f64| (value / longest * 1000.0).clamp(0.0, 1000.0);
    let value = bar.figure.value.unwrap_or(0.0);
    let width = scaled(value);
    html! {
        div class="wrow" {
            div class="wname" { b { (bar.name) } " " (word_tag(bar.figure.origin)) span class="note" { (bar.note) } }
            svg class="wbar" viewBox="0 0 1000 22" preserveAspectRatio="none" aria-hidden="true" {
                @if let Some(before) = before.map(scaled).filter(|before| *before > width) {
                    rect class="lost" x=(at(width)) width=(at(before - width)) height="22" {}
                }
                rect class=(class) width=(at(width.max(2.0))) height="22" {}
            }
            div class="wvalue num" {
                (bar.figure.show(Unit::Bytes)) span class="bits" { (Unit::Bits.show(value)) }
                (change(before, value))
            }
        }
    }
}

fn change(before: Option<f64>, value: f64) -> Markup {
    let Some(before) = before.filter(|before| *before > 0.0) else { return html! {} };
    let change = value / before - 1.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    html! {
        span class="change" {
            @if change.abs() < 0.0005 { "±0 %" } @else { (sign) (percent(change.abs())) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::plan::Origin;

    #[test]
    fn a_stage_that_is_slower_than_the_path_is_not_a_bar_of_it() {
        let rate = |gigabytes: f64| Figure::of(Some(gigabytes * 1e9), Origin::Measured);
        let stage = |gigabytes: f64| on_path((rate(gigabytes), "disk: vda".into()), &rate(3.08)).0;
        assert_eq!((stage(3.2).value, stage(3.07).value), (Some(3.2e9), Some(3.07e9)));
        let left_out = stage(2.0);
        assert!(
            left_out.value.is_none()
                && left_out.why.is_some_and(|why| why.contains("disk: vda alone was slower"))
        );
    }
}
