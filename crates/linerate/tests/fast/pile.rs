//! A pile of listings as a machine: that of the listings is the one of `/sys`, counters end in findings, and files that are no
//! listings are refused in a sentence.

use crate::support;
use crate::support::place::captures;
use crate::support::process::Ends;
use linerate::diagnose::map_findings;
use linerate::probe::foreign::{ForeignSources, NamedText, described};
use linerate::probe::pci;
use linerate::probe::{DiskKind, Machine, PciDevice, PciLink, PortKind, probe};
use linerate::sysroot::Sysroot;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// Exit status, screen in one line, and complaint.
fn linerate(words: &[&str]) -> (Option<i32>, String, String) {
    let (status, screen, complaint) = support::linerate().args(words).ended().parts();
    (status, screen.split_whitespace().collect::<Vec<_>>().join(" "), complaint)
}

/// D1.3, section 12.
#[test]
fn the_documents_own_counters_end_in_their_story() {
    let file = fixture("listings/netstat-2010.txt");
    let (status, screen, complaint) = linerate(&["probe", file.to_str().expect("a path")]);
    assert_eq!(status, Some(0), "{complaint}");
    for (drop, remedy) in [
        (
            "IP: 1,952,857 × Ip FragFails since the boot: it is longer than the next interface takes",
            "one MTU on the whole path",
        ),
        (
            "TCP: 604,892 × Tcp RetransSegs since the boot, 1.2 % of the segments sent",
            "find where packets are dropped",
        ),
        ("IP: 273 × Ip OutDiscards since the boot", "lengthen its queue"),
        ("socket: 2 × Udp SndbufErrors since the boot", "net.core.wmem_max"),
    ] {
        let (_, after) = screen.split_once(drop).unwrap_or_else(|| panic!("no “{drop}” in {screen}"));
        assert!(
            after.chars().take(400).collect::<String>().contains(remedy),
            "no “{remedy}” after {drop}: {screen}"
        );
    }
}

#[test]
fn two_listings_of_one_kind_are_a_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a listing");
        path.display().to_string()
    };
    let softnet = |dropped: u32| format!("00100000 {dropped:08x} 00000000{}\n", " 00000000".repeat(12));
    let before = put("before.txt", &softnet(5));
    // As PowerShell saves it.
    let after: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(softnet(12).replace('\n', "\r\n").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    std::fs::write(folder.path().join("after.txt"), after).expect("a listing");
    let after = folder.path().join("after.txt").display().to_string();
    let (status, screen, complaint) = linerate(&["probe", &before, &after]);
    assert_eq!(status, Some(0), "{complaint}");
    assert!(screen.contains("softnet: 7 × softnet dropped between the listings"), "{screen}");
    let (_, json, _) = linerate(&["probe", "--json", &before]);
    let found: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(found["findings"][0]["evidence"]["counted"], 5);
}

#[test]
fn a_report_of_sos_is_read_with_its_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a file");
    };
    put("proc/sys/kernel/hostname", "dtn7\n");
    put(
        "sos_commands/networking/ethtool_-S_ens1f0",
        "NIC statistics:\n     rx_out_of_buffer: 40\n     rx_prio3_discards: 2\n",
    );
    put(
        "sos_commands/networking/ethtool_ens1f0",
        "Settings for ens1f0:\n\tSpeed: 25000Mb/s\n\tLink detected: yes\n",
    );
    put(
        "sos_commands/pci/lspci_-nnvv",
        "17:00.0 Ethernet controller [0200]: A card [15b3:1015]\n\tNUMA node: 1\n",
    );
    put("sos_commands/networking/notes", "nothing\n");
    let (status, screen, complaint) = linerate(&["probe", folder.path().to_str().expect("a path")]);
    assert_eq!(status, Some(0), "{complaint}");
    let shown = "dtn7|ens1f0|25.0 Gb/s|`ethtool -G ens1f0 rx MAX`|2 × rx_prio*_discards|\
                 NIC ring, ens1f0: 40 × rx_out_of_buffer since the boot: mlx5: no descriptor was free";
    for words in shown.split('|') {
        assert!(screen.contains(words), "no “{words}” in {screen}");
    }
}

