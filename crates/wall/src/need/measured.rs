//! What a run has measured of a server's parts, in the place of what their data sheets say.

use super::WallNeed;
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::ethernet::{Stack, goodput_share};
use linerate_model::plan::cpu_cost;
use linerate_model::plan::flow::FlowPlan;
use linerate_model::plan::parts::{DeviceKind, MachineParts};
use linerate_model::plan::{Origin, Resource, ResourceKind};
use std::collections::{BTreeMap, BTreeSet};

/// Figures of a run; empty: data sheets alone count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WallFigures {
    /// By the id of the part, like `disk:nvme0n1`.
    pub parts: BTreeMap<String, WallFigure>,
    /// What the bus of all memory carries, bytes per second; only of a machine of one node does a run tell
    /// it.
    pub memory_bytes_per_second: Option<f64>,
    /// CPU seconds per GB from the disk to the NIC, over UDP.
    pub cpu_seconds_per_gb: Option<f64>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WallFigure {
    /// Of payload; of a NIC UDP payload.
    pub bytes_per_second: f64,
    /// Something else held it: it may do more.
    pub at_least: bool,
}

/// What was put into the parts, to be told from ratings afterwards.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Ids whose rate is measured now, with what was rated before.
    rated: BTreeMap<String, Option<f64>>,
    /// Those of them that may do more.
    at_least: BTreeSet<String>,
}

impl WallNeed {
    /// The same with the CPU cost that was measured, that the machine's description gives, or of its generation.
    pub(super) fn costing(&self, parts: &MachineParts, measured: &WallFigures) -> WallNeed {
        let published = || {
            let memory = parts.memory_kind.as_deref();
            let cost = cpu_cost::published(memory, true, Protocol::Udp, Some(self.mtu))?;
            Some((cost.seconds_per_gb, Origin::Rated, Some(cost.source)))
        };
        let stated = parts.cpu_seconds_per_gb.known().map(|cost| (*cost, Origin::Effective, None));
        let measured = measured.cpu_seconds_per_gb.map(|cost| (cost, Origin::Measured, None));
        let Some((cost, cpu_origin, cpu_source)) = measured.or(stated).or_else(published) else {
            return self.clone();
        };
        let cpu_cores = cost * self.pixel_bytes_per_second / 1e9;
        WallNeed { cpu_seconds_per_gb: cost, cpu_cores, cpu_origin, cpu_source, ..self.clone() }
    }
}

impl WallFigures {
    /// Puts the figures in the place of the ratings. One that something else held does not lower a rating.
    pub(super) fn apply(&self, parts: &mut MachineParts, mtu: u32) -> Applied {
        let mut applied = Applied::default();
        let share = goodput_share(mtu, Stack::Udp4, false).unwrap_or(1.0);
        for device in &mut parts.devices {
            let id = device.id();
            let Some(figure) = self.parts.get(&id) else { continue };
            let (rate, measured) = match &mut device.what {
                DeviceKind::Disk { read, .. } => (read, figure.bytes_per_second),
                // As the link's rate, so that the headers of this wall's own packets count.
                DeviceKind::Nic { rate, .. } => (rate, figure.bytes_per_second / share),
                DeviceKind::Gpu => continue,
            };
            let rated = rate.known().copied();
            if figure.at_least && rated.is_some_and(|rated| rated >= measured) {
                continue;
            }
            *rate = Fact::Known(measured);
            if figure.at_least {
                applied.at_least.insert(id.clone());
            }
            applied.rated.insert(id, rated);
        }
        if let ([node], Some(rate)) = (&mut parts.nodes[..], self.memory_bytes_per_second) {
            let rated = node.memory_bytes_per_second.known().copied();
            node.memory_bytes_per_second = Fact::Known(rate);
            applied.rated.insert("memory".into(), rated);
        }
        applied
    }
}

impl Applied {
    /// Where the rate of a part is from.
    pub(super) fn origin(&self, id: &str) -> Origin {
        if self.rated.contains_key(id) { Origin::Measured } else { Origin::Rated }
    }

    /// It may do more than what was measured.
    pub(super) fn may_do_more(&self, id: &str) -> bool {
        self.at_least.contains(id)
    }

    /// Says of each resource whether its capacity is rated, effective or measured.
    pub(super) fn label(&self, plan: &mut FlowPlan, cpu: Origin) {
        let cut: BTreeSet<String> = plan.ceiling.cut.iter().cloned().collect();
        for resource in &mut plan.resources {
            if let Some(rated) = self.rated.get(&resource.id) {
                resource.origin = Origin::Measured;
                resource.measured = Some(resource.capacity);
                // A bus is rated as it is, its resource for what crosses it.
                resource.rated = rated.filter(|_| resource.kind != ResourceKind::Memory);
                resource.lower_bound = self.may_do_more(&resource.id);
            } else if resource.id.starts_with("cpu") && cpu == Origin::Measured {
                resource.origin = Origin::Measured;
            }
            let holds = cut.contains(&resource.id);
            if let Some(word) = word(resource) {
                let also = resource.why.take().map_or(String::new(), |why| format!(", {why}"));
                let holds = if holds { ", limits the flow" } else { "" };
                resource.why = Some(format!("{word}{also}{holds}"));
            }
        }
    }
}

fn word(resource: &Resource) -> Option<&'static str> {
    match resource.origin {
        Origin::Measured if resource.lower_bound => Some("measured, something else held it: at least"),
        Origin::Measured => Some("measured"),
        Origin::Effective if resource.kind == ResourceKind::Cpu => Some("rated"),
        Origin::Effective => Some("effective: rated less what the headers take"),
        Origin::Rated => Some("rated"),
        Origin::Unknown => None,
    }
}
