//! Thousands of connections a second that say nonsense to an agent while a test runs: the test goes on,
//! memory and threads stay bounded.

use crate::agent::running::{worker_stream, workers};
use crate::support::agent::StartedAgent;
use linerate::agent::{AgentSession, Key};
use linerate::protocol::Protocol;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of a process: threads, and resident memory in kB.
fn size_of(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    };
    (number("Threads:"), number("VmRSS:"))
}

/// Connects, says something, and resets: a closed connection would keep its port for a minute (TIME_WAIT).
fn nonsense(origin: [u8; 4], target: SocketAddr, words: &[u8]) -> std::io::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.bind(&SocketAddr::from((origin, 0)).into())?;
    socket.connect_timeout(&target.into(), Duration::from_secs(1))?;
    (&socket).write_all(words)
}

/// A client that comes in the middle of it gets its measurement: a mebibyte arrives whole.
fn measure_a_worker(session: &AgentSession) {
    let opened = session.open(workers(&[Protocol::Tcp])).expect("opened");
    let mut worker = worker_stream(session, &opened[0]).expect("a worker");
    worker.write_all(&vec![1; 1 << 20]).expect("sent");
    worker.shutdown(std::net::Shutdown::Write).expect("the end");
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let sample = session.sample().expect("a sample");
        if sample.streams[0].ended {
            assert_eq!((sample.streams[0].bytes, &sample.streams[0].error), (1 << 20, &None));
            break;
        }
        assert!(Instant::now() < patience, "{sample:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    session.close().expect("closed");
}

/// `bench/garbage` asks for a longer flood by more senders.
fn asked(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Ends the flood also where something was wrong: the scope waits for its threads.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_nonsense_does_not_stop_a_test() {
    let flooders = asked("LINERATE_FLOOD_SENDERS", 4).clamp(1, 200) as u8;
    let time = Duration::from_secs(asked("LINERATE_FLOOD_SECONDS", 4));
    let agent = StartedAgent::start(&[]);
    let key = Key::read_file(std::path::Path::new(&agent.key())).expect("the key");
    let session = AgentSession::connect(agent.address, &key).expect("a session");
    let opened = session.open(workers(&[Protocol::Tcp])).expect("opened");
    let mut worker = worker_stream(&session, &opened[0]).expect("a worker");
    let (threads_before, memory_before) = size_of(agent.child.id());
    let (flooding, connections) = (AtomicBool::new(true), AtomicU64::new(0));
    let openings: [&[u8]; 6] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"LRc1\x00\x30 is forty-eight bytes that no key made: refused....",
        b"LRd1 is a token of thirty-two bytes",
        b"LRc9",
        &[0xff; 1000],
    ];
    std::thread::scope(|scope| {
        for flooder in 0..flooders {
            let (flooding, connections) = (&flooding, &connections);
            scope.spawn(move || {
                for number in usize::from(flooder).. {
                    if !flooding.load(Ordering::Relaxed) {
                        return;
                    }
                    let origin = [127, 0, 1, flooder];
                    if nonsense(origin, agent.address, openings[number % openings.len()]).is_ok() {
                        connections.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            while flooding.load(Ordering::Relaxed) {
                worker.write_all(&[1; 64 << 10]).expect("the worker goes on");
                std::thread::sleep(Duration::from_millis(1));
            }
            worker.shutdown(std::net::Shutdown::Write).expect("the end");
        });
        let _ends = Ends(&flooding);
        let began = Instant::now();
        let (mut bytes, mut most) = (0, (0, 0));
        while began.elapsed() < time {
            std::thread::sleep(Duration::from_millis(250));
            let sample = session.sample().expect("a sample");
            assert!(sample.streams[0].bytes > bytes, "the test stands still at {bytes} bytes");
            bytes = sample.streams[0].bytes;
            let (threads, memory) = size_of(agent.child.id());
            most = (most.0.max(threads), most.1.max(memory));
            // One for each place of the waiting room, and one that takes the place of another.
            assert!(threads <= threads_before + 70, "{threads} threads");
            assert!(memory <= memory_before + (64 << 10), "{memory} kB");
        }
        let another = AgentSession::connect(agent.address, &key).expect("a session in the middle of it");
        measure_a_worker(&another);
        flooding.store(false, Ordering::Relaxed);
        let rate = connections.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        println!(
            "{rate:.0} connections a second from {flooders} senders; the agent had {threads_before} threads \
             and {memory_before} kB before, at most {} and {} kB meanwhile; the worker took {bytes} bytes",
            most.0, most.1
        );
        assert!(rate > 100.0, "no flood: {rate:.0} connections a second");
    });
    let patience = Instant::now() + Duration::from_secs(10);
    while !session.sample().expect("a sample").streams[0].ended {
        assert!(Instant::now() < patience, "the worker does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let last = session.close().expect("closed");
    assert_eq!(last.streams[0].error, None);
}
