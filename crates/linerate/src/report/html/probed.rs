//! What the probe knows about the blocks of the diagram, and the blocks themselves where nothing was planned.

use crate::plan::{Origin, Resource, ResourceKind};
use crate::probe::DiskKind;
use crate::run::Run;
use std::collections::BTreeMap;

/// What the machine knows about a resource.
pub(super) struct About {
    node: BTreeMap<String, u32>,
    text: BTreeMap<String, String>,
}

impl About {
    /// Looks it up once for all resources.
    pub(super) fn of(run: &Run) -> Self {
        let mut node = BTreeMap::new();
        let mut text = BTreeMap::new();
        for disk in &run.machine.disks {
            let id = format!("disk:{}", disk.name);
            text.insert(
                id.clone(),
                format!("{:?}", disk.kind).to_lowercase().replace("nvme", "NVMe").replace("scsi", "SCSI"),
            );
            node.extend(disk.node.known().map(|node| (id, *node)));
        }
        for nic in &run.machine.nics {
            let id = format!("nic:{}", nic.name);
            text.insert(id.clone(), nic.driver.known().cloned().unwrap_or_default());
            node.extend(nic.node.known().map(|node| (id, *node)));
        }
        for device in &run.machine.pci {
            let id = format!("pcie:{}", device.address);
            if let Some(link) = device.link.known() {
                text.insert(id.clone(), format!("{} GT/s ×{}", link.gt_per_second, link.width));
            }
            node.extend(device.node.known().map(|node| (id, *node)));
        }
        if let Some(plan) = &run.plan {
            node.extend(plan.sources.iter().filter_map(|s| Some((s.resource.clone(), *s.node.known()?))));
            node.extend(plan.paths.iter().filter_map(|p| Some((p.resource.clone(), *p.node.known()?))));
            if plan.loopback {
                text.extend(plan.paths.iter().map(|p| (p.receiver.clone(), "a process of ours".to_string())));
            }
        }
        if run.machine.memory.nodes.len() < 2 {
            node.clear();
        }
        About { node, text }
    }

    /// NUMA node, on machines with more than one.
    pub(super) fn node(&self, resource: &Resource) -> Option<u32> {
        self.node.get(&resource.id).copied()
    }

    /// Driver, kind or link, in a word or two.
    pub(super) fn text(&self, resource: &Resource) -> String {
        self.text.get(&resource.id).cloned().unwrap_or_default()
    }
}

/// Disks and NICs as the probe saw them, for a run without a plan: their links are rated where they can be read.
pub(super) fn probed(run: &Run) -> Vec<Resource> {
    let one = |id: String, kind, rated: Option<f64>, why: &str, next: Vec<String>| Resource {
        capacity: rated.unwrap_or(0.0),
        origin: if rated.is_some() { Origin::Rated } else { Origin::Unknown },
        next,
        rated,
        ..Resource::unknown(id, kind, why)
    };
    let whole =
        |kind: DiskKind| matches!(kind, DiskKind::Nvme | DiskKind::Scsi | DiskKind::Virtio | DiskKind::Md);
    let memory = run.machine.memory.rated_bytes_per_second.known().copied();
    let nics: Vec<_> = run.machine.nics.iter().filter(|nic| !nic.loopback).collect();
    let mut all: Vec<Resource> = Vec::new();
    for disk in run.machine.disks.iter().filter(|disk| whole(disk.kind)) {
        all.push(one(
            format!("disk:{}", disk.name),
            ResourceKind::Disk,
            None,
            "not measured",
            vec!["memory".into()],
        ));
    }
    let ids = nics.iter().map(|nic| format!("nic:{}", nic.name)).collect();
    all.push(one("memory".into(), ResourceKind::Memory, memory, "not readable", ids));
    for nic in nics {
        let bits = nic.speed_bits_per_second.known();
        let rated = bits.map(|bits| crate::units::bytes_per_second(*bits));
        all.push(one(
            format!("nic:{}", nic.name),
            ResourceKind::Nic,
            rated,
            "its speed is not readable",
            Vec::new(),
        ));
    }
    all
}