#[test]
fn what_is_no_listing_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("letter"), "Dear all,\nwhy is it slow?\n").expect("a file");
    std::fs::write(path("program"), b"\x7fELF\0\0\x01\x02\0").expect("a file");
    std::fs::write(path("half"), "{\"blockdevices\": [{\"name\":").expect("a file");
    let large = std::fs::File::create(path("large")).expect("a file");
    large.set_len(1 << 30).expect("a sparse file");
    std::fs::create_dir(path("folder")).expect("a folder");
    for (name, words) in [
        ("letter", "“Dear all,”"),
        ("program", "neither text nor a table"),
        ("half", "ends before its end"),
        ("large", "larger than 16 MiB"),
        ("folder", "a folder of listings"),
        ("absent", "No such file"),
    ] {
        let (status, screen, complaint) = linerate(&["probe", &path(name)]);
        assert!(status == Some(3) && screen.is_empty(), "{name}: {status:?} {screen}");
        assert!(complaint.contains(words) && complaint.lines().count() == 1, "{name}: {complaint}");
    }
}

/// The same parts, links and findings, by `/sys` and by listings that print what `/sys` has.
#[test]
fn a_machine_of_listings_is_that_of_its_tree() {
    same(&Sysroot::at(&fixture("virtual-machine")).expect("a tree"), "virtual-machine", 5);
    let Some(captures) = captures() else { return };
    for name in ["32intel64-2p8co2t+8ve", "64intel64-fake-KNL-SNC4-hybrid"] {
        let file = captures.join(format!("hwloc/linux/{name}.tar.bz2"));
        if file.exists() {
            same(&Sysroot::at(&file).expect("a tree"), name, 0);
        }
    }
}

fn same(tree: &Sysroot, name: &str, least: usize) {
    let mut machine = probe(tree);
    pci::name(&mut machine.pci);
    let listings = [lspci(&machine), lscpu(&machine), lsblk(&machine), lshw(&machine), ip(&machine)];
    let file = |text: &String| NamedText { name: "a listing".into(), bytes: text.clone().into_bytes() };
    let files: Vec<NamedText> = listings.iter().filter(|text| !text.is_empty()).map(file).collect();
    let listed = described(&ForeignSources { tree: None, files })
        .unwrap_or_else(|why| panic!("{name}: {why}"))
        .machine;
    assert!(machine.pci.len() >= least, "{name}");
    let functions = |machine: &Machine| machine.pci.iter().map(function).collect::<Vec<_>>();
    assert_eq!(functions(&listed), functions(&machine), "{name}");
    let processors = |machine: &Machine| {
        let one = machine.cpu.logical.iter().filter(|cpu| cpu.online);
        one.map(|cpu| (cpu.id, cpu.node.known().copied(), cpu.package.known().copied())).collect::<Vec<_>>()
    };
    assert_eq!(processors(&listed), processors(&machine), "{name}");
    let nodes = |machine: &Machine| {
        let with_cpus = machine.memory.nodes.iter().filter(|node| !node.cpus.is_empty());
        with_cpus.map(|node| (node.id, node.cpus.clone())).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&listed), nodes(&machine), "{name}");
    let nics = |machine: &Machine| {
        let one = machine.nics.iter().map(|nic| {
            (
                nic.name.clone(),
                nic.pci.clone(),
                nic.mtu.known().copied(),
                nic.pci.as_ref().and(nic.node.known()).copied(),
            )
        });
        one.collect::<Vec<_>>()
    };
    assert_eq!(nics(&listed), nics(&machine), "{name}");
    let disks = |machine: &Machine| {
        let one = machine.disks.iter().map(|disk| {
            (
                disk.name.clone(),
                disk.kind,
                disk.size_bytes.known().copied(),
                disk.members.clone(),
                disk.pci.clone(),
            )
        });
        one.collect::<Vec<_>>()
    };
    assert_eq!(disks(&listed), disks(&machine), "{name}");
    // Who takes which interrupt is in no listing.
    let findings = |machine: &Machine| {
        let all = map_findings(machine)
            .into_iter()
            .filter(|finding| !finding.id.contains("irq") && !finding.id.contains("interrupt"));
        all.map(|finding| (finding.id, finding.text)).collect::<BTreeSet<_>>()
    };
    assert_eq!(findings(&listed), findings(&machine), "{name}");
}

