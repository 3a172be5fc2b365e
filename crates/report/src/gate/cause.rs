//! Why a figure is on the wrong side, by what the result has found already: the bottleneck of a path, the finding about
//! a part, else what limited the stage.

use super::figures::RuledFigure;
use super::rule::Subject;
use crate::verdict::verdict;
use linerate_facts::printable::printable;
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;

/// One sentence or two; it always says something.
pub(super) fn of_figure(run: &Run, subject: &Subject, figure: &RuledFigure) -> String {
    let is_path = figure.measurement.is_some_and(|figure| figure.stage == Stage::Path);
    if is_path && run.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.bottleneck.is_some()) {
        return verdict(run).bottleneck;
    }
    let by = figure.measurement.and_then(|figure| figure.held_by);
    let resource = figure.measurement.map_or("", |figure| figure.resource.as_str());
    let of_map = map_findings(&run.machine);
    let all: Vec<&Finding> = run.findings().iter().chain(&of_map).collect();
    let about = all.iter().find(|finding| is_about(finding, resource));
    let costly = || {
        let of_run = run.findings().iter().find(|finding| finding.severity != Severity::Note);
        of_run.filter(|_| !matches!(subject, Subject::Part(..)))
    };
    match (about.copied().or_else(costly), by) {
        (Some(finding), _) => sentence(finding),
        (None, Some(by)) => format!("It was {}.", by.words()),
        (None, None) => "Nothing that linerate reads of the machine explains it.".into(),
    }
}

/// With what to do.
pub(super) fn sentence(finding: &Finding) -> String {
    let text = printable(finding.text.trim_end_matches('.'));
    match finding.remedy.is_empty() {
        true => format!("{text}."),
        false => format!("{text}: {}.", printable(finding.remedy.trim_end_matches('.'))),
    }
}

/// It names the part, `disk:sda` or `sda`.
fn is_about(finding: &Finding, resource: &str) -> bool {
    let Some((_, name)) = resource.split_once(':') else { return false };
    let is_same =
        |value: &serde_json::Value| value.as_str().is_some_and(|text| text == resource || text == name);
    let devices = finding.evidence["devices"].as_array();
    is_same(&finding.evidence["resource"]) || devices.is_some_and(|devices| devices.iter().any(is_same))
}
