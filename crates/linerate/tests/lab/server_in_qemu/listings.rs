//! The machine of what tools print in the guest is the machine of its `/sys`: the same parts, links and findings.

use super::guest::QemuServer;
use crate::support::process::Ends;
use crate::support::rights;
use serde_json::{Map, Value};

/// What a person would save of a server beside `lspci`, below `/run/lab/kept/listings`.
const SAVE: &str = "
mkdir -p /run/lab/kept/listings && cd /run/lab/kept/listings
ls -l /sys/block /sys/class/net >links
lsblk -J -b -O >lsblk
lscpu >lscpu
ip -s -d link >ip_link
ip addr >ip_addr
for nic in eth0 eth1; do ethtool $nic >ethtool_$nic; ethtool -i $nic >ethtool_-i_$nic; done
cat /proc/interrupts >interrupts
cat /proc/meminfo >meminfo
cat /proc/cpuinfo >cpuinfo
";

/// The tools whose listings these are, and the package of each.
const TOOLS: [(&str, &str); 4] =
    [("lspci", "pciutils"), ("lsblk", "util-linux"), ("ip", "iproute2"), ("ethtool", "ethtool")];

/// Words for the guest that save its listings; none, with a message, where a tool is missing.
pub(super) fn saved() -> &'static str {
    if let Some((tool, package)) = TOOLS.iter().find(|(tool, _)| !rights::has(tool)) {
        rights::skipped(&format!("{tool}, whose listing is a part of a machine: apt install {package}"));
        return ":";
    }
    SAVE
}

pub(super) fn are_the_machine(guest: &QemuServer, machine: &Value) {
    let folder = guest.shared("kept/listings");
    if !folder.exists() {
        return;
    }
    let mut probe = crate::support::linerate();
    let listed = probe.args(["probe", "--json"]).arg(guest.shared("kept/lspci")).arg(&folder).ended().json();
    for part in [functions, nics, disks, controllers, nodes, findings] {
        assert_eq!(part(&listed), part(machine), "of the listings, and of /sys");
    }
}

/// What `keys` are of each element of a list, by its name.
fn of_each(list: &Value, name: &str, keys: &[&str], is_meant: impl Fn(&Value) -> bool) -> Value {
    let named = |one: &Value| {
        // The reasons of what is unknown are each reader's own.
        let known = |key: &str| Some(one[key].clone()).filter(|value| value["unknown"].is_null());
        let known = keys.iter().map(|key| ((*key).to_string(), known(key).unwrap_or_default()));
        let known = known.collect::<Map<_, _>>();
        (one[name].as_str().unwrap_or_default().to_string(), Value::Object(known))
    };
    let all = list.as_array().expect("a list").iter().filter(|one| is_meant(one)).map(named);
    Value::Object(all.collect())
}

fn functions(machine: &Value) -> Value {
    let keys = ["class", "vendor", "device", "parent", "node", "link", "link_max", "driver"];
    of_each(&machine["pci"], "address", &keys, |_| true)
}

fn nics(machine: &Value) -> Value {
    let keys = ["pci", "node", "mtu", "driver", "state", "speed_bits_per_second"];
    of_each(&machine["nics"], "name", &keys, |nic| nic["pci"].is_string())
}

fn disks(machine: &Value) -> Value {
    let is_whole = |disk: &Value| disk["pci"].is_string() && disk["kind"] != "partition";
    let keys = ["kind", "size_bytes", "model", "rotational", "pci", "node", "controller"];
    of_each(&machine["disks"], "name", &keys, is_whole)
}

/// Of a port without a disk no listing reports anything.
fn controllers(machine: &Value) -> Value {
    let has_disks = |one: &Value| one["disks"].as_array().is_some_and(|disks| !disks.is_empty());
    of_each(&machine["controllers"], "name", &["kind", "pci", "transport", "disks"], has_disks)
}

fn nodes(machine: &Value) -> Value {
    machine["memory"]["nodes"].as_array().expect("nodes").iter().map(|node| node["cpus"].clone()).collect()
}

fn findings(machine: &Value) -> Value {
    machine["findings"].as_array().expect("findings").iter().map(|one| one["id"].clone()).collect()
}
