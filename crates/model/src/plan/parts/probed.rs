//! A machine that was read, as parts: its links as they run, its ports as slots.

use super::carried::links_on_the_way;
use super::remote::{self, RemotePort};
use super::{ByteDevice, DeviceKind, Joint, JointKind, MachineParts, Node, PartPlace, RateOrigin};
use linerate_facts::fact::Fact;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::{Controller, Disk, DiskKind, Machine, Nic, PciDevice, PortKind, cloud};
use linerate_machine::rates::memory::efficiency_of;
use linerate_machine::rates::pcie::{PayloadDirection, SMALLEST_MAX_PAYLOAD_BYTES};
use linerate_machine::rates::published;
use linerate_machine::topology::{Topology, disk_port_rate, line_rate};
use std::collections::{BTreeMap, BTreeSet};

/// Class of an NVMe controller.
const NVME: u32 = 0x0108;
/// What all volumes of a cloud's instance share.
const VOLUMES: &str = "volumes";

/// The machine's parts. What it does not report is unknown with the reason and never binds.
pub fn from_machine(machine: &Machine) -> MachineParts {
    let mut probed = ProbedParts::new(machine);
    probed.ports();
    probed.ends();
    probed.empty_slots();
    probed.done()
}

/// The parts of a machine while they are put together.
pub(in crate::plan) struct ProbedParts<'a> {
    machine: &'a Machine,
    tree: Topology<'a>,
    /// Functions that a flow may end at.
    endpoints: Vec<&'a str>,
    parts: MachineParts,
    /// What the endpoints behind each link make of it, whichever of them is put there first.
    behind: BTreeMap<String, EndpointSummary>,
    /// Functions whose links are parts already.
    cards: BTreeSet<String>,
}

fn nodes(machine: &Machine) -> Vec<Node> {
    let with_memory = machine.memory.nodes.len().max(1) as f64;
    let memory = machine.memory.rated_bytes_per_second.clone().map(|all| all / with_memory);
    let cores = |id: Option<u32>| {
        let here =
            machine.cpu.logical.iter().filter(|cpu| {
                cpu.online && id.is_none_or(|id| cpu.node.known().is_none_or(|node| *node == id))
            });
        // Of the threads of a core one counts.
        let first = |siblings: &Fact<Vec<u32>>, own| {
            siblings.known().is_none_or(|all| all.iter().min().is_none_or(|min| *min == own))
        };
        let count = here.filter(|cpu| first(&cpu.siblings, cpu.id)).count();
        match machine.cpu.logical.is_empty() {
            true => Fact::unknown("no CPU is listed"),
            false => Fact::Known(count as f64),
        }
    };
    let node = |id: u32, cores: Fact<f64>| Node {
        id,
        cores,
        channels: Fact::unknown("channels are known for the whole machine only"),
        mt_per_second: clock(machine),
        memory_bytes_per_second: memory.clone(),
        memory_efficiency: memory_kind(machine).as_deref().and_then(efficiency_of),
    };
    match machine.memory.nodes.as_slice() {
        [] => vec![node(0, cores(None))],
        nodes => nodes.iter().map(|one| node(one.id, cores(Some(one.id)))).collect(),
    }
}

/// The DIMMs' kind; none where they are of several.
fn memory_kind(machine: &Machine) -> Option<String> {
    let full = machine.memory.modules.iter().filter(|module| module.size_bytes.known() != Some(&0));
    let mut kinds = full.map(|module| module.kind.as_str());
    let first = kinds.next()?;
    kinds.all(|kind| kind == first).then(|| first.to_string())
}

/// The slowest DIMM's configured clock: all of a channel run at it.
fn clock(machine: &Machine) -> Fact<u32> {
    let clocks = machine.memory.modules.iter().filter_map(|module| module.configured_mt_per_second.known());
    Fact::from_option(clocks.min().copied(), "no DIMM reports its clock")
}

