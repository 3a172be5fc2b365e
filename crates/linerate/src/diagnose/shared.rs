//! What devices share, found by measuring them alone and together; and links that a measurement overrules.

use super::figures::{Figures, held};
use super::predict::{set_lower_bound, set_measured};
use crate::plan::{Origin, Protocol, Resource, ResourceKind};
use crate::units::show_bytes_rate;

/// Devices that together reach less than this share of the sum of each alone share something that binds. Below 0.97 ÷ 1.03: two figures
/// that are each 3 % off do not make a controller.
const SHARED_BELOW: f64 = 0.93;

/// Disks that together read less than each alone share something; less than 7 % apart, the figure of all together is the better one.
pub(super) fn share_disks(resources: &mut Vec<Resource>, figures: &Figures) {
    let Some(together) = figures.disks_together().filter(|figure| !held(figure)) else { return };
    let is_disk = |resource: &Resource| matches!(resource.kind, ResourceKind::Disk | ResourceKind::Source);
    if !fit_to_together(resources, is_disk, together.bytes_per_second) {
        return;
    }
    let why = "all disks together read less than the sum of each alone";
    let mut controller = shared("controller:disks", together.bytes_per_second, why);
    controller.next.push("memory".into());
    for resource in resources.iter_mut() {
        for next in resource.next.iter_mut().filter(|next| *next == "memory") {
            *next = controller.id.clone();
        }
    }
    let before = resources.iter().position(|resource| resource.kind == ResourceKind::Memory);
    resources.insert(before.unwrap_or(resources.len()), controller);
}

/// NICs that together send less than each alone share something, too.
pub(super) fn share_nics(resources: &mut Vec<Resource>, figures: &Figures, protocol: Protocol) {
    let together = [false, true].into_iter().filter_map(|file| figures.networks_together(protocol, file));
    let carried = together.filter(|figure| !held(figure)).map(|figure| figure.bytes_per_second);
    let Some(together) = carried.max_by(f64::total_cmp) else { return };
    if !fit_to_together(resources, |resource| resource.kind == ResourceKind::Nic, together) {
        return;
    }
    let Some(cpu) = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu) else { return };
    let why = "all NICs together send less than the sum of each alone";
    let mut controller = shared("controller:network", together, why);
    controller.next = std::mem::replace(&mut resources[cpu].next, vec![controller.id.clone()]);
    resources.insert(cpu + 1, controller);
}

/// True where devices that are all measured reach clearly less together than alone. Else their capacities are scaled to what they
/// reached together, if that is near.
fn fit_to_together(resources: &mut [Resource], is_one: impl Fn(&Resource) -> bool, together: f64) -> bool {
    let devices: Vec<usize> = (0..resources.len()).filter(|at| is_one(&resources[*at])).collect();
    let measured = |at: &usize| resources[*at].origin == Origin::Measured && !resources[*at].lower_bound;
    if devices.len() < 2 || !devices.iter().all(measured) {
        return false;
    }
    let sum: f64 = devices.iter().map(|at| resources[*at].capacity).sum();
    let ratio = together / sum;
    if (SHARED_BELOW..=1.0 / SHARED_BELOW).contains(&ratio) {
        for at in devices {
            let rate = resources[at].capacity * ratio;
            set_measured(&mut resources[at], rate);
        }
    }
    ratio < SHARED_BELOW
}

fn shared(id: &str, rate: f64, why: &str) -> Resource {
    Resource {
        capacity: rate,
        origin: Origin::Measured,
        measured: Some(rate),
        ..Resource::unknown(id, ResourceKind::Controller, why)
    }
}

/// A measurement overrules a declared figure: a link through which more was measured than it claims never binds.
pub(super) fn overrule_links(resources: &mut [Resource]) {
    let devices: Vec<(String, Vec<String>, f64)> = resources
        .iter()
        .filter(|resource| matches!(resource.kind, ResourceKind::Disk | ResourceKind::Nic))
        .filter_map(|resource| Some((resource.id.clone(), resource.next.clone(), resource.measured?)))
        .collect();
    for link in resources.iter_mut().filter(|resource| resource.kind == ResourceKind::Pcie) {
        let through = devices
            .iter()
            .filter(|(id, next, _)| (next.len() == 1 && next[0] == link.id) || link.next.contains(id));
        let most = through.map(|(_, _, rate)| *rate).fold(0.0, f64::max);
        if link.origin != Origin::Unknown && most > link.capacity {
            let why = format!(
                "claims {}, but {} was measured through it",
                show_bytes_rate(link.capacity),
                show_bytes_rate(most)
            );
            set_lower_bound(link, most, why);
        }
    }
}
