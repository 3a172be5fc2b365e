//! The product of the probe: what the server is. Data only; every field that can fail to be read is a `Fact`.
//!
//! Fields may be added (with `#[serde(default)]`, so that older files still read), never renamed: `run.json`
//! holds them.

mod cpu;
mod kernel;
mod memory;
mod nic;
mod pci;
mod power;
mod storage;

pub use cpu::*;
pub use kernel::*;
pub use memory::*;
pub use nic::*;
pub use pci::*;
pub use power::*;
pub use storage::*;

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// What the server is: packages, cores, NUMA nodes, memory, PCIe tree, NICs, block devices, file systems,
/// kernel settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: Fact<String>,
    /// Hypervisor name (`kvm`, `vmware`, …), `none` on bare metal.
    pub virtualisation: Fact<String>,
    /// CPUs.
    pub cpu: Cpu,
    /// Memory and NUMA nodes.
    pub memory: Memory,
    /// PCI devices, in address order.
    pub pci: Vec<PciDevice>,
    /// Network interfaces, in name order, loopback included.
    pub nics: Vec<Nic>,
    /// Block devices (whole disks, partitions, loop, dm, md), in name order.
    pub disks: Vec<Disk>,
    /// Mounted file systems that a block device or a network is behind, in mount order.
    pub file_systems: Vec<FileSystem>,
    /// Kernel version and the settings that bound a flow.
    pub kernel: Kernel,
    /// Controllers between PCI and disks: NVMe controllers, SATA, SAS and Fibre Channel hosts.
    pub controllers: Vec<Controller>,
    /// Interrupts of devices and the CPUs that take them.
    pub interrupts: Vec<Interrupt>,
    /// What reports the power drawn.
    pub power: Power,
    /// Container that linerate runs in (`docker`, `kubernetes`, …), `none` outside of any.
    pub container: Fact<String>,
    /// Slots for cards of PCI Express by the firmware, empty ones included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<CardSlot>,
    /// Type of the instance, where a cloud's firmware names it (`m5.24xlarge`).
    #[serde(default)]
    pub instance: Fact<String>,
}

impl Machine {
    /// The disk of this name.
    pub fn disk(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.name == name)
    }

    /// The interface of this name.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }
}