impl<'a> ProbedParts<'a> {
    /// The nodes; no device is there yet.
    pub(in crate::plan) fn new(machine: &'a Machine) -> Self {
        let tree = Topology::new(machine);
        let why = "the CPU cost of a byte is not known before it is measured: `linerate run`";
        let parts = MachineParts {
            name: machine.host.known().cloned().unwrap_or_else(|| "this machine".into()),
            processors: machine.cpu.model.known().cloned().unwrap_or_default(),
            memory_kind: memory_kind(machine),
            nodes: nodes(machine),
            cpu_seconds_per_gb: Fact::unknown(why),
            ..MachineParts::default()
        };
        let endpoints = endpoints(&tree);
        let behind = behind(&tree, &endpoints, &parts);
        ProbedParts { machine, endpoints, tree, parts, behind, cards: BTreeSet::new() }
    }

    pub(in crate::plan) fn done(self) -> MachineParts {
        self.parts
    }

    /// A disk behind its controller; none: something on a node that is not a disk of the machine.
    pub(in crate::plan) fn disk(&mut self, name: String, disk: Option<&Disk>, node: &Fact<u32>) {
        let place = match disk {
            Some(disk) => match remote::port_of(self.machine, disk) {
                Some((nic, rdma)) => self.behind_port(nic, rdma),
                None if disk.model.known().is_some_and(|model| cloud::is_volume(model)) => {
                    return self.volume(&name, node);
                }
                None => {
                    let card = self.place(disk.pci.as_deref(), &disk.node);
                    self.behind_controller(disk, card)
                }
            },
            None => self.root(node, None),
        };
        let why = "no data sheet of the disk can be read from the system";
        let what = DeviceKind::Disk { read: Fact::unknown(why), write: Fact::unknown(why) };
        self.device(&name, place, what);
    }

    /// A port on its card.
    pub(in crate::plan) fn nic(&mut self, port: ByteDevice, function: Option<&str>, node: &Fact<u32>) {
        let place = self.place(function, node);
        self.parts.devices.push(ByteDevice { place, ..port });
    }

    /// NICs, disks and GPUs that have a function of PCI; NICs without one where there is no other.
    fn ports(&mut self) {
        let nics: Vec<&Nic> = self.machine.nics.iter().filter(|nic| !nic.loopback).collect();
        let real: Vec<&Nic> = nics.iter().copied().filter(|nic| nic.pci.is_some()).collect();
        for nic in if real.is_empty() { nics } else { real } {
            let port = self.port(nic);
            self.parts.devices.push(port);
        }
    }

    fn port(&mut self, nic: &Nic) -> ByteDevice {
        let place = self.place(nic.pci.as_deref(), &nic.node);
        let what = DeviceKind::Nic {
            rate: line_rate(nic),
            mtu: nic.mtu.clone(),
            tagged: nic.name.contains('.'),
            ipv6: false,
            down: nic.state.known().is_some_and(|state| state == "down") || nic.standby_of.is_some(),
        };
        // A port that was named by its function is addressed by that.
        let function = nic.pci.as_ref().filter(|_| nic.by_class);
        ByteDevice { name: nic.name.clone(), group: function.unwrap_or(&nic.name).clone(), place, what }
    }

    fn ends(&mut self) {
        let whole = |disk: &&Disk| matches!(disk.kind, DiskKind::Nvme | DiskKind::Scsi | DiskKind::Virtio);
        for disk in self.machine.disks.iter().filter(whole) {
            self.disk(disk.name.clone(), Some(disk), &disk.node);
        }
        if !self.parts.devices.iter().any(|device| matches!(device.what, DeviceKind::Disk { .. })) {
            self.unlisted_disks();
        }
        let gpus: Vec<&PciDevice> = self.machine.pci.iter().filter(|one| self.tree.is_gpu(one)).collect();
        for function in gpus {
            let place = self.place(Some(&function.address), &function.node);
            self.device(&function.address, place, DeviceKind::Gpu);
        }
    }

