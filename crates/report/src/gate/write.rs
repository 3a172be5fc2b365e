//! Rules written: of what a plan says that a machine is likely to do, and of a result of a machine that is known to be
//! good. Whatever does not hold there, or cannot be judged, is left out.

use super::figures::{headline, rate_interval};
use super::rule::Rule;
use super::{Expectations, History, RuleOutcome, judge};
use crate::compare::measured_as;
use crate::figure::{Unit, operations_word};
use crate::machine_facts::{of_server, of_settings};
use linerate_facts::printable::printable;
use linerate_machine::probe::Machine;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::flow::{Flow, FlowEnd, FlowPlan};
use linerate_model::plan::{Goal, Origin, Resource, ResourceKind};

/// Of what the parts are likely to carry.
const OF_LIKELY: f64 = 0.9;
/// Of what a good machine did.
const OF_GOOD: f64 = 0.95;
/// Parts whose rates differ by less share one rule.
const ALIKE: f64 = 0.9;
/// Facts of a machine that decide its rates and do not differ between machines that are alike.
const FACTS: [&str; 11] = [
    "CPU governor",
    "CPU quota",
    "TCP congestion control",
    "net.core.default_qdisc",
    "MTU of ",
    "link speed of ",
    "full duplex of ",
    "receive ring of ",
    "send ring of ",
    "scheduler of ",
    "disks missing of ",
];
/// Of the machine alone.
const OF_MACHINE: [&str; 3] =
    ["probe: no link below its best", "probe: no node-apart", "probe: no array-degraded"];
/// Of several parts of a kind, and of what goes over NICs.
const OF_TWINS: &str = "twins within 10%";
const OF_NETWORK: &str = "network loss < 0.1%";

/// A rule and the comment behind it.
type Line = (String, String);

/// What the parts of a machine should do. `machine`: what was probed, where it was.
pub fn of_plan(plan: &FlowPlan, flow: &Flow, machine: Option<&Machine>) -> String {
    let likely = plan.likely.bytes_per_second.known().copied().filter(|likely| *likely > 0.0);
    let subject = match (flow.from.contains(&FlowEnd::Memory), flow.to.contains(&FlowEnd::Memory)) {
        (false, false) if is_path(flow) => Some("path"),
        (true, _) if is_all(&flow.to, "nic:") => Some("network"),
        (_, true) if is_all(&flow.from, "disk:") => Some("disk"),
        _ => None,
    };
    let whole = subject.zip(likely).map(|(subject, likely)| {
        let unit = if subject == "network" { Unit::Bits } else { Unit::Bytes };
        let comment = format!("0.9 of the {} that the parts are likely to carry", unit.show(likely));
        (at_least(subject, unit, OF_LIKELY * likely), comment)
    });
    let parts = |kind: ResourceKind| -> Vec<(String, f64)> {
        let of_kind = plan.resources.iter().filter(|part| part.kind == kind && is_rated(part));
        of_kind.map(|part| (part.id.clone(), OF_LIKELY * part.capacity)).collect()
    };
    let mut lines: Vec<Line> = whole.into_iter().collect();
    lines.extend(of_parts(parts(ResourceKind::Disk), Unit::Bytes, "0.9 of its data sheet"));
    lines.extend(of_parts(parts(ResourceKind::Nic), Unit::Bits, "0.9 of its payload rate"));
    let of_kind = |kind| plan.resources.iter().filter(|part| part.kind == kind).count();
    let (disks, nics) = (of_kind(ResourceKind::Disk), of_kind(ResourceKind::Nic));
    lines.extend((disks > 1 || nics > 1).then(|| plain(OF_TWINS)));
    lines.extend((nics > 0).then(|| plain(OF_NETWORK)));
    match machine.map(|machine| Run::begin(machine.clone(), Goal::default())) {
        Some(run) => lines.extend(held_rules(&run, of_machine(&run))),
        None => lines.extend(OF_MACHINE.map(plain)),
    }
    let name = printable(&plan.machine);
    file(
        &format!(
            "What {name} should do by its parts ({}), written by `linerate plan`",
            printable(&plan.flow)
        ),
        &lines,
    )
}

fn is_path(flow: &Flow) -> bool {
    is_all(&flow.from, "disk:") && is_all(&flow.to, "nic:")
        || is_all(&flow.from, "nic:") && is_all(&flow.to, "disk:")
}

fn is_all(flow_ends: &[FlowEnd], kind: &str) -> bool {
    flow_ends.iter().all(|end| end.is(kind))
}

/// Its own rate is known: a drive that is taken to be as fast as its link has none.
fn is_rated(part: &Resource) -> bool {
    part.origin != Origin::Unknown && part.capacity > 0.0 && !part.never_binds
}

