//! `lshw` as text, JSON (`-json`) and XML (`-xml`): which interface and which disk is on which PCI function.

use super::listing::Listing;
use super::topology_xml::{self, TopologyError};
use crate::probe::lspci::class_of;
use crate::probe::machine::{Cpu, Disk, DiskKind, Machine, Memory, Nic, PciDevice};
use crate::probe::pci::address::Address;
use linerate_facts::fact::Fact;
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes of one listing, and how deep they are.
const MOST_NODES: usize = 65_536;
const DEEPEST: usize = 100;

/// One node: its keys by lshw's names in JSON, and those of its configuration.
#[derive(Default)]
struct HardwareNode {
    class: String,
    keys: BTreeMap<String, String>,
    /// Places of the nodes above, the nearest last.
    above: Vec<usize>,
}

/// Parts of the machine that have a place on the PCI bus, or none.
pub(super) fn from_lshw(listing: &Listing) -> Result<Option<Machine>, TopologyError> {
    let mut nodes = Vec::new();
    match listing.json() {
        Some(Value::Array(all)) => all.iter().for_each(|one| of_json(one, &[], &mut nodes)),
        Some(one) => of_json(one, &[], &mut nodes),
        None if listing.text().trim_start().starts_with('<') => {
            let document = topology_xml::parse(listing.text())?;
            of_xml(document.root_element(), &[], &mut nodes);
        }
        None => of_text(listing.text(), &mut nodes),
    }
    Ok(machine(&nodes))
}

fn of_json(one: &Value, above: &[usize], nodes: &mut Vec<HardwareNode>) {
    let Some(fields) = one.as_object().filter(|_| nodes.len() < MOST_NODES && above.len() < DEEPEST) else {
        return;
    };
    let mut node = HardwareNode { above: above.to_vec(), ..HardwareNode::default() };
    let mut take = |fields: &serde_json::Map<String, Value>| {
        for (key, value) in fields {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Array(all) => all.first().and_then(Value::as_str).unwrap_or_default().to_string(),
                _ => continue,
            };
            node.keys.entry(key.clone()).or_insert(text);
        }
    };
    take(fields);
    fields.get("configuration").and_then(Value::as_object).into_iter().for_each(&mut take);
    node.class = node.keys.get("class").cloned().unwrap_or_default();
    let own: Vec<usize> = above.iter().copied().chain([nodes.len()]).collect();
    nodes.push(node);
    for below in fields.get("children").and_then(Value::as_array).into_iter().flatten() {
        of_json(below, &own, nodes);
    }
}

fn of_xml(element: roxmltree::Node, above: &[usize], nodes: &mut Vec<HardwareNode>) {
    if nodes.len() >= MOST_NODES || above.len() >= DEEPEST {
        return;
    }
    let mut below = above.to_vec();
    if element.has_tag_name("node") {
        let mut node = HardwareNode { above: above.to_vec(), ..HardwareNode::default() };
        node.class = element.attribute("class").unwrap_or_default().to_string();
        node.keys.extend(element.attribute("id").map(|id| ("id".to_string(), id.to_string())));
        for child in element.children().filter(roxmltree::Node::is_element) {
            let text = child.text().unwrap_or_default().to_string();
            node.keys.entry(child.tag_name().name().to_string()).or_insert(text);
            for setting in child.children().filter(|one| one.has_tag_name("setting")) {
                if let (Some(key), Some(value)) = (setting.attribute("id"), setting.attribute("value")) {
                    node.keys.entry(key.to_string()).or_insert_with(|| value.to_string());
                }
            }
        }
        below.push(nodes.len());
        nodes.push(node);
    }
    element.children().filter(roxmltree::Node::is_element).for_each(|child| of_xml(child, &below, nodes));
}

/// `        *-network:0`, and keys below it, `logical name: eth0`, `configuration: driver=ixgbe speed=10Gbit/s`.
fn of_text(text: &str, nodes: &mut Vec<HardwareNode>) {
    let mut indents: Vec<(usize, usize)> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(id) = line.strip_prefix("*-") {
            if nodes.len() >= MOST_NODES {
                return;
            }
            indents.retain(|(other, _)| *other < indent);
            let above = indents.iter().map(|(_, at)| *at).take(DEEPEST).collect();
            indents.push((indent, nodes.len()));
            let class = id.split([':', ' ']).next().unwrap_or_default().to_string();
            let keys = BTreeMap::from([("id".to_string(), class.clone())]);
            nodes.push(HardwareNode { class, keys, above });
        } else if let (Some(node), Some((key, value))) = (nodes.last_mut(), line.split_once(": ")) {
            let key = match key {
                "logical name" => "logicalname",
                "bus info" => "businfo",
                other => other,
            };
            if key == "configuration" {
                let settings = value.split(' ').filter_map(|word| word.split_once('='));
                node.keys.extend(settings.map(|(key, value)| (key.to_string(), value.to_string())));
            }
            node.keys.entry(key.to_string()).or_insert_with(|| value.to_string());
        }
    }
}

