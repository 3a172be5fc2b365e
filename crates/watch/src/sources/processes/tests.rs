//! Processes that come, go, are replaced and hold sockets, in a made tree and on this machine.

use super::connections::Connections;
use super::*;
use linerate_system::tcp_sockets::TcpSocket;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

const UNLIMITED: fn() -> CpuAllowance = CpuAllowance::unlimited;

fn put(root: &Path, pid: u32, name: &str, started: u64, moved: (u64, u64)) {
    let folder = root.join(format!("proc/{pid}"));
    std::fs::create_dir_all(folder.join("fd")).expect("directories");
    let rest = "S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0";
    std::fs::write(folder.join("stat"), format!("{pid} ({name}) {rest} {started} 1 2\n")).expect("a file");
    let io = format!("rchar: 1\nread_bytes: {}\nwrite_bytes: {}\n", moved.0, moved.1);
    std::fs::write(folder.join("io"), io).expect("a file");
}

fn hold(root: &Path, pid: u32, fd: u32, inode: u32) {
    let place = root.join(format!("proc/{pid}/fd/{fd}"));
    symlink(format!("socket:[{inode}]"), place).expect("a link");
}

fn read(table: &mut StorageTable, sysroot: &Sysroot) -> Vec<ProcessRates> {
    std::thread::sleep(Duration::from_millis(5));
    table.read(sysroot, &BTreeSet::new(), UNLIMITED());
    table.active().collect()
}

#[test]
fn rates_begin_with_the_second_reading_and_a_number_used_again_is_another_process() {
    let root = tempfile::tempdir().expect("a folder");
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    let mut table = StorageTable::default();
    put(root, 7, "fio", 100, (1000, 0));
    put(root, 8, "idle", 100, (5, 5));
    assert!(read(&mut table, &sysroot).is_empty());
    put(root, 7, "fio", 100, (501_000, 0));
    let moving = read(&mut table, &sysroot);
    assert_eq!(moving.iter().map(|one| (one.pid, one.name.as_str())).collect::<Vec<_>>(), [(7, "fio")]);
    assert!(moving[0].read_bytes_per_second > Some(0.0) && moving[0].written_bytes_per_second == Some(0.0));
    // The same number, begun later, with more bytes: no rate is made of the two.
    put(root, 7, "tar", 200, (900_000, 0));
    assert!(read(&mut table, &sysroot).is_empty());
    put(root, 7, "tar", 200, (900_001, 0));
    assert_eq!(read(&mut table, &sysroot)[0].name, "tar");
    std::fs::remove_dir_all(root.join("proc/7")).expect("it ends");
    assert!(read(&mut table, &sysroot).is_empty());
    assert_eq!(table.count(), 1);
}

#[test]
fn a_process_that_computes_is_shown_with_its_cpu_time_and_kept_among_many_that_move() {
    let root = tempfile::tempdir().expect("a folder");
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    let stat = |user: u64| {
        let rest = format!("S 1 1 1 0 -1 4194560 1 2 3 4 {user} 6 7 8 20 0 1 0 100 1 2");
        std::fs::write(root.join("proc/7/stat"), format!("7 (rustc) {rest}\n")).expect("a file");
    };
    put(root, 7, "rustc", 100, (0, 0));
    stat(1000);
    let mut table = StorageTable::default();
    assert!(read(&mut table, &sysroot).is_empty());
    stat(1100);
    let active = read(&mut table, &sysroot);
    assert_eq!((active.len(), active[0].name.as_str(), active[0].bytes_per_second()), (1, "rustc", 0.0));
    assert!(active[0].cpus.is_some_and(|cpus| cpus > 1.0), "a second of CPU time within milliseconds");
    let mover = |pid| ProcessRates { pid, read_bytes_per_second: Some(1e6), ..ProcessRates::default() };
    let mut all: Vec<ProcessRates> = (1000..1100).map(mover).chain(active).collect();
    let left_out = leave_out(&mut all);
    assert_eq!((all.len(), left_out), (64, 37), "one of the places is for the one that computes");
    let processes = Processes { busiest: all, left_out, ..Processes::default() };
    assert_eq!((processes.busiest_by_cpu().len(), processes.moving()), (1, 100));
}

