//! What QEMU's devices cannot show (its drives claim 2.5 GT/s x1, its SATA ports no speed): the guest's own recorded
//! tree, with drives as they are today, and one register or file of it other than it should be.

use super::faults::other_than;
use super::guest::QemuServer;
use crate::support::process::Ends;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The two drives that are in bays, and what each negotiates with its port.
const DRIVES: [(&str, &str, &str); 2] = [("0000:11:00.0", "16.0", "4"), ("0000:12:00.0", "8.0", "2")];
/// With them: QEMU's cards ask for 128 bytes at a time, bay1 is older and narrower than its drive, and the drives
/// behind the switch share its link.
const USUAL: [&str; 3] = ["pcie-max-read-request", "pcie-slot-older", "shared-uplink"];

/// A fault: files of the tree with what they hold instead, and the finding with a device of it.
struct Edit {
    name: &'static str,
    edits: &'static [(&'static str, &'static str)],
    finding: &'static str,
    device: &'static str,
}

const FAULTS: [Edit; 4] = [
    Edit {
        name: "a drive on one lane of four",
        edits: &[("sys/bus/pci/devices/0000:11:00.0/current_link_width", "1")],
        finding: "pcie-width",
        device: "0000:11:00.0",
    },
    Edit {
        name: "a drive at half of its speed",
        edits: &[("sys/bus/pci/devices/0000:11:00.0/current_link_speed", "8.0 GT/s PCIe")],
        finding: "pcie-speed",
        device: "0000:11:00.0",
    },
    Edit {
        name: "a SATA port at a quarter of its speed",
        edits: &[("ATA/hw_sata_spd_limit", "6.0 Gbps"), ("ATA/sata_spd", "1.5 Gbps")],
        finding: "disk-port",
        device: "sda",
    },
    Edit {
        name: "a socket without memory",
        edits: &[("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB")],
        finding: "memory-one-node",
        device: "node 1",
    },
];

/// What is wrong with what is found in the guest's tree, as it is and with each fault.
pub(super) fn wrong(guest: &QemuServer) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = guest.capture();
    FAULTS.iter().filter_map(|fault| with(&archive, &folder.path().join(fault.finding), fault)).collect()
}

fn with(archive: &Path, tree: &Path, fault: &Edit) -> Option<String> {
    fs::create_dir(tree).expect("a folder");
    let tar = Command::new("tar").arg("xf").arg(archive).arg("-C").arg(tree).status().expect("tar");
    assert!(tar.success(), "{}", archive.display());
    todays_drives(tree);
    let before = probe(tree);
    let ids: Vec<&str> = before["findings"].as_array()?.iter().filter_map(|one| one["id"].as_str()).collect();
    if ids != USUAL {
        return Some(format!("before {}: {USUAL:?} were wanted, {ids:?} found", fault.name));
    }
    for (file, text) in fault.edits {
        fs::write(tree.join(file.replace("ATA", &ata_link(tree, "sda"))), format!("{text}\n")).expect(file);
    }
    let wrong = other_than(&probe(tree), fault.finding, fault.device, true, &USUAL)?;
    Some(format!("{}: {wrong}", fault.name))
}

/// PCIe 4.0 x4 on each, at what its port can do.
fn todays_drives(tree: &Path) {
    for (address, speed, width) in DRIVES {
        let place = tree.join("sys/bus/pci/devices").join(address);
        let files = [
            ("max_link_speed", "16.0 GT/s PCIe".to_string()),
            ("max_link_width", "4".to_string()),
            ("current_link_speed", format!("{speed} GT/s PCIe")),
            ("current_link_width", width.to_string()),
        ];
        for (file, text) in files {
            fs::write(place.join(file), text + "\n").expect(file);
        }
    }
}

/// The folder of the link that this disk is behind: `…/ataN/linkN/ata_link/linkN`.
fn ata_link(tree: &Path, disk: &str) -> String {
    let place = fs::canonicalize(tree.join("sys/block").join(disk)).expect("a disk");
    let port =
        place.ancestors().find(|at| at.file_name().is_some_and(|name| is_ata(&name.to_string_lossy())));
    let port = port.expect("a port");
    let number = port.file_name().expect("a name").to_string_lossy().replace("ata", "");
    port.join(format!("link{number}/ata_link/link{number}")).display().to_string()
}

fn is_ata(name: &str) -> bool {
    name.strip_prefix("ata").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn probe(tree: &Path) -> Value {
    let mut command = crate::support::linerate();
    let output = command.args(["probe", "--json"]).arg(tree).ended();
    output.json()
}
