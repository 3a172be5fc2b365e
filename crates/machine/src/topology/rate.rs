//! What links and ports carry, bytes per second: the one rate of a NIC, of a disk port, of a PCIe link.
//!
//! Shared is what several disks or interfaces hang on, by the tree: a port, a controller, a PCI function, the
//! link of a bridge; and what that carries.

use super::{LinkCondition, Topology};
use crate::probe::{Controller, ControllerKind, ControllerPort, Nic, PciDevice, PciLink};
use crate::rates::pcie::{self, PayloadDirection};
use linerate_facts::fact::Fact;
use linerate_facts::units::bytes_per_second;
use std::fmt;

/// Drivers without a wire: what they show as speed is a constant (`veth_get_link_ksettings` says 10 Gb/s).
pub const DRIVERS_WITHOUT_WIRE: [&str; 4] = ["veth", "tun", "tap", "dummy"];
/// The part of an Ethernet frame besides the MTU that crosses PCIe: addresses and type.
pub const FRAME_HEADER_BYTES: f64 = 14.0;
/// … and what the wire carries besides the MTU: that, check sequence, preamble and gap.
const WIRE_OVERHEAD_BYTES: f64 = 38.0;
/// Line rate of a SAS-4 lane, bits per second; its code is 128b/150b.
const SAS4_LANE: u64 = 22_500_000_000;

/// Line rate of a NIC's port, bytes per second; or why it has none.
pub fn line_rate(nic: &Nic) -> Fact<f64> {
    if nic.loopback {
        return Fact::unknown("the host's own stack");
    }
    if let Some(driver) = nic.driver.known().filter(|name| DRIVERS_WITHOUT_WIRE.contains(&name.as_str())) {
        let why = format!("{driver} has no link: the speed it shows is a constant of the driver");
        return Fact::unknown(why);
    }
    match &nic.speed_bits_per_second {
        Fact::Known(0) => Fact::unknown("the driver shows a speed of 0"),
        speed => speed.clone().map(bytes_per_second),
    }
}

/// What crosses PCIe at the NIC's line rate: the frames without preamble, check sequence and gap.
pub fn frame_rate(nic: &Nic) -> Option<f64> {
    let line = line_rate(nic).known().copied()?;
    let mtu = f64::from(nic.mtu.known().copied().unwrap_or(1500));
    Some(line * (mtu + FRAME_HEADER_BYTES) / (mtu + WIRE_OVERHEAD_BYTES))
}

/// Data rate of a SATA, SAS or Fibre Channel port as it runs; NVMe has no port but its PCIe link.
pub fn disk_port_rate(controller: &Controller) -> Option<f64> {
    let bits = controller.link_bits_per_second.known().copied().filter(|bits| *bits > 0)?;
    match controller.kind {
        // 8b/10b, as SAS up to 12 Gb/s.
        ControllerKind::Sata => Some(bytes_per_second(bits) * 0.8),
        ControllerKind::Sas => Some(sas_rate(bits)),
        // The kernel shows the data rate.
        ControllerKind::FibreChannel => Some(bytes_per_second(bits)),
        ControllerKind::Nvme | ControllerKind::Scsi | ControllerKind::Other => None,
    }
}

/// Data rate of one port of a SAS host, all its phys.
pub fn sas_port_rate(port: &ControllerPort) -> Option<f64> {
    port.link_bits_per_second.known().copied().filter(|bits| *bits > 0).map(sas_rate)
}

fn sas_rate(bits: u64) -> f64 {
    let code = if bits.is_multiple_of(SAS4_LANE) { 128.0 / 150.0 } else { 0.8 };
    bytes_per_second(bits) * code
}

/// Rate of a link after its encoding, bytes per second one way.
pub fn raw_rate(link: PciLink) -> Option<f64> {
    pcie::raw_bytes_per_second(link.gt_per_second, link.width)
}

/// Payload of a link one way with the function's MaxPayload, or the usual one where it could not be read: the one figure
/// of findings, tables and pictures.
pub fn payload_rate(link: PciLink, device: &PciDevice, direction: PayloadDirection) -> Option<f64> {
    let most = device.express.max_payload_bytes.known().copied();
    let taken = most.unwrap_or(pcie::usual_max_payload_bytes(link.gt_per_second));
    pcie::payload_bytes_per_second(link.gt_per_second, link.width, Some(taken), direction)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn port(kind: ControllerKind, gigabits: f64) -> Option<f64> {
        let link_bits_per_second = Fact::Known((gigabits * 1e9) as u64);
        disk_port_rate(&Controller { kind, link_bits_per_second, ..Default::default() })
    }

    #[test]
    fn disk_ports_carry_what_their_code_leaves() {
        assert_eq!(port(ControllerKind::Sata, 6.0), Some(600e6));
        assert_eq!(port(ControllerKind::Sas, 48.0), Some(4.8e9));
        assert_eq!(port(ControllerKind::Sas, 90.0), Some(90e9 / 8.0 * 128.0 / 150.0), "four lanes of SAS-4");
        assert_eq!(port(ControllerKind::FibreChannel, 16.0), Some(2e9));
        assert_eq!((port(ControllerKind::Nvme, 6.0), port(ControllerKind::Sata, 0.0)), (None, None));
    }

    #[test]
    fn drivers_without_a_wire_have_no_rate() {
        let nic = |driver: &str, bits| Nic {
            driver: Fact::Known(driver.into()),
            speed_bits_per_second: Fact::Known(bits),
            mtu: Fact::Known(9000),
            ..Default::default()
        };
        for driver in DRIVERS_WITHOUT_WIRE {
            assert!(line_rate(&nic(driver, 10_000_000_000)).why().is_some_and(|why| why.contains(driver)));
        }
        assert_eq!(line_rate(&nic("ice", 0)).why(), Some("the driver shows a speed of 0"));
        assert_eq!(line_rate(&nic("ice", 8_000_000_000)), Fact::Known(1e9));
        assert_eq!(frame_rate(&nic("ice", 8_000_000_000)), Some(1e9 * 9014.0 / 9038.0));
        let loopback = Nic { loopback: true, ..nic("ice", 8_000_000_000) };
        assert_eq!(line_rate(&loopback).why(), Some("the host's own stack"));
    }
}
