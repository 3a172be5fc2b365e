//! Network cards of a machine whose interfaces nobody listed: each PCI function of the classes 0200 (Ethernet)
//! and 0207 (InfiniBand) is a port. Its rate is the one in its name; where the name has none, it is unknown.

use super::named_rate::{self, NamedRate};
use crate::probe::in_order;
use crate::probe::machine::{Machine, Nic, PciDevice};
use crate::topology::card;
use linerate_facts::fact::Fact;
use std::collections::BTreeSet;

const ETHERNET: u32 = 0x0200;
const INFINIBAND: u32 = 0x0207;
/// Drivers that hand a function to a virtual machine or to a program: the host sends nothing over it.
const HANDED_ON: [&str; 4] = ["vfio-pci", "pci-stub", "igb_uio", "uio_pci_generic"];

/// Adds a NIC for each network function that has no interface; it is called by its address. A tree that lists
/// the interfaces of functions has said which ones there are.
pub(in crate::probe) fn add(machine: &mut Machine, interfaces_are_listed: bool) {
    if interfaces_are_listed {
        return;
    }
    let with_interface: BTreeSet<&str> = machine.nics.iter().filter_map(|nic| nic.pci.as_deref()).collect();
    let free = machine.pci.iter().filter(|device| {
        let handed_on = device.driver.known().is_some_and(|driver| HANDED_ON.contains(&driver.as_str()));
        is_port(device)
            && !handed_on
            && !with_interface.contains(device.address.as_str())
            && !repeats_another(device, &machine.pci)
    });
    let found: Vec<Nic> = free.flat_map(|device| ports(device, &machine.pci)).collect();
    machine.nics.extend(found);
    machine.nics.sort_by(|a, b| in_order(&a.name, &b.name));
}

fn is_port(device: &PciDevice) -> bool {
    device.class.known().is_some_and(|class| [ETHERNET, INFINIBAND].contains(&(class >> 8)))
}

/// A virtual function beside physical ones sends over their ports; a guest may have it alone.
fn repeats_another(device: &PciDevice, all: &[PciDevice]) -> bool {
    let same_card = |other: &&PciDevice| match (&device.parent, &other.parent) {
        (Some(port), Some(other)) => port == other,
        _ => card(&device.address) == card(&other.address),
    };
    is_virtual(device)
        && all.iter().filter(|other| is_port(other) && !is_virtual(other)).any(|other| same_card(&other))
}

fn is_virtual(device: &PciDevice) -> bool {
    device.name.known().is_some_and(|name| name.contains("Virtual Function"))
}

/// Chips that have all of their ports in one function; others have a function for each port, of which a listing, or a
/// virtual machine, may have one.
const SEVERAL_PORTS_A_FUNCTION: [&str; 5] = ["ConnectX-2", "ConnectX-3", "MT26448", "MT27500", "MT27520"];

/// One, or as many as the name of the card has where it is all in one function; each is called by the address and its
/// number.
fn ports(device: &PciDevice, all: &[PciDevice]) -> Vec<Nic> {
    let same_card = |other: &&PciDevice| is_port(other) && card(&other.address) == card(&device.address);
    let functions = all.iter().filter(same_card).count().max(1);
    let names = [device.card_name.as_deref(), device.name.known().map(String::as_str)];
    let named = names.into_iter().flatten().find_map(named_rate::ports).map_or(1, |ports| ports as usize);
    let one = port(device);
    let chip = device.name.known().map_or("", String::as_str);
    let shares = SEVERAL_PORTS_A_FUNCTION.iter().any(|family| chip.contains(family));
    match named / functions {
        several if several < 2 || !shares => vec![one],
        several => (0..several)
            .map(|number| Nic { name: format!("{}/{number}", device.address), ..one.clone() })
            .collect(),
    }
}

