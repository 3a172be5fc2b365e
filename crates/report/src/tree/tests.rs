//! The tree of small machines made by hand, and of one with everything.

use super::*;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{CpuSpeed, Disk, DiskKind, FileSystem, PciDevice, probe};
use linerate_testing::Tree;
use linerate_testing::server::server;

#[test]
fn a_virtual_machine_is_one_clean_screen() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/virtual-machine");
    insta::assert_snapshot!(show_tree(&probe(&Sysroot::recorded(recorded))), @r"
    vm · virtual machine (kvm) · Linux 6.18.44
    ├─ CPU      AMD EPYC · 1 package, 2 cores · SMT off
    ├─ Memory   23.5 GiB · 22.2 GiB available
    ├─ Kernel   io_uring allowed · memlock 8 MiB · TCP bbr (or reno, cubic)
    │           socket buffers up to: receive 4 MiB, send 4 MiB, TCP receive 32 MiB, TCP send 4 MiB
    ├─ Node 0   cpus 0-1 · 23.5 GiB
    ├─ PCI devices on no known node
    │  ├─ 0000:00:02.0 storage 1af4:1042 · virtio-pci
    │  │  ├─ virtio1 · virtio_blk · virtio · 1 queue
    │  │  └─ vda 256 GiB · 512 B blocks · discard · scheduler mq-deadline · ext4 on /
    │  └─ 0000:00:03.0 Ethernet 1af4:1041 · virtio-pci
    │     └─ eth0 · up · virtio_net · MTU 1400 · 192.0.2.2/24 fd00::2/64
    ├─ 4 further PCI functions: bridges and chip set
    ├─ Virtual interfaces
    │  └─ lo · MTU 65536 · 127.0.0.1/8 ::1/128
    └─ Unknown here
       ├─ governor, clock: the kernel shows no clock control, as usual in a virtual machine
       ├─ memory's rated bandwidth, memory channels: no SMBIOS table describes the DIMMs
       ├─ CRC-32C speed: only the machine itself can be timed
       ├─ RAPL: the kernel shows no power counters, as usual in a virtual machine
       ├─ hwmon power: the kernel shows no sensors, as usual in a virtual machine
       ├─ PCIe link of 0000:00:02.0, 0000:00:03.0: a virtual machine shows no link
       ├─ node of 0000:00:02.0, 0000:00:03.0: the firmware does not report (−1)
       ├─ link rate of eth0: the driver reports no link rate
       ├─ channels, rings, offloads, coalescing, FEC, firmware of eth0: a recorded tree does not hold
       │    what the driver reports
       └─ port rate of virtio1: a virtual disk has no link
    ");
}

/// Beside what a server with everything has: CPUs that it may not use, a node without memory, a drive in parts with what is
/// stacked on it, files of another host, nothing known of the kernel.
#[test]
fn a_server_shows_what_hangs_where() {
    let mut machine = server();
    machine.cpu.allowed = Fact::Known(vec![0, 1]);
    machine.memory.nodes[1].total_bytes = Fact::Known(0);
    machine.kernel.release = Fact::unknown("/proc/sys/kernel/osrelease: not there");
    let below = |name: &str, kind, above: &str| Disk {
        name: name.into(),
        kind,
        size_bytes: Fact::Known(512 << 20),
        members: vec![above.into()],
        ..Disk::default()
    };
    machine.disks.push(below("nvme0n1p1", DiskKind::Partition, "nvme0n1"));
    machine.disks.push(below("dm-0", DiskKind::Dm, "nvme0n1p2"));
    let mounted = |kind: &str, source: &str, at: &str, devices: &[&str]| FileSystem {
        kind: kind.into(),
        source: source.into(),
        mount_point: at.into(),
        devices: devices.iter().map(|name| name.to_string()).collect(),
        ..FileSystem::default()
    };
    machine.file_systems.push(mounted("xfs", "/dev/nvme0n1p1", "/", &["nvme0n1p1"]));
    machine.file_systems.push(mounted("nfs4", "filer:/x", "/net", &[]));
    let text = show_tree(&machine);
    let all = "this process may run on 0-1 only|package 1 · no memory|nvme0n1p1 512 MiB · xfs on /|kernel version|\
               dm-0 512 MiB · on nvme0n1p2|nfs4 on /net from filer:/x|not there to be read:";
    for words in all.split('|') {
        assert!(text.contains(words), "“{words}” in:\n{text}");
    }
}

#[test]
fn a_damaged_file_with_bridges_in_a_ring_ends() {
    let mut machine = server();
    let switch = machine.pci.iter().find(|device| device.address == "0000:98:00.0").expect("the switch");
    let twin = PciDevice { parent: Some("0000:9a:00.0".into()), ..switch.clone() };
    machine.pci.extend([twin.clone(), twin]);
    let shown = show_tree(&machine);
    let (tree, _reasons) = shown.split_once("Unknown here").expect("something is unknown");
    assert_eq!(tree.matches("0000:98:00.0").count(), 1, "{shown}");
}

#[test]
fn hundreds_of_interfaces_are_counted() {
    let files: Vec<String> = (0..300).map(|n| format!("sys/class/net/veth{n}/mtu")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "1500")).collect();
    let text = show_tree(&probe(&Tree::new(&files).sysroot()));
    assert!(text.contains("300 × veth0 … veth299 · MTU 1500"), "{text}");
    assert!(text.lines().count() < 40, "{text}");
}

