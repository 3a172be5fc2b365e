//! What several disks or interfaces hang on, by the tree: a port, a controller, a PCI function, the link of a
//! bridge; and what that carries.

use super::{LinkCondition, Topology, disk_port_rate, payload_rate, sas_port_rate};
use crate::rates::pcie::PayloadDirection;
use std::fmt;

/// Something that devices have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared {
    /// A port of a SAS controller by its name: one cable to an expander.
    Port(String),
    /// A storage controller by its name.
    Controller(String),
    /// A PCI function by its address.
    Function(String),
    /// The link of a root port or of a switch, by its address.
    Link(String),
}

impl fmt::Display for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shared::Port(name) => write!(out, "the SAS port {name}"),
            Shared::Controller(name) => write!(out, "the controller {name}"),
            Shared::Function(address) => write!(out, "the PCI function {address}"),
            Shared::Link(address) => write!(out, "the PCIe link of {address}"),
        }
    }
}

impl Topology<'_> {
    /// The nearest thing that all of these disks or interfaces hang on and none of the others does; none for
    /// fewer than two, or where the machine does not show it.
    pub fn shared_by(&self, names: &[&str], others: &[&str]) -> Option<Shared> {
        self.all_shared_by(names, others).into_iter().next()
    }

    /// Everything that all of these hang on and none of the others does, the nearest first.
    pub fn all_shared_by(&self, names: &[&str], others: &[&str]) -> Vec<Shared> {
        if names.len() < 2 {
            return Vec::new();
        }
        let has = |disks: &[String]| {
            let one = |name: &&str| disks.iter().any(|disk| disk == name);
            names.iter().all(one) && !others.iter().any(one)
        };
        let controllers = &self.machine.controllers;
        let ports = controllers.iter().flat_map(|controller| &controller.ports);
        let ports = ports.filter(|port| has(&port.disks)).map(|port| Shared::Port(port.name.clone()));
        let whole = controllers.iter().filter(|controller| has(&controller.disks));
        let whole = whole.map(|controller| Shared::Controller(controller.name.clone()));
        ports.chain(whole).chain(self.paths_shared(names, others)).collect()
    }

    fn paths_shared(&self, names: &[&str], others: &[&str]) -> Vec<Shared> {
        let paths: Vec<Vec<&str>> = names.iter().map(|name| self.path_up(name)).collect();
        let apart: Vec<Vec<&str>> = others.iter().map(|name| self.path_up(name)).collect();
        let Some((first, rest)) = paths.split_first() else { return Vec::new() };
        let only = |address: &&&str| {
            rest.iter().all(|path| path.contains(*address))
                && !apart.iter().any(|path| path.contains(*address))
        };
        let shared = |address: &&str| match first.first() == Some(address) {
            true => Shared::Function((*address).to_string()),
            false => Shared::Link((*address).to_string()),
        };
        first.iter().filter(only).map(shared).collect()
    }

    /// What it carries of the payload in this direction, bytes per second, where the machine shows it.
    pub fn rate_of(&self, shared: &Shared, direction: PayloadDirection) -> Option<f64> {
        let controllers = &self.machine.controllers;
        match shared {
            Shared::Port(name) => {
                sas_port_rate(controllers.iter().flat_map(|of| &of.ports).find(|port| port.name == *name)?)
            }
            Shared::Controller(name) => disk_port_rate(controllers.iter().find(|of| of.name == *name)?),
            Shared::Function(address) | Shared::Link(address) => {
                let link = self.link(self.find(address)?)?;
                let real = !matches!(link.condition, LinkCondition::Formality(_));
                payload_rate(link.under_load().filter(|_| real)?, link.device, direction)
            }
        }
    }

    /// Addresses from a disk's or an interface's function up to its root port.
    fn path_up(&self, name: &str) -> Vec<&str> {
        let disk = self.machine.disk(name).and_then(|disk| disk.pci.as_deref());
        let nic = || self.machine.nic(name).and_then(|nic| nic.pci.as_deref());
        let Some(function) = disk.or_else(nic).and_then(|address| self.find(address)) else {
            return Vec::new();
        };
        let above = self.above(function).into_iter().map(|bridge| bridge.address.as_str());
        std::iter::once(function.address.as_str()).chain(above).collect()
    }
}
