//! The machine of a sample run.

use super::builder::Spec;
use linerate::fact::Fact;
use linerate::probe::{
    Cpu, Disk, DiskKind, FileSystem, Kernel, LogicalCpu, Machine, Memory, Nic, NumaNode, PciDevice, PciLink,
};

fn known<T>(value: T) -> Fact<T> {
    Fact::Known(value)
}

/// What the probe would have found.
pub fn machine(spec: &Spec) -> Machine {
    let virtualised = spec.nodes == 0;
    Machine {
        host: known(spec.host.clone()),
        virtualisation: known(if virtualised { "kvm" } else { "none" }.to_string()),
        cpu: cpu(spec),
        memory: memory(spec),
        pci: pci(spec),
        nics: spec.nics.iter().enumerate().map(|(index, nic)| nic_of(nic, index)).collect(),
        disks: spec.disks.iter().map(disk_of).collect(),
        file_systems: spec.disks.iter().take(4).map(file_system_of).collect(),
        kernel: kernel(virtualised),
        ..Default::default()
    }
}

fn node_of(spec: &Spec, cpu: u32) -> Fact<u32> {
    if spec.nodes == 0 { Fact::unknown("one node only") } else { known(cpu * spec.nodes / spec.cores) }
}

fn cpu(spec: &Spec) -> Cpu {
    let logical = (0..spec.cores)
        .map(|id| LogicalCpu {
            id,
            package: known(id * spec.nodes.clamp(1, 2) / spec.cores),
            core: known(id),
            node: node_of(spec, id),
            siblings: known(vec![id]),
            online: true,
        })
        .collect();
    Cpu {
        model: known(if spec.nodes == 0 { "Virtual CPU" } else { "Example 9004 32-Core Processor" }.into()),
        packages: known(spec.nodes.clamp(1, 2)),
        physical_cores: known(spec.cores),
        smt: known(false),
        logical,
        allowed: known((0..spec.cores).collect()),
        quota_cores: known(0.0),
        governor: if spec.nodes == 0 {
            Fact::unknown("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor: not there")
        } else {
            known("performance".into())
        },
        ..Default::default()
    }
}

fn memory(spec: &Spec) -> Memory {
    let total = if spec.nodes == 0 { 8u64 << 30 } else { 768 << 30 };
    let nodes = spec.nodes.max(1);
    Memory {
        total_bytes: known(total),
        available_bytes: known(total / 10 * 9),
        nodes: (0..nodes)
            .map(|id| NumaNode {
                id,
                cpus: (0..spec.cores).filter(|cpu| cpu * nodes / spec.cores == id).collect(),
                total_bytes: known(total / u64::from(nodes)),
                ..Default::default()
            })
            .collect(),
        rated_bytes_per_second: match spec.memory_bytes_per_second {
            Some(rate) => known(rate),
            None => Fact::unknown("a virtual machine shows no DIMM"),
        },
        ..Default::default()
    }
}

fn pci(spec: &Spec) -> Vec<PciDevice> {
    let one = |address: &Option<String>, class: u32, node: Option<u32>, now: PciLink| {
        address.as_ref().map(|address| PciDevice {
            address: address.clone(),
            parent: None,
            class: known(class),
            vendor: known(0x15b3),
            device: known(0x101d),
            driver: known(if class == 0x01_0802 { "nvme" } else { "mlx5_core" }.into()),
            node: Fact::from_option(node, "unknown"),
            link: known(now),
            link_max: known(PciLink { gt_per_second: 16.0, width: if class == 0x01_0802 { 4 } else { 16 } }),
            ..Default::default()
        })
    };
    let slow = PciLink { gt_per_second: 8.0, width: 2 };
    let disks = spec.disks.iter().filter_map(|disk| {
        let link = if disk.measured < 2e9 { slow } else { PciLink { gt_per_second: 16.0, width: 4 } };
        one(&disk.pci, 0x01_0802, disk.node, link)
    });
    let nics = spec
        .nics
        .iter()
        .filter_map(|nic| one(&nic.pci, 0x02_0000, nic.node, PciLink { gt_per_second: 16.0, width: 16 }));
    disks.chain(nics).collect()
}

fn nic_of(nic: &super::builder::NicSpec, index: usize) -> Nic {
    let loopback = nic.name == "lo";
    let address = if loopback { "127.0.0.1".to_string() } else { format!("10.77.{index}.1") };
    Nic {
        name: nic.name.clone(),
        speed_bits_per_second: Fact::from_option(nic.bits, "loopback has no link"),
        mtu: known(if loopback { 65536 } else { 9000 }),
        state: known(if loopback { "unknown" } else { "up" }.into()),
        driver: known(
            if loopback {
                "loopback"
            } else if nic.pci.is_some() {
                "mlx5_core"
            } else {
                "veth"
            }
            .into(),
        ),
        rx_queues: known(if nic.pci.is_some() { 16 } else { 1 }),
        tx_queues: known(if nic.pci.is_some() { 16 } else { 1 }),
        node: Fact::from_option(nic.node, "no PCI device behind it"),
        pci: nic.pci.clone(),
        addresses: vec![(address.parse().expect("an address"), if loopback { 8 } else { 24 })],
        loopback,
        ..Default::default()
    }
}

fn disk_of(disk: &super::builder::SampleDisk) -> Disk {
    let kind = match disk.name.get(..2) {
        Some("nv") => DiskKind::Nvme,
        Some("vd") => DiskKind::Virtio,
        _ => DiskKind::Loop,
    };
    Disk {
        name: disk.name.clone(),
        kind,
        number: known("7:0".into()),
        size_bytes: known(if kind == DiskKind::Nvme { 7_681_501_126_656 } else { 2 << 30 }),
        model: if kind == DiskKind::Nvme {
            known("EXAMPLE 7.68TB".into())
        } else {
            Fact::unknown("not there")
        },
        rotational: known(false),
        logical_block_bytes: known(512),
        node: Fact::from_option(disk.node, "unknown"),
        pci: disk.pci.clone(),
        members: Vec::new(),
        backing_file: None,
        ..Default::default()
    }
}

fn file_system_of(disk: &super::builder::SampleDisk) -> FileSystem {
    FileSystem {
        mount_point: format!("/data/{}", disk.name).into(),
        kind: "xfs".into(),
        source: format!("/dev/{}", disk.name),
        options: "rw,noatime".into(),
        devices: vec![disk.name.clone()],
        ..Default::default()
    }
}

fn kernel(virtualised: bool) -> Kernel {
    Kernel {
        release: known("6.12.0".into()),
        io_uring_disabled: known(0),
        memlock_bytes: known(if virtualised { 65536 } else { u64::MAX }),
        rmem_max_bytes: known(212_992),
        wmem_max_bytes: known(212_992),
        tcp_rmem_max_bytes: known(6_291_456),
        tcp_wmem_max_bytes: known(4_194_304),
        tcp_congestion_control: known("cubic".into()),
        tcp_available_congestion_control: known(vec!["reno".into(), "cubic".into()]),
        ..Default::default()
    }
}
