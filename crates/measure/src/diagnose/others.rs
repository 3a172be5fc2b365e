//! What other programs took of the CPUs and the disks while something was measured: as the sentence after the rate of
//! the path, and as findings, with what of them could not be seen. Nothing is to be bought for what they took.

use super::product::{Finding, Severity};
use crate::measure::{Measurement, OthersUse, Stage};
use linerate_facts::counters::ProcessUse;
use linerate_facts::units::show_bytes_rate;
use linerate_model::verdict::thresholds::OTHERS_EXPLAIN;
use linerate_model::verdict::{Evidence, Judgement, Limit, LimitKind, OthersOnCpu, OthersOnDisk, judge};
use serde_json::json;

const REMEDY: &str =
    "stop them, or measure again when they are quiet (`linerate watch` shows who uses CPUs and disks)";

/// Findings whose cause other programs may be as well: beside them they would mislead.
pub(crate) const MISLEADING_BESIDE_OTHERS: [&str; 4] =
    ["stalled", "path-below-prediction", "one-core-saturated", "figures-disagree"];

/// `77 % of CPU 0, most of it rustc (pid 1673)`.
fn cpu_phrase(on_cpu: &OthersOnCpu, others: Option<&OthersUse>, all_share: f64) -> String {
    let which = match on_cpu {
        OthersOnCpu { cpu: Some(cpu), .. } => format!("CPU {cpu}"),
        OthersOnCpu { of: 1, .. } => "the CPU".into(),
        OthersOnCpu { of: 2, .. } => "both CPUs".into(),
        OthersOnCpu { of, .. } => format!("all {of} CPUs"),
    };
    let total = all_share * on_cpu.of as f64;
    format!("{:.0} % of {which}{}", on_cpu.share * 100.0, who(others, total, |one| one.cpus))
}

/// `moved 120 MB/s of disk vda (37 % of what it moved), most of it dd (pid 7)`.
fn disk_phrase(on_disk: &OthersOnDisk, others: Option<&OthersUse>) -> String {
    let beyond =
        on_disk.requests.map(|requests| format!(", with {requests:.1} requests in it beyond linerate's own"));
    format!(
        "moved {} of disk {} ({:.0} % of what it moved{}){}",
        show_bytes_rate(on_disk.bytes_per_second),
        on_disk.name,
        on_disk.share * 100.0,
        beyond.unwrap_or_default(),
        who(others, on_disk.bytes_per_second, ProcessUse::storage_bytes_per_second)
    )
}

/// The programs that took most of `total`, `, most of it dd (pid 7)`; or why they are not known; nothing where others were
/// not looked at. `taken` is what of it a process took.
pub(super) fn who(others: Option<&OthersUse>, total: f64, taken: fn(&ProcessUse) -> f64) -> String {
    let Some(others) = others else { return String::new() };
    match (others.named(total, taken), others.hidden) {
        (named, Some(hidden)) if named.is_empty() => format!(" ({})", hidden.why()),
        (named, _) => named,
    }
}

/// What they took of the path's CPUs and disks can explain a part of its rate.
pub(super) fn explain(evidence: &Evidence, judged: &Judgement) -> bool {
    evidence.others_explain() || judged.limits.iter().any(|limit| limit.kind() == LimitKind::Others)
}

/// What they took: `cpu`, `disk:vda`, with the share of it.
pub(super) fn taken(evidence: &Evidence, judged: &Judgement) -> Vec<(String, f64)> {
    let disks =
        evidence.others_on_disks().into_iter().map(|disk| (format!("disk:{}", disk.name), disk.share));
    let cpu = evidence.others_on_cpu().map(|cpu| ("cpu".to_string(), cpu.share));
    let mut taken: Vec<(String, f64)> = cpu.into_iter().chain(disks).collect();
    if taken.is_empty() {
        taken.push(("cpu".into(), of_limit(judged)));
    }
    taken
}

/// What they took of the CPUs, where that is what limits.
fn of_limit(judged: &Judgement) -> f64 {
    let of_limit = judged.limits.iter().find_map(|limit| match limit {
        Limit::Others { share, .. } => Some(*share),
        _ => None,
    });
    of_limit.unwrap_or(0.0)
}

/// `Other programs used 77 % of CPU 0, most of it rustc (pid 1673): 2.47 GB/s is what was left.`
pub(super) fn sentence(path: &Measurement, evidence: &Evidence, judged: &Judgement) -> String {
    format!(
        "Other programs {}: {} is what was left.",
        what_they_did(path, evidence, judged),
        show_bytes_rate(path.bytes_per_second)
    )
}

/// The sentence on a stage that was measured before the path, and the ids of what others took meanwhile.
pub(super) fn of_stage(figure: &Measurement) -> (String, Vec<(String, f64)>) {
    let parts = if figure.stage == Stage::Disk { "disks" } else { "NICs" };
    let evidence = figure.evidence();
    let judged = judge(&evidence);
    let did = what_they_did(figure, &evidence, &judged);
    (
        format!("Other programs {did}, while the {parts} were measured by themselves."),
        taken(&evidence, &judged),
    )
}

fn what_they_did(figure: &Measurement, evidence: &Evidence, judged: &Judgement) -> String {
    let others = figure.others.as_ref();
    let of_cpus = evidence
        .others_on_cpu()
        .map(|one| format!("used {}", cpu_phrase(&one, others, figure.cpu_share.others)));
    let of_disks = evidence.others_on_disks().into_iter().map(|one| disk_phrase(&one, others));
    let mut parts: Vec<String> = of_cpus.into_iter().chain(of_disks).collect();
    if parts.is_empty() {
        parts.push(format!("used {:.0} % of the CPUs that it needs", of_limit(judged) * 100.0));
    }
    parts.join(", and ")
}

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
    let used = cpu_phrase(&taken.unwrap_or(all), worst.others.as_ref(), worst.cpu_share.others);
    let finding = Finding::new(
        severity,
        "others-busy",
        format!("other programs used {used} while “{}” was measured{effect}", worst.name),
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
        disk_phrase(&disk, worst.others.as_ref()),
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
