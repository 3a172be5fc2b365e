//! Addresses of PCI functions, and which bridge is above which function when only bus numbers are known.

use std::collections::BTreeMap;

/// `domain:bus:device.function`, in the order of buses. Domains have more than four digits behind an Intel
/// VMD and on Hyper-V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::probe) struct Address {
    pub(in crate::probe) domain: u32,
    pub(in crate::probe) bus: u8,
    pub(in crate::probe) device: u8,
    pub(in crate::probe) function: u8,
}

impl Address {
    /// The whole form, as sysfs and `lspci -D` write it.
    pub(in crate::probe) fn parse(name: &str) -> Option<Self> {
        let (domain, rest) = name.split_once(':')?;
        let domain = hexadecimal(domain, 4..=8)?;
        Some(Address { domain, ..Address::parse_short(rest)? })
    }

    /// `bus:device.function`, as `lspci` writes it where there is one domain.
    pub(in crate::probe) fn parse_short(name: &str) -> Option<Self> {
        let (bus, rest) = name.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let byte = |text: &str, digits: usize| u8::try_from(hexadecimal(text, digits..=digits)?).ok();
        Some(Address {
            domain: 0,
            bus: byte(bus, 2)?,
            device: byte(device, 2)?,
            function: byte(function, 1)?,
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// A hexadecimal number without sign, of that many digits.
pub(in crate::probe) fn hexadecimal(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let plain = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(text, 16).ok())?
}

/// Buses of a bridge, from its header (PCI-to-PCI bridge architecture specification, 3.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buses {
    /// The bus that the bridge is on, as its register says.
    pub primary: u8,
    /// The bus right behind it.
    pub secondary: u8,
    /// The last bus behind it.
    pub subordinate: u8,
}

/// The bridge above each function that has one, from the bus numbers of the bridges.
///
/// A bus belongs to the bridge that calls it its secondary bus, else (virtual functions spill over to the
/// next number) to the one with the narrowest range around it. Buses are numbered downwards, so a bridge
/// whose secondary bus is not after its own is not set up and has nothing behind it. That also rules out a
/// ring.
pub(in crate::probe) fn parents(functions: &BTreeMap<Address, Option<Buses>>) -> BTreeMap<Address, Address> {
    let mut bridges: BTreeMap<u32, Vec<(Address, Buses)>> = BTreeMap::new();
    for (address, buses) in functions {
        let Some(buses) = buses else { continue };
        if buses.secondary > address.bus && buses.subordinate >= buses.secondary {
            bridges.entry(address.domain).or_default().push((*address, *buses));
        }
    }
    let mut above: BTreeMap<(u32, u8), Option<Address>> = BTreeMap::new();
    let mut parents = BTreeMap::new();
    for address in functions.keys() {
        let bridge = *above.entry((address.domain, address.bus)).or_insert_with(|| {
            let around =
                |(_, buses): &&(Address, Buses)| (buses.secondary..=buses.subordinate).contains(&address.bus);
            let candidates = bridges.get(&address.domain).into_iter().flatten().filter(around);
            candidates
                .min_by_key(|(at, buses)| {
                    (buses.secondary != address.bus, buses.subordinate - buses.secondary, *at)
                })
                .map(|(at, _)| *at)
        });
        parents.extend(bridge.map(|bridge| (*address, bridge)));
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(name: &str) -> Address {
        Address::parse(name).expect("an address")
    }

    fn bridge(secondary: u8, subordinate: u8) -> Option<Buses> {
        Some(Buses { primary: 0, secondary, subordinate })
    }

    #[test]
    fn long_and_short_forms() {
        assert_eq!(at("0000:5f:03.0").to_string(), "0000:5f:03.0");
        assert_eq!(at("10000:00:04.0").to_string(), "10000:00:04.0");
        assert_eq!(Address::parse_short("5f:03.0"), Some(at("0000:5f:03.0")));
        for name in " 0:5f:03.0 0000:5f:3.0 0000:5f:03 0000:5f:03.x +000:5f:03.0 123456789:00:00.0".split(' ')
        {
            assert_eq!(Address::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_bus_belongs_to_the_bridge_next_to_it() {
        let functions = BTreeMap::from([
            (at("0000:00:03.0"), bridge(2, 5)),
            (at("0000:02:00.0"), bridge(3, 5)),
            (at("0000:03:00.0"), bridge(4, 4)),
            (at("0000:04:00.0"), None),
            // A virtual function on a bus that no bridge calls its own.
            (at("0000:05:10.0"), None),
            // Not set up: secondary bus 0.
            (at("0000:00:1e.0"), bridge(0, 0)),
            (at("0001:04:00.0"), None),
        ]);
        let found = parents(&functions);
        let above = |name: &str| found.get(&at(name)).map(Address::to_string);
        assert_eq!(above("0000:04:00.0").as_deref(), Some("0000:03:00.0"));
        assert_eq!(above("0000:03:00.0").as_deref(), Some("0000:02:00.0"));
        assert_eq!(above("0000:02:00.0").as_deref(), Some("0000:00:03.0"));
        assert_eq!(above("0000:05:10.0").as_deref(), Some("0000:02:00.0"));
        assert_eq!(above("0000:00:03.0"), None);
        assert_eq!(above("0001:04:00.0"), None, "another domain");
    }

    proptest! {
        #[test]
        fn any_name_is_an_address_or_not(name in "[0-9a-f:.é]{0,20}") {
            if let Some(address) = Address::parse(&name) {
                prop_assert_eq!(Address::parse(&address.to_string()), Some(address));
            }
        }

        #[test]
        fn no_numbers_make_a_ring(bridges in proptest::collection::vec(any::<[u8; 5]>(), 0..60)) {
            let functions: BTreeMap<Address, Option<Buses>> = bridges
                .into_iter()
                .map(|[bus, device, primary, secondary, subordinate]| {
                    let address = Address { domain: 0, bus: bus % 8, device: device % 32, function: 0 };
                    (address, Some(Buses { primary, secondary: secondary % 8, subordinate: subordinate % 8 }))
                })
                .collect();
            for (child, parent) in parents(&functions) {
                prop_assert!(parent.bus < child.bus, "{child} below {parent}");
            }
        }
    }
}
