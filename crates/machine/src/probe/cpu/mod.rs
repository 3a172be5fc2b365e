//! CPUs: `/proc/cpuinfo`, `/sys/devices/system/cpu`, and what this process may use of them. Caches,
//! clock and idle states have files of their own.

mod baseline;
mod cache;
pub mod cpu_list;
mod frequency;
mod model;

use crate::probe::kernel::host::usual_in_a_guest;
use crate::probe::machine::{Cpu, LogicalCpu, NumaNode};
pub use baseline::cpu_speeds;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::Throttle;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the kernel keeps what it knows of CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// Reads the CPUs; the nodes tell which CPU is where.
pub(crate) fn read(sysroot: &Sysroot, nodes: &[NumaNode], virtualisation: &Fact<String>) -> Cpu {
    let logical = logical(sysroot, nodes);
    // Clock and idle states are read of one that is online: CPU 0 need not be.
    let first = logical.iter().find(|cpu| cpu.online).map_or(0, |cpu| cpu.id);
    let if_guest = usual_in_a_guest(virtualisation);
    let frequency = frequency::read(sysroot, first, if_guest);
    Cpu {
        model: model::name(sysroot),
        packages: packages(&logical),
        physical_cores: physical_cores(&logical),
        smt: smt(sysroot, &logical),
        allowed: allowed(sysroot),
        quota_cores: quota(sysroot),
        governor: frequency.governor,
        caches: cache::read(sysroot, &logical),
        frequency_driver: frequency.driver,
        frequency_hertz: frequency.hertz,
        frequency_allowed_hertz: frequency.allowed_hertz,
        boost: frequency.boost,
        idle_driver: frequency::driver(sysroot, if_guest),
        idle_states: frequency::states(sysroot, first),
        crc32c_bytes_per_second: baseline::crc32c_of_one_core(sysroot),
        baseline: Fact::unknown("`linerate probe` times this machine's cores"),
        sockets: Vec::new(),
        logical,
    }
}

fn logical(sysroot: &Sysroot, nodes: &[NumaNode]) -> Vec<LogicalCpu> {
    let online = sysroot.text(format!("{CPUS}/online")).ok().and_then(|text| cpu_list::parse_list(&text));
    let mut ids: Vec<u32> =
        sysroot.list(CPUS).iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    // Recordings often lack the folders of the CPUs, and containers all of sysfs.
    if ids.is_empty() {
        ids = online.clone().unwrap_or_else(|| in_cpuinfo(sysroot));
    }
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter()
        .map(|id| {
            let directory = Path::new(CPUS).join(format!("cpu{id}"));
            let online = match &online {
                Some(online) => online.contains(&id),
                // Kernels without hotplug have no `online`; then every CPU is.
                None => sysroot.parse::<u32>(directory.join("online")).known() != Some(&0),
            };
            logical_cpu(sysroot, id, &directory, online, nodes)
        })
        .collect()
}

/// Numbers of the `processor` lines of `/proc/cpuinfo`: each is of a CPU that is online.
fn in_cpuinfo(sysroot: &Sysroot) -> Vec<u32> {
    let text = sysroot.text("/proc/cpuinfo").unwrap_or_default();
    let number = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "processor").then(|| value.trim().parse().ok())?
    };
    text.lines().filter_map(number).collect()
}

fn logical_cpu(sysroot: &Sysroot, id: u32, directory: &Path, online: bool, nodes: &[NumaNode]) -> LogicalCpu {
    let node = node_of(id, nodes);
    if !online {
        // The kernel takes the topology of a CPU away when it goes offline.
        let why = "the CPU is offline";
        let (package, core) = (Fact::unknown(why), Fact::unknown(why));
        return LogicalCpu { id, package, core, node, siblings: Fact::unknown(why), online };
    }
    let topology = directory.join("topology");
    LogicalCpu {
        id,
        package: topology_id(sysroot, topology.join("physical_package_id")),
        core: topology_id(sysroot, topology.join("core_id")),
        node,
        siblings: siblings(sysroot, &topology),
        online,
    }
}

