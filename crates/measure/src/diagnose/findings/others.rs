//! Findings about other programs: what they took of the CPUs and the disks while something was measured, and what of
//! them could not be seen. Nothing is to be bought for what they took.

use super::super::others::{on_cpu, on_disk};
use super::super::product::{Finding, Severity};
use crate::measure::{Measurement, Stage};
use linerate_model::verdict::thresholds::OTHERS_EXPLAIN;
use linerate_model::verdict::{OthersOnCpu, OthersOnDisk};
use serde_json::json;

const REMEDY: &str =
    "stop them, or measure again when they are quiet (`linerate watch` shows who uses CPUs and disks)";

/// Findings whose cause other programs may be as well: beside them they would mislead.
pub(super) const MISLED: [&str; 4] =
    ["stalled", "path-below-prediction", "one-core-saturated", "figures-disagree"];

/// All of them, of any measurements.
pub(crate) fn others_findings(measurements: &[Measurement]) -> Vec<Finding> {
    // What is measured of memory fills all CPUs by design, for a short time.
    let figures: Vec<&Measurement> =
        measurements.iter().filter(|one| one.stage != Stage::Memory && one.others.is_some()).collect();
    busy(&figures).into_iter().chain(disk_shared(&figures)).chain(hidden(&figures)).collect()
}

/// `others-busy`: they used the CPUs.
fn busy(figures: &[&Measurement]) -> Option<Finding> {
    let share = |figure: &Measurement| {
        figure.evidence().others_on_cpu().map_or(figure.cpu_share.others, |taken| taken.share)
    };
    let beside: Vec<&Measurement> =
        figures.iter().copied().filter(|figure| share(figure) >= OTHERS_EXPLAIN).collect();
    let worst = *beside.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let taken = worst.evidence().others_on_cpu();
    let of = worst.cpu_by_core.len();
    let all = OthersOnCpu { share: worst.cpu_share.others, cpu: None, of };
    let severity = if taken.is_some() { Severity::Slow } else { Severity::Note };
    let effect = match (taken.is_some(), beside.len()) {
        (false, _) => "; the CPUs had time left for what was measured".to_string(),
        (true, 1) => "; the figure is what they left".to_string(),
        (true, more) => format!("; {more} figures are what they left"),
    };
    let who = on_cpu(&taken.unwrap_or(all), worst.others.as_ref(), worst.cpu_share.others);
    let finding = Finding::new(
        severity,
        "others-busy",
        format!("other programs used {who} while “{}” was measured{effect}", worst.name),
    );
    let evidence = json!({
        "share": share(worst), "share_of_all_cpus": worst.cpu_share.others, "measurement": worst.name,
        "measurements": beside.len(),
    });
    Some(finding.evidence(evidence).remedy(REMEDY))
}

/// `others-on-disk`: they used a disk of the flow.
fn disk_shared(figures: &[&Measurement]) -> Option<Finding> {
    let shared =
        figures.iter().flat_map(|figure| on_disks(figure).into_iter().map(move |disk| (*figure, disk)));
    let (worst, disk) = shared.max_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
    let text = format!(
        "other programs {} while “{}” was measured; the figure is what they left",
        on_disk(&disk, worst.others.as_ref()),
        worst.name
    );
    let evidence = json!({
        "resource": format!("disk:{}", disk.name), "bytes_per_second": disk.bytes_per_second, "share": disk.share,
        "requests": disk.requests, "measurement": worst.name,
    });
    Some(Finding::slow("others-on-disk", text).evidence(evidence).remedy(REMEDY))
}

/// Of file access in detail the one device, where it was only read.
fn on_disks(figure: &Measurement) -> Vec<OthersOnDisk> {
    let Some(access) = figure.access.as_ref() else { return figure.evidence().others_on_disks() };
    let [device] = &access.devices[..] else { return Vec::new() };
    let all = device.bytes_per_second();
    let taken =
        figure.others_bytes(device, figure.bytes_per_second, false).filter(|_| access.writes.is_none());
    let of = |bytes_per_second: f64| {
        let (name, share) = (device.name.clone(), bytes_per_second / all);
        OthersOnDisk { name, bytes_per_second, share, requests: None }
    };
    taken.map(of).filter(|disk| disk.share >= OTHERS_EXPLAIN).into_iter().collect()
}

/// `others-hidden`: CPUs worked for processes that cannot be seen.
fn hidden(figures: &[&Measurement]) -> Option<Finding> {
    let of = |figure: &&Measurement| {
        let others = figure.others.as_ref()?;
        Some((others.hidden?, others.hidden_cpu)).filter(|(_, share)| *share >= OTHERS_EXPLAIN)
    };
    let (why, share) = figures.iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let text = format!(
        "{:.0} % of the CPUs worked for processes that cannot be seen from here, other programs or threads of the \
         kernel: {}",
        share * 100.0,
        why.why()
    );
    let remedy =
        "run as root and outside of the container (or with its `--pid=host`) to see whose work it is";
    Some(Finding::note("others-hidden", text).evidence(json!({ "share": share, "why": why })).remedy(remedy))
}
