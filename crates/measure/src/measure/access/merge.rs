//! Several visits of one job, taken at different times: one figure with all their samples.

use super::{AccessResult, JobRound, SideResult, middle_mean};
use crate::measure::statistics::{median, spread};
use crate::measure::{Measurement, trust};

/// The median of the visits with all samples. What has no median (latencies, devices, CPU) is that of the
/// visit in the middle; flags and errors are those of all. `None` without a visit.
pub fn merged(visits: &[Measurement]) -> Option<Measurement> {
    let mut order: Vec<&Measurement> = visits.iter().collect();
    order.sort_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second));
    // Of an even number the upper one: of two visits one may have seen nothing at all.
    let mut whole = (*order.get(order.len() / 2)?).clone();
    let rates: Vec<f64> = visits.iter().map(|visit| visit.bytes_per_second).collect();
    let of_the_middle = whole.bytes_per_second;
    whole.bytes_per_second = median(&rates);
    whole.samples = visits.iter().flat_map(|visit| visit.samples.iter().copied()).collect();
    whole.spread = spread(&whole.samples);
    whole.seconds = visits.iter().map(|visit| visit.seconds).sum();
    for flag in visits.iter().flat_map(|visit| &visit.flags) {
        if !whole.flags.contains(flag) {
            whole.flags.push(flag.clone());
        }
    }
    if whole.spread > trust::SPREAD && !whole.flags.iter().any(|flag| flag == "spread") {
        whole.flags.push("spread".into());
    }
    whole.lower_bound = visits.iter().any(|visit| visit.lower_bound);
    whole.held_by = whole.held_by.or_else(|| visits.iter().find_map(|visit| visit.held_by));
    let ratio = if of_the_middle > 0.0 { whole.bytes_per_second / of_the_middle } else { 1.0 };
    join_access(&mut whole, visits, ratio);
    Some(whole)
}

fn join_access(whole: &mut Measurement, visits: &[Measurement], ratio: f64) {
    let Some(access) = &mut whole.access else { return };
    let scale = |side: &mut SideResult| {
        side.bytes_per_second *= ratio;
        side.operations_per_second *= ratio;
    };
    access.reads.as_mut().map(scale);
    access.writes.as_mut().map(scale);
    access.syncs.iter_mut().for_each(|syncs| syncs.operations_per_second *= ratio);
    for other in visits.iter().filter_map(|visit| visit.access.as_ref()) {
        join(&mut access.errors, &other.errors);
        if let (Some(known), Some(new)) = (&mut access.corrupt, &other.corrupt) {
            join(known, new);
        }
    }
    let side_means = |side: fn(&AccessResult) -> &Option<SideResult>| {
        let sides = visits.iter().filter_map(move |visit| side(visit.access.as_ref()?).as_ref());
        middle_mean(sides.map(|side| side.latency.mean))
    };
    if let Some(side) = &mut access.reads {
        side.latency.mean = side_means(|access| &access.reads);
    }
    if let Some(side) = &mut access.writes {
        side.latency.mean = side_means(|access| &access.writes);
    }
    access.checks.little_depth = access.little_depth();
    access.visits = visits.iter().flat_map(rounds_of).collect();
    // A bucket is full at the first visit only.
    access.burst = visits.iter().find_map(|visit| visit.access.as_ref()?.burst.clone());
}

/// What each visit told by itself; one that was merged before has those of its own.
fn rounds_of(visit: &Measurement) -> Vec<JobRound> {
    let Some(access) = &visit.access else { return Vec::new() };
    if !access.visits.is_empty() {
        return access.visits.clone();
    }
    let sides = access.reads.iter().chain(&access.writes).map(|side| &side.latency);
    let Some(slower) = sides.max_by(|one, other| one.p99.total_cmp(&other.p99)) else { return Vec::new() };
    vec![JobRound {
        p50_seconds: slower.p50,
        p99_seconds: slower.p99,
        cpu_seconds_per_gb: visit.cpu_seconds_per_gb,
    }]
}

fn join(known: &mut Vec<String>, new: &[String]) {
    for text in new {
        if !known.contains(text) {
            known.push(text.clone());
        }
    }
}