/// Threads of the same core. Linux 5.3 renamed `thread_siblings` to `core_cpus` and keeps both.
fn siblings(sysroot: &Sysroot, topology: &Path) -> Fact<Vec<u32>> {
    let read =
        |name: &str| cpu_list::read(sysroot, topology.join(format!("{name}_list")), topology.join(name));
    match read("thread_siblings") {
        Fact::Known(siblings) => Fact::Known(siblings),
        old => match read("core_cpus") {
            Fact::Known(siblings) => Fact::Known(siblings),
            Fact::Unknown { .. } => old,
        },
    }
}

/// A topology number; −1 stands for "not reported" (ARM without ACPI PPTT).
fn topology_id(sysroot: &Sysroot, path: PathBuf) -> Fact<u32> {
    match sysroot.parse::<i64>(&path) {
        Fact::Known(id) => Fact::from_option(u32::try_from(id).ok(), "the firmware does not report (−1)"),
        Fact::Unknown { why } => Fact::Unknown { why },
    }
}

/// The node of a CPU. Some firmware puts every CPU on every node: then none is right.
fn node_of(id: u32, nodes: &[NumaNode]) -> Fact<u32> {
    let mut claims = nodes.iter().filter(|node| node.cpus.contains(&id)).map(|node| node.id);
    match (claims.next(), claims.next()) {
        (Some(node), None) => Fact::Known(node),
        (Some(first), Some(second)) => {
            Fact::unknown(format!("the firmware puts it on several nodes ({first} and {second})"))
        }
        (None, _) if nodes.is_empty() => Fact::unknown("the kernel shows no NUMA nodes"),
        (None, _) => Fact::unknown("no online node has this CPU"),
    }
}

fn packages(logical: &[LogicalCpu]) -> Fact<u32> {
    let packages: Option<BTreeSet<u32>> =
        logical.iter().filter(|cpu| cpu.online).map(|cpu| cpu.package.known().copied()).collect();
    let count = packages.map(|packages| packages.len() as u32).filter(|count| *count > 0);
    Fact::from_option(count, "the kernel does not report which CPU is in which package")
}

/// Cores that have an online thread: threads with the same siblings are one core.
fn physical_cores(logical: &[LogicalCpu]) -> Fact<u32> {
    let cores: Option<BTreeSet<u32>> = logical
        .iter()
        .filter(|cpu| cpu.online)
        .map(|cpu| cpu.siblings.known().map(|siblings| siblings.first().copied().unwrap_or(cpu.id)))
        .collect();
    let count = cores.map(|cores| cores.len() as u32).filter(|count| *count > 0);
    Fact::from_option(count, "the kernel does not report which threads share a core")
}

fn smt(sysroot: &Sysroot, logical: &[LogicalCpu]) -> Fact<bool> {
    let switch = sysroot.parse::<u32>(format!("{CPUS}/smt/active")).map(|active| active == 1);
    let threads: Option<Vec<usize>> = logical
        .iter()
        .filter(|cpu| cpu.online)
        .map(|cpu| cpu.siblings.known().map(|siblings| siblings.len()))
        .collect();
    let active = threads.filter(|threads| !threads.is_empty()).map(|threads| threads.iter().any(|n| *n > 1));
    match (switch, active) {
        (Fact::Known(false), Some(true)) => {
            Fact::unknown("the kernel's switch says off, and its topology shows several threads a core")
        }
        (Fact::Known(on), _) => Fact::Known(on),
        (_, active) => Fact::from_option(active, "the kernel does not report which threads share a core"),
    }
}

fn allowed(sysroot: &Sysroot) -> Fact<Vec<u32>> {
    let text = match sysroot.text("/proc/self/status") {
        Ok(text) => text,
        Err(why) => return Fact::unknown(why),
    };
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Fact::from_option(list.and_then(cpu_list::parse_list), "/proc/self/status has no Cpus_allowed_list")
}

