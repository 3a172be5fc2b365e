//! The readers of `lspci` against `lspci` itself, over the dumps that pciutils publishes for its own tests:
//! the bytes decoded here, the words read here, and the words as they stand say the same. Skipped where the
//! captures or pciutils are absent.

use crate::support::place::{captures, unpack};
use linerate::fact::Fact;
use linerate::probe::lspci::from_lspci;
use linerate::probe::{Machine, PciDevice, PciLink, PortKind, probe};
use linerate::sysroot::Sysroot;
use linerate::topology::{LinkCondition, Topology, WeakerEnd};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `lspci` of this machine prints of a dump.
fn lspci(dump: &Path, form: &str) -> Option<String> {
    let output = Command::new("lspci").args(["-D", form, "-F"]).arg(dump).output();
    let Ok(output) = output else {
        println!("skipped: no lspci");
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The dumps of pciutils' tests by name.
fn dumps() -> Option<(tempfile::TempDir, Vec<(String, PathBuf)>)> {
    let place = unpack(&captures()?.join("pciutils/pciutils-tests.tar.xz"), &["tests/*"])?;
    let entries = std::fs::read_dir(place.path().join("tests")).expect("the dumps").flatten();
    let mut dumps: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
    dumps.sort();
    assert!(dumps.len() >= 40, "only {} dumps", dumps.len());
    Some((place, dumps))
}

fn read(text: &str, name: &str) -> Vec<PciDevice> {
    from_lspci(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Only the bytes of a dump: some of pciutils' dumps are the verbose listing with the bytes below.
fn without_words(text: &str) -> String {
    let dump_or_head = |line: &&str| {
        let word = line.split(' ').next().unwrap_or("");
        !line.starts_with('\t') && (word.ends_with(':') || word.contains('.')) || line.is_empty()
    };
    text.lines().filter(dump_or_head).flat_map(|line| [line, "\n"]).collect()
}

/// Lines of the verbose listing by address.
fn blocks(listing: &str) -> BTreeMap<String, Vec<String>> {
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in listing.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with('\t') {
            current = line.split(' ').next().unwrap_or("").to_string();
            blocks.insert(current.clone(), Vec::new());
        } else if let Some(block) = blocks.get_mut(&current) {
            block.push(line.trim().replace('\t', " "));
        }
    }
    blocks
}

fn port_in_words(kind: PortKind) -> &'static str {
    match kind {
        PortKind::Endpoint => "Endpoint",
        PortKind::LegacyEndpoint => "Legacy Endpoint",
        PortKind::RootPort => "Root Port",
        PortKind::SwitchUpstream => "Upstream Port",
        PortKind::SwitchDownstream => "Downstream Port",
        PortKind::BridgeToPci => "PCI-Express to PCI/PCI-X Bridge",
        PortKind::BridgeFromPci => "PCI/PCI-X to PCI-Express Bridge",
        PortKind::IntegratedEndpoint => "Root Complex Integrated Endpoint",
        PortKind::EventCollector => "Root Complex Event Collector",
    }
}

/// One device beside the words of lspci; each figure that was decoded is written as lspci writes it, and the
/// other way round.
fn compare(device: &PciDevice, block: &[String], name: &str) -> usize {
    let what = format!("{name}: {}", device.address);
    let line = |start: &str| block.iter().find(|line| line.starts_with(start)).map(String::as_str);
    let express = block.iter().find_map(|line| line.split_once("] Express (v").map(|(_, kind)| &kind[3..]));
    let own = device.express.port.known().map(|kind| port_in_words(*kind));
    assert_eq!(own.is_some(), express.is_some(), "{what}: PCI Express");
    let Some((own, express)) = own.zip(express) else { return 0 };
    assert!(express.starts_with(own), "{what}: {own} is not {express}");
    let link = |fact: &Fact<PciLink>, words: Option<&str>| {
        let words = words
            .unwrap_or("")
            .replace(" (downgraded)", "")
            .replace(" (ok)", "")
            .replace(" (overdriven)", "");
        match fact {
            Fact::Known(link) => {
                let own = format!("Speed {}GT/s, Width x{}", link.gt_per_second, link.width);
                let found = words.split_once(&own).map(|(_, rest)| rest);
                assert!(
                    found.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())),
                    "{what}: {own}: {words}"
                );
            }
            Fact::Unknown { .. } => {
                let told = words.contains("GT/s") && !words.contains("Width x0");
                assert!(!told, "{what}: not decoded: {words}");
            }
        }
    };
    link(&device.link, line("LnkSta:"));
    link(&device.link_max, line("LnkCap:"));
    let bytes = |fact: &Fact<u32>| fact.known().copied().expect("a size");
    let set = format!(
        "MaxPayload {} bytes, MaxReadReq {} bytes",
        bytes(&device.express.max_payload_bytes),
        bytes(&device.express.max_read_request_bytes)
    );
    assert_eq!(line("MaxPayload "), Some(set.as_str()), "{what}");
    let able = format!("DevCap: MaxPayload {} bytes,", bytes(&device.express.max_payload_supported_bytes));
    assert!(line("DevCap:").is_some_and(|line| line.starts_with(&able)), "{what}: {able}");
    if let Some(words) = line("LnkCtl:") {
        assert_eq!(device.express.power_saving, Fact::Known(!words.contains("ASPM Disabled")), "{what}");
    }
    let slot = line("Slot #").and_then(|line| line["Slot #".len()..].split(',').next()?.parse::<u32>().ok());
    // The listing in a dump may also tell the slot that a card is in.
    if !what.contains(", both") {
        assert_eq!(device.express.slot.known().copied(), slot.filter(|slot| *slot > 0), "{what}: slot");
    }
    if let (Some(words), Some(target)) = (line("LnkCtl2:"), device.express.target_gt_per_second.known()) {
        assert!(words.contains(&format!("Target Link Speed: {target}GT/s,")), "{what}: {words}");
    }
    1
}