    /// Of a machine of which no disk is listed: each NVMe controller is one; what is behind others is not known.
    fn unlisted_disks(&mut self) {
        let class = |function: &PciDevice| function.class.known().map(|class| class >> 8);
        let storage =
            self.machine.pci.iter().filter(|one| class(one).is_some_and(|class| class >> 8 == 0x01));
        for function in storage.collect::<Vec<_>>() {
            let name = function.name.known().map_or("", String::as_str);
            if class(function) != Some(NVME) {
                let words = if name.is_empty() { "storage" } else { name };
                self.parts.controllers_without_disks.push(format!("{} ({words})", function.address));
                continue;
            }
            if name.contains("EBS") {
                self.volume(&function.address, &function.node);
                continue;
            }
            let why = "its controller is listed and no disk: the rate is in the data sheet";
            let place = self.place(Some(&function.address), &function.node);
            let what = DeviceKind::Disk { read: Fact::unknown(why), write: Fact::unknown(why) };
            self.device(&function.address, place, what);
        }
    }

    /// A volume of a cloud: it comes over the provider's network, and all of them share what the instance has of that.
    fn volume(&mut self, name: &str, node: &Fact<u32>) {
        let place = PartPlace::Joint(VOLUMES.into());
        if self.parts.joint(VOLUMES).is_none() {
            let mut joint = Joint::new(VOLUMES, JointKind::Bus, self.root(node, None));
            joint.bytes_per_second = of_volumes(&self.machine.instance);
            joint.rate_origin = RateOrigin::DataSheet;
            joint.words = self
                .machine
                .instance
                .known()
                .map(|name| format!("all volumes of {name}"))
                .unwrap_or_default();
            self.parts.joints.push(joint);
        }
        let why = "a cloud's volume, which comes over the network: its rate is that of its type and size";
        self.device(name, place, DeviceKind::Disk { read: Fact::unknown(why), write: Fact::unknown(why) });
    }

    fn device(&mut self, name: &str, place: PartPlace, what: DeviceKind) {
        self.parts.devices.push(ByteDevice { name: name.into(), group: name.into(), place, what });
    }

    /// What another host's disks come in through.
    fn behind_port(&mut self, nic: &Nic, rdma: bool) -> PartPlace {
        let joint = RemotePort { port: self.port(nic), rdma }.joint();
        let name = joint.name.clone();
        if self.parts.joint(&name).is_none() {
            self.parts.joints.push(joint);
        }
        PartPlace::Joint(name)
    }

    /// The link of the disk's controller to its disks, where it is SATA or SAS and reports its rate.
    fn behind_controller(&mut self, disk: &Disk, card: PartPlace) -> PartPlace {
        let named = |controller: &&Controller| disk.controller.as_deref() == Some(&controller.name);
        let Some(controller) = self.machine.controllers.iter().find(named) else { return card };
        let Some(rate) = disk_port_rate(controller) else { return card };
        if self.parts.joint(&controller.name).is_none() {
            let mut joint = Joint::new(&controller.name, JointKind::Controller, card);
            joint.bytes_per_second = Fact::Known(rate);
            joint.words = "its ports".into();
            self.parts.joints.push(joint);
        }
        PartPlace::Joint(controller.name.clone())
    }

