//! Addresses of the network interfaces: asked from the kernel on the live system, put together from
//! `/proc/net` in a recorded tree.

use super::route::{self, Route};
use linerate_facts::sysroot::Sysroot;
use std::net::{IpAddr, Ipv4Addr};

/// One address of an interface, with the bits of its network part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assigned {
    pub interface: String,
    pub address: IpAddr,
    pub prefix: u8,
}

/// All addresses, IPv4 before IPv6.
pub(crate) fn read(sysroot: &Sysroot) -> Vec<Assigned> {
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
    let mut all = assign(&local, &route::read_routes(sysroot));
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
            let route = route::best_route(&links, address)?;
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
        address: IpAddr::V6(route::ipv6(address)?),
        prefix: u8::from_str_radix(prefix, 16).ok().filter(|prefix| *prefix <= 128)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

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
            ("proc/net/route", route::tests::ROUTES),
            (
                "proc/net/if_inet6",
                "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                 00000000000000000000000000000001 01 80 10 80       lo\nrubbish\n",
            ),
        ]);
        let shown: Vec<String> = read(&tree.sysroot())
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
