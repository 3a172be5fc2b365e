//! A storage-to-network server written down by hand, with every kind of fact that a probe can fill: for the
//! tests of what shows it.

// Products grow by fields; this machine is not to be written again for each.
#![allow(clippy::needless_update)]

use linerate_facts::fact::Fact;
use linerate_machine::probe::*;
use std::net::{IpAddr, Ipv4Addr};

fn known<T>(value: T) -> Fact<T> {
    Fact::Known(value)
}

fn text(value: &str) -> Fact<String> {
    known(value.to_string())
}

/// A link.
pub fn link(gt_per_second: f64, width: u32) -> PciLink {
    PciLink { gt_per_second, width }
}

/// A function whose link runs at `now` and which can do `most`.
pub fn function(
    address: &str,
    parent: Option<&str>,
    class: u32,
    now: Option<PciLink>,
    most: PciLink,
) -> PciDevice {
    PciDevice {
        address: address.into(),
        parent: parent.map(str::to_string),
        class: known(class),
        vendor: known(0x8086),
        device: known(0x1234),
        link: Fact::from_option(now, "nothing is plugged in"),
        link_max: known(most),
        ..Default::default()
    }
}

/// A port with a slot.
pub fn port(
    address: &str,
    parent: Option<&str>,
    kind: PortKind,
    slot: Option<u32>,
    now: Option<PciLink>,
    most: PciLink,
) -> PciDevice {
    let mut port = function(address, parent, 0x06_0400, now, most);
    port.express = Express {
        port: known(kind),
        slot: Fact::from_option(slot, "no slot"),
        max_payload_bytes: known(256),
        max_payload_supported_bytes: known(512),
        ..Default::default()
    };
    port.driver = text("pcieport");
    port
}

/// A card on a node below a port.
pub fn card(address: &str, parent: &str, class: u32, now: PciLink, most: PciLink, node: u32) -> PciDevice {
    let mut card = function(address, Some(parent), class, Some(now), most);
    card.node = known(node);
    card.express = Express {
        port: known(PortKind::Endpoint),
        max_payload_bytes: known(256),
        max_payload_supported_bytes: known(512),
        max_read_request_bytes: known(512),
        ..Default::default()
    };
    card
}

const OFFLOADS: &str = "rx-gro tx-tcp-segmentation tx-udp-segmentation rx-checksum tx-checksum-ip-generic";

