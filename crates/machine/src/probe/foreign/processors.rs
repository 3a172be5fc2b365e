//! `lscpu` (text, `-J`, `-e`, `-p`) and `numactl -H`: CPUs and the nodes that they are on.

use super::listing::Listing;
use crate::probe::cpu_list;
use crate::probe::machine::{Cpu, LogicalCpu, Machine, Memory, NumaNode};
use linerate_facts::fact::Fact;
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields and nodes that are read: there are some fifty.
const MOST_FIELDS: usize = 4096;
/// Processors of one machine, by the kernel's NR_CPUS.
const MOST_CPUS: usize = 8192;

/// The summary: `CPU(s): 64`, `NUMA node0 CPU(s): 0-31`.
pub(super) fn from_lscpu(listing: &Listing) -> Option<Machine> {
    let fields = match listing.json() {
        Some(document) => {
            let mut fields = BTreeMap::new();
            of_json(document.get("lscpu")?, &mut fields);
            fields
        }
        None => listing.text().lines().take(MOST_FIELDS).filter_map(field).collect(),
    };
    let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u32>().ok());
    let nodes = nodes(fields.iter().filter_map(|(name, cpus)| {
        let id = name.strip_prefix("NUMA node")?.strip_suffix(" CPU(s)")?.parse().ok()?;
        Some((id, cpu_list::parse_list(cpus)?))
    }));
    let online = fields.get("On-line CPU(s) list").and_then(|list| cpu_list::parse_list(list));
    let online = online.or_else(|| {
        (number("CPU(s)")? as usize <= MOST_CPUS).then(|| (0..number("CPU(s)").unwrap_or(0)).collect())
    });
    let online: Vec<u32> = online?.into_iter().take(MOST_CPUS).collect();
    let (threads, sockets) = (number("Thread(s) per core"), number("Socket(s)"));
    let cores =
        number("Core(s) per socket").zip(sockets).and_then(|(cores, sockets)| cores.checked_mul(sockets));
    let flags = fields.get("Flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let hypervisor = fields.get("Hypervisor vendor").map(|name| name.to_ascii_lowercase());
    let virtualisation = hypervisor.or_else(|| flags.and_then(|guest| (!guest).then(|| "none".to_string())));
    Some(Machine {
        cpu: Cpu {
            model: Fact::from_option(fields.get("Model name").filter(|name| *name != "-").cloned(), ABSENT),
            packages: Fact::from_option(sockets, ABSENT),
            physical_cores: Fact::from_option(cores, ABSENT),
            smt: Fact::from_option(threads.map(|threads| threads > 1), ABSENT),
            logical: online.iter().map(|id| logical(*id, &nodes)).collect(),
            ..Cpu::default()
        },
        memory: Memory { nodes, ..Memory::default() },
        virtualisation: Fact::from_option(virtualisation, ABSENT),
        ..Machine::default()
    })
}

const ABSENT: &str = "lscpu does not report";

fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim().to_string(), value.trim().to_string()))
}

/// `[{"field": "CPU(s):", "data": "4", "children": […]}]`.
fn of_json(fields: &Value, into: &mut BTreeMap<String, String>) {
    for one in fields.as_array().into_iter().flatten().take(MOST_FIELDS) {
        let text = |key: &str| one.get(key).and_then(Value::as_str);
        if let (Some(name), Some(value)) = (text("field"), text("data")) {
            into.insert(name.trim_end_matches(':').to_string(), value.to_string());
        }
        one.get("children").into_iter().for_each(|below| of_json(below, into));
    }
}

fn logical(id: u32, nodes: &[NumaNode]) -> LogicalCpu {
    let node = nodes.iter().find(|node| node.cpus.binary_search(&id).is_ok()).map(|node| node.id);
    LogicalCpu { id, node: Fact::from_option(node, ABSENT), online: true, ..LogicalCpu::default() }
}

fn nodes(found: impl Iterator<Item = (u32, Vec<u32>)>) -> Vec<NumaNode> {
    let by_id: BTreeMap<u32, Vec<u32>> = found.take(MOST_CPUS).collect();
    by_id.into_iter().map(|(id, cpus)| NumaNode { id, cpus, ..NumaNode::default() }).collect()
}