/// What a machine did that is known to be good.
pub fn of_result(run: &Run) -> String {
    let rows = measured_as(run);
    let mut lines: Vec<Line> = Vec::new();
    let alone = |stage: Stage, kind: &str| -> Vec<(String, f64)> {
        let own = rows.iter().filter(|((of, ..), figure)| {
            let is_first = figure.protocol.is_none() || figure.protocol == headline(run);
            *of == stage
                && figure.resource.starts_with(kind)
                && !figure.lower_bound
                && !figure.with_file
                && is_first
        });
        own.map(|(_, figure)| (figure.resource.clone(), least(figure))).collect()
    };
    if run.stage.is_none() {
        let path =
            rows.iter().find(|((of, ..), figure)| *of == Stage::Path && figure.protocol == headline(run));
        lines.extend(path.map(|(_, figure)| {
            (at_least("path", Unit::Bytes, least(figure)), rule_figure(figure, Unit::Bytes))
        }));
        let comment = "0.95 of what it did";
        lines.extend(of_parts(alone(Stage::Disk, "disk:"), Unit::Bytes, comment));
        lines.extend(of_parts(alone(Stage::Network, "nic:"), Unit::Bits, comment));
    } else {
        for ((stage, name, _), figure) in rows.iter().filter(|((.., again), _)| *again == 0) {
            let unit = if *stage == Stage::Network { Unit::Bits } else { Unit::Bytes };
            lines
                .push((at_least(&format!("{stage} {name}"), unit, least(figure)), rule_figure(figure, unit)));
        }
        let load = run.load.as_ref().and_then(|curve| curve.level_rate());
        lines.extend(load.map(|rate| {
            (format!("load >= {} IOPS", operations_word(rounded_down(OF_GOOD * rate))), String::new())
        }));
    }
    lines.extend([OF_TWINS, OF_NETWORK].map(plain));
    lines.extend(of_machine(run));
    let (host, command) = (printable(&run.host), run.command());
    file(
        &format!("What {host} did ({command} of {}), written by `linerate report`", printable(&run.started)),
        &held_rules(run, lines),
    )
}

fn least(figure: &Measurement) -> f64 {
    OF_GOOD * figure.bytes_per_second
}

fn rule_figure(figure: &Measurement, unit: Unit) -> String {
    let interval = rate_interval(figure).map(|[low, high]| format!(" ({})", unit.show_range(low, high)));
    format!("0.95 of {}{}", unit.show(figure.bytes_per_second), interval.unwrap_or_default())
}

/// One rule for all that are alike, else one each.
fn of_parts(parts: Vec<(String, f64)>, unit: Unit, comment: &str) -> Vec<Line> {
    let rates = || parts.iter().map(|(_, rate)| *rate);
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let kind = parts.first().and_then(|(id, _)| id.split(':').next());
    match kind {
        Some(kind) if parts.len() > 1 && low >= ALIKE * high => {
            let comment = format!("each of {}: {comment}, of the slowest", parts.len());
            vec![(at_least(&format!("{kind}:*"), unit, low), comment)]
        }
        _ => parts.iter().map(|(id, rate)| (at_least(id, unit, *rate), comment.to_string())).collect(),
    }
}

/// `path >= 2.47GB/s`; never more than what was given.
fn at_least(subject: &str, unit: Unit, rate: f64) -> String {
    format!("{subject} >= {}", unit.show(rounded_down(rate)).replace(' ', ""))
}

/// Three digits.
fn rounded_down(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 0.0;
    }
    let digit = 10f64.powf(value.log10().floor() - 2.0);
    (value / digit).floor() * digit
}

/// Of the machine alone, and how it is set.
fn of_machine(run: &Run) -> Vec<Line> {
    let is_kept =
        |what: &str| FACTS.iter().any(|fact| what == *fact || fact.ends_with(' ') && what.starts_with(fact));
    let facts = of_server(run).into_iter().chain(of_settings(run)).filter(|fact| is_kept(&fact.what));
    let facts = facts.map(|fact| plain(&format!("probe: {} is {}", fact.what, fact.value)));
    OF_MACHINE.map(plain).into_iter().chain(facts).collect()
}

fn plain(rule: &str) -> Line {
    (rule.into(), String::new())
}

/// Those that this result holds to.
fn held_rules(run: &Run, lines: Vec<Line>) -> Vec<Line> {
    let holds = |(rule, _): &Line| {
        let expected = Rule::parse(rule).ok().and_then(|rule| Expectations::of(vec![rule]).ok());
        expected
            .is_some_and(|expected| judge(run, &expected, &History::default()).outcome == RuleOutcome::Held)
    };
    lines.into_iter().filter(holds).collect()
}

fn file(head: &str, lines: &[Line]) -> String {
    let rules = lines.iter().map(|(rule, comment)| {
        let comment = if comment.is_empty() { String::new() } else { format!(" # {comment}") };
        // A string of JSON is one of TOML.
        format!("    {},{comment}\n", serde_json::Value::from(rule.as_str()))
    });
    let use_it = "linerate run --expect FILE; exit status 5: a rule failed, 6: one cannot be judged";
    format!("# {head}.\n# {use_it}.\nexpect = [\n{}]\n", rules.collect::<String>())
}
