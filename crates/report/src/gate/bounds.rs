//! A figure against a bound: it holds, fails, or nobody can say. Why it is on the wrong side, by what the
//! result has found already: the bottleneck of a path, the finding about a part, else what limited the stage.

use super::figures::{self, FigureUnit, RuledFigure};
use super::rule::{Bound, FigureRule, Metric, PartKind, Subject};
use super::{Judgement, RuleOutcome};
use crate::figure::{Unit, percent};
use crate::verdict::verdict;
use linerate_facts::printable::printable;
use linerate_facts::wording::first_of;
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use linerate_measure::measure::statistics::LEAST_SAMPLES;
use linerate_measure::measure::{LimitedBy, Measurement, PAGE_CACHE, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::Origin;
use linerate_model::verdict::LimitKind;

/// Figures that are named one by one.
const MOST_NAMED: usize = 3;
/// Flags of a figure that is not that of the part: memory answered, or the file was too short.
const NOT_THE_PART: [&str; 2] = [PAGE_CACHE, "short-file"];

/// One figure, judged.
pub(super) struct JudgedFigure<'r> {
    pub(super) figure: RuledFigure<'r>,
    pub(super) outcome: RuleOutcome,
    /// The figure and its bound, or why it is not judged.
    pub(super) text: String,
}

pub(super) fn judge(run: &Run, rule: &FigureRule) -> Judgement {
    let figures = figures::of_rule(run, rule);
    if figures.is_empty() {
        return Judgement::not_judged(missing(run, rule));
    }
    let judged: Vec<JudgedFigure> =
        figures.into_iter().map(|figure| judge_figure(run, rule, figure)).collect();
    of_all(run, judged, &rule.subject)
}

/// The worst of them: those that fail with the cause, else those that are not judged, else the nearest.
pub(super) fn of_all(run: &Run, judged: Vec<JudgedFigure>, subject: &Subject) -> Judgement {
    let outcome = judged.iter().map(|figure| figure.outcome).max().unwrap_or(RuleOutcome::NotJudged);
    let worst: Vec<&JudgedFigure> = judged.iter().filter(|figure| figure.outcome == outcome).collect();
    let named: Vec<&str> = worst.iter().take(MOST_NAMED).map(|figure| figure.text.as_str()).collect();
    let more = worst.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!("; {more} more likewise") } else { String::new() };
    let text = format!("{}{more}", named.join("; "));
    match worst.first() {
        Some(first) if outcome == RuleOutcome::Failed => {
            let cause = cause_of(run, subject, &first.figure);
            Judgement::failed(format!("{text}. {cause}"))
        }
        _ => Judgement::new(outcome, text),
    }
}

fn judge_figure<'r>(run: &Run, rule: &FigureRule, figure: RuledFigure<'r>) -> JudgedFigure<'r> {
    let bound = match resolved(run, rule, &figure) {
        Ok(bound) => bound,
        Err(why) => {
            let text = format!("{} {}, and {why}", figure.name, figure.shown());
            return JudgedFigure { figure, outcome: RuleOutcome::NotJudged, text };
        }
    };
    against(run, figure, &bound, rule.at_least, matches!(rule.subject, Subject::Part(..)))
}

/// Where a figure has to lie, in its unit, and in words.
pub(super) struct ResolvedBound {
    pub(super) value: f64,
    pub(super) words: String,
    /// A ratio and its interval, where that is judged in place of the figure: `of_predicted`.
    pub(super) ratio: Option<(f64, Option<[f64; 2]>)>,
}

