//! What other tools say of the same server: `nvme list`, `lstopo`, `mdadm --detail`.

use super::guest::QemuServer;
use crate::support::rights;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names and sizes of all drives.
pub(super) fn drives_are_those_of_nvme(guest: &QemuServer, machine: &Value) {
    if !rights::has("nvme") {
        return rights::skipped("nvme list beside linerate in a guest: apt install nvme-cli");
    }
    let listed: Value = serde_json::from_str(&guest.succeed("nvme list -o json")).expect("JSON");
    let listed: BTreeMap<String, (u64, String)> = listed["Devices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|one| {
            let path = one["DevicePath"].as_str().expect("a path").trim_start_matches("/dev/").to_string();
            let model = one["ModelNumber"].as_str().expect("a model").trim().to_string();
            (path, (one["PhysicalSize"].as_u64().expect("a size"), model))
        })
        .collect();
    let disks = machine["disks"].as_array().expect("disks").iter().filter(|disk| disk["kind"] == "nvme");
    let ours: BTreeMap<String, (u64, String)> = disks
        .map(|disk| {
            let text = |key: &str| disk[key].as_str().unwrap_or_default().trim().to_string();
            (text("name"), (disk["size_bytes"].as_u64().unwrap_or(0), text("model")))
        })
        .collect();
    assert_eq!(ours, listed);
}

/// The node of every PCI device that lstopo draws, and the cores of each node.
pub(super) fn places_are_those_of_lstopo(guest: &QemuServer, machine: &Value) {
    if !rights::has("lstopo-no-graphics") {
        return rights::skipped("lstopo beside linerate in a guest: apt install hwloc-nox");
    }
    let drawn =
        guest.succeed("lstopo-no-graphics --of xml --whole-io 2>/dev/null || lstopo-no-graphics --of xml");
    // A PCI device is below the package of its node; packages and nodes are one to one here.
    let (mut package, mut seen) = (None, 0);
    let functions = machine["pci"].as_array().expect("functions");
    for line in drawn.lines().map(str::trim) {
        let of = |name: &str| {
            let (_, rest) = line.split_once(&format!(" {name}=\""))?;
            Some(rest.split('"').next().unwrap_or_default())
        };
        match of("type").or_else(|| line.strip_prefix("<object type=\"")?.split('"').next()) {
            Some("Package") => package = of("os_index").and_then(|index| index.parse::<u64>().ok()),
            Some("PCIDev") => {
                let address = of("pci_busid").expect("an address");
                let ours = functions.iter().find(|one| one["address"] == address);
                let ours = ours.unwrap_or_else(|| panic!("lstopo has {address}, linerate not"));
                // What is at no node is drawn below the machine, after the packages.
                if let (Some(node), Some(package)) = (ours["node"].as_u64(), package) {
                    assert_eq!(node, package, "{address}");
                    seen += 1;
                }
            }
            _ => {}
        }
    }
    assert!(seen >= 6, "{seen} devices at a node: {drawn}");
}

/// Level, number of disks, state and chunk of an array, and what `mdadm --detail` said of it.
pub(super) fn array_is_that_of_mdadm(array: &Value, detail: &str) {
    let of = |key: &str| {
        let line = detail.lines().find_map(|line| line.trim().strip_prefix(key)?.trim().strip_prefix(':'));
        line.map(|value| value.trim().to_string())
    };
    assert_eq!(array["level"].as_str(), of("Raid Level").as_deref(), "{detail}");
    assert_eq!(array["disks"].as_u64().map(|count| count.to_string()), of("Raid Devices"), "{detail}");
    let degraded = of("State").is_some_and(|state| state.contains("degraded"));
    assert_eq!(array["degraded"].as_u64().unwrap_or(0) > 0, degraded, "{array} {detail}");
    let chunk = of("Chunk Size").map(|size| size.trim_end_matches('K').parse::<u64>().expect("KiB") << 10);
    assert_eq!(array["chunk_bytes"].as_u64().filter(|bytes| *bytes > 0), chunk, "{array} {detail}");
}
