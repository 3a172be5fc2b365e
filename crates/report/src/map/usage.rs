//! What a flow does with the parts of the picture: how much of each is in use, and which of them limit it.

use super::parts::{Branch, Chip, LimitSign, Picture, Strip, Use, joined};
use crate::figure::{Figure, Unit, percent, rate, share};
use crate::verdict::{RunVerdict, device, plural};
use linerate_facts::printable::shortened;
use linerate_facts::wording::in_order;
use linerate_model::plan::{Resource, ResourceKind};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of one kind that are in no box of the machine: more than these are put together.
const ALONE: usize = 8;
/// A part below this share of its kind's median is named.
const ODD_SHARE: f64 = 0.8;
/// Names in a tip take at most this much.
const NAMES: usize = 600;

/// The resources of a flow, and which of them the picture has shown.
#[derive(Debug)]
pub(super) struct Flow<'a> {
    known: BTreeMap<&'a str, &'a Resource>,
    cut: &'a BTreeSet<String>,
    sign: LimitSign,
    shown: BTreeSet<&'a str>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(resources: &[&'a Resource], verdict: &'a RunVerdict) -> Self {
        let sign = if verdict.confirmed { LimitSign::Bottleneck } else { LimitSign::Predicted };
        Flow { sign, ..Flow::planned(resources, &verdict.cut) }
    }

    /// A flow that was only planned.
    pub(super) fn planned(resources: &[&'a Resource], cut: &'a BTreeSet<String>) -> Self {
        let known = resources.iter().map(|resource| (resource.id.as_str(), *resource)).collect();
        Flow { known, cut, sign: LimitSign::Predicted, shown: BTreeSet::new() }
    }

    /// The use of the parts with these ids; none where the flow knows none of them.
    fn of(&mut self, ids: impl IntoIterator<Item = String>) -> Option<Use> {
        let parts: Vec<&Resource> =
            ids.into_iter().filter_map(|id| self.known.get(id.as_str()).copied()).collect();
        self.shown.extend(parts.iter().map(|part| part.id.as_str()));
        if parts.is_empty() { None } else { Some(self.used(&parts)) }
    }

    fn used(&self, parts: &[&Resource]) -> Use {
        let unit = unit(parts[0].kind);
        let each: Vec<Figure> = parts.iter().map(|part| Figure::capacity(part)).collect();
        let total = Figure::sum(each.clone());
        // The use of a group is that of its bytes, not the mean of its members' shares.
        let moved: f64 =
            parts.iter().filter_map(|part| Some(rate(part.capacity)? * share(part.utilisation))).sum();
        let used = total.value.filter(|total| *total > 0.0).map_or(0.0, |total| share(moved / total));
        let values = each.iter().filter_map(|figure| figure.value);
        let (low, high) = (values.clone().reduce(f64::min), values.reduce(f64::max));
        let capacity = match (total.value, low.zip(high)) {
            (None, _) => "capacity unknown".to_string(),
            (Some(_), Some((low, high))) if parts.len() > 1 => format!("{} each", unit.show_range(low, high)),
            _ => format!("{}, {}", total.show(unit), <&str>::from(total.origin)),
        };
        let words = if used > 0.0 { format!("{} of {capacity}", percent(used)) } else { capacity };
        let odd = slowest(parts).map(|slow| format!("; slowest {slow}"));
        Use {
            words: words + &odd.unwrap_or_default(),
            share: used,
            limit: parts.iter().any(|part| self.cut.contains(&part.id)).then_some(self.sign),
        }
    }
}

/// Links in bits, the rest in bytes.
fn unit(kind: ResourceKind) -> Unit {
    match kind {
        ResourceKind::Nic | ResourceKind::Receiver | ResourceKind::Sender => Unit::Bits,
        _ => Unit::Bytes,
    }
}

/// The slowest of several, where it is far slower than its like.
fn slowest(parts: &[&Resource]) -> Option<String> {
    let mut rates: Vec<(f64, &Resource)> =
        parts.iter().filter_map(|part| Some((Figure::capacity(part).value?, *part))).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = rates.get(rates.len() / 2)?.0;
    let (least, part) = *rates.first()?;
    (least < median * ODD_SHARE).then(|| format!("{} {}", device(&part.id), unit(part.kind).show(least)))
}

