//! Whose connections count as one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What counts as one origin: an IPv4 address, or an IPv6 network of 64 bits, for a host can have all addresses of it.
pub fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// An IPv4 address that came through an IPv6 socket, as IPv4; a link-local IPv6 address keeps its interface.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => (v4, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_and_an_address_of_ipv4_is() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(origin(address("2001:db8::1")), origin(address("2001:db8::ffff:2")));
        assert_ne!(origin(address("2001:db8::1")), origin(address("2001:db8:0:1::1")));
        assert_ne!(origin(address("192.0.2.1")), origin(address("192.0.2.2")));
        assert_eq!(origin(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }
}
