//! Rules that hold no figure of a result against a bound: those that compare like parts with each other, a result with
//! another one, and with what this host usually does; and those about the machine, and about what was found: the findings
//! and the facts that the other screens show.

use super::bounds::{self, JudgedFigure, ResolvedBound, against, excuse, of_all, sentence};
use super::figures::{FigureUnit, RuledFigure, rate_interval};
use super::rule::{FindingChoice, Subject};
use super::{History, Judgement, RuleOutcome};
use crate::check::{CheckVerdict, changes_since, check, is_same_hardware};
use crate::compare::measured_as;
use crate::figure::{Unit, percent, rate};
use crate::machine_facts::{MachineFact, of_server, of_settings};
use linerate_facts::fact::Fact;
use linerate_facts::printable::printable;
use linerate_facts::wording::{counted, first_of};
use linerate_machine::probe::Machine;
use linerate_machine::topology::{LinkCondition, Topology};
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{FleetDirection, FleetResult, SlowMember};

/// Changes of the machine that are named as the cause.
const MOST_CHANGES: usize = 3;

/// Findings of links below their best; a link that sleeps, and an old slot, are none.
const SLOW_LINKS: [&str; 6] =
    ["pcie-width", "pcie-speed", "pcie-slot-narrower", "pcie-ports", "disk-port", "nic-speed"];
/// They fail as notes, too: what the slower link costs is not known, or the other end's.
const ALSO_AS_NOTES: [&str; 2] = ["pcie-slot-narrower", "nic-speed"];
/// Findings that are named one by one.
const MOST_NAMED: usize = 3;

/// Parts of one kind differ by no more than this part.
pub(super) fn judge_twins(run: &Run, within: f64) -> Judgement {
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
pub(super) fn judge_likeness(run: &Run, other: Option<&Run>, within: f64) -> Judgement {
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
pub(super) fn judge_as_usual(run: &Run, (earlier, elsewhere): &History) -> Judgement {
    let found = check(run, earlier, *elsewhere);
    let outcome = match found.verdict {
        CheckVerdict::Slower => RuleOutcome::Failed,
        CheckVerdict::Usual | CheckVerdict::Faster => RuleOutcome::Held,
        CheckVerdict::Unclear | CheckVerdict::TooFew | CheckVerdict::NotJudged => RuleOutcome::NotJudged,
    };
    Judgement::new(outcome, found.sentence)
}

/// No finding of this choice.
pub(super) fn judge_findings(run: &Run, of_machine: bool, choice: FindingChoice) -> Judgement {
    let map = map_findings(&run.machine);
    let all: Vec<&Finding> = match (of_machine, run.stage) {
        (true, _) => map.iter().collect(),
        // What a run says of its map is weighed by the flow; where nothing is asked of the flow, the map speaks.
        (false, Some(_)) => run.findings().iter().chain(&map).collect(),
        (false, None) => run.findings().iter().collect(),
    };
    let failing: Vec<&Finding> = all.iter().copied().filter(|finding| is_failing(finding, choice)).collect();
    if let Some(first) = failing.first() {
        let others: Vec<&str> = failing[1..].iter().map(|finding| finding.text.as_str()).collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!(" Also: {}.", first_of(&others, MOST_NAMED))
        };
        return Judgement::failed(sentence(first) + &others);
    }
    if choice == FindingChoice::SlowLinks {
        return judge_links(&run.machine, &all);
    }
    match run.measurements.is_empty() && !of_machine && run.load.is_none() {
        true => Judgement::not_judged("nothing was measured; 'probe: no …' is about the machine alone"),
        false => Judgement::held("none was found"),
    }
}

fn is_failing(finding: &Finding, choice: FindingChoice) -> bool {
    let id = finding.id.as_str();
    let costs = finding.severity != Severity::Note;
    match choice {
        FindingChoice::Costly => costs,
        FindingChoice::Id(wanted) => id == wanted,
        FindingChoice::SlowLinks => SLOW_LINKS.contains(&id) && (costs || ALSO_AS_NOTES.contains(&id)),
    }
}

/// No link is known to be slow: whether any is known at all, and whether an end was silent.
fn judge_links(machine: &Machine, findings: &[&Finding]) -> Judgement {
    let silent = findings.iter().find(|finding| {
        ["pcie-width", "pcie-speed"].contains(&finding.id.as_str()) && finding.evidence["both_ends"].is_null()
    });
    if let Some(silent) = silent {
        return Judgement::not_judged(printable(&silent.text));
    }
    let tree = Topology::new(machine);
    let links = tree.links();
    let is_real = |condition: &LinkCondition| {
        !matches!(condition, LinkCondition::Formality(_) | LinkCondition::Unknown)
    };
    let known = links.iter().filter(|link| is_real(&link.condition)).count();
    let disks = machine
        .controllers
        .iter()
        .filter(|one| one.link_bits_per_second.known().is_some_and(|bits| *bits > 0));
    let nics = machine
        .nics
        .iter()
        .filter(|nic| !nic.loopback && nic.details.link_max_bits_per_second.known().is_some());
    match known + disks.count() + nics.count() {
        0 => Judgement::not_judged("no link of this machine says how fast it runs and what it can do"),
        count => Judgement::held(format!("{count} links run as fast as both their ends can")),
    }
}

/// A fact has this value.
pub(super) fn judge_fact(run: &Run, what: &str, value: &str) -> Judgement {
    let facts: Vec<MachineFact> = of_settings(run).into_iter().chain(of_server(run)).collect();
    let Some(found) = facts.iter().find(|fact| fact.what == what) else {
        let last = what.rsplit(' ').next().unwrap_or_default();
        let near: Vec<&str> =
            facts.iter().map(|fact| fact.what.as_str()).filter(|known| known.ends_with(last)).collect();
        let near = if near.is_empty() {
            String::new()
        } else {
            format!("; there is {}", first_of(&near, MOST_NAMED))
        };
        return Judgement::not_judged(format!("nothing is known of that here{near}"));
    };
    match found.value.as_str() {
        "unknown" => Judgement::not_judged("it cannot be read here; `linerate probe` says why"),
        now if now == value => Judgement::held(format!("it is {now}")),
        now => {
            let of_map = map_findings(&run.machine);
            let about = of_map.iter().find(|finding| is_about(finding, what));
            let cause = about.map(|finding| format!(" {}", sentence(finding))).unwrap_or_default();
            Judgement::failed(format!("{what} is {now}.{cause}"))
        }
    }
}

/// It is about the device at the end of the fact's name, and about no other fact of it.
fn is_about(finding: &Finding, what: &str) -> bool {
    let is_named = |device: &serde_json::Value| {
        device.as_str().is_some_and(|name| what.ends_with(&format!(" of {name}")))
    };
    let is_alike = match finding.id.as_str() {
        "array-degraded" => what.starts_with("disks missing"),
        "nic-speed" => what.starts_with("link speed"),
        "disk-port" => what.starts_with("link speed"),
        _ => false,
    };
    is_alike && finding.evidence["devices"].as_array().is_some_and(|devices| devices.iter().any(is_named))
}
