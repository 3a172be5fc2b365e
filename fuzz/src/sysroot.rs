//! A recorded tree of `/proc` and `/sys` that somebody sends us: the whole probe over it.

use linerate::probe::{Machine, probe, route, source};
use linerate::report::tree;
use linerate::sysroot::Sysroot;
use linerate::usage::{CpuTimes, Throttle};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const PCI: &str = "sys/devices/pci0000:00/0000:00:01.0";

/// The files of the tree in the order of the input's pieces; `@` stands for the PCI function.
const FILES: [&str; 32] = [
    "proc/self/mountinfo",
    "proc/self/mounts",
    "proc/stat",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/net/fib_trie",
    "proc/net/route",
    "proc/net/ipv6_route",
    "proc/net/if_inet6",
    "proc/self/cgroup",
    "proc/self/status",
    "proc/self/limits",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/cpu.stat",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "proc/sys/net/ipv4/tcp_rmem",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu0/topology/core_cpus",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "sys/devices/system/node/online",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo",
    "@/current_link_speed",
    "@/current_link_width",
    "@/class",
    "@/numa_node",
    "@/net/eth0/speed",
    "@/net/eth0/mtu",
    "@/block/vda/size",
    "@/block/vda/queue/logical_block_size",
];

/// Links that no input changes.
const LINKS: [(&str, &str); 3] = [
    ("sys/bus/pci/devices/0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0"),
    ("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:01.0/net/eth0"),
    ("sys/class/block/vda", "../../devices/pci0000:00/0000:00:01.0/block/vda"),
];

/// Zero bytes part the files of [`FILES`]; an empty piece is a file that is not there.
pub fn sysroot(input: &[u8]) {
    let root = tempfile::Builder::new().prefix("linerate-fuzz-").tempdir().expect("a temporary directory");
    for (file, text) in FILES.iter().zip(input.split(|byte| *byte == 0)).filter(|(_, text)| !text.is_empty())
    {
        fs::write(place(root.path(), &file.replace('@', PCI)), text).expect("a file of the tree");
    }
    for (link, target) in LINKS {
        std::os::unix::fs::symlink(target, place(root.path(), link)).expect("a link of the tree");
    }
    read(&Sysroot::recorded(root.path()));
}

fn place(root: &Path, file: &str) -> PathBuf {
    let place = root.join(file);
    fs::create_dir_all(place.parent().expect("a file's directory")).expect("directories of the tree");
    place
}

/// All that reads a tree. What comes of it can be saved and read again, so no number of it is infinite or
/// none.
fn read(sysroot: &Sysroot) {
    let machine = probe(sysroot);
    let json = serde_json::to_string(&machine).expect("a machine is JSON");
    if let Err(error) = serde_json::from_str::<Machine>(&json) {
        panic!("the machine cannot be read again: {error}: {json}");
    }
    assert!(!tree::show_tree(&machine).is_empty());
    for peer in ["192.0.2.50", "2001:db8::1"] {
        route::path_to(sysroot, &machine, peer.parse::<IpAddr>().expect("an address"));
    }
    for path in ["/", "/data/file", "/dev/vda"] {
        source::devices_behind(sysroot, &machine, Path::new(path));
    }
    let times = CpuTimes::read(sysroot);
    assert!(times.since(&CpuTimes::default()).is_empty());
    for share in times.since(&times) {
        // A core that is told twice is compared with its first line.
        assert!((0.0..=1.0).contains(&share.busy()) && share.steal.is_finite(), "{share:?}");
    }
    let throttle = Throttle::read(sysroot);
    assert!(throttle.quota_cores.is_finite() && throttle.share_since(&Throttle::default()).is_finite());
}