/// The interval decides; what is on the wrong side fails where nobody else is the reason.
pub(super) fn against<'r>(
    run: &Run,
    figure: RuledFigure<'r>,
    bound: &ResolvedBound,
    at_least: bool,
    is_of_part: bool,
) -> JudgedFigure<'r> {
    let (value, interval) = bound.ratio.unwrap_or((figure.value, figure.interval));
    let is_right = |value: f64| if at_least { value >= bound.value } else { value <= bound.value };
    let shown = format!("{} {}{}", figure.name, figure.shown(), bound.words);
    let not_judged = |why: String| (RuleOutcome::NotJudged, format!("{shown}: {why}"));
    let untrusted = figure.measurement.and_then(not_the_part);
    let (outcome, text) = match interval {
        _ if untrusted.is_some() => not_judged(untrusted.unwrap_or_default()),
        None => not_judged(too_few(figure.measurement)),
        Some([low, high]) => match (is_right(low), is_right(high)) {
            (true, true) => (RuleOutcome::Held, shown),
            (false, false) => match figure.measurement.and_then(|figure| excuse(run, figure, is_of_part)) {
                Some(why) => not_judged(why),
                None => (RuleOutcome::Failed, shown),
            },
            _ if is_right(value) => {
                not_judged("its interval reaches to the wrong side; more repeats narrow it".into())
            }
            _ => not_judged("its interval reaches to the right side; more repeats narrow it".into()),
        },
    };
    JudgedFigure { figure, outcome, text }
}

fn too_few(figure: Option<&Measurement>) -> String {
    let samples = figure.map_or(0, |figure| figure.samples.len());
    format!("too few samples for an interval ({samples}); give it {LEAST_SAMPLES} repeats at least")
}

fn not_the_part(figure: &Measurement) -> Option<String> {
    let flag = figure.flags.iter().find(|flag| NOT_THE_PART.contains(&flag.as_str()))?;
    Some(match flag.as_str() {
        PAGE_CACHE => "memory answered in place of the disk".into(),
        _ => "the file was too short for it".into(),
    })
}

/// Why a figure on the wrong side is nobody's fault here: others had the machine, or something else was the limit of
/// it.
pub(super) fn excuse(run: &Run, figure: &Measurement, is_of_part: bool) -> Option<String> {
    let flagged = |flag: &str| figure.flags.iter().any(|known| known == flag);
    let limit = run.bottleneck();
    let is_of_others =
        limit.is_some_and(|limit| limit.kind == LimitKind::Others) && figure.stage == Stage::Path;
    if flagged("others") || is_of_others || figure.evidence().others_explain() {
        return Some("other programs had the machine meanwhile".into());
    }
    if flagged("steal") {
        return Some("the hypervisor gave its CPUs to others meanwhile".into());
    }
    let by = figure.held_by?;
    let elsewhere = matches!(
        by,
        LimitedBy::Others | LimitedBy::Generator | LimitedBy::Peer | LimitedBy::Sender | LimitedBy::Demand
    );
    match (elsewhere, is_of_part) {
        (true, _) => Some(format!("it was {}", by.words())),
        // A part that waited can do at least this.
        (false, true) => Some(format!("it was {}, so that the part can do at least this", by.words())),
        (false, false) => None,
    }
}

/// The bound of a rule in the unit of the figure; or why it is not known.
fn resolved(run: &Run, rule: &FigureRule, figure: &RuledFigure) -> Result<ResolvedBound, String> {
    let plain = |value: f64| {
        let side = if rule.at_least { "at least" } else { "at most" };
        let words = format!(", expected {side} {}", figure_text(figure.unit, rule.bound, value));
        ResolvedBound { value, words, ratio: None }
    };
    match rule.bound {
        Bound::Rate(value) | Bound::Operations(value) | Bound::Share(value) | Bound::Seconds(value) => {
            Ok(plain(value))
        }
        Bound::OfLikely(ratio) => {
            let likely = likely(run, &rule.subject, figure)?;
            let share = percent(figure.value / likely);
            let words = format!(
                ", {share} of the {} that its parts are likely to carry",
                as_rate(figure.unit, likely)
            );
            Ok(ResolvedBound { value: ratio * likely, words, ratio: None })
        }
        Bound::OfPredicted(ratio) => {
            let protocol = figure.measurement.and_then(|figure| figure.protocol);
            let mut judged = run.diagnosis.iter().flat_map(|diagnosis| &diagnosis.by_protocol);
            let achieved = judged.find(|one| Some(one.protocol) == protocol).map(|one| one.achieved);
            let achieved =
                achieved.or_else(|| run.diagnosis.as_ref()?.achieved).filter(|one| one.of_predicted > 0.0);
            let achieved = achieved.ok_or("what its stages predict is not known")?;
            let words = format!(", {} of what its stages predict", percent(achieved.of_predicted));
            let ratios = (achieved.of_predicted, achieved.of_predicted_interval);
            Ok(ResolvedBound { value: ratio, words, ratio: Some(ratios) })
        }
    }
}

