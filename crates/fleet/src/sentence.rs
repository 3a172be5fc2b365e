//! The verdict in one sentence.

use crate::matrix::{LEAST_HOSTS, MatrixCell, PAIR_RATIO, pair_rates};
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::first_of;
use linerate_measure::run::fleet::{
    FleetDirection, FleetLimit, FleetVerdict, FleetWindow, FlowLimitKind, OtherWay, SlowLink, SlowMember,
};
use linerate_model::alike::median;
use std::collections::HashSet;

/// Names of a group that are written out.
const MOST_NAMES: usize = 8;

/// What the user reads first.
pub(crate) fn sentence(names: &[String], cells: &[MatrixCell], verdict: &FleetVerdict) -> String {
    let first = match (verdict.members.first(), verdict.links.first()) {
        // A host explains more pairs than a pair does.
        (Some(worst), _) => slow_host(worst, &verdict.members),
        (None, Some(link)) if link.from.len() > 1 => slow_group(link, &verdict.links),
        (None, Some(link)) => slow_pair(link, &verdict.links),
        (None, None) => return nothing(names, cells),
    };
    let hosts = verdict.members.iter().map(|member| &member.name).collect::<HashSet<_>>().len();
    let mut more = Vec::new();
    if hosts > 1 {
        more.push(format!("{} further {}", hosts - 1, if hosts == 2 { "host" } else { "hosts" }));
    }
    if let Some(SlowLink { from, to, ratio, .. }) = verdict.links.first().filter(|_| hosts > 0) {
        more.push(format!("the path from {} to {}, at {ratio:.2}", listed(from), listed(to)));
    }
    match more.as_slice() {
        [] => first,
        more => format!("{first}; slow as well: {}", more.join(", and ")),
    }
}

fn slow_host(worst: &SlowMember, all: &[SlowMember]) -> String {
    let other = all.iter().find(|member| member.name == worst.name && member.direction != worst.direction);
    let SlowMember { name, ratio, pairs, pairs_measured, .. } = worst;
    let sends = worst.direction == FleetDirection::Send;
    let (does, does_as_well, side) =
        if sends { ("sends", "receives", "send") } else { ("receives", "sends", "receive") };
    if let Some(OtherWay { ratio: beside, alone_ratio }) = worst.other_way {
        return format!(
            "{name} {does} at {ratio:.2} of the others in {pairs} of {pairs_measured} pairs, and beside that \
             {does_as_well} at {beside:.2}, which alone is {alone_ratio:.2}: its {side} side"
        );
    }
    match other {
        Some(other) => {
            let (send, receive) = if sends { (worst, other) } else { (other, worst) };
            format!(
                "{name} sends at {:.2} and receives at {:.2} of the others, in {} of {} pairs: the host itself or \
                 its link",
                send.ratio,
                receive.ratio,
                send.pairs + receive.pairs,
                send.pairs_measured + receive.pairs_measured
            )
        }
        None => format!(
            "{name} {does} at {ratio:.2} of the others in {pairs} of {pairs_measured} pairs and {does_as_well} \
             normally: its {side} side"
        ),
    }
}

fn slow_group(link: &SlowLink, all: &[SlowLink]) -> String {
    let both = all.iter().find(|other| other.from == link.to && other.to == link.from);
    let (pairs, measured) = match both {
        Some(back) => (link.pairs + back.pairs, link.pairs_measured + back.pairs_measured),
        None => (link.pairs, link.pairs_measured),
    };
    let ways = if both.is_some() { "and" } else { "to" };
    format!(
        "{} {ways} {} run at {:.2} of what each group has within, in {pairs} of {measured} pairs, together at most \
         {} one way: the link between the groups",
        listed(&link.from),
        listed(&link.to),
        both.map_or(link.ratio, |back| back.ratio.min(link.ratio)),
        show_bits_rate(link.bytes_per_second)
    )
}

fn slow_pair(link: &SlowLink, all: &[SlowLink]) -> String {
    let both = all.iter().any(|other| other.from == link.to && other.to == link.from);
    let (from, to) = (&link.from[0], &link.to[0]);
    let more = all.len() - 1 - usize::from(both);
    let others = match more {
        0 => String::new(),
        1 => "; 1 further flow is slow as well".into(),
        more => format!("; {more} further flows are slow as well"),
    };
    let (back, ratio) = (if both { " and back" } else { "" }, link.ratio);
    format!(
        "{from} to {to}{back} runs at {ratio:.2} of what both do with all others: the path between the two{others}"
    )
}

fn nothing(names: &[String], cells: &[MatrixCell]) -> String {
    // What was measured again because it stood out counts by its median, as in the matrix.
    let rates = pair_rates(names.len(), cells);
    let rates = || rates.iter().flatten().flatten().copied();
    let Some(middle) = median(rates()) else { return "nothing was measured".into() };
    let slowest = rates().fold(f64::INFINITY, f64::min);
    let fastest = rates().fold(0.0, f64::max);
    let spread = format!(
        "all {} flows lie within {:.2} and {:.2} of their median, {}",
        rates().count(),
        slowest / middle,
        fastest / middle,
        show_bits_rate(middle)
    );
    match names.len() < LEAST_HOSTS {
        false if slowest / middle < PAIR_RATIO => {
            format!("the rates differ, and no host and no link explains how: {spread}")
        }
        true => {
            format!("{LEAST_HOSTS} hosts at least are needed to know a slow host from a slow link; {spread}")
        }
        false => format!("no host stands out: {spread}"),
    }
}

/// What limits flows, as a phrase; none: nothing is known of it.
pub fn limit_words(limits: &[FleetLimit]) -> Option<String> {
    let words = |limit: &FleetLimit| {
        let hosts = listed(&limit.hosts);
        let one = limit.hosts.len() == 1;
        match limit.kind {
            FlowLimitKind::Send => format!("what {hosts} {}", if one { "sends" } else { "send" }),
            FlowLimitKind::Receive => format!("what {hosts} {}", if one { "receives" } else { "receive" }),
            FlowLimitKind::Disks => format!("the disks of {hosts}"),
            FlowLimitKind::Uplink => format!("the uplink of {hosts}"),
            FlowLimitKind::RateLimit => "the rate limit".into(),
        }
    };
    let words: Vec<String> = limits.iter().map(words).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// From the slowest to the fastest of several flows.
pub(crate) fn rates_of_flows(least: f64, most: f64) -> String {
    match (show_bits_rate(least), show_bits_rate(most)) {
        (least, most) if least == most => most,
        (least, most) => format!("{least} to {most}"),
    }
}

pub(crate) fn listed(names: &[String]) -> String {
    first_of(names, MOST_NAMES)
}

pub(crate) fn together(window: &FleetWindow) -> String {
    let sum = show_bits_rate(window.bytes_per_second);
    match window.predicted_bytes_per_second.filter(|predicted| *predicted > 0.0) {
        Some(predicted) => format!(
            "{sum} together, {:.2} of the {} that follow from each member alone",
            window.bytes_per_second / predicted,
            show_bits_rate(predicted)
        ),
        None => format!("{sum} together"),
    }
}
