//! The PCI functions of the tree with their interfaces and disks, from the root ports down.

use super::branch::{Branch, grouped};
use super::{bits, disks, joined};
use linerate_facts::fact::Fact;
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Interrupt, Machine, Nic, NicDetails, PciDevice, PciLink, PortKind};
use linerate_machine::topology::{
    DEEPEST, LinkCondition, LinkEnds, Topology, WeakerEnd, carries_bytes, class_name, raw_rate,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The PCI functions worth a line, as branches from the root ports down.
pub(super) struct Functions {
    roots: Vec<(Option<u32>, Branch)>,
    /// Addresses of the functions that have a line.
    pub(super) addresses: Vec<String>,
    left_out: usize,
    /// … of which nothing says what they are.
    unknown: usize,
}

impl Functions {
    /// Branches on one NUMA node, which are then gone from here.
    pub(super) fn take_node(&mut self, node: u32) -> Vec<Branch> {
        let roots = std::mem::take(&mut self.roots);
        let (here, rest) = roots.into_iter().partition::<Vec<_>, _>(|(on, _)| *on == Some(node));
        self.roots = rest;
        grouped(here.into_iter().map(|(_, branch)| branch).collect())
    }

    /// Branches that are left.
    pub(super) fn take_rest(&mut self) -> Vec<Branch> {
        grouped(std::mem::take(&mut self.roots).into_iter().map(|(_, branch)| branch).collect())
    }

    /// How many functions have no line.
    pub(super) fn left_out(&self) -> Vec<Branch> {
        let known = self.left_out - self.unknown;
        let lines = [(known, "bridges and chip set"), (self.unknown, "class not reported")];
        let line = |(count, what): (usize, &str)| {
            (count > 0).then(|| Branch::new(format!("{}: {what}", counted(count, "further PCI function"))))
        };
        lines.into_iter().filter_map(line).collect()
    }
}

/// Functions that carry bytes (storage, network, display, accelerator, or with an interface or a disk on
/// them) and the bridges above them. A bridge with one branch below is left out where it is no other link
/// than its child's.
pub(super) fn functions(machine: &Machine) -> Functions {
    let tree = Topology::new(machine);
    let interrupts = interrupts(machine);
    let mut walk = Walk { tree: &tree, interrupts, met: BTreeSet::new(), addresses: Vec::new() };
    let roots: Vec<_> = tree.roots().filter_map(|root| walk.branch(root, 0)).collect();
    let left_out: Vec<&PciDevice> =
        machine.pci.iter().filter(|device| !walk.addresses.contains(&device.address)).collect();
    let is_unknown = |device: &&&PciDevice| device.class.known().is_none() && !tree.is_bridge(device);
    Functions {
        roots: roots.into_iter().map(|built| (built.node, built.branch)).collect(),
        unknown: left_out.iter().filter(is_unknown).count(),
        left_out: left_out.len(),
        addresses: walk.addresses,
    }
}

/// The least MaxPayload, which is what many firmwares leave.
const SMALL_PAYLOAD: u32 = 128;

struct Walk<'t, 'a> {
    tree: &'t Topology<'a>,
    interrupts: BTreeMap<&'a str, (usize, BTreeSet<u32>)>,
    /// Each address is shown once, also where a damaged file holds it twice or in a ring.
    met: BTreeSet<&'a str>,
    addresses: Vec<String>,
}

struct BuiltBranch {
    node: Option<u32>,
    link: Option<PciLink>,
    branch: Branch,
}

impl<'a> Walk<'_, 'a> {
    fn branch(&mut self, device: &'a PciDevice, depth: usize) -> Option<BuiltBranch> {
        if !self.met.insert(&device.address) {
            return None;
        }
        let children = self.tree.children(&device.address).iter();
        let mut below: Vec<BuiltBranch> = match depth < DEEPEST {
            true => children.filter_map(|child| self.branch(child, depth + 1)).collect(),
            false => Vec::new(),
        };
        let attached = self.attached(device);
        let link = device.link.known().copied();
        let carries = device.class.known().is_some_and(|class| carries_bytes(*class));
        if attached.is_empty() && !carries {
            match below.as_slice() {
                [] => return None,
                [only] if link.is_none() || link == only.link => {
                    let mut only = below.remove(0);
                    only.node = only.node.or(device.node.known().copied());
                    return Some(only);
                }
                _ => {}
            }
        }
        self.addresses.push(device.address.clone());
        let node = device.node.known().copied().or_else(|| below.iter().find_map(|built| built.node));
        let port = self.tree.parent(device);
        let is_bridge = self.tree.is_bridge(device);
        let mut branch = Branch::named(&device.address, function(self.tree, device));
        let own = Some(device).filter(|_| !is_bridge);
        branch.slot(port.into_iter().chain(own).find_map(|end| end.express.slot.known().copied()));
        if !is_bridge {
            let (count, cpus) = self.interrupts.get(device.address.as_str()).cloned().unwrap_or_default();
            branch.interrupts(count, cpus);
        }
        branch.extend(attached);
        branch.extend(grouped(below.into_iter().map(|built| built.branch).collect()));
        Some(BuiltBranch { node, link, branch })
    }

    fn attached(&self, device: &PciDevice) -> Vec<Branch> {
        let here = Some(&device.address);
        let nics = self.tree.machine.nics.iter().filter(|nic| nic.pci.as_ref() == here);
        let nics = grouped(nics.map(|nic| interface(nic, device.driver.known())).collect());
        nics.into_iter().chain(disks::of_function(self.tree.machine, &device.address)).collect()
    }
}

