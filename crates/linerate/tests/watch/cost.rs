//! What a watch costs: a machine of 64 queues and 64 disks, made up in a folder.

use super::running::Running;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const CORES: usize = 64;

/// A tree of `/proc` and `/sys` with a NIC of so many queues and so many disks.
pub fn tree(queues: usize, disks: usize) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
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
            "259 {disk} nvme{disk}n1 47114 4 4643973 21650 1078320 43950 39451633 1011053 2 222766 1032546 1 2 3 4 5 6"
        );
        put(&format!("sys/class/block/nvme{disk}n1/size"), "1000000\n");
    }
    put("proc/diskstats", &table);
    root
}

/// Clock ticks of CPU that a process has used, and the most memory that it had, kB.
fn used(process: u32) -> (u64, u64) {
    let read = |file: &str| {
        std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join(file)).expect("a process")
    };
    let stat = read("stat");
    let words: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |index: usize| words[index].parse::<u64>().expect("ticks");
    let status = read("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    (ticks(11) + ticks(12), peak.split_whitespace().next().expect("kB").parse().expect("a number"))
}

#[test]
fn a_sample_of_64_queues_and_64_disks_costs_less_than_a_hundredth_of_a_core_and_30_mb() {
    // At one a second each source is read for each sample; at shorter intervals dear ones are left out now and then.
    const SAMPLES: u64 = 7;
    let tree = tree(64, 64);
    let root = tree.path().to_str().expect("a path");
    // ./test names the release build, which is what has to be cheap; a debug build is ten times slower, and larger: of it only, that it is
    // not absurd.
    let release = std::env::var("LINERATE").ok();
    let program = release.as_deref().unwrap_or(env!("CARGO_BIN_EXE_linerate"));
    let mut command = Command::new(program);
    command.args(["watch", "--json", "--interval", "1s", "--root", root]).stdin(Stdio::null());
    let mut running = Running::start(command);
    for _ in 0..2 {
        let moment = running.next().expect("a moment");
        assert_eq!((moment.disks.len(), moment.cpus.each.len()), (64, CORES));
        assert_eq!(moment.nics.first().map(|nic| nic.queues.len()), Some(64));
    }
    let (before, _) = used(running.child.id());
    for _ in 0..SAMPLES {
        running.next().expect("a moment");
    }
    let (after, kilobytes) = used(running.child.id());
    let each_ms = (after - before) as f64 * 10.0 / SAMPLES as f64;
    let debug = release.is_none() && cfg!(debug_assertions);
    println!(
        "{program}: {each_ms:.1} ms of CPU for each sample with its line of JSON, {kilobytes} kB at most"
    );
    let (most_ms, most_kilobytes) = if debug { (150.0, 80_000) } else { (10.0, 30_000) };
    assert!(each_ms < most_ms, "{each_ms} ms of CPU for each sample");
    assert!(kilobytes < most_kilobytes, "{kilobytes} kB");
}