fn quota(sysroot: &Sysroot) -> Fact<f64> {
    match sysroot.text("/proc/self/cgroup") {
        Ok(_) => Fact::Known(Throttle::read(sysroot).quota_cores),
        Err(why) => Fact::unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn metal() -> Fact<String> {
        Fact::Known("none".into())
    }

    fn node(id: u32, cpus: &[u32]) -> NumaNode {
        NumaNode { id, cpus: cpus.to_vec(), total_bytes: Fact::unknown("test"), ..Default::default() }
    }

    #[test]
    fn two_packages_with_threads_and_an_offline_cpu() {
        let tree = Tree::new(&[
            ("proc/cpuinfo", "cpu family\t: 6\nmodel name\t: Intel(R)  Xeon(R)   E5\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,3\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/devices/system/cpu/online", "1-4\n"),
            ("sys/devices/system/cpu/cpu0/online", "0"),
            ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0"),
            ("sys/devices/system/cpu/cpu1/topology/core_id", "0"),
            ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu3/topology/physical_package_id", "0"),
            ("sys/devices/system/cpu/cpu3/topology/core_id", "0"),
            ("sys/devices/system/cpu/cpu3/topology/thread_siblings", "0000000a"),
            ("sys/devices/system/cpu/cpu2/topology/physical_package_id", "1"),
            ("sys/devices/system/cpu/cpu2/topology/core_id", "0"),
            ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2"),
            ("sys/devices/system/cpu/cpu4/topology/physical_package_id", "1"),
            ("sys/devices/system/cpu/cpu4/topology/core_id", "5"),
            ("sys/devices/system/cpu/cpu4/topology/core_cpus", "00000010"),
            ("sys/devices/system/cpu/cpufreq/x", ""),
        ]);
        let cpu = read(&tree.sysroot(), &[node(0, &[1, 3]), node(1, &[2, 4])], &metal());
        assert_eq!(cpu.model, Fact::Known("Intel(R) Xeon(R) E5".into()));
        assert_eq!(cpu.packages, Fact::Known(2));
        assert_eq!(cpu.physical_cores, Fact::Known(3));
        assert_eq!(cpu.smt, Fact::Known(true));
        assert_eq!(cpu.allowed, Fact::Known(vec![0, 1, 3]));
        assert_eq!(cpu.quota_cores, Fact::Known(0.0));
        assert_eq!(cpu.governor, Fact::Known("powersave".into()));
        assert_eq!(cpu.logical.len(), 5);
        assert!(!cpu.logical[0].online);
        assert_eq!(cpu.logical[0].package.why(), Some("the CPU is offline"));
        assert_eq!(cpu.logical[3].siblings, Fact::Known(vec![1, 3]));
        assert_eq!(cpu.logical[4].node, Fact::Known(1));
    }

    #[test]
    fn firmware_that_reports_nothing_or_nonsense() {
        let tree = Tree::new(&[("sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")]);
        let cpu = read(&tree.sysroot(), &[node(0, &[0]), node(1, &[0])], &metal());
        assert!(cpu.logical[0].online);
        assert!(cpu.packages.why().is_some());
        assert!(cpu.physical_cores.why().is_some());
        assert!(cpu.smt.why().is_some());
        assert!(cpu.logical[0].node.why().is_some_and(|why| why.contains("several nodes")));
        let empty = read(&Tree::new(&[]).sysroot(), &[], &metal());
        assert!(
            empty.logical.is_empty() && empty.packages.why().is_some() && empty.quota_cores.why().is_some()
        );
    }

    #[test]
    fn a_quota_is_reported_in_cores() {
        let tree =
            Tree::new(&[("proc/self/cgroup", "0::/lab\n"), ("sys/fs/cgroup/lab/cpu.max", "40000 100000\n")]);
        assert_eq!(quota(&tree.sysroot()), Fact::Known(0.4));
    }

    #[test]
    fn cpus_without_folders_are_those_that_are_online_or_in_cpuinfo() {
        let count = |files: &[(&str, &str)]| {
            let cpu = read(&Tree::new(files).sysroot(), &[], &metal());
            (cpu.logical.len(), cpu.logical.iter().all(|one| one.online))
        };
        let cpuinfo = ("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2\n\nprocessor\t: 1\n");
        assert_eq!(count(&[cpuinfo]), (2, true));
        assert_eq!(count(&[cpuinfo, ("sys/devices/system/cpu/online", "0-3\n")]), (4, true));
    }

    #[test]
    fn a_switch_that_contradicts_the_topology_is_not_believed() {
        let smt = |active: &str| {
            let topology =
                |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let tree = Tree::new(&[
                ("sys/devices/system/cpu/smt/active", active),
                (&topology(0), "0-1\n"),
                (&topology(1), "0-1\n"),
            ]);
            read(&tree.sysroot(), &[], &metal()).smt
        };
        assert!(smt("0\n").why().is_some_and(|why| why.contains("several threads a core")));
        assert_eq!(smt("1\n"), Fact::Known(true));
    }
}
