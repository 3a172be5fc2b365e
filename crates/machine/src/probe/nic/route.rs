//! Addresses of the network interfaces (asked from the kernel on the live system, put together from `/proc/net` in a
//! recorded tree), and which interface and which local address a packet to a peer takes.
//!
//! In a recorded tree the kernel's routes are those that `/proc/net` shows: `route` (IPv4) and `ipv6_route`.

use crate::probe::machine::{Machine, Nic};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::addresses::{RouteQuery, interface_to};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Any port does: connecting a UDP socket looks the route up and sends nothing. 9 is “discard”.
const PORT: u16 = 9;

/// RTF_GATEWAY and RTF_REJECT of `include/uapi/linux/route.h`.
const GATEWAY: u32 = 0x0002;
const REJECT: u32 = 0x0200;

/// Interface name and local address that reach a peer. A peer that is this machine itself is reached over
/// loopback, whatever interface has the address.
///
/// On the live system the kernel is asked, policy routing included; from a recorded tree the main table is
/// read.
pub fn path_to(sysroot: &Sysroot, machine: &Machine, peer: IpAddr) -> Fact<(String, IpAddr)> {
    let peer = peer.to_canonical();
    if is_own(&machine.nics, peer) {
        let loopback = machine.nics.iter().find(|nic| nic.loopback).map_or("lo", |nic| &nic.name);
        return Fact::Known((loopback.to_string(), peer));
    }
    if let IpAddr::V6(v6) = peer
        && v6.is_unicast_link_local()
    {
        return Fact::unknown(format!("{peer} is on every link: give an address that names a network"));
    }
    if sysroot.is_live() { live(&machine.nics, peer) } else { recorded(sysroot, &machine.nics, peer) }
}

/// An address of this machine; of 127.0.0.0/8 every one is.
fn is_own(nics: &[Nic], peer: IpAddr) -> bool {
    peer.is_loopback() || nics.iter().any(|nic| nic.addresses.iter().any(|(address, _)| *address == peer))
}

fn live(nics: &[Nic], peer: IpAddr) -> Fact<(String, IpAddr)> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let asked = UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(peer, PORT))?;
        socket.local_addr()
    });
    let local = match asked {
        Ok(address) => address.ip().to_canonical(),
        Err(error) => return Fact::unknown(format!("no route to {peer}: {error}")),
    };
    // An address may be of another interface than the one that the route names.
    let ends = RouteQuery { local: (local, 0).into(), peer: (peer, PORT).into(), bound_to: 0 };
    let routed = interface_to(ends).ok().and_then(|name| nics.iter().find(|nic| nic.name == name));
    let holder = || nics.iter().find(|nic| nic.addresses.iter().any(|(address, _)| *address == local));
    match routed.or_else(holder) {
        Some(nic) => Fact::Known((nic.name.clone(), local)),
        None => Fact::unknown(format!("the route to {peer} starts at {local}, which no interface shows")),
    }
}

fn recorded(sysroot: &Sysroot, nics: &[Nic], peer: IpAddr) -> Fact<(String, IpAddr)> {
    let routes = read_routes(sysroot);
    let Some(route) = best_route(&routes, peer) else {
        return Fact::unknown(format!("the recorded routes do not lead to {peer}"));
    };
    let next = route.gateway.unwrap_or(peer);
    let Some(nic) = nics.iter().find(|nic| nic.name == route.interface) else {
        return Fact::unknown(format!(
            "the route to {peer} leaves by {}, which was not recorded",
            route.interface
        ));
    };
    let same_family = || nic.addresses.iter().filter(|(address, _)| address.is_ipv4() == peer.is_ipv4());
    let local = same_family()
        .find(|(address, prefix)| network_contains(*address, *prefix, next))
        .or_else(|| same_family().next());
    match local {
        Some((address, _)) => Fact::Known((nic.name.clone(), *address)),
        None => Fact::unknown(format!("{} has no address of the kind of {peer}", nic.name)),
    }
}

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
fn read_routes(sysroot: &Sysroot) -> Vec<Route> {
    let v4 = sysroot.text("/proc/net/route").unwrap_or_default();
    let v6 = sysroot.text("/proc/net/ipv6_route").unwrap_or_default();
    v4.lines().skip(1).filter_map(parse_v4).chain(v6.lines().filter_map(parse_v6)).collect()
}