const ABSENT: &str = "lshw does not report it";

fn machine(nodes: &[HardwareNode]) -> Option<Machine> {
    let mut machine = Machine::default();
    let function = |node: &HardwareNode| Address::parse(node.keys.get("businfo")?.strip_prefix("pci@")?);
    for node in nodes {
        let key = |name: &str| node.keys.get(name).filter(|text| !text.is_empty()).cloned();
        let above = || node.above.iter().rev().find_map(|at| function(nodes.get(*at)?));
        let own = function(node);
        let pci = own.or_else(above).map(|address| address.to_string());
        if let Some(address) = own {
            machine.pci.push(device(node, address, above().map(|address| address.to_string())));
        }
        let name = key("logicalname");
        match node.class.as_str() {
            "network" => machine.nics.extend(name.map(|name| nic(node, name, pci))),
            "disk" | "storage" | "namespace" => {
                let name = name.and_then(|name| Some(name.strip_prefix("/dev/")?.to_string()));
                machine.disks.extend(name.filter(|name| is_block(name)).map(|name| disk(node, name, pci)));
            }
            "processor" if machine.cpu.model.known().is_none() => {
                machine.cpu = Cpu { model: Fact::from_option(key("product"), ABSENT), ..Cpu::default() };
            }
            "memory" if key("id").as_deref() == Some("memory") => {
                let total_bytes = Fact::from_option(key("size").and_then(|text| size(&text)), ABSENT);
                machine.memory = Memory { total_bytes, ..Memory::default() };
            }
            _ => {}
        }
    }
    (machine != Machine::default()).then_some(machine)
}

/// A node of NVMe lists its character device, too.
fn is_block(name: &str) -> bool {
    match name.strip_prefix("nvme") {
        Some(rest) => rest.contains('n'),
        None => !name.contains('/'),
    }
}

fn device(node: &HardwareNode, address: Address, parent: Option<String>) -> PciDevice {
    let key = |name: &str| node.keys.get(name).filter(|text| !text.is_empty());
    let class =
        key("description").and_then(|text| class_of(text)).or((node.class == "network").then_some(0x0200));
    let name: Vec<&str> =
        ["vendor", "product"].into_iter().filter_map(|name| key(name).map(String::as_str)).collect();
    PciDevice {
        address: address.to_string(),
        parent,
        class: Fact::from_option(class.map(|class| class << 8), ABSENT),
        driver: Fact::from_option(key("driver").cloned(), ABSENT),
        name: Fact::from_option((!name.is_empty()).then(|| name.join(" ")), ABSENT),
        ..PciDevice::default()
    }
}

fn nic(node: &HardwareNode, name: String, pci: Option<String>) -> Nic {
    let key = |name: &str| node.keys.get(name).filter(|text| !text.is_empty()).cloned();
    let mut nic = Nic {
        loopback: name == "lo",
        speed_bits_per_second: Fact::from_option(
            key("speed").or_else(|| key("size")).and_then(|text| rate(&text)),
            ABSENT,
        ),
        driver: Fact::from_option(key("driver"), ABSENT),
        name,
        pci,
        ..Nic::default()
    };
    nic.details.firmware = Fact::from_option(key("firmware"), ABSENT);
    nic.details.link_max_bits_per_second =
        Fact::from_option(key("capacity").and_then(|text| rate(&text)), ABSENT);
    nic
}

fn disk(node: &HardwareNode, name: String, pci: Option<String>) -> Disk {
    let key = |name: &str| node.keys.get(name).filter(|text| !text.is_empty()).cloned();
    Disk {
        kind: match () {
            () if name.starts_with("nvme") => DiskKind::Nvme,
            () if name.starts_with("vd") => DiskKind::Virtio,
            () if name.starts_with("sd") => DiskKind::Scsi,
            () => DiskKind::Other,
        },
        size_bytes: Fact::from_option(key("size").and_then(|text| size(&text)), ABSENT),
        model: Fact::from_option(key("product"), ABSENT),
        name,
        pci,
        ..Disk::default()
    }
}

/// `10Gbit/s`, `1Gbit/s`, or bits per second.
fn rate(text: &str) -> Option<u64> {
    let text = text.trim_end_matches("bit/s");
    let (number, factor) = match text.as_bytes().last()? {
        b'G' => (&text[..text.len() - 1], 1_000_000_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|rate| *rate > 0)
}

/// `894GiB (960GB)`, or bytes.
fn size(text: &str) -> Option<u64> {
    let word = text.split(' ').next()?;
    let digits = word.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(word.len());
    let factor = match &word[digits..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1u64 << 40,
        _ => return None,
    };
    word[..digits].parse::<u64>().ok()?.checked_mul(factor)
}
