//! Findings about sources: a disk that is slower than its like, the page cache in the way.

use super::super::product::{Finding, Severity};
use super::Context;
use crate::diagnose::figures::flagged;
use crate::measure::Stage;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::DiskKind;
use linerate_model::plan::{Origin, Resource, ResourceKind};
use serde_json::json;

/// A disk below this share of its like is a straggler.
const STRAGGLES_BELOW: f64 = 0.5;

/// `straggler`: a disk that reads less than half of what the others of its like do.
pub(super) fn straggler(seen: &Context) -> Vec<Finding> {
    let disks: Vec<&Resource> =
        seen.headline().resources.iter().filter(|resource| is_measured_disk(resource)).collect();
    let mut findings = Vec::new();
    for disk in &disks {
        let others: Vec<f64> = disks
            .iter()
            .filter(|other| other.id != disk.id && like(seen, &other.id) == like(seen, &disk.id))
            .map(|other| other.capacity)
            .collect();
        let Some(typical) = median(others) else { continue };
        if disk.capacity >= STRAGGLES_BELOW * typical || unsteady(seen, &disk.id) {
            continue;
        }
        let name = disk.id.trim_start_matches("disk:");
        findings.push(Finding::slow("straggler", format!(
                "{name} reads {}, the other disks of its kind {}",
                show_bytes_rate(disk.capacity),
                show_bytes_rate(typical)
            )).evidence(json!({
                "resource": disk.id, "bytes_per_second": disk.capacity, "others_median_bytes_per_second": typical,
            })).remedy(format!(
                "look for errors, a slow link or a throttle of {name} (`dmesg | grep {name}`, `smartctl -a \
                 /dev/{name}`), or put less on it"
            )).gain(seen.gain_with(&disk.id, typical)));
    }
    findings
}

fn is_measured_disk(resource: &Resource) -> bool {
    resource.kind == ResourceKind::Disk && resource.origin == Origin::Measured && !resource.lower_bound
}

/// Its own figure is spread too wide to call it slow.
fn unsteady(seen: &Context, id: &str) -> bool {
    let own = seen.figures.all.iter().find(|figure| figure.stage == Stage::Disk && figure.resource == id);
    own.is_some_and(|figure| figure.spread > 1.0 - STRAGGLES_BELOW)
}

/// What makes disks comparable: their kind and whether they rotate.
fn like(seen: &Context, id: &str) -> (Option<DiskKind>, Option<bool>) {
    let name = id.trim_start_matches("disk:");
    let disk = seen.machine.disks.iter().find(|disk| disk.name == name);
    (disk.map(|disk| disk.kind), disk.and_then(|disk| disk.rotational.known().copied()))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        even if even.is_multiple_of(2) => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// `page-cache`: a disk figure is partly memory, or O_DIRECT does not work on a source.
pub(super) fn page_cache(seen: &Context) -> Vec<Finding> {
    let stages = [Stage::Disk, Stage::Path];
    let hit: Vec<&str> = seen
        .figures
        .all
        .iter()
        .filter(|figure| stages.contains(&figure.stage) && flagged(figure, "page-cache"))
        .map(|figure| figure.name.as_str())
        .collect();
    let buffered: Vec<String> = seen
        .plan
        .sources
        .iter()
        .filter(|source| !source.direct)
        .map(|source| source.path.display().to_string())
        .collect();
    if hit.is_empty() && buffered.is_empty() {
        return Vec::new();
    }
    let text = if hit.is_empty() {
        format!(
            "O_DIRECT does not work on {}: its bytes go through the page cache, with a copy more",
            buffered.join(", ")
        )
    } else {
        format!("bytes came from the page cache and not from the disk in: {}", hit.join(", "))
    };
    vec![
        Finding::new(if hit.is_empty() { Severity::Slow } else { Severity::Note }, "page-cache", text)
            .evidence(json!({ "measurements": hit, "sources_without_direct": buffered }))
            .remedy(
                "use a file larger than the memory, or a file system with O_DIRECT (XFS, ext4); `echo 1 > \
                 /proc/sys/vm/drop_caches` empties the cache",
            ),
    ]
}