    /// Where a function is plugged in: its card, whose link and slot become parts.
    fn place(&mut self, address: Option<&str>, node: &Fact<u32>) -> PartPlace {
        let function = address.and_then(|address| self.tree.find(address));
        let root = self.root(node, function);
        let Some(function) = function else { return root };
        let links =
            links_on_the_way(&self.tree, &function.address, &self.endpoints, PayloadDirection::ToMemory);
        let Some(first) = links.first().map(|link| link.address.clone()) else {
            return self.without_link(function, root);
        };
        let of_all = links.last().and_then(|link| self.behind.get(&link.address)?.node);
        let mut up = of_all.map_or(root, PartPlace::Node);
        for (index, link) in links.iter().enumerate().rev() {
            let here = self.tree.find(&link.address);
            if self.cards.insert(link.address.clone()) {
                let kind = if index == 0 { JointKind::Card } else { JointKind::Switch };
                let slot = here.filter(|_| index == 0).and_then(|here| self.slot(here, up.clone()));
                let mut joint = Joint::new(&link.address, kind, slot.unwrap_or(up));
                joint.link = here.and_then(|here| here.link_max.known().or(here.link.known()).copied());
                joint.running = Some(link.carries);
                joint.formality = link.formality.map(str::to_string);
                joint.unknown_link = self.hypervisor().map(str::to_string);
                joint.gpu_direct = here.and_then(|here| here.gpu_direct);
                joint.max_payload_bytes = self
                    .behind
                    .get(&link.address)
                    .map_or(link.max_payload_bytes, |behind| behind.max_payload_bytes);
                joint.words = link.note.clone().unwrap_or_default();
                self.parts.joints.push(joint);
            }
            up = PartPlace::Joint(link.address.clone());
        }
        PartPlace::Joint(first)
    }

    /// A card of whose link nothing is reported; a part of the chip has none.
    fn without_link(&mut self, function: &PciDevice, up: PartPlace) -> PartPlace {
        let (Some(why), false) = (function.link.why(), is_part_of_chip(&self.tree, function)) else {
            return up;
        };
        let card = self.tree.find(&function.address).map_or(function, |one| self.tree.lowest(one));
        if self.cards.insert(card.address.clone()) {
            let mut joint = Joint::new(&card.address, JointKind::Card, up);
            joint.unknown_link = Some(why.to_string());
            joint.gpu_direct = card.gpu_direct;
            self.parts.joints.push(joint);
        }
        PartPlace::Joint(card.address.clone())
    }

    /// Why no link is believed, where a hypervisor shows it: emulated ones are made up, and those of devices
    /// passed through are often, too.
    fn hypervisor(&self) -> Option<&'static str> {
        let named = self.machine.virtualisation.known().filter(|name| *name != "none");
        named.map(|_| "a link that a hypervisor shows is not a link")
    }

    /// The node, where it is reported or there is only one.
    fn root(&self, node: &Fact<u32>, function: Option<&PciDevice>) -> PartPlace {
        let known = node.known().or_else(|| function.and_then(|function| function.node.known()));
        match (known.and_then(|id| self.parts.node(*id)), self.parts.nodes.as_slice()) {
            (Some(node), _) => PartPlace::Node(node.id),
            (None, [only]) => PartPlace::Node(only.id),
            _ => PartPlace::Unknown,
        }
    }

    /// The port that a card is in, as a slot.
    fn slot(&mut self, card: &PciDevice, up: PartPlace) -> Option<PartPlace> {
        let port = self.tree.parent(card)?;
        let name = self.tree.slot_name(port);
        if self.parts.joint(&name).is_none() {
            let mut slot = Joint::new(&name, JointKind::Slot, up);
            slot.link = port.link_max.known().copied();
            self.parts.joints.push(slot);
        }
        Some(PartPlace::Joint(name))
    }

    /// Ports with nothing below them, and slots that only the firmware lists.
    fn empty_slots(&mut self) {
        for free in self.tree.free_slots() {
            if self.parts.joint(&free.name).is_some() {
                continue;
            }
            let above = free.port.and_then(|port| port.parent.clone()).filter(|up| self.cards.contains(up));
            let up = above.map_or_else(|| self.root(&free.node, None), PartPlace::Joint);
            let mut slot = Joint::new(free.name, JointKind::Slot, up);
            let taken = free.speed_is_taken && free.link.is_some();
            let taken =
                taken.then(|| "its generation is not reported, taken as that of the fastest port".into());
            let words = [Some(free.designation).filter(|words| !words.is_empty()), taken];
            (slot.link, slot.words) = (free.link, words.into_iter().flatten().collect::<Vec<_>>().join("; "));
            self.parts.joints.push(slot);
        }
    }
}

