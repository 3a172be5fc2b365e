//! Findings about what is in flight, and about samples in which nothing moved.

use super::super::product::Finding;
use super::Context;
use crate::measure::{INTERFACE_NOT_SEEN, Measurement, NO_CPU_USE, NO_TCP_TIMES, Stage};
use linerate_facts::units::show_bytes_rate;
use serde_json::json;

/// A sample below this share of the median is one in which nothing went on.
const MOVES_NOTHING: f64 = 0.05;

/// `queue-too-deep`: the user's reads in flight carry less than fewer of them.
pub(super) fn queue_too_deep(context: &Context) -> Vec<Finding> {
    let found = context.goal.queue_depth.and_then(|_| {
        let trials = &context.path()?.reads_in_flight;
        let (asked, fewer) = trials.split_last()?;
        let best = fewer.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
        best.carries_clearly_more_than(asked).then_some((asked, best))
    });
    let Some((asked, best)) = found else { return Vec::new() };
    let lost = best.bytes_per_second - asked.bytes_per_second;
    vec![
        Finding::slow(
            "queue-too-deep",
            format!(
                "{} reads in flight, as asked for, carry {} on the path, {} carry {}: what is in flight no \
                 longer fits the cache when it is sent (−{:.0} %)",
                asked.queue_depth,
                show_bytes_rate(asked.bytes_per_second),
                best.queue_depth,
                show_bytes_rate(best.bytes_per_second),
                lost / best.bytes_per_second * 100.0
            ),
        )
        .evidence(json!({ "reads_in_flight": context.path().map(|path| &path.reads_in_flight) }))
        .remedy(format!(
            "`--queue-depth {}`, or leave it away: then a trial on the path chooses it",
            best.queue_depth
        ))
        .gain(lost.max(0.0)),
    ]
}

/// `stalled`: nothing went on in some of the samples of a figure whose others agree.
pub(super) fn stalled(context: &Context) -> Vec<Finding> {
    let long = context.figures.all.iter().filter(|figure| figure.stage != Stage::Memory);
    let still = long.filter_map(|figure| Some((figure, moved_nothing(figure)?)));
    let still: Vec<(&Measurement, Vec<usize>)> = still.collect();
    let Some((worst, samples)) = still.iter().max_by_key(|(_, samples)| samples.len()) else {
        return Vec::new();
    };
    let others = match still.len() {
        1 => String::new(),
        2 => ", and one more figure with it".into(),
        more => format!(", and {} more figures with it", more - 1),
    };
    let names: Vec<&str> = still.iter().map(|(figure, _)| figure.name.as_str()).collect();
    vec![
        Finding::note(
            "stalled",
            format!(
                "“{}” moved nothing in {} of its {} samples{others}; the median of the others is what counts",
                worst.name,
                samples.len(),
                worst.samples.len()
            ),
        )
        .evidence(json!({ "measurements": names, "samples": worst.samples }))
        .remedy(
            "look for what holds requests for seconds (`dmesg`: resets and time-outs of a disk or a link; a \
             flush of its cache; a snapshot), and measure again",
        ),
    ]
}

/// Which samples, where most are of another kind.
fn moved_nothing(figure: &Measurement) -> Option<Vec<usize>> {
    let still = |rate: &f64| *rate < MOVES_NOTHING * figure.bytes_per_second;
    let found: Vec<usize> =
        figure.samples.iter().enumerate().filter(|(_, rate)| still(rate)).map(|(at, _)| at).collect();
    (!found.is_empty() && found.len() * 2 < figure.samples.len()).then_some(found)
}

/// `not-seen`: counters that the verdict could not look at.
pub(super) fn not_seen(context: &Context) -> Vec<Finding> {
    let Some(path) = context.path().filter(|path| !path.not_seen.is_empty()) else { return Vec::new() };
    let missing: Vec<String> = path.not_seen.iter().map(|what| in_words(what)).collect();
    vec![
        Finding::note("not-seen", format!("the verdict could not see {}", missing.join("; ")))
            .evidence(json!({ "not_seen": path.not_seen }))
            .remedy("run outside of a container, or on a newer kernel, and hold the two verdicts against each other"),
    ]
}

fn in_words(what: &str) -> String {
    match what {
        NO_CPU_USE => "how busy the CPUs were (/proc/stat cannot be read)".into(),
        NO_TCP_TIMES => "whether a window of TCP was closed (this kernel reports no such times)".into(),
        interface if interface.starts_with(INTERFACE_NOT_SEEN) => {
            format!("by which interface it goes: {}", interface.trim_start_matches(INTERFACE_NOT_SEEN))
        }
        disk => format!(
            "what {} did itself (/proc/diskstats has no such device): a cache below may have answered",
            disk.strip_prefix("disk:").unwrap_or(disk)
        ),
    }
}
