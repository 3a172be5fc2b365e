//! The probe against recorded trees of real machines and what other tools read from the same trees: hwloc's
//! `lstopo` and node_exporter. The captures are not part of this project: without them (`LINERATE_CAPTURES`,
//! or `../shared/captures` beside the workspace) these tests are skipped and say so.

mod links;
mod storage;

use crate::support::place::{captures, files, unpack, unpack_ttar, unpack_ttar_gz};
use linerate::diagnose::map_findings;
use linerate::probe::{DiskKind, Machine, PciLink, probe};
use linerate::report::map_svg;
use linerate::report::tree::show_tree;
use linerate::sysroot::Sysroot;
use linerate_testing::{cases, drawn};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directory in an unpacked archive that holds `sys` or `proc`.
fn root_within(place: &Path) -> Option<PathBuf> {
    let mut level = vec![place.to_path_buf()];
    for _ in 0..4 {
        if let Some(root) = level.iter().find(|path| path.join("sys").is_dir() || path.join("proc").is_dir())
        {
            return Some(root.clone());
        }
        let entries = level.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
        level = entries.map(|entry| entry.path()).collect();
    }
    None
}

/// Probes a tree or an archive of one and shows it: neither may panic, and what was read survives JSON.
fn read(root: &Path) -> Machine {
    let machine = probe(&Sysroot::at(root).expect("a recorded machine"));
    assert!(!show_tree(&machine).is_empty());
    assert!(show_tree(&machine).lines().all(|line| line.chars().count() <= 100), "{}", show_tree(&machine));
    assert!(map_svg(&machine).ends_with("</svg>\n"));
    let json = serde_json::to_string(&machine).expect("JSON");
    assert_eq!(serde_json::from_str::<Machine>(&json).expect("the machine again"), machine);
    machine
}

fn hwloc(name: &str) -> Option<Machine> {
    Some(read(&captures()?.join(format!("hwloc/linux/{name}.tar.bz2"))))
}

fn online(machine: &Machine) -> BTreeSet<u32> {
    machine.cpu.logical.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
}

/// What `lstopo` printed about a tree.
#[derive(Default)]
struct Expected {
    cpus: BTreeSet<u32>,
    nodes: BTreeSet<u32>,
    packages: usize,
    cores: usize,
    /// Identity (`vendor:device`), class without interface, link in GB/s as printed, by address.
    pci: BTreeMap<String, (String, u32, Option<f64>)>,
}

/// Reads the console form: `PU L#1 (P#16)`, `PCI L#0 (busid=0000:1a:00.0 id=15b3:1013 class=0207(InfiniBand)
/// link=15.75GB/s)`.
fn parse_console(text: &str) -> Expected {
    let mut expected = Expected::default();
    for line in text.lines().map(str::trim) {
        // After the tree come matrices and attributes that name the same objects again.
        if line.starts_with("depth 0:") {
            break;
        }
        let number =
            || line.split_once("(P#")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok();
        match line.split([' ', '(']).next().unwrap_or("") {
            "PU" => expected.cpus.extend(number()),
            "NUMANode" => expected.nodes.extend(number()),
            "Package" => expected.packages += 1,
            "Core" => expected.cores += 1,
            "PCI" | "PCIBridge" => {
                let word = |key: &str| line.split([' ', '(', ')']).find_map(|word| word.strip_prefix(key));
                let class =
                    word("class=").and_then(|class| u32::from_str_radix(class, 16).ok()).expect("a class");
                let link = word("link=").and_then(|link| link.strip_suffix("GB/s")?.parse().ok());
                let address = word("busid=").expect("an address").to_string();
                expected.pci.insert(address, (word("id=").expect("an identity").to_string(), class, link));
            }
            _ => {}
        }
    }
    expected
}

/// GB/s of a link after its line code, as lstopo prints it.
fn gigabytes(link: &PciLink) -> f64 {
    let code = if link.gt_per_second <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    link.gt_per_second * f64::from(link.width) * code / 8.0
}

#[test]
fn every_hwloc_tree_as_lstopo_shows_it() {
    let Some(captures) = captures() else { return };
    let mut compared = 0;
    for archive in files(&captures.join("hwloc/linux"), ".tar.bz2") {
        let name = archive.file_name().expect("a name").to_string_lossy().replace(".tar.bz2", "");
        let machine = read(&archive);
        let console = archive.with_file_name(format!("{name}.console"));
        let Ok(console) = std::fs::read_to_string(console) else { continue };
        compare(&name, &machine, &parse_console(&console));
        compared += 1;
    }
    assert!(compared >= 14, "only {compared} trees have a console form");
}

