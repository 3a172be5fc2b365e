//! SATA ports: `/sys/devices/…/ata1` with its link and drives (drivers/ata/libata-transport.c).
//!
//! A port multiplier hangs on the port's own link, `link1`, and has links `link1.0`, `link1.1` … to its
//! drives.

use super::{name, numbered, scsi_host};
use crate::probe::machine::{Controller, Disk};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::{Path, PathBuf};

/// Fills in the port's link, and that of the drives behind it. `port` is `/sys/devices/…/ata1`.
pub(super) fn read(
    sysroot: &Sysroot,
    port: &Path,
    mut controller: Controller,
    disks: &mut [&mut (Disk, PathBuf)],
) -> Controller {
    let Some(number) = numbered(port, "ata") else { return controller };
    let link = port.join(format!("link{number}"));
    controller.link_bits_per_second = match speed(sysroot, &link, "sata_spd") {
        Fact::Unknown { .. } if disks.is_empty() => Fact::unknown("nothing is plugged in"),
        speed => speed,
    };
    controller.link_max_bits_per_second = match speed(sysroot, &link, "hw_sata_spd_limit") {
        // Without a limit of firmware or kernel libata shows all bits set, which has no name.
        Fact::Unknown { .. } => {
            Fact::unknown("no limit is set, and the kernel does not show what the port can do")
        }
        limit => limit,
    };
    controller.lanes = Fact::Known(1);
    controller.lanes_max = Fact::Known(1);
    for (disk, directory) in disks.iter_mut().map(|entry| &mut **entry) {
        let (now, most) = drive(sysroot, port, number, directory, &controller.link_bits_per_second);
        disk.link_bits_per_second = now;
        disk.link_max_bits_per_second = most;
    }
    controller
}

/// Link of a drive, and the most that the drive can do. Its SCSI address is host:channel:id:lun; without a
/// multiplier the id is that of the drive on the port (0, or 1 for a slave), with one the channel is the
/// multiplier's port (drivers/ata/libata-scsi.c, `ata_find_dev`).
fn drive(
    sysroot: &Sysroot,
    port: &Path,
    number: &str,
    directory: &Path,
    of_port: &Fact<u64>,
) -> (Fact<u64>, Fact<u64>) {
    let address = directory.ancestors().nth(2).map(name).unwrap_or_default();
    let mut parts = address.split(':').skip(1);
    let (Some(channel), Some(id)) = (parts.next(), parts.next()) else {
        return (of_port.clone(), Fact::unknown("the drive has no SCSI address"));
    };
    let identify = |link: &str, device: &str| {
        sysroot.text(port.join(link).join(device).join("ata_device").join(device).join("id"))
    };
    match identify(&format!("link{number}"), &format!("dev{number}.{id}")) {
        Ok(words) if !words.is_empty() => (of_port.clone(), scsi_host::identified_rate(&words)),
        direct => {
            let link = format!("link{number}.{channel}");
            match identify(&link, &format!("dev{number}.{channel}.0")) {
                Ok(words) => {
                    (speed(sysroot, &port.join(link), "sata_spd"), scsi_host::identified_rate(&words))
                }
                Err(_) => {
                    let why = direct.err().map(|why| why.to_string());
                    let empty = || "no IDENTIFY data of the drive".into();
                    (of_port.clone(), Fact::unknown(why.unwrap_or_else(empty)))
                }
            }
        }
    }
}

/// A speed of a link: `sata_spd` is what it runs at.
fn speed(sysroot: &Sysroot, link: &Path, file: &str) -> Fact<u64> {
    let speed = sysroot.fact(link.join("ata_link").join(name(link)).join(file));
    speed.and_then(|text| {
        Fact::from_option(scsi_host::serial_rate(&text), "the link is down, or no SATA link")
    })
}

#[cfg(test)]
mod tests {
    use crate::probe::machine::{ControllerKind, Machine};
    use crate::probe::probe;
    use linerate_facts::fact::Fact;
    use linerate_testing::Tree;

    const PORT: &str = "sys/devices/pci0000:00/0000:00:1f.2/ata3";

