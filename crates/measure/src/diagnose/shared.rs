//! What devices share, found by measuring them alone and together.

use super::figures::{Figures, held};
use super::predict::{scaled, set_measured};
use crate::measure::Measurement;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Origin, Resource, ResourceKind};

/// Devices that together reach less than this share of the sum of each alone share something that binds.
/// Below 0.97 ÷ 1.03: two figures that are each 3 % off do not make a controller.
const SHARED_BELOW: f64 = 0.93;

/// Disks that together read less than each alone share something; less than 7 % apart, the figure of all
/// together is the better one.
pub(super) fn share_disks(resources: &mut Vec<Resource>, figures: &Figures) {
    let Some(together) = figures.disks_together().filter(|figure| !held(figure)) else { return };
    let is_disk = |resource: &Resource| resource.kind == ResourceKind::Disk;
    if !fit_to_together(resources, is_disk, together) {
        return;
    }
    let why = "all disks together read less than the sum of each alone";
    let mut controller = shared("controller:disks", together, why);
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
    let carried = together.filter(|figure| !held(figure));
    let Some(together) = carried.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)) else {
        return;
    };
    if !fit_to_together(resources, |resource| resource.kind == ResourceKind::Nic, together) {
        return;
    }
    let Some(cpu) = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu) else { return };
    let why = "all NICs together send less than the sum of each alone";
    let mut controller = shared("controller:network", together, why);
    controller.next = std::mem::replace(&mut resources[cpu].next, vec![controller.id.clone()]);
    resources.insert(cpu + 1, controller);
}

/// True where devices that are all measured reach clearly less together than alone. Else their capacities are
/// scaled to what they reached together, if that is near.
fn fit_to_together(
    resources: &mut [Resource],
    is_one: impl Fn(&Resource) -> bool,
    together: &Measurement,
) -> bool {
    let devices: Vec<usize> = (0..resources.len()).filter(|at| is_one(&resources[*at])).collect();
    let measured = |at: &usize| resources[*at].origin == Origin::Measured && !resources[*at].lower_bound;
    if devices.len() < 2 || !devices.iter().all(measured) {
        return false;
    }
    let sum: f64 = devices.iter().map(|at| resources[*at].capacity).sum();
    let ratio = together.bytes_per_second / sum;
    if (SHARED_BELOW..=1.0 / SHARED_BELOW).contains(&ratio) {
        for at in devices {
            let rate = resources[at].capacity * ratio;
            set_measured(&mut resources[at], rate);
            resources[at].interval = scaled(together, rate);
        }
    }
    ratio < SHARED_BELOW
}

fn shared(id: &str, together: &Measurement, why: &str) -> Resource {
    let rate = together.bytes_per_second;
    Resource {
        capacity: rate,
        origin: Origin::Measured,
        measured: Some(rate),
        interval: together.interval,
        ..Resource::unknown(id, ResourceKind::Controller, why)
    }
}
