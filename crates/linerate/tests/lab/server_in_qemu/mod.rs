//! A whole server, booted in QEMU: what linerate says of real sysfs with two nodes, PCIe ports, NVMe and md. Without
//! QEMU, or the kernel that `lab kernel` fetches, each test says that it is skipped. Speeds there mean nothing.
//!
//! One boot serves the checks of `./test`; further boots are those of `./test --thorough`.

mod bad_input;
mod bad_machine;
mod boots;
mod faults;
mod gate;
mod guest;
mod kernel_tls;
mod listings;
mod rdma;
mod receiver;
mod recorded;
mod remote;
mod study;
mod tools;
mod tune;
mod volumes;
mod zero_copy;

use crate::support::rights;
use guest::QemuServer;
use serde_json::Value;

/// `./test --thorough` sets it; one boot is enough otherwise.
fn thorough() -> bool {
    std::env::var("LINERATE_LAB_ROUNDS").is_ok()
}

/// All that is wrong with the lab's server as it is made: QEMU's cards are of the first generation, and two drives are
/// behind one switch.
const FINDINGS: [&str; 2] = ["pcie-card-older", "shared-uplink"];

#[test]
fn one_boot_shows_the_server_as_it_was_described() {
    let Some(guest) = QemuServer::up("server", &[]) else { return };
    let listing = if rights::has("lspci") { "lspci -D -nn -vv >/run/lab/kept/lspci; " } else { "" };
    let queues = "grep -c 'nvme[0-9]*q[1-9]' /proc/interrupts >/run/lab/kept/queues";
    let machine = guest.linerate_after(&format!("{listing}{queues}\n{}", listings::saved()), "probe");
    assert_eq!(machine["virtualisation"], "none");
    let ids: Vec<&str> = machine["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter_map(|found| found["id"].as_str())
        .collect();
    assert_eq!(ids, FINDINGS);
    the_nodes(&machine);
    the_ports_are_those_of_lspci(&guest, &machine);
    the_disks(&guest, &machine);
    listings::are_the_machine(&guest, &machine);
    tools::drives_are_those_of_nvme(&guest, &machine);
    tools::places_are_those_of_lstopo(&guest, &machine);
    volumes::arrays_and_stacks_are_followed(&guest);
    tune::apply_and_undo(&guest, 0);
    kernel_tls::cached_files_are_encrypted_by_the_kernel(&guest);
    volumes::a_bond_counts_once(&guest);
    guest.down();
}

fn the_nodes(machine: &Value) {
    let nodes = machine["memory"]["nodes"].as_array().expect("nodes");
    let cpus: Vec<&Value> = nodes.iter().map(|node| &node["cpus"]).collect();
    assert_eq!(cpus, [&serde_json::json!([0, 1]), &serde_json::json!([2, 3])]);
    let of_nics: Vec<&Value> = machine["nics"]
        .as_array()
        .expect("NICs")
        .iter()
        .filter(|nic| nic["name"].as_str().is_some_and(|name| name.starts_with("eth")))
        .map(|nic| &nic["node"])
        .collect();
    assert_eq!(of_nics, [0, 1], "eth0 is at the first node, eth1 at the second");
}

/// Speed and width of every link, now and at most, MaxPayload and MaxReadRequest are those that lspci reads.
fn the_ports_are_those_of_lspci(guest: &QemuServer, machine: &Value) {
    if !rights::has("lspci") {
        return rights::skipped("lspci beside linerate in a guest: apt install pciutils");
    }
    let listing = guest.kept("lspci");
    let functions = machine["pci"].as_array().expect("PCI functions");
    let mut links = 0;
    for part in listing.split("\n\n") {
        let Some(address) = part.split_whitespace().next() else { continue };
        let found = functions.iter().find(|function| function["address"] == address);
        let function = found.unwrap_or_else(|| panic!("lspci has {address}, linerate not"));
        for (line, key) in [("LnkCap:", "link_max"), ("LnkSta:", "link")] {
            let Some((speed, width)) = part.lines().find_map(|text| link_of(text.trim().strip_prefix(line)?))
            else {
                continue;
            };
            assert_eq!(function[key]["gt_per_second"], speed, "{address} {line}");
            assert_eq!(function[key]["width"], width, "{address} {line}");
            links += 1;
        }
        let Some((payload, request)) = part.lines().find_map(payload_of) else { continue };
        assert_eq!(function["express"]["max_payload_bytes"], payload, "{address}");
        assert_eq!(function["express"]["max_read_request_bytes"], request, "{address}");
    }
    assert!(links >= 24, "{links} links were compared");
}

/// `Port #0, Speed 16GT/s, Width x4, …`; none where the port does not say.
fn link_of(words: &str) -> Option<(f64, u64)> {
    let after =
        |begin: &str| words.split_once(begin).map(|(_, rest)| rest.split([',', ' ']).next().unwrap_or(""));
    let speed = after("Speed ")?.strip_suffix("GT/s")?.parse().ok()?;
    Some((speed, after("Width x")?.parse().ok()?))
}

/// `MaxPayload 128 bytes, MaxReadReq 128 bytes`.
fn payload_of(line: &str) -> Option<(u64, u64)> {
    let (payload, request) = line.trim().strip_prefix("MaxPayload ")?.split_once(" bytes, MaxReadReq ")?;
    Some((payload.parse().ok()?, request.strip_suffix(" bytes")?.parse().ok()?))
}

/// Four NVMe drives, two at each node, with a queue and an interrupt for each core; two SATA disks on one port.
fn the_disks(guest: &QemuServer, machine: &Value) {
    let disks = machine["disks"].as_array().expect("disks");
    let of = |kind: &str, node: u64| {
        disks.iter().filter(|disk| disk["kind"] == kind && disk["node"] == node).count()
    };
    assert_eq!((of("nvme", 0), of("nvme", 1)), (2, 2));
    let sata: Vec<&Value> =
        disks.iter().filter(|disk| disk["name"].as_str().is_some_and(|n| n.starts_with("sd"))).collect();
    assert_eq!(sata.len(), 2);
    assert_eq!(sata[0]["pci"], sata[1]["pci"], "behind one controller");
    // Each drive's interrupts, as the kernel counts them, are known with their cores.
    assert_eq!(guest.kept("queues").trim(), "16", "four queues of four drives");
    let known = machine["interrupts"].to_string();
    assert!(known.contains("nvme"), "{known}");
}
