//! Rules about the machine, and about what was found: the findings and the facts that the other screens show.

use super::Judgement;
use super::bounds::sentence;
use super::rule::FindingChoice;
use crate::machine_facts::{MachineFact, of_server, of_settings};
use linerate_facts::printable::printable;
use linerate_facts::wording::first_of;
use linerate_machine::probe::Machine;
use linerate_machine::topology::{LinkCondition, Topology};
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use linerate_measure::run::Run;

/// Findings of links below their best; a link that sleeps, and an old slot, are none.
const SLOW_LINKS: [&str; 6] =
    ["pcie-width", "pcie-speed", "pcie-slot-narrower", "pcie-ports", "disk-port", "nic-speed"];
/// They fail as notes, too: what the slower link costs is not known, or the other end's.
const ALSO_AS_NOTES: [&str; 2] = ["pcie-slot-narrower", "nic-speed"];
/// Findings that are named one by one.
const MOST_NAMED: usize = 3;

/// No finding of this choice.
pub(super) fn no_finding(run: &Run, of_machine: bool, choice: FindingChoice) -> Judgement {
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
pub(super) fn fact(run: &Run, what: &str, value: &str) -> Judgement {
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