    /// A drive of 6 Gb/s on a port whose link runs at `speed` under `limit`.
    fn machine(speed: &str, limit: &str) -> Machine {
        let mut words = vec!["0000"; 256];
        words[76] = "850e";
        let mut tree = Tree::new(&[
            (&format!("{PORT}/link3/ata_link/link3/sata_spd"), speed),
            (&format!("{PORT}/link3/ata_link/link3/hw_sata_spd_limit"), limit),
            (&format!("{PORT}/link3/dev3.0/ata_device/dev3.0/id"), &words.join(" ")),
            (&format!("{PORT}/host2/scsi_host/host2/proc_name"), "ahci\n"),
            (&format!("{PORT}/host2/scsi_host/host2/nr_hw_queues"), "1\n"),
            (&format!("{PORT}/host2/target2:0:0/2:0:0:0/block/sda/size"), "8"),
            (&format!("{PORT}/host2/target2:0:0/2:0:0:0/block/sda/sda1/partition"), "1"),
        ]);
        tree.link("sys/class/scsi_host/host2", &format!("../../../{PORT}/host2/scsi_host/host2"));
        tree.link("sys/block/sda", &format!("../../{PORT}/host2/target2:0:0/2:0:0:0/block/sda"));
        probe(&tree.sysroot())
    }

    #[test]
    fn a_port_at_3_of_6() {
        let machine = machine("3.0 Gbps\n", "6.0 Gbps\n");
        let [port] = machine.controllers.as_slice() else { panic!("{:?}", machine.controllers) };
        assert_eq!((port.name.as_str(), port.kind), ("ata3", ControllerKind::Sata));
        assert_eq!((port.model.known().map(String::as_str), port.queues.known()), (Some("ahci"), Some(&1)));
        assert_eq!(port.transport, Fact::Known("sata".into()));
        assert_eq!(port.link_bits_per_second, Fact::Known(3_000_000_000));
        assert_eq!(port.link_max_bits_per_second, Fact::Known(6_000_000_000));
        assert_eq!(port.disks, ["sda"]);
        let disk = &machine.disks[0];
        assert_eq!(disk.controller.as_deref(), Some("ata3"));
        assert_eq!(disk.link_bits_per_second, Fact::Known(3_000_000_000));
        assert_eq!(disk.link_max_bits_per_second, Fact::Known(6_000_000_000), "as the drive tells");
        assert_eq!(machine.disks[1].controller.as_deref(), Some("ata3"), "the partition, too");
    }

    #[test]
    fn a_port_without_a_limit_says_so() {
        let machine = machine("6.0 Gbps\n", "<unknown>\n");
        assert!(
            machine.controllers[0].link_max_bits_per_second.why().is_some_and(|why| why.contains("no limit"))
        );
    }

    #[test]
    fn drives_behind_a_multiplier_have_links_of_their_own() {
        let mut words = vec!["0000"; 256];
        words[76] = "0006";
        let mut tree = Tree::new(&[
            (&format!("{PORT}/link3/ata_link/link3/sata_spd"), "6.0 Gbps"),
            (&format!("{PORT}/link3/dev3.0/ata_device/dev3.0/id"), ""),
            (&format!("{PORT}/link3.1/ata_link/link3.1/sata_spd"), "3.0 Gbps"),
            (&format!("{PORT}/link3.1/dev3.1.0/ata_device/dev3.1.0/id"), &words.join(" ")),
            (&format!("{PORT}/host2/target2:1:0/2:1:0:0/block/sdb/size"), "8"),
        ]);
        tree.link("sys/block/sdb", &format!("../../{PORT}/host2/target2:1:0/2:1:0:0/block/sdb"));
        let machine = probe(&tree.sysroot());
        assert_eq!(machine.controllers[0].link_bits_per_second, Fact::Known(6_000_000_000), "shared by all");
        assert_eq!(machine.disks[0].link_bits_per_second, Fact::Known(3_000_000_000));
        assert_eq!(machine.disks[0].link_max_bits_per_second, Fact::Known(3_000_000_000));
    }

    #[test]
    fn an_empty_port() {
        let mut tree = Tree::new(&[
            (&format!("{PORT}/link3/ata_link/link3/sata_spd"), "<unknown>"),
            (&format!("{PORT}/host2/scsi_host/host2/proc_name"), "ahci"),
        ]);
        tree.link("sys/class/scsi_host/host2", &format!("../../../{PORT}/host2/scsi_host/host2"));
        let machine = probe(&tree.sysroot());
        assert_eq!(machine.controllers[0].link_bits_per_second.why(), Some("nothing is plugged in"));
    }

    #[test]
    fn a_parallel_port_has_a_transport_of_its_own() {
        let mut tree = Tree::new(&[(&format!("{PORT}/host2/scsi_host/host2/proc_name"), "pata_via")]);
        tree.link("sys/class/scsi_host/host2", &format!("../../../{PORT}/host2/scsi_host/host2"));
        let port = probe(&tree.sysroot()).controllers.remove(0);
        assert_eq!((port.kind, port.transport), (ControllerKind::Other, Fact::Known("pata".into())));
        assert_eq!(port.lanes.known(), None);
    }
}
