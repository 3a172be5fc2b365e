//! What other programs took while the path was measured, as the sentence after the rate.

use crate::measure::{Measurement, OthersUse, Stage};
use linerate_facts::counters::ProcessUse;
use linerate_facts::units::show_bytes_rate;
use linerate_model::verdict::{Evidence, Judgement, Limit, LimitKind, OthersOnCpu, OthersOnDisk, judge};

/// `77 % of CPU 0, most of it rustc (pid 1673)`.
pub(crate) fn on_cpu(others_on_cpu: &OthersOnCpu, others: Option<&OthersUse>, all_share: f64) -> String {
    let which = match others_on_cpu {
        OthersOnCpu { cpu: Some(cpu), .. } => format!("CPU {cpu}"),
        OthersOnCpu { of: 1, .. } => "the CPU".into(),
        OthersOnCpu { of: 2, .. } => "both CPUs".into(),
        OthersOnCpu { of, .. } => format!("all {of} CPUs"),
    };
    let total = all_share * others_on_cpu.of as f64;
    format!("{:.0} % of {which}{}", others_on_cpu.share * 100.0, who(others, total, |one| one.cpus))
}

/// `moved 120 MB/s of disk vda (37 % of what it moved), most of it dd (pid 7)`.
pub(crate) fn on_disk(others_on_disk: &OthersOnDisk, others: Option<&OthersUse>) -> String {
    let beyond = others_on_disk
        .requests
        .map(|requests| format!(", with {requests:.1} requests in it beyond linerate's own"));
    format!(
        "moved {} of disk {} ({:.0} % of what it moved{}){}",
        show_bytes_rate(others_on_disk.bytes_per_second),
        others_on_disk.name,
        others_on_disk.share * 100.0,
        beyond.unwrap_or_default(),
        who(others, others_on_disk.bytes_per_second, ProcessUse::storage_bytes_per_second)
    )
}

/// Who, or why that is not known.
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

/// Ids of what they took.
pub(super) fn taken(evidence: &Evidence) -> Vec<String> {
    let disks = evidence.others_on_disks().into_iter().map(|disk| format!("disk:{}", disk.name));
    let cpu = evidence.others_on_cpu().map(|_| "cpu".to_string());
    let mut ids: Vec<String> = cpu.into_iter().chain(disks).collect();
    if ids.is_empty() {
        ids.push("cpu".into());
    }
    ids
}

/// `Other programs used 77 % of CPU 0, most of it rustc (pid 1673): 2.47 GB/s is what was left.`
pub(super) fn sentence(path: &Measurement, evidence: &Evidence, judged: &Judgement) -> String {
    format!(
        "Other programs {}: {} is what was left.",
        what_they_did(path, evidence, judged),
        show_bytes_rate(path.bytes_per_second)
    )
}

/// The same while a stage was measured before the path, and what they took.
pub(super) fn of_stage(figure: &Measurement) -> (String, Vec<String>) {
    let parts = if figure.stage == Stage::Disk { "disks" } else { "NICs" };
    let evidence = figure.evidence();
    let did = what_they_did(figure, &evidence, &judge(&evidence));
    (format!("Other programs {did}, while the {parts} were measured by themselves."), taken(&evidence))
}

fn what_they_did(figure: &Measurement, evidence: &Evidence, judged: &Judgement) -> String {
    let others = figure.others.as_ref();
    let on_cpu =
        evidence.others_on_cpu().map(|one| format!("used {}", on_cpu(&one, others, figure.cpu_share.others)));
    let on_disks = evidence.others_on_disks().into_iter().map(|one| on_disk(&one, others));
    let mut parts: Vec<String> = on_cpu.into_iter().chain(on_disks).collect();
    if parts.is_empty() {
        let of_limit = judged.limits.iter().find_map(|limit| match limit {
            Limit::Others { share, .. } => Some(*share),
            _ => None,
        });
        parts.push(format!("used {:.0} % of the CPUs that it needs", of_limit.unwrap_or(0.0) * 100.0));
    }
    parts.join(", and ")
}