/// ext4's mount options tell the stripe alone.
#[test]
fn a_stripe_without_a_chunk_is_shown() {
    let mut machine = server();
    let made_for = machine.file_systems[0].array.as_mut().expect("what XFS was made for");
    made_for.level = "stripe".into();
    (made_for.chunk_bytes, made_for.data_disks) = (Fact::unknown("x"), Fact::unknown("x"));
    made_for.stripe_bytes = Fact::Known(1 << 20);
    let text = show_tree(&machine);
    assert!(text.contains("(made for stripe, stripe 1 MiB)"), "{text}");
}

#[test]
fn what_the_cores_compute_is_shown_for_one_thread_for_one_each_core_and_for_all() {
    let mut machine = server();
    let speed = |threads: u32, each: f64| CpuSpeed {
        threads,
        integer_per_second: f64::from(threads) * each * 4e9,
        floating_per_second: f64::from(threads) * each * 6e9,
        crc32c_bytes_per_second: f64::from(threads) * each * 26.4e9,
    };
    machine.cpu.baseline = Fact::Known(vec![speed(1, 1.0), speed(32, 0.9), speed(64, 0.5)]);
    let text = show_tree(&machine);
    for line in [
        "computes 4.00 G integer/s, 6.00 G floating point/s, CRC-32C 26.4 GB/s on 1 thread",
        "computes 115 G integer/s, 173 G floating point/s, CRC-32C 760 GB/s on 32 cores",
        "computes 128 G integer/s, 192 G floating point/s, CRC-32C 845 GB/s on all 64 threads",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("a core"), "said once: {text}");
}

#[test]
fn a_server_with_everything() {
    insta::assert_snapshot!(show_tree(&server()), @r"
    dtn1 · bare metal · Linux 6.12.0
    ├─ CPU      ACME Gold 6326 CPU @ 2.90GHz · 2 packages, 32 cores, 64 threads · SMT on
    │           governor performance
    │           0.80 GHz to 3.50 GHz by intel_pstate · CRC-32C 26.4 GB/s a core
    │           caches 32 × L1d 48 KiB, 32 × L1i 32 KiB, 32 × L2 1.2 MiB, 2 × L3 24 MiB
    │           idle states POLL, C1 (1 µs), C1E (4 µs), C6 (170 µs, off)
    ├─ Memory   512 GiB · 500 GiB available · rated 375 GB/s
    │           16 × 32 GiB DDR4 at 2933 of 3200 MT/s · 16 channels, 1 DIMM in each
    │           16 of 32 slots empty
    ├─ Kernel   io_uring allowed · memlock unlimited
    ├─ Power    RAPL package-0, dram, package-1 · IPMI
    ├─ Node 0   cpus 0-15,32-47 · package 0 · 256 GiB · distances 10 21
    │  ├─ 0000:16:02.0 root port 8086:1234 · 16 GT/s x16 (252 Gb/s)
    │  │  ├─ 0000:17:00.0 in slot 1 Ethernet 8086:1234 · 16 GT/s x16 (252 Gb/s)
    │  │  │  32 interrupts on cpus 0-15
    │  │  │  └─ eth0 · up · 100 Gb/s · ice · MTU 9000 · 192.0.2.7/24
    │  │  │       channels 32 of 128 · rings 512 of 4096 · adaptive coalescing · obeys pause frames
    │  │  │       offloads TSO, USO, GRO, receive checksum, send checksum · FEC rs
    │  │  │       firmware 4.40 0x8001c967 1.3534.0
    │  │  └─ 0000:17:00.1 in slot 1 Ethernet 8086:1234 · 16 GT/s x16 (252 Gb/s)
    │  │     └─ eth1 · up · 100 Gb/s · ice · MTU 9000 · 192.0.2.7/24
    │  │          channels 32 of 128 · rings 512 of 4096 · adaptive coalescing · obeys pause frames
    │  │          offloads TSO, USO, GRO, receive checksum, send checksum · FEC rs
    │  │          firmware 4.40 0x8001c967 1.3534.0
    │  └─ 0000:31:00.0 in slot 2 SAS 8086:1234 · 8 GT/s x4 (31.5 Gb/s), below the 8 GT/s x8 of both ends
    │     ├─ host0 · SAS · 96.0 Gb/s · mpt3sas
    │     └─ 8 × sda … sdh 14.6 TiB · ACME ST16000NM · rotating · 4096 B blocks · scheduler mq-deadline
    ├─ Node 1   cpus 16-31,48-63 · package 1 · 256 GiB · distances 21 10
    │  ├─ 0000:98:00.0 in slot 5 switch 8086:1234 · 16 GT/s x8 (126 Gb/s)
    │  │  └─ 4 × 0000:9a:00.0 … 0000:9d:00.0 in slots 20-23 NVMe 8086:1234 · 16 GT/s x4 (63.0 Gb/s)
    │  │     64 interrupts on cpus 16-31
    │  │     └─ 4 × nvme0n1 … nvme3n1 7.0 TiB · ACME PM9A3 7.68TB · 512 B blocks · discard
    │  └─ 0000:b1:00.0 in slot 6 GPU 8086:1234
    │       2.5 GT/s x16 (32.0 Gb/s), idle: both ends can do 16 GT/s x16
    ├─ 9 further PCI functions: bridges and chip set
    ├─ Block devices stacked on others, or virtual
    │  └─ md0 87.3 TiB · raid6 of 8, chunk 512 KiB, stripe 3 MiB · on 8 devices sda … sdh
    │       xfs on /data (made for striped, chunk 64 KiB, stripe 384 KiB)
    ├─ Virtual interfaces
    │  └─ lo · MTU 65536
    └─ Unknown here
       ├─ rmem_max, wmem_max, tcp_rmem, tcp_wmem, TCP congestion control: not recorded
       ├─ hwmon power: no chip has a power sensor
       └─ node of 0000:98:00.0: not recorded
    ");
}
