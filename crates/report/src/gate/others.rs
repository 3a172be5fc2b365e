//! Rules that compare: like parts with each other, a result with another one, and with what this host usually does.

use super::bounds::{self, JudgedFigure, ResolvedBound, against, excuse, of_all};
use super::figures::{FigureUnit, RuledFigure, rate_interval};
use super::rule::Subject;
use super::{History, Judgement, RuleOutcome};
use crate::check::{CheckVerdict, changes_since, check, is_same_hardware};
use crate::compare::measured_as;
use crate::figure::{Unit, percent, rate};
use linerate_facts::fact::Fact;
use linerate_facts::printable::printable;
use linerate_facts::wording::{counted, first_of};
use linerate_measure::diagnose::Finding;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{FleetDirection, FleetResult, SlowMember};

/// Changes of the machine that are named as the cause.
const MOST_CHANGES: usize = 3;

/// Parts of one kind differ by no more than this part.
pub(super) fn twins(run: &Run, within: f64) -> Judgement {
    if let Some(fleet) = &run.fleet {
        return hosts(fleet, within);
    }
    let compared = run.twins(1.0 - within);
    if compared.alike < 2 {
        return Judgement::not_judged("no two parts of one kind were measured, each alone");
    }
    let is_clear = |finding: &&Finding| lies_below(finding, within);
    let Some(slow) = compared.slow.iter().find(is_clear).or(compared.slow.first()) else {
        if let Some(name) = compared.unclear.first() {
            let part = printable(name);
            return Judgement::not_judged(format!(
                "{part} did less than its like; whether it can do more is not known"
            ));
        }
        let parts = counted(compared.alike, "part");
        return Judgement::held(format!(
            "{parts} that have others of their kind are within {} of them",
            percent(within)
        ));
    };
    let text = bounds::sentence(slow);
    let resource = slow.evidence["resource"].as_str().unwrap_or_default();
    let figure = run.measurements.iter().find(|figure| figure.resource == resource && !figure.together);
    match figure.and_then(|figure| excuse(run, figure, true)) {
        Some(why) => Judgement::not_judged(format!("{text} But {why}")),
        None if is_clear(&slow) => Judgement::failed(text),
        None => Judgement::not_judged(format!("{text} Its interval reaches into those {}", percent(within))),
    }
}

/// The whole interval of a slow part lies below.
fn lies_below(finding: &Finding, within: f64) -> bool {
    let evidence = &finding.evidence;
    let high = evidence["interval"][1].as_f64().or(evidence["bytes_per_second"].as_f64());
    let usual = evidence["others_median_bytes_per_second"].as_f64();
    high.zip(usual).is_some_and(|(high, usual)| high < usual * (1.0 - within))
}

/// The members of a fleet, by its own verdict.
fn hosts(fleet: &FleetResult, within: f64) -> Judgement {
    let members = fleet.members.len();
    if members < 3 {
        return Judgement::not_judged("of two hosts nobody can say which is the slow one; three are needed");
    }
    let is_slow = |ratio: f64| ratio < 1.0 - within;
    let hosts = fleet.verdict.members.iter().filter(|member| is_slow(member.ratio)).map(of_member);
    let links = fleet.verdict.links.iter().filter(|link| is_slow(link.ratio));
    let links = links.map(|link| {
        format!(
            "{} to {}: {} of what the same hosts do elsewhere",
            link.from.join(", "),
            link.to.join(", "),
            percent(link.ratio)
        )
    });
    let slow: Vec<String> = hosts.chain(links).collect();
    match slow.is_empty() {
        true => Judgement::held(format!(
            "{} are within {} of each other",
            counted(members, "host"),
            percent(within)
        )),
        false => Judgement::failed(format!("{}.", slow.join("; "))),
    }
}

