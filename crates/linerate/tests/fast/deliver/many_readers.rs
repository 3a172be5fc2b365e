//! Thousands of clients that take next to nothing: each costs its descriptor, and nobody else waits for them.

use crate::support::process::PATIENCE;
use crate::support::served::{HttpAnswer, Served, content, place};
use linerate_system::storage::raise_open_files;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A client that takes nothing for 30 s is given up: a busy machine has no time for ten thousand.
fn readers() -> usize {
    if std::env::var_os("LINERATE_LAB_ROUNDS").is_some() { 10_000 } else { 500 }
}

/// More than the sockets of both ends hold.
const FILE_BYTES: usize = 32 << 20;
/// A segment of loopback is as large as 45 of Ethernet, and the kernel grants buffers by the segment.
const SEGMENT_BYTES: u32 = 1460;
const RECEIVE_BYTES: usize = 16 << 10;
/// Of the server, once those that moved bytes have found out that their clients take nothing.
const MOST_THREADS: u64 = 16;
/// Of the server, once its threads have given back their rings and blocks.
const MOST_RESIDENT_KIB: u64 = 256 << 10;

impl Served {
    /// Of /proc/PID/status.
    pub fn status(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.and_then(|value| value.split_whitespace().next()?.parse().ok()).expect("a number")
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs").count()
    }

    /// A client that has asked for the file, of one of eight addresses.
    fn slow_reader(&self, number: usize) -> TcpStream {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_tcp_mss(SEGMENT_BYTES).expect("a segment's size");
        socket.set_recv_buffer_size(RECEIVE_BYTES).expect("a buffer's size");
        let own = Ipv4Addr::new(127, 0, 0, 2 + (number % 8) as u8);
        socket.bind(&SocketAddr::from((own, 0)).into()).expect("an address of its own");
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        socket.connect(&server.into()).expect("connected");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(b"GET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("asked");
        stream
    }
}

/// So that the first bytes come from the disk, with a ring for each.
fn drop_from_cache(path: &std::path::Path) {
    let file = File::open(path).expect("the file");
    file.sync_all().expect("on the disk");
    linerate_system::file::drop_pages(&file).expect("advice");
}

#[test]
fn slow_readers_cost_descriptors_and_a_fast_one_is_served_beside_them() {
    let readers = readers();
    let room = raise_open_files();
    if room.is_some_and(|room| room < readers as u64 + 1000) {
        eprintln!("skipped: {readers} connections need as many open files, and {room:?} are allowed");
        return;
    }
    let bytes = content(11, FILE_BYTES);
    let (_folder, data, _) = place(&bytes);
    drop_from_cache(&data.join("file"));
    let connections = (readers + 1000).to_string();
    let server = Served::start(&[&data], &["--connections", &connections]);
    let mut slow: Vec<TcpStream> = (0..readers).map(|number| server.slow_reader(number)).collect();
    let mut head = [0; 64];
    for stream in &mut slow {
        stream.read_exact(&mut head).expect("it is served");
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    }
    // All that were on a thread have found out that their clients take nothing.
    let begun = Instant::now();
    let is_settled = || {
        server.status("Threads") <= MOST_THREADS
            && server.descriptors() <= readers + 100
            && server.status("VmRSS") < MOST_RESIDENT_KIB
    };
    while !is_settled() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let (threads, descriptors) = (server.status("Threads"), server.descriptors());
    let resident_kib = server.status("VmRSS");
    assert!(threads <= MOST_THREADS, "{threads} threads");
    assert!(descriptors <= readers + 100, "{descriptors} descriptors");
    assert!(resident_kib < MOST_RESIDENT_KIB, "{resident_kib} KiB");
    let fast = server.get("/file", "");
    assert!(fast.status == 200 && fast.body == bytes);
    // One that was waited for gets the rest as it is; of ten thousand the first may have taken nothing for too long.
    for (number, stream) in slow.iter_mut().rev().take(3).enumerate() {
        let mut rest = head.to_vec();
        // The first of them takes a part of it slowly.
        for _ in 0..20 * usize::from(number == 0) {
            let mut piece = vec![0; 300_000];
            stream.read_exact(&mut piece).expect("a piece");
            rest.extend(piece);
            std::thread::sleep(Duration::from_millis(20));
        }
        stream.read_to_end(&mut rest).expect("the rest");
        let answer = HttpAnswer::parse(&rest).expect("an answer");
        assert!(answer.body == bytes, "{} of {} bytes", answer.body.len(), bytes.len());
    }
    let (time, summary) = server.stop();
    assert!(time < Duration::from_secs(10), "{time:?}");
    assert!(summary.contains(&format!("{} requests", readers + 1)), "{summary}");
    assert!(
        summary.contains(&format!("{} requests cut short", readers - 3)),
        "those that were left: {summary}"
    );
    assert!(!summary.contains("turned away"), "{summary}");
}
