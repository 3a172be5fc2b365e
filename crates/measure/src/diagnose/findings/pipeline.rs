//! Findings about what is in flight: more than helps, where a load test levels off and by what, as far as the devices'
//! own counters show, and samples in which nothing moved.

use super::super::product::Finding;
use super::Context;
use super::access::access_limit;
use crate::measure::{
    AccessResult, INTERFACE_NOT_SEEN, LoadCurve, Measurement, NO_CPU_USE, NO_TCP_TIMES, Stage,
};
use linerate_facts::units::show_bytes_rate;
use linerate_facts::wording::counted;
use linerate_model::verdict::Limit;
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

/// `load-levels-off`: more users wait longer and get hardly more. Pure; nothing where the curve does not level off.
pub(crate) fn load_findings(curve: &LoadCurve, measurements: &[Measurement]) -> Vec<Finding> {
    let answer = curve.answer().filter(|answer| answer.offered.is_none());
    let Some((answer, most)) = answer.zip(curve.level_rate()) else { return Vec::new() };
    // Where most users asked, what limits it shows best.
    let users = |access: &AccessResult| access.job.workers * access.job.queue_depth;
    let measured = measurements.iter().filter_map(|one| one.access.as_deref());
    let Some(last) = measured.max_by_key(|access| users(access)) else { return Vec::new() };
    let device = last.devices.iter().max_by(|one, other| one.utilisation.total_cmp(&other.utilisation));
    let level = format!(
        "It levels off at about {most:.0} requests/s, {:.0} % of them with {}. With {}",
        answer.operations_per_second / most * 100.0,
        counted(answer.workers, "worker"),
        counted(users(last), "worker")
    );
    let limit = access_limit(last);
    let (by, remedy) = match device {
        _ if matches!(limit, Some(Limit::OwnCpu { .. })) => (
            format!("linerate's own threads used {:.0} % of the CPUs", last.checks.generator_cpu * 100.0),
            "Measure from a machine with more cores, or with larger requests.",
        ),
        Some(device) if matches!(limit, Some(Limit::DiskBusy(_))) => (
            format!(
                "{} was busy {:.0} % of the time, with {:.1} requests in flight ({})",
                device.name,
                device.utilisation * 100.0,
                device.queue_depth,
                show_bytes_rate(device.bytes_per_second())
            ),
            "A faster device, or more of them; or a limit on it that can be lifted (a control group's, a \
             cloud volume's).",
        ),
        Some(device) => (
            format!(
                "the busiest device, {}, worked only {:.0} % of the time: the limit lies above the device",
                device.name,
                device.utilisation * 100.0
            ),
            "Look for a limit above the device: a control group's (io.max, blkio.throttle), a file system's \
             locks, a hypervisor's.",
        ),
        None => (
            "no counters of a device behind the sources are known".into(),
            "Measure on the machine that has the disks to see which of them limits it.",
        ),
    };
    vec![
        Finding::note("load-levels-off", format!("{level} {by}."))
            .evidence(json!({
                "most_operations_per_second": most,
                "workers": answer.workers,
                "operations_per_second": answer.operations_per_second,
                "latency_mean": answer.latency.mean,
                "device_at_workers": users(last),
                "device": device.map(|device| device.name.clone()),
                "utilisation": device.map(|device| device.utilisation),
                "queue_depth": device.map(|device| device.queue_depth),
                "generator_cpu": last.checks.generator_cpu,
            }))
            .remedy(remedy),
    ]
}