/// For each function the number of its interrupts and the CPUs that take them, or may where that is not
/// known.
fn interrupts(machine: &Machine) -> BTreeMap<&str, (usize, BTreeSet<u32>)> {
    let mut found: BTreeMap<&str, (usize, BTreeSet<u32>)> = BTreeMap::new();
    let cpus = |irq: &Interrupt| irq.effective.known().or(irq.allowed.known()).cloned().unwrap_or_default();
    for irq in &machine.interrupts {
        let Some(pci) = irq.pci.as_deref() else { continue };
        let (count, all) = found.entry(pci).or_default();
        *count += 1;
        all.extend(cpus(irq));
    }
    found
}

/// What follows the address: class, ids, name, driver, link, packet sizes.
fn function(tree: &Topology, device: &PciDevice) -> String {
    let class = match device.express.port.known() {
        Some(PortKind::SwitchUpstream) => "switch".into(),
        Some(PortKind::RootPort) => "root port".into(),
        _ => device.class.known().map_or("device".into(), |class| class_words(*class)),
    };
    let ids = match (device.vendor.known(), device.device.known()) {
        (Some(vendor), Some(device)) => format!(" {vendor:04x}:{device:04x}"),
        _ => String::new(),
    };
    let driver = device.driver.known().filter(|name| *name != "pcieport").cloned().unwrap_or_default();
    let parts = [
        format!(" {class}{ids}"),
        device.name.known().cloned().unwrap_or_default(),
        device.card_name.clone().unwrap_or_default(),
        driver,
        pcie(tree, device),
        packets(tree, device),
    ];
    joined(parts)
}

fn class_words(class: u32) -> String {
    class_name(class).map_or_else(|| format!("class {:04x}", class >> 8), str::to_string)
}

/// `8 GT/s x16 (126 Gb/s)`, and how that is beside what the two ends of the link can do.
fn pcie(tree: &Topology, device: &PciDevice) -> String {
    let link = tree.link(device).filter(|link| link.runs.as_ref() == device.link.known());
    let own = match (device.link.known(), device.link_max.known()) {
        (Some(now), Some(most)) if link.is_none() && now != most => {
            return format!("{now} ({}), could do {most}", wire_rate(*now));
        }
        (Some(now), _) => format!("{now} ({})", wire_rate(*now)),
        (None, Some(most)) => return format!("no link now, could do {most}"),
        (None, None) => return String::new(),
    };
    // Said at the lower end only.
    let link = link.filter(|link| link.port.is_none_or(|port| port.address != device.address));
    let able = link.as_ref().and_then(|link| link.able).map(|able| able.to_string()).unwrap_or_default();
    match link.as_ref().map(|link| &link.condition) {
        Some(LinkCondition::Below { target: Some(speed), .. }) => {
            format!("{own}, below the {able} of both ends: the port is set to {speed} GT/s")
        }
        Some(LinkCondition::Below { .. }) => format!("{own}, below the {able} of both ends"),
        Some(LinkCondition::Idle) => {
            format!("{own}, idle: {} can do {able}", link.map_or("", |link| link.able_ends()))
        }
        Some(LinkCondition::Formality(_)) => format!("{own}, a formality"),
        Some(LinkCondition::Unknown) if !able.is_empty() => format!("{own}, could do {able}"),
        _ => own + &link.as_ref().map(stronger_end).unwrap_or_default(),
    }
}

/// What one end could do beyond the other. A port that is only wider is the usual case.
fn stronger_end(link: &LinkEnds) -> String {
    let most = |end: Option<&PciDevice>| end.and_then(|end| end.link_max.known().copied());
    let (Some(port), Some(card)) = (most(link.port), most(Some(link.device))) else { return String::new() };
    match link.weaker {
        WeakerEnd::Port => format!(", the card could do {card}"),
        WeakerEnd::Card if port.gt_per_second > card.gt_per_second => {
            format!(", the port above could do {port}")
        }
        WeakerEnd::Each => format!(", the card could do {card}, the port above {port}"),
        WeakerEnd::Card | WeakerEnd::Neither => String::new(),
    }
}

fn wire_rate(link: PciLink) -> String {
    raw_rate(link).map_or("rate unknown".into(), show_bits_rate)
}

/// Packet sizes, where one is the smallest although the way allows more, or smaller than usual.
fn packets(tree: &Topology, device: &PciDevice) -> String {
    let payload = tree.max_payload(device);
    let payload = match (payload.set.known(), payload.able.known()) {
        (Some(set), Some(able)) if *set <= SMALL_PAYLOAD && set < able => {
            Some(format!("MaxPayload {set} of {able}"))
        }
        _ => None,
    };
    // 512 is what a reset leaves (PCIe base specification, 7.5.3.4).
    let read = device.express.max_read_request_bytes.known();
    let read = read.filter(|bytes| **bytes < 512 && !tree.is_bridge(device));
    joined(payload.into_iter().chain(read.map(|bytes| format!("MaxReadRequest {bytes}"))))
}

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
        // A link-local address is not an address for a flow.
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
