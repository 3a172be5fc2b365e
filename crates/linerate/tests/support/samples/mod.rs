//! Sample runs for the tests of the report: built from the types, so that they follow them, with names of no
//! real machine.

mod builder;
mod machine;
mod measured;

use builder::{NicSpec, SampleDisk, Spec};
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
    (spec.tcp, spec.udp) = (1.89e9, 1.86e9);
    spec.steal = 0.1;
    spec.flagged = vec![("vda", "steal"), ("lo", "core-saturated")];
    spec.held_by_cpu = vec!["lo"];
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
    (spec.tcp, spec.udp) = (197.1e6, 196.2e6);
    spec.build()
}

/// Two NICs of unlike speed limit the flow.
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
    (spec.tcp, spec.udp) = (182.9e6, 177.1e6);
    spec.peer_mtu = 1500;
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
    spec.memory_bytes_per_second = Some(1228.8e9);
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
    (spec.tcp, spec.udp) = (188.2e9, 182.3e9);
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