/// Lays the flow over the picture. What has no box in the machine (a source, a receiver) has one in a strip of its own.
pub(super) fn overlaid(mut picture: Picture, mut flow: Flow) -> Picture {
    let single = picture.nodes.iter().filter(|node| !node.cpu.is_empty()).count() == 1;
    for node in picture.nodes.iter_mut().filter(|node| !node.cpu.is_empty()) {
        let ids = |kinds: &[&str]| -> Vec<String> {
            let own = kinds.iter().flat_map(|kind| node.id.map(|id| format!("{kind}:{id}")));
            let whole = kinds
                .iter()
                .flat_map(|kind| [kind.to_string(), format!("{kind}:lanes"), format!("{kind}:workers")]);
            own.chain(whole.filter(|_| single)).collect()
        };
        (node.cpu_used, node.memory_used) = (flow.of(ids(&["cpu"])), flow.of(ids(&["memory"])));
        node.cpu.extend(node.cpu_used.iter().map(|used| used.words.clone()));
        node.memory.extend(node.memory_used.iter().map(|used| used.words.clone()));
    }
    for node in &mut picture.nodes {
        node.roots.iter_mut().for_each(|root| branch(root, &mut flow));
    }
    for chip in picture.strips.iter_mut().flat_map(|strip| &mut strip.chips) {
        chip.used = flow.of(chip.id.clone());
    }
    let loaded = !flow.known.is_empty();
    let mut strips = others(&flow);
    // What the flow has beside the machine comes before what the machine has beside the flow.
    strips.append(&mut picture.strips);
    Picture { strips, loaded, ..picture }
}

fn branch(branch: &mut Branch, flow: &mut Flow) {
    branch.edge.used = flow.of(branch.addresses.iter().map(|address| format!("pcie:{address}")));
    for leaf in &mut branch.leaves {
        leaf.used = flow.of(leaf
            .names
            .iter()
            .flat_map(|name| ["nic", "disk", "gpu"].map(|kind| format!("{kind}:{name}"))));
        leaf.tip += &leaf.used.iter().map(|used| format!("\n{}", used.words)).collect::<String>();
    }
    branch.below.iter_mut().for_each(|below| self::branch(below, flow));
}

/// Parts of the flow that are in no box of the machine, from the source to the receiver.
fn others(flow: &Flow) -> Vec<Strip> {
    use ResourceKind::{Controller, Cpu, Disk, Memory, Nic, Pcie, Receiver, SocketLink};
    let strip = |(title, kinds): (&str, &[ResourceKind])| {
        let chips: Vec<Chip> = kinds.iter().flat_map(|kind| chips(flow, *kind)).collect();
        (!chips.is_empty()).then(|| Strip { title: title.into(), chips })
    };
    let strips: [(&str, &[ResourceKind]); 3] = [
        ("Sources of the flow", &[Disk]),
        ("On its way", &[Controller, Pcie, SocketLink, Memory, Cpu, Nic]),
        ("Receivers", &[Receiver]),
    ];
    strips.into_iter().filter_map(strip).collect()
}

/// A box for each part of a kind; where there are many, one for those in the bottleneck and one for the rest.
fn chips(flow: &Flow, kind: ResourceKind) -> Vec<Chip> {
    let open = flow.known.values().filter(|part| part.kind == kind && !flow.shown.contains(part.id.as_str()));
    let mut parts: Vec<&Resource> = open.copied().collect();
    parts.sort_by(|one, other| in_order(&one.id, &other.id));
    let groups: Vec<Vec<&Resource>> = if parts.len() <= ALONE {
        parts.into_iter().map(|part| vec![part]).collect()
    } else {
        let (tight, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| flow.cut.contains(&part.id));
        [tight, rest].into_iter().filter(|group| !group.is_empty()).collect()
    };
    groups.iter().map(|group| chip(flow, group)).collect()
}

fn chip(flow: &Flow, group: &[&Resource]) -> Chip {
    let names: Vec<String> = group.iter().map(|part| device(&part.id)).collect();
    let used = flow.used(group);
    let (title, sub) = match names.as_slice() {
        [one] => (title(group[0], one), group[0].why.clone().unwrap_or_default()),
        [first, .., last] => {
            (format!("{} {}", names.len(), plural(group[0].kind)), format!("{first} … {last}"))
        }
        [] => Default::default(),
    };
    let tip =
        joined([Some(title.clone()), Some(used.words.clone()), Some(shortened(&names.join(", "), NAMES))]);
    Chip { title, sub, tip, id: None, used: Some(used) }
}

fn title(part: &Resource, name: &str) -> String {
    match part.kind {
        ResourceKind::Cpu => "CPU of the workers".into(),
        ResourceKind::SocketLink => format!("socket link {name}"),
        ResourceKind::Pcie => format!("PCIe link {name}"),
        _ => name.to_string(),
    }
}
