//! Which interface and which local address a packet to a peer takes.

use super::route_table;
use crate::probe::machine::{Machine, Nic};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::route::{RouteQuery, interface_to};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Any port does: connecting a UDP socket looks the route up and sends nothing. 9 is “discard”.
const PORT: u16 = 9;

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
    let routes = route_table::read(sysroot);
    let Some(route) = route_table::best(&routes, peer) else {
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
        .find(|(address, prefix)| route_table::contains(*address, *prefix, next))
        .or_else(|| same_family().next());
    match local {
        Some((address, _)) => Fact::Known((nic.name.clone(), *address)),
        None => Fact::unknown(format!("{} has no address of the kind of {peer}", nic.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use linerate_testing::Tree;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn recorded_routes() {
        let tree = Tree::new(&[
            ("proc/net/route", route_table::tests::ROUTES),
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
        assert_eq!(
            to("203.0.113.1"),
            over("eth1", "198.51.100.7"),
            "the default route with the lower metric"
        );
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
}
