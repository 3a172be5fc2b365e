//! Ends whose rate is unknown: where the answer depends on them, nothing is likely.

use super::product::MissingRates;
use crate::plan::capacity::Model;
use crate::plan::parts::{DeviceKind, MachineParts};
use crate::plan::wording::{in_words, listed, name};
use crate::plan::{Bound, Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;

/// A flow that differs by less than this share is the same.
const SAME: f64 = 1e-6;
/// Ends that are named in a `--set` each; more are counted.
const MOST_SET: usize = 4;

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
    let same = least.zip(most).is_some_and(|(least, most)| least + 1.0 >= most * (1.0 - SAME));
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
pub(super) fn missing(
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
