//! Where a load test levels off, and by what, as far as the devices' own counters tell.

use super::super::product::Finding;
use super::access::access_limit;
use crate::measure::{AccessResult, LoadCurve, Measurement};
use linerate_facts::units::show_bytes_rate;
use linerate_facts::wording::counted;
use linerate_model::verdict::Limit;
use serde_json::json;

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