/// An interface of a card that is up.
pub fn nic(name: &str, gigabits: u64, pci: &str, node: u32) -> Nic {
    Nic {
        name: name.into(),
        speed_bits_per_second: known(gigabits * 1_000_000_000),
        mtu: known(9000),
        state: text("up"),
        driver: text("ice"),
        rx_queues: known(32),
        tx_queues: known(32),
        node: known(node),
        pci: Some(pci.into()),
        addresses: vec![(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 24)],
        details: NicDetails {
            rx_ring: known((512, 4096)),
            tx_ring: known((512, 4096)),
            channels: known((32, 128)),
            offloads: known(OFFLOADS.split(' ').map(String::from).collect()),
            rx_coalesce_us: known(50),
            adaptive_rx: known(true),
            firmware: text("4.40 0x8001c967 1.3534.0"),
            fec: text("rs"),
            pause: known((true, false)),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// An NVMe drive.
pub fn drive(name: &str, pci: &str, node: u32) -> Disk {
    Disk {
        name: name.into(),
        kind: DiskKind::Nvme,
        size_bytes: known(7_681_501_126_656),
        model: text("ACME PM9A3 7.68TB"),
        rotational: known(false),
        logical_block_bytes: known(512),
        node: known(node),
        pci: Some(pci.into()),
        discard: known(true),
        scheduler: text("none"),
        misaligned_bytes: known(0),
        ..Default::default()
    }
}

fn cpus() -> Vec<LogicalCpu> {
    (0..64)
        .map(|id| LogicalCpu {
            id,
            package: known(id % 32 / 16),
            core: known(id % 16),
            node: known(id % 32 / 16),
            siblings: known(vec![id % 32, id % 32 + 32]),
            online: true,
            ..Default::default()
        })
        .collect()
}

fn caches() -> Vec<Cache> {
    let cache = |level, kind: &str, kibibytes: u64, cpus: Vec<u32>| Cache {
        level,
        kind: kind.into(),
        size_bytes: known(kibibytes << 10),
        line_bytes: known(64),
        cpus,
        ..Default::default()
    };
    let mut caches = Vec::new();
    for core in 0..32 {
        caches.push(cache(1, "Data", 48, vec![core, core + 32]));
        caches.push(cache(1, "Instruction", 32, vec![core, core + 32]));
        caches.push(cache(2, "Unified", 1280, vec![core, core + 32]));
    }
    for package in 0..2 {
        caches.push(cache(3, "Unified", 24 << 10, (0..64).filter(|id| id % 32 / 16 == package).collect()));
    }
    caches
}

fn memory() -> Memory {
    let module = |socket: u32, channel: u32, slot: u32| MemoryModule {
        locator: format!("P{}_DIMM{}{}", socket + 1, char::from(b'A' + channel as u8), slot + 1),
        bank: format!("NODE {socket}"),
        size_bytes: known(if slot == 0 { 32 << 30 } else { 0 }),
        kind: "DDR4".into(),
        rated_mt_per_second: known(3200),
        configured_mt_per_second: known(2933),
        data_width_bits: known(64),
        rank: known(2),
        channel: known(MemoryChannel { socket, channel }),
        part: text("ACME M393A4K40DB3"),
        ..Default::default()
    };
    let modules = (0..2).flat_map(|socket| {
        (0..8).flat_map(move |channel| (0..2).map(move |slot| module(socket, channel, slot)))
    });
    Memory {
        total_bytes: known(512 << 30),
        available_bytes: known(500 << 30),
        nodes: (0..2)
            .map(|id| NumaNode {
                id,
                cpus: (0..64).filter(|cpu| cpu % 32 / 16 == id).collect(),
                total_bytes: known(256 << 30),
                distances: known(if id == 0 { vec![10, 21] } else { vec![21, 10] }),
                ..Default::default()
            })
            .collect(),
        rated_bytes_per_second: known(2933e6 * 8.0 * 16.0),
        channels: known(16),
        channels_confidence: Confidence::High,
        modules: modules.collect(),
        ..Default::default()
    }
}

fn pci() -> Vec<PciDevice> {
    let (gen4, gen3) = (16.0, 8.0);
    let root = |address: &str, slot, now: Option<PciLink>, most| {
        port(address, None, PortKind::RootPort, slot, now, most)
    };
    let mut all = vec![
        root("0000:16:02.0", Some(1), Some(link(gen4, 16)), link(gen4, 16)),
        card("0000:17:00.0", "0000:16:02.0", 0x02_0000, link(gen4, 16), link(gen4, 16), 0),
        card("0000:17:00.1", "0000:16:02.0", 0x02_0000, link(gen4, 16), link(gen4, 16), 0),
        // An HBA that negotiated half of its lanes.
        root("0000:30:02.0", Some(2), Some(link(gen3, 4)), link(gen4, 8)),
        card("0000:31:00.0", "0000:30:02.0", 0x01_0700, link(gen3, 4), link(gen3, 8), 0),
        root("0000:30:04.0", Some(3), None, link(gen4, 16)),
        // A switch with four drives on the second socket.
        root("0000:97:02.0", Some(5), Some(link(gen4, 8)), link(gen4, 16)),
        port(
            "0000:98:00.0",
            Some("0000:97:02.0"),
            PortKind::SwitchUpstream,
            None,
            Some(link(gen4, 8)),
            link(gen4, 8),
        ),
    ];
    for n in 0..4 {
        let down = format!("0000:99:0{n}.0");
        all.push(port(
            &down,
            Some("0000:98:00.0"),
            PortKind::SwitchDownstream,
            Some(20 + n),
            Some(link(gen4, 4)),
            link(gen4, 4),
        ));
        all.push(card(
            &format!("0000:9{}:00.0", ['a', 'b', 'c', 'd'][n as usize]),
            &down,
            0x01_0802,
            link(gen4, 4),
            link(gen4, 4),
            1,
        ));
    }
    // An idle GPU.
    all.push(root("0000:b0:02.0", Some(6), Some(link(2.5, 16)), link(gen4, 16)));
    all.push(card("0000:b1:00.0", "0000:b0:02.0", 0x03_0200, link(2.5, 16), link(gen4, 16), 1));
    all.push(function("0000:00:1f.0", None, 0x06_0100, None, link(2.5, 1)));
    for device in &mut all {
        if device.express.port.known() == Some(&PortKind::RootPort) {
            device.node = known(u32::from(device.address.as_str() > "0000:80"));
        }
    }
    all.sort_by(|a, b| a.address.cmp(&b.address));
    all
}

/// The server: two sockets, a dual 100G card, an HBA with eight turning disks in an array, four NVMe drives
/// behind a switch, a GPU.
pub fn server() -> Machine {
    let mut disks: Vec<Disk> = ["a", "b", "c", "d"]
        .iter()
        .enumerate()
        .map(|(n, bus)| Disk {
            controller: Some(format!("nvme{n}")),
            ..drive(&format!("nvme{n}n1"), &format!("0000:9{bus}:00.0"), 1)
        })
        .collect();
    let letters = || ('a'..='h').map(|letter| format!("sd{letter}"));
    disks.push(Disk {
        name: "md0".into(),
        kind: DiskKind::Md,
        size_bytes: known(6 * 16_000_900_661_248),
        members: letters().collect(),
        array: Some(Array {
            level: "raid6".into(),
            chunk_bytes: known(512 << 10),
            disks: known(8),
            data_disks: known(6),
            stripe_bytes: known(3 << 20),
            degraded: known(0),
            ..Default::default()
        }),
        optimal_io_bytes: known(3 << 20),
        misaligned_bytes: known(0),
        scheduler: text("none"),
        ..Default::default()
    });
    disks.extend(letters().map(|name| Disk {
        name,
        kind: DiskKind::Scsi,
        size_bytes: known(16_000_900_661_248),
        model: text("ACME ST16000NM"),
        rotational: known(true),
        logical_block_bytes: known(4096),
        node: known(0),
        pci: Some("0000:31:00.0".into()),
        controller: Some("host0".into()),
        discard: known(false),
        scheduler: text("mq-deadline"),
        misaligned_bytes: known(0),
        ..Default::default()
    }));
    let irq = |number: u32, name: String, pci: &str, cpu: u32| Interrupt {
        number,
        name,
        pci: Some(pci.into()),
        allowed: known(vec![cpu]),
        effective: known(vec![cpu]),
        ..Default::default()
    };
    let of_nic = (0..32).map(|n| irq(100 + n, format!("ice-eth0-TxRx-{n}"), "0000:17:00.0", n % 16));
    let of_drives = (0..4).flat_map(|drive| {
        (0..16).map(move |n| {
            irq(
                300 + 16 * drive + n,
                format!("nvme{drive}q{}", n + 1),
                &format!("0000:9{}:00.0", ['a', 'b', 'c', 'd'][drive as usize]),
                16 + n,
            )
        })
    });
    Machine {
        host: text("dtn1"),
        virtualisation: text("none"),
        cpu: Cpu {
            model: text("ACME Gold 6326 CPU @ 2.90GHz"),
            packages: known(2),
            physical_cores: known(32),
            smt: known(true),
            logical: cpus(),
            allowed: known((0..64).collect()),
            quota_cores: known(0.0),
            governor: text("performance"),
            caches: caches(),
            frequency_driver: text("intel_pstate"),
            frequency_hertz: known((800_000_000, 3_500_000_000)),
            idle_states: [("POLL", 0), ("C1", 1), ("C1E", 4), ("C6", 170)]
                .map(|(name, us)| IdleState {
                    name: name.into(),
                    exit_latency_us: known(us),
                    disabled: known(name == "C6"),
                    ..Default::default()
                })
                .to_vec(),
            crc32c_bytes_per_second: known(26.4e9),
            sockets: Vec::new(),
            ..Default::default()
        },
        memory: memory(),
        pci: pci(),
        nics: vec![
            nic("eth0", 100, "0000:17:00.0", 0),
            nic("eth1", 100, "0000:17:00.1", 0),
            Nic { name: "lo".into(), mtu: known(65536), loopback: true, ..Default::default() },
        ],
        disks,
        file_systems: vec![FileSystem {
            mount_point: "/data".into(),
            kind: "xfs".into(),
            source: "/dev/md0".into(),
            options: "rw,noatime".into(),
            devices: vec!["md0".into()],
            array: Some(Array {
                level: "striped".into(),
                chunk_bytes: known(64 << 10),
                data_disks: known(6),
                stripe_bytes: known(6 * (64 << 10)),
                ..Default::default()
            }),
            ..Default::default()
        }],
        kernel: Kernel {
            release: text("6.12.0"),
            io_uring_disabled: known(0),
            memlock_bytes: known(u64::MAX),
            ..Default::default()
        },
        controllers: (0..4)
            .map(|n| Controller {
                name: format!("nvme{n}"),
                kind: ControllerKind::Nvme,
                pci: Some(format!("0000:9{}:00.0", ['a', 'b', 'c', 'd'][n])),
                model: text("ACME PM9A3 7.68TB"),
                transport: text("pcie"),
                queues: known(64),
                disks: vec![format!("nvme{n}n1")],
                ..Default::default()
            })
            .chain([Controller {
                name: "host0".into(),
                kind: ControllerKind::Sas,
                pci: Some("0000:31:00.0".into()),
                model: text("mpt3sas"),
                link_bits_per_second: known(96_000_000_000),
                link_max_bits_per_second: known(96_000_000_000),
                disks: letters().collect(),
                ..Default::default()
            }])
            .collect(),
        interrupts: of_nic.chain(of_drives).collect(),
        power: Power {
            rapl: known(vec!["package-0".into(), "dram".into(), "package-1".into()]),
            hwmon: Fact::unknown("no chip has a power sensor"),
            ipmi: known(true),
            ..Default::default()
        },
        ..Default::default()
    }
}