#[test]
fn every_dump_as_lspci_shows_it() {
    let Some((_place, dumps)) = dumps() else { return };
    let (mut functions, mut express) = (0, 0);
    for (name, path) in &dumps {
        let text = std::fs::read_to_string(path).expect("a dump");
        let Some(listing) = lspci(path, "-vv") else { return };
        let words = blocks(&listing);
        // Both through the bytes and through the words that lspci makes of them.
        for (form, text) in
            [("bytes", without_words(&text)), ("words", listing.clone()), ("both", text.clone())]
        {
            let devices = read(&text, name);
            assert_eq!(devices.len(), words.len(), "{name}, {form}");
            for device in &devices {
                let block =
                    words.get(&device.address).unwrap_or_else(|| panic!("{name}: {}", device.address));
                express += compare(device, block, &format!("{name}, {form}"));
                functions += 1;
            }
        }
    }
    println!("{functions} functions compared, {express} of them PCI Express");
    assert!(functions >= 3 * 160 && express >= 3 * 60, "{functions}, {express}");
}

/// What both the bytes and the words tell is the same; the words tell no less where the bytes are whole.
#[test]
fn bytes_and_words_agree() {
    let Some((_place, dumps)) = dumps() else { return };
    for (name, path) in &dumps {
        let text = std::fs::read_to_string(path).expect("a dump");
        let Some(listing) = lspci(path, "-vv") else { return };
        let Some(numbers) = lspci(path, "-nnvv") else { return };
        let bytes = read(&without_words(&text), name);
        let (words, numbered) = (read(&listing, name), read(&numbers, name));
        for ((bytes, words), numbered) in bytes.iter().zip(&words).zip(&numbered) {
            let what = format!("{name}: {}", bytes.address);
            assert_eq!(bytes.address, words.address, "{what}");
            assert_eq!(bytes.parent, words.parent, "{what}");
            assert_eq!(bytes.link.known(), words.link.known(), "{what}");
            assert_eq!(bytes.link_max.known(), words.link_max.known(), "{what}");
            assert_eq!(bytes.express.port, words.express.port.clone().or_not(&bytes.express.port), "{what}");
            assert_eq!(
                bytes.express.autonomous_change.known(),
                words.express.autonomous_change.known(),
                "{what}"
            );
            assert_eq!(bytes.parallel.known(), words.parallel.known(), "{what}");
            assert_eq!(bytes.parallel_below.known(), words.parallel_below.known(), "{what}");
            assert_eq!((&bytes.vendor, &bytes.device), (&numbered.vendor, &numbered.device), "{what}");
            assert_eq!(bytes.class, numbered.class, "{what}");
            if let Fact::Known(class) = words.class {
                assert_eq!(bytes.class, Fact::Known(class), "{what}: class by its name");
            }
            let name_of = |device: &PciDevice| device.name.known().cloned();
            assert!(name_of(words).is_some(), "{what}");
        }
    }
}

/// A reason in words differs from one in bytes; whether something is known does not.
trait OrNot {
    fn or_not(self, other: &Self) -> Self;
}

impl<T: Clone> OrNot for Fact<T> {
    fn or_not(self, other: &Self) -> Self {
        match (&self, other) {
            (Fact::Unknown { .. }, Fact::Unknown { .. }) => other.clone(),
            _ => self,
        }
    }
}

#[test]
fn the_tree_that_lspci_draws() {
    let Some((_place, dumps)) = dumps() else { return };
    let mut parents = 0;
    for (name, path) in &dumps {
        let text = std::fs::read_to_string(path).expect("a dump");
        let Some(drawn) = lspci(path, "-vt") else { return };
        let (bytes, drawn) = (read(&text, name), read(&drawn, name));
        let shape = |devices: &[PciDevice]| -> Vec<(String, Option<String>)> {
            devices.iter().map(|device| (device.address.clone(), device.parent.clone())).collect()
        };
        assert_eq!(shape(&bytes), shape(&drawn), "{name}");
        parents += drawn.iter().filter(|device| device.parent.is_some()).count();
    }
    println!("{parents} functions behind a bridge");
    assert!(parents > 20, "{parents}");
}

