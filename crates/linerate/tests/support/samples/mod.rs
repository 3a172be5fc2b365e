//! Sample runs for the tests of the report: built from the types, so that they follow them, with names of no
//! real machine.

mod builder;
mod machine;
mod measured;

use builder::{NicSpec, SampleDisk, Spec};
use linerate::diagnose::Severity;
use linerate::plan::ResourceKind;
use linerate::run::Run;

/// Every sample run by the name of its fixture (`fixtures/run-NAME.json`).
pub fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("loopback", loopback()),
        ("lab-disks", lab_disks()),
        ("unequal-nics", unequal_nics()),
        ("big-server", big_server()),
        ("partial", partial()),
    ]
}

/// A plain virtual machine: one disk of unknown rating, loopback, no rated ceiling.
pub fn loopback() -> Run {
    let mut spec = Spec::new("vm-1", ResourceKind::Disk, &["disk:vda"]);
    spec.loopback = true;
    spec.cores = 2;
    spec.disks =
        vec![SampleDisk { name: "vda".into(), rated: None, measured: 1.94e9, node: None, pci: None }];
    spec.nics = vec![NicSpec { name: "lo".into(), bits: None, measured: 5.81e9, node: None, pci: None }];
    spec.tcp = (1.90e9, 1.83e9);
    spec.udp = (1.12e9, 1.08e9);
    spec.sentence =
        "The bottleneck is disk vda, which limits the flow to 1.90 GB/s: both cores still have time and \
         loopback could carry three times as much. A second disk would raise it to 2.4 GB/s, where the \
         CPU limits."
            .into();
    spec.gain = 5e8;
    spec.flagged = vec![("vda", "steal"), ("lo", "core-saturated")];
    spec.held_by_cpu = vec!["lo"];
    spec.finding(
        "vm-steal",
        Severity::Slow,
        "The hypervisor took 7.2 % of the CPU time while the path was measured.",
        "Measure again while the host is quiet, or give this machine cores of its own.",
        0.0,
        serde_json::json!({ "steal": 0.072, "limit": 0.05, "core": 1 }),
    );
    spec.finding(
        "memlock-small",
        Severity::Note,
        "Locked memory is limited to 64 KiB; the pool of 16 MiB was not registered.",
        "Raise it: `ulimit -l unlimited`, or `LimitMEMLOCK=infinity` in the unit.",
        0.0,
        serde_json::json!({ "need_bytes": 16 << 20, "have_bytes": 65536 }),
    );
    spec.build()
}

/// The lab: four disks of 50 MB/s, one NIC of 10 Gb/s.
pub fn lab_disks() -> Run {
    let mut spec = Spec::new(
        "lab-server",
        ResourceKind::Disk,
        &["disk:loop0", "disk:loop1", "disk:loop2", "disk:loop3"],
    );
    spec.cores = 2;
    spec.disks = (0..4)
        .map(|n| SampleDisk {
            name: format!("loop{n}"),
            rated: Some(50e6),
            measured: 49.7e6 + f64::from(n) * 1e5,
            node: None,
            pci: None,
        })
        .collect();
    spec.nics = vec![NicSpec {
        name: "lr-v0".into(),
        bits: Some(10_000_000_000),
        measured: 1.214e9,
        node: None,
        pci: None,
    }];
    spec.tcp = (199.4e6, 197.1e6);
    spec.udp = (199.4e6, 196.2e6);
    spec.sentence =
        "The bottleneck is the four disks, which together limit the flow to 199 MB/s; the NIC is used to \
         16 %. Each further disk of this kind adds 50 MB/s."
            .into();
    spec.gain = 1.01e9;
    spec.build()
}

