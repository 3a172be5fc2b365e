//! What several disks or interfaces hang on, by the tree: a controller, a PCI function, the link of a bridge.

use super::Topology;
use std::fmt;

/// The nearest thing that devices have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared {
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
        if names.len() < 2 {
            return None;
        }
        let mut controllers = self.machine.controllers.iter();
        let common = controllers.find(|controller| {
            let has = |name: &&str| controller.disks.iter().any(|disk| disk == name);
            names.iter().all(has) && !others.iter().any(has)
        });
        if let Some(controller) = common {
            return Some(Shared::Controller(controller.name.clone()));
        }
        let ways: Vec<Vec<&str>> = names.iter().map(|name| self.way_up(name)).collect();
        let apart: Vec<Vec<&str>> = others.iter().map(|name| self.way_up(name)).collect();
        let (first, rest) = ways.split_first()?;
        let only = |address: &&&str| {
            rest.iter().all(|way| way.contains(*address)) && !apart.iter().any(|way| way.contains(*address))
        };
        let address = first.iter().find(only)?;
        Some(match first.first() == Some(address) {
            true => Shared::Function((*address).to_string()),
            false => Shared::Link((*address).to_string()),
        })
    }

    /// Addresses from a disk's or an interface's function up to its root port.
    fn way_up(&self, name: &str) -> Vec<&str> {
        let disk =
            self.machine.disks.iter().find(|disk| disk.name == name).and_then(|disk| disk.pci.as_deref());
        let nic = || self.machine.nics.iter().find(|nic| nic.name == name).and_then(|nic| nic.pci.as_deref());
        let Some(function) = disk.or_else(nic).and_then(|address| self.find(address)) else {
            return Vec::new();
        };
        let above = self.above(function).into_iter().map(|bridge| bridge.address.as_str());
        std::iter::once(function.address.as_str()).chain(above).collect()
    }
}
