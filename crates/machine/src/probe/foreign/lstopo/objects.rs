//! The objects of a topology, taken out of its tree with what is above each.

use super::super::topology_xml::TopologyError;
use crate::probe::foreign::topology_xml;
use roxmltree::Node;

/// Members of all sets together, and objects; no server comes near.
const MOST_MEMBERS: usize = 8 << 20;

/// A processor (PU).
pub(crate) struct Pu {
    pub id: u32,
    pub package: Option<u32>,
    /// Number of the core in the order of the file, and by the system.
    pub core: Option<(usize, Option<u32>)>,
}

/// A NUMA node.
pub(crate) struct NodeMemory {
    pub id: u32,
    pub cpus: Vec<u32>,
    pub bytes: Option<u64>,
}

/// A cache.
pub(crate) struct Cache {
    pub level: u32,
    /// `d`, `i` or nothing, or the number in `cache_type`.
    pub kind: &'static str,
    pub bytes: Option<u64>,
    pub line_bytes: Option<u32>,
    pub cpus: Vec<u32>,
}

/// A PCI function.
pub(crate) struct Function {
    pub address: String,
    /// Place of the bridge above in `functions`.
    pub parent: Option<usize>,
    /// `0604 [8086:2030] [8086:0000] 04 00`.
    pub kind: String,
    /// GB/s.
    pub link: Option<f64>,
    pub name: Option<String>,
    /// NUMA nodes that it is near to.
    pub nodes: Vec<u32>,
}

/// An OS device: an interface, a disk, an accelerator.
pub(crate) struct OsDevice {
    pub name: String,
    pub kind: u32,
    /// Place of the function it hangs on.
    pub function: Option<usize>,
    pub infos: Vec<(String, String)>,
}

/// Everything that was found.
#[derive(Default)]
pub(crate) struct Objects {
    /// Major version of the format.
    pub version: u32,
    pub packages: usize,
    pub cores: usize,
    pub pus: Vec<Pu>,
    pub memories: Vec<NodeMemory>,
    pub caches: Vec<Cache>,
    pub functions: Vec<Function>,
    pub devices: Vec<OsDevice>,
    /// Numbers of the nodes and the distances between them, row by row.
    pub distances: Option<(Vec<u32>, Vec<u32>)>,
    /// Processors that lstopo may use.
    pub allowed: Option<Vec<u32>>,
    /// Of the machine and its packages; of equal names the first.
    infos: Vec<(String, String)>,
    members: usize,
}

/// What is above an object.
#[derive(Clone, Default)]
struct Above {
    package: Option<u32>,
    core: Option<(usize, Option<u32>)>,
    nodes: Vec<u32>,
    function: Option<usize>,
}

