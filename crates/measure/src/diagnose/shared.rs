//! What devices share, found by measuring them alone and together.

use super::figures::{Figures, held, workers_rate};
use super::predict::capacities::{scaled, set_measured};
use crate::measure::Measurement;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::Machine;
use linerate_machine::topology::Topology;
use linerate_model::plan::wording::in_words;
use linerate_model::plan::{Origin, Resource, ResourceKind};

/// Devices that together reach less than this share of the sum of each alone share something that binds.
/// Below 0.97 ÷ 1.03: two figures that are each 3 % off do not make a controller.
const SHARED_BELOW: f64 = 0.93;

/// Devices that did clearly less beside each other than alone.
struct Slowed {
    /// Their ids, and those of the devices that did as much as alone.
    ids: Vec<String>,
    others: Vec<String>,
    /// What they did together, bytes per second, and the sum of each alone.
    together: f64,
    alone: f64,
    interval: Option<[f64; 2]>,
}

/// Disks that together read less than each alone share something; less than 7 % apart, the figure of all
/// together is the better one.
pub(super) fn share_disks(machine: &Machine, resources: &mut Vec<Resource>, figures: &Figures) {
    let Some(together) = figures.disks_together().filter(|figure| !held(figure)) else { return };
    let of = |id: &str| workers_rate(together, |worker| worker.source == id);
    let Some(slowed) = slowed(resources, ResourceKind::Disk, together, of) else { return };
    let mut controller = slowed.controller("controller:disks", machine);
    let mut last = 0;
    for (at, disk) in resources.iter_mut().enumerate().filter(|(_, one)| slowed.ids.contains(&one.id)) {
        for next in std::mem::replace(&mut disk.next, vec![controller.id.clone()]) {
            if !controller.next.contains(&next) {
                controller.next.push(next);
            }
        }
        last = at;
    }
    resources.insert(last + 1, controller);
}

/// NICs that together send less than each alone share something, too.
pub(super) fn share_nics(
    machine: &Machine,
    resources: &mut Vec<Resource>,
    figures: &Figures,
    protocol: Protocol,
) {
    let together = [false, true].into_iter().filter_map(|file| figures.networks_together(protocol, file));
    let carried = together.filter(|figure| !held(figure));
    let Some(together) = carried.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)) else {
        return;
    };
    let of = |id: &str| workers_rate(together, |worker| worker.path.as_deref() == Some(id));
    let Some(slowed) = slowed(resources, ResourceKind::Nic, together, of) else { return };
    let mut controller = slowed.controller("controller:network", machine);
    for resource in resources.iter_mut() {
        let before = resource.next.len();
        resource.next.retain(|next| !slowed.ids.contains(next));
        if resource.next.len() < before {
            resource.next.push(controller.id.clone());
        }
    }
    controller.next.clone_from(&slowed.ids);
    let first = resources.iter().position(|resource| slowed.ids.contains(&resource.id)).unwrap_or(0);
    resources.insert(first, controller);
}

/// Which devices, all of them measured, reach clearly less together than alone; `part` is what one did beside the
/// others. Else their capacities are scaled to what they reached together, if that is near.
fn slowed(
    resources: &mut [Resource],
    kind: ResourceKind,
    together: &Measurement,
    part: impl Fn(&str) -> Option<f64>,
) -> Option<Slowed> {
    let mut devices: Vec<&mut Resource> =
        resources.iter_mut().filter(|resource| resource.kind == kind).collect();
    let measured = |device: &&mut Resource| device.origin == Origin::Measured && !device.lower_bound;
    if devices.len() < 2 || !devices.iter().all(measured) {
        return None;
    }
    let sum: f64 = devices.iter().map(|device| device.capacity).sum();
    let ratio = together.bytes_per_second / sum;
    if (SHARED_BELOW..=1.0 / SHARED_BELOW).contains(&ratio) {
        devices.iter_mut().for_each(|device| set_part(device, device.capacity * ratio, together));
    }
    if ratio >= SHARED_BELOW {
        return None;
    }
    let did = |device: &&mut Resource| part(&device.id).unwrap_or(0.0);
    let fell = |device: &&mut Resource| did(device) < SHARED_BELOW * device.capacity;
    match devices.iter().filter(|device| fell(device)).count() {
        // Nothing says with what a single one shares: it counts by what it did beside the others.
        1 => {
            let device = devices.into_iter().find(|device| fell(device))?;
            let rate = did(&device);
            set_part(device, rate, together);
            None
        }
        // Where no part says which, all of them.
        0 => Some(Slowed::of(&devices, &[], together.bytes_per_second, together)),
        _ => {
            let (less, others): (Vec<_>, Vec<_>) = devices.into_iter().partition(fell);
            let rate = if others.is_empty() { together.bytes_per_second } else { less.iter().map(did).sum() };
            Some(Slowed::of(&less, &others, rate, together))
        }
    }
}

/// A device that does this much of what all did together.
fn set_part(device: &mut Resource, rate: f64, together: &Measurement) {
    set_measured(device, rate);
    device.interval = scaled(together, rate);
}

impl Slowed {
    fn of(less: &[&mut Resource], others: &[&mut Resource], rate: f64, together: &Measurement) -> Slowed {
        let ids = |devices: &[&mut Resource]| devices.iter().map(|device| device.id.clone()).collect();
        Slowed {
            ids: ids(less),
            others: ids(others),
            together: rate,
            alone: less.iter().map(|device| device.capacity).sum(),
            interval: scaled(together, rate),
        }
    }

    /// What they share, by the machine's tree where that shows it.
    fn controller(&self, id: &str, machine: &Machine) -> Resource {
        let names = |ids: &'_ [String]| -> Vec<String> {
            ids.iter()
                .map(|id| id.split_once(':').map_or(id.as_str(), |(_, name)| name).to_string())
                .collect()
        };
        let (own, others) = (names(&self.ids), names(&self.others));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let shared = Topology::new(machine).shared_by(&own, &others);
        let shared = shared.map_or("a controller or a link".into(), |shared| shared.to_string());
        let ids: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        let why = format!(
            "what {} share, {shared} (together {}, one by one {})",
            in_words(&ids),
            show_bytes_rate(self.together),
            show_bytes_rate(self.alone)
        );
        Resource {
            capacity: self.together,
            origin: Origin::Measured,
            measured: Some(self.together),
            interval: self.interval,
            ..Resource::unknown(id, ResourceKind::Controller, why)
        }
    }
}
