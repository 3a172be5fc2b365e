//! What other tools wrote about real machines, against the trees that the same machines were recorded as and
//! against what `lstopo` says. The captures are not part of this project: without them (`LINERATE_CAPTURES`,
//! or `../shared/captures` beside the workspace) these tests are skipped and say so.

use crate::support::place::{captures, files};
use linerate::fact::Fact;
use linerate::plan::{Goal, PathPlan, SourcePlan, plan};
use linerate::probe::foreign::{ForeignSources, NamedText, described};
use linerate::probe::{Machine, PciLink, probe};
use linerate::protocol::Protocol;
use linerate::report::tree::show_tree;
use linerate::sysroot::Sysroot;
use linerate_testing::{goal, paths, sources};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// One file as a source.
fn of_file(file: &Path) -> ForeignSources {
    let bytes = std::fs::read(file).expect("a capture");
    ForeignSources { files: vec![NamedText { name: file.display().to_string(), bytes }], tree: None }
}

/// One machine, which can be shown and saved.
fn read(sources: &ForeignSources) -> Machine {
    let machine = described(sources).unwrap_or_else(|why| panic!("{why}")).machine;
    assert!(!show_tree(&machine).is_empty());
    let json = serde_json::to_string(&machine).expect("JSON");
    assert_eq!(serde_json::from_str::<Machine>(&json).expect("the machine again"), machine);
    machine
}

fn lstopo(file: &Path) -> Machine {
    read(&of_file(file))
}

fn nccl(name: &str) -> Option<Machine> {
    Some(read(&of_file(&captures()?.join("nccl-topo").join(name))))
}

/// How often a kind of object stands in the file.
fn count(text: &str, kind: &str) -> usize {
    text.matches(&format!("<object type=\"{kind}\"")).count()
}

