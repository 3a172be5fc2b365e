//! Kernel version and the settings that bound a flow: `/proc/sys`, the memory-lock limit of this process,
//! irqbalance.
//!
//! Huge pages are among them: those set aside, and whether the kernel makes its own
//! (`Documentation/admin-guide/mm/hugetlbpage.rst`, `transhuge.rst`).

pub(crate) mod host;
pub(crate) mod interrupt;

use crate::probe::machine::{HugePages, Kernel};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;
use std::str::FromStr;

/// Reads the kernel's settings.
pub(crate) fn read(sysroot: &Sysroot) -> Kernel {
    let tcp = |name: &str| third_number(sysroot, &format!("/proc/sys/net/ipv4/{name}"));
    Kernel {
        release: release(sysroot),
        io_uring_disabled: io_uring_disabled(sysroot),
        memlock_bytes: memlock(sysroot),
        rmem_max_bytes: core(sysroot, "rmem_max"),
        wmem_max_bytes: core(sysroot, "wmem_max"),
        tcp_rmem_max_bytes: tcp("tcp_rmem"),
        tcp_wmem_max_bytes: tcp("tcp_wmem"),
        tcp_congestion_control: sysroot.fact("/proc/sys/net/ipv4/tcp_congestion_control"),
        tcp_available_congestion_control: sysroot
            .fact("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .map(|list| list.split_ascii_whitespace().map(str::to_string).collect()),
        netdev_max_backlog: core(sysroot, "netdev_max_backlog"),
        netdev_budget: core(sysroot, "netdev_budget"),
        default_qdisc: core(sysroot, "default_qdisc"),
        optmem_max_bytes: core(sysroot, "optmem_max"),
        tcp_mtu_probing: sysroot.parse("/proc/sys/net/ipv4/tcp_mtu_probing"),
        huge_pages: huge_page_pools(sysroot),
        transparent_huge_pages: transparent_huge_pages(sysroot),
        // 1 is moving pages, 2 is demoting them to slower memory.
        numa_balancing: sysroot.parse::<u32>("/proc/sys/kernel/numa_balancing").map(|modes| modes & 1 == 1),
        zone_reclaim_mode: sysroot.parse("/proc/sys/vm/zone_reclaim_mode"),
        iommu: host::iommu(sysroot),
        boot_options: host::boot_options(sysroot),
        irqbalance: irqbalance(sysroot),
    }
}

fn release(sysroot: &Sysroot) -> Fact<String> {
    let why = match sysroot.text("/proc/sys/kernel/osrelease") {
        Ok(release) => return Fact::Known(release),
        Err(why) => why,
    };
    // `Linux version 6.1.0 (…)`, in recordings that have no /proc/sys.
    let version = sysroot.text("/proc/version").unwrap_or_default();
    let mut words = version.split_ascii_whitespace();
    let release = words.find(|word| *word == "version").and_then(|_| words.next());
    Fact::from_option(release.map(str::to_string), why)
}

/// The switch came with Linux 6.6; before, io_uring is there unless a sandbox forbids the call.
fn io_uring_disabled(sysroot: &Sysroot) -> Fact<u32> {
    let switch = "/proc/sys/kernel/io_uring_disabled";
    // A recording without any of /proc/sys reports nothing about the switch.
    match sysroot.exists("/proc/sys/kernel") && !sysroot.exists(switch) {
        true => Fact::unknown("this kernel has no such switch (it came with 6.6)"),
        false => sysroot.parse(switch),
    }
}

/// `net.core.NAME`. Many of them are shown in the first network namespace only.
fn core<T: FromStr>(sysroot: &Sysroot, name: &str) -> Fact<T> {
    let path = format!("/proc/sys/net/core/{name}");
    match sysroot.exists("/proc/sys/net/core") && !sysroot.exists(&path) {
        true => Fact::unknown(format!("this network namespace does not show net.core.{name}")),
        false => sysroot.parse(path),
    }
}

/// By the control group that systemd gives its service: to look at every process would take longer than all
/// the rest.
fn irqbalance(sysroot: &Sysroot) -> Fact<bool> {
    // Control groups v2, and v1's hierarchy of systemd.
    let services = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
    let Some(services) = services.into_iter().find(|services| sysroot.is_directory(services)) else {
        return Fact::unknown("systemd shows no services here");
    };
    // A service that has stopped has no control group, or an empty one.
    let processes = sysroot.text(format!("{services}/irqbalance.service/cgroup.procs"));
    Fact::Known(processes.is_ok_and(|processes| !processes.is_empty()))
}

/// CAP_IPC_LOCK in linux/capability.h: its owner locks memory without limit (io_uring_register(2)), if it has it in the
/// first user namespace. A rootless container has a namespace of its own, with other numbers for its users.
const CAP_IPC_LOCK: u32 = 14;

fn may_lock_all(sysroot: &Sysroot) -> bool {
    // A kernel without user namespaces has no such file.
    let users = sysroot.text("/proc/self/uid_map").unwrap_or("0 0 4294967295".into());
    let is_first = users.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    let status = sysroot.text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| is_first && set >> CAP_IPC_LOCK & 1 == 1)
}

