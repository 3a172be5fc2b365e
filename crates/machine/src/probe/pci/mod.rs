//! PCI functions, their links and what their configuration space reports: `/sys/bus/pci/devices`.
//!
//! Their names are from the list of ids (`pci.ids`, of pciutils or hwdata) of the machine that linerate runs
//! on. Without such a list, ids are all that is known.

pub(super) mod address;
pub mod config;
pub(super) mod link;
mod registers;

#[cfg(test)]
pub(crate) use link::DOWN;

use super::machine::{Express, PciDevice, PciLink};
use crate::topology::card;
use address::Address;
use config::ConfigSpace;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use pciid_parser::Database;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/bus/pci/devices";
const SLOTS: &str = "/sys/bus/pci/slots";

/// Reads the PCI functions in address order. In a virtual machine a link that is missing is put down to that.
pub fn read(sysroot: &Sysroot, virtual_machine: bool) -> Vec<PciDevice> {
    let mut found: BTreeMap<Address, (String, PathBuf)> = BTreeMap::new();
    for name in sysroot.list(DEVICES) {
        let Some(address) = Address::parse(&name) else { continue };
        let directory = Path::new(DEVICES).join(&name);
        let directory = sysroot.follow(&directory).unwrap_or(directory);
        // A recorded tree may lack the link of a bridge that the paths of its children still show.
        for ancestor in directory.ancestors().skip(1) {
            let Some(name) = ancestor.file_name().and_then(|name| name.to_str()) else { break };
            let Some(bridge) = Address::parse(name) else { break };
            found.entry(bridge).or_insert_with(|| (name.to_string(), ancestor.to_path_buf()));
        }
        found.insert(address, (name, directory));
    }
    let slots = slots(sysroot);
    let whole = found.into_values();
    whole.map(|(name, directory)| device(sysroot, name, &directory, &slots, virtual_machine)).collect()
}

/// Address of the PCI function nearest to a device, from its real path (`…/0000:01:00.0/nvme/nvme0/nvme0n1`).
pub fn nearest(real_path: &Path) -> Option<String> {
    real_path
        .ancestors()
        .filter_map(|part| part.file_name()?.to_str())
        .find(|name| Address::parse(name).is_some())
        .map(str::to_string)
}

/// The node of a device: what its own `numa_node` says, else that of its PCI function.
pub fn node(sysroot: &Sysroot, device: &Path, pci: Option<&str>, devices: &[PciDevice]) -> Fact<u32> {
    let own = numa_node(sysroot, device);
    match devices.iter().find(|function| Some(function.address.as_str()) == pci) {
        Some(function) if own.known().is_none() => function.node.clone(),
        _ => own,
    }
}

/// Slot numbers by `domain:bus:device`. A name that is not a number (`4-1`: a second slot that says it is number
/// 4) reports none.
fn slots(sysroot: &Sysroot) -> BTreeMap<String, u32> {
    let numbered = |name: String| {
        let number = name.parse().ok()?;
        Some((sysroot.text(Path::new(SLOTS).join(name).join("address")).ok()?, number))
    };
    sysroot.list(SLOTS).into_iter().filter_map(numbered).collect()
}

fn device(
    sysroot: &Sysroot,
    address: String,
    directory: &Path,
    slots: &BTreeMap<String, u32>,
    virtual_machine: bool,
) -> PciDevice {
    let parent = directory.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let parent = parent.filter(|name| Address::parse(name).is_some()).map(str::to_string);
    let config = match sysroot.open(directory.join("config")) {
        Ok(file) => config::of_registers(&|at| file.four_bytes(at)),
        // The reason is at each fact: without the path, which the address reports.
        Err(why) => ConfigSpace::unreadable(&format!("its configuration space: {}", why.reason)),
    };
    PciDevice {
        class: hexadecimal(sysroot, directory.join("class")),
        vendor: hexadecimal(sysroot, directory.join("vendor")),
        device: hexadecimal(sysroot, directory.join("device")),
        driver: Fact::from_option(sysroot.link_name(directory.join("driver")), "no driver is bound"),
        node: numa_node(sysroot, directory),
        link: link(sysroot, directory, "current", config.link, virtual_machine),
        link_max: link(sysroot, directory, "max", config.link_max, virtual_machine),
        express: in_slot(config.express, slots, &address),
        name: Fact::unknown("the kernel knows its numbers only"),
        card_name: None,
        gpu_direct: None,
        parallel: link::real(config.parallel, parent.is_some() && !virtual_machine),
        parallel_below: config.parallel_below,
        parent,
        address,
    }
}

/// Where the configuration space reports no slot below, the kernel may tell the slot that the device is in.
fn in_slot(express: Express, slots: &BTreeMap<String, u32>, address: &str) -> Express {
    let number = slots.get(card(address)).copied().map(Fact::Known);
    let slot = match express.slot {
        Fact::Known(_) => express.slot,
        Fact::Unknown { .. } => number.unwrap_or(express.slot),
    };
    Express { slot, ..express }
}