#[test]
fn every_lstopo_file_has_its_objects() {
    let Some(captures) = captures() else { return };
    let mut all = files(&captures.join("hwloc/xml"), ".xml");
    all.extend(files(&captures.join("hwloc/linux"), ".xml"));
    assert!(all.len() >= 9);
    for file in all {
        let text = std::fs::read_to_string(&file).expect("a capture");
        let machine = lstopo(&file);
        let name = file.display();
        assert_eq!(machine.cpu.logical.len(), count(&text, "PU"), "{name}");
        assert_eq!(
            machine.cpu.packages.known().copied().unwrap_or(0) as usize,
            count(&text, "Package"),
            "{name}"
        );
        assert_eq!(
            machine.cpu.physical_cores.known().copied().unwrap_or(0) as usize,
            count(&text, "Core"),
            "{name}"
        );
        assert_eq!(machine.memory.nodes.len(), count(&text, "NUMANode"), "{name}");
        assert!(machine.memory.total_bytes.known().is_some(), "{name}");
        let addresses: BTreeSet<&str> =
            text.split("pci_busid=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
        assert_eq!(
            machine.pci.iter().map(|device| device.address.as_str()).collect::<BTreeSet<_>>(),
            addresses,
            "{name}"
        );
        let caches = (1..=5)
            .map(|level| count(&text, &format!("L{level}Cache")) + count(&text, &format!("L{level}iCache")))
            .sum::<usize>();
        assert_eq!(machine.cpu.caches.len(), caches, "{name}");
        assert!(
            machine.cpu.logical.iter().all(|cpu| cpu.node.known().is_some()),
            "{name}: a processor without a node"
        );
    }
}

#[test]
fn the_links_of_a_dgx_2() {
    let Some(captures) = captures() else { return };
    let machine = lstopo(&captures.join("hwloc/xml/nvidiaDGX2.xml"));
    assert_eq!(machine.pci.len(), 84);
    // Skylake's ports and PLX's switches do 8 GT/s: the rate tells the width.
    let untold = machine.pci.iter().filter_map(|device| device.link.why());
    let untold: Vec<&str> = untold.collect();
    // The NVSwitches' management ports, which run at 1 GB/s.
    assert_eq!(untold.len(), 24);
    assert!(untold.iter().all(|why| why.ends_with("1.00 GB/s: 2.5 GT/s x4 or 5 GT/s x2")), "{untold:?}");
    let gpu = machine.pci.iter().find(|device| device.address == "0000:34:00.0").expect("a GPU");
    assert_eq!(gpu.link.known(), Some(&PciLink { gt_per_second: 8.0, width: 16 }));
    assert_eq!(gpu.parent.as_deref(), Some("0000:33:00.0"));
    assert_eq!(machine.memory.nodes[0].distances.known(), Some(&vec![10, 21]));
}

#[test]
fn a_tree_and_the_xml_of_the_same_machine() {
    let Some(captures) = captures() else { return };
    for name in ["fakepcilocalities", "nvidia-dgx-gb10"] {
        let tree =
            probe(&Sysroot::at(&captures.join(format!("hwloc/linux/{name}.tar.bz2"))).expect("a tree"));
        same(name, &tree, &lstopo(&captures.join(format!("hwloc/linux/{name}.xml"))), true);
    }
}

/// The same machines as hwloc 1 and 2 write them, by the `lstopo` of this machine.
#[test]
fn trees_as_this_lstopo_writes_them() {
    let Some(captures) = captures() else { return };
    let mut compared = 0;
    let all = "32intel64-2p8co2t+8ve fakepcilocalities 16amd64-8n2c offline-cpu0-node0 \
                   nvidiagpunumanodes";
    for name in all.split(' ') {
        let archive = captures.join(format!("hwloc/linux/{name}.tar.bz2"));
        let place = tempfile::tempdir().expect("a temporary directory");
        let unpacked = Command::new("tar")
            .args("--extract --no-same-owner --no-same-permissions --mode=u+rwX".split(' '))
            .args(["--strip-components=1", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(place.path())
            .status();
        if !unpacked.is_ok_and(|status| status.success()) {
            println!("skipped: tar cannot unpack {}", archive.display());
            return;
        }
        let tree = probe(&Sysroot::recorded(place.path()));
        for flags in ["0", "1"] {
            let file = place.path().join(format!("v{flags}.xml"));
            let written = Command::new("lstopo-no-graphics")
                .env("HWLOC_FSROOT", place.path())
                .env("HWLOC_THISSYSTEM", "0")
                .env("HWLOC_COMPONENTS", "linux,stop")
                .args(["--whole-io", "--no-caches", "--export-xml-flags", flags])
                .arg(&file)
                .status();
            if !written.is_ok_and(|status| status.success()) {
                println!("skipped: no lstopo");
                return;
            }
            same(&format!("{name}, flags {flags}"), &tree, &lstopo(&file), false);
            compared += 1;
        }
    }
    assert_eq!(compared, 10);
}

/// What both tell is the same. `io`: lstopo was told to leave no device out.
fn same(name: &str, tree: &Machine, xml: &Machine, disks: bool) {
    let online: Vec<u32> = tree.cpu.logical.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    assert_eq!(xml.cpu.logical.iter().map(|cpu| cpu.id).collect::<Vec<_>>(), online, "{name}");
    assert_eq!(
        (&xml.cpu.packages, &xml.cpu.physical_cores, &xml.cpu.smt),
        (&tree.cpu.packages, &tree.cpu.physical_cores, &tree.cpu.smt),
        "{name}"
    );
    for own in &xml.cpu.logical {
        let other = tree.cpu.logical.iter().find(|cpu| cpu.id == own.id).expect("the processor");
        assert_eq!(
            (&own.siblings, own.node.known()),
            (&other.siblings, other.node.known()),
            "{name}: {}",
            own.id
        );
        assert_eq!((&own.package, &own.core), (&other.package, &other.core), "{name}: {}", own.id);
    }
    for node in &xml.memory.nodes {
        let other = tree.memory.nodes.iter().find(|other| other.id == node.id).expect("the node");
        let mut cpus = other.cpus.clone();
        cpus.retain(|cpu| online.contains(cpu));
        assert_eq!((&node.cpus, &node.total_bytes), (&cpus, &other.total_bytes), "{name}: node {}", node.id);
    }
    for device in &xml.pci {
        let other = tree.pci.iter().find(|other| other.address == device.address).expect("the function");
        assert_eq!(
            (device.vendor.known(), device.device.known()),
            (other.vendor.known(), other.device.known()),
            "{name}: {}",
            device.address
        );
        // A bridge that only a path of the tree shows is none for lstopo.
        if xml.pci.iter().any(|bridge| Some(&bridge.address) == other.parent.as_ref()) {
            assert_eq!(device.parent, other.parent, "{name}: {}", device.address);
        }
        if let (Some(own), Some(other)) = (device.link.known(), other.link.known()) {
            assert_eq!(own, other, "{name}: {}", device.address);
        }
    }
    for nic in xml.nics.iter().filter(|nic| !nic.by_class) {
        let other = tree.nics.iter().find(|other| other.name == nic.name);
        assert_eq!(other.map(|other| &other.pci), Some(&nic.pci), "{name}: {}", nic.name);
    }
    for disk in xml.disks.iter().filter(|_| disks) {
        let other = tree.disks.iter().find(|other| other.name == disk.name);
        assert_eq!(
            other.map(|other| (&other.pci, &other.number)),
            Some((&disk.pci, &disk.number)),
            "{name}: {}",
            disk.name
        );
    }
}

#[test]
fn every_nccl_file_has_its_devices() {
    let Some(captures) = captures() else { return };
    for file in files(&captures.join("nccl-topo"), ".xml") {
        let text = std::fs::read_to_string(&file).expect("a capture");
        let machine = read(&of_file(&file));
        let addresses: BTreeSet<&str> =
            text.split("busid=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
        assert_eq!(machine.pci.len(), addresses.len(), "{}", file.display());
        let nets: BTreeSet<&str> =
            text.split("<net name=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
        let listed = machine.nics.iter().filter(|nic| !nic.by_class).count();
        assert_eq!(listed, nets.len(), "{}", file.display());
        let nodes: BTreeSet<&str> =
            text.split("numaid=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
        assert_eq!(machine.memory.nodes.len(), nodes.len(), "{}", file.display());
    }
}

/// Trap 1: eight switch uplinks claim 5 GT/s x16 while everything below them is 32 GT/s x16.
#[test]
fn the_switches_of_an_oci_h100() {
    let Some(machine) = nccl("oci-H100-topology.xml") else { return };
    let get =
        |address: &str| machine.pci.iter().find(|device| device.address == address).expect("the device");
    let full = PciLink { gt_per_second: 32.0, width: 16 };
    assert_eq!(get("0000:0c:00.0").link.known(), Some(&full));
    assert_eq!(get("0000:0c:00.0").parent.as_deref(), Some("0000:0a:00.0"));
    assert_eq!(get("0000:08:00.0").link.known(), Some(&PciLink { gt_per_second: 5.0, width: 16 }));
    assert_eq!(
        machine
            .pci
            .iter()
            .filter(|device| device.link.known().is_some_and(|link| link.gt_per_second == 5.0))
            .count(),
        8
    );
    let ports: Vec<_> =
        machine.nics.iter().filter(|nic| nic.pci.as_deref() == Some("0000:0c:00.0")).collect();
    assert_eq!(ports.len(), 2);
    assert!(ports.iter().all(|nic| nic.speed_bits_per_second.known() == Some(&180_000_000_000)));
    assert_eq!(machine.cpu.logical.len(), 224);
}

/// The same NIC in the model: its two ports are what bounds it, not the 64 Gb/s that the uplink claims.
#[test]
fn an_oci_h100_is_not_held_by_its_synthetic_uplinks() {
    let Some(machine) = nccl("oci-H100-topology.xml") else { return };
    let path = |name: &str, of_it: PathPlan| PathPlan {
        name: name.into(),
        nic: Some(name.into()),
        resource: format!("nic:{name}"),
        node: Fact::Known(0),
        ..of_it
    };
    let ways =
        ["mlx5_0", "mlx5_1"].into_iter().zip(paths(2)).map(|(name, of_it)| path(name, of_it)).collect();
    let source = SourcePlan { resource: "disk:nvme0n1".into(), node: Fact::Known(0), ..sources(1).remove(0) };
    let goal = Goal { protocols: vec![Protocol::Tcp], ..goal() };
    let plan = plan(&machine, &goal, vec![source], ways, false);
    let ceiling = *plan.ceiling.bytes_per_second.known().expect("a ceiling");
    assert_eq!(plan.ceiling.cut, ["nic:mlx5_0", "nic:mlx5_1"], "{ceiling}");
    // Twice 180 Gb/s less the headers of jumbo frames.
    assert!(ceiling > 44e9 && ceiling < 45e9, "{ceiling}");
    assert!(
        plan.resources.iter().all(|resource| resource.id != "pcie:0000:08:00.0" || resource.never_binds),
        "the formality never binds"
    );
}