/// Two NICs of unlike speed hold the flow.
pub fn unequal_nics() -> Run {
    let mut spec = Spec::new("lab-server", ResourceKind::Nic, &["nic:lr-v0", "nic:lr-v1"]);
    spec.cores = 2;
    spec.disks = (0..2)
        .map(|n| SampleDisk {
            name: format!("loop{n}"),
            rated: Some(200e6),
            measured: 199.1e6,
            node: None,
            pci: None,
        })
        .collect();
    spec.nics = vec![
        NicSpec { name: "lr-v0".into(), bits: Some(1_000_000_000), measured: 123.6e6, node: None, pci: None },
        NicSpec { name: "lr-v1".into(), bits: Some(500_000_000), measured: 61.8e6, node: None, pci: None },
    ];
    spec.tcp = (185.4e6, 182.9e6);
    spec.udp = (185.4e6, 180.1e6);
    spec.sentence =
        "The bottleneck is the two NICs, which limit the flow to 1.48 Gb/s of payload: that is what their \
         1.5 Gb/s leave at MTU 9000. The disks are used to 46 %."
            .into();
    spec.gain = 212e6;
    spec.finding(
        "mtu-mismatch",
        Severity::Slow,
        "lr-v1 sends with MTU 9000, the peer's interface takes 1500: TCP settled at 1,448 bytes a segment.",
        "Set one MTU along the path: `ip link set lr-v1 mtu 9000` on the peer.",
        3.1e6,
        serde_json::json!({ "path": "lr-v1", "mtu": 9000, "peer_mtu": 1500, "segment_bytes": 1448 }),
    );
    spec.finding(
        "udp-receive-buffer",
        Severity::Loss,
        "The peer's socket buffer dropped 0.8 % of the datagrams: it was granted 208 KiB of 32 MiB.",
        "On the peer: `sysctl -w net.core.rmem_max=33554432`.",
        0.0,
        serde_json::json!({ "drops": 4211, "granted_bytes": 212992, "wished_bytes": 33554432 }),
    );
    spec.udp_loss = 0.008;
    spec.build()
}

/// Two packages, four NUMA nodes, 64 NVMe disks of which one lags, 16 NICs of 100 Gb/s.
pub fn big_server() -> Run {
    let cut: Vec<String> = (0..16).map(|n| format!("nic:ens{n}f0np0")).collect();
    let cut: Vec<&str> = cut.iter().map(String::as_str).collect();
    let mut spec = Spec::new("dtn-07.example.org", ResourceKind::Nic, &cut);
    spec.cores = 64;
    spec.nodes = 4;
    spec.memory_bytes_per_second = Some(614.4e9);
    spec.disks = (0..64)
        .map(|n| SampleDisk {
            name: format!("nvme{n}n1"),
            rated: Some(7.0e9),
            measured: if n == 17 { 1.62e9 } else { 6.61e9 + f64::from(n % 7) * 2.3e7 },
            node: Some(n / 16),
            pci: Some(format!("0000:{:02x}:00.0", 0x10 + n)),
        })
        .collect();
    spec.nics = (0..16)
        .map(|n| NicSpec {
            name: format!("ens{n}f0np0"),
            bits: Some(100_000_000_000),
            measured: 12.31e9 - f64::from(n % 3) * 2e7,
            node: Some(n / 4),
            pci: Some(format!("0000:{:02x}:00.0", 0x80 + n)),
        })
        .collect();
    spec.tcp = (196.6e9, 188.2e9);
    spec.udp = (171.0e9, 165.3e9);
    spec.sentence =
        "The bottleneck is the 16 NICs, which together limit the flow to 1.57 Tb/s; the disks are used to \
         47 %, memory to 64 %. More or faster NICs would raise it to 246 GB/s, where the CPU limits."
            .into();
    spec.gain = 49.4e9;
    spec.finding("straggler", Severity::Slow, "nvme17n1 reads 1.62 GB/s where the other 63 read 6.61 to 6.75 \
                                               GB/s.",
        "Look at its link (`linerate probe`): it runs at 8 GT/s x2 where it can do 16 GT/s x4; seat it \
         again.", 5.1e9,
        serde_json::json!({ "disk": "nvme17n1", "bytes_per_second": 1.62e9, "median_bytes_per_second": 6.68e9, "link": "8 GT/s x2", "link_max": "16 GT/s x4" }));
    spec.finding(
        "core-saturated",
        Severity::Slow,
        "Core 12 was busy 100 % of the time while 21 cores were idle.",
        "Give ens3f0np0 more queues: `ethtool -L ens3f0np0 combined 16`.",
        0.0,
        serde_json::json!({ "core": 12, "busy": 1.0, "idle_cores": 21 }),
    );
    spec.build()
}

/// A run that lost its peer in the middle: some measurements, no diagnosis, errors.
pub fn partial() -> Run {
    let mut run = lab_disks();
    run.host = "lab-server".into();
    run.measurements.retain(|m| m.stage <= linerate::measure::Stage::Network && !m.together && !m.with_file);
    run.diagnosis = None;
    run.errors = vec![
        "The peer 10.77.0.2:7411 closed the control channel while “lr-v0 udp alone” ran: its agent died or \
         the link went down. Start \
         `linerate agent` there again and repeat this run."
            .into(),
        "loop3: read of 1 MiB at offset 268435456 failed: Input/output error (EIO). The device or its file \
         is damaged; see `dmesg`."
            .into(),
    ];
    run
}
