//! What was taken, what it cost the flow, and what follows, in sentences.

use crate::plan::ResourceKind;
use crate::plan::wording::{in_words, listed};
use crate::shares::{
    CpuCosts, Decision, Estimate, Hopeless, NoShare, ShareLimit, ShareRecord, ShareReport, Undecided,
    is_receiver_cpus,
};
use linerate_facts::wording::percent;
use std::fmt::{Display, Formatter, Result};

/// What limits by the shares, with what was taken and what it cost; a flat statement only where it was measured.
pub fn share_sentence(record: &ShareRecord, report: &ShareReport, decision: &Decision) -> String {
    match decision {
        Decision::Measured(ShareLimit::Resource(index)) => {
            let resource = &report.resources[*index];
            let it = match resource {
                several if several.ids().len() > 1 => "each",
                one if one.kind == ResourceKind::Receiver => "them",
                _ => "it",
            };
            let cost = resource.share.ok().map(|share| cost(resource.taken, it, share));
            let costs = costs(report, &[*index], cost.into_iter().collect());
            format!("The bottleneck is {}: {costs}.", name(report, *index))
        }
        Decision::Measured(ShareLimit::Pool(index)) => {
            let pool = &report.pools[*index];
            let costs = costs(report, &pool.members, vec![cost(pool.taken, "each", pool.share)]);
            format!("The bottleneck is {} together: {costs}.", names(report, &pool.members))
        }
        Decision::Measured(ShareLimit::Setting(index)) => match record.raised.get(*index) {
            Some(setting) => {
                let gain =
                    report.raised[*index].gain.map(|gain| within(gain, 100.0, " %")).unwrap_or_default();
                let (name, from, to) = (setting.id.replace('-', " "), setting.from, setting.to);
                format!("The bottleneck is {name}: {to} instead of {from} raised the flow by {gain}.")
            }
            None => String::new(),
        },
        Decision::Tie(indexes) => {
            let names = names(report, indexes);
            let costs = costs(report, indexes, each(report, indexes.iter().copied()));
            format!("The bottleneck is {names} together: {costs}. All must be raised.")
        }
        Decision::NothingFull => {
            format!("Nothing that was taken from is full: {}.", costs(report, &[], Vec::new()))
        }
        Decision::Undecided(why) => format!("Not measured: {}.", undecided(report, why)),
    }
}

/// `10 % of it` and `9.6 ± 0.9 %`.
fn cost(taken: f64, of: &str, share: Estimate) -> (String, String) {
    (format!("{} of {of}", percent(taken)), within(share, 100.0 * taken, " %"))
}

/// The same of each that has a share, by its name.
fn each(report: &ShareReport, indexes: impl Iterator<Item = usize>) -> Vec<(String, String)> {
    let known = |index: usize| Some((index, &report.resources[index], report.resources[index].share.ok()?));
    let costs = indexes.filter_map(known);
    costs.map(|(index, resource, share)| cost(resource.taken, &name(report, index), share)).collect()
}

/// `10 % of it taken cost the flow 9.6 ± 0.9 %; 10 % of the CPU 0.4 ± 0.8 %, 10 % of NIC eth0 0.1 ± 0.5 %`: first that of
/// those which are named before.
fn costs(report: &ShareReport, named: &[usize], first: Vec<(String, String)>) -> String {
    let others = each(report, (0..report.resources.len()).filter(|index| !named.contains(index)));
    let groups = [first, others].into_iter().filter(|group| !group.is_empty()).enumerate();
    let groups = groups.map(|(group, costs)| {
        let verb = |index| if (group, index) == (0, 0) { "taken cost the flow " } else { "" };
        let words =
            costs.iter().enumerate().map(|(index, (part, cost))| format!("{part} {}{cost}", verb(index)));
        words.collect::<Vec<String>>().join(", ")
    });
    let less = match report.less_cpu_costs {
        None => "",
        Some(CpuCosts::Whole) => ", each less what taking it cost the CPUs",
        Some(CpuCosts::OfThreads) => ", each less what its taker's own threads cost the CPUs",
    };
    groups.collect::<Vec<String>>().join("; ") + less
}

