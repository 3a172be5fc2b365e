//! `ip link` and `ip addr`, best with `-d`: interfaces, their addresses, and what they are built on.
//!
//! `ethtool` in its forms: settings, and `-i`, `-k`, `-g`, `-l`, `-c`, `-a`, `--show-fec`. Each is a part of
//! one interface.

use crate::probe::machine::{Machine, Nic};
use crate::probe::pci::address::Address;
use linerate_facts::counters::listed::interface_line;
use linerate_facts::fact::Fact;
use std::net::IpAddr;

/// Interfaces of one listing, addresses of one interface.
const MOST_INTERFACES: usize = 4096;
const MOST_ADDRESSES: usize = 256;

/// Kinds of interfaces without hardware, as `-d` writes them.
const VIRTUAL: &str = "veth bridge bond team vlan macvlan macvtap ipvlan dummy ifb tun vxlan geneve gre gretap ipip sit vrf \
    wireguard vcan netkit openvswitch";

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
        Some(kind) if VIRTUAL.split(' ').any(|known| known == kind) && nic.driver.known().is_none() => {
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

/// Lines of one listing: `-k` of the newest kernels has some seventy.
const MOST_LINES: usize = 4096;

/// Offloads that `ethtool -k` calls by a name of its own, and what the kernel calls them. Those without a name there are sums of
/// others.
const FEATURES: [(&str, &str); 12] = [
    ("rx-checksumming", "rx-checksum"),
    ("tx-checksumming", ""),
    ("scatter-gather", ""),
    ("tcp-segmentation-offload", ""),
    ("udp-fragmentation-offload", ""),
    ("generic-segmentation-offload", "tx-generic-segmentation"),
    ("generic-receive-offload", "rx-gro"),
    ("large-receive-offload", "rx-lro"),
    ("rx-vlan-offload", "rx-vlan-hw-parse"),
    ("tx-vlan-offload", "tx-vlan-hw-insert"),
    ("ntuple-filters", "rx-ntuple-filter"),
    ("receive-hashing", "rx-hashing"),
];

/// A listing whose first line names the interface: `Settings for eth0:`.
pub(super) fn from_ethtool(text: &str) -> Option<Machine> {
    let first = text.lines().next()?.strip_suffix(':')?;
    let (form, name) = first.split_once(" for ")?;
    let mut nic = nic_of_name(name)?;
    let lines: Vec<(&str, &str)> = text.lines().skip(1).take(MOST_LINES).filter_map(pair).collect();
    match form {
        "Settings" => settings(&mut nic, &lines, text),
        "Features" => features(&mut nic, &lines),
        "Ring parameters" => {
            let (rx, tx) = (now_and_most(&lines, "RX"), now_and_most(&lines, "TX"));
            nic.details.rx_ring = Fact::from_option(rx, NOT_OF_ETHTOOL);
            nic.details.tx_ring = Fact::from_option(tx, NOT_OF_ETHTOOL);
        }
        "Channel parameters" => {
            let sum = |a: Option<(u32, u32)>, b: Option<(u32, u32)>| match (a, b) {
                (Some(a), Some(b)) => Some((a.0.saturating_add(b.0), a.1.max(b.1))),
                (a, b) => a.or(b),
            };
            let channels = sum(now_and_most(&lines, "Combined"), now_and_most(&lines, "RX"));
            nic.details.channels = Fact::from_option(channels.filter(|(now, _)| *now > 0), NOT_OF_ETHTOOL);
        }
        "Coalesce parameters" => {
            let adaptive = value(&lines, "Adaptive RX").map(|words| words.starts_with("on"));
            nic.details.adaptive_rx = Fact::from_option(adaptive, NOT_OF_ETHTOOL);
            nic.details.rx_coalesce_us = Fact::from_option(
                value(&lines, "rx-usecs").and_then(|text| text.parse().ok()),
                NOT_OF_ETHTOOL,
            );
        }
        "Pause parameters" => {
            let on = |key: &str| value(&lines, key).map(|word| word == "on");
            nic.details.pause = Fact::from_option(on("RX").zip(on("TX")), NOT_OF_ETHTOOL);
        }
        "FEC parameters" => {
            let active = value(&lines, "Active FEC encoding").or(value(&lines, "Active FEC encodings"));
            nic.details.fec = Fact::from_option(active.map(str::to_ascii_lowercase), NOT_OF_ETHTOOL);
        }
        _ => return None,
    }
    Some(Machine { nics: vec![nic], ..Machine::default() })
}

const NOT_OF_ETHTOOL: &str = "ethtool does not report it";

fn nic_of_name(name: &str) -> Option<Nic> {
    let plain = !name.is_empty()
        && name.len() < 64
        && !name.contains(|letter: char| letter.is_control() || letter.is_whitespace());
    plain.then(|| Nic { name: name.to_string(), loopback: name == "lo", ..Nic::default() })
}

/// `ethtool -i`, which does not name the interface: by its prompt, its file or its function.
pub(super) fn from_driver(text: &str, interface: Option<&str>) -> Option<Machine> {
    let lines: Vec<(&str, &str)> = text.lines().take(64).filter_map(pair).collect();
    let known =
        |key: &str| value(&lines, key).filter(|text| !text.is_empty() && *text != "N/A" && *text != "n/a");
    let function = known("bus-info").and_then(Address::parse).map(|address| address.to_string());
    let mut nic = nic_of_name(interface.or(function.as_deref())?)?;
    let of = |key: &str| Fact::from_option(known(key).map(str::to_string), NOT_OF_ETHTOOL);
    nic.driver = of("driver");
    nic.details.firmware = of("firmware-version");
    nic.details.driver_version = of("version");
    nic.pci = function;
    Some(Machine { nics: vec![nic], ..Machine::default() })
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    Some((key.trim(), value.trim()))
}

fn value<'a>(lines: &[(&str, &'a str)], key: &str) -> Option<&'a str> {
    lines.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
}

