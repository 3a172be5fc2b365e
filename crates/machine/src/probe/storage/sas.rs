//! SAS hosts: phys, and the ports that they form (drivers/scsi/scsi_transport_sas.c).
//!
//! Below `host11` stand its phys (`phy-11:7`) and its ports (`port-11:0`), and below a port the drive or the
//! expander. What hangs on an expander goes on in the same way:
//! `port-11:0/expander-11:0/port-11:0:1/end_device-11:0:1/target11:0:8/11:0:8:0/block/sda`.

use super::name;
use super::scsi_host::{self, Host};
use crate::probe::in_order;
use crate::probe::machine::{Controller, ControllerPort, Disk};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One phy of the host that is up.
struct Phy {
    /// The port it is part of.
    port: Option<String>,
    now: u64,
    most: Option<u64>,
}

/// Fills in phys and ports of a host, and the links of the drives behind it.
pub(super) fn read(
    sysroot: &Sysroot,
    host: &Host,
    mut controller: Controller,
    disks: &mut [&mut (Disk, PathBuf)],
) -> Controller {
    let entries = sysroot.list(&host.directory);
    // An expander's phys have one number more, and are below the expander.
    let names: Vec<&String> =
        entries.iter().filter(|entry| entry.starts_with("phy-") && entry.matches(':').count() == 1).collect();
    let up: Vec<Phy> = names.iter().filter_map(|name| phy(sysroot, &host.directory.join(name))).collect();
    let all: Vec<&Phy> = up.iter().collect();
    if !names.is_empty() {
        controller.lanes = Fact::Known(count(up.len()));
        controller.lanes_max = Fact::Known(count(names.len()));
        controller.link_bits_per_second = sum(all.iter().map(|phy| phy.now));
        controller.link_max_bits_per_second = sum_most(&all);
    }
    controller.ports = ports(&up, &host.directory, disks);
    for (disk, directory) in disks.iter_mut().map(|entry| &mut **entry) {
        disk.link_bits_per_second = own_link(sysroot, directory);
        disk.link_max_bits_per_second =
            Fact::unknown("a SAS drive does not report the kernel what its own phy can do");
    }
    controller
}

/// A phy; `None` where nothing is on it.
fn phy(sysroot: &Sysroot, place: &Path) -> Option<Phy> {
    Some(Phy {
        now: rate(sysroot, place, "negotiated_linkrate")?,
        // What an administrator has set may be lower.
        most: rate(sysroot, place, "maximum_linkrate_hw")
            .or_else(|| rate(sysroot, place, "maximum_linkrate")),
        port: sysroot.link_name(place.join("port")),
    })
}

/// A rate of the phy in this directory.
fn rate(sysroot: &Sysroot, place: &Path, file: &str) -> Option<u64> {
    scsi_host::serial_rate(&sysroot.text(place.join("sas_phy").join(name(place)).join(file)).ok()?)
}

fn count(phys: usize) -> u32 {
    u32::try_from(phys).unwrap_or(u32::MAX)
}

fn sum(rates: impl Iterator<Item = u64>) -> Fact<u64> {
    let total = rates.fold(0u64, u64::saturating_add);
    Fact::from_option((total > 0).then_some(total), "no phy is up: nothing is plugged in")
}

fn sum_most(phys: &[&Phy]) -> Fact<u64> {
    let each: Option<Vec<u64>> = phys.iter().map(|phy| phy.most).collect();
    each.map_or_else(
        || Fact::unknown("the phys that are up do not report their most"),
        |rates| sum(rates.into_iter()),
    )
}

/// The host's ports with the disks behind each.
fn ports(up: &[Phy], host: &Path, disks: &[&mut (Disk, PathBuf)]) -> Vec<ControllerPort> {
    let mut behind: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (disk, directory) in disks.iter().map(|entry| &**entry) {
        let below = directory.strip_prefix(host).unwrap_or(directory);
        // Right below the host: ports of an expander come later in the path.
        if let Some(port) = below.components().next() {
            let port = port.as_os_str().to_string_lossy().into_owned();
            behind.entry(port).or_default().push(disk.name.clone());
        }
    }
    let mut phys: BTreeMap<&str, Vec<&Phy>> = BTreeMap::new();
    for phy in up {
        if let Some(port) = &phy.port {
            phys.entry(port).or_default().push(phy);
        }
    }
    let mut ports: Vec<ControllerPort> = phys
        .into_iter()
        .map(|(name, phys)| ControllerPort {
            name: name.to_string(),
            lanes: count(phys.len()),
            link_bits_per_second: sum(phys.iter().map(|phy| phy.now)),
            link_max_bits_per_second: sum_most(&phys),
            disks: behind.remove(name).unwrap_or_default(),
        })
        .collect();
    ports.sort_by(|a, b| in_order(&a.name, &b.name));
    ports
}