type Function = (String, Option<String>, [Option<u32>; 4], [Option<PciLink>; 2]);

fn function(device: &PciDevice) -> Function {
    let known = |fact: &linerate::fact::Fact<u32>| fact.known().copied();
    (
        device.address.clone(),
        device.parent.clone(),
        [known(&device.class), known(&device.vendor), known(&device.device), known(&device.node)],
        [device.link.known().copied(), device.link_max.known().copied()],
    )
}

/// `lspci -D -nnvv`.
fn lspci(machine: &Machine) -> String {
    let mut text = String::new();
    for device in &machine.pci {
        let (Some(class), Some(vendor), Some(id)) =
            (device.class.known(), device.vendor.known(), device.device.known())
        else {
            continue;
        };
        let name = device.name.known().map_or("Device", String::as_str);
        let _ = writeln!(
            text,
            "{} Class [{:04x}]: {name} [{vendor:04x}:{id:04x}] (prog-if {:02x})",
            device.address,
            class >> 8,
            class & 0xff
        );
        let below = |at: &PciDevice| {
            machine.pci.iter().filter(|other| other.parent.as_ref() == Some(&at.address)).collect::<Vec<_>>()
        };
        let bus =
            |at: &PciDevice| u8::from_str_radix(&at.address[at.address.len() - 7..][..2], 16).expect("a bus");
        let children = below(device);
        if let Some(first) = children.first() {
            let mut last = bus(first);
            let mut open = children;
            while let Some(next) = open.pop() {
                last = last.max(bus(next));
                open.extend(below(next));
            }
            let _ = writeln!(
                text,
                "\tBus: primary={:02x}, secondary={:02x}, subordinate={last:02x}, sec-latency=0",
                bus(device),
                bus(below(device)[0])
            );
        }
        if let Some(node) = device.node.known() {
            let _ = writeln!(text, "\tNUMA node: {node}");
        }
        let kind = match device.express.port.known() {
            Some(PortKind::RootPort) => "Root Port (Slot+)",
            Some(PortKind::SwitchUpstream) => "Upstream Port",
            Some(PortKind::SwitchDownstream) => "Downstream Port (Slot+)",
            Some(PortKind::LegacyEndpoint) => "Legacy Endpoint",
            Some(PortKind::IntegratedEndpoint) => "Root Complex Integrated Endpoint",
            Some(PortKind::BridgeToPci) => "PCI-Express to PCI/PCI-X Bridge",
            Some(_) => "Endpoint",
            None => "",
        };
        if !kind.is_empty() {
            let _ = writeln!(text, "\tCapabilities: [40] Express (v2) {kind}, MSI 00");
        }
        if let Some(bytes) = device.express.max_payload_supported_bytes.known() {
            let _ = writeln!(text, "\t\tDevCap:\tMaxPayload {bytes} bytes, PhantFunc 0");
        }
        if let (Some(payload), Some(request)) =
            (device.express.max_payload_bytes.known(), device.express.max_read_request_bytes.known())
        {
            let _ = writeln!(text, "\t\t\tMaxPayload {payload} bytes, MaxReadReq {request} bytes");
        }
        for (label, link) in [("LnkCap", &device.link_max), ("LnkSta", &device.link)] {
            if let Some(PciLink { gt_per_second, width }) = link.known() {
                let _ = writeln!(
                    text,
                    "\t\t{label}:\tPort #0, Speed {gt_per_second}GT/s, Width x{width}, ASPM L1"
                );
            }
        }
        if let Some(slot) = device.express.slot.known() {
            let _ = writeln!(text, "\t\tSlot #{slot}, PowerLimit 25W");
        }
    }
    text
}

