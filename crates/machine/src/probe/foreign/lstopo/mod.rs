//! `lstopo` XML (hwloc 1, 2 and 3): packages, cores, processors, NUMA nodes, caches, the PCI tree, NICs and
//! disks.
//!
//! The format is hwloc's own (`hwloc/topology-xml.c`). What differs by version: in 1 the NUMA nodes hold the
//! packages, and the kinds of OS devices are numbers; 2 hangs the nodes beside; 3 makes the kinds bits and
//! adds units to sizes.

mod cores;
mod devices;
mod objects;

use super::topology_xml::{self, TopologyError};
use crate::probe::{Kernel, Machine};
use linerate_facts::fact::Fact;
use objects::Objects;

/// Reads a topology.
pub(crate) fn from_lstopo(text: &str) -> Result<Machine, TopologyError> {
    let document = topology_xml::parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let name = root.tag_name().name();
        let wanted = "not the <topology> that lstopo writes; make the file with “lstopo FILE.xml”";
        return Err(TopologyError::at(text, root, format!("a <{name}>, {wanted}")));
    }
    let found = Objects::read(text, root)?;
    let reported =
        |name: &str| Fact::from_option(found.info(name).map(str::to_string), "lstopo does not report");
    let pci = devices::pci(&found);
    Ok(Machine {
        host: reported("HostName"),
        kernel: Kernel { release: reported("OSRelease"), ..Default::default() },
        cpu: cores::cpu(&found),
        memory: cores::memory(&found),
        nics: devices::nics(&found, &pci),
        disks: devices::disks(&found, &pci),
        pci,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests;
