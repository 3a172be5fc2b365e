//! Where a load test levels off, and by what, as far as the devices' own counters tell.

use super::super::product::Finding;
use super::access::access_limit;
use crate::measure::{LoadCurve, Measurement};
use linerate_facts::units::show_bytes_rate;
use linerate_model::verdict::Limit;
use serde_json::json;

/// `load-levels-off`: from the knee on more users wait longer and get no more. Pure; nothing where the curve
/// has no knee.
pub(crate) fn load_findings(curve: &LoadCurve, measurements: &[Measurement]) -> Vec<Finding> {
    let Some(knee) = curve.knee.and_then(|knee| curve.points.get(knee)).filter(|knee| knee.offered.is_none())
    else {
        return Vec::new();
    };
    // Where most users asked, what holds it shows best.
    let most = measurements.iter().filter_map(|one| one.access.as_ref());
    let Some(last) = most.max_by_key(|access| access.job.workers * access.job.queue_depth) else {
        return Vec::new();
    };
    let device = last.devices.iter().max_by(|one, other| one.utilisation.total_cmp(&other.utilisation));
    let plural = if knee.workers == 1 { "worker" } else { "workers" };
    let where_ = format!(
        "It levels off at {:.0} requests/s, from {} {plural} on",
        knee.operations_per_second, knee.workers
    );
    let limit = access_limit(last);
    let (by, remedy) = match device {
        _ if matches!(limit, Some(Limit::OwnCpu { .. })) => (
            format!(
                "linerate's own threads use {:.0} % of the processors",
                last.checks.generator_cpu * 100.0
            ),
            "Measure from a machine with more cores, or with larger requests.",
        ),
        Some(device) if matches!(limit, Some(Limit::DiskBusy(_))) => (
            format!(
                "{} is busy {:.0} % of the time, with {:.1} requests in flight on average ({})",
                device.name,
                device.utilisation * 100.0,
                device.queue_depth,
                show_bytes_rate(device.read_bytes_per_second + device.written_bytes_per_second)
            ),
            "A faster device, or more of them; or a limit on it that can be lifted (a control group's, a \
             cloud volume's).",
        ),
        Some(device) => (
            format!(
                "the busiest device, {}, works only {:.0} % of the time: what holds it lies above the device",
                device.name,
                device.utilisation * 100.0
            ),
            "Look for a limit above the device: a control group's (io.max, blkio.throttle), a file system's \
             locks, a hypervisor's.",
        ),
        None => (
            "no counters of a device are known behind the sources".into(),
            "Measure on the machine that has the disks to see which of them holds it.",
        ),
    };
    vec![
        Finding::note("load-levels-off", format!("{where_}: {by}."))
            .evidence(json!({
                "workers": knee.workers,
                "operations_per_second": knee.operations_per_second,
                "device": device.map(|device| device.name.clone()),
                "utilisation": device.map(|device| device.utilisation),
                "queue_depth": device.map(|device| device.queue_depth),
                "generator_cpu": last.checks.generator_cpu,
            }))
            .remedy(remedy),
    ]
}
