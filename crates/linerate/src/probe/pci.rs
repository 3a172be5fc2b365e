//! PCI functions and their links: `/sys/bus/pci/devices`.

use super::machine::{PciDevice, PciLink};
use crate::fact::Fact;
use crate::sysroot::Sysroot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/bus/pci/devices";

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
    found.into_values().map(|(name, directory)| device(sysroot, name, &directory, virtual_machine)).collect()
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

fn device(sysroot: &Sysroot, address: String, directory: &Path, virtual_machine: bool) -> PciDevice {
    let parent = directory.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    PciDevice {
        parent: parent.filter(|name| Address::parse(name).is_some()).map(str::to_string),
        class: hexadecimal(sysroot, directory.join("class")),
        vendor: hexadecimal(sysroot, directory.join("vendor")),
        device: hexadecimal(sysroot, directory.join("device")),
        driver: Fact::from_option(sysroot.link_name(directory.join("driver")), "no driver is bound"),
        node: numa_node(sysroot, directory),
        link: link(sysroot, directory, "current", virtual_machine),
        link_max: link(sysroot, directory, "max", virtual_machine),
        address,
        ..Default::default()
    }
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

/// `numa_node` of a device directory; −1 is "the firmware does not tell".
fn numa_node(sysroot: &Sysroot, directory: &Path) -> Fact<u32> {
    match sysroot.parse::<i64>(directory.join("numa_node")) {
        Fact::Known(node) => Fact::from_option(u32::try_from(node).ok(), "the firmware does not tell (−1)"),
        Fact::Unknown { .. } => Fact::unknown("the kernel shows no node for it"),
    }
}

fn link(sysroot: &Sysroot, directory: &Path, which: &str, virtual_machine: bool) -> Fact<PciLink> {
    let speed = sysroot.text(directory.join(format!("{which}_link_speed")));
    let width = sysroot.text(directory.join(format!("{which}_link_width")));
    match (speed, width) {
        (Ok(speed), Ok(width)) => parse_link(&speed, &width),
        _ if virtual_machine => Fact::unknown("a virtual machine shows no link"),
        _ => Fact::unknown("it shows no PCIe link: conventional PCI, or a part of the chip itself"),
    }
}

/// A link from the kernel's two strings: speed `8 GT/s`, `8.0 GT/s PCIe` or `Unknown`; width 0 (nothing there) or 255
/// (not told) is no link. `drivers/pci/pci-sysfs.c`, `drivers/pci/probe.c`.
fn parse_link(speed: &str, width: &str) -> Fact<PciLink> {
    let gt_per_second = speed
        .split_once("GT/s")
        .and_then(|(number, _)| number.trim().parse::<f64>().ok())
        .filter(|speed| [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0].contains(speed));
    match (gt_per_second, width.trim().parse::<u32>()) {
        (Some(gt_per_second), Ok(width @ 1..=32)) => Fact::Known(PciLink { gt_per_second, width }),
        (Some(_), Ok(0)) => Fact::unknown("the link is down (width 0): nothing is plugged in"),
        _ => Fact::unknown("the device does not tell its link"),
    }
}

/// `domain:bus:device.function`, in the order of buses. Domains have more than four digits behind an Intel VMD and on Hyper-V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Address(u32, u8, u8, u8);

impl Address {
    fn parse(name: &str) -> Option<Self> {
        let (domain, rest) = name.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let digits = |text: &str, length: std::ops::RangeInclusive<usize>| {
            length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !(digits(domain, 4..=8) && digits(bus, 2..=2) && digits(device, 2..=2) && digits(function, 1..=1))
        {
            return None;
        }
        Some(Address(
            u32::from_str_radix(domain, 16).ok()?,
            u8::from_str_radix(bus, 16).ok()?,
            u8::from_str_radix(device, 16).ok()?,
            u8::from_str_radix(function, 16).ok()?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::Tree;
    use proptest::prelude::*;

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
        assert_eq!(devices[1].link_max.why(), Some("the device does not tell its link"));
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

    proptest! {
        #[test]
        fn any_link_is_read_or_unknown(speed in ".{0,20}", width in ".{0,6}") {
            if let Fact::Known(link) = parse_link(&speed, &width) {
                prop_assert!(link.gt_per_second >= 2.5 && (1..=32).contains(&link.width));
            }
        }

        #[test]
        fn any_name_is_an_address_or_not(name in "[0-9a-f:.é]{0,20}") {
            let _ = Address::parse(&name);
        }
    }
}
