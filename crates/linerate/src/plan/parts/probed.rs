//! A machine that was read, as parts: its links as they run, its ports as slots.

use super::{Device, DeviceKind, Joint, JointKind, Node, Parts, Place};
use crate::fact::Fact;
use crate::plan::links::{Endpoint, chain, find};
use crate::plan::resources::DRIVERS_WITHOUT_RATE;
use crate::probe::{Controller, ControllerKind, Disk, DiskKind, Machine, Nic, PciDevice};
use crate::rates::pcie::Direction;
use crate::units::bytes_per_second;
use std::collections::BTreeSet;

/// Class codes, upper 16 bits: bridge to PCI; 3D and display controllers, accelerators; VGA.
const BRIDGE: u32 = 0x0604;
const ACCELERATORS: [u32; 3] = [0x0302, 0x0380, 0x1200];
const VGA: u32 = 0x0300;
/// A VGA with fewer lanes is the management processor's.
const LEAST_GPU_LANES: u32 = 8;

/// The machine's parts. What it does not tell is unknown with the reason and never binds.
pub fn from_machine(machine: &Machine) -> Parts {
    let mut probed = Probed { machine, parts: Parts::default(), cards: BTreeSet::new() };
    probed.parts.name = machine.host.known().cloned().unwrap_or_else(|| "this machine".into());
    probed.parts.processors = machine.cpu.model.known().cloned().unwrap_or_default();
    probed.parts.nodes = nodes(machine);
    probed.parts.cpu_seconds_per_gb =
        Fact::unknown("the CPU cost of a byte is not known before it is measured: `linerate run`");
    probed.ports();
    probed.ends();
    probed.empty_slots();
    probed.parts
}

struct Probed<'a> {
    machine: &'a Machine,
    parts: Parts,
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
        Fact::Known(count as f64)
    };
    let node = |id: u32, cores: Fact<f64>| Node {
        id,
        cores,
        channels: Fact::unknown("channels are known for the whole machine only"),
        mt_per_second: clock(machine),
        memory_bytes_per_second: memory.clone(),
    };
    match machine.memory.nodes.as_slice() {
        [] => vec![node(0, cores(None))],
        nodes => nodes.iter().map(|one| node(one.id, cores(Some(one.id)))).collect(),
    }
}

/// The slowest DIMM's configured clock: all of a channel run at it.
fn clock(machine: &Machine) -> Fact<u32> {
    let clocks = machine.memory.modules.iter().filter_map(|module| module.configured_mt_per_second.known());
    Fact::from_option(clocks.min().copied(), "no DIMM tells its clock")
}

impl<'a> Probed<'a> {
    /// NICs, disks and GPUs that have a function of PCI; NICs without one where there is no other.
    fn ports(&mut self) {
        let nics: Vec<&Nic> = self.machine.nics.iter().filter(|nic| !nic.loopback).collect();
        let real: Vec<&Nic> = nics.iter().copied().filter(|nic| nic.pci.is_some()).collect();
        for nic in if real.is_empty() { nics } else { real } {
            let place = self.place(nic.pci.as_deref(), &nic.node);
            let what = DeviceKind::Nic {
                rate: nic_rate(nic),
                mtu: nic.mtu.clone(),
                tagged: nic.name.contains('.'),
                down: nic.state.known().is_some_and(|state| state == "down"),
            };
            self.device(&nic.name, place, what);
        }
    }

    fn ends(&mut self) {
        let whole = |disk: &&Disk| matches!(disk.kind, DiskKind::Nvme | DiskKind::Scsi | DiskKind::Virtio);
        for disk in self.machine.disks.iter().filter(whole) {
            let card = self.place(disk.pci.as_deref(), &disk.node);
            let place = self.behind_controller(disk, card);
            let why = "no data sheet of the disk can be read from the system";
            let what = DeviceKind::Disk { read: Fact::unknown(why), write: Fact::unknown(why) };
            self.device(&disk.name, place, what);
        }
        for function in self.machine.pci.iter().filter(|function| is_gpu(function)) {
            let place = self.place(Some(&function.address), &function.node);
            self.device(&function.address, place, DeviceKind::Gpu);
        }
    }

    fn device(&mut self, name: &str, place: Place, what: DeviceKind) {
        self.parts.devices.push(Device { name: name.into(), group: name.into(), place, what });
    }

    /// The link of the disk's controller to its disks, where it is SATA or SAS and tells its rate.
    fn behind_controller(&mut self, disk: &Disk, card: Place) -> Place {
        let named = |controller: &&Controller| disk.controller.as_deref() == Some(&controller.name);
        let Some(controller) = self.machine.controllers.iter().find(named) else { return card };
        let Some(rate) = port_rate(controller) else { return card };
        if self.parts.joint(&controller.name).is_none() {
            let mut joint = Joint::new(&controller.name, JointKind::Controller, card);
            joint.bytes_per_second = Fact::Known(rate);
            joint.words = "its ports".into();
            self.parts.joints.push(joint);
        }
        Place::Joint(controller.name.clone())
    }

