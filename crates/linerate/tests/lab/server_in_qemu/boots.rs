//! The same server, booted in other ways.

use super::guest::QemuServer;
use super::{FINDINGS, thorough};

/// Where the CPU says that it is a virtual one, its links are unknown and say why; nothing is found about them.
#[test]
fn the_links_of_a_visible_hypervisor_are_unknown() {
    if !thorough() {
        eprintln!("skipped: a second boot of the server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("visible", &["--visible-hypervisor"]) else { return };
    let machine = guest.linerate("probe");
    assert_eq!(machine["virtualisation"], "qemu");
    let drives = machine["pci"].as_array().expect("functions").iter().filter(|one| one["driver"] == "nvme");
    let links: Vec<String> = drives.map(|drive| drive["link"].to_string()).collect();
    assert_eq!(links.len(), 4);
    let findings = guest.findings();
    assert!(!findings.iter().any(|id| id.starts_with("pcie-")), "{findings:?} of {links:?}");
    guest.down();
}

/// With an IOMMU: the same server, and what is found is the same.
#[test]
fn an_iommu_changes_nothing_else() {
    if !thorough() {
        eprintln!("skipped: a boot of the server in QEMU with an IOMMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("iommu", &["--iommu"]) else { return };
    let groups = guest.succeed("ls /sys/kernel/iommu_groups | wc -l");
    assert_ne!(groups.trim(), "0", "the IOMMU is not on");
    assert_eq!(guest.findings(), FINDINGS);
    guest.down();
}