fn figure_text(unit: FigureUnit, bound: Bound, value: f64) -> String {
    if matches!(bound, Bound::Rate(_)) { as_rate(unit, value) } else { unit.show(value) }
}

fn as_rate(unit: FigureUnit, value: f64) -> String {
    match unit {
        FigureUnit::Rate(unit) => unit.show(value),
        _ => Unit::Bytes.show(value),
    }
}

/// What the plan of the run says of a path or a part before anything is measured.
fn likely(run: &Run, subject: &Subject, figure: &RuledFigure) -> Result<f64, String> {
    let plan = run.plan.as_ref().ok_or("the result has no plan of a path: `linerate run` makes one")?;
    match subject {
        Subject::Part(kind, _) => {
            let id = figure.measurement.map_or("", |figure| figure.resource.as_str());
            let part = plan.resources.iter().find(|resource| resource.id == id);
            let known = part.filter(|part| {
                let is_assumed = part.never_binds && *kind == PartKind::Disk;
                part.origin != Origin::Unknown && part.capacity > 0.0 && !is_assumed
            });
            known
                .map(|part| part.capacity)
                .ok_or_else(|| format!("what {} can do by its data sheet is not known", printable(id)))
        }
        _ if figure.measurement.and_then(|figure| figure.protocol) != figures::headline(run) => {
            Err("what is likely was planned for the first protocol".into())
        }
        _ => plan.ceiling.likely_bytes_per_second.filter(|likely| *likely > 0.0).ok_or_else(|| {
            let why = plan.ceiling.bytes_per_second.why().unwrap_or("a rate on the path is unknown");
            format!("what its parts are likely to carry is not known: {}", printable(why))
        }),
    }
}

/// A rule about what the result does not have: what it has in its place.
fn missing(run: &Run, rule: &FigureRule) -> String {
    if let Some(error) = run.errors.first().filter(|_| run.measurements.is_empty()) {
        return format!("nothing was measured: {}", printable(error.trim_end_matches('.')));
    }
    let names = figures::names(run);
    if names.is_empty() {
        return "nothing was measured".into();
    }
    let of_stage = |stage: Stage| run.measurements.iter().any(|figure| figure.stage == stage);
    if rule.metric == Metric::Loss && of_stage(Stage::Network) {
        return "no datagrams were sent: TCP's losses are retransmits; measure with --protocol udp".into();
    }
    if let Subject::Part(kind, name) = &rule.subject {
        let (kind, known) = match kind {
            PartKind::Disk => ("disk", run.machine.disks.iter().any(|disk| disk.name == *name)),
            PartKind::Nic => ("NIC", run.machine.nics.iter().any(|nic| nic.name == *name)),
        };
        if name == "*" {
            return format!("no {kind} was measured alone; there is {}", first_of(&names, MOST_NAMED));
        }
        let state = if known { "was not measured alone" } else { "is not in this machine" };
        return format!("{kind} {} {state}; there is {}", printable(name), first_of(&names, MOST_NAMED));
    }
    format!("the result has no such figure; there is {}", first_of(&names, MOST_NAMED))
}

/// One sentence or two; it always says something.
fn cause_of(run: &Run, subject: &Subject, figure: &RuledFigure) -> String {
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
