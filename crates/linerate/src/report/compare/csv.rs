//! The comparison as CSV (RFC 4180): a line for each rate of each run.

use super::{Comparison, Verdict};
use crate::report::csv::line;

/// Rates in bytes per second; empty where there is none.
pub(in crate::report) fn csv(comparison: &Comparison) -> String {
    let heads = [
        "stage",
        "measurement",
        "run",
        "bytes_per_second",
        "interval_low",
        "interval_high",
        "samples",
        "flags",
        "ratio_to_first",
        "verdict",
    ];
    let mut text = line(&heads.map(String::from));
    for row in &comparison.rows {
        for ((side, figure), against) in comparison.runs.iter().zip(&row.figures).zip(&row.against_first) {
            let Some(figure) = figure else { continue };
            let end = |end: fn(&super::Interval) -> f64| {
                figure.interval.as_ref().map(end).map(|end| end.to_string())
            };
            text += &line(&[
                row.stage.to_string(),
                row.name.clone(),
                side.label.clone(),
                figure.bytes_per_second.to_string(),
                end(|interval| interval.low).unwrap_or_default(),
                end(|interval| interval.high).unwrap_or_default(),
                figure.samples.to_string(),
                figure.flags.join(" "),
                against.map(|against| against.ratio.to_string()).unwrap_or_default(),
                against.map(|against| word(against.verdict).to_string()).unwrap_or_default(),
            ]);
        }
    }
    text
}

/// The same words as in the JSON.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::NoDifferenceShown => "no-difference-shown",
        Verdict::TooFewSamples => "too-few-samples",
    }
}
