//! The kernel's routes as `/proc/net` shows them: `route` (IPv4) and `ipv6_route`.

use linerate_facts::sysroot::Sysroot;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// RTF_GATEWAY and RTF_REJECT of `include/uapi/linux/route.h`.
const GATEWAY: u32 = 0x0002;
const REJECT: u32 = 0x0200;

/// One route that sends packets out of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Interface name.
    pub interface: String,
    /// Network address.
    pub network: IpAddr,
    /// Bits of the network part.
    pub prefix: u8,
    /// Next hop; `None` where the network is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Lower is preferred.
    pub metric: u32,
}

/// All routes of the main tables; what cannot be read is left out.
pub(crate) fn read(sysroot: &Sysroot) -> Vec<Route> {
    let v4 = sysroot.text("/proc/net/route").unwrap_or_default();
    let v6 = sysroot.text("/proc/net/ipv6_route").unwrap_or_default();
    v4.lines().skip(1).filter_map(parse_v4).chain(v6.lines().filter_map(parse_v6)).collect()
}

/// The route that a packet to `peer` takes: the longest prefix, then the lowest metric. Policy routing is not
/// seen here.
pub(crate) fn best(routes: &[Route], peer: IpAddr) -> Option<&Route> {
    routes
        .iter()
        .filter(|route| contains(route.network, route.prefix, peer))
        .max_by_key(|route| (route.prefix, std::cmp::Reverse(route.metric)))
}

/// `address` is in the network; never across IPv4 and IPv6.
pub fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}

/// `eth0 000200C0 00000000 0001 0 0 0 00FFFFFF …`: addresses are 32-bit words in the byte order of the
/// machine, which is little-endian on every server that linerate runs on.
fn parse_v4(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [interface, network, gateway, flags, _, _, metric, mask, ..] = words.as_slice() else { return None };
    let address =
        |word: &str| u32::from_str_radix(word, 16).ok().map(|bits| Ipv4Addr::from(bits.swap_bytes()));
    let flags = u32::from_str_radix(flags, 16).ok()?;
    if flags & REJECT != 0 {
        return None;
    }
    let gateway = address(gateway)?;
    Some(Route {
        interface: interface.to_string(),
        network: IpAddr::V4(address(network)?),
        prefix: address(mask)?.to_bits().leading_ones() as u8,
        gateway: (flags & GATEWAY != 0).then_some(IpAddr::V4(gateway)),
        metric: metric.parse().ok()?,
    })
}

/// `DEST LEN SOURCE LEN NEXTHOP METRIC REFS USE FLAGS INTERFACE`, all hexadecimal.
fn parse_v6(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [network, prefix, _, _, gateway, metric, _, _, flags, interface] = words.as_slice() else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    // Routes over `lo` are those to own addresses and the rejecting default of every table.
    if flags & REJECT != 0 || *interface == "lo" {
        return None;
    }
    let gateway = ipv6(gateway)?;
    Some(Route {
        interface: interface.to_string(),
        network: IpAddr::V6(ipv6(network)?),
        prefix: u8::from_str_radix(prefix, 16).ok()?,
        gateway: (flags & GATEWAY != 0).then_some(IpAddr::V6(gateway)),
        metric: u32::from_str_radix(metric, 16).ok()?,
    })
}

/// 32 hexadecimal digits without colons.
pub(crate) fn ipv6(digits: &str) -> Option<Ipv6Addr> {
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    /// Two interfaces, a default route over each, and the interface routes.
    pub(crate) const ROUTES: &str = "Iface\tDestination\tGateway \
                              \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth1\t00000000\t016433C6\t0003\t0\t0\t50\t00000000\t0\t0\t0\n\
        eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        eth1\t006433C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        *\t000000E0\t00000000\t0200\t0\t0\t0\t000000F0\t0\t0\t0\n";

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_longest_prefix_then_the_lowest_metric() {
        let tree = Tree::new(&[
            ("proc/net/route", ROUTES),
            (
                "proc/net/ipv6_route",
                "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 \
                 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n\
                 00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                 fd000000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
                 00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
            ),
        ]);
        let routes = read(&tree.sysroot());
        assert_eq!(routes.len(), 6, "the rejecting ones are left out");
        let to = |peer: &str| best(&routes, ip(peer)).map(|r| (r.interface.as_str(), r.gateway));
        assert_eq!(to("192.0.2.9"), Some(("eth0", None)));
        assert_eq!(to("198.51.100.9"), Some(("eth1", None)));
        assert_eq!(to("203.0.113.1"), Some(("eth1", Some(ip("198.51.100.1")))));
        assert_eq!(to("fd00::5"), Some(("eth0", None)));
        assert_eq!(to("2001:db8::1"), Some(("eth0", Some(ip("fd00::1")))));
    }

    #[test]
    fn networks() {
        assert!(contains(ip("0.0.0.0"), 0, ip("10.1.2.3")));
        assert!(contains(ip("10.0.0.0"), 8, ip("10.1.2.3")));
        assert!(!contains(ip("10.0.0.0"), 16, ip("10.1.2.3")));
        assert!(contains(ip("10.1.2.3"), 255, ip("10.1.2.3")), "an absurd prefix is the longest");
        assert!(!contains(ip("::"), 0, ip("10.1.2.3")));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left_out(line in ".{0,120}", hex in "[0-9a-fA-F \\t]{0,120}") {
            let _ = (parse_v4(&line), parse_v6(&line), parse_v4(&hex), parse_v6(&hex));
        }
    }
}