#[test]
fn among_thousands_one_that_begins_to_move_is_found_and_then_read_each_time() {
    let root = linerate_testing::folder_in_memory();
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    for pid in 1..=2000 {
        put(root, pid, "sleeper", 1, (0, 0));
    }
    let mut table = StorageTable::default();
    // Each is asked twice, a part of them in a reading.
    let found = |moving: &[ProcessRates]| moving.iter().any(|one| one.pid == 1234);
    for _ in 0..20 {
        assert!(read(&mut table, &sysroot).is_empty());
    }
    let mut readings = 0;
    let mut bytes = 0;
    let mut go_on = |table: &mut StorageTable| {
        bytes += 4096;
        put(root, 1234, "writer", 1, (0, bytes));
        read(table, &sysroot)
    };
    while !found(&go_on(&mut table)) {
        readings += 1;
        assert!(readings < 20, "it is found within a round");
    }
    for _ in 0..5 {
        assert!(found(&go_on(&mut table)), "and is read each time from then on");
    }
    assert_eq!(table.count(), 2000);
}

fn socket(cookie: u64, inode: u32, acknowledged_bytes: u64, received_bytes: u64) -> TcpSocket {
    let info = linerate_system::socket::TcpInfo { acknowledged_bytes, received_bytes, ..Default::default() };
    TcpSocket { cookie, inode, info, ..TcpSocket::default() }
}