impl Objects {
    /// Reads the tree below `<topology>`.
    pub(crate) fn read(text: &str, root: Node) -> Result<Self, TopologyError> {
        let version = root.attribute("version").and_then(|version| version.split('.').next()?.parse().ok());
        let mut objects = Objects { version: version.unwrap_or(1), ..Default::default() };
        for child in root.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "object" => objects.object(text, child, Above::default())?,
                "info" => objects.infos.extend(info(child)),
                "distances2" => objects.distances2(child),
                _ => {}
            }
        }
        match objects.pus.is_empty() && objects.functions.is_empty() {
            true => Err(TopologyError::Empty(
                "the topology has neither processors nor PCI devices; make it with “lstopo FILE.xml”",
            )),
            false => Ok(objects),
        }
    }

    /// A line about the machine or its first package.
    pub(crate) fn info(&self, name: &str) -> Option<&str> {
        let found = self.infos.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn object(&mut self, text: &str, object: Node, mut above: Above) -> Result<(), TopologyError> {
        let say = |what: String| TopologyError::at(text, object, what);
        let kind = object.attribute("type").unwrap_or_default();
        let number = |name: &str| object.attribute(name).and_then(|text| text.trim().parse::<u32>().ok());
        let required = || number("os_index").ok_or_else(|| say(format!("this {kind} has no os_index")));
        if let Some(nodes) = object.attribute("nodeset") {
            above.nodes = self.set(Some(nodes)).map_err(&say)?;
        }
        match kind {
            "Machine" => {
                let allowed = object.attribute("allowed_cpuset");
                self.allowed = allowed.map(|_| self.set(allowed)).transpose().map_err(&say)?;
                self.infos.extend(object.children().filter_map(info));
            }
            "Package" | "Socket" => {
                self.packages += 1;
                above.package = number("os_index");
                self.infos.extend(object.children().filter_map(info));
            }
            "Core" => {
                above.core = Some((self.cores, number("os_index")));
                self.cores += 1;
            }
            "PU" => self.pus.push(Pu { id: required()?, package: above.package, core: above.core }),
            "NUMANode" | "Node" => {
                let cpus = self.set(object.attribute("cpuset")).map_err(&say)?;
                let bytes = object.attribute("local_memory").and_then(|bytes| bytes.trim().parse().ok());
                self.memories.push(NodeMemory { id: required()?, cpus, bytes });
            }
            "Bridge" | "PCIDev" if object.has_attribute("pci_busid") => {
                self.functions.push(function(object, &above));
                above.function = Some(self.functions.len() - 1);
            }
            "OSDev" => self.devices.extend(device(object, &above)),
            _ if cache_level(kind, number("depth")).is_some() => {
                let cpus = self.set(object.attribute("cpuset")).map_err(&say)?;
                let level = cache_level(kind, number("depth")).unwrap_or_default();
                self.caches.push(cache(object, level, cpus));
            }
            _ => {}
        }
        for child in object.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "object" => self.object(text, child, above.clone())?,
                "distances" => self.distances1(child),
                _ => {}
            }
        }
        Ok(())
    }

    /// A set; absent or endless is empty. The error is a sentence.
    fn set(&mut self, text: Option<&str>) -> Result<Vec<u32>, String> {
        let set = text.and_then(topology_xml::parse_set).unwrap_or_default();
        self.members += set.len();
        match self.members > MOST_MEMBERS {
            true => Err("the sets of processors and nodes are larger than any server's".into()),
            false => Ok(set),
        }
    }

    /// `<distances2 type="NUMANode" … indexing="os">` with the values in pieces.
    fn distances2(&mut self, element: Node) {
        let latency = element.attribute("name") == Some("NUMALatency")
            // Before names: kind 4 is HWLOC_DISTANCES_KIND_MEANS_LATENCY.
            || element.attribute("kind").and_then(|kind| kind.parse::<u32>().ok()).is_some_and(|kind| kind & 4 != 0);
        if element.attribute("type") != Some("NUMANode")
            || element.attribute("indexing") != Some("os")
            || !latency
        {
            return;
        }
        let numbers = |name: &str| -> Vec<u32> {
            let pieces = element.children().filter(|child| child.has_tag_name(name));
            pieces
                .filter_map(|piece| piece.text())
                .flat_map(str::split_ascii_whitespace)
                .filter_map(|word| word.parse().ok())
                .collect()
        };
        let (nodes, values) = (numbers("indexes"), numbers("u64values"));
        if nodes.len().checked_mul(nodes.len()) == Some(values.len()) && self.distances.is_none() {
            self.distances = Some((nodes, values));
        }
    }

    /// hwloc 1: inside the machine, in the order of the nodes that follow, by value times base.
    fn distances1(&mut self, element: Node) {
        let number = |node: Node, name: &str| node.attribute(name).and_then(|text| text.parse::<f64>().ok());
        let Some(base) = number(element, "latency_base") else { return };
        let values = element.children().filter_map(|child| number(child, "value"));
        let values: Vec<u32> = values.map(|value| (value * base).round() as u32).collect();
        let nodes = values.len().isqrt();
        if nodes * nodes == values.len() && self.distances.is_none() {
            // The nodes' numbers come below; in the order of the file.
            self.distances = Some((Vec::new(), values));
        }
    }
}

fn info(element: Node) -> Option<(String, String)> {
    let is_info = element.has_tag_name("info");
    is_info
        .then(|| Some((element.attribute("name")?.to_string(), element.attribute("value")?.to_string())))?
}

/// `L2Cache`, `L1iCache`; in hwloc 1 `Cache` with its depth.
fn cache_level(kind: &str, depth: Option<u32>) -> Option<u32> {
    match kind.strip_suffix("Cache")? {
        "" => depth,
        level => level.strip_prefix('L')?.trim_end_matches('i').parse().ok(),
    }
}

fn cache(object: Node, level: u32, cpus: Vec<u32>) -> Cache {
    let number = |name: &str| object.attribute(name).and_then(|text| text.trim().parse::<u64>().ok());
    // hwloc_obj_cache_type_e.
    let kind = match object.attribute("cache_type") {
        Some("1") => "Data",
        Some("2") => "Instruction",
        _ => "Unified",
    };
    Cache {
        level,
        kind,
        bytes: number("cache_size").filter(|bytes| *bytes > 0),
        line_bytes: number("cache_linesize")
            .and_then(|line| u32::try_from(line).ok())
            .filter(|line| *line > 0),
        cpus,
    }
}

fn function(object: Node, above: &Above) -> Function {
    let infos: Vec<(String, String)> = object.children().filter_map(info).collect();
    let text = |name: &str| infos.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim());
    let name = [text("PCIVendor"), text("PCIDevice")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Function {
        address: object.attribute("pci_busid").unwrap_or_default().to_ascii_lowercase(),
        parent: above.function,
        kind: object.attribute("pci_type").unwrap_or_default().to_string(),
        link: object.attribute("pci_link_speed").and_then(|rate| rate.trim().parse().ok()),
        name: (!name.is_empty()).then_some(name),
        nodes: above.nodes.clone(),
    }
}

fn device(object: Node, above: &Above) -> Option<OsDevice> {
    Some(OsDevice {
        name: object.attribute("name")?.to_string(),
        kind: object.attribute("osdev_type")?.trim().parse().ok()?,
        function: above.function,
        infos: object.children().filter_map(info).collect(),
    })
}