/// What is promised of all volumes of an instance, bytes per second.
fn of_volumes(instance: &Fact<String>) -> Fact<f64> {
    instance.clone().and_then(|name| match published::instance_named(&name) {
        Some(row) => {
            let words = row.volumes.words(show_bytes_rate);
            Fact::from_option(
                row.volumes.steady(),
                format!("{name} is promised {words} of all volumes together"),
            )
        }
        None => Fact::unknown(format!("what is promised of the volumes of {name} is not known here")),
    })
}

/// It is on the root bus by its place in the list, or says so itself. A listing of names alone has no ports: there
/// a card has a bus of its own.
fn is_part_of_chip(tree: &Topology, function: &PciDevice) -> bool {
    let integrated = tree.kind(function) == Some(PortKind::IntegratedEndpoint);
    let bus = function.address.rsplit(':').nth(1);
    integrated && (function.express.port.known().is_some() || bus == Some("00"))
}

/// Functions with an interface or a disk, and graphics cards.
fn endpoints<'a>(tree: &Topology<'a>) -> Vec<&'a str> {
    let machine = tree.machine;
    let nics = machine.nics.iter().filter_map(|nic| nic.pci.as_deref());
    let disks = machine.disks.iter().filter_map(|disk| disk.pci.as_deref());
    let is_end = |function: &&PciDevice| {
        tree.is_gpu(function) || function.class.known().is_some_and(|class| class >> 8 == NVME)
    };
    let gpus = machine.pci.iter().filter(is_end);
    nics.chain(disks).chain(gpus.map(|function| function.address.as_str())).collect()
}

/// What all endpoints behind a link make of it.
struct EndpointSummary {
    /// The least of theirs; one that could not be read is taken as the smallest allowed.
    max_payload_bytes: Option<u32>,
    /// The node of the first that reports one: a link hangs from one node.
    node: Option<u32>,
}

/// Each link by the address of its part. It depends on the machine alone: not on a flow's ends, nor on their
/// order.
fn behind(tree: &Topology, endpoints: &[&str], parts: &MachineParts) -> BTreeMap<String, EndpointSummary> {
    let mut found: BTreeMap<String, EndpointSummary> = BTreeMap::new();
    for address in endpoints.iter().collect::<BTreeSet<_>>() {
        let node = node_of(tree, address, parts);
        for link in links_on_the_way(tree, address, endpoints, PayloadDirection::ToMemory) {
            let own = EndpointSummary { max_payload_bytes: link.max_payload_bytes, node };
            let all = found.entry(link.address).or_insert(own);
            let size = |bytes: Option<u32>| (bytes.unwrap_or(SMALLEST_MAX_PAYLOAD_BYTES), bytes.is_some());
            all.max_payload_bytes =
                std::cmp::min_by_key(all.max_payload_bytes, link.max_payload_bytes, |bytes| size(*bytes));
            all.node = all.node.or(node);
        }
    }
    found
}

/// The node that an interface, a disk or the function itself reports.
fn node_of(tree: &Topology, address: &str, parts: &MachineParts) -> Option<u32> {
    let here = |function: &Option<String>| function.as_deref() == Some(address);
    let nics = tree.machine.nics.iter().filter(|nic| here(&nic.pci)).map(|nic| &nic.node);
    let disks = tree.machine.disks.iter().filter(|disk| here(&disk.pci)).map(|disk| &disk.node);
    let function = tree.find(address).map(|function| &function.node);
    let mut nodes = nics.chain(disks).chain(function).filter_map(|node| node.known().copied());
    nodes.find(|id| parts.node(*id).is_some())
}
