//! Whose connections count as one, wherever strangers are given places.

use std::net::{IpAddr, Ipv6Addr};

/// What counts as one origin: an IPv4 address, or an IPv6 network of 64 bits, for a host can have all addresses of it.
pub fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Who has to go from a full room: the first of the origin that fills it most. So a flood from one network drives out itself.
pub fn most_crowding(origins: &[IpAddr]) -> Option<usize> {
    let crowd = |origin| origins.iter().filter(|other| **other == origin).count();
    let worst = origins.iter().map(|origin| crowd(*origin)).max()?;
    origins.iter().position(|origin| crowd(*origin) == worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_of_ipv6_is_one_and_an_address_of_ipv4_is() {
        assert_eq!(origin(address("2001:db8::1")), origin(address("2001:db8::ffff:2")));
        assert_ne!(origin(address("2001:db8::1")), origin(address("2001:db8:0:1::1")));
        assert_ne!(origin(address("192.0.2.1")), origin(address("192.0.2.2")));
        assert_eq!(origin(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }

    #[test]
    fn the_oldest_of_the_largest_crowd_goes() {
        let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
        assert_eq!(most_crowding(&[a, b, b]), Some(1));
        assert_eq!(most_crowding(&[a, b]), Some(0));
        assert_eq!(most_crowding(&[]), None);
    }
}