fn hexadecimal(sysroot: &Sysroot, path: PathBuf) -> Fact<u32> {
    match sysroot.text(&path) {
        Ok(text) => {
            let digits = text.strip_prefix("0x").unwrap_or(&text);
            Fact::from_option(
                u32::from_str_radix(digits, 16).ok(),
                format!("{}: not a hexadecimal number", path.display()),
            )
        }
        Err(why) => Fact::unknown(why),
    }
}

/// `numa_node` of a device directory; −1 is "the firmware does not report".
fn numa_node(sysroot: &Sysroot, directory: &Path) -> Fact<u32> {
    match sysroot.parse::<i64>(directory.join("numa_node")) {
        Fact::Known(node) => Fact::from_option(u32::try_from(node).ok(), "the firmware does not report (−1)"),
        Fact::Unknown { .. } => Fact::unknown("the kernel shows no node for it"),
    }
}

/// A link as the kernel shows it; kernels before 4.13 show none, then as the configuration space reports it.
fn link(
    sysroot: &Sysroot,
    directory: &Path,
    which: &str,
    config: Fact<PciLink>,
    virtual_machine: bool,
) -> Fact<PciLink> {
    let speed = sysroot.text(directory.join(format!("{which}_link_speed")));
    let width = sysroot.text(directory.join(format!("{which}_link_width")));
    match (speed, width) {
        (Ok(speed), Ok(width)) => link::parse_link(&speed, &width),
        _ if config.known().is_some() => config,
        _ if virtual_machine => Fact::unknown("a virtual machine shows no link"),
        _ => Fact::unknown("it shows no PCIe link: conventional PCI, or a part of the chip itself"),
    }
}

/// Names the functions that have ids and no name yet.
pub fn name(devices: &mut [PciDevice]) {
    if devices.iter().any(lacks_name)
        && let Ok(list) = Database::read()
    {
        name_from(&list, devices);
    }
}

fn lacks_name(device: &PciDevice) -> bool {
    device.name.known().is_none() && device.vendor.known().is_some() && device.device.known().is_some()
}