/// A processor a line, with blanks (`-e`) or commas (`-p`).
pub(super) fn from_table(text: &str) -> Option<Machine> {
    let mut columns: Vec<String> = Vec::new();
    let mut logical = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches("# ");
        let parts = |line: &str| -> Vec<String> {
            match line.contains(',') {
                true => line.split(',').map(|part| part.trim().to_ascii_lowercase()).collect(),
                false => line.split_ascii_whitespace().map(str::to_ascii_lowercase).collect(),
            }
        };
        let parts = parts(line);
        if parts.first().is_some_and(|first| first == "cpu") {
            columns = parts;
            continue;
        }
        let of = |name: &str| {
            let at = columns.iter().position(|column| column == name)?;
            parts.get(at)?.parse::<u32>().ok()
        };
        let Some(id) = of("cpu").filter(|_| logical.len() < MOST_CPUS) else { continue };
        let known = |name| Fact::from_option(of(name), ABSENT);
        let at = columns.iter().position(|column| column == "online");
        let online = at.and_then(|at| parts.get(at)).is_none_or(|online| online == "yes" || online == "y");
        logical.push(LogicalCpu {
            id,
            package: known("socket"),
            core: known("core"),
            node: known("node"),
            online,
            ..LogicalCpu::default()
        });
    }
    let mut by_node: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in logical.iter().filter(|cpu| cpu.online) {
        cpu.node.known().into_iter().for_each(|node| by_node.entry(*node).or_default().push(cpu.id));
    }
    let nodes = nodes(by_node.into_iter());
    (!logical.is_empty()).then(|| Machine {
        cpu: Cpu { logical, ..Cpu::default() },
        memory: Memory { nodes, ..Memory::default() },
        ..Machine::default()
    })
}

fn node<'a>(nodes: &'a mut BTreeMap<u32, NumaNode>, id: &str) -> Option<&'a mut NumaNode> {
    let id: u32 = id.parse().ok()?;
    (nodes.len() < MOST_CPUS)
        .then(|| nodes.entry(id).or_insert_with(|| NumaNode { id, ..NumaNode::default() }))
}

/// `node 0 cpus: 0 1`, `node 0 size: 64215 MB`, and the table of distances.
pub(super) fn from_numactl(text: &str) -> Option<Machine> {
    let mut nodes: BTreeMap<u32, NumaNode> = BTreeMap::new();
    let mut distances = false;
    for line in text.lines().take(MOST_FIELDS) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["node", "distances:"] => distances = true,
            ["node", id, "cpus:", cpus @ ..] => {
                if let Some(node) = node(&mut nodes, id) {
                    node.cpus = cpus.iter().filter_map(|cpu| cpu.parse().ok()).collect();
                    node.cpus.sort_unstable();
                }
            }
            ["node", id, "size:", size, "MB"] => {
                if let (Some(node), Ok(size)) = (node(&mut nodes, id), size.parse::<u64>()) {
                    node.total_bytes = Fact::Known(size.saturating_mul(1 << 20));
                }
            }
            [id, row @ ..] if distances && id.ends_with(':') => {
                let row: Option<Vec<u32>> = row.iter().map(|distance| distance.parse().ok()).collect();
                if let (Some(node), Some(row)) = (node(&mut nodes, id.trim_end_matches(':')), row) {
                    node.distances = Fact::Known(row);
                }
            }
            _ => {}
        }
    }
    let nodes: Vec<NumaNode> = nodes.into_values().collect();
    let of_node = |node: &NumaNode| {
        let id = node.id;
        node.cpus
            .iter()
            .map(move |cpu| LogicalCpu {
                id: *cpu,
                node: Fact::Known(id),
                online: true,
                ..LogicalCpu::default()
            })
            .collect::<Vec<_>>()
    };
    let mut logical: Vec<LogicalCpu> = nodes.iter().flat_map(of_node).take(MOST_CPUS).collect();
    logical.sort_by_key(|cpu| cpu.id);
    (!nodes.is_empty()).then(|| Machine {
        cpu: Cpu { logical, ..Cpu::default() },
        memory: Memory { nodes, ..Memory::default() },
        ..Machine::default()
    })
}
