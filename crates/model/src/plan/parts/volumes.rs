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
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeLimit {
    /// Nobody said; it never binds.
    Unknown,
    /// Bytes per second.
    Rate(f64),
    /// Of the sum of its disks, 0 to 1.
    Share(f64),
    /// The faster of its disks, by name, give this share of the bytes, the others the rest.
    Tiers { faster: Vec<String>, share: f64 },
}

impl Volume {
    /// The volume as a resource for bytes that go this way; `next` is empty.
    pub(in crate::plan) fn resource(&self, parts: &MachineParts, direction: PayloadDirection) -> Resource {
        let unknown = Resource::unknown(self.id(), ResourceKind::Volume, "no rate of the volume is given");
        let disks: Vec<&ByteDevice> = parts.devices.iter().filter(|device| self.has(device)).collect();
        let count = disks.len();
        let over = format!("over {count} disk{}", if count == 1 { "" } else { "s" });
        let what = if self.words.is_empty() { over } else { format!("{} {over}", self.words) };
        let limit = if direction == PayloadDirection::ToMemory { &self.read } else { &self.write };
        let sum = |disks: &[&ByteDevice]| -> Option<f64> {
            let rates: Option<Vec<f64>> = disks.iter().map(|disk| rate(disk, direction)).collect();
            rates.filter(|rates| !rates.is_empty()).map(|rates| rates.iter().sum())
        };
        let why = format!("{what}: the rate of a disk is unknown");
        let of_disks = |rate: Option<f64>, words: String| match rate {
            Some(rate) => Resource {
                capacity: rate,
                origin: Origin::Effective,
                effective: Some(rate),
                best: Some(best_of_rated(rate)),
                why: Some(words),
                ..unknown.clone()
            },
            None => Resource { why: Some(why.clone()), ..unknown.clone() },
        };
        match limit {
            VolumeLimit::Unknown => unknown,
            VolumeLimit::Rate(rate) => Resource {
                capacity: *rate,
                origin: Origin::Measured,
                measured: Some(*rate),
                why: Some(format!("{what}, measured elsewhere")),
                ..unknown
            },
            VolumeLimit::Share(share) => {
                let words = format!("{what}: {:.0} % of theirs, measured elsewhere", 100.0 * share);
                of_disks(sum(&disks).map(|all| share * all), words)
            }
            VolumeLimit::Tiers { faster, share } => {
                let is_faster = |disk: &&ByteDevice| faster.contains(&disk.name);
                let (faster, slower): (Vec<_>, Vec<_>) = disks.into_iter().partition(is_faster);
                // Whichever tier has given its share last.
                let least = sum(&faster).zip(sum(&slower));
                let rate = least.map(|(faster, slower)| (faster / share).min(slower / (1.0 - share)));
                of_disks(rate, format!("{what}: {:.0} % of the bytes come from the faster", 100.0 * share))
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

    /// The volumes that lie over the disks of a flow over “all disks”: none where two of them have a disk in
    /// common, since either may be meant.
    pub fn usual_volumes(&self) -> Vec<String> {
        let mut disks: Vec<&String> = self.volumes.iter().flat_map(|volume| &volume.disks).collect();
        disks.sort_unstable();
        let disjoint = disks.windows(2).all(|pair| pair[0] != pair[1]);
        let names = self.volumes.iter().map(|volume| volume.name.clone());
        if disjoint { names.collect() } else { Vec::new() }
    }
}
