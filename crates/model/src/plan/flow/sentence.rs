//! The bottleneck in words: what limits the flow and why, and what would limit it next; or of which ends the rate is
//! unknown: where the answer depends on them, nothing is likely.

use super::product::MissingRates;
use crate::plan::capacity::Model;
use crate::plan::parts::{DeviceKind, JointKind, MachineParts, PartPlace};
use crate::plan::wording::{counted, in_words, listed, name, next_in_words, numbered, ranged};
use crate::plan::{Bound, Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use std::collections::BTreeMap;

/// A next limit that is closer than this is said to be the same.
const HARDLY: f64 = 1.02;

/// A flow that differs by less than this share is the same.
const SAME_FLOW: f64 = 1e-6;
/// Ends that are named in a `--set` each; more are counted.
const MOST_SET: usize = 4;

/// How a sentence begins that names what limits the flow. The plan's screen has that in a row of its own, and leaves this out.
pub const BOTTLENECK_IS: &str = "The bottleneck is ";

/// What limits the flow, and what would come next.
pub(super) fn sentence(
    parts: &MachineParts,
    resources: &[Resource],
    ceiling: &Bound,
    next: Option<&Bound>,
    show: fn(f64) -> String,
) -> String {
    let flow = match (&ceiling.bytes_per_second, ceiling.cut.is_empty()) {
        (linerate_facts::fact::Fact::Known(flow), false) => *flow,
        (linerate_facts::fact::Fact::Known(_), true) => {
            return "Nothing is on the way: the flow has no source.".into();
        }
        (linerate_facts::fact::Fact::Unknown { why }, _) => {
            return format!(
                "{BOTTLENECK_IS}unknown: {why}. Measure it with `linerate run`, or give a figure: --set \
                 NAME.rate=10G of a NIC, --set NAME.read=500MB/s of a disk."
            );
        }
    };
    let cut = members(resources, &ceiling.cut);
    let verb = if cut.len() > 1 { "limit" } else { "limits" };
    let subjects = subjects(parts, &cut, show);
    let next = what_next(resources, (flow, &cut), next, show);
    let doubt = unrated_controllers(resources, &cut);
    format!("{BOTTLENECK_IS}{subjects}, which {verb} the flow to {}. {next}.{doubt}", show(flow))
}

/// Which rates are missing, what the flow is at most, and how to give them.
pub(super) fn of_missing(missing: &MissingRates, show: fn(f64) -> String) -> String {
    let most = missing.at_most_words(show);
    let most = if most.is_empty() { most } else { format!("; the flow is {most}") };
    format!(
        "{BOTTLENECK_IS}unknown: {} must be known first{most}. Give it: {}, or measure it with `linerate run`.",
        missing.words(),
        missing.options()
    )
}

/// Disks that would be the limit may never be asked for all that they have: what stands between them and memory has
/// a limit of its own that no data sheet has.
fn unrated_controllers(resources: &[Resource], cut: &[&Resource]) -> String {
    if !cut.iter().any(|resource| resource.kind == ResourceKind::Disk) {
        return String::new();
    }
    let unrated = resources
        .iter()
        .filter(|resource| resource.kind == ResourceKind::Controller && resource.origin == Origin::Unknown);
    let names: Vec<&str> = unrated.map(|resource| name(&resource.id)).collect();
    let Some(first) = names.first() else { return String::new() };
    let (noun, verb, whose) = match names.len() {
        1 => ("controller", "is", "its"),
        _ => ("controllers", "are", "their"),
    };
    format!(
        " The {noun} {} {verb} between them and memory, and {whose} own rate is unknown: the flow may be less. \
         Where it was measured elsewhere, give it: --set {first}.rate=1GB/s.",
        ranged(&names)
    )
}

fn members<'a>(resources: &'a [Resource], cut: &[String]) -> Vec<&'a Resource> {
    cut.iter().filter_map(|id| resources.iter().find(|resource| resource.id == *id)).collect()
}