#[test]
fn bytes_of_sockets_go_to_the_youngest_that_holds_them_and_the_rest_is_unowned() {
    let root = tempfile::tempdir().expect("a folder");
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    put(root, 7, "parent", 100, (0, 0));
    put(root, 8, "child", 200, (0, 0));
    hold(root, 7, 3, 4711);
    hold(root, 8, 3, 4711);
    hold(root, 7, 4, 4712);
    let mut table = StorageTable::default();
    table.read(&sysroot, &BTreeSet::new(), UNLIMITED());
    assert_eq!(table.youngest_first(), [8, 7]);
    let mut connections = Connections::default();
    let start = Instant::now();
    let mut after = |seconds: u64, sockets: &[TcpSocket]| {
        connections.taken(start + Duration::from_secs(seconds), sockets, &sysroot, &table, UNLIMITED())
    };
    let first = after(0, &[socket(1, 4711, 1_000_000, 0), socket(3, 0, 5, 0)]);
    assert_eq!((first.by_process.len(), first.unowned), (0, None), "no rates yet");
    // A second connection was opened and moved 600 bytes; the last one has no owner any more.
    let sockets = [socket(1, 4711, 1_002_000, 10), socket(2, 4712, 0, 600), socket(3, 0, 105, 0)];
    let second = after(2, &sockets);
    let expected = [(7, [0.0, 300.0]), (8, [1000.0, 5.0])];
    assert_eq!(second.by_process.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(second.unowned, Some([50.0, 0.0]));
    assert_eq!(second.looked_at, Fact::Known(3));
    // Nothing moved.
    let third = after(4, &sockets);
    assert_eq!((third.by_process.len(), third.unowned), (0, Some([0.0, 0.0])));
}

#[test]
fn a_search_goes_on_where_it_stopped_and_reports_nobody_only_at_its_end() {
    let root = linerate_testing::folder_in_memory();
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    for pid in 1..=5000u32 {
        std::fs::create_dir_all(root.join(format!("proc/{pid}/fd"))).expect("directories");
    }
    // Which of them is the youngest is not known yet: the highest number comes first.
    put(root, 1, "sender", 1, (0, 0));
    hold(root, 1, 3, 77);
    let mut table = StorageTable::default();
    table.list(&sysroot);
    let mut connections = Connections::default();
    let start = Instant::now();
    let mut owned_after = Vec::new();
    for second in 0..4 {
        let now = start + Duration::from_secs(second);
        let sockets = [socket(1, 77, 100 * second, 0), socket(2, 78, 100 * second, 0)];
        let traffic = connections.taken(now, &sockets, &sysroot, &table, UNLIMITED());
        owned_after.push(traffic.by_process.contains_key(&1));
    }
    assert_eq!(owned_after, [false, false, true, true], "4096 processes in the first search, the rest next");
}

#[test]
fn with_next_to_no_time_a_reading_asks_a_few_and_all_have_their_turn() {
    let root = linerate_testing::folder_in_memory();
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    for pid in 1..=40 {
        put(root, pid, "process", 1, (0, 0));
    }
    let mut table = StorageTable::default();
    let mut bytes = 0;
    let mut go_on = || {
        // Half of them move bytes, and so are asked first.
        bytes += 4096;
        (1..=20).for_each(|pid| put(root, pid, "writer", 1, (0, bytes)));
        std::thread::sleep(Duration::from_millis(2));
        table.read(&sysroot, &BTreeSet::new(), CpuAllowance::of(Duration::ZERO));
        (
            table.youngest_first().iter().filter(|pid| table.started_ticks(**pid).is_some()).count(),
            table.active().count(),
        )
    };
    let first = go_on();
    assert_eq!(first, (8, 0), "so many are asked in any case");
    // 40 take five readings, and a second one gives the rates.
    let last = (0..40).map(|_| go_on()).last().expect("readings");
    assert_eq!(last, (40, 20));
}

#[test]
fn a_number_that_is_used_again_does_not_take_over_the_sockets_of_the_one_before() {
    let root = tempfile::tempdir().expect("a folder");
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    put(root, 7, "parent", 100, (0, 0));
    hold(root, 7, 3, 4711);
    let (mut table, mut connections) = (StorageTable::default(), Connections::default());
    let start = Instant::now();
    let mut owner_of = |second: u64| {
        table.read(&sysroot, &connections.owners(), UNLIMITED());
        let now = start + Duration::from_secs(second);
        let sockets = [socket(1, 4711, 1000 * second, 0)];
        let traffic = connections.taken(now, &sockets, &sysroot, &table, UNLIMITED());
        traffic.by_process.into_keys().collect::<Vec<_>>()
    };
    assert_eq!((owner_of(0), owner_of(1)), (vec![], vec![7]));
    // Its child goes on with the connection; an editor has its number.
    std::fs::remove_dir_all(root.join("proc/7")).expect("it ends");
    put(root, 7, "editor", 900, (0, 0));
    put(root, 8, "child", 200, (0, 0));
    hold(root, 8, 3, 4711);
    assert_eq!(owner_of(2), [8]);
}

#[test]
fn a_kernel_that_counts_no_storage_of_processes_is_reported() {
    let root = tempfile::tempdir().expect("a folder");
    let (root, sysroot) = (root.path(), Sysroot::recorded(root.path()));
    put(root, 7, "fio", 100, (0, 0));
    let counted = processes(&sysroot)();
    assert!(!counted.uncounted, "{counted:?}");
    std::fs::remove_file(root.join("proc/7/io")).expect("no such file");
    let found = processes(&sysroot)();
    assert!(found.uncounted && found.count == Some(1), "{found:?}");
}

#[test]
fn this_process_is_found_with_what_it_sends_over_loopback() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut near =
        std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (mut far, _) = listener.accept().expect("accepted");
    let mut read = processes(&Sysroot::live());
    let first = read();
    if let Some(why) = first.connections.why() {
        return println!("skipped: {why}");
    }
    assert_eq!(first.unowned_send_bytes_per_second, None);
    let own = std::process::id();
    // A busy machine may have more processes than one search looks through.
    for _ in 0..100 {
        near.write_all(&[1; 30_000]).expect("sent");
        far.read_exact(&mut [0; 30_000]).expect("received");
        std::thread::sleep(Duration::from_millis(20));
        let now = read();
        assert!(now.udp_bytes_per_second.why().is_some());
        let found = now.busiest.iter().find(|one| one.pid == own);
        if found.is_some_and(|one| one.tcp_receive_bytes_per_second > Some(0.0)) {
            return;
        }
    }
    panic!("{own} was not found: {:?}", read());
}
