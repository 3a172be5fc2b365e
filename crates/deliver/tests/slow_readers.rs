//! Clients that take next to nothing cost their descriptors: no thread, no ring, no blocks; and nobody waits for them.

use linerate_deliver::serve::{FileServer, FileServerSettings, ServeSummary, ServedTree};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const READERS: usize = 600;
/// More than the sockets of both ends hold.
const FILE_BYTES: usize = 32 << 20;
/// A segment of loopback is as large as 45 of Ethernet, and the kernel grants buffers by the segment.
const SEGMENT_BYTES: u32 = 1460;
const RECEIVE_BYTES: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

fn content() -> Vec<u8> {
    let words = 0..FILE_BYTES as u64 / 8;
    words.flat_map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect()
}

/// A client that has asked for the file; `small`: its socket holds little.
fn reader(server: SocketAddr, small: bool) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    if small {
        socket.set_tcp_mss(SEGMENT_BYTES).expect("a segment's size");
        socket.set_recv_buffer_size(RECEIVE_BYTES).expect("a buffer's size");
    }
    socket.connect(&server.into()).expect("connected");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"GET /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("asked");
    stream
}

/// All that is left of an answer, without its head.
fn body(mut stream: TcpStream, begun: &[u8]) -> Vec<u8> {
    let mut bytes = begun.to_vec();
    stream.read_to_end(&mut bytes).expect("the rest");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    bytes.split_off(end + 4)
}

/// Of this process, in which the server is.
fn threads() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("readable");
    let value = text.lines().find_map(|line| line.strip_prefix("Threads:")).expect("a number of threads");
    value.trim().parse().expect("a number")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("readable").count()
}

/// From the disk at first: each that is on a thread has a ring.
fn drop_from_cache(path: &std::path::Path) {
    let file = File::open(path).expect("the file");
    file.sync_all().expect("on the disk");
    linerate_system::file::drop_pages(&file).expect("advice");
}

fn with_server(check: impl FnOnce(SocketAddr, &std::path::Path)) -> ServeSummary {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, content()).expect("written");
    let tree = ServedTree::open(&[folder.path().to_path_buf()]).expect("a tree");
    let settings = FileServerSettings {
        // One client gets half of them.
        connections: 2 * READERS + 100,
        bytes_per_second: None,
        token: None,
        names: Vec::new(),
        writable: None,
        tls: None,
        disks: BTreeSet::new(),
    };
    let listen = "127.0.0.1:0".parse().expect("an address");
    let server = FileServer::bind(&[listen], tree, settings).expect("a server");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.local_addresses()[0].port()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop).0);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(address, &file)));
        stop.store(true, Ordering::Relaxed);
        let summary = serving.join().expect("the server");
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        summary
    })
}

#[test]
fn slow_readers_cost_descriptors_and_a_fast_one_is_served_beside_them() {
    let room = linerate_system::storage::raise_open_files();
    if room.is_some_and(|room| room < 3 * READERS as u64) {
        eprintln!("skipped: {READERS} connections need twice as many open files, and {room:?} are allowed");
        return;
    }
    let expected = content();
    let summary = with_server(|address, file| {
        drop_from_cache(file);
        let mut slow: Vec<TcpStream> = (0..READERS).map(|_| reader(address, true)).collect();
        let mut head = [0; 64];
        for stream in &mut slow {
            stream.read_exact(&mut head).expect("it is served");
            assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
        }
        // All that were on a thread find out that their clients take nothing, and its threads end.
        let begun = Instant::now();
        let is_over = || threads() <= 16 && descriptors() <= 2 * READERS + 60;
        while !is_over() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(is_over(), "{} threads, {} descriptors", threads(), descriptors());
        assert!(body(reader(address, false), b"") == expected, "a fast one");
        // Those that were waited for get the rest as it is, also where they take it slowly.
        let last = slow.pop().expect("the last");
        assert!(body(last, &head) == expected, "the last");
        let mut first = slow.swap_remove(0);
        let (mut taken, mut piece) = (head.to_vec(), vec![0; 300_000]);
        for _ in 0..20 {
            first.read_exact(&mut piece).expect("a piece");
            taken.extend(&piece);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(body(first, &taken) == expected, "the first");
    });
    assert_eq!(summary.requests, READERS as u64 + 1);
    assert_eq!(summary.refused_connections, 0);
    assert_eq!(summary.cut_short, READERS as u64 - 2, "those that were left when the server ended");
}