fn name_from(list: &Database, devices: &mut [PciDevice]) {
    for device in devices.iter_mut().filter(|device| lacks_name(device)) {
        let id = |fact: &Fact<u32>| fact.known().and_then(|id| u16::try_from(*id).ok());
        let vendor = id(&device.vendor).and_then(|id| list.vendors.get(&id));
        let model = vendor.zip(id(&device.device)).and_then(|(vendor, id)| vendor.devices.get(&id));
        device.name = match (vendor, model) {
            (Some(vendor), Some(model)) => Fact::Known(format!("{} {}", vendor.name, model.name)),
            _ => Fact::unknown("the list of PCI ids does not have it"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    const BRIDGE: &str = "sys/devices/pci0000:00/0000:00:01.0";

    fn tree() -> Tree {
        let mut tree = Tree::new(&[
            (&format!("{BRIDGE}/class"), "0x060400\n"),
            (&format!("{BRIDGE}/max_link_speed"), "16.0 GT/s PCIe\n"),
            (&format!("{BRIDGE}/max_link_width"), "16\n"),
            (&format!("{BRIDGE}/current_link_speed"), "16.0 GT/s PCIe\n"),
            (&format!("{BRIDGE}/current_link_width"), "0\n"),
            (&format!("{BRIDGE}/0000:01:00.0/class"), "0x020000\n"),
            (&format!("{BRIDGE}/0000:01:00.0/vendor"), "0x15b3\n"),
            (&format!("{BRIDGE}/0000:01:00.0/device"), "0x1013\n"),
            (&format!("{BRIDGE}/0000:01:00.0/numa_node"), "1\n"),
            (&format!("{BRIDGE}/0000:01:00.0/current_link_speed"), "8 GT/s\n"),
            (&format!("{BRIDGE}/0000:01:00.0/current_link_width"), "16\n"),
            (&format!("{BRIDGE}/0000:01:00.0/max_link_speed"), "Unknown\n"),
            (&format!("{BRIDGE}/0000:01:00.0/max_link_width"), "255\n"),
            ("sys/devices/pci10000:00/10000:00:04.0/numa_node", "-1\n"),
        ]);
        tree.link("sys/bus/pci/devices/0000:01:00.0", &format!("../../../../{BRIDGE}/0000:01:00.0"));
        tree.link("sys/bus/pci/devices/10000:00:04.0", "../../../devices/pci10000:00/10000:00:04.0");
        tree.link(&format!("{BRIDGE}/0000:01:00.0/driver"), "../../../../bus/pci/drivers/mlx5_core");
        tree
    }

    #[test]
    fn a_bridge_that_only_the_path_of_its_child_shows() {
        let devices = read(&tree().sysroot(), false);
        let addresses: Vec<&str> = devices.iter().map(|device| device.address.as_str()).collect();
        assert_eq!(addresses, ["0000:00:01.0", "0000:01:00.0", "10000:00:04.0"]);
        assert_eq!(devices[0].parent, None);
        assert_eq!(devices[0].link_max, Fact::Known(PciLink { gt_per_second: 16.0, width: 16 }));
        assert!(devices[0].link.why().is_some_and(|why| why.contains("width 0")));
        assert_eq!(devices[1].parent.as_deref(), Some("0000:00:01.0"));
        assert_eq!(devices[1].class, Fact::Known(0x020000));
        assert_eq!(devices[1].vendor, Fact::Known(0x15b3));
        assert_eq!(devices[1].driver, Fact::Known("mlx5_core".into()));
        assert_eq!(devices[1].node, Fact::Known(1));
        assert_eq!(devices[1].link, Fact::Known(PciLink { gt_per_second: 8.0, width: 16 }));
        assert_eq!(devices[1].link_max.why(), Some("the device does not report its link"));
        assert!(devices[2].node.why().is_some_and(|why| why.contains("−1")));
    }

    #[test]
    fn a_virtual_machine_shows_no_link() {
        let devices = read(&tree().sysroot(), true);
        assert_eq!(devices[2].link.why(), Some("a virtual machine shows no link"));
    }

    #[test]
    fn the_function_nearest_to_a_device() {
        let path = Path::new("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1");
        assert_eq!(nearest(path).as_deref(), Some("0000:01:00.0"));
        assert_eq!(nearest(Path::new("/sys/devices/virtual/net/lo")), None);
    }

    /// Kernels before 4.13 have no files for the link; slots are the kernel's list of them.
    #[test]
    fn the_configuration_space_reports_what_the_kernel_has_no_file_for() {
        let mut tree = tree();
        let card = config::tests::card();
        let config = format!("{BRIDGE}/0000:01:00.0/config");
        tree.put(&format!("{BRIDGE}/0000:01:00.1/class"), "0x020000\n");
        tree.link("sys/bus/pci/devices/0000:01:00.1", &format!("../../../../{BRIDGE}/0000:01:00.1"));
        tree.put("sys/bus/pci/slots/7/address", "0000:01:00\n");
        tree.put("sys/bus/pci/slots/7-1/address", "0000:00:01\n");
        for (function, length) in [(&config, 256), (&config.replace("00.0/c", "00.1/c"), 64)] {
            tree.put_bytes(function, &card[..length]);
        }
        let devices = read(&tree.sysroot(), false);
        let [port, first, second, _] = devices.as_slice() else { panic!("{devices:?}") };
        // The kernel's files first, where there are any.
        assert_eq!(first.link, Fact::Known(PciLink { gt_per_second: 8.0, width: 16 }));
        assert_eq!(first.express.max_payload_bytes, Fact::Known(256));
        assert_eq!((&first.express.slot, &second.express.slot), (&Fact::Known(7), &Fact::Known(7)));
        assert!(port.express.slot.known().is_none(), "7-1 is not slot 7");
        assert_eq!(port.express.port.why(), Some("its configuration space: not there"));
        assert!(second.express.port.why().is_some_and(|why| why.contains("root reads it")));
        assert!(second.link.why().is_some_and(|why| why.contains("no PCIe link")));
        tree.put_bytes(&config.replace("00.0/c", "00.1/c"), &card);
        let devices = read(&tree.sysroot(), true);
        assert_eq!(devices[2].link, Fact::Known(PciLink { gt_per_second: 5.0, width: 4 }));
        assert_eq!(devices[2].link_max, Fact::Known(PciLink { gt_per_second: 8.0, width: 8 }));
    }

    const LIST: &str = "8086  Intel Corporation\n\t10c7  82598EB 10-Gigabit AF Network Connection\n";

    fn named(vendor: u32, device: u32) -> Fact<String> {
        let list = Database::parse_db(LIST.as_bytes()).expect("a list");
        let (vendor, device) = (Fact::Known(vendor), Fact::Known(device));
        let mut devices = [PciDevice { vendor, device, ..PciDevice::default() }];
        name_from(&list, &mut devices);
        devices[0].name.clone()
    }

    #[test]
    fn a_function_in_the_list_has_its_name_and_others_say_why_not() {
        let name = "Intel Corporation 82598EB 10-Gigabit AF Network Connection";
        assert_eq!(named(0x8086, 0x10c7), Fact::Known(name.into()));
        for (vendor, device) in [(0x8086, 0x1), (0x1, 0x10c7), (0x1_8086, 0x10c7)] {
            assert_eq!(named(vendor, device).why(), Some("the list of PCI ids does not have it"));
        }
    }

    #[test]
    fn what_another_reader_knows_stays() {
        let list = Database::parse_db(LIST.as_bytes()).expect("a list");
        let own = Fact::Known("by lspci".to_string());
        let ids = (Fact::Known(0x8086), Fact::Known(0x10c7));
        let mut devices =
            [PciDevice { vendor: ids.0, device: ids.1, name: own.clone(), ..PciDevice::default() }];
        name_from(&list, &mut devices);
        assert_eq!(devices[0].name, own);
    }
}