/// The route that a packet to `peer` takes: the longest prefix, then the lowest metric. Policy routing is not
/// seen here.
fn best_route(routes: &[Route], peer: IpAddr) -> Option<&Route> {
    routes
        .iter()
        .filter(|route| network_contains(route.network, route.prefix, peer))
        .max_by_key(|route| (route.prefix, std::cmp::Reverse(route.metric)))
}

/// `address` is in the network; never across IPv4 and IPv6.
pub fn network_contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
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

/// One address of an interface, with the bits of its network part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assigned {
    pub interface: String,
    pub address: IpAddr,
    pub prefix: u8,
}

/// All addresses, IPv4 before IPv6.
pub(crate) fn read_addresses(sysroot: &Sysroot) -> Vec<Assigned> {
    if sysroot.is_live()
        && let Ok(found) = linerate_system::addresses::interface_addresses()
    {
        let mut all: Vec<Assigned> = found
            .into_iter()
            .map(|a| Assigned { interface: a.interface_name().into(), address: a.address, prefix: a.prefix })
            .collect();
        all.sort_by_key(|a| a.address.is_ipv6());
        return all;
    }
    let local = parse_fib_trie(&sysroot.text("/proc/net/fib_trie").unwrap_or_default());
    let mut all = assign(&local, &read_routes(sysroot));
    all.extend(sysroot.text("/proc/net/if_inet6").unwrap_or_default().lines().filter_map(parse_inet6));
    all
}

/// The machine's own IPv4 addresses: leaves of the trie with a `/32 host LOCAL` line below them.
fn parse_fib_trie(text: &str) -> Vec<Ipv4Addr> {
    let mut own = Vec::new();
    let mut leaf = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|--") {
            leaf = address.trim().parse().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(address) = leaf
            && !own.contains(&address)
        {
            own.push(address);
        }
    }
    own
}

/// The trie names no interface: it is that of the link route that holds the address, and so is the prefix.
fn assign(local: &[Ipv4Addr], routes: &[Route]) -> Vec<Assigned> {
    let links: Vec<Route> = routes.iter().filter(|r| r.gateway.is_none() && r.prefix > 0).cloned().collect();
    local
        .iter()
        .filter_map(|address| {
            if address.is_loopback() {
                return Some(Assigned { interface: "lo".into(), address: IpAddr::V4(*address), prefix: 8 });
            }
            let address = IpAddr::V4(*address);
            let route = best_route(&links, address)?;
            Some(Assigned { interface: route.interface.clone(), address, prefix: route.prefix })
        })
        .collect()
}

