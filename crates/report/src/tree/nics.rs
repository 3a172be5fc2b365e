//! The lines of network interfaces.

use super::branch::Branch;
use super::{bits, joined};
use linerate_facts::fact::Fact;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Nic, NicDetails};
use std::net::IpAddr;

/// Addresses of one interface; more are counted.
const ADDRESSES: usize = 4;

/// Of a port that only its PCI function tells of.
const NO_INTERFACE: &str = "no interface is listed";

/// An interface with what its driver tells.
pub(super) fn interface(nic: &Nic, function_driver: Option<&String>) -> Branch {
    if nic.by_class {
        let rate = nic.speed_bits_per_second.known().map(|speed| format!("{} by its name", bits(*speed)));
        return Branch::new(format!(
            "port · {}",
            joined([rate.unwrap_or("rate unknown".into()), NO_INTERFACE.into()])
        ));
    }
    let driver = nic.driver.known().filter(|name| !nic.loopback && Some(*name) != function_driver);
    let queues = match (nic.rx_queues.known(), nic.tx_queues.known()) {
        // Channels say the same better.
        _ if nic.details.channels.known().is_some() => String::new(),
        (Some(rx), Some(tx)) if rx == tx && *rx == 1 => String::new(),
        (Some(rx), Some(tx)) if rx == tx => counted(*rx, "queue"),
        (Some(rx), Some(tx)) => format!("{rx} receive and {tx} transmit queues"),
        _ => String::new(),
    };
    let parts = [
        nic.state.known().filter(|state| *state != "unknown").cloned().unwrap_or_default(),
        nic.speed_bits_per_second.known().map(|speed| bits(*speed)).unwrap_or_default(),
        driver.cloned().unwrap_or_default(),
        nic.mtu.known().map(|mtu| format!("MTU {mtu}")).unwrap_or_default(),
        nic.standby_of.as_ref().map(|bond| format!("standby of {bond}")).unwrap_or_default(),
        queues,
        addresses(nic),
    ];
    let rest = joined(parts);
    let rest = if rest.is_empty() { rest } else { format!(" · {rest}") };
    let mut branch = Branch::named(&nic.name, rest);
    for line in details(&nic.details) {
        branch.more(format!("  {line}"));
    }
    branch
}

fn addresses(nic: &Nic) -> String {
    let mut shown: Vec<String> = nic
        .addresses
        .iter()
        // A link-local address is no address for a flow.
        .filter(|(address, _)| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .map(|(address, prefix)| format!("{address}/{prefix}"))
        .collect();
    if shown.len() > ADDRESSES {
        let more = shown.len() - (ADDRESSES - 1);
        shown.truncate(ADDRESSES - 1);
        shown.push(format!("and {more} more"));
    }
    shown.join(" ")
}

/// Rings and channels, then offloads, then the rest; lines without a known fact are empty.
fn details(details: &NicDetails) -> [String; 2] {
    let of = |what: &str, fact: &Fact<(u32, u32)>| {
        fact.known().map(|(now, most)| {
            if now == most { format!("{what} {now}") } else { format!("{what} {now} of {most}") }
        })
    };
    let rings = match (&details.rx_ring, &details.tx_ring) {
        (Fact::Known(rx), Fact::Known(tx)) if rx == tx => of("rings", &details.rx_ring),
        (rx, tx) => {
            let both: Vec<String> =
                [of("receive ring", rx), of("send ring", tx)].into_iter().flatten().collect();
            (!both.is_empty()).then(|| both.join(", "))
        }
    };
    let wait = match (details.rx_coalesce_us.known(), details.adaptive_rx.known()) {
        (_, Some(true)) => Some("adaptive coalescing".to_string()),
        (Some(0), _) => Some("no coalescing".to_string()),
        (Some(us), _) => Some(format!("coalescing {us} µs")),
        (None, _) => None,
    };
    let pause = details.pause.known().map(|pause| match pause {
        (true, true) => "pause frames both ways",
        (true, false) => "obeys pause frames",
        (false, true) => "sends pause frames",
        (false, false) => "no pause frames",
    });
    let first = [of("channels", &details.channels), rings, wait, pause.map(String::from)];
    let fec = details.fec.known().map(|fec| format!("FEC {fec}"));
    let firmware = details.firmware.known().filter(|text| !text.trim().is_empty());
    let second = [
        details.offloads.known().map(|all| offloads(all)),
        fec,
        firmware.map(|text| format!("firmware {}", text.trim())),
    ];
    [joined(first.into_iter().flatten()), joined(second.into_iter().flatten())]
}

/// The offloads that a flow feels, by the names that people use, and of how many that are on.
fn offloads(all: &[String]) -> String {
    // The kernel's names: net/ethtool/common.c, netdev_features_strings.
    const NAMES: [(&str, &str); 9] = [
        ("tx-tcp-segmentation", "TSO"),
        ("tx-udp-segmentation", "USO"),
        ("tx-generic-segmentation", "GSO"),
        ("rx-gro", "GRO"),
        ("rx-gro-hw", "GRO in hardware"),
        ("rx-lro", "LRO"),
        ("rx-checksum", "receive checksum"),
        ("tls-hw-tx-offload", "TLS"),
        ("hw-tc-offload", "flows"),
    ];
    let named = NAMES.iter().filter(|(kernel, _)| all.iter().any(|on| on == kernel)).map(|(_, name)| *name);
    let checksum = all.iter().any(|on| on.starts_with("tx-checksum-")).then_some("send checksum");
    let named: Vec<&str> = named.chain(checksum).collect();
    match named.len() {
        0 => format!("{} on", counted(all.len(), "offload")),
        _ => format!("offloads {}", named.join(", ")),
    }
}
