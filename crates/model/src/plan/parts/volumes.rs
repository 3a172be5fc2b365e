//! Volumes: RAID, volume managers and file systems, the software that stands between disks and a flow. What it
//! takes is in no data sheet: a volume has a figure that somebody measured, a rate or a share of what its disks
//! have.

use super::{ByteDevice, DeviceKind, MachineParts};
use crate::plan::flow::best_of_rated;
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_machine::rates::pcie::PayloadDirection;

/// Several disks behind one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Unique among the parts.
    pub name: String,
    /// What it is, for people: `md RAID 0, XFS`; may be empty.
    pub words: String,
    /// Names of its disks. Two volumes may have the same: one of them is then planned, or the other.
    pub disks: Vec<String>,
    pub read: VolumeLimit,
    pub write: VolumeLimit,
}

/// What a volume carries in one direction, as somebody measured it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VolumeLimit {
    /// Nobody said; it never binds.
    Unknown,
    /// Bytes per second.
    Rate(f64),
    /// Of the sum of its disks, 0 to 1.
    Share(f64),
}

impl Volume {
    /// The volume as a resource for bytes that go this way; `next` is empty.
    pub(in crate::plan) fn resource(&self, parts: &MachineParts, direction: PayloadDirection) -> Resource {
        let unknown = Resource::unknown(self.id(), ResourceKind::Volume, "no rate of the volume is given");
        let disks: Vec<&ByteDevice> = parts.devices.iter().filter(|device| self.has(device)).collect();
        let count = disks.len();
        let over = format!("over {count} disk{}", if count == 1 { "" } else { "s" });
        let what = if self.words.is_empty() { over } else { format!("{} {over}", self.words) };
        let limit = if direction == PayloadDirection::ToMemory { self.read } else { self.write };
        match limit {
            VolumeLimit::Unknown => unknown,
            VolumeLimit::Rate(rate) => Resource {
                capacity: rate,
                origin: Origin::Measured,
                measured: Some(rate),
                why: Some(format!("{what}, measured elsewhere")),
                ..unknown
            },
            VolumeLimit::Share(share) => {
                let rates = disks.iter().filter_map(|disk| rate(disk, direction));
                let all: Vec<f64> = rates.collect();
                if all.len() < count || count == 0 {
                    let why = format!("{what}: the rate of a disk is unknown");
                    return Resource { why: Some(why), ..unknown };
                }
                let rate = share * all.iter().sum::<f64>();
                Resource {
                    capacity: rate,
                    origin: Origin::Effective,
                    effective: Some(rate),
                    best: Some(best_of_rated(rate)),
                    why: Some(format!("{what}: {:.0} % of theirs, measured elsewhere", 100.0 * share)),
                    ..unknown
                }
            }
        }
    }

    pub(in crate::plan) fn id(&self) -> String {
        format!("volume:{}", self.name)
    }

    /// The device is one of its disks.
    pub(in crate::plan) fn has(&self, device: &ByteDevice) -> bool {
        matches!(device.what, DeviceKind::Disk { .. }) && self.disks.contains(&device.name)
    }
}

fn rate(disk: &ByteDevice, direction: PayloadDirection) -> Option<f64> {
    match (&disk.what, direction) {
        (DeviceKind::Disk { read, .. }, PayloadDirection::ToMemory) => read.known().copied(),
        (DeviceKind::Disk { write, .. }, PayloadDirection::FromMemory) => write.known().copied(),
        _ => None,
    }
}

impl MachineParts {
    /// A volume by its name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// The volumes that lie over the disks whoever asks for “all disks”: none where two of them have a disk in
    /// common, since either may be meant.
    pub fn usual_volumes(&self) -> Vec<String> {
        let mut disks: Vec<&String> = self.volumes.iter().flat_map(|volume| &volume.disks).collect();
        disks.sort_unstable();
        let disjoint = disks.windows(2).all(|pair| pair[0] != pair[1]);
        let names = self.volumes.iter().map(|volume| volume.name.clone());
        if disjoint { names.collect() } else { Vec::new() }
    }
}