/// `lscpu -p=CPU,SOCKET,CORE,NODE`.
fn lscpu(machine: &Machine) -> String {
    let number = |fact: &linerate::fact::Fact<u32>| fact.known().map_or(String::new(), u32::to_string);
    let line = |cpu: &linerate::probe::LogicalCpu| {
        format!("{},{},{},{}\n", cpu.id, number(&cpu.package), number(&cpu.core), number(&cpu.node))
    };
    let lines: String = machine.cpu.logical.iter().filter(|cpu| cpu.online).map(line).collect();
    format!(
        "# The following is the parsable format, which can be fed to other\n# CPU,Socket,Core,Node\n{lines}"
    )
}

/// `lsblk -J -b -O`.
fn lsblk(machine: &Machine) -> String {
    fn one(machine: &Machine, name: &str) -> Value {
        let disk = machine.disks.iter().find(|disk| disk.name == name).expect("a disk");
        let kind = match disk.kind {
            DiskKind::Partition => "part",
            DiskKind::Loop => "loop",
            DiskKind::Dm => "lvm",
            DiskKind::Md => "raid1",
            _ => "disk",
        };
        let below = machine.disks.iter().filter(|other| other.members.iter().any(|member| member == name));
        json!({
            "name": name, "kname": name, "type": kind, "size": disk.size_bytes.known(), "model": disk.model.known(),
            "rota": disk.rotational.known(), "maj:min": disk.number.known(),
            "log-sec": disk.logical_block_bytes.known(), "phy-sec": disk.physical_block_bytes.known(),
            "min-io": disk.minimum_io_bytes.known(), "opt-io": disk.optimal_io_bytes.known(),
            "children": below.map(|other| one(machine, &other.name)).collect::<Vec<_>>(),
        })
    }
    let tops = machine.disks.iter().filter(|disk| disk.members.is_empty());
    let tops: Vec<Value> = tops.map(|disk| one(machine, &disk.name)).collect();
    if tops.is_empty() { String::new() } else { json!({ "blockdevices": tops }).to_string() }
}

/// `lshw -json`: which interface and which disk is on which function.
fn lshw(machine: &Machine) -> String {
    let nics = machine.nics.iter().filter_map(|nic| Some((nic.pci.clone()?, "network", nic.name.clone())));
    let disks = machine
        .disks
        .iter()
        .filter_map(|disk| Some((disk.pci.clone()?, "disk", format!("/dev/{}", disk.name))));
    let node = |(pci, class, name): (String, &str, String)| json!({ "id": class, "class": "bus", "businfo": format!("pci@{pci}"), "children": [{ "id": class, "class": class, "logicalname": name }] });
    let children: Vec<Value> = nics.chain(disks).map(node).collect();
    if children.is_empty() {
        String::new()
    } else {
        json!([{ "id": "a-host", "class": "system", "children": children }]).to_string()
    }
}

/// `ip link`.
fn ip(machine: &Machine) -> String {
    let line = |(number, nic): (usize, &linerate::probe::Nic)| {
        let mtu = nic.mtu.known().map_or(String::new(), |mtu| format!("mtu {mtu} "));
        let flags = if nic.loopback { "LOOPBACK,UP" } else { "UP" };
        format!(
            "{}: {}: <{flags}> {mtu}qdisc mq state UP\n    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n",
            number + 1,
            nic.name
        )
    };
    machine.nics.iter().enumerate().map(line).collect()
}
