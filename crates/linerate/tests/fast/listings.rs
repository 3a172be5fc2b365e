//! What `probe` and `plan` say of machines that only another tool's text describes: the documents' own listings,
//! and the captures of real machines (`LINERATE_CAPTURES`, or `../shared/captures` beside the workspace), without
//! which those tests are skipped and say so.

use crate::support;
use crate::support::place::captures;
use crate::support::process::Ends;
use linerate_testing::lspci_of_2010::{CARD, SLOT, TREE};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("the listing");
    file
}

/// Exit status, screen and complaint of a command.
fn linerate(words: &[&str]) -> (Option<i32>, String, String) {
    support::linerate().args(words).ended().parts()
}

/// The words of a screen in one line.
fn words_of(screen: &str) -> String {
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_documents_own_listing_ends_in_a_finding() {
    let card = file(CARD);
    let (status, screen, complaint) = linerate(&["probe", path(card.path())]);
    assert_eq!(status, Some(0), "{complaint}");
    let screen = words_of(&screen);
    assert!(screen.contains("10.0 Gb/s by its name"), "{screen}");
    assert!(screen.contains("runs at 2.5 GT/s x4 and the card could do 2.5 GT/s x8"), "{screen}");
    let both = file(&format!("{CARD}\n{TREE}\n{SLOT}"));
    let (status, screen, complaint) = linerate(&["probe", path(both.path())]);
    assert_eq!(status, Some(0), "{complaint}");
    let screen = words_of(&screen);
    let shown = "findings|82598EB 10-Gigabit AF Network Connection) has ports for|on a link of 2.5 GT/s x4, which carries|\
                 the card could do 2.5 GT/s x8, its slot no more than this|\
                 can do no more than 2.5 GT/s, and its slot could do 5 GT/s: the card is older than the slot";
    for words in shown.split('|') {
        assert!(screen.contains(words), "no “{words}” in {screen}");
    }
}

#[test]
fn the_documents_own_listing_is_planned() {
    let both = file(&format!("{CARD}\n{TREE}\n{SLOT}"));
    let words = ["plan", "--machine", path(both.path()), "--flow", "memory-to-network", "--protocol", "udp"];
    let (status, screen, complaint) = linerate(
        &[&words[..], &["--set", "mtu=9000", "--from", "memory", "--to", "nic:0000:04:00.0"]].concat(),
    );
    assert_eq!(status, Some(0), "{complaint}");
    let text = words_of(&screen);
    // “Theoretical limited to 8 Gb/s”; 128 of 152 bytes of that are payload.
    assert!(text.contains("limited by the PCIe link of 0000:04:00.0"), "{screen}");
    assert!(text.contains("the card is older than the slot") && !text.contains("this machine"), "{screen}");
    assert!(text.starts_with("the machine of "), "{screen}");
}

/// D1.1, section 3.3: a RAID card of PCIe 2.0 x8 in a slot of PCIe 1.0 x4, beside one of 2.0 x8 with a card that
/// needs less.
#[test]
fn a_pcie_1_slot_beside_a_pcie_2_one_is_named() {
    let bridge = |device: u32, bus: u32, speed: &str, width: u32| {
        format!(
            "00:{device:02x}.0 PCI bridge: Root Port\n\tBus: primary=00, secondary={bus:02x}, subordinate={bus:02x}\n\
             \tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00\n\
             \t\tLnkCap: Port #1, Speed {speed}GT/s, Width x{width}, ASPM L0s\n\
             \t\tLnkSta: Speed 2.5GT/s, Width x4, TrErr-\n\t\tSlot #{bus}, PowerLimit 25.000W\n"
        )
    };
    let card = |bus: u32, head: &str, speed: &str, width: u32| {
        format!(
            "{bus:02x}:00.0 {head}\n\tCapabilities: [a0] Express (v2) Endpoint, MSI 00\n\
             \t\tLnkCap: Port #0, Speed {speed}GT/s, Width x{width}, ASPM L0s\n\
             \t\tLnkSta: Speed 2.5GT/s, Width x4, TrErr-\n"
        )
    };
    let text = [
        bridge(1, 1, "2.5", 4),
        card(1, "RAID bus controller: LSI Logic / Symbios Logic MegaRAID SAS 2108", "5", 8),
        bridge(3, 2, "5", 8),
        card(2, "Fibre Channel: QLogic Corp. ISP2432", "2.5", 4),
    ]
    .concat();
    let listing = file(&text);
    let (status, screen, complaint) = linerate(&["probe", path(listing.path())]);
    assert_eq!(status, Some(0), "{complaint}");
    let screen = words_of(&screen);
    assert!(screen.contains("pcie-slot-older: 0000:01:00.0 (RAID, LSI Logic"), "{screen}");
    assert!(screen.contains("the slot is narrower and of an older generation than the card"), "{screen}");
    assert!(screen.contains("swap it with 0000:02:00.0 (Fibre Channel, QLogic"), "{screen}");
    assert!(screen.contains("slot 2 can do 5 GT/s x8"), "{screen}");
}

#[test]
fn a_machine_without_a_nic_names_the_flows_that_it_has() {
    let listing = file("01:00.0 Non-Volatile memory controller: A disk\n02:00.0 3D controller: A GPU\n");
    let words = ["plan", "--machine", path(listing.path()), "--flow", "memory-to-network"];
    let (status, _, complaint) = linerate(&words);
    assert_eq!(status, Some(3), "{complaint}");
    assert!(
        complaint.contains("the machine has no")
            && complaint.contains("it has the ends of --flow disk-to-memory"),
        "{complaint}"
    );
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path")
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of the captures").flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found.sort();
    found
}

/// The nine topologies of NCCL: a flow from memory to the network is solved, or the flows that work are named.
#[test]
fn every_topology_of_nccl_is_planned() {
    let Some(captures) = captures() else { return };
    let all = files(&captures.join("nccl-topo"), ".xml");
    assert_eq!(all.len(), 9);
    for file in all {
        let text = std::fs::read_to_string(&file).expect("a capture");
        let has_nic = ["0x0200", "0x0207", "<net "].iter().any(|word| text.contains(word));
        let (status, screen, complaint) =
            linerate(&["plan", "--machine", path(&file), "--flow", "memory-to-network"]);
        match has_nic {
            true => assert!(status == Some(0) && screen.contains(" memory crossings a byte"), "{complaint}"),
            // One of them lists nothing but addresses: no flow works.
            false => {
                let said = ["it has the ends of --flow", "describe its parts in a file"];
                assert!(
                    status == Some(3) && said.iter().any(|words| complaint.contains(words)),
                    "{complaint}"
                )
            }
        }
        assert!(!screen.contains("this machine"), "{screen}");
    }
}

/// Every recorded machine with an Ethernet or InfiniBand function has a NIC, and a plan.
#[test]
fn every_capture_with_a_network_card_is_planned() {
    let Some(captures) = captures() else { return };
    let mut planned = 0;
    let mut plan = |file: &Path| {
        let (status, machine, complaint) = linerate(&["probe", "--json", path(file)]);
        assert_eq!(status, Some(0), "{}: {complaint}", file.display());
        let machine: serde_json::Value = serde_json::from_str(&machine).expect("JSON");
        let network = |one: &serde_json::Value| {
            matches!(one["class"].as_u64().map(|class| class >> 8), Some(0x0200 | 0x0207))
        };
        if !machine["pci"].as_array().is_some_and(|all| all.iter().any(network)) {
            return;
        }
        let (status, screen, complaint) =
            linerate(&["plan", "--machine", path(file), "--flow", "memory-to-network"]);
        assert_eq!(status, Some(0), "{}: {complaint}", file.display());
        assert!(screen.contains("memory to ") && screen.contains("NIC"), "{screen}");
        planned += 1;
    };
    for archive in files(&captures.join("hwloc/linux"), ".tar.bz2") {
        plan(&archive);
    }
    for listing in files(&captures.join("hwloc/xml"), ".xml") {
        plan(&listing);
    }
    let place = tempfile::tempdir().expect("a folder");
    let archive = captures.join("pciutils/pciutils-tests.tar.xz");
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "--mode=u+rwX", "--file"]).arg(&archive);
    let unpacked = tar.arg("--directory").arg(place.path()).stderr(Stdio::null()).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "tar");
    for dump in files(&place.path().join("tests"), "") {
        plan(&dump);
    }
    assert!(planned >= 16, "only {planned} captures with a network card");
}
