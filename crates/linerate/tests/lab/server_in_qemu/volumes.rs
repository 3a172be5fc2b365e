//! What lies above disks and NICs on a server in QEMU: volumes of the device mapper, a bond, a VLAN.

use super::guest::QemuServer;
use crate::support::program;
use serde_json::Value;

/// Encryption above stripes above two drives, as LVM and cryptsetup would name them.
const STACK: &str = "modprobe -a dm_mod dm_crypt; \
    echo 0 1048576 striped 2 128 /dev/nvme0n1 0 /dev/nvme1n1 0 | dmsetup create --noudevsync -u LVM-lab group-striped; \
    echo 0 1048576 crypt aes-xts-plain64 $(printf '0123456789abcdef%.0s' 1 2 3 4) 0 /dev/dm-0 0 | \
    dmsetup create --noudevsync -u CRYPT-PLAIN-secret secret";

pub(super) fn stacks_are_followed(guest: &QemuServer) {
    if guest.shell("command -v dmsetup").stdout.is_empty() {
        eprintln!("skipped: volumes in a guest: apt install dmsetup");
        return;
    }
    guest.succeed(STACK);
    let machine = guest.linerate("probe");
    guest.succeed("dmsetup remove --noudevsync secret; dmsetup remove --noudevsync group-striped");
    let disk = |name: &str| {
        let disks = machine["disks"].as_array().expect("disks");
        disks.iter().find(|disk| disk["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let (striped, secret) = (disk("dm-0"), disk("dm-1"));
    assert_eq!((&striped["mapped_name"], &striped["mapped_by"]), (&"group-striped".into(), &"LVM".into()));
    assert_eq!(striped["members"], serde_json::json!(["nvme0n1", "nvme1n1"]));
    assert_eq!(
        (&striped["array"]["chunk_bytes"], &striped["array"]["data_disks"]),
        (&65536.into(), &2.into())
    );
    assert_eq!((&secret["mapped_name"], &secret["mapped_by"]), (&"secret".into(), &"CRYPT".into()));
    assert_eq!(secret["members"], serde_json::json!(["dm-0"]));
}

/// Two NICs of which one waits for the other to fail carry what one does. The NICs are not given back.
pub(super) fn a_bond_counts_once(guest: &QemuServer) {
    guest.succeed(
        "modprobe bonding; ip link add bond0 type bond mode active-backup miimon 100; \
         for nic in eth0 eth1; do ip link set $nic down; ip link set $nic master bond0; done; ip link set bond0 up; \
         ip link add link bond0 name bond0.7 type vlan id 7; ip link set bond0.7 up; \
         for ((i = 0; i < 100; i++)); do grep -q 1 /sys/class/net/bond0/carrier && break; sleep 0.1; done",
    );
    let machine = guest.linerate("probe");
    let nics = machine["nics"].as_array().expect("NICs");
    let standby: Vec<&Value> = nics.iter().filter(|nic| nic["standby_of"] == "bond0").collect();
    assert_eq!(standby.len(), 1, "{nics:?}");
    let bond = nics.iter().find(|nic| nic["name"] == "bond0").expect("the bond");
    assert!(
        bond["details"]["firmware"].get("unknown").is_some() || !bond["details"]["firmware"].is_string(),
        "{bond}"
    );
    assert!(nics.iter().any(|nic| nic["name"] == "bond0.7"));
    let plan = guest.succeed(&format!("{} plan --flow memory-to-network --json", program()));
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    assert!(
        plan["flow"].as_str().is_some_and(|flow| flow.starts_with("memory to 1 NIC")),
        "{}",
        plan["flow"]
    );
}