/// Trap 4 of the captures: empty root ports, and the one whose card is older than it.
#[test]
fn a_whole_machine_of_the_years_of_pcie_2() {
    let Some((_place, dumps)) = dumps() else { return };
    let (name, path) = dumps.iter().find(|(name, _)| name == "tree-asus-p6t6").expect("the machine");
    let devices = read(&std::fs::read_to_string(path).expect("a dump"), name);
    let machine = Machine { pci: devices, ..Default::default() };
    let tree = Topology::new(&machine);
    let get = |address: &str| tree.find(address).unwrap_or_else(|| panic!("{address}"));
    let link_of = |address: &str| tree.link(get(address)).unwrap_or_else(|| panic!("{address}"));
    let link = |gt_per_second, width| Fact::Known(PciLink { gt_per_second, width });

    let empty = get("0000:00:01.0");
    assert_eq!(empty.link_max, link(5.0, 4));
    assert!(empty.link.why().is_some_and(|why| why.contains("width 0")), "{:?}", empty.link);
    let down = link_of("0000:00:01.0");
    assert_eq!((&down.device.address, down.condition), (&empty.address, LinkCondition::Down));

    let older = link_of("0000:00:07.0");
    assert_eq!(older.device.address, "0000:06:00.0");
    let slot = older.port.expect("the port").link_max.clone();
    let narrow = link(2.5, 16).known().copied();
    assert_eq!((slot, older.able, older.runs), (link(5.0, 16), narrow, narrow));
    assert_eq!((older.weaker, older.condition), (WeakerEnd::Card, LinkCondition::Full));
    assert_eq!(link_of("0000:06:00.1").able, narrow, "the second function");

    // A SAS card behind a switch that is on the board.
    let sas = get("0000:04:00.0");
    let chain: Vec<_> = tree.above(sas).into_iter().map(|device| tree.kind(device)).collect();
    let switch = [PortKind::SwitchDownstream, PortKind::SwitchUpstream, PortKind::RootPort].map(Some);
    assert_eq!(chain, switch);
    let payload = tree.max_payload(sas);
    // The card can do 4096 bytes, the root port 256, the switch between them 128.
    assert_eq!((payload.set, payload.able), (Fact::Known(128), Fact::Known(128)));
    assert_eq!(tree.kind(get("0000:00:1f.2")), Some(PortKind::IntegratedEndpoint));
}

/// The trees of hwloc hold the first 64 bytes of each configuration space: bus numbers give the parents that
/// the paths give, and the rest says who can read it.
#[test]
fn bus_numbers_give_the_tree_that_sysfs_gives() {
    let Some(captures) = captures() else { return };
    for (name, least) in [("32intel64-2p8co2t+8ve", 23), ("fakepcilocalities", 7), ("2pa-pcidomain32bits", 0)]
    {
        let archive = captures.join(format!("hwloc/linux/{name}.tar.bz2"));
        let Some(place) = unpack(&archive, &["*/sys/bus/pci/*", "*/sys/devices/pci*"]) else { return };
        let root = place.path().join(name);
        let machine = probe(&Sysroot::recorded(&root));
        // Trap 2: the on-chip X722, whose link of 2.5 GT/s x1 is not a real one.
        let tree = Topology::new(&machine);
        if let Some(link) = tree.find("0000:60:00.0").and_then(|x722| tree.link(x722)) {
            assert!(matches!(link.condition, LinkCondition::Formality(_)), "{name}: {link:?}");
        }
        let mut dump = String::new();
        for device in &machine.pci {
            let config = root.join("sys/bus/pci/devices").join(&device.address).join("config");
            let Ok(bytes) = std::fs::read(config) else { continue };
            assert_eq!(bytes.len(), 64, "{name}");
            assert!(device.express.port.known().is_none());
            let why = device.express.max_payload_bytes.why().unwrap_or("");
            assert!(
                why.contains("root reads it") || why.contains("no PCI Express capability"),
                "{name}: {why}"
            );
            dump += &format!("{} x: y\n", device.address);
            for (at, line) in bytes.chunks(16).enumerate() {
                let line: String = line.iter().map(|byte| format!(" {byte:02x}")).collect();
                dump += &format!("{:02x}:{line}\n", at * 16);
            }
        }
        let mut compared = 0;
        for decoded in read(&dump, name) {
            let device = tree.find(&decoded.address).expect("the device");
            assert_eq!((&decoded.vendor, &decoded.device), (&device.vendor, &device.device), "{name}");
            let Some(parent) = &decoded.parent else { continue };
            if Some(parent) == device.parent.as_ref() {
                compared += 1;
            } else {
                // The recording lacks the bytes of some bridges: then the next one above whose range holds
                // the bus is found.
                assert!(tree.is_below(device, parent), "{name}: {}", decoded.address);
            }
        }
        println!("{name}: {compared} parents compared");
        assert!(compared >= least, "{name}: {compared}");
    }
}
