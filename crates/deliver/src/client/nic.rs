//! A NIC of this host by which connections leave.

use linerate_facts::failure::Failure;
use linerate_machine::probe::network_contains;
use linerate_system::addresses::{InterfaceAddress, interface_addresses};
use std::net::IpAddr;

/// Found by its name, or by one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalNic {
    /// Connections are bound to the interface (SO_BINDTODEVICE).
    pub name: String,
    /// And to this address of it, where it was named by one.
    pub address: Option<IpAddr>,
    /// Its addresses, with the bits of their networks.
    networks: Vec<(IpAddr, u8)>,
}

impl LocalNic {
    /// The NIC that `--nic` names.
    pub fn find(text: &str) -> Result<Self, Failure> {
        let all = interface_addresses()
            .map_err(|error| Failure::Lacks(format!("--nic {text}: the addresses of this host: {error}")))?;
        LocalNic::among(text, &all)
    }

    fn among(text: &str, all: &[InterfaceAddress]) -> Result<Self, Failure> {
        let address: Option<IpAddr> = text.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_meant = |one: &&InterfaceAddress| match address {
            Some(address) => one.address == address,
            None => one.interface == text || one.interface_name() == text,
        };
        let Some(found) = all.iter().find(is_meant) else {
            let what = match address {
                Some(_) => "no NIC of this host has this address; `ip address` shows those that are there",
                None => "this host has no such NIC, or it has no address; `linerate probe` lists the NICs",
            };
            return Err(Failure::Lacks(format!("--nic {text}: {what}")));
        };
        let name = found.interface_name().to_string();
        let own = all.iter().filter(|one| one.interface_name() == name);
        Ok(LocalNic { networks: own.map(|one| (one.address, one.prefix)).collect(), name, address })
    }

    /// In a network of the NIC's own, without a router.
    pub(crate) fn is_connected_to(&self, peer: IpAddr) -> bool {
        self.networks.iter().any(|(own, prefix)| network_contains(*own, *prefix, peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<InterfaceAddress> {
        let one = |interface: &str, address: &str, prefix| InterfaceAddress {
            interface: interface.into(),
            address: address.parse().expect("an address"),
            prefix,
        };
        vec![
            one("lo", "127.0.0.1", 8),
            one("eth0", "192.0.2.7", 24),
            one("eth0:second", "198.51.100.7", 24),
            one("eth1", "2001:db8::7", 64),
        ]
    }

    #[test]
    fn a_nic_is_found_by_its_name_and_by_its_address() {
        let by_name = LocalNic::among("eth0", &all()).expect("eth0");
        assert_eq!((by_name.name.as_str(), by_name.address, by_name.networks.len()), ("eth0", None, 2));
        assert!(by_name.is_connected_to("198.51.100.9".parse().expect("an address")));
        assert!(!by_name.is_connected_to("203.0.113.9".parse().expect("an address")));
        for (text, name) in [("198.51.100.7", "eth0"), ("2001:db8::7", "eth1"), ("[2001:db8::7]", "eth1")] {
            let found = LocalNic::among(text, &all()).expect(text);
            assert!(found.name == name && found.address.is_some(), "{found:?}");
        }
    }

    #[test]
    fn a_nic_that_is_not_there_is_a_sentence() {
        for text in ["eth9", "192.0.2.8", "", "eth0 ", "[]"] {
            let failure = LocalNic::among(text, &all()).expect_err(text);
            let says = failure.to_string();
            assert!(
                matches!(failure, Failure::Lacks(_)) && says.contains(&format!("--nic {text}")),
                "{says}"
            );
        }
    }
}
