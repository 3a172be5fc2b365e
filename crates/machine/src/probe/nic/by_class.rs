//! Network cards of a machine whose interfaces nobody listed: each PCI function of the classes 0200 (Ethernet)
//! and 0207 (InfiniBand) is a port. Its rate is the one in its name: `82599ES 10-Gigabit SFI/SFP+`, `XL710 for 40GbE QSFP+`,
//! `ConnectX-6 Dx EN adapter card, 100GbE`; where the name has none, it is unknown.

use crate::probe::in_order;
use crate::probe::machine::{Machine, Nic, PciDevice};
use crate::topology::card;
use linerate_facts::fact::Fact;
use std::collections::BTreeSet;

const ETHERNET: u32 = 0x0200;
const INFINIBAND: u32 = 0x0207;
/// Drivers that hand a function to a virtual machine or to a program: the host sends nothing over it.
const HANDED_ON: [&str; 4] = ["vfio-pci", "pci-stub", "igb_uio", "uio_pci_generic"];

/// Chips that have all of their ports in one function; others have a function for each port, of which a listing, or a
/// virtual machine, may have one.
const SEVERAL_PORTS_A_FUNCTION: [&str; 5] = ["ConnectX-2", "ConnectX-3", "MT26448", "MT27500", "MT27520"];

/// Rates that a port can have, in Mb/s: `82571GB` is not a rate.
const PORT_RATES: [u64; 15] = [
    10, 100, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000, 400_000,
    800_000,
];
/// What is behind a number of Gb/s.
const GIGABITS: [&str; 9] = ["g", "gb", "gbe", "gbit", "gbps", "gbase", "gbaset", "gige", "gigabit"];
/// InfiniBand's generations at four lanes, data bits per second in Mb/s (InfiniBand architecture
/// specification, volume 1; QDR codes 8b/10b, FDR 64b/66b).
const INFINIBAND_RATES: [(&str, u64); 6] = [
    ("QDR", 32_000),
    ("FDR", 54_545),
    ("EDR", 100_000),
    ("HDR", 200_000),
    ("NDR", 400_000),
    ("XDR", 800_000),
];

/// Rates of this and more are of one kind of port each: a chip that has three and more of them is sold on several cards.
const LEAST_OF_FAMILY: u64 = 10_000;
const FAMILY: usize = 3;

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

/// One, or as many as the name of the card has where it is all in one function; each is called by the address and its
/// number.
fn ports(device: &PciDevice, all: &[PciDevice]) -> Vec<Nic> {
    let same_card = |other: &&PciDevice| is_port(other) && card(&other.address) == card(&device.address);
    let functions = all.iter().filter(same_card).count().max(1);
    let names = [device.card_name.as_deref(), device.name.known().map(String::as_str)];
    let named = names.into_iter().flatten().find_map(named_ports).map_or(1, |ports| ports as usize);
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
    let found = names.into_iter().flatten().find_map(|name| named_rate(name, infiniband));
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

/// What a name says of the rate of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedRate {
    /// Bits per second.
    One(u64),
    /// A family of chips; which of them it is, the name does not say: from the slowest to the fastest.
    Family(u64, u64),
}

/// What a name says of the rate of a port, if anything.
fn named_rate(name: &str, infiniband: bool) -> Option<NamedRate> {
    let mut rates: Vec<u64> = name.split_whitespace().flat_map(listed).collect();
    rates.sort_unstable();
    rates.dedup();
    match rates.as_slice() {
        [slowest, .., fastest] if rates.len() >= FAMILY => {
            Some(NamedRate::Family(slowest * 1_000_000, fastest * 1_000_000))
        }
        _ => bits_per_second(name, infiniband).map(NamedRate::One),
    }
}