/// A drive's own link: the phys of the port nearest to it, on the host or on an expander.
fn own_link(sysroot: &Sysroot, directory: &Path) -> Fact<u64> {
    let Some(port) = directory.ancestors().find(|place| name(place).starts_with("port-")) else {
        return Fact::unknown("the kernel shows no SAS port above the drive");
    };
    // Links to the phys are in the port, so the nearer end of the drive's link is seen.
    let entries = sysroot.list(port);
    let phys = entries.iter().filter(|entry| entry.starts_with("phy-"));
    sum(phys.filter_map(|entry| rate(sysroot, &port.join(entry), "negotiated_linkrate")))
}

#[cfg(test)]
mod tests {
    use crate::probe::machine::{Controller, ControllerKind, Machine};
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;

    const HOST: &str = "sys/devices/pci0000:00/0000:03:00.0/host11";

    fn put_phy(tree: &mut Tree, above: &str, phy: &str, port: &str, now: &str) {
        let attributes = format!("{above}/{phy}/sas_phy/{phy}");
        tree.put(&format!("{attributes}/negotiated_linkrate"), now);
        tree.put(&format!("{attributes}/maximum_linkrate"), "12.0 Gbit\n");
        if !port.is_empty() {
            tree.link(&format!("{above}/{phy}/port"), &format!("../{port}"));
            tree.link(&format!("{above}/{port}/{phy}"), &format!("../{phy}"));
        }
    }

    /// Eight phys: four to an expander, one to a drive at half speed, the others free.
    fn machine() -> Machine {
        let mut tree = Tree::new(&[
            (&format!("{HOST}/scsi_host/host11/proc_name"), "mpt3sas\n"),
            (&format!("{HOST}/sas_host/host11/uevent"), ""),
        ]);
        for phy in 0..8 {
            let (port, now) = match phy {
                0..4 => ("port-11:0", "12.0 Gbit\n"),
                4 => ("port-11:1", "6.0 Gbit\n"),
                _ => ("", "Unknown\n"),
            };
            put_phy(&mut tree, HOST, &format!("phy-11:{phy}"), port, now);
        }
        let expander = format!("{HOST}/port-11:0/expander-11:0");
        put_phy(&mut tree, &expander, "phy-11:0:9", "port-11:0:2", "6.0 Gbit\n");
        let far = format!("{expander}/port-11:0:2/end_device-11:0:2/target11:0:1/11:0:1:0/block/sdb");
        let near = format!("{HOST}/port-11:1/end_device-11:1/target11:0:0/11:0:0:0/block/sda");
        for (disk, place) in [("sda", near), ("sdb", far)] {
            tree.put(&format!("{place}/size"), "8");
            tree.link(&format!("sys/class/block/{disk}"), &format!("../../../{place}"));
        }
        tree.link("sys/class/scsi_host/host11", &format!("../../../{HOST}/scsi_host/host11"));
        tree.link("sys/class/sas_host/host11", &format!("../../../{HOST}/sas_host/host11"));
        probe(&tree.sysroot())
    }

    fn rates(now: &Fact<u64>, most: &Fact<u64>) -> (Option<u64>, Option<u64>) {
        let giga = |fact: &Fact<u64>| fact.known().map(|bits| bits / 1_000_000_000);
        (giga(now), giga(most))
    }

    #[test]
    fn a_wide_port_of_four_at_12() {
        let machine = machine();
        let [Controller { kind, ports, lanes, lanes_max, .. }] = machine.controllers.as_slice() else {
            panic!("{:?}", machine.controllers)
        };
        let host = &machine.controllers[0];
        assert_eq!((host.name.as_str(), *kind), ("host11", ControllerKind::Sas));
        assert_eq!(host.model, Fact::Known("mpt3sas".into()));
        assert_eq!((lanes.known(), lanes_max.known()), (Some(&5), Some(&8)));
        assert_eq!(rates(&host.link_bits_per_second, &host.link_max_bits_per_second), (Some(54), Some(60)));
        let shown: Vec<_> =
            ports.iter().map(|port| (port.name.as_str(), port.lanes, port.disks.join(" "))).collect();
        assert_eq!(shown, [("port-11:0", 4, "sdb".into()), ("port-11:1", 1, "sda".into())]);
        assert_eq!(
            rates(&ports[0].link_bits_per_second, &ports[0].link_max_bits_per_second),
            (Some(48), Some(48))
        );
        assert_eq!(
            rates(&ports[1].link_bits_per_second, &ports[1].link_max_bits_per_second),
            (Some(6), Some(12))
        );
        assert_eq!(host.disks, ["sda", "sdb"]);
    }

    #[test]
    fn a_drive_behind_an_expander_has_the_link_of_its_own_port() {
        let machine = machine();
        for disk in &machine.disks {
            assert_eq!(disk.link_bits_per_second, Fact::Known(6_000_000_000), "{}", disk.name);
            assert_eq!(disk.controller.as_deref(), Some("host11"));
        }
    }
}