/// The parts of a cut by kind, the largest first.
fn subjects(parts: &MachineParts, cut: &[&Resource], show: fn(f64) -> String) -> String {
    let mut kinds: BTreeMap<ResourceKind, Vec<&Resource>> = BTreeMap::new();
    for part in cut {
        kinds.entry(part.kind).or_default().push(part);
    }
    let sum = |group: &[&Resource]| group.iter().map(|part| part.capacity).sum::<f64>();
    let mut groups: Vec<_> = kinds.into_iter().collect();
    groups.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
    let words: Vec<String> = groups.iter().map(|(kind, group)| subject(parts, *kind, group, show)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    listed(&words, 4)
}

fn subject(parts: &MachineParts, kind: ResourceKind, group: &[&Resource], show: fn(f64) -> String) -> String {
    match kind {
        ResourceKind::Disk => counted("disk", "disks", group, show_bytes_rate),
        ResourceKind::Nic => counted("NIC", "NICs", group, show_bits_rate),
        ResourceKind::Pcie => pcie(parts, group, show),
        ResourceKind::SocketLink => match group {
            [one] => format!("the link {} ({}, {})", name(&one.id), why(one), show(one.capacity)),
            _ => counted("the link between sockets", "links between sockets", group, show),
        },
        ResourceKind::Controller => match group {
            [one] if one.why.is_some() => {
                format!("{} that the disks share ({}, {})", name(&one.id), why(one), show(one.capacity))
            }
            _ => counted("controller", "controllers", group, show),
        },
        ResourceKind::Volume => match group {
            [one] => {
                format!("the volume {} ({}, {})", name(&one.id), show_bytes_rate(one.capacity), why(one))
            }
            _ => counted("volume", "volumes", group, show_bytes_rate),
        },
        ResourceKind::Memory => match group {
            [one] => format!("the memory ({}; {})", show(one.capacity), why(one)),
            _ => counted("node's memory", "nodes' memories", group, show),
        },
        ResourceKind::Cpu => match group {
            [one] => format!("the CPU ({})", why(one)),
            _ => {
                let (nodes, rates) = numbered("node's CPU", "nodes' CPUs", group, show);
                format!("{nodes} ({rates}, {})", why(group[0]))
            }
        },
        ResourceKind::Receiver => counted("the receiver", "receivers", group, show),
        ResourceKind::Sender => counted("the sender", "senders", group, show),
        // Of measured flows alone.
        ResourceKind::Window | ResourceKind::Loss | ResourceKind::Demand => {
            in_words(&group.iter().map(|part| part.id.as_str()).collect::<Vec<_>>())
        }
    }
}

/// A card's link with the slot that it is in, where that makes it slower than the card could be.
fn pcie(parts: &MachineParts, group: &[&Resource], show: fn(f64) -> String) -> String {
    let [one] = group else { return counted("the PCIe link", "PCIe links", group, show) };
    let card = name(&one.id).trim_end_matches("/out");
    let joint = parts.joint(card);
    let slot = joint.and_then(|joint| match &joint.up {
        PartPlace::Joint(up) => parts.joint(up).filter(|up| up.kind == JointKind::Slot),
        _ => None,
    });
    let own_link = joint.and_then(|joint| Some((joint.link?, parts.link_of(joint)?)));
    let place = slot.map_or(String::new(), |slot| format!(" in {}", slot.name));
    let narrowed = match (slot, own_link) {
        (Some(_), Some((own, runs))) if runs.width < own.width => {
            format!("; the card could use {} lanes, the slot gives {}", own.width, runs.width)
        }
        (Some(_), Some((own, runs))) if runs.gt_per_second < own.gt_per_second => {
            format!(
                "; the card could run at {} GT/s, the slot gives {}",
                own.gt_per_second, runs.gt_per_second
            )
        }
        _ => String::new(),
    };
    format!("the PCIe link of {card}{place} ({}, {}{narrowed})", show(one.capacity), why(one))
}

fn why(resource: &Resource) -> &str {
    resource.why.as_deref().unwrap_or("by its data sheet")
}

fn what_next(
    resources: &[Resource],
    (flow, limits): (f64, &[&Resource]),
    next: Option<&Bound>,
    show: fn(f64) -> String,
) -> String {
    let Some(next) = next else { return "Nothing else is known to limit it".into() };
    let Some(rate) = next.bytes_per_second.known().copied() else {
        return "Without it, no other limit is known".into();
    };
    let cut: Vec<&str> = members(resources, &next.cut).iter().map(|part| part.id.as_str()).collect();
    let by = if cut.len() > 1 { "limits are" } else { "limit is" };
    let limits: Vec<&str> = limits.iter().map(|part| part.id.as_str()).collect();
    let limit = format!("The next {by} {} at {}", next_in_words(&limits, &cut), show(rate));
    if rate < flow * HARDLY { format!("{limit}, nearly the same") } else { limit }
}

/// The flow without what its unknown ends may add is less than with it: then it depends on them. `most`: the flow with
/// them as no limit, where that has one. Other parts that are unknown have a usual case: that they are no limit, which the plan lists.
pub(in crate::plan) fn open_ends(resources: &[Resource], most: Option<f64>) -> Vec<&Resource> {
    let open: Vec<&Resource> = resources.iter().filter(|end| is_open(end, resources)).collect();
    if open.is_empty() {
        return open;
    }
    let mut least = resources.to_vec();
    for end in least.iter_mut().filter(|end| is_open(end, resources)) {
        // What was measured, though something else was the limit, is there.
        let capacity = if end.lower_bound { end.capacity } else { 0.0 };
        (end.capacity, end.origin, end.lower_bound) = (capacity, Origin::Rated, false);
    }
    let least = Model::new(&least).largest();
    let same = least.zip(most).is_some_and(|(least, most)| least + 1.0 >= most * (1.0 - SAME_FLOW));
    if same { Vec::new() } else { open }
}

/// A disk or a NIC without an upper end of its rate. Of a disk below a volume with a rate, that counts.
fn is_open(end: &Resource, resources: &[Resource]) -> bool {
    let is_end = matches!(end.kind, ResourceKind::Disk | ResourceKind::Nic);
    let is_unknown = end.origin == Origin::Unknown || end.lower_bound;
    let in_volume = |other: &Resource| {
        other.kind == ResourceKind::Volume
            && other.origin == Origin::Measured
            && (other.next.contains(&end.id) || end.next.contains(&other.id))
    };
    is_end && is_unknown && !end.never_binds && !resources.iter().any(in_volume)
}

/// What is missing, and how to give it.
pub(super) fn missing_rates(
    parts: &MachineParts,
    ends: &[&Resource],
    writes: bool,
    at_most: Bound,
) -> MissingRates {
    let mut set: Vec<String> = Vec::new();
    for end in ends {
        let device = parts.devices.iter().find(|device| device.id() == end.id);
        let named = device.map_or(name(&end.id), |device| &device.group);
        let one = match device.map(|device| &device.what) {
            Some(DeviceKind::Disk { .. }) if writes => format!("{named}.write=500MB/s"),
            Some(DeviceKind::Disk { .. }) => format!("{named}.read=500MB/s"),
            _ => format!("{}.rate=10G", named.trim_end_matches("/remote")),
        };
        if !set.contains(&one) {
            set.push(one);
        }
    }
    let resources = ends.iter().map(|end| end.id.clone()).collect();
    let at_most = Some(at_most).filter(|bound| bound.bytes_per_second.known().is_some());
    MissingRates { resources, set, at_most }
}

impl MissingRates {
    /// `the rate of NIC eth0 and disk vda`.
    pub fn words(&self) -> String {
        let ids: Vec<&str> = self.resources.iter().map(String::as_str).collect();
        format!("the rate{} of {}", if ids.len() > 1 { "s" } else { "" }, in_words(&ids))
    }

    /// `at most 84.0 Gb/s by the CPU`; empty where nothing else is a limit.
    pub fn at_most_words(&self, show: impl Fn(f64) -> String) -> String {
        let Some((rate, cut)) = self.at_most.as_ref().and_then(|most| match &most.bytes_per_second {
            Fact::Known(rate) => Some((*rate, &most.cut)),
            Fact::Unknown { .. } => None,
        }) else {
            return String::new();
        };
        let cut: Vec<&str> = cut.iter().map(String::as_str).collect();
        format!("at most {} by {}", show(rate), in_words(&cut))
    }

    /// `--set eth0.rate=10G --set vda.read=500MB/s`, or some of them.
    pub fn options(&self) -> String {
        let options: Vec<String> = self.set.iter().map(|one| format!("--set {one}")).collect();
        match options.len() {
            0..=MOST_SET => options.join(" "),
            _ => listed(&options.iter().map(String::as_str).collect::<Vec<_>>(), MOST_SET),
        }
    }
}