/// Why the shares decide nothing.
fn undecided(report: &ShareReport, why: &Undecided) -> String {
    let share = |index: &usize| {
        let share = report.resources[*index].share.map(|share| within(share, 1.0, ""));
        format!("{} ({})", name(report, *index), share.unwrap_or_default())
    };
    match why {
        Undecided::TooFewSlots { slots, needed } => {
            format!("there was time for {slots} slots, and {needed} are needed")
        }
        Undecided::CarryOver(carry_over) => {
            let what = match report.raised.iter().any(|it| it.id == carry_over.id) {
                true => format!("more {}", carry_over.id.replace('-', " ")),
                false => format!("what was taken from {}", in_words(&[&carry_over.id])),
            };
            format!(
                "a slot felt {what} in the slot before it ({} of it): the slots were too short",
                within(carry_over.lag, 1.0, "")
            )
        }
        Undecided::Aliased { window_ms, period_ms } => format!(
            "something shapes the flow every {period_ms} ms, and a window of {window_ms} ms is not a whole number \
             of that"
        ),
        Undecided::NotTaken(ids) => {
            let known = |id: &String| report.resources.iter().position(|it| it.id == *id);
            let words = |id: &String| known(id).map_or_else(|| in_words(&[id]), |index| name(report, index));
            let names = ids.iter().map(words).collect::<Vec<String>>();
            let names = listed(&names.iter().map(String::as_str).collect::<Vec<_>>(), 4);
            let little = ids.iter().filter_map(|id| report.resources.iter().find(|it| it.id == *id));
            let little = little.filter_map(|it| it.share.err()).next().map(|why| why.to_string());
            let refused = ids.iter().any(|id| is_receiver_cpus(id) && known(id).is_none());
            let none = match refused {
                true => "the agent there takes nothing of them (--no-experiment, or an older linerate)",
                false => "nothing was taken from it",
            };
            format!("{names} may be busy: {}", little.unwrap_or_else(|| none.into()))
        }
        Undecided::CheapTaker(index) => format!(
            "{} moved more while it was taken from: what was read beside the flow may cost it less than the flow's own \
             reads, so that it may be full though its share is small",
            share(index)
        ),
        Undecided::Wide(indexes) => {
            // Of like parts it is what they have together that does not decide.
            let alike = |index: &usize| report.pools.iter().find(|pool| pool.members.contains(index));
            let of = |index: &usize| match alike(index) {
                Some(pool) => {
                    format!("{} together ({})", names(report, &pool.members), within(pool.share, 1.0, ""))
                }
                None => share(index),
            };
            let mut shares: Vec<String> = indexes.iter().map(of).collect();
            shares.dedup();
            let shares = listed(&shares.iter().map(String::as_str).collect::<Vec<_>>(), 4);
            format!("in this time the share of {shares} is not known well enough")
        }
        Undecided::WideSetting(index) => {
            let gain = report.raised[*index].gain.map(|gain| within(gain, 100.0, " %")).unwrap_or_default();
            let name = report.raised[*index].id.replace('-', " ");
            format!("in this time the effect of more {name} ({gain}) is not known well enough")
        }
        Undecided::Incomplete => {
            let sum = report.sum.map(|sum| format!(" ({})", within(sum, 1.0, ""))).unwrap_or_default();
            format!("all shares together{sum} explain only a part of the flow")
        }
    }
}

fn name(report: &ShareReport, index: usize) -> String {
    names(report, &[index])
}

fn names(report: &ShareReport, indexes: &[usize]) -> String {
    let ids = indexes.iter().flat_map(|index| report.resources[*index].ids());
    in_words(&ids.map(String::as_str).collect::<Vec<_>>())
}

