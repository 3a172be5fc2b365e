//! What lies above disks and NICs on a server in QEMU: arrays, volumes of the device mapper, a bond, a VLAN.

use super::gate;
use super::guest::QemuServer;
use super::tools::array_is_that_of_mdadm;
use crate::support::rights;
use serde_json::Value;

/// A mirror of the two SATA disks, and parity over drives: whole, then each without a disk.
const WHOLE: &str = "modprobe -a raid0 raid1 raid456
    mdadm --quiet --create /dev/md1 --run --assume-clean --metadata=1.2 --level=1 --raid-devices=2 /dev/sda /dev/sdb
    mdadm --quiet --create /dev/md5 --run --assume-clean --level=5 --raid-devices=3 /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1";
const LACKING: &str =
    "mdadm --quiet /dev/md1 --fail /dev/sdb --remove /dev/sdb; mdadm --quiet /dev/md5 --fail /dev/nvme1n1";
/// The mirror gets its disk back, so slowly that it is not done before linerate has looked; stripes are in the place of
/// the parity.
const REBUILT: &str = "mdadm --quiet --stop /dev/md5; mdadm --zero-superblock /dev/nvme[012]n1
    mdadm --quiet --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=2 /dev/nvme2n1 /dev/nvme3n1
    echo 100 >/sys/block/md1/md/sync_speed_min; echo 100 >/sys/block/md1/md/sync_speed_max
    mdadm --zero-superblock /dev/sdb; mdadm --quiet /dev/md1 --add /dev/sdb; sleep 1";
/// Encryption above stripes above two drives, as LVM and cryptsetup would name them.
const STACK: &str = "modprobe -a dm_mod dm_crypt
    echo 0 1048576 striped 2 128 /dev/nvme0n1 0 /dev/nvme1n1 0 | dmsetup create --noudevsync -u LVM-lab group-striped
    echo 0 1048576 crypt aes-xts-plain64 $(printf '0123456789abcdef%.0s' 1 2 3 4) 0 /dev/dm-0 0 | \
    dmsetup create --noudevsync -u CRYPT-PLAIN-secret secret";

/// The state that these words lead to, in which the arrays are those of `mdadm --detail`. A probe of an emulated server
/// takes seconds: there is one for each state of all disks.
fn state(guest: &QemuServer, words: &str, arrays: &[&str]) -> Value {
    let look = |name: &&str| format!("\nmdadm --detail /dev/{name} >/run/lab/kept/{name}");
    let looks: String = arrays.iter().map(look).collect();
    let machine = guest.linerate_after(&format!("{words}{looks}"), "probe");
    for name in arrays {
        array_is_that_of_mdadm(&disk(&machine, name)["array"], &guest.kept(name));
    }
    machine
}

fn disk<'a>(machine: &'a Value, name: &str) -> &'a Value {
    let disks = machine["disks"].as_array().expect("disks");
    disks.iter().find(|disk| disk["name"] == name).unwrap_or_else(|| panic!("{name}"))
}

pub(super) fn arrays_and_stacks_are_followed(guest: &QemuServer) {
    if !rights::has("mdadm") {
        return rights::skipped("arrays in a guest: apt install mdadm");
    }
    let machine = state(guest, WHOLE, &["md1", "md5"]);
    assert_eq!(disk(&machine, "md1")["array"]["degraded"], 0);
    let machine = state(guest, LACKING, &["md1", "md5"]);
    assert_eq!(disk(&machine, "md1")["array"]["degraded"], 1);
    assert_eq!(machine["findings"][0]["id"], "array-degraded");
    gate::faults_fail_with_their_cause(guest);
    let stack = if rights::there("dmsetup") { STACK } else { "" };
    let machine = state(guest, &format!("{REBUILT}\n{stack}"), &["md0"]);
    let first = &machine["findings"][0];
    assert_eq!(disk(&machine, "md1")["array"]["sync_action"], "recover");
    assert!(first["text"].as_str().is_some_and(|text| text.contains("is being rebuilt")), "{first}");
    let no_stack = if stack.is_empty() {
        "true"
    } else {
        the_stack(&machine);
        "dmsetup remove --noudevsync secret && dmsetup remove --noudevsync group-striped"
    };
    guest.succeed(&format!(
        "{no_stack} && mdadm --quiet --stop /dev/md0 /dev/md1 && mdadm --zero-superblock /dev/sd[ab] /dev/nvme[23]n1"
    ));
}

fn the_stack(machine: &Value) {
    let (striped, secret) = (disk(machine, "dm-0"), disk(machine, "dm-1"));
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
    let machine = guest.linerate_after(
        "modprobe bonding; ip link add bond0 type bond mode active-backup miimon 100; \
         for nic in eth0 eth1; do ip link set $nic down; ip link set $nic master bond0; done; ip link set bond0 up; \
         ip link add link bond0 name bond0.7 type vlan id 7; ip link set bond0.7 up; \
         for ((i = 0; i < 100; i++)); do grep -q 1 /sys/class/net/bond0/carrier && break; sleep 0.1; done",
        "probe",
    );
    let nics = machine["nics"].as_array().expect("NICs");
    let standby: Vec<&Value> = nics.iter().filter(|nic| nic["standby_of"] == "bond0").collect();
    assert_eq!(standby.len(), 1, "{nics:?}");
    let bond = nics.iter().find(|nic| nic["name"] == "bond0").expect("the bond");
    assert!(
        bond["details"]["firmware"].get("unknown").is_some() || !bond["details"]["firmware"].is_string(),
        "{bond}"
    );
    assert!(nics.iter().any(|nic| nic["name"] == "bond0.7"));
    let plan = guest.linerate("plan --flow memory-to-network");
    assert!(
        plan["flow"].as_str().is_some_and(|flow| flow.starts_with("memory to 1 NIC")),
        "{}",
        plan["flow"]
    );
}
