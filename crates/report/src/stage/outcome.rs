//! What a benchmark of one stage came to, in one sentence; and what its measurements are called.

use super::{scaling, streams};
use crate::figure::{Unit, operations_word, percent, rate, seconds_word};
use crate::job_words;
use linerate_facts::fact::Fact;
use linerate_facts::printable::printable;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_machine::probe::Machine;
use linerate_measure::measure::access::{AccessResult, LoadCurve, LoadPoint, Scaling};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::wording::in_words;

/// What a measurement is called: its job or its place in memory, else its own name.
pub(crate) fn name(measurement: &Measurement) -> String {
    match (&measurement.access, &measurement.memory) {
        // Another tool's result does not say what the job was.
        (Some(access), _) if access.job.workers > 0 => job_words::job(&access.job),
        (None, Some(point)) => printable(&job_words::memory(point)),
        _ => printable(&measurement.name),
    }
}

/// What came of it, in one sentence; of another tool's result with what limited it.
pub(crate) fn sentence(run: &Run) -> String {
    let limit = run.bottleneck();
    if let (true, false, Some(error)) = (run.measurements.is_empty(), run.tool.is_empty(), run.errors.first())
    {
        return format!("Nothing was measured: {}.", printable(error).trim_end_matches('.'));
    }
    if let (Some(Stage::Explain), Some(limit)) = (run.stage, limit) {
        return printable(&limit.sentence);
    }
    match limit.filter(|_| !run.tool.is_empty() && !run.measurements.is_empty()) {
        Some(limit) => format!("{} {}", came_of_it(run), printable(&limit.sentence)),
        None => came_of_it(run),
    }
}

fn came_of_it(run: &Run) -> String {
    if let Some(fleet) = &run.fleet {
        return fleet.verdict.sentence.clone();
    }
    if let Some(scaling) = &run.scaling
        && let Some(text) = scaling_sentence(scaling)
    {
        return text;
    }
    if let Some(curve) = &run.load
        && let Some(text) = load_sentence(curve)
    {
        return text;
    }
    if let Some(text) = memory_sentence(&run.measurements, &run.machine) {
        return text;
    }
    if let Some(text) = transfer_sentence(run) {
        return text;
    }
    if let Some(text) = streams::sentence(&run.measurements) {
        // What one NIC does less than its like is what the sum of all hides.
        let unlike = run.findings().iter().filter(|finding| finding.id == "straggler");
        return unlike.fold(text, |text, finding| format!("{text} {}.", finding.text));
    }
    most_sentence(&run.measurements)
}

/// A queue that took fewer requests than its job asked for is not a headline, unless there is no other.
fn most_sentence(measurements: &[Measurement]) -> String {
    let queue_full = |m: &Measurement| m.access.as_ref().is_some_and(|access| access.queue_is_full());
    let measured = measurements.iter().filter(|m| rate(m.bytes_per_second).is_some_and(|rate| rate > 0.0));
    let order = |m: &&Measurement| (!queue_full(m), m.bytes_per_second);
    let best = measured.max_by(|a, b| order(a).0.cmp(&order(b).0).then(order(a).1.total_cmp(&order(b).1)));
    let Some(best) = best else { return "Nothing was measured.".into() };
    let reached = match best.access.as_ref().filter(|access| access.queue_is_full()) {
        Some(access) => {
            format!(" ({:.0} requests were in flight; the others waited)", access.checks.reached_depth)
        }
        None => best.access.as_deref().and_then(durable).unwrap_or_default(),
    };
    format!("The most was {}: {}{reached}.", Unit::Bytes.show(best.bytes_per_second), name(best))
}

/// What who writes durably waits for.
fn durable(access: &AccessResult) -> Option<String> {
    let (writes, _) = access.writes.as_ref().zip(access.job.sync)?;
    let (per_second, p99) = (operations_word(writes.operations_per_second), seconds_word(writes.latency.p99));
    Some(format!(" ({per_second} durable writes a second, p99 {p99})"))
}

/// How much was moved, how fast, and what limited it.
fn transfer_sentence(run: &Run) -> Option<String> {
    let is_transfer = |m: &&Measurement| matches!(m.stage, Stage::Get | Stage::Put);
    let moved = run.measurements.iter().find(is_transfer)?;
    let bytes = show_size((moved.bytes_per_second * moved.seconds).round() as u64);
    let limit = run.bottleneck();
    let limit = limit.map(|limit| format!(", {}", printable(&limit.sentence))).unwrap_or_default();
    let rate = rate(moved.bytes_per_second).unwrap_or_default();
    let (shown, bits) = (Unit::Bytes.show(rate), Unit::Bits.show(rate));
    Some(format!("{bytes} at {shown} ({bits}){limit}.{}", of_ceiling(run, rate).unwrap_or_default()))
}

/// What the parts of this host would have carried, where that was planned.
fn of_ceiling(run: &Run, achieved: f64) -> Option<String> {
    let ceiling = run.diagnosis.as_ref()?.ceiling.as_ref()?;
    let most = match &ceiling.bytes_per_second {
        Fact::Known(most) => rate(*most).filter(|most| *most > 0.0)?,
        Fact::Unknown { why } => {
            return Some(format!(
                " What the parts of this host allow at best is unknown: {}.",
                printable(why)
            ));
        }
    };
    let cut: Vec<&str> = ceiling.cut.iter().map(String::as_str).collect();
    let (share, shown, bits) = (percent(achieved / most), Unit::Bytes.show(most), Unit::Bits.show(most));
    let parts = printable(&in_words(&cut));
    Some(format!(
        " That is {share} of the {shown} ({bits}) that the parts of this host allow at best ({parts})."
    ))
}

