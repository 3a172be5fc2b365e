//! A machine of 64 queues and 64 disks, made up in a folder.

use std::fmt::Write;

pub const CORES: usize = 64;

/// A tree of `/proc` and `/sys` with a NIC of so many queues and so many disks.
pub fn tree(queues: usize, disks: usize) -> tempfile::TempDir {
    let root = linerate_testing::folder_in_memory();
    let put = |path: &str, text: &str| {
        let place = root.path().join(path);
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
        std::fs::write(place, text).expect("a file");
    };
    let mut stat = "cpu  1 2 3 4 5 6 7 8 0 0\n".to_string();
    let (mut softnet, mut head) = (String::new(), String::new());
    for core in 0..CORES {
        let _ = writeln!(stat, "cpu{core} 1000 20 3000 400000 50 60 700 8 0 0");
        let _ = writeln!(softnet, "02de5b99 00000000 00000002 0 0 0 0 0 0 0 0 0 {core:08x} 0 0");
        let _ = write!(head, " CPU{core}");
    }
    put("proc/stat", &format!("{stat}intr 12345\nctxt 6789\nprocs_running 3\nprocs_blocked 0\n"));
    put("proc/net/softnet_stat", &softnet);
    let mut interrupts = format!("{head}\n");
    for queue in 0..queues + disks {
        let name =
            if queue < queues { format!("eth0-TxRx-{queue}") } else { format!("nvme{}q1", queue - queues) };
        let _ =
            writeln!(interrupts, " {queue}: {} PCI-MSI {queue}-edge      {name}", "1234567 ".repeat(CORES));
    }
    put("proc/interrupts", &interrupts);
    let kinds =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let lines: String = kinds.iter().map(|kind| format!(" {kind}: {}\n", "123456 ".repeat(CORES))).collect();
    put("proc/softirqs", &format!("{head}\n{lines}"));
    put("proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 1000 kB\nMemAvailable: 9000000 kB\n");
    put(
        "proc/net/dev",
        "Inter-| Receive | Transmit\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
    );
    put(
        "proc/net/snmp",
        "Tcp: InSegs OutSegs RetransSegs\nTcp: 10 20 3\nUdp: InDatagrams NoPorts InErrors\nUdp: 1 2 3\n",
    );
    put("proc/net/netstat", "TcpExt: TCPTimeouts\nTcpExt: 5\n");
    put("proc/sys/kernel/hostname", "made-up\n");
    for resource in ["cpu", "io", "memory"] {
        let line = "avg10=0.00 avg60=0.00 avg300=0.00 total=123";
        put(&format!("proc/pressure/{resource}"), &format!("some {line}\nfull {line}\n"));
    }
    put("sys/class/net/eth0/speed", "100000\n");
    put("sys/class/net/eth0/operstate", "up\n");
    put("sys/class/net/eth0/ifindex", "2\n");
    for file in
        ["rx_bytes", "rx_packets", "rx_dropped", "rx_missed_errors", "tx_bytes", "tx_packets", "tx_dropped"]
    {
        put(&format!("sys/class/net/eth0/statistics/{file}"), "7\n");
    }
    let mut table = String::new();
    for disk in 0..disks {
        let _ = writeln!(
            table,
            "259 {disk} nvme{disk}n1 47114 4 4643973 21650 1078320 43950 39451633 1011053 2 222766 1032546 1 \
             2 3 4 5 6"
        );
        put(&format!("sys/class/block/nvme{disk}n1/size"), "1000000\n");
    }
    put("proc/diskstats", &table);
    root
}