    fn endpoints(&self) -> Vec<Endpoint<'a>> {
        let machine = self.machine;
        let nics = machine.nics.iter().filter_map(|nic| {
            let rate = nic.speed_bits_per_second.known().copied().map(bytes_per_second);
            Some(Endpoint { address: nic.pci.as_deref()?, port_bytes_per_second: rate })
        });
        let disks = machine
            .disks
            .iter()
            .filter_map(|disk| Some(Endpoint { address: disk.pci.as_deref()?, port_bytes_per_second: None }));
        let gpus = machine
            .pci
            .iter()
            .filter(|function| is_gpu(function))
            .map(|function| Endpoint { address: &function.address, port_bytes_per_second: None });
        nics.chain(disks).chain(gpus).collect()
    }

    /// Where a function is plugged in: its card, whose link and slot become parts.
    fn place(&mut self, address: Option<&str>, node: &Fact<u32>) -> Place {
        let function = address.and_then(|address| find(self.machine, address));
        let root = self.root(node, function);
        let Some(function) = function else { return root };
        let all = self.endpoints();
        let own = all.iter().find(|endpoint| endpoint.address == function.address).cloned();
        let own = own.unwrap_or(Endpoint { address: &function.address, port_bytes_per_second: None });
        let links = chain(self.machine, &own, &all, Direction::ToMemory);
        let Some(first) = links.first().map(|link| link.address.clone()) else { return root };
        let mut up = root.clone();
        for (index, link) in links.iter().enumerate().rev() {
            let here = find(self.machine, &link.address);
            if self.cards.insert(link.address.clone()) {
                let kind = if index == 0 { JointKind::Card } else { JointKind::Switch };
                let slot = here.filter(|_| index == 0).and_then(|here| self.slot(here, up.clone()));
                let mut joint = Joint::new(&link.address, kind, slot.unwrap_or(up));
                joint.link = here.and_then(|here| here.link_max.known().or(here.link.known()).copied());
                joint.running = here.and_then(|here| here.link.known().copied());
                joint.formality = link.synthetic.clone();
                joint.max_payload_bytes = link.max_payload_bytes;
                self.parts.joints.push(joint);
            }
            up = Place::Joint(link.address.clone());
        }
        Place::Joint(first)
    }

    /// The node, where it is told or there is only one.
    fn root(&self, node: &Fact<u32>, function: Option<&PciDevice>) -> Place {
        let told = node.known().or_else(|| function.and_then(|function| function.node.known()));
        match (told.and_then(|id| self.parts.node(*id)), self.parts.nodes.as_slice()) {
            (Some(node), _) => Place::Node(node.id),
            (None, [only]) => Place::Node(only.id),
            _ => Place::Unknown,
        }
    }

    /// The port that a card is in, as a slot.
    fn slot(&mut self, card: &PciDevice, up: Place) -> Option<Place> {
        let port = find(self.machine, card.parent.as_deref()?)?;
        let name = slot_name(self.machine, port);
        if self.parts.joint(&name).is_none() {
            let mut slot = Joint::new(&name, JointKind::Slot, up);
            slot.link = port.link_max.known().copied();
            self.parts.joints.push(slot);
        }
        Some(Place::Joint(name))
    }

    /// Ports with nothing below them.
    fn empty_slots(&mut self) {
        for port in &self.machine.pci {
            let is_bridge = port.class.known().is_some_and(|class| class >> 8 == BRIDGE);
            let is_empty =
                || !self.machine.pci.iter().any(|other| other.parent.as_deref() == Some(&port.address));
            let Some(link) = port.link_max.known().filter(|link| is_bridge && link.width > 0) else {
                continue;
            };
            let name = slot_name(self.machine, port);
            if !is_empty() || self.parts.joint(&name).is_some() {
                continue;
            }
            let above = port.parent.clone().filter(|parent| self.cards.contains(parent));
            let up = above.map_or_else(|| self.root(&port.node, None), Place::Joint);
            let mut slot = Joint::new(name, JointKind::Slot, up);
            slot.link = Some(*link);
            self.parts.joints.push(slot);
        }
    }
}

/// `slot3`, as printed on the board, or `port-0000:00:01.0`.
fn slot_name(machine: &Machine, port: &PciDevice) -> String {
    let same = |other: &&PciDevice| other.express.slot.known() == port.express.slot.known();
    match port.express.slot.known() {
        // Some firmwares number several ports alike.
        Some(number) if *number > 0 && machine.pci.iter().filter(same).count() == 1 => {
            format!("slot{number}")
        }
        _ => format!("port-{}", port.address),
    }
}

fn is_gpu(function: &PciDevice) -> bool {
    let class = function.class.known().map(|class| class >> 8);
    let wide = || function.link_max.known().is_some_and(|link| link.width >= LEAST_GPU_LANES);
    class.is_some_and(|class| ACCELERATORS.contains(&class) || class == VGA && wide())
}

fn nic_rate(nic: &Nic) -> Fact<f64> {
    if let Some(driver) = nic.driver.known().filter(|driver| DRIVERS_WITHOUT_RATE.contains(&driver.as_str()))
    {
        return Fact::unknown(format!(
            "{driver} has no link: the speed it shows is a constant of the driver"
        ));
    }
    match &nic.speed_bits_per_second {
        Fact::Known(0) => Fact::unknown("the driver shows a speed of 0"),
        speed => speed.clone().map(bytes_per_second),
    }
}

/// Bytes per second of SATA up to 6 Gb/s and SAS up to 12 Gb/s, 8b/10b both; others have other codes.
fn port_rate(controller: &Controller) -> Option<f64> {
    let bits = *controller.link_bits_per_second.known()?;
    let eight_of_ten = matches!(controller.kind, ControllerKind::Sata | ControllerKind::Sas);
    (eight_of_ten && bits > 0).then(|| bytes_per_second(bits) * 0.8)
}
