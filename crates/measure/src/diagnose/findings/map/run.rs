//! The map's findings after a run: what has no part in the flow, or does not hold it, is a note there.

use super::super::super::product::{Finding, Severity};
use super::super::Context;

/// The map's findings with gains re-solved by the run's own prediction.
pub(in crate::diagnose::findings) fn of_run(context: &Context) -> Vec<Finding> {
    super::map_findings(context.machine).into_iter().map(|finding| weighed(context, finding)).collect()
}

fn weighed(context: &Context, mut finding: Finding) -> Finding {
    let Some(devices) = finding.evidence["devices"].as_array() else { return finding };
    let devices: Vec<&str> = devices.iter().filter_map(|device| device.as_str()).collect();
    // `nic:eth0`, `disk:sda`, `pcie:0000:03:00.0`, `pcie:0000:03:00.0/out`
    let names =
        |id: &str| id.split_once(':').map_or(id, |(_, name)| name.trim_end_matches("/out")).to_string();
    let resources = &context.headline().resources;
    let own: Vec<_> =
        resources.iter().filter(|resource| devices.contains(&names(&resource.id).as_str())).collect();
    if own.is_empty() {
        finding.severity = Severity::Note;
    }
    let raise = finding.gain;
    let links = own.iter().filter(|resource| resource.id.starts_with("pcie:") && context.binds(&resource.id));
    finding.gain = links.map(|link| context.gain_with(&link.id, link.capacity + raise)).fold(0.0, f64::max);
    finding
}
