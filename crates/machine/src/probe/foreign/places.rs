//! On which PCI function an interface or a drive is, where its own listing does not report it: by `ls -l` of
//! `/sys/block`, `/sys/class/net` or `/dev/disk/by-path`, by interrupts that carry its name, and by the name
//! that systemd makes of a card's place.

use crate::probe::machine::{Controller, ControllerKind, Disk, DiskKind, Machine, Nic, PciDevice};
use crate::probe::{fill, pci};
use linerate_facts::fact::Fact;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

const ETHERNET: u32 = 0x0200;

/// Fills the functions of interfaces and drives, and the nodes of those that are on one.
pub(super) fn fill_in(mut machine: Machine) -> Machine {
    let by_name = by_interrupts(&machine);
    for nic in machine.nics.iter_mut().filter(|nic| nic.pci.is_none() && !nic.loopback) {
        nic.pci = by_name.get(&nic.name).cloned().or_else(|| by_path(&nic.name, &machine.pci));
    }
    only_one_left(&mut machine);
    for disk in machine.disks.iter_mut().filter(|disk| disk.pci.is_none()) {
        disk.pci = controller_of(&disk.name).and_then(|controller| by_name.get(controller).cloned());
    }
    let nodes: BTreeMap<String, Fact<u32>> =
        machine.pci.iter().map(|device| (device.address.clone(), device.node.clone())).collect();
    let node_of =
        |pci: &Option<String>| nodes.get(pci.as_ref()?).filter(|node| node.known().is_some()).cloned();
    for nic in machine.nics.iter_mut().filter(|nic| nic.node.known().is_none()) {
        nic.node = node_of(&nic.pci).unwrap_or(nic.node.clone());
    }
    for disk in machine.disks.iter_mut().filter(|disk| disk.node.known().is_none()) {
        disk.node = node_of(&disk.pci).unwrap_or(disk.node.clone());
    }
    named_by_function(machine)
}

/// `nvme0q3` and `ens1f0-TxRx-0` are of one function each: what stands before the number of the queue is the device.
fn by_interrupts(machine: &Machine) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for interrupt in &machine.interrupts {
        let Some(pci) = &interrupt.pci else { continue };
        let nic = machine.nics.iter().find(|nic| {
            let rest = interrupt.name.strip_prefix(nic.name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', ':', '@']))
        });
        let drive =
            interrupt.name.split_once('q').map(|(drive, _)| drive).filter(|drive| {
                drive.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
            });
        let name = nic.map(|nic| nic.name.as_str()).or(drive);
        name.into_iter().for_each(|name| drop(found.insert(name.to_string(), pci.clone())));
    }
    found
}

/// `nvme0` of `nvme0n1p2`.
fn controller_of(disk: &str) -> Option<&str> {
    let number = disk.strip_prefix("nvme")?.split('n').next()?;
    number.parse::<u32>().ok()?;
    disk.get(.."nvme".len() + number.len())
}

/// `enp3s0f1`: bus, slot and function in decimal (systemd.net-naming-scheme(7)), of a network card that is there.
fn by_path(name: &str, functions: &[PciDevice]) -> Option<String> {
    let rest = name.strip_prefix("en")?;
    let (domain, rest) = match rest.strip_prefix('P') {
        Some(rest) => number(rest)?,
        None => (0, rest),
    };
    let (bus, rest) = number(rest.strip_prefix('p')?)?;
    let (slot, rest) = number(rest.strip_prefix('s')?)?;
    let function = rest.strip_prefix('f').map_or(0, |rest| number(rest).map_or(0, |(function, _)| function));
    let address = format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}");
    let is_network = |device: &&PciDevice| {
        device.address == address && device.class.known().is_some_and(|class| class >> 16 == 2)
    };
    functions.iter().find(is_network).map(|device| device.address.clone())
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// An interface with hardware of which no function is known. What a virtual interface is made by is its driver in a listing of
/// interfaces; a card's is not there.
pub(super) fn is_unplaced(nic: &Nic) -> bool {
    nic.pci.is_none() && !nic.loopback && nic.driver.known().is_none()
}

