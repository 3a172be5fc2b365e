//! Links that a measurement overrules: the one answer for the plan of a flow over measured parts and for the
//! diagnosis of a run.

use super::product::{Origin, Resource, ResourceKind};
use linerate_facts::units::show_bytes_rate;
use std::collections::BTreeMap;

/// A measurement overrules a declared figure: a link or port through which more was measured than it claims never
/// binds.
pub fn overrule_links(resources: &mut [Resource]) {
    let mut through: BTreeMap<String, f64> = BTreeMap::new();
    for device in resources.iter() {
        let Some(rate) = device.measured else { continue };
        let path = match device.kind {
            ResourceKind::Disk => only_path(device, resources, false),
            ResourceKind::Nic => only_path(device, resources, true),
            _ => continue,
        };
        for id in path {
            let most = through.entry(id).or_insert(rate);
            *most = most.max(rate);
        }
    }
    for link in resources.iter_mut() {
        let Some(most) = through.get(&link.id).copied().filter(|most| *most > link.capacity) else {
            continue;
        };
        let claims = show_bytes_rate(link.capacity);
        let why = format!("claims {claims}, but {} was measured through it", show_bytes_rate(most));
        (link.capacity, link.measured, link.interval) = (most, Some(most), None);
        (link.origin, link.lower_bound, link.why) = (Origin::Measured, true, Some(why));
    }
}

/// The declared links and ports that all bytes of a device cross on its side of memory, the nearest first;
/// `upwards`: against the bytes, as from a NIC that sends.
fn only_path(device: &Resource, resources: &[Resource], upwards: bool) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut at = device;
    loop {
        let is_next = |other: &&Resource| {
            if upwards { other.next.contains(&at.id) } else { at.next.contains(&other.id) }
        };
        let mut next = resources.iter().filter(is_next);
        let (Some(one), None) = (next.next(), next.next()) else { return path };
        let declared = matches!(one.origin, Origin::Rated | Origin::Effective)
            && matches!(one.kind, ResourceKind::Pcie | ResourceKind::Controller);
        if !declared || path.contains(&one.id) {
            return path;
        }
        path.push(one.id.clone());
        at = one;
    }
}