fn memlock(sysroot: &Sysroot) -> Fact<u64> {
    if may_lock_all(sysroot) {
        return Fact::Known(u64::MAX);
    }
    if sysroot.is_live() {
        return Fact::Known(linerate_system::process::memlock_bytes().unwrap_or(u64::MAX));
    }
    let text = match sysroot.text("/proc/self/limits") {
        Ok(text) => text,
        Err(why) => return Fact::unknown(why),
    };
    let soft = text
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|soft| if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() });
    Fact::from_option(soft, "/proc/self/limits has no “Max locked memory”")
}

/// `min default max`: the third.
fn third_number(sysroot: &Sysroot, path: &str) -> Fact<u64> {
    match sysroot.text(path) {
        Ok(text) => {
            let third = text.split_ascii_whitespace().nth(2).and_then(|word| word.parse().ok());
            Fact::from_option(third, format!("{path}: not three numbers"))
        }
        Err(why) => Fact::unknown(why),
    }
}

const POOLS: &str = "/sys/kernel/mm/hugepages";
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// No architecture has more than a handful of sizes.
const MOST_SIZES: usize = 16;

/// Reads the pools, smallest pages first.
fn huge_page_pools(sysroot: &Sysroot) -> Vec<HugePages> {
    let names = sysroot.list(POOLS);
    let mut pools: Vec<HugePages> = names
        .iter()
        .filter_map(|name| {
            let directory = Path::new(POOLS).join(name);
            Some(HugePages {
                page_bytes: page_bytes(name)?,
                total: sysroot.parse(directory.join("nr_hugepages")),
                free: sysroot.parse(directory.join("free_hugepages")),
            })
        })
        .take(MOST_SIZES)
        .collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

/// `hugepages-2048kB`.
fn page_bytes(name: &str) -> Option<u64> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The choice in force: `always`, `madvise` or `never`.
fn transparent_huge_pages(sysroot: &Sysroot) -> Fact<String> {
    match sysroot.text(TRANSPARENT) {
        Ok(text) => {
            Fact::from_option(chosen(&text).map(str::to_string), format!("{TRANSPARENT}: none is chosen"))
        }
        Err(why) => Fact::unknown(why),
    }
}

/// The word in brackets, as sysfs marks the one of several that is in force: `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn a_recorded_kernel() {
        let tree = Tree::new(&[
            ("proc/version", "Linux version 3.10.0-957.el7.x86_64 (mock@x) (gcc)\n"),
            ("proc/self/limits", "Limit  Soft Limit\nMax locked memory         65536   65536   bytes\n"),
            ("proc/sys/kernel/io_uring_disabled", "2\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
            ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n"),
        ]);
        let kernel = read(&tree.sysroot());
        assert_eq!(kernel.release, Fact::Known("3.10.0-957.el7.x86_64".into()));
        assert_eq!(kernel.memlock_bytes, Fact::Known(65_536));
        assert_eq!(kernel.io_uring_disabled, Fact::Known(2));
        assert_eq!(kernel.rmem_max_bytes, Fact::Known(212_992));
        assert!(kernel.wmem_max_bytes.why().is_some_and(|why| why.contains("wmem_max")));
        assert_eq!(kernel.tcp_rmem_max_bytes, Fact::Known(6_291_456));
        assert!(kernel.tcp_wmem_max_bytes.why().is_some_and(|why| why.contains("three numbers")));
        assert_eq!(kernel.tcp_available_congestion_control.known().map(Vec::len), Some(3));
    }

    #[test]
    fn receiving_nodes_and_huge_pages() {
        let tree = Tree::new(&[
            ("proc/sys/net/core/netdev_max_backlog", "250000\n"),
            ("proc/sys/net/core/default_qdisc", "fq\n"),
            ("proc/sys/kernel/numa_balancing", "1\n"),
            ("proc/sys/vm/zone_reclaim_mode", "0\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
            ("sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs", "812\n"),
        ]);
        let kernel = read(&tree.sysroot());
        assert_eq!(kernel.netdev_max_backlog, Fact::Known(250_000));
        assert_eq!(kernel.default_qdisc, Fact::Known("fq".into()));
        assert!(kernel.optmem_max_bytes.why().is_some_and(|why| why.contains("namespace")));
        assert_eq!(
            (kernel.numa_balancing.known(), kernel.zone_reclaim_mode.known()),
            (Some(&true), Some(&0))
        );
        assert_eq!(kernel.huge_pages.len(), 1);
        assert_eq!(kernel.transparent_huge_pages, Fact::Known("always".into()));
        assert_eq!(kernel.irqbalance, Fact::Known(true));
    }

    #[test]
    fn whether_irqbalance_runs() {
        let stopped =
            Tree::new(&[("sys/fs/cgroup/systemd/system.slice/irqbalance.service/cgroup.procs", "")]);
        assert_eq!(irqbalance(&stopped.sysroot()), Fact::Known(false));
        let never = Tree::new(&[("sys/fs/cgroup/system.slice/ssh.service/cgroup.procs", "1\n")]);
        assert_eq!(irqbalance(&never.sysroot()), Fact::Known(false));
        assert!(irqbalance(&Tree::new(&[]).sysroot()).why().is_some());
    }

    #[test]
    fn unlimited_and_missing() {
        let tree =
            Tree::new(&[("proc/self/limits", "Max locked memory         unlimited  unlimited  bytes\n")]);
        assert_eq!(memlock(&tree.sysroot()), Fact::Known(u64::MAX));
        for (users, most) in [("0 0 4294967295\n", u64::MAX), ("0 1000 1\n1 100000 65536\n", 65_536)] {
            let container = Tree::new(&[
                ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
                ("proc/self/limits", "Max locked memory         65536   65536   bytes\n"),
                ("proc/self/uid_map", users),
            ]);
            assert_eq!(memlock(&container.sysroot()), Fact::Known(most), "{users}");
        }
        let kernel = read(&Tree::new(&[]).sysroot());
        assert!(kernel.memlock_bytes.why().is_some() && kernel.release.why().is_some());
        assert_eq!(kernel.io_uring_disabled.why(), Some("/proc/sys/kernel/io_uring_disabled: not there"));
        let older = read(&Tree::new(&[("proc/sys/kernel/osrelease", "6.1.0\n")]).sysroot());
        assert!(older.io_uring_disabled.why().is_some_and(|why| why.contains("6.6")));
    }

    #[test]
    fn two_sizes_and_the_choice() {
        let tree = Tree::new(&[
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/other/x", ""),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let found = huge_page_pools(&tree.sysroot());
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].page_bytes, found[0].total.known(), found[0].free.known()),
            (2 << 20, Some(&512), Some(&500))
        );
        assert_eq!((found[1].page_bytes, found[1].total.known()), (1 << 30, Some(&0)));
        assert!(found[1].free.why().is_some());
        assert_eq!(transparent_huge_pages(&tree.sysroot()), Fact::Known("madvise".into()));
        assert!(transparent_huge_pages(&Tree::new(&[]).sysroot()).why().is_some());
    }

    proptest! {
        #[test]
        fn any_name_and_any_choice(name in "(hugepages-)?[0-9é]{0,22}(kB)?", text in "[a-z\\[\\] é]{0,30}") {
            let _ = page_bytes(&name);
            if let Some(word) = chosen(&text) {
                prop_assert!(text.contains(word));
            }
        }
    }
}