/// What is held in memory answers like what lies on a disk.
#[test]
fn every_archive_reads_like_its_unpacked_tree() {
    let Some(captures) = captures() else { return };
    let mut compared = 0;
    for (folder, ending) in [("hwloc/linux", ".tar.bz2"), ("ghw", ".tar.gz"), ("libnvme", ".tar.xz")] {
        let archives = files(&captures.join(folder), ending);
        for archive in drawn(archives.len() as u32).map(|number| &archives[number as usize]) {
            let Some(place) = unpack(archive, &[]) else { return };
            let root = root_within(place.path()).expect("a tree in the archive");
            assert_eq!(read(archive), read(&root), "{}", archive.display());
            compared += 1;
        }
    }
    assert!(compared >= cases(20), "only {compared} archives");
}

fn compare(name: &str, machine: &Machine, expected: &Expected) {
    assert_eq!(online(machine), expected.cpus, "{name}: processors");
    let nodes: BTreeSet<u32> = machine.memory.nodes.iter().map(|node| node.id).collect();
    match name {
        // lstopo leaves out GPU memory and nodes without memory, and all nodes where the firmware's table is
        // nonsense.
        "nvidiagpunumanodes"
        | "fakememinitiators-1np2c+1npp+gi"
        | "8em64t-2s2ca2c-buggynuma"
        | "fakeheteromemtiers" => {
            assert!(nodes.is_superset(&expected.nodes), "{name}: {nodes:?} of {:?}", expected.nodes);
        }
        _ => assert_eq!(nodes, expected.nodes, "{name}: nodes"),
    }
    match name {
        // There lstopo merges two packages whose PCI buses the tree makes conflict on purpose.
        "40intel64-4n10c+pci-conflicts" => assert_eq!(machine.cpu.packages.known(), Some(&4)),
        // The kernel of that POWER7 gives −1 as the package; lstopo takes every core for one.
        "256ppc-8n8s4t" => assert!(machine.cpu.packages.why().is_some()),
        _ => assert_eq!(machine.cpu.packages.known(), Some(&(expected.packages as u32)), "{name}: packages"),
    }
    // The kernel calls the two cores of a Bulldozer module threads of one; lstopo knows the family and does
    // not.
    let cores = if name == "64amd64-4s2n4ca2co" { expected.cores / 2 } else { expected.cores };
    assert_eq!(machine.cpu.physical_cores.known(), Some(&(cores as u32)), "{name}: cores");
    for (address, (identity, class, link)) in &expected.pci {
        let device = machine.pci.iter().find(|device| &device.address == address);
        let device = device.unwrap_or_else(|| panic!("{name}: {address} is missing"));
        if let (Some(vendor), Some(product)) = (device.vendor.known(), device.device.known()) {
            assert_eq!(&format!("{vendor:04x}:{product:04x}"), identity, "{name}: {address}");
        }
        if let Some(own) = device.class.known() {
            assert_eq!(own >> 8, *class, "{name}: class of {address}");
        }
        if let (Some(own), Some(link)) = (device.link.known(), link) {
            assert!((gigabytes(own) - link).abs() < 0.006, "{name}: {address}: {own:?} is not {link} GB/s");
        }
    }
}

#[test]
fn all_links_of_a_machine_with_eight_accelerators() {
    let Some(machine) = hwloc("32intel64-2p8co2t+8ve") else { return };
    let both =
        machine.pci.iter().filter(|d| d.link.known().is_some() && d.link_max.known().is_some()).count();
    assert_eq!((machine.pci.len(), both), (29, 29));
    let get = |address: &str| machine.pci.iter().find(|d| d.address == address).expect("the device");
    let wide = PciLink { gt_per_second: 8.0, width: 16 };
    assert_eq!(get("0000:1a:00.0").link.known(), Some(&wide));
    // The on-chip X722: a link that is not a real limit, as the hardware tells it.
    assert_eq!(get("0000:60:00.0").link.known(), Some(&PciLink { gt_per_second: 2.5, width: 1 }));
    let findings = map_findings(&machine);
    assert!(findings.iter().all(|one| !one.id.starts_with("pcie-")), "{findings:?}");
    assert_eq!(get("0000:60:00.0").parent.as_deref(), Some("0000:5f:03.0"), "a bridge only a path shows");
    assert_eq!(get("0000:17:00.0").parent, None);
    assert_eq!(get("0000:1a:00.0").node.known(), Some(&0));
    let nic = machine.nics.iter().find(|nic| nic.name == "enp96s0f0").expect("the NIC");
    assert_eq!(nic.pci.as_deref(), Some("0000:60:00.0"));
    assert_eq!(nic.driver.known().map(String::as_str), Some("i40e"));
    assert_eq!(nic.speed_bits_per_second.known(), Some(&1_000_000_000));
    assert_eq!(machine.virtualisation.known().map(String::as_str), Some("none"));
    assert_eq!(machine.cpu.smt.known(), Some(&true));
}

