//! The machine as a tree of text, what `linerate probe` prints: one screen for a virtual machine, and for a large server what
//! carries bytes, each thing below what it hangs on.

mod branch;
mod devices;
#[cfg(test)]
pub(crate) mod server;
mod unknowns;

use super::cpu_list;
use super::machine::{Cpu, Kernel, Machine, NumaNode};
use crate::fact::Fact;
use crate::units::{show_bits_rate, show_bytes_rate, show_size};
use branch::Branch;
use std::collections::BTreeSet;

/// The machine as text, lines ended by a newline. Facts that could not be read stand at the end with their reasons, grouped.
pub fn show_tree(machine: &Machine) -> String {
    let mut top = Branch::new(heading(machine));
    top.push(cpu(&machine.cpu));
    top.extend(memory(machine));
    top.extend(kernel(&machine.kernel));
    let mut shown = devices::functions(machine);
    for node in &machine.memory.nodes {
        let mut branch = Branch::new(numa_node(machine, node));
        branch.extend(shown.take_node(node.id));
        top.push(branch);
    }
    let title = if machine.memory.nodes.is_empty() { "PCI devices" } else { "PCI devices on no known node" };
    top.push_section(title, shown.take_rest());
    top.extend(shown.left_out());
    top.push_section("Block devices stacked on others, or virtual", first(devices::stacked(machine)));
    top.push_section("Virtual interfaces", first(devices::virtual_interfaces(machine)));
    top.push_section("Network file systems", first(devices::network_file_systems(machine)));
    top.push_section("Unknown here", unknowns::lines(machine, &shown.addresses));
    top.show()
}

/// A host of containers has hundreds of virtual interfaces, a cluster's node dozens of network file systems: more are counted.
const SHOWN: usize = 12;

fn first(mut branches: Vec<Branch>) -> Vec<Branch> {
    if branches.len() > SHOWN {
        let more = branches.len() - (SHOWN - 1);
        branches.truncate(SHOWN - 1);
        branches.push(Branch::new(format!("and {more} more")));
    }
    branches
}

fn heading(machine: &Machine) -> String {
    let host = machine.host.known().map_or("unnamed host", String::as_str);
    let mut parts = vec![host.to_string()];
    match machine.virtualisation.known().map(String::as_str) {
        Some("none") => parts.push("bare metal".into()),
        Some(name) => parts.push(format!("virtual machine ({name})")),
        None => {}
    }
    parts.extend(machine.kernel.release.known().map(|release| format!("Linux {release}")));
    joined(parts)
}

fn cpu(cpu: &Cpu) -> Branch {
    let mut parts: Vec<String> = cpu.model.known().cloned().into_iter().collect();
    let online = cpu.logical.iter().filter(|one| one.online).count();
    let packages = cpu.packages.known().map(|n| counted(*n as usize, "package"));
    let cores = cpu.physical_cores.known().map(|n| counted(*n as usize, "core"));
    // Where every core has one thread, the count of threads says nothing new.
    let threads = (cpu.physical_cores.known() != Some(&(online as u32))).then(|| counted(online, "thread"));
    parts.push([packages, cores, threads].into_iter().flatten().collect::<Vec<_>>().join(", "));
    parts.extend(cpu.smt.known().map(|on| format!("SMT {}", if *on { "on" } else { "off" })));
    parts.extend(cpu.governor.known().map(|governor| format!("governor {governor}")));
    let offline: Vec<u32> = cpu.logical.iter().filter(|one| !one.online).map(|one| one.id).collect();
    if !offline.is_empty() {
        parts.push(format!("offline {}", cpu_list::show(&offline)));
    }
    let mut branch = Branch::new(format!("CPU      {}", joined(parts)));
    if let Some(limits) = cpu_limits(cpu) {
        branch.more(format!("         {limits}"));
    }
    branch
}

