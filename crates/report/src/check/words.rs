//! What a check says: one line, and a file for Prometheus.

use super::{CheckVerdict, CheckedFigure, HistoryCheck, KeptHistory, UsualRate};
use crate::figure::{Unit, percent};
use linerate_facts::metrics::{MetricKind, MetricsForm, MetricsPage};
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::measure::Stage;

/// So many changes and figures are named; `--json` has all.
const MOST_CHANGES: usize = 6;
const MOST_FIGURES: usize = 4;

/// A family of metrics: its value for a figure that was checked.
type Metric = fn(&CheckedFigure) -> Option<f64>;

const METRICS: [(&str, &str, Metric); 6] = [
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

/// Verdict first, then the figures, then what changed.
pub(super) fn sentence(check: &HistoryCheck) -> String {
    let deciding: Vec<&CheckedFigure> = check.figures.iter().filter(|figure| figure.decides).collect();
    let of = |verdict: CheckVerdict| deciding.iter().copied().filter(move |figure| figure.verdict == verdict);
    let far = || listed(of(check.verdict), distance_from_usual);
    match check.verdict {
        CheckVerdict::NotJudged => not_judged(check),
        CheckVerdict::TooFew => too_few(&check.history),
        CheckVerdict::Unclear => unclear(of(CheckVerdict::Unclear).next()),
        CheckVerdict::Usual => format!("as usual: {}.", as_usual(&deciding)),
        CheckVerdict::Slower => {
            format!("slower than usual: {}.{}{}", far(), also_slower(check), changed(check))
        }
        CheckVerdict::Faster => format!("faster than usual: {}.{}", far(), changed(check)),
    }
}

fn not_judged(check: &HistoryCheck) -> String {
    match check.errors.first() {
        Some(error) => format!("not judged, something failed: {}.", printable(error.trim_end_matches('.'))),
        None => "not judged: it was not measured how fast the path is, which decides; give more time with --budget, \
                 or name a result that has the path."
            .into(),
    }
}

fn too_few(history: &KeptHistory) -> String {
    let KeptHistory { results, needed, other_flows, other_machines } = *history;
    let mut others = Vec::new();
    if other_flows > 0 {
        let measured = if other_flows == 1 { "was" } else { "were" };
        others.push(format!(
            "{} of this machine {measured} measured otherwise",
            counted(other_flows, "result")
        ));
    }
    if other_machines > 0 {
        let are = if other_machines == 1 { "is" } else { "are" };
        others.push(format!("{} {are} of another machine", counted(other_machines, "result")));
    }
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    format!("no judgement yet: {results} of the {needed} earlier results are kept that it needs{others}.")
}

fn unclear(figure: Option<&CheckedFigure>) -> String {
    let Some((figure, usual)) = figure.and_then(|figure| Some((figure, figure.usual?))) else {
        return "cannot judge: this machine changes its own speed.".into();
    };
    format!(
        "cannot judge, this machine changes its own speed: {} is {} now, and by {} anything within {} is usual; \
         below {} it would be slower.",
        name(figure),
        unit(figure).show(figure.bytes_per_second),
        counted(usual.results, "earlier result"),
        range(figure, &usual),
        unit(figure).show(usual.far_below)
    )
}

fn as_usual(figures: &[&CheckedFigure]) -> String {
    listed(figures.iter().copied(), |figure| {
        let usual = figure.usual.map_or_else(String::new, |usual| {
            format!(" (usually {}, {})", range(figure, &usual), counted(usual.results, "result"))
        });
        format!("{} {}{usual}", name(figure), unit(figure).show(figure.bytes_per_second))
    })
}

fn distance_from_usual(figure: &CheckedFigure) -> String {
    let shown = unit(figure).show(figure.bytes_per_second);
    let Some(usual) = figure.usual else { return format!("{} {shown}", name(figure)) };
    let ratio = figure.bytes_per_second / usual.bytes_per_second;
    let side = if ratio < 1.0 { "below" } else { "above" };
    let row = if figure.in_a_row > 1 { format!("; {} in a row", figure.in_a_row) } else { String::new() };
    format!(
        "{} {shown}, {} {side} the usual {} ({}, {}{row})",
        name(figure),
        percent((ratio - 1.0).abs()),
        unit(figure).show(usual.bytes_per_second),
        range(figure, &usual),
        counted(usual.results, "result")
    )
}

/// Figures that do not decide and are slower, too: they tell where the slowness comes from.
fn also_slower(check: &HistoryCheck) -> String {
    let slower = |figure: &&CheckedFigure| !figure.decides && figure.verdict == CheckVerdict::Slower;
    let mut parts = check.figures.iter().filter(slower).peekable();
    if parts.peek().is_none() {
        return String::new();
    }
    let all = listed(parts, |figure| {
        let ratio = figure.usual.map_or(1.0, |usual| figure.bytes_per_second / usual.bytes_per_second);
        format!("{} (−{})", name(figure), percent(1.0 - ratio))
    });
    format!(" Slower, too: {all}.")
}

fn changed(check: &HistoryCheck) -> String {
    let since = check.usual_until.as_deref().map(|time| printable(time).chars().take(10).collect::<String>());
    let since = since.unwrap_or_default();
    let mut parts = check.changes.iter().take(MOST_CHANGES);
    let Some(first) = parts.next() else {
        return format!(" Nothing that linerate reads of the machine has changed since {since}.");
    };
    let words: Vec<String> = std::iter::once(first)
        .chain(parts)
        .map(|change| format!("{} {} → {}", change.what, short(&change.usual), short(&change.now)))
        .collect();
    let more = check.changes.len().saturating_sub(MOST_CHANGES);
    let more = if more > 0 { format!("; {more} more (--json)") } else { String::new() };
    format!(" Changed since {since}: {}{more}.", words.join("; "))
}

/// Long lists, such as a kernel's command line, would hide the rest.
fn short(value: &str) -> String {
    linerate_facts::printable::shortened(value, 60)
}

fn listed<'a>(
    figures: impl Iterator<Item = &'a CheckedFigure>,
    words: impl Fn(&CheckedFigure) -> String,
) -> String {
    let all: Vec<String> = figures.map(words).collect();
    let more = all.len().saturating_sub(MOST_FIGURES);
    let shown = all.into_iter().take(MOST_FIGURES).collect::<Vec<_>>().join("; ");
    if more > 0 { format!("{shown}; {more} more (--json)") } else { shown }
}

fn name(figure: &CheckedFigure) -> String {
    match figure.stage {
        Stage::Path => format!("disk to network over {}", printable(&figure.name)),
        stage => format!("{stage} {}", printable(&figure.name)),
    }
}

fn range(figure: &CheckedFigure, usual: &UsualRate) -> String {
    let [low, high] = usual.interval;
    unit(figure).show_range(low, high)
}

fn unit(figure: &CheckedFigure) -> Unit {
    if figure.stage == Stage::Network { Unit::Bits } else { Unit::Bytes }
}

/// For node_exporter's textfile collector.
pub(super) fn metrics(check: &HistoryCheck) -> String {
    let mut page = MetricsPage::new(MetricsForm::Text);
    for (name, help, value) in METRICS {
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