/// `9.6 ± 0.9 %`.
fn within(estimate: Estimate, times: f64, unit: &str) -> String {
    let digits = if unit.is_empty() { 2usize } else { 1 };
    let (value, half) = (estimate.value * times, estimate.half_width * times);
    // No minus before a zero.
    let is_zero = value.abs() < 0.5 * 0.1f64.powi(digits as i32);
    let value = format!("{:.digits$}", if is_zero { 0.0 } else { value }).replace('-', "−");
    format!("{value} ± {half:.digits$}{unit}")
}

impl Display for NoShare {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            NoShare::TooFewSlots => write!(f, "too few slots"),
            NoShare::Unused => write!(f, "the flow does not use it"),
            NoShare::DidNotArrive { arrived } => {
                write!(f, "only {} of what was meant could be taken", percent(*arrived))
            }
            NoShare::TooLittle { taken } => {
                write!(f, "only {} of what the flow uses could be taken", percent(*taken))
            }
        }
    }
}

impl Display for Hopeless {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Hopeless::NoFlow => write!(f, "nothing flowed while it was observed"),
            Hopeless::Noisy { noise, seconds, budget_seconds } => write!(
                f,
                "the flow varies by {} from one moment to the next: shares would be known after {seconds:.0} s, and there \
                 are {budget_seconds:.0} s",
                percent(*noise)
            ),
            Hopeless::TooLong { seconds, budget_seconds, slot_ms, period_ms } => {
                let shaped =
                    period_ms.map(|period| format!(", as something shapes the flow every {period} ms"));
                let shaped = shaped.unwrap_or_default();
                write!(
                    f,
                    "a slot of this flow takes {slot_ms} ms{shaped}; the fewest that decide take {seconds:.1} s, and \
                     there are {budget_seconds:.0} s"
                )
            }
            Hopeless::Slow { window_ms } => write!(
                f,
                "the flow's steps, round trips or periods are so long that a single slot would take {:.1} s",
                f64::from(*window_ms) / 1e3
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::*;

    fn resource(id: &str, share: f64, half_width: f64) -> ResourceShare {
        let (id, members, kind) = (id.into(), Vec::new(), ResourceKind::Disk);
        let share = Ok(Estimate { value: share, half_width });
        ResourceShare { id, members, kind, share, taken: 0.1, arrived: 1.0, rise: None, busy: None }
    }

    fn report() -> ShareReport {
        let estimate = |value| Some(Estimate { value, half_width: 0.02 });
        let resources = vec![
            resource("disk:vda", 0.96, 0.09),
            resource("cpu:workers", 0.04, 0.08),
            resource("nic:eth0", -0.002, 0.05),
        ];
        let pools = vec![PoolShare {
            name: "md0".into(),
            members: vec![0, 1],
            share: Estimate { value: 0.9, half_width: 0.1 },
            taken: 0.1,
        }];
        let raised = vec![RaiseEffect { id: "reads-in-flight".into(), gain: estimate(0.3) }];
        ShareReport {
            slots: 48,
            noise: 0.02,
            resources,
            raised,
            pools,
            sum: estimate(0.4),
            less_cpu_costs: None,
            carry_over: None,
        }
    }

    fn record() -> ShareRecord {
        ShareRecord {
            raised: vec![RaisedSetting { id: "reads-in-flight".into(), from: 1, to: 2 }],
            timing: Timing { settling_ms: 100, window_ms: 400, period_ms: None },
            ..ShareRecord::default()
        }
    }

    #[test]
    fn a_sentence_has_what_was_taken_and_what_it_cost() {
        let others = "10 % of the CPU 0.4 ± 0.8 %, 10 % of NIC eth0 0.0 ± 0.5 %";
        let sentence = |decision| share_sentence(&record(), &report(), &decision);
        assert_eq!(
            sentence(Decision::Measured(ShareLimit::Resource(0))),
            format!("The bottleneck is disk vda: 10 % of it taken cost the flow 9.6 ± 0.9 %; {others}.")
        );
        let mut many = report();
        many.resources[0].members = ["disk:sda", "disk:sdb"].map(String::from).to_vec();
        assert_eq!(
            share_sentence(&record(), &many, &Decision::Measured(ShareLimit::Resource(0))),
            format!(
                "The bottleneck is disks sda and sdb: 10 % of each taken cost the flow 9.6 ± 0.9 %; {others}."
            )
        );
        assert_eq!(
            sentence(Decision::Measured(ShareLimit::Setting(0))),
            "The bottleneck is reads in flight: 2 instead of 1 raised the flow by 30.0 ± 2.0 %."
        );
        let both = "10 % of disk vda taken cost the flow 9.6 ± 0.9 %, 10 % of the CPU 0.4 ± 0.8 %; 10 % of NIC eth0 0.0 \
                    ± 0.5 %";
        assert_eq!(
            sentence(Decision::Tie(vec![0, 1])),
            format!("The bottleneck is disk vda and the CPU together: {both}. All must be raised.")
        );
        assert_eq!(
            sentence(Decision::Measured(ShareLimit::Pool(0))),
            "The bottleneck is disk vda and the CPU together: 10 % of each taken cost the flow 9.0 ± 1.0 %; 10 % of NIC eth0 \
             0.0 ± 0.5 %."
        );
        let all = "10 % of disk vda taken cost the flow 9.6 ± 0.9 %, ";
        assert_eq!(
            sentence(Decision::NothingFull),
            format!("Nothing that was taken from is full: {all}{others}.")
        );
    }

    #[test]
    fn what_is_not_measured_says_why() {
        let mut report = report();
        report.resources[2].share = Err(NoShare::DidNotArrive { arrived: 0.26 });
        let lag = Estimate { value: 0.31, half_width: 0.19 };
        let reasons = [
            (Undecided::TooFewSlots { slots: 16, needed: 32 }, "time for 16 slots, and 32 are needed."),
            (Undecided::CarryOver(CarryOver { id: "disk:vda".into(), lag }), "before it (0.31 ± 0.19 of it)"),
            (Undecided::Aliased { window_ms: 350, period_ms: 100 }, "every 100 ms, and a window of 350 ms"),
            (Undecided::NotTaken(vec!["nic:eth0".into()]), "NIC eth0 may be busy"),
            (
                Undecided::NotTaken(vec!["receiver-cpus:peer".into()]),
                "the CPUs of the receiver on peer may be busy: the agent there takes nothing of them (--no-experiment",
            ),
            (
                Undecided::NotTaken(vec!["nic:eth0".into()]),
                "busy: only 26 % of what was meant could be taken.",
            ),
            (Undecided::CheapTaker(0), "disk vda (0.96 ± 0.09) moved more"),
            (
                Undecided::Wide(vec![0, 1]),
                "share of disk vda and the CPU together (0.90 ± 0.10) is not known",
            ),
            (Undecided::Wide(vec![0, 2]), "together (0.90 ± 0.10) and NIC eth0 () is not known"),
            (Undecided::WideSetting(0), "more reads in flight (30.0 ± 2.0 %)"),
            (Undecided::Incomplete, "together (0.40 ± 0.02) explain only a part"),
        ];
        for (why, expected) in reasons {
            let sentence = share_sentence(&record(), &report, &Decision::Undecided(why));
            assert!(sentence.starts_with("Not measured: ") && sentence.contains(expected), "{sentence}");
        }
        let noisy = Hopeless::Noisy { noise: 0.08, seconds: 321.0, budget_seconds: 40.0 }.to_string();
        assert!(noisy.contains("varies by 8 %") && noisy.contains("321 s, and there are 40 s"), "{noisy}");
        assert!(Hopeless::Slow { window_ms: 4000 }.to_string().ends_with("take 4.0 s"));
    }
}
