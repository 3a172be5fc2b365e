//! What of the machine is not as it was in any of the usual results: each may be why a figure is another one.

use super::MachineChange;
use crate::alike::distinct;
use crate::figure::percent;
use crate::machine_facts::{MachineFact, fill, of_server, of_settings};
use linerate_facts::printable::printable;
use linerate_measure::run::Run;

/// A file system is said to be fuller where it is by this share more than ever before.
const FULLER: f64 = 0.05;
/// CPUs are said to be busier where others use this share of them more than ever before.
const BUSIER: f64 = 0.1;
/// Nothing is known of it there.
const ABSENT: &str = "absent";

/// Against the usual results, oldest first; the ones that lie nearest to the flow come first.
pub(crate) fn since(run: &Run, usual: &[&Run]) -> Vec<MachineChange> {
    let Some(newest) = usual.last() else { return Vec::new() };
    let then: Vec<Vec<MachineFact>> = usual.iter().map(|run| facts(run)).collect();
    let now = facts(run);
    let mut changes = circumstances(run, usual);
    let known_now = now.iter().map(|fact| fact.what.as_str());
    let gone = then.iter().rev().take(1).flatten().map(|fact| fact.what.as_str());
    for what in distinct(known_now.chain(gone)) {
        let (value, mut before) = (value_of(&now, what), then.iter().map(|facts| value_of(facts, what)));
        if before.clone().any(|before| before == value) {
            continue;
        }
        let usual = before.next_back().unwrap_or(ABSENT);
        changes.push(change(what, usual, value));
    }
    changes.extend(files(run, newest, usual));
    changes
}

fn facts(run: &Run) -> Vec<MachineFact> {
    let mut facts = of_settings(run);
    facts.extend(of_server(run));
    facts.push(MachineFact { what: "linerate".into(), value: printable(&run.version) });
    facts
}

fn value_of<'a>(facts: &'a [MachineFact], what: &str) -> &'a str {
    facts.iter().find(|fact| fact.what == what).map_or(ABSENT, |fact| &fact.value)
}

fn change(what: &str, usual: &str, now: &str) -> MachineChange {
    MachineChange { what: what.into(), usual: usual.into(), now: now.into() }
}

/// What was so while it was measured, and is no setting: other work, and a hypervisor that takes CPUs away.
fn circumstances(run: &Run, usual: &[&Run]) -> Vec<MachineChange> {
    let others = |run: &Run| {
        let shares = run.measurements.iter().map(|measurement| measurement.cpu_share.others);
        shares.filter(|share| share.is_finite()).fold(0.0, f64::max)
    };
    let flagged = |run: &Run, flag: &str| {
        run.measurements.iter().any(|measurement| measurement.flags.iter().any(|word| word == flag))
    };
    let most = usual.iter().map(|run| others(run)).fold(0.0, f64::max);
    let mut changes = Vec::new();
    if others(run) > most + BUSIER {
        let share = |share: f64| format!("{} of the CPUs", percent(share));
        changes.push(change("other work", &share(most), &share(others(run))));
    }
    for (flag, what) in [("steal", "CPU taken by the hypervisor"), ("quota", "throttled by the CPU quota")] {
        if flagged(run, flag) && !usual.iter().any(|run| flagged(run, flag)) {
            changes.push(change(what, "no", "yes"));
        }
    }
    changes
}

fn files(run: &Run, newest: &Run, usual: &[&Run]) -> Vec<MachineChange> {
    let before: Vec<Vec<(String, f64)>> = usual.iter().map(|run| fill(run)).collect();
    let last = fill(newest);
    let mut changes = Vec::new();
    for (place, now) in fill(run) {
        let of_place =
            |all: &[(String, f64)]| all.iter().find(|(other, _)| *other == place).map(|(_, full)| *full);
        let most = before.iter().filter_map(|all| of_place(all)).reduce(f64::max);
        if let (Some(most), Some(last)) = (most, of_place(&last))
            && now > most + FULLER
        {
            changes.push(change(&format!("fill of {place}"), &percent(last), &percent(now)));
        }
    }
    changes
}
