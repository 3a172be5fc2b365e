//! What this test program does inside a namespace: count, send, receive, use a core up.

use linerate::counters::{self, NetworkCounters};
use linerate::sysroot::Sysroot;
use linerate::usage::{CoreUse, CpuTimes};
use linerate_system::Errno;
use linerate_system::trains::TrainReceiver;
use linerate_system::{affinity, counters as cpu, socket};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const RECEIVER: &str = "10.77.0.2:7300";
/// Without a datagram for so long the receiver is done.
const SILENCE: Duration = Duration::from_millis(1500);

/// A role.
#[derive(Debug, Serialize, Deserialize)]
pub enum HostRole {
    Snapshot { interface: String },
    Send { datagram_bytes: u32, datagrams: u64, segmented: bool },
    Receive { buffer_bytes: usize, coalesced: bool, core: Option<u32>, wait_micros: u64, ready: PathBuf },
    Spin { core: u32, beside: PathBuf },
    Trace,
}

/// The counters of the namespace.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub counters: NetworkCounters,
}

/// What one end did.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    pub bytes: u64,
    pub datagrams: u64,
    pub trains: u64,
    pub refused: u64,
    pub too_long: u64,
    pub socket_drops: u64,
    pub buffer_bytes: u64,
    pub cpu_seconds: f64,
    pub seconds: f64,
    pub cores: Vec<CoreUse>,
}

/// No test by itself: what the others start in a namespace, by `ground.rs`, since threads of a test program
/// cannot be in two namespaces.
#[test]
fn in_a_namespace() {
    let Ok(job) = std::env::var("LINERATE_LEDGER_JOB") else { return };
    let place = std::env::var("LINERATE_LEDGER_RESULT").expect("where to write");
    let text = match serde_json::from_str(&job).expect("a job") {
        HostRole::Snapshot { interface } => {
            let counters = counters::read(&Sysroot::live(), &[interface]);
            serde_json::to_string(&Snapshot { counters })
        }
        HostRole::Send { datagram_bytes, datagrams, segmented } => {
            serde_json::to_string(&send(datagram_bytes as usize, datagrams, segmented))
        }
        HostRole::Receive { buffer_bytes, coalesced, core, wait_micros, ready } => {
            if let Some(core) = core {
                affinity::pin_to(core).expect("a core of this machine");
            }
            let counted = receive(buffer_bytes, coalesced, Duration::from_micros(wait_micros), &ready);
            let _ = std::fs::remove_file(ready);
            serde_json::to_string(&counted)
        }
        HostRole::Trace => serde_json::to_string(&super::traced::trace()),
        HostRole::Spin { core, beside } => {
            affinity::pin_to(core).expect("a core of this machine");
            spin(&beside);
            Ok("null".into())
        }
    };
    std::fs::write(place, text.expect("JSON")).expect("the result is written");
}

fn send(datagram_bytes: usize, datagrams: u64, segmented: bool) -> Counted {
    let sender = UdpSocket::bind("10.77.0.1:0").expect("a socket");
    sender.connect(RECEIVER).expect("a peer");
    // Larger than any queue of the tests: a full queue must drop, and not hold the sender back.
    socket::set_send_buffer(&sender, 32 << 20).expect("a send buffer");
    let a_train = if segmented { (65_507 / datagram_bytes).clamp(1, 44) } else { 1 };
    if segmented {
        socket::set_segment_bytes(&sender, datagram_bytes as u16).expect("UDP_SEGMENT");
    }
    let payload = vec![0x5a; a_train * datagram_bytes];
    let began = Instant::now();
    let mut counted = Counted::default();
    while counted.datagrams + counted.too_long < datagrams {
        match sender.send(&payload) {
            Ok(bytes) => {
                counted.bytes += bytes as u64;
                counted.datagrams += a_train as u64;
                counted.trains += u64::from(segmented);
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => counted.too_long += 1,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) => {
                counted.refused += 1;
            }
            // A port that is not open any more tells so; the next send goes out.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => panic!("sending: {error}"),
        }
    }
    counted.seconds = began.elapsed().as_secs_f64();
    counted
}

fn receive(buffer_bytes: usize, coalesced: bool, wait: Duration, ready: &std::path::Path) -> Counted {
    let taker = UdpSocket::bind(RECEIVER).expect("a socket");
    let granted = socket::set_receive_buffer(&taker, buffer_bytes).expect("a receive buffer");
    socket::set_drop_reports(&taker).expect("SO_RXQ_OVFL");
    if coalesced {
        socket::set_receive_trains(&taker).expect("UDP_GRO");
    }
    taker.set_read_timeout(Some(SILENCE)).expect("a timeout");
    let mut trains = TrainReceiver::new(16);
    let mut counted = Counted { buffer_bytes: granted as u64, ..Counted::default() };
    std::fs::write(ready, "").expect("the sign that it is ready");
    // The first datagram may take the time that it takes to start a sender.
    let (mut first, mut last, mut silent) = (None, Instant::now(), 0);
    let mut cores = CpuTimes::default();
    let mut used = Duration::ZERO;
    while silent < 2 {
        match trains.receive(&taker) {
            Ok(_) => silent = 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                silent += if first.is_some() { 2 } else { 0 };
                silent += u32::from(last.elapsed().as_secs() > 5);
                continue;
            }
            Err(error) => panic!("receiving: {error}"),
        }
        if first.is_none() {
            first = Some(Instant::now());
            cores = CpuTimes::read(&Sysroot::live());
            used = cpu::thread_cpu();
        }
        last = Instant::now();
        for train in trains.trains() {
            counted.bytes += train.bytes.len() as u64;
            counted.datagrams += train.datagrams() as u64;
            counted.trains += 1;
        }
        counted.seconds = last.duration_since(first.unwrap_or(last)).as_secs_f64();
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        // Reading it for each batch would be most of the work.
        if counted.trains % 64 < 16 {
            counted.cores = CpuTimes::read(&Sysroot::live()).since(&cores);
            counted.cpu_seconds = (cpu::thread_cpu() - used).as_secs_f64();
        }
    }
    counted.socket_drops = u64::from(trains.drops());
    counted
}

/// Until the receiver has removed its sign, or half a minute.
fn spin(beside: &std::path::Path) {
    let began = Instant::now();
    while !beside.exists() && began.elapsed().as_secs() < 30 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut sum = 0u64;
    while beside.exists() && began.elapsed().as_secs() < 30 {
        for value in 0..1_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(value));
        }
    }
}