fn of_member(member: &SlowMember) -> String {
    let does = match member.direction {
        FleetDirection::Send => "sends",
        FleetDirection::Receive => "receives",
        FleetDirection::Read => "reads",
        FleetDirection::Write => "writes",
    };
    let evidence =
        if member.evidence.is_empty() { String::new() } else { format!(" ({})", member.evidence.join(", ")) };
    format!("{} {does} {} of what the others do{evidence}", member.name, percent(member.ratio))
}

/// No figure is lower than that of another result, but for this part.
pub(super) fn like(run: &Run, other: Option<&Run>, within: f64) -> Judgement {
    let Some(other) = other else { return Judgement::not_judged("the result was not read") };
    if !is_same_hardware(run, other) {
        let word = |run: &Run| match &run.machine.cpu.model {
            Fact::Known(model) => printable(model),
            Fact::Unknown { .. } => "an unknown processor".into(),
        };
        let of = format!("{} of {}", word(other), printable(&other.host));
        return Judgement::not_judged(format!("another machine: {of}, and this is {}", word(run)));
    }
    let now = measured_as(run);
    let (mut judged, mut missing) = (Vec::new(), Vec::new());
    for (key, before) in measured_as(other).into_iter().filter(|(_, figure)| counts(other, figure)) {
        let Some(least) = rate(before.bytes_per_second).filter(|rate| *rate > 0.0) else { continue };
        let name = printable(&format!("{} {}", key.0, key.1));
        match now.iter().find(|(same, _)| *same == key) {
            Some((_, figure)) => judged.extend(beside(run, name, figure, least, within)),
            None => missing.push(name),
        }
    }
    if judged.is_empty() {
        return Judgement::not_judged("the two results have no figure in common");
    }
    let count = judged.len();
    let found = of_all(run, judged, &Subject::Any);
    let changes = changes_since(run, &[other]);
    match found.outcome {
        RuleOutcome::Failed if !changes.is_empty() => {
            let all: Vec<String> = changes
                .iter()
                .map(|change| format!("{} {} → {}", change.what, change.usual, change.now))
                .collect();
            Judgement::failed(format!("{} Not as there: {}.", found.text, first_of(&all, MOST_CHANGES)))
        }
        RuleOutcome::Held if !missing.is_empty() => {
            Judgement::not_judged(format!("not measured here: {}", first_of(&missing, MOST_CHANGES)))
        }
        RuleOutcome::Held => Judgement::held(format!("{} as there", counted(count, "figure"))),
        _ => found,
    }
}

/// Of a whole run disks, NICs and the path, which are what it is about; of one stage all of it.
fn counts(run: &Run, figure: &Measurement) -> bool {
    match (run.stage, figure.stage) {
        (None, Stage::Path) => true,
        (None, Stage::Disk | Stage::Network) => !figure.with_file,
        (None, _) => false,
        (Some(_), _) => true,
    }
}

fn beside<'r>(
    run: &Run,
    name: String,
    figure: &'r Measurement,
    before: f64,
    within: f64,
) -> Option<JudgedFigure<'r>> {
    let unit = if figure.stage == Stage::Network { Unit::Bits } else { Unit::Bytes };
    let value = rate(figure.bytes_per_second)?;
    let words = format!(", {} of the {} there", percent(value / before), unit.show(before));
    let bound = ResolvedBound { value: before * (1.0 - within), words, ratio: None };
    let interval = rate_interval(figure);
    let unit = FigureUnit::Rate(unit);
    let figure = RuledFigure { name, value, interval, unit, measurement: Some(figure) };
    Some(against(run, figure, &bound, true, false))
}

/// As `linerate check` says it.
pub(super) fn as_usual(run: &Run, (earlier, elsewhere): &History) -> Judgement {
    let found = check(run, earlier, *elsewhere);
    let outcome = match found.verdict {
        CheckVerdict::Slower => RuleOutcome::Failed,
        CheckVerdict::Usual | CheckVerdict::Faster => RuleOutcome::Held,
        CheckVerdict::Unclear | CheckVerdict::TooFew | CheckVerdict::NotJudged => RuleOutcome::NotJudged,
    };
    Judgement::new(outcome, found.sentence)
}
