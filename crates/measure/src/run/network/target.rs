//! Where datagrams without a receiver may go: to an address of a network that the named NIC is connected to,
//! and nowhere else.

use linerate_facts::failure::Failure;
use linerate_machine::probe::network_contains;
use linerate_system::addresses::InterfaceAddress;
use std::net::{IpAddr, SocketAddr};

/// The discard protocol's port (RFC 863): what listens there, if anything does, throws away.
const DISCARD: u16 = 9;

/// Reads `ADDRESS[:PORT]`; a name is none, since what it leads to may change.
pub(super) fn parse(text: &str) -> Result<SocketAddr, Failure> {
    let alone = text.trim_start_matches('[').trim_end_matches(']');
    let address = text.parse().or_else(|_| alone.parse().map(|ip: IpAddr| SocketAddr::new(ip, DISCARD)));
    address.map_err(|_| {
        Failure::Usage(format!(
            "--no-receiver {text}: write an IP address of a connected network, such as 192.0.2.9 or \
             192.0.2.9:5004"
        ))
    })
}

/// The NIC's own address in the network of the target.
pub(super) fn local_address(to: IpAddr, nic: &str, all: &[InterfaceAddress]) -> Result<IpAddr, Failure> {
    let refused = |why: String| Err(Failure::Usage(format!("--no-receiver {to}: {why}")));
    let own: Vec<&InterfaceAddress> = all.iter().filter(|one| one.interface_name() == nic).collect();
    if own.is_empty() {
        return Err(Failure::Lacks(format!(
            "--nic {nic}: this host has no such NIC, or it has no address; `linerate probe` lists the NICs"
        )));
    }
    if to.is_multicast() || to.is_unspecified() || matches!(to, IpAddr::V4(four) if four.is_broadcast()) {
        return refused(
            "it is a multicast or broadcast address, which reaches many hosts: name one host's".into(),
        );
    }
    if to.is_loopback() || all.iter().any(|one| one.address == to) {
        return refused(format!(
            "it is an address of this host, and nothing would leave by {nic}: name one that the switch drops"
        ));
    }
    let Some(local) = own.iter().find(|one| is_in(to, one)) else {
        let networks: Vec<String> = own.iter().map(|one| format!("{}/{}", one.address, one.prefix)).collect();
        return refused(format!(
            "it is in no network that {nic} is connected to ({}), and nothing is sent through a gateway: name \
             an address of such a network",
            networks.join(", ")
        ));
    };
    if is_network_or_broadcast(to, local.prefix) {
        return refused(format!("it is the broadcast address of {nic}'s network: name one host's"));
    }
    Ok(local.address)
}

/// The bits below the prefix of an IPv4 address.
fn host_bits(prefix: u8) -> u32 {
    u32::MAX.checked_shr(prefix.into()).unwrap_or(0)
}

fn is_in(to: IpAddr, own: &InterfaceAddress) -> bool {
    // Link-local ones need their NIC in the address; a connected network has others.
    let needs_nic = matches!(to, IpAddr::V6(to) if to.is_unicast_link_local());
    !needs_nic && network_contains(own.address, own.prefix, to)
}

/// Of all bits 0 or 1; a network of two addresses has neither (RFC 3021).
fn is_network_or_broadcast(to: IpAddr, prefix: u8) -> bool {
    let IpAddr::V4(to) = to else { return false };
    let host = host_bits(prefix);
    prefix < 31 && [0, host].contains(&(to.to_bits() & host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<InterfaceAddress> {
        let one = |interface: &str, address: &str, prefix| InterfaceAddress {
            interface: interface.into(),
            address: address.parse().expect("an address"),
            prefix,
        };
        vec![
            one("eth0", "192.0.2.1", 24),
            one("eth0", "2001:db8::1", 64),
            one("eth0", "fe80::1", 64),
            one("eth0:backup", "203.0.113.17", 28),
            one("eth1", "198.51.100.2", 31),
            one("lo", "127.0.0.1", 8),
        ]
    }

    fn local(to: &str, nic: &str) -> Result<IpAddr, Failure> {
        local_address(parse(to).expect("an address").ip(), nic, &own())
    }

    #[test]
    fn only_a_host_of_a_connected_network_is_sent_to() {
        assert_eq!(local("192.0.2.9", "eth0").expect("it is near").to_string(), "192.0.2.1");
        assert_eq!(local("192.0.2.9:5004", "eth0").expect("it is near").to_string(), "192.0.2.1");
        assert_eq!(local("[2001:db8::9]:5004", "eth0").expect("it is near").to_string(), "2001:db8::1");
        assert_eq!(local("2001:db8::9", "eth0").expect("it is near").to_string(), "2001:db8::1");
        assert_eq!(local("203.0.113.18", "eth0").expect("it has a label").to_string(), "203.0.113.17");
        assert_eq!(local("198.51.100.3", "eth1").expect("it is near").to_string(), "198.51.100.2");
        for (to, nic, why) in [
            ("192.0.2.9", "eth9", "no such NIC"),
            ("203.0.113.1", "eth0", "through a gateway"),
            ("192.0.2.9", "eth1", "through a gateway"),
            ("fe80::9", "eth0", "through a gateway"),
            ("192.0.2.255", "eth0", "broadcast"),
            ("192.0.2.0", "eth0", "broadcast"),
            ("255.255.255.255", "eth0", "broadcast"),
            ("239.1.2.3", "eth0", "multicast"),
            ("ff02::1", "eth0", "multicast"),
            ("192.0.2.1", "eth0", "this host"),
            ("198.51.100.2", "eth0", "this host"),
            ("127.0.0.9", "lo", "this host"),
        ] {
            let message = local(to, nic).expect_err(to).to_string();
            assert!(message.contains(why), "{to}: {message}");
        }
        assert!(parse("switch.example").is_err());
        assert_eq!(parse("192.0.2.9").expect("an address").port(), 9);
    }
}