#[test]
fn sparse_and_offline_processors_and_nodes() {
    let Some(machine) = hwloc("offline-cpu0-node0") else { return };
    assert_eq!(machine.cpu.logical.len(), 24);
    assert_eq!(online(&machine), (4..=20).collect());
    assert!(machine.cpu.logical[0].package.why().is_some_and(|why| why.contains("offline")));
    assert_eq!(machine.memory.nodes.len(), 1, "node 0 is offline");
    let Some(machine) = hwloc("nvidiagpunumanodes") else { return };
    assert!(
        machine.memory.nodes.iter().any(|node| node.cpus.is_empty() && node.total_bytes.known() > Some(&0))
    );
    let Some(machine) = hwloc("8em64t-2s2ca2c-buggynuma") else { return };
    assert!(
        machine.cpu.logical.iter().all(|cpu| cpu.node.why().is_some_and(|why| why.contains("several nodes")))
    );
}

#[test]
fn disks_and_file_systems_of_a_server() {
    let Some(machine) = hwloc("fakepcilocalities") else { return };
    let disk = machine.disks.iter().find(|disk| disk.name == "sda").expect("the RAID volume");
    assert_eq!((disk.kind, disk.pci.as_deref()), (DiskKind::Scsi, Some("0000:01:00.0")));
    assert_eq!(disk.rotational.known(), Some(&true));
    let root = machine.file_systems.iter().find(|fs| fs.mount_point == Path::new("/")).expect("a root");
    assert_eq!(root.devices, ["sda1"]);
    assert!(machine.file_systems.iter().any(|fs| fs.kind == "nfs" && fs.devices.is_empty()));
}

/// The XML form of lstopo counts the same objects.
#[test]
fn hwloc_trees_with_an_xml_form() {
    let Some(captures) = captures() else { return };
    for (name, whole) in
        [("fakepcilocalities", true), ("nvidia-dgx-gb10", true), ("32amd64-4s2n4c-cgroup2", false)]
    {
        let Some(machine) = hwloc(name) else { return };
        let xml = captures.join(format!("hwloc/linux/{name}.xml"));
        let xml = std::fs::read_to_string(xml).expect("the XML form");
        let of = |kind: &str| -> BTreeSet<u32> {
            let index = |part: &str| part.split_once("os_index=\"")?.1.split('"').next()?.parse().ok();
            xml.split(&format!("<object type=\"{kind}\"")).skip(1).filter_map(index).collect()
        };
        let nodes: BTreeSet<u32> = machine.memory.nodes.iter().map(|node| node.id).collect();
        assert!(!of("PU").is_empty());
        if whole {
            assert_eq!((online(&machine), nodes), (of("PU"), of("NUMANode")), "{name}");
        } else {
            // lstopo shows only what the recorded control group grants.
            assert!(online(&machine).is_superset(&of("PU")) && nodes.is_superset(&of("NUMANode")), "{name}");
        }
        for part in xml.split("pci_busid=\"").skip(1) {
            let address = part.split('"').next().expect("an address");
            assert!(machine.pci.iter().any(|device| device.address == address), "{name}: {address}");
        }
    }
}

#[test]
fn snapshots_with_empty_and_unreadable_files() {
    let Some(captures) = captures() else { return };
    for folder in ["ghw", "libnvme"] {
        for archive in files(&captures.join(folder), "z") {
            let machine = read(&archive);
            let name = archive.file_name().expect("a name").to_string_lossy().into_owned();
            if name.contains("offlineCPUs") {
                let listed = machine.cpu.logical.len();
                assert!(online(&machine).len() < listed, "{name}: none of {listed} is offline");
            }
            if name.contains("415ee03b") {
                let drive = machine.disks.iter().find(|disk| disk.name == "nvme0n1").expect("the drive");
                assert_eq!((drive.kind, drive.pci.as_deref()), (DiskKind::Nvme, Some("0000:04:00.0")));
                assert!(machine.disks.iter().any(|disk| disk.members == ["nvme0n1"]), "its partitions");
            }
        }
    }
}

