//! Names of PCI functions from the list of ids (`pci.ids`, of pciutils or hwdata) of the machine that linerate
//! runs on. Without such a list, ids are all that is known.

use crate::probe::machine::PciDevice;
use linerate_facts::fact::Fact;
use pciid_parser::Database;

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