/// The best of each kernel where caches do not answer, beside what the modules are rated for.
fn memory_sentence(measurements: &[Measurement], machine: &Machine) -> Option<String> {
    let beyond_caches = measurements.iter().filter_map(|m| Some((m, m.memory.as_ref()?)));
    let beyond_caches = beyond_caches.filter(|(_, point)| point.level == "memory");
    let mut best: Vec<(String, f64)> = Vec::new();
    let mut latency = String::new();
    for (measurement, point) in beyond_caches {
        if let Some(seconds) = point.latency_seconds {
            latency = format!("; one access takes {}", seconds_word(seconds));
            continue;
        }
        let Some(rate) = rate(measurement.bytes_per_second) else { continue };
        match best.iter_mut().find(|(kernel, _)| *kernel == point.kernel) {
            Some((_, most)) => *most = most.max(rate),
            None => best.push((printable(&point.kernel), rate)),
        }
    }
    let most = best.iter().map(|(_, rate)| *rate).reduce(f64::max)?;
    let kernels: Vec<String> =
        best.iter().map(|(kernel, rate)| format!("{kernel} {}", Unit::Bytes.show(*rate))).collect();
    let rated =
        machine.memory.rated_bytes_per_second.known().copied().and_then(rate).filter(|rated| *rated > 0.0);
    let of =
        rated.map(|rated| format!(", {} of the {} rated", percent(most / rated), Unit::Bytes.show(rated)));
    Some(format!("Memory: {}{}{latency}.", kernels.join(", "), of.unwrap_or_default()))
}

fn scaling_sentence(scaling: &Scaling) -> Option<String> {
    if !scaling.further.is_empty() {
        return scaling::sentence(scaling);
    }
    let scaling = &scaling.first;
    let last = scaling.steps.last()?;
    let sum = if last.share > 0.0 {
        format!(", {} of the baseline (the sum of each alone)", percent(last.share))
    } else {
        String::new()
    };
    let devices =
        if last.devices == 1 { "1 device reaches".into() } else { format!("{} devices reach", last.devices) };
    let levels = match (scaling.levels_off_at, &scaling.held_by) {
        (Some(at), Some(by)) => format!(" It levels off at {at}: {}.", printable(by).trim_end_matches('.')),
        (Some(at), None) => format!(" It levels off at {at}."),
        (None, _) => " It does not level off.".into(),
    };
    Some(format!("{devices} {}{sum}.{levels}", Unit::Bytes.show(last.bytes_per_second)))
}

fn load_sentence(curve: &LoadCurve) -> Option<String> {
    let words = |point: &LoadPoint| {
        let load = match point.offered {
            Some(offered) => format!("{} requests/s offered", operations_word(offered)),
            None => counted(point.workers, "worker"),
        };
        let latency = seconds_word(point.latency.mean);
        format!(
            "{load}: {} requests/s in {latency} on the mean",
            operations_word(point.operations_per_second)
        )
    };
    let paced = curve.points.iter().any(|point| point.offered.is_some());
    let unit = if paced { " requests/s" } else { " workers" };
    let highest = curve.highest.map(|highest| {
        let limit = if curve.limit.is_empty() {
            String::new()
        } else {
            format!(" within {}", printable(&curve.limit))
        };
        let point = curve.points.iter().find(|point| !paced && f64::from(point.workers) == highest);
        let waiting = match point.and_then(in_flight_of_more) {
            Some(in_flight) => {
                format!("; {in_flight:.0} of them have a request in flight, the others wait for the queue")
            }
            None => String::new(),
        };
        format!(" The most{limit} is {}{unit}{waiting}.", operations_word(highest))
    });
    if paced {
        // On schedule there is no knee: the highest rate is the answer, or the one that was asked for.
        let point = curve.knee.and_then(|knee| curve.points.get(knee)).or(curve.points.last())?;
        return Some(format!(
            "{}, p99 {}.{}",
            words(point),
            seconds_word(point.latency.p99),
            highest.unwrap_or_default()
        ));
    }
    let highest = highest.unwrap_or_default();
    match curve.answer().zip(curve.level_rate()) {
        Some((answer, most)) => Some(format!(
            "It levels off at about {} requests/s; {} {} {} of that at {}. More only wait longer.{highest}",
            operations_word(most),
            counted(answer.workers, "worker"),
            if answer.workers == 1 { "gets" } else { "get" },
            percent(answer.operations_per_second / most),
            seconds_word(answer.latency.mean)
        )),
        None => Some(format!(
            "It does not level off; the last step was {}.{highest}",
            words(curve.points.last()?)
        )),
    }
}

/// Requests in flight where clearly more users asked: the others waited for a free place in the queue.
pub(super) fn in_flight_of_more(point: &LoadPoint) -> Option<f64> {
    point.in_flight.filter(|in_flight| point.offered.is_none() && *in_flight < 0.8 * f64::from(point.workers))
}