/// The rates of a word that lists several, in Mb/s: `10/25/40/50/100G`, `10Gb/25Gb/50Gb`.
fn listed(word: &str) -> Vec<u64> {
    let parts: Vec<(Option<f64>, String)> = word.split('/').map(number).collect();
    let in_gigabits = parts.last().is_some_and(|(_, unit)| GIGABITS.contains(&unit.as_str()));
    let rate = |(number, unit): &(Option<f64>, String)| {
        let of_unit = unit.is_empty() || GIGABITS.contains(&unit.as_str());
        port_rate((*number)? * 1e3).filter(|rate| of_unit && *rate >= LEAST_OF_FAMILY)
    };
    if in_gigabits { parts.iter().filter_map(rate).collect() } else { Vec::new() }
}

/// Ports of the card that a name mentions: `Dual-port`, `2-port`, `Quad Port`.
fn named_ports(name: &str) -> Option<u32> {
    let words = name.to_ascii_lowercase().replace(['-', ',', ';'], " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let at = words.iter().position(|word| matches!(*word, "port" | "ports"))?;
    match *words.get(at.checked_sub(1)?)? {
        "dual" | "two" | "2" => Some(2),
        "quad" | "four" | "4" => Some(4),
        "single" | "one" | "1" => Some(1),
        _ => None,
    }
}

/// The fastest rate of a port that a name mentions, bits per second.
fn bits_per_second(name: &str, infiniband: bool) -> Option<u64> {
    let words: Vec<&str> = name.split(|c: char| c.is_whitespace() || "[](),:;\"".contains(c)).collect();
    let parts: Vec<&str> =
        words.iter().flat_map(|word| word.split(['/', '-'])).filter(|part| !part.is_empty()).collect();
    let own = (0..parts.len()).filter_map(|at| part(&parts, at));
    let generations = INFINIBAND_RATES.iter().filter(|(word, _)| infiniband && parts.contains(word));
    let plain = words.iter().filter(|word| word.starts_with("10/100")).filter_map(|word| megabits(word));
    let fastest = own.chain(generations.map(|(_, rate)| *rate)).chain(plain).max();
    fastest.and_then(|rate| rate.checked_mul(1_000_000))
}

/// Mb/s of one part of a word, with the next where the unit is a word of its own.
fn part(parts: &[&str], at: usize) -> Option<u64> {
    let (number, unit) = number(parts[at]);
    let next = parts.get(at + 1).map(|next| next.to_ascii_lowercase()).unwrap_or_default();
    let before = at.checked_sub(1).map(|before| parts[before]).unwrap_or_default();
    match (number, unit.as_str()) {
        (Some(number), "") if GIGABITS.contains(&next.as_str()) => port_rate(number * 1e3),
        (Some(number), unit) if GIGABITS.contains(&unit) => port_rate(number * 1e3),
        (Some(number), "base" | "baset" | "basetx") => port_rate(number),
        (None, "gigabit" | "gbe")
            if before.parse::<f64>().is_err() && !before.eq_ignore_ascii_case("multi") =>
        {
            Some(1_000)
        }
        (None, "fast") if next == "ethernet" => Some(100),
        _ => None,
    }
}

/// `10/100/1000BASE-T`: Mb/s without a unit.
fn megabits(word: &str) -> Option<u64> {
    word.split('/').filter_map(|part| port_rate(number(part).0?)).max()
}

/// The number that a part begins with, and the letters behind it.
fn number(part: &str) -> (Option<f64>, String) {
    let end = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
    (part[..end].parse().ok(), part[end..].to_ascii_lowercase())
}

fn port_rate(megabits: f64) -> Option<u64> {
    PORT_RATES.into_iter().find(|rate| *rate as f64 == megabits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn names_of_real_cards() {
        let rates = [
            ("Intel Corporation 82598EB 10-Gigabit AF Network Connection", Some(10.0)),
            ("Intel Corporation 82599ES 10-Gigabit SFI/SFP+ Network Connection", Some(10.0)),
            ("Intel Corporation Ethernet Controller XL710 for 40GbE QSFP+", Some(40.0)),
            ("Intel Corporation Ethernet Controller 10G X550T", Some(10.0)),
            ("Intel Corporation Ethernet Connection X552/X557-AT 10GBASE-T", Some(10.0)),
            ("Intel Corporation 82571EB/82571GB Gigabit Ethernet Controller", Some(1.0)),
            ("Mellanox Technologies ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56", Some(100.0)),
            ("MT26428 [ConnectX VPI PCIe 2.0 5GT/s - IB QDR / 10GigE]", Some(10.0)),
            ("Broadcom Inc. BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller", Some(25.0)),
            ("Broadcom Corporation NetXtreme BCM5720 2-port Gigabit Ethernet PCIe", Some(1.0)),
            ("Broadcom Corporation NetXtreme II BCM57810 10 Gigabit Ethernet", Some(10.0)),
            ("Realtek Semiconductor Co., Ltd. RTL8125 2.5GbE Controller", Some(2.5)),
            ("Realtek RTL-8100/8101L/8139 PCI Fast Ethernet Adapter", Some(0.1)),
            ("RTL8101/2/6E PCI Express 10/100 Ethernet", Some(0.1)),
            ("Solarflare SFC9220 10/40G Ethernet Controller", Some(40.0)),
            ("Mellanox Technologies MT2892 Family [ConnectX-6 Dx]", None),
            ("Intel Corporation Ethernet Controller E810-C for QSFP", None),
            ("Red Hat, Inc. Virtio network device", None),
            ("Amazon.com, Inc. Elastic Network Adapter (ENA)", None),
            ("Broadcom Inc. NetXtreme 5719 1.5Gb/s and 3GB cache", None),
            ("", None),
        ];
        for (name, gigabits) in rates {
            let bits = gigabits.map(|gigabits: f64| (gigabits * 1e9) as u64);
            assert_eq!(bits_per_second(name, false), bits, "{name}");
        }
    }

    #[test]
    fn a_name_with_three_rates_and_more_is_of_a_family() {
        let giga = 1_000_000_000;
        let family = |name: &str| named_rate(name, false);
        let solarflare = "AMD Solarflare XtremeScale SFC9250 10/25/40/50/100G Ethernet Controller";
        assert_eq!(family(solarflare), Some(NamedRate::Family(10 * giga, 100 * giga)));
        let broadcom = "BCM57508 NetXtreme-E 10Gb/25Gb/40Gb/50Gb/100Gb/200Gb Ethernet";
        assert_eq!(family(broadcom), Some(NamedRate::Family(10 * giga, 200 * giga)));
        assert_eq!(family("Broadcom BCM57414 10Gb/25Gb"), Some(NamedRate::One(25 * giga)));
        assert_eq!(family("NetXtreme 10/100/1000BASE-T"), Some(NamedRate::One(giga)));
        assert_eq!(family("Intel Corporation Ethernet Controller E810-C for QSFP"), None);
    }

    #[test]
    fn ports_of_a_card() {
        assert_eq!(named_ports("ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56"), Some(2));
        assert_eq!(named_ports("Ethernet 10Gb/40Gb 2-port 544+FLR"), Some(2));
        assert_eq!(named_ports("PRO/1000 PT Quad Port Server Adapter"), Some(4));
        assert_eq!(
            (named_ports("5520 I/O Hub to ESI Port"), named_ports("Port"), named_ports("")),
            (None, None, None)
        );
    }

    #[test]
    fn infiniband_by_its_generation() {
        let name = "MT26428 [ConnectX VPI PCIe 2.0 5GT/s - IB QDR / 10GigE]";
        assert_eq!(bits_per_second(name, true), Some(32_000_000_000));
        assert_eq!(bits_per_second("ConnectX-6 VPI adapter, HDR", true), Some(200_000_000_000));
        assert_eq!(bits_per_second("ConnectX-6 VPI adapter, HDR", false), None);
    }

    proptest! {
        #[test]
        fn no_name_makes_a_panic(name in "\\PC{0,60}") {
            let _ = (named_rate(&name, true), named_ports(&name));
        }
    }
}
