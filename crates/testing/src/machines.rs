//! Small machines written down by hand.

// Products grow by fields; these are not to be written again for each.
#![allow(clippy::needless_update)]

use linerate_facts::fact::Fact;
use linerate_machine::probe::{Cpu, Kernel, LogicalCpu, Machine, Memory, Nic, NumaNode};

/// A bare machine with this many single-threaded cores on one node, nothing else.
pub fn machine(cores: u32) -> Machine {
    let logical = |id| LogicalCpu {
        id,
        package: Fact::Known(0),
        core: Fact::Known(id),
        node: Fact::Known(0),
        siblings: Fact::Known(vec![id]),
        online: true,
    };
    Machine {
        host: Fact::Known("server".into()),
        virtualisation: Fact::Known("kvm".into()),
        cpu: Cpu {
            model: Fact::unknown("not in this test"),
            packages: Fact::Known(1),
            physical_cores: Fact::Known(cores),
            smt: Fact::Known(false),
            logical: (0..cores).map(logical).collect(),
            allowed: Fact::Known((0..cores).collect()),
            quota_cores: Fact::Known(0.0),
            governor: Fact::unknown("not in this test"),
            ..Default::default()
        },
        memory: Memory {
            total_bytes: Fact::Known(16 << 30),
            available_bytes: Fact::Known(12 << 30),
            nodes: vec![NumaNode {
                id: 0,
                cpus: (0..cores).collect(),
                total_bytes: Fact::Known(16 << 30),
                ..Default::default()
            }],
            rated_bytes_per_second: Fact::unknown("a virtual machine hides its DIMMs"),
            ..Default::default()
        },
        pci: Vec::new(),
        nics: Vec::new(),
        disks: Vec::new(),
        file_systems: Vec::new(),
        kernel: Kernel {
            release: Fact::Known("6.18.0".into()),
            io_uring_disabled: Fact::Known(0),
            memlock_bytes: Fact::Known(u64::MAX),
            rmem_max_bytes: Fact::Known(4 << 20),
            wmem_max_bytes: Fact::Known(4 << 20),
            tcp_rmem_max_bytes: Fact::Known(6 << 20),
            tcp_wmem_max_bytes: Fact::Known(4 << 20),
            tcp_congestion_control: Fact::Known("cubic".into()),
            tcp_available_congestion_control: Fact::unknown("not in this test"),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// A NIC of this speed behind this PCIe function.
pub fn nic(name: &str, gigabits: Option<u64>, pci: Option<&str>) -> Nic {
    Nic {
        name: name.into(),
        speed_bits_per_second: Fact::from_option(gigabits.map(|rate| rate * 1_000_000_000), "no speed shown"),
        mtu: Fact::Known(9000),
        state: Fact::Known("up".into()),
        driver: Fact::Known("mlx5_core".into()),
        rx_queues: Fact::Known(1),
        tx_queues: Fact::Known(1),
        node: Fact::unknown("not in this test"),
        pci: pci.map(str::to_string),
        addresses: Vec::new(),
        loopback: false,
        ..Default::default()
    }
}