/// One interface with hardware that is on no function, and one function of a network card that has no interface: they are one.
fn only_one_left(machine: &mut Machine) {
    let used_slots: Vec<String> = machine.nics.iter().filter_map(|nic| nic.pci.clone()).collect();
    let is_free = |device: &&PciDevice| {
        device.class.known().is_some_and(|class| class >> 8 == ETHERNET)
            && !used_slots.contains(&device.address)
    };
    let mut functions = machine.pci.iter().filter(is_free);
    let (Some(function), None) = (functions.next(), functions.next()) else { return };
    let mut left = machine.nics.iter_mut().filter(|nic| is_unplaced(nic));
    if let (Some(nic), None) = (left.next(), left.next()) {
        nic.pci = Some(function.address.clone());
    }
}

/// `ethtool -i` knows its function alone: what it reports goes to the interface on that function.
fn named_by_function(mut machine: Machine) -> Machine {
    let (by_function, mut named): (Vec<Nic>, Vec<Nic>) = std::mem::take(&mut machine.nics)
        .into_iter()
        .partition(|nic| nic.pci.as_deref() == Some(nic.name.as_str()) && !nic.by_class);
    for nic in by_function {
        let on_it = named.iter().find(|other| other.pci == nic.pci).map(|other| other.name.clone());
        match on_it {
            None => named.push(nic),
            Some(name) => {
                let more = json!({ "nics": [Nic { name, ..nic }] });
                let part = Machine { nics: named, ..Machine::default() };
                named = fill::fill(part, &more).nics;
            }
        }
    }
    Machine { nics: named, ..machine }
}

/// Devices of one listing.
const MOST_DEVICES: usize = 4096;

/// A line with a link: name and target, of a device on a PCI function.
pub(super) fn of_line(line: &str) -> Option<Link<'_>> {
    let (before, target) = line.split_once(" -> ")?;
    let name = before.split_ascii_whitespace().next_back()?;
    let target = Path::new(target.trim());
    if let Some(place) = name.strip_prefix("pci-") {
        let device = target.file_name()?.to_str()?;
        let pci = place.get(..ADDRESS_LETTERS).and_then(|place| pci::nearest(Path::new(place)))?;
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
const ADDRESS_LETTERS: usize = 12;

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
    use crate::probe::machine::{Disk, Interrupt};
    use proptest::prelude::*;

    fn function(address: &str, class: u32) -> PciDevice {
        PciDevice {
            address: address.into(),
            class: Fact::Known(class),
            node: Fact::Known(1),
            ..PciDevice::default()
        }
    }

    fn nic(name: &str) -> Nic {
        Nic { name: name.into(), ..Nic::default() }
    }

    #[test]
    fn interrupts_and_names_have_the_place() {
        let interrupt = |name: &str, pci: &str| Interrupt {
            name: name.into(),
            pci: Some(pci.into()),
            ..Interrupt::default()
        };
        let machine = fill_in(Machine {
            pci: vec![
                function("0000:01:00.0", 0x01_0802),
                function("0000:03:00.1", 0x02_0000),
                function("0000:04:00.0", 0x02_0000),
                function("0000:05:00.0", 0x02_0000),
            ],
            nics: vec![nic("enp3s0f1"), nic("ens1f0"), nic("eth9")],
            disks: vec![Disk { name: "nvme0n1".into(), ..Disk::default() }],
            interrupts: vec![
                interrupt("nvme0q1", "0000:01:00.0"),
                interrupt("ens1f0-TxRx-3", "0000:04:00.0"),
            ],
            ..Machine::default()
        });
        let places: Vec<_> = machine.nics.iter().map(|nic| nic.pci.as_deref()).collect();
        assert_eq!(
            places,
            [Some("0000:03:00.1"), Some("0000:04:00.0"), Some("0000:05:00.0")],
            "the last is the only one left"
        );
        assert_eq!(
            (machine.disks[0].pci.as_deref(), machine.disks[0].node.known()),
            (Some("0000:01:00.0"), Some(&1))
        );
        assert_eq!(machine.nics[0].node, Fact::Known(1));
    }

    #[test]
    fn a_driver_that_is_known_by_its_function_joins_its_interface() {
        let driver = Nic {
            pci: Some("0000:03:00.0".into()),
            driver: Fact::Known("ixgbe".into()),
            ..nic("0000:03:00.0")
        };
        let machine = fill_in(Machine {
            pci: vec![function("0000:03:00.0", 0x02_0000)],
            nics: vec![driver, nic("enp3s0")],
            ..Machine::default()
        });
        assert_eq!(machine.nics.len(), 1);
        assert_eq!(
            (machine.nics[0].name.as_str(), machine.nics[0].driver.known().map(String::as_str)),
            ("enp3s0", Some("ixgbe"))
        );
    }

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
