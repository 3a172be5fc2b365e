//! A check for node_exporter's textfile collector.

use super::{CheckVerdict, HistoryCheck};
use linerate_facts::metrics::{MetricKind, MetricsForm, MetricsPage};

/// Figures of one family, of all that were checked.
type Figure = fn(&super::CheckedFigure) -> Option<f64>;

const FIGURES: [(&str, &str, Figure); 6] = [
    ("check_bytes_per_second", "What was measured.", |figure| Some(figure.bytes_per_second)),
    ("check_usual_bytes_per_second", "Median of the usual results.", |figure| {
        figure.usual.map(|usual| usual.bytes_per_second)
    }),
    ("check_usual_low_bytes_per_second", "98 of 100 usual results are above the lower end.", |figure| {
        figure.usual.map(|usual| usual.interval[0])
    }),
    ("check_usual_high_bytes_per_second", "98 of 100 usual results are below the upper end.", |figure| {
        figure.usual.map(|usual| usual.interval[1])
    }),
    ("check_usual_results", "Results that are the usual ones.", |figure| {
        figure.usual.map(|usual| usual.results as f64)
    }),
    ("check_slower", "1 where it is slower than usual, 0 where it is not.", |figure| {
        figure.usual.map(|_| f64::from(u8::from(figure.verdict == CheckVerdict::Slower)))
    }),
];

/// The whole file.
pub(super) fn text(check: &HistoryCheck) -> String {
    let mut page = MetricsPage::new(MetricsForm::Text);
    for (name, help, value) in FIGURES {
        let mut family = page.family(MetricKind::Gauge, name, help);
        for figure in &check.figures {
            let stage = figure.stage.to_string();
            family.sample(&[("stage", &stage), ("name", &figure.name)], value(figure));
        }
    }
    let is = |verdicts: &[CheckVerdict]| f64::from(u8::from(verdicts.contains(&check.verdict)));
    let judged = is(&[CheckVerdict::Slower, CheckVerdict::Usual, CheckVerdict::Faster]);
    page.family(MetricKind::Gauge, "check_judged", "1 where the newest check could be judged.")
        .sample(&[], judged);
    page.family(MetricKind::Gauge, "check_failed", "1 where something failed in the newest check.")
        .sample(&[], is(&[CheckVerdict::NotJudged]));
    let at = humantime::parse_rfc3339_weak(&check.started).ok();
    let at = at.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    page.family(MetricKind::Gauge, "check_timestamp_seconds", "Unix time at which the newest check began.")
        .sample(&[], at.map(|since| since.as_secs_f64()));
    page.end()
}
