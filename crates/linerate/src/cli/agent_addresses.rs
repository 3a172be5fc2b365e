//! By which addresses other hosts reach an agent: those of the fastest links first, for the first is mostly the
//! one that is meant, and a host's name mostly leads to its slowest.

use linerate_facts::units::show_bits_rate;
use linerate_machine::probe::{Machine, Nic};
use std::net::{IpAddr, SocketAddr};

/// One address of this host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AgentAddress {
    pub(super) address: SocketAddr,
    interface: String,
    /// Of its NIC; none: unknown.
    pub(super) bits_per_second: Option<u64>,
}

/// The addresses behind “every address”, fastest first, and among equals in the kernel's order. None where it
/// listens on named ones only: who named them knows them.
pub(super) fn ways_here(machine: &Machine, listening: &[SocketAddr]) -> Vec<AgentAddress> {
    let Some(open) = listening.iter().find(|address| address.ip().is_unspecified()) else {
        return Vec::new();
    };
    let mut ways: Vec<AgentAddress> =
        machine.nics.iter().filter(|nic| !nic.loopback).flat_map(|nic| ways_of(nic, *open)).collect();
    ways.sort_by_key(|way| std::cmp::Reverse(way.bits_per_second));
    ways
}

fn ways_of(nic: &Nic, open: SocketAddr) -> impl Iterator<Item = AgentAddress> {
    let is_reached = move |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => open.is_ipv6() && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let ips = nic.addresses.iter().map(|(ip, _)| *ip).filter(is_reached);
    let bits_per_second = nic.speed_bits_per_second.known().copied();
    ips.map(move |ip| AgentAddress {
        address: SocketAddr::new(ip, open.port()),
        interface: nic.name.clone(),
        bits_per_second,
    })
}

impl AgentAddress {
    /// `eth0, 100 Gb/s`.
    pub(super) fn link(&self) -> String {
        let bits = self.bits_per_second;
        let rate = bits.map_or("rate unknown".into(), |bits| show_bits_rate(bits as f64 / 8.0));
        format!("{}, {rate}", self.interface)
    }
}

/// A line for each.
pub(super) fn listed(ways: &[AgentAddress]) -> String {
    if ways.is_empty() {
        return String::new();
    }
    let width = ways.iter().map(|way| way.address.to_string().len()).max().unwrap_or_default();
    let line = |way: &AgentAddress| format!("  {:width$}  {}\n", way.address.to_string(), way.link());
    format!("reached at, the fastest first:\n{}", ways.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::fact::Fact;

    fn nic(name: &str, bits_per_second: Option<u64>, addresses: &[&str]) -> Nic {
        Nic {
            name: name.into(),
            loopback: name == "lo",
            speed_bits_per_second: Fact::from_option(bits_per_second, "virtual"),
            addresses: addresses.iter().map(|text| (text.parse().expect("an address"), 24)).collect(),
            ..Nic::default()
        }
    }

    #[test]
    fn the_fastest_link_is_first_and_what_others_do_not_reach_is_left_out() {
        let nics = vec![
            nic("lo", None, &["127.0.0.1", "::1"]),
            nic("veth", None, &["10.0.0.1"]),
            nic("eth0", Some(1_000_000_000), &["198.51.100.7", "fe80::1"]),
            nic("eth1", Some(100_000_000_000), &["192.0.2.7", "2001:db8::7"]),
        ];
        let machine = Machine { nics, ..Machine::default() };
        let at = |listen: &str| listed(&ways_here(&machine, &[listen.parse().expect("an address")]));
        let all = "reached at, the fastest first:\n  192.0.2.7:7411      eth1, 100 Gb/s\n  \
                   [2001:db8::7]:7411  eth1, 100 Gb/s\n  198.51.100.7:7411   eth0, 1.00 Gb/s\n  \
                   10.0.0.1:7411       veth, rate unknown\n";
        assert_eq!(at("[::]:7411"), all);
        assert!(!at("0.0.0.0:7411").contains("2001"), "no IPv6 there");
        assert_eq!(at("192.0.2.7:7411"), "");
    }
}