/// What this process may not use; nothing where it may use all.
fn cpu_limits(cpu: &Cpu) -> Option<String> {
    let online: BTreeSet<u32> = cpu.logical.iter().filter(|one| one.online).map(|one| one.id).collect();
    let mut limits = Vec::new();
    if let Fact::Known(allowed) = &cpu.allowed
        && !online.iter().all(|id| allowed.contains(id))
    {
        limits.push(format!("this process may run on {} only", cpu_list::show(allowed)));
    }
    if let Fact::Known(cores) = cpu.quota_cores
        && cores > 0.0
    {
        limits.push(format!("its control group grants {cores:.2} cores"));
    }
    (!limits.is_empty()).then(|| joined(limits))
}

fn memory(machine: &Machine) -> Option<Branch> {
    let memory = &machine.memory;
    let mut parts: Vec<String> =
        memory.total_bytes.known().map(|bytes| show_size(*bytes)).into_iter().collect();
    parts.extend(memory.available_bytes.known().map(|bytes| format!("{} available", show_size(*bytes))));
    let rated = memory.rated_bytes_per_second.known();
    parts.extend(rated.map(|rate| format!("rated {}", show_bytes_rate(*rate))));
    (!parts.is_empty()).then(|| Branch::new(format!("Memory   {}", joined(parts))))
}

/// Settings that bound a flow; nothing where none could be read (a thin recording).
fn kernel(kernel: &Kernel) -> Option<Branch> {
    let mut parts = Vec::new();
    parts.extend(kernel.io_uring_disabled.known().map(|switch| {
        match switch {
            0 => "io_uring allowed",
            1 => "io_uring for one group and root only",
            _ => "io_uring off",
        }
        .to_string()
    }));
    parts.extend(kernel.memlock_bytes.known().map(|bytes| format!("memlock {}", limit(*bytes))));
    if let Fact::Known(control) = &kernel.tcp_congestion_control {
        let others = kernel.tcp_available_congestion_control.known().into_iter().flatten();
        let others: Vec<&str> = others.map(String::as_str).filter(|name| name != control).collect();
        let others = if others.is_empty() { String::new() } else { format!(" (or {})", others.join(", ")) };
        parts.push(format!("TCP {control}{others}"));
    }
    let buffers: Vec<String> = [
        ("receive", &kernel.rmem_max_bytes),
        ("send", &kernel.wmem_max_bytes),
        ("TCP receive", &kernel.tcp_rmem_max_bytes),
        ("TCP send", &kernel.tcp_wmem_max_bytes),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some(format!("{name} {}", show_size(*bytes.known()?))))
    .collect();
    if parts.is_empty() && buffers.is_empty() {
        return None;
    }
    let mut branch = Branch::new(format!("Kernel   {}", joined(parts)));
    if !buffers.is_empty() {
        branch.more(format!("         socket buffers up to: {}", buffers.join(", ")));
    }
    Some(branch)
}

fn limit(bytes: u64) -> String {
    if bytes == u64::MAX { "unlimited".into() } else { show_size(bytes) }
}

fn numa_node(machine: &Machine, node: &NumaNode) -> String {
    let mut parts: Vec<String> = Vec::new();
    match node.cpus.as_slice() {
        [] => parts.push("no CPU".into()),
        cpus => parts.push(format!("cpus {}", cpu_list::show(cpus))),
    }
    let packages: BTreeSet<u32> = machine
        .cpu
        .logical
        .iter()
        .filter(|cpu| node.cpus.contains(&cpu.id))
        .filter_map(|cpu| cpu.package.known().copied())
        .collect();
    // Which package a node is on is worth a word only where there are several.
    if machine.cpu.packages.known().is_some_and(|count| *count > 1) && !packages.is_empty() {
        let packages: Vec<u32> = packages.into_iter().collect();
        parts.push(format!("package {}", cpu_list::show(&packages)));
    }
    parts.extend(node.total_bytes.known().map(|bytes| match bytes {
        0 => "no memory".to_string(),
        bytes => show_size(*bytes),
    }));
    format!("Node {:<3} {}", node.id, joined(parts))
}

/// A link rate in bits.
fn bits(bits_per_second: u64) -> String {
    show_bits_rate(crate::units::bytes_per_second(bits_per_second))
}