fn port(device: &PciDevice) -> Nic {
    let infiniband = device.class.known().is_some_and(|class| class >> 8 == INFINIBAND);
    let names = [device.card_name.as_deref(), device.name.known().map(String::as_str)];
    let found = names.into_iter().flatten().find_map(|name| named_rate::of_name(name, infiniband));
    let why = match (found, device.name.known()) {
        (Some(NamedRate::Family(slowest, fastest)), _) => {
            let gigabits = |rate: u64| rate / 1_000_000_000;
            format!(
                "the name has rates of {} to {} Gb/s, of a family of chips",
                gigabits(slowest),
                gigabits(fastest)
            )
        }
        (_, Some(name)) => format!("the name “{name}” has no rate in it"),
        (_, None) => "neither an interface nor the name of the card is listed".into(),
    };
    let rate = match found {
        Some(NamedRate::One(rate)) => Some(rate),
        Some(NamedRate::Family(..)) | None => None,
    };
    Nic {
        name: device.address.clone(),
        speed_bits_per_second: Fact::from_option(rate, why),
        node: device.node.clone(),
        driver: device.driver.clone(),
        pci: Some(device.address.clone()),
        by_class: true,
        ..Nic::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(address: &str, class: u32, name: &str) -> PciDevice {
        PciDevice {
            address: address.into(),
            class: Fact::Known(class),
            name: Fact::Known(name.into()),
            ..PciDevice::default()
        }
    }

    fn added(pci: Vec<PciDevice>, nics: Vec<Nic>) -> Vec<(String, Option<u64>)> {
        let mut machine = Machine { pci, nics, ..Machine::default() };
        add(&mut machine, false);
        let speed = |nic: &Nic| nic.speed_bits_per_second.known().copied();
        machine.nics.iter().filter(|nic| nic.by_class).map(|nic| (nic.name.clone(), speed(nic))).collect()
    }

    #[test]
    fn a_function_without_an_interface_is_a_port() {
        let pci = vec![
            function("0000:04:00.0", 0x02_0000, "82599ES 10-Gigabit SFI/SFP+ Network Connection"),
            function("0000:04:00.1", 0x02_0000, "82599ES 10-Gigabit SFI/SFP+ Network Connection"),
            function("0000:05:00.0", 0x02_0700, "MT28908 Family [ConnectX-6]"),
            function("0000:06:00.0", 0x02_8000, "Wireless 7265"),
        ];
        let eth = Nic { name: "eth0".into(), pci: Some("0000:04:00.0".into()), ..Nic::default() };
        let found = added(pci.clone(), vec![eth.clone()]);
        assert_eq!(found, [("0000:04:00.1".into(), Some(10_000_000_000)), ("0000:05:00.0".into(), None)]);
        let mut listed = Machine { pci, nics: vec![eth], ..Machine::default() };
        add(&mut listed, true);
        assert_eq!(listed.nics.len(), 1);
    }

    #[test]
    fn a_virtual_function_counts_only_in_a_guest() {
        let port = function("0000:81:00.0", 0x02_0000, "Ethernet Controller E810-C for QSFP 100GbE");
        let virtual_one = function("0000:81:01.0", 0x02_0000, "Ethernet Adaptive Virtual Function");
        let below = |device: PciDevice| PciDevice { parent: Some("0000:80:01.0".into()), ..device };
        let names = |all: Vec<PciDevice>| added(all, Vec::new()).into_iter().map(|(name, _)| name).collect();
        let host: Vec<String> = names(vec![below(port), below(virtual_one.clone())]);
        assert_eq!(host, ["0000:81:00.0"]);
        let guest: Vec<String> = names(vec![virtual_one]);
        assert_eq!(guest, ["0000:81:01.0"]);
    }

    #[test]
    fn a_function_handed_to_a_guest_is_no_port() {
        let handed = PciDevice {
            driver: Fact::Known("vfio-pci".into()),
            ..function("0000:04:00.0", 0x02_0000, "10GbE")
        };
        assert!(added(vec![handed], Vec::new()).is_empty());
    }

    #[test]
    fn the_cards_name_comes_before_the_chips() {
        let card = PciDevice {
            card_name: Some("ConnectX-6 Dx EN adapter card, 25GbE".into()),
            ..function("0000:04:00.0", 0x02_0000, "MT2892 Family [ConnectX-6 Dx] 100GbE")
        };
        assert_eq!(added(vec![card], Vec::new())[0].1, Some(25_000_000_000));
    }

    #[test]
    fn two_ports_in_one_function_are_two() {
        let card = |functions: &[&str]| {
            let name = "Ethernet 10Gb/40Gb 2-port 544+FLR-QSFP Adapter";
            let one = |address: &&str| PciDevice {
                card_name: Some(name.into()),
                ..function(address, 0x02_0000, "MT27520 Family [ConnectX-3 Pro]")
            };
            added(functions.iter().map(one).collect(), Vec::new())
        };
        let rate = Some(40_000_000_000);
        assert_eq!(
            card(&["0000:04:00.0"]),
            [("0000:04:00.0/0".into(), rate), ("0000:04:00.0/1".into(), rate)]
        );
        let both = ["0000:04:00.0", "0000:04:00.1"];
        assert_eq!(card(&both), both.map(|address| (address.to_string(), rate)));
    }

    #[test]
    fn a_family_of_chips_has_no_rate() {
        let name = "AMD Solarflare XtremeScale SFC9250 10/25/40/50/100G Ethernet Controller";
        let nic = port(&function("0000:01:00.0", 0x02_0000, name));
        assert!(nic.speed_bits_per_second.why().is_some_and(|why| why.contains("10 to 100 Gb/s")));
    }
}
