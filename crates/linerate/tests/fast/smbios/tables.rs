//! `smbios-bin`: tables in bytes against their decoded forms (go-smbios' JSON, dmidecode's text).

use super::captures;
use linerate::fact::Fact;
use linerate::probe::Machine;
use linerate::probe::smbios::{Firmware, apply, from_bytes, from_dmidecode, from_table};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn files(captures: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(captures.join("smbios-bin")).expect("a folder of the captures").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

fn table(path: &Path) -> Firmware {
    let bytes = std::fs::read(path).expect("a table");
    let firmware = from_table(&bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    assert_eq!(from_bytes(&bytes).as_ref(), Ok(&firmware), "{}", path.display());
    firmware
}

#[test]
fn tables_agree_with_the_text_of_dmidecode() {
    let Some(captures) = captures() else { return };
    let mut compared = 0;
    for bytes in files(&captures, ".bin") {
        for ending in ["orig.txt", "txt"] {
            let text = std::fs::read_to_string(bytes.with_extension(ending)).expect("the text beside it");
            let mut ours = table(&bytes);
            // The texts of u-root's own program have no memory arrays, and slots in bytes.
            if ending == "txt" {
                ours.arrays.clear();
                ours.slots.clear();
            }
            assert_eq!(ours, from_dmidecode(&text).expect("a text of dmidecode"), "{}", bytes.display());
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}

/// Text that says something, as we keep it.
fn said(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default().trim();
    let nothing = ["Unknown", "None", "NO DIMM", "Not Specified", "Empty"].contains(&text);
    if nothing { String::new() } else { text.into() }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Known and above 0, or unknown where they have 0 or the mark of "unknown".
fn agrees(ours: &Fact<u32>, theirs: u64, unknown: u64) -> bool {
    match ours {
        Fact::Known(ours) => u64::from(*ours) == theirs,
        Fact::Unknown { .. } => theirs == 0 || theirs == unknown,
    }
}

#[test]
fn tables_agree_with_go_smbios() {
    let Some(captures) = captures() else { return };
    let (mut tables, mut modules) = (0, 0);
    for bytes in files(&captures, ".dmi") {
        let name = bytes.display().to_string();
        let json = std::fs::read_to_string(bytes.with_extension("json")).expect("the JSON beside it");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let firmware = table(&bytes);
        let theirs = json["MemoryDevices"].as_array().cloned().unwrap_or_default();
        assert_eq!(firmware.modules.len(), theirs.len(), "{name}");
        for (ours, theirs) in firmware.modules.iter().zip(&theirs) {
            assert_eq!(
                (&ours.locator, &ours.bank),
                (&said(&theirs["DeviceLocator"]), &said(&theirs["BankLocator"])),
                "{name}"
            );
            let megabytes = match number(&theirs["Size"]) {
                0x7FFF => number(&theirs["ExtendedSize"]),
                size => size,
            };
            assert_eq!(ours.size_bytes, Fact::Known(megabytes << 20), "{name}: {}", ours.locator);
            assert!(agrees(&ours.rated_mt_per_second, number(&theirs["Speed"]), 0xFFFF), "{name}: {ours:?}");
            let configured = number(&theirs["ConfiguredMemorySpeed"]);
            assert!(agrees(&ours.configured_mt_per_second, configured, 0xFFFF), "{name}: {ours:?}");
            assert!(agrees(&ours.data_width_bits, number(&theirs["DataWidth"]), 0xFFFF), "{name}: {ours:?}");
            modules += 1;
        }
        let theirs = json["ProcessorInformation"].as_array().cloned().unwrap_or_default();
        assert_eq!(firmware.sockets.len(), theirs.len(), "{name}");
        for (ours, theirs) in firmware.sockets.iter().zip(&theirs) {
            assert_eq!(ours.populated, number(&theirs["Status"]) & 0x40 != 0, "{name}");
            assert!(agrees(&ours.cores, number(&theirs["CoreCount"]), 0), "{name}: {ours:?}");
            assert!(agrees(&ours.threads, number(&theirs["ThreadCount"]), 0), "{name}: {ours:?}");
            assert!(agrees(&ours.max_mhz, number(&theirs["MaxSpeed"]), 0), "{name}: {ours:?}");
        }
        let array = &json["PhysicalMemoryArray"];
        if number(&array["Use"]) == 3 && number(&array["ExtendedMaximumCapacity"]) == 0 {
            let kilobytes = number(&array["MaximumCapacity"]);
            assert!(
                firmware.arrays.iter().any(|ours| ours.max_bytes == Fact::Known(kilobytes << 10)),
                "{name}"
            );
        }
        tables += 1;
    }
    println!("{tables} tables with {modules} modules agree");
    assert!(tables == 5 && modules > 30, "{tables} tables, {modules} modules");
}

#[test]
fn a_real_server_and_a_virtual_one() {
    let Some(captures) = captures() else { return };
    let read = |name: &str| {
        let mut machine = Machine::default();
        apply(Ok(table(&captures.join("smbios-bin").join(name))), &mut machine);
        machine
    };
    // Two DIMMs and one processor: rated 2400, configured 1866.
    let dell = read("siderolabs-Dell-PowerEdge-R630-Dual-Xeon.dmi").memory;
    assert_eq!(dell.channels, Fact::Known(2));
    assert_eq!(dell.rated_bytes_per_second, Fact::Known(2.0 * 1866e6 * 8.0));
    let held: Vec<_> = dell.channel_states.iter().filter(|state| state.populated > 0).collect();
    assert!(held.iter().all(|state| state.rated_mt_per_second == Fact::Known(2400)), "{held:?}");
    assert_eq!(
        (dell.channel_states.len(), held.len()),
        (4, 2),
        "the other socket has slots and no processor"
    );
    // Its table breaks off behind type 11, for dmidecode too.
    let hyper_v = read("siderolabs-HyperV.dmi").memory;
    assert!(
        hyper_v.rated_bytes_per_second.why().is_some_and(|why| why.contains("a virtual machine (Hyper-V)"))
    );
    assert!(hyper_v.channel_states.is_empty());
    assert!(table(&captures.join("smbios-bin/siderolabs-HyperV.dmi")).damage.is_some());
}
