//! The comparison as CSV (RFC 4180): a line for each rate of each run.

use super::{Comparison, Quantity};
use crate::csv::line;

/// Rates in bytes per second; empty where there is none.
pub(crate) fn csv(comparison: &Comparison) -> String {
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
        "quantity",
        "value",
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
                against.map(|against| <&str>::from(against.verdict).to_string()).unwrap_or_default(),
                "bytes_per_second".into(),
                figure.bytes_per_second.to_string(),
            ]);
        }
    }
    text + &details(comparison)
}

/// Seconds, CPU seconds per 10⁹ bytes, requests a second; these lines have no rate in bytes.
fn details(comparison: &Comparison) -> String {
    let mut text = String::new();
    for detail in &comparison.details {
        for ((side, figure), against) in
            comparison.runs.iter().zip(&detail.figures).zip(&detail.against_first)
        {
            let Some(figure) = figure else { continue };
            text += &line(&[
                detail.stage.to_string(),
                detail.name.clone(),
                side.label.clone(),
                String::new(),
                figure.interval.map(|interval| interval.low.to_string()).unwrap_or_default(),
                figure.interval.map(|interval| interval.high.to_string()).unwrap_or_default(),
                figure.samples.to_string(),
                String::new(),
                against.map(|against| against.ratio.to_string()).unwrap_or_default(),
                against.map(|against| <&str>::from(against.verdict).to_string()).unwrap_or_default(),
                quantity(detail.quantity).into(),
                figure.median.to_string(),
            ]);
        }
    }
    text
}

fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::P50 => "p50_seconds",
        Quantity::P99 => "p99_seconds",
        Quantity::Cpu => "cpu_seconds_per_gb",
        Quantity::Knee => "knee_operations_per_second",
    }
}
