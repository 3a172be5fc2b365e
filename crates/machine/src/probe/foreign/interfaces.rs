//! `ip link` and `ip addr`, best with `-d`: interfaces, their addresses, and what they are built on.

use crate::probe::machine::{Machine, Nic};
use crate::probe::pci::address::Address;
use linerate_facts::counters::listed::interface_line;
use linerate_facts::fact::Fact;
use std::net::IpAddr;

/// Interfaces of one listing, addresses of one interface.
const MOST_INTERFACES: usize = 4096;
const MOST_ADDRESSES: usize = 256;

/// Kinds of interfaces without hardware, as `-d` writes them.
const VIRTUAL: [&str; 22] = [
    "veth",
    "bridge",
    "bond",
    "team",
    "vlan",
    "macvlan",
    "macvtap",
    "ipvlan",
    "dummy",
    "ifb",
    "tun",
    "vxlan",
    "geneve",
    "gre",
    "gretap",
    "ipip",
    "sit",
    "vrf",
    "wireguard",
    "vcan",
    "netkit",
    "openvswitch",
];

/// Interfaces in the order of their names.
pub(super) fn from_ip(text: &str) -> Option<Machine> {
    let mut nics: Vec<Nic> = Vec::new();
    let mut bonds: Vec<(String, String)> = Vec::new();
    let mut reserves: Vec<String> = Vec::new();
    let mut master = None;
    for line in text.lines() {
        if let Some((name, mtu)) = interface_line(line) {
            if nics.len() >= MOST_INTERFACES {
                break;
            }
            master = after(line, "master");
            nics.push(Nic {
                name: name.to_string(),
                mtu: Fact::from_option(mtu.and_then(|mtu| mtu.try_into().ok()), ABSENT),
                state: Fact::from_option(
                    after(line, "state").map(|state| state.to_ascii_lowercase()),
                    ABSENT,
                ),
                loopback: line.contains("<LOOPBACK"),
                driver: Fact::unknown(ABSENT),
                ..Nic::default()
            });
            continue;
        }
        let Some(nic) = nics.last_mut() else { continue };
        detail(line, nic);
        match (after(line, "bond_slave").is_some() && line.contains(" state BACKUP"), &master) {
            (true, Some(bond)) => {
                bonds.push((nic.name.clone(), bond.clone()));
            }
            _ if line.trim_start().starts_with("bond mode active-backup") => reserves.push(nic.name.clone()),
            _ => {}
        }
    }
    for (member, bond) in bonds.into_iter().filter(|(_, bond)| reserves.contains(bond)) {
        if let Some(nic) = nics.iter_mut().find(|nic| nic.name == member) {
            nic.standby_of = Some(bond);
        }
    }
    (!nics.is_empty()).then(|| Machine { nics, ..Machine::default() })
}

const ABSENT: &str = "ip does not report it: ip -d link shows more";

/// One line below an interface's first one.
fn detail(line: &str, nic: &mut Nic) {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("inet" | "inet6") if nic.addresses.len() < MOST_ADDRESSES => {
            let assigned = words.next().and_then(|text| {
                let (address, prefix) = text.split_once('/')?;
                Some((
                    address.parse::<IpAddr>().ok()?,
                    prefix.parse::<u8>().ok().filter(|prefix| *prefix <= 128)?,
                ))
            });
            nic.addresses.extend(assigned);
        }
        Some(kind) if VIRTUAL.contains(&kind) && nic.driver.known().is_none() => {
            nic.driver = Fact::Known(kind.to_string());
        }
        _ => {}
    }
    if nic.loopback {
        nic.driver = Fact::Known("loopback".into());
    }
    let parent = after(line, "parentdev").and_then(|parent| Address::parse(&parent));
    nic.pci = nic.pci.take().or(parent.map(|address| address.to_string()));
}

/// The word after another.
fn after(line: &str, word: &str) -> Option<String> {
    line.split_ascii_whitespace().skip_while(|other| *other != word).nth(1).map(str::to_string)
}