/// `fd00…02 04 40 00 82 eth0`: address, interface index, prefix length, scope, flags, name.
fn parse_inet6(line: &str) -> Option<Assigned> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [address, _, prefix, _, _, interface] = words.as_slice() else { return None };
    Some(Assigned {
        interface: interface.to_string(),
        address: IpAddr::V6(ipv6(address)?),
        prefix: u8::from_str_radix(prefix, 16).ok().filter(|prefix| *prefix <= 128)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn recorded_routes() {
        let tree = Tree::new(&[
            ("proc/net/route", tests::ROUTES),
            (
                "proc/net/fib_trie",
                "|-- 192.0.2.2\n/32 host LOCAL\n|-- 198.51.100.7\n/32 host LOCAL\n|-- 127.0.0.1\n/32 host \
                 LOCAL\n",
            ),
            ("sys/class/net/eth0/mtu", "1500"),
            ("sys/class/net/eth1/mtu", "9000"),
            ("sys/class/net/lo/type", "772"),
        ]);
        let machine = probe(&tree.sysroot());
        let to = |peer: &str| path_to(&tree.sysroot(), &machine, ip(peer));
        let over = |nic: &str, local: &str| Fact::Known((nic.to_string(), ip(local)));
        assert_eq!(to("192.0.2.50"), over("eth0", "192.0.2.2"));
        assert_eq!(to("::ffff:192.0.2.50"), over("eth0", "192.0.2.2"));
        assert_eq!(to("203.0.113.1"), over("eth1", "198.51.100.7"), "the default route of lower metric");
        assert_eq!(to("198.51.100.7"), over("lo", "198.51.100.7"), "an address of our own");
        assert_eq!(to("127.1.2.3"), over("lo", "127.1.2.3"));
        assert!(to("fe80::1").why().is_some_and(|why| why.contains("every link")));
        assert!(to("2001:db8::1").why().is_some_and(|why| why.contains("do not lead")));
    }

    #[test]
    fn loopback_is_found_live() {
        let live = Sysroot::live();
        let machine = probe(&live);
        assert_eq!(path_to(&live, &machine, ip("127.0.0.1")), Fact::Known(("lo".into(), ip("127.0.0.1"))));
        for nic in machine.nics.iter().filter(|nic| !nic.loopback) {
            for (own, _) in &nic.addresses {
                assert_eq!(path_to(&live, &machine, *own).known().map(|path| path.0.as_str()), Some("lo"));
            }
        }
    }

    #[test]
    fn a_route_through_a_real_interface_names_it() {
        let live = Sysroot::live();
        let machine = probe(&live);
        // TEST-NET-3 goes where the default route goes, if there is one; nothing is sent.
        if let Fact::Known((nic, local)) = path_to(&live, &machine, ip("203.0.113.1")) {
            let nic = machine.nic(&nic).expect("an interface of the machine");
            assert!(nic.addresses.iter().any(|(address, _)| *address == local));
        }
    }

    /// Two interfaces, a default route over each, and the interface routes.
    const ROUTES: &str = "Iface\tDestination\tGateway \
                              \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth1\t00000000\t016433C6\t0003\t0\t0\t50\t00000000\t0\t0\t0\n\
        eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        eth1\t006433C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        *\t000000E0\t00000000\t0200\t0\t0\t0\t000000F0\t0\t0\t0\n";

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
        let routes = read_routes(&tree.sysroot());
        assert_eq!(routes.len(), 6, "the rejecting ones are left out");
        let to = |peer: &str| best_route(&routes, ip(peer)).map(|r| (r.interface.as_str(), r.gateway));
        assert_eq!(to("192.0.2.9"), Some(("eth0", None)));
        assert_eq!(to("198.51.100.9"), Some(("eth1", None)));
        assert_eq!(to("203.0.113.1"), Some(("eth1", Some(ip("198.51.100.1")))));
        assert_eq!(to("fd00::5"), Some(("eth0", None)));
        assert_eq!(to("2001:db8::1"), Some(("eth0", Some(ip("fd00::1")))));
    }

    #[test]
    fn networks() {
        assert!(network_contains(ip("0.0.0.0"), 0, ip("10.1.2.3")));
        assert!(network_contains(ip("10.0.0.0"), 8, ip("10.1.2.3")));
        assert!(!network_contains(ip("10.0.0.0"), 16, ip("10.1.2.3")));
        assert!(network_contains(ip("10.1.2.3"), 255, ip("10.1.2.3")), "an absurd prefix is the longest");
        assert!(!network_contains(ip("::"), 0, ip("10.1.2.3")));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left_out(line in ".{0,120}", hex in "[0-9a-fA-F \\t]{0,120}") {
            let _ = (parse_v4(&line), parse_v6(&line), parse_v4(&hex), parse_v6(&hex));
        }
    }

    const TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
        \x20    +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.0\n              /8 host LOCAL\n\
        \x20          |-- 127.0.0.1\n              /32 host LOCAL\n\
        \x20    +-- 192.0.2.0/24 2 0 2\n           |-- 192.0.2.0\n              /24 link UNICAST\n\
        \x20          |-- 192.0.2.2\n              /32 host LOCAL\n        |-- 192.0.2.255\n           /32 \
        link BROADCAST\n\
        \x20          |-- 203.0.113.77\n              /32 host LOCAL\n\
        Local:\n           |-- 192.0.2.2\n              /32 host LOCAL\n";

    #[test]
    fn a_recorded_tree_reports_addresses_through_trie_and_routes() {
        let tree = Tree::new(&[
            ("proc/net/fib_trie", TRIE),
            ("proc/net/route", ROUTES),
            (
                "proc/net/if_inet6",
                "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                 00000000000000000000000000000001 01 80 10 80       lo\nrubbish\n",
            ),
        ]);
        let shown: Vec<String> = read_addresses(&tree.sysroot())
            .iter()
            .map(|a| format!("{} {}/{}", a.interface, a.address, a.prefix))
            .collect();
        // 203.0.113.77 is on no interface's network: which one has it is not known.
        assert_eq!(shown, ["lo 127.0.0.1/8", "eth0 192.0.2.2/24", "eth0 fd00::2/64", "lo ::1/128"]);
    }

    proptest! {
        #[test]
        fn any_text_gives_addresses_or_none(lines in proptest::collection::vec("(\\|-- |/32 host \
            LOCAL|[0-9.]{0,16}|.{0,20})", 0..20)) {
            let _ = parse_fib_trie(&lines.join("\n"));
            for line in &lines {
                let _ = parse_inet6(line);
            }
        }
    }
}