/// `1 core`, `2 cores`.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Parts of a line; the empty ones are left out.
fn joined(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use crate::probe::tests::Tree;
    use crate::sysroot::Sysroot;

    #[test]
    fn a_virtual_machine_is_one_clean_screen() {
        let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/virtual-machine");
        insta::assert_snapshot!(show_tree(&probe(&Sysroot::recorded(recorded))), @r"
        vm · virtual machine (kvm) · Linux 6.18.44
        ├─ CPU      AMD EPYC · 1 package, 2 cores · SMT off
        ├─ Memory   23.5 GiB · 22.2 GiB available
        ├─ Kernel   io_uring allowed · memlock 8 MiB · TCP bbr (or reno, cubic)
        │           socket buffers up to: receive 4 MiB, send 4 MiB, TCP receive 32 MiB, TCP send 4 MiB
        ├─ Node 0   cpus 0-1 · 18.5 GiB
        ├─ PCI devices on no known node
        │  ├─ 0000:00:02.0 storage 1af4:1042 · virtio-pci
        │  │  └─ vda 256 GiB · 512 B blocks · ext4 on /
        │  └─ 0000:00:03.0 Ethernet 1af4:1041 · virtio-pci
        │     └─ eth0 · up · virtio_net · MTU 1400 · 192.0.2.2/24 fd00::2/64
        ├─ 4 further PCI functions: bridges and chip set
        ├─ Virtual interfaces
        │  └─ lo · MTU 65536 · 127.0.0.1/8 ::1/128
        └─ Unknown here
           ├─ governor: the kernel shows no clock control, as usual in a virtual machine
           ├─ memory's rated bandwidth: no SMBIOS table tells of the DIMMs
           ├─ PCIe link of 0000:00:02.0, 0000:00:03.0: a virtual machine shows no link
           ├─ node of 0000:00:02.0, 0000:00:03.0: the firmware does not tell (−1)
           └─ link rate of eth0: the driver tells no link rate
        ");
    }

    /// Two packages, a card below a switch on the second, a drive whose link is narrower than it could be, things stacked on it.
    fn server() -> Tree {
        let mut tree = Tree::new(&[
            ("proc/sys/kernel/hostname", "dtn1\n"),
            ("proc/cpuinfo", "model name : ACME 9000\nflags : fpu\n"),
            ("proc/self/status", "Cpus_allowed_list:\t0-1\n"),
            (
                "proc/self/mountinfo",
                "1 0 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n2 1 0:9 / /net rw - nfs4 filer:/x rw\n",
            ),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/node/node0/cpulist", "0-1"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1048576 kB"),
            ("sys/devices/system/node/node1/cpulist", "2-3"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB"),
        ]);
        for id in 0..4 {
            let topology = format!("sys/devices/system/cpu/cpu{id}/topology");
            tree.put(&format!("{topology}/physical_package_id"), &(id / 2).to_string());
            tree.put(&format!("{topology}/core_id"), "0");
            tree.put(&format!("{topology}/thread_siblings_list"), ["0-1", "2-3"][id / 2]);
        }
        let port = "sys/devices/pci0000:80/0000:80:01.0";
        let up = format!("{port}/0000:81:00.0");
        for (directory, class, link, most) in [
            (port.to_string(), "0x060400", "16.0 GT/s PCIe", "16.0 GT/s PCIe"),
            (up.clone(), "0x060400", "16.0 GT/s PCIe", "16.0 GT/s PCIe"),
            (format!("{up}/0000:82:00.0"), "0x020000", "16.0 GT/s PCIe", "16.0 GT/s PCIe"),
            (format!("{up}/0000:82:00.1"), "0x010802", "8.0 GT/s PCIe", "16.0 GT/s PCIe"),
        ] {
            let address = directory.rsplit('/').next().expect("a name").to_string();
            for (file, text) in [
                ("class", class),
                ("numa_node", "1"),
                ("current_link_speed", link),
                ("current_link_width", "16"),
                ("max_link_speed", most),
                ("max_link_width", "16"),
            ] {
                tree.put(&format!("{directory}/{file}"), text);
            }
            tree.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../../{directory}"));
        }
        let nic = format!("{up}/0000:82:00.0/net/eth0");
        tree.put(&format!("{nic}/device/x"), "");
        tree.put(&format!("{nic}/speed"), "100000");
        tree.put(&format!("{nic}/operstate"), "up");
        tree.put(&format!("{nic}/mtu"), "9000");
        tree.link("sys/class/net/eth0", &format!("../../../{nic}"));
        let drive = format!("{up}/0000:82:00.1/nvme/nvme0/nvme0n1");
        tree.put(&format!("{drive}/size"), "2097152");
        tree.put(&format!("{drive}/queue/logical_block_size"), "512");
        tree.put(&format!("{drive}/nvme0n1p1/partition"), "1");
        tree.put(&format!("{drive}/nvme0n1p1/dev"), "259:1");
        tree.put(&format!("{drive}/nvme0n1p1/size"), "1048576");
        tree.put("sys/devices/virtual/block/dm-0/size", "1048576");
        tree.put("sys/devices/virtual/block/dm-0/slaves/nvme0n1p2/x", "");
        tree.link("sys/block/nvme0n1", &format!("../../{drive}"));
        tree.link("sys/block/dm-0", "../devices/virtual/block/dm-0");
        tree
    }

    #[test]
    fn a_server_shows_what_hangs_where() {
        insta::assert_snapshot!(show_tree(&probe(&server().sysroot())), @r"
        dtn1 · bare metal
        ├─ CPU      ACME 9000 · 2 packages, 2 cores, 4 threads · SMT on
        │           this process may run on 0-1 only
        ├─ Node 0   cpus 0-1 · package 0 · 1 GiB
        ├─ Node 1   cpus 2-3 · package 1 · no memory
        │  └─ 0000:81:00.0 bridge · 16 GT/s x16 (252 Gb/s)
        │     ├─ 0000:82:00.0 Ethernet · 16 GT/s x16 (252 Gb/s)
        │     │  └─ eth0 · up · 100 Gb/s · MTU 9000
        │     └─ 0000:82:00.1 NVMe · 8 GT/s x16 (126 Gb/s), could do 16 GT/s x16
        │        └─ nvme0n1 1 GiB · 512 B blocks
        │           └─ nvme0n1p1 512 MiB · xfs on /
        ├─ 1 further PCI function: bridges and chip set
        ├─ Block devices stacked on others, or virtual
        │  └─ dm-0 512 MiB · on nvme0n1p2
        ├─ Network file systems
        │  └─ nfs4 on /net from filer:/x
        └─ Unknown here
           ├─ not there to be read:
           │    CPU quota, memory, memory available, kernel version, memlock limit, rmem_max, wmem_max, tcp_rmem
           │    tcp_wmem, TCP congestion control
           ├─ governor: the kernel shows no clock control, as usual in a virtual machine
           ├─ memory's rated bandwidth: no SMBIOS table tells of the DIMMs
           ├─ io_uring's switch: this kernel has no such switch (it came with 6.6)
           └─ driver of eth0: no driver is bound
        ");
    }

    #[test]
    fn a_damaged_file_with_bridges_in_a_ring_ends() {
        let mut machine = probe(&server().sysroot());
        let mut twin = machine.pci[1].clone();
        twin.parent = Some(machine.pci[3].address.clone());
        machine.pci.extend([twin.clone(), twin]);
        assert!(show_tree(&machine).matches("0000:81:00.0").count() == 1);
    }

    #[test]
    fn hundreds_of_interfaces_are_counted() {
        let files: Vec<String> = (0..300).map(|n| format!("sys/class/net/veth{n}/mtu")).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "1500")).collect();
        let text = show_tree(&probe(&Tree::new(&files).sysroot()));
        assert!(text.contains("and 289 more"), "{text}");
        assert!(text.lines().count() < 40, "{text}");
    }
}
