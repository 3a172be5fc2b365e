//! What would be bought: the parts of the catalogue, else the machine's own, else what is common today.

use crate::plan::parts::{
    CatalogueController, CatalogueDisk, CatalogueNic, DeviceKind, JointKind, MachineParts, PartPlace,
};
use linerate_machine::probe::PciLink;

/// Where nothing is known: a NIC of two 100 Gb/s ports, a controller of SAS-3, a disk of PCIe 4.0 x4 at three
/// quarters of its link.
pub(super) const DEFAULT_NIC: CatalogueNic =
    CatalogueNic { rate: 12.5e9, ports: 2, link: PciLink { gt_per_second: 16.0, width: 16 } };
pub(super) const DEFAULT_CONTROLLER: CatalogueController =
    CatalogueController { link: PciLink { gt_per_second: 8.0, width: 8 }, disk_ports: 8, rate: None };
pub(super) const DEFAULT_DISK: CatalogueDisk = CatalogueDisk {
    read: 5e9,
    write: 3e9,
    in_practice: None,
    link: Some(PciLink { gt_per_second: 16.0, width: 4 }),
};

fn card_link(parts: &MachineParts, place: &PartPlace) -> Option<PciLink> {
    parts.above(place).first().filter(|joint| joint.kind == JointKind::Card)?.link
}

/// The machine's own fastest NIC.
pub(super) fn own_nic(parts: &MachineParts) -> Option<CatalogueNic> {
    let nics = parts.devices.iter().filter_map(|device| match &device.what {
        DeviceKind::Nic { rate, .. } => {
            let ports = parts.devices.iter().filter(|other| other.place == device.place).count();
            let link = card_link(parts, &device.place)?;
            Some(CatalogueNic { rate: *rate.known()?, ports: ports as u32, link })
        }
        _ => None,
    });
    nics.max_by(|a, b| a.rate.total_cmp(&b.rate))
}

pub(super) fn own_disk(parts: &MachineParts) -> Option<CatalogueDisk> {
    let disks = parts.devices.iter().filter_map(|device| match &device.what {
        DeviceKind::Disk { read, write } => {
            let read = *read.known()?;
            let write = write.known().copied().unwrap_or(read);
            Some(CatalogueDisk { read, write, in_practice: None, link: card_link(parts, &device.place) })
        }
        _ => None,
    });
    disks.max_by(|a, b| a.read.total_cmp(&b.read))
}

pub(super) fn own_controller(parts: &MachineParts) -> Option<CatalogueController> {
    parts.joints.iter().filter(|joint| joint.kind == JointKind::Controller).find_map(|joint| {
        Some(CatalogueController {
            link: joint.link?,
            disk_ports: joint.disk_ports.unwrap_or(DEFAULT_CONTROLLER.disk_ports),
            rate: joint.bytes_per_second.known().copied(),
        })
    })
}

/// Cards that hold devices of a kind.
pub(super) fn cards_with(parts: &MachineParts, word: &str) -> u32 {
    let mut places: Vec<&PartPlace> = Vec::new();
    for device in parts.devices.iter().filter(|device| device.id().starts_with(word)) {
        if !places.contains(&&device.place) {
            places.push(&device.place);
        }
    }
    places.len() as u32
}