/// The second of two values is what is set, the first the most that can be.
fn now_and_most(lines: &[(&str, &str)], key: &str) -> Option<(u32, u32)> {
    let mut values =
        lines.iter().filter(|(other, _)| *other == key).map(|(_, value)| value.parse::<u32>().ok());
    let (most, now) = (values.next()??, values.next()??);
    Some((now, most))
}

fn settings(nic: &mut Nic, lines: &[(&str, &str)], text: &str) {
    let speed = value(lines, "Speed").and_then(|speed| speed.strip_suffix("Mb/s")?.parse::<u64>().ok());
    let why = match value(lines, "Link detected") {
        Some("no") => "the link is down",
        _ => "the driver reports no link rate",
    };
    nic.speed_bits_per_second = Fact::from_option(speed.and_then(|speed| speed.checked_mul(1_000_000)), why);
    let state = value(lines, "Link detected").map(|link| if link.starts_with("yes") { "up" } else { "down" });
    nic.state = Fact::from_option(state.map(str::to_string), NOT_OF_ETHTOOL);
    let details = &mut nic.details;
    let duplex = value(lines, "Duplex").filter(|duplex| !duplex.starts_with("Unknown"));
    details.full_duplex = Fact::from_option(duplex.map(|duplex| duplex == "Full"), NOT_OF_ETHTOOL);
    details.negotiated =
        Fact::from_option(value(lines, "Auto-negotiation").map(|word| word == "on"), NOT_OF_ETHTOOL);
    let port = value(lines, "Port").map(|port| match port.to_ascii_lowercase().as_str() {
        "fibre" => "fibre".to_string(),
        "direct attach copper" => "direct attach".to_string(),
        other => other.to_string(),
    });
    details.port = Fact::from_option(port, NOT_OF_ETHTOOL);
    details.link_max_bits_per_second = Fact::from_option(fastest(text), NOT_OF_ETHTOOL);
}

/// The fastest of `Supported link modes`: `100000baseCR4/Full`, which may go on below.
fn fastest(text: &str) -> Option<u64> {
    let (_, modes) = text.split_once("Supported link modes:")?;
    let modes = modes.split("Supported").next()?;
    let megabits = modes.split_whitespace().filter_map(|mode| mode.split_once("base")?.0.parse::<u64>().ok());
    megabits.max()?.checked_mul(1_000_000)
}

fn features(nic: &mut Nic, lines: &[(&str, &str)]) {
    let on = lines.iter().filter(|(_, value)| *value == "on" || value.starts_with("on "));
    let name = |(name, _): &(&str, &str)| match FEATURES.iter().find(|(listed, _)| listed == name) {
        Some((_, "")) => None,
        Some((_, kernels)) => Some(kernels.to_string()),
        None => Some(name.to_string()),
    };
    let mut offloads: Vec<String> = on.filter_map(name).collect();
    offloads.sort();
    offloads.dedup();
    nic.details.offloads = Fact::Known(offloads);
}