/// The machine of node_exporter's fixtures, and what node_exporter prints of it.
fn node_exporter() -> Option<(Machine, String)> {
    let place = unpack(&captures()?.join("node_exporter/node_exporter-fixtures.tar.xz"), &[])?;
    let root = place.path().join("collector/fixtures");
    unpack_ttar(&std::fs::read(root.join("sys.ttar")).expect("the tree in text form"), &root);
    let text = std::fs::read_to_string(root.join("e2e-output.txt")).expect("its output");
    Some((read(&root), text))
}

#[test]
fn what_node_exporter_reads_from_its_fixtures() {
    let Some((machine, text)) = node_exporter() else { return };
    let mut compared = 0;
    for line in text.lines() {
        let Some((metric, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let device = metric.split("device=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("");
        let nic = || machine.nics.iter().find(|nic| nic.name == device).expect("the interface");
        let own = match metric.split('{').next() {
            Some("node_network_mtu_bytes") => nic().mtu.known().map(|mtu| f64::from(*mtu)),
            Some("node_network_speed_bytes") => {
                nic().speed_bits_per_second.known().map(|bits| *bits as f64 / 8.0)
            }
            Some("node_memory_MemTotal_bytes") => {
                machine.memory.total_bytes.known().map(|bytes| *bytes as f64)
            }
            _ => continue,
        };
        assert_eq!(own, Some(value), "{metric}");
        compared += 1;
    }
    assert!(compared >= 4, "only {compared} figures were compared");
    interrupts_as_node_exporter_names_them(&machine, &text);
    // The hwmon chips of these fixtures tell temperatures, fans and voltages, none of them power.
    assert_eq!(machine.power.hwmon.known().map(Vec::len), Some(0));
}

/// `node_interrupts_total{cpu="0",devices="xhci_hcd",info="IR-PCI-MSI-edge",type="42"} 378324`
fn interrupts_as_node_exporter_names_them(machine: &Machine, text: &str) {
    let mut expected = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("node_interrupts_total{cpu=\"0\"")) {
        let value =
            |key: &str| line.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        if let Some(number) = value("type").and_then(|number| number.parse::<u32>().ok()) {
            expected.insert(number, value("devices").expect("its devices").to_string());
        }
    }
    let found: BTreeMap<u32, String> =
        machine.interrupts.iter().map(|interrupt| (interrupt.number, interrupt.name.clone())).collect();
    assert!(found.len() > 10 && found == expected, "{found:?} is not {expected:?}");
}

#[test]
fn the_fixtures_of_procfs() {
    let Some(captures) = captures() else { return };
    let Some(place) = unpack_ttar_gz(&captures.join("procfs/fixtures.ttar.gz")) else { return };
    let machine = read(&place.path().join("fixtures"));
    let device = machine.pci.iter().find(|device| device.address == "0000:01:00.0").expect("the device");
    assert_eq!(device.link.known(), Some(&PciLink { gt_per_second: 8.0, width: 4 }));
    let kind = |name: &str| machine.disks.iter().find(|disk| disk.name == name).map(|disk| disk.kind);
    assert_eq!(
        (kind("dm-2"), kind("md0"), kind("sda")),
        (Some(DiskKind::Dm), Some(DiskKind::Md), Some(DiskKind::Scsi))
    );
    interrupts_power_and_clock_of_procfs(&machine);
}

fn interrupts_power_and_clock_of_procfs(machine: &Machine) {
    let names = ["package-0", "package-0/core", "package-10"].map(str::to_string);
    assert_eq!(machine.power.rapl.known(), Some(&names.to_vec()));
    assert!(
        machine.power.rapl_domains.iter().all(|d| d.wraps_at_microjoules.known() == Some(&262_143_328_850))
    );
    let name = |number: u32| machine.interrupts.iter().find(|i| i.number == number).map(|i| i.name.as_str());
    assert_eq!(
        (name(9), name(29), name(36)),
        (Some("acpi"), Some("ahci[0000:00:1f.2]"), Some("virtio0-input.0"))
    );
    let ahci = machine.interrupts.iter().find(|i| i.number == 29).expect("the SATA controller's");
    assert_eq!(ahci.pci.as_deref(), Some("0000:00:1f.2"));
    assert_eq!(machine.cpu.frequency_allowed_hertz.known(), Some(&(800_000_000, 2_400_000_000)));
    assert_eq!(machine.cpu.frequency_driver.known().map(String::as_str), Some("intel_pstate"));
}
