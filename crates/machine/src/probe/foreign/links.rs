//! `ls -l` of `/sys/block`, `/sys/class/net` or `/dev/disk/by-path`: on which PCI function a disk or an interface is.

use crate::probe::machine::{Controller, ControllerKind, Disk, DiskKind, Machine, Nic};
use crate::probe::pci;
use linerate_facts::fact::Fact;
use std::path::Path;

/// Devices of one listing.
const MOST_DEVICES: usize = 4096;

/// A line with a link: name and target, of a device on a PCI function.
pub(super) fn of_line(line: &str) -> Option<Link<'_>> {
    let (before, target) = line.split_once(" -> ")?;
    let name = before.split_ascii_whitespace().next_back()?;
    let target = Path::new(target.trim());
    if let Some(place) = name.strip_prefix("pci-") {
        let device = target.file_name()?.to_str()?;
        let pci = place.get(..PLACE).and_then(|place| pci::nearest(Path::new(place)))?;
        return (!place.contains("-part")).then_some(Link {
            device,
            pci,
            controller: None,
            is_interface: false,
        });
    }
    let is_interface = target.parent()?.file_name()? == "net";
    let is_own = target.file_name()?.to_str()? == name;
    let pci = pci::nearest(target).filter(|_| is_own)?;
    let folders = target.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str());
    let controller = folders.filter(|_| !is_interface).find(|folder| kind_of(folder).is_some());
    Some(Link { device: name, pci, controller, is_interface })
}

/// `nvme0`, `ata7`: what the controller of a disk speaks, by its name.
fn kind_of(controller: &str) -> Option<(ControllerKind, &'static str)> {
    let is_numbered =
        |begin: &str| controller.strip_prefix(begin).is_some_and(|number| number.parse::<u32>().is_ok());
    match () {
        () if is_numbered("nvme") => Some((ControllerKind::Nvme, "pcie")),
        () if is_numbered("ata") => Some((ControllerKind::Sata, "sata")),
        () => None,
    }
}

/// Letters of `0000:11:00.0`.
const PLACE: usize = 12;

/// A device and its function.
pub(super) struct Link<'a> {
    device: &'a str,
    pci: String,
    controller: Option<&'a str>,
    is_interface: bool,
}

/// The devices of all lines, in their order.
pub(super) fn from_links(text: &str) -> Option<Machine> {
    let mut machine = Machine::default();
    for Link { device, pci, controller, is_interface } in text.lines().filter_map(of_line).take(MOST_DEVICES)
    {
        let (name, pci) = (device.to_string(), Some(pci));
        match is_interface {
            true => machine.nics.push(Nic { name, pci, ..Nic::default() }),
            false => {
                let kind = match device {
                    name if name.starts_with("nvme") => DiskKind::Nvme,
                    name if name.starts_with("sd") => DiskKind::Scsi,
                    name if name.starts_with("vd") => DiskKind::Virtio,
                    _ => DiskKind::Other,
                };
                if let Some((own, (speaks, transport))) =
                    controller.and_then(|own| Some((own, kind_of(own)?)))
                {
                    let known = machine.controllers.iter().position(|one| one.name == own);
                    let at = known.unwrap_or(machine.controllers.len());
                    if known.is_none() {
                        let transport = Fact::Known(transport.into());
                        let (name, pci) = (own.to_string(), pci.clone());
                        machine.controllers.push(Controller {
                            kind: speaks,
                            name,
                            pci,
                            transport,
                            ..Controller::default()
                        });
                    }
                    machine.controllers[at].disks.push(name.clone());
                }
                let controller = controller.map(String::from);
                machine.disks.push(Disk { name, pci, kind, controller, ..Disk::default() });
            }
        }
    }
    Some(machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_have_the_place_of_disks_and_interfaces() {
        let text = "total 0\n\
            lrwxrwxrwx 1 root root 0 Nov 29 13:14 loop0 -> ../devices/virtual/block/loop0\n\
            lrwxrwxrwx 1 root root 0 Nov 29 13:14 nvme0n1 -> ../devices/pci0000:17/0000:18:00.0/0000:19:00.0/nvme/nvme0/nvme0n1\n\
            lrwxrwxrwx 1 root root 0 Nov 29 13:14 sda -> ../devices/pci0000:10/0000:14:00.0/ata7/host6/target6:0:0/6:0:0:0/block/sda\n\
            lrwxrwxrwx 1 root root 0 Nov 29 13:14 eth0 -> ../../devices/pci0000:10/0000:13:00.0/net/eth0\n\
            lrwxrwxrwx 1 root root 9 Nov 29 13:14 pci-0000:12:00.0-nvme-1 -> ../../nvme3n1\n\
            lrwxrwxrwx 1 root root 15 Nov 29 13:14 pci-0000:12:00.0-nvme-1-part1 -> ../../nvme3n1p1\n";
        let machine = from_links(text).expect("a machine");
        let places: Vec<_> = machine
            .disks
            .iter()
            .map(|disk| (disk.name.as_str(), disk.pci.as_deref().unwrap_or("none")))
            .collect();
        assert_eq!(
            places,
            [("nvme0n1", "0000:19:00.0"), ("sda", "0000:14:00.0"), ("nvme3n1", "0000:12:00.0")]
        );
        let controllers =
            machine.controllers.iter().map(|one| (one.name.as_str(), one.kind, one.disks.join(" ")));
        let wanted =
            [("nvme0", ControllerKind::Nvme, "nvme0n1".into()), ("ata7", ControllerKind::Sata, "sda".into())];
        assert_eq!(controllers.collect::<Vec<_>>(), wanted);
        assert_eq!((machine.nics.len(), machine.nics[0].pci.as_deref()), (1, Some("0000:13:00.0")));
    }

    proptest! {
        #[test]
        fn any_line_is_a_link_or_none(line in "(pci-|eth0| -> |\\.\\./|net/|0000:01:00\\.0|é|-part|.){0,12}") {
            let _ = from_links(&line);
        }
    }
}
