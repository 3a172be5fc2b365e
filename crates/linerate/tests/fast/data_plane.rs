//! The data plane from end to end: files through workers to receivers, on io_uring and on threads, and the
//! ways in which it fails.

use linerate::flow::counters::WorkerCounters;
use linerate::flow::receive::{Terms, receive_tcp};
use linerate::flow::source::{Cursor, Source};
use linerate::flow::start::{Destination, RunningWorker, WorkerStart, start};
use linerate::flow::stream::StreamCounters;
use linerate::flow::udp::UdpSender;
use linerate::flow::udp_receive::receive_udp;
use linerate::flow::worker::WorkerError;
use linerate_system::file::open_to_read;
use linerate_system::stop::Stop;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const BLOCK: usize = 64 << 10;
/// Longer than any of this takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file of `blocks` blocks; each begins with its number.
fn numbered_file(blocks: u64) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut block: Vec<u8> = (0..BLOCK).map(|index| (index * 7 + index / 256) as u8).collect();
    for number in 0..blocks {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block).expect("written");
    }
    file
}

fn source(path: &Path, cursor: &Arc<Cursor>) -> Source {
    // Past the page cache where the file system can, as the path stage reads.
    let file = open_to_read(path, true).or_else(|_| open_to_read(path, false)).expect("opened");
    Source::File { file, cursor: Arc::clone(cursor), label: "the file".into() }
}

/// A worker at work, and what it counts.
struct AtWork {
    worker: RunningWorker,
    counters: Arc<WorkerCounters>,
    stop: Arc<Stop>,
}

/// How a worker moves its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ring,
    ZeroCopy,
    Threads,
}

const WAYS: [Way; 3] = [Way::Ring, Way::ZeroCopy, Way::Threads];

impl AtWork {
    fn start(source: Source, destination: Destination, way: Way, patience: Duration) -> Self {
        let counters = Arc::new(WorkerCounters::new(Instant::now()));
        let stop = Arc::new(Stop::new());
        let worker = WorkerStart {
            core: None,
            source,
            destination,
            block_bytes: BLOCK,
            depth: 4,
            extra_blocks: 2,
            verify: true,
            patience,
            rate_limit: None,
            zero_copy: way == Way::ZeroCopy,
            io_uring: way != Way::Threads,
        };
        let worker = start(worker, Arc::clone(&counters), Arc::clone(&stop)).expect("a worker");
        if way == Way::Threads {
            assert!(worker.method().expect("a method").contains("threads"));
        }
        AtWork { worker, counters, stop }
    }

    fn await_bytes(&self, bytes: u64) {
        let patience = Instant::now() + PATIENCE;
        while self.counters.progress.mark().bytes < bytes {
            assert!(Instant::now() < patience && !self.worker.ended(), "{:?}", self.counters);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for an end that nobody asked for.
    fn await_end(self, within: Duration) -> WorkerError {
        let patience = Instant::now() + within;
        while !self.worker.ended() {
            assert!(Instant::now() < patience, "still running: {:?}", self.counters);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.worker.join().expect_err("an error")
    }

    /// Stops it; it ends within a second, and well.
    fn stop(self) -> Arc<WorkerCounters> {
        self.stop.end();
        let asked = Instant::now();
        self.worker.join().expect("a good end");
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        assert!(self.counters.whole.load(Ordering::Relaxed));
        self.counters
    }
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    (near, listener.accept().expect("accepted").0)
}

/// A receiver on its thread.
struct Receiving {
    received: Arc<StreamCounters>,
    stop: Arc<Stop>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Receiving {
    fn start(
        receive: impl FnOnce(&StreamCounters, &Stop) -> std::io::Result<()> + Send + 'static,
    ) -> Receiving {
        let received = Arc::new(StreamCounters::new(Instant::now()));
        let stop = Arc::new(Stop::new());
        let (theirs, end) = (Arc::clone(&received), Arc::clone(&stop));
        let thread = std::thread::spawn(move || receive(&theirs, &end));
        Receiving { received, stop, thread }
    }

    fn end(self) -> Arc<StreamCounters> {
        self.stop.end();
        self.thread.join().expect("the receiver").expect("a good end");
        self.received
    }
}

/// A sender that the receiver on this socket has admitted.
fn udp_pair(socket: UdpSocket) -> (Box<UdpSender>, Receiving) {
    const TOKEN: [u8; 32] = [5; 32];
    let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    near.connect(socket.local_addr().expect("an address")).expect("connected");
    let receiving = Receiving::start(move |received, stop| {
        receive_udp(socket, &TOKEN, &Terms::default(), received, stop)
    });
    (Box::new(UdpSender::admit(near, TOKEN, 1472, &Stop::new()).expect("admitted")), receiving)
}

#[test]
fn a_file_over_tcp_arrives_as_it_was_sent() {
    for way in WAYS {
        let file = numbered_file(16);
        let cursor = Arc::new(Cursor::new(16 * BLOCK as u64, BLOCK as u64));
        let (near, far) = tcp_pair();
        let receiving = Receiving::start(move |received, stop| {
            receive_tcp(far, &Terms { verify: true, ..Terms::default() }, received, stop)
        });
        let worker = AtWork::start(source(file.path(), &cursor), Destination::Tcp(near), way, PATIENCE);
        worker.await_bytes(40 * BLOCK as u64);
        let counters = worker.stop();
        // The worker has ended the stream, so the receiver ends by itself.
        let received = Arc::clone(&receiving.received);
        receiving.thread.join().expect("the receiver").expect("the whole stream");
        assert_eq!(received.progress.mark().bytes, counters.progress.mark().bytes, "{way:?}");
        let (sent, arrived) =
            (counters.checksum.load(Ordering::Relaxed), received.checksum.load(Ordering::Relaxed));
        assert!(sent == arrived && sent != 0, "{sent:x} and {arrived:x}, {way:?}");
        assert!(counters.cpu_nanos.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_file_over_udp_arrives_whole() {
    for way in WAYS {
        let file = numbered_file(16);
        let cursor = Arc::new(Cursor::new(16 * BLOCK as u64, BLOCK as u64));
        let (sender, receiving) = udp_pair(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let worker = AtWork::start(source(file.path(), &cursor), Destination::Udp(sender), way, PATIENCE);
        worker.await_bytes(40 * BLOCK as u64);
        let counters = worker.stop();
        let received = receiving.end();
        let (sent, arrived) = (counters.progress.mark().bytes, received.progress.mark().bytes);
        let drops = received.socket_drops.load(Ordering::Relaxed);
        assert_eq!((arrived, counters.lost_bytes.load(Ordering::Relaxed), drops), (sent, 0, 0));
        // Blocks are cut into datagrams where they lie: 44 whole ones and the rest, wherever a send ended.
        assert!(received.datagrams.load(Ordering::Relaxed) >= sent.div_ceil(1472));
    }
}

#[test]
fn workers_that_share_a_cursor_send_each_block_once_a_round() {
    const BLOCKS: u64 = 64;
    for way in WAYS {
        let file = numbered_file(BLOCKS);
        let cursor = Arc::new(Cursor::new(BLOCKS * BLOCK as u64, BLOCK as u64));
        let mut workers = Vec::new();
        let mut readers = Vec::new();
        for _ in 0..2 {
            let (near, mut far) = tcp_pair();
            let source = source(file.path(), &cursor);
            workers.push(AtWork::start(source, Destination::Tcp(near), way, PATIENCE));
            readers.push(std::thread::spawn(move || {
                let mut stream = Vec::new();
                far.read_to_end(&mut stream).map(|_| stream)
            }));
        }
        workers.iter().for_each(|worker| worker.await_bytes(40 * BLOCK as u64));
        workers.into_iter().for_each(|worker| drop(worker.stop()));
        let mut sent = vec![0u32; BLOCKS as usize];
        for reader in readers {
            let stream = reader.join().expect("the reader").expect("received");
            for block in stream.chunks_exact(BLOCK) {
                let number = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
                sent[number as usize] += 1;
            }
        }
        // What was read when the stop came is not sent: six blocks a worker, and those that a send had begun.
        let rounds = cursor.rounds().floor() as u32;
        assert!(sent.iter().all(|times| *times <= rounds + 1), "{sent:?} in {rounds} rounds");
        let dealt = (cursor.rounds() * BLOCKS as f64).round() as u32;
        let all: u32 = sent.iter().sum();
        assert!(all <= dealt && all + 2 * 7 >= dealt, "{all} of {dealt} blocks dealt were sent");
    }
}

#[test]
fn a_receiver_that_takes_nothing_is_a_stall_in_time() {
    for way in WAYS {
        let file = numbered_file(16);
        let cursor = Arc::new(Cursor::new(16 * BLOCK as u64, BLOCK as u64));
        let (near, _far) = tcp_pair();
        let patience = Duration::from_millis(500);
        let worker = AtWork::start(source(file.path(), &cursor), Destination::Tcp(near), way, patience);
        let error = worker.await_end(Duration::from_secs(5));
        assert!(
            matches!(&error, WorkerError::Stalled { what, .. } if what.starts_with("the peer: ")),
            "{error}, {way:?}"
        );
    }
}

#[test]
fn a_udp_receiver_that_says_nothing_any_more_is_a_stall_in_time() {
    for way in WAYS {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // Stays open: nobody tells the sender that its receiver has ended.
        let _open = socket.try_clone().expect("another handle");
        let (sender, receiving) = udp_pair(socket);
        receiving.end();
        let worker = AtWork::start(Source::Memory, Destination::Udp(sender), way, Duration::from_millis(500));
        let error = worker.await_end(Duration::from_secs(5));
        assert!(
            matches!(&error, WorkerError::Stalled { what, .. } if what.starts_with("the peer's feedback")),
            "{error}, {way:?}"
        );
    }
}

#[test]
fn a_receiver_that_is_gone_is_named() {
    for way in WAYS {
        let (near, far) = tcp_pair();
        let worker = AtWork::start(Source::Memory, Destination::Tcp(near), way, PATIENCE);
        worker.await_bytes(1);
        // With bytes that nobody read, the close is a reset.
        far.shutdown(Shutdown::Both).expect("shut");
        drop(far);
        let error = worker.await_end(Duration::from_secs(5)).to_string();
        assert!(error.contains("did its agent end?"), "{error}, {way:?}");

        let (sender, receiving) = udp_pair(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        receiving.end();
        let worker = AtWork::start(Source::Memory, Destination::Udp(sender), way, PATIENCE);
        let error = worker.await_end(Duration::from_secs(5)).to_string();
        assert!(error.contains("receiver is gone"), "{error}, {way:?}");
    }
}

#[test]
fn a_file_that_is_cut_short_is_named() {
    for way in WAYS {
        let file = numbered_file(16);
        let cursor = Arc::new(Cursor::new(16 * BLOCK as u64, BLOCK as u64));
        let worker =
            AtWork::start(source(file.path(), &cursor), Destination::Null { reads: false }, way, PATIENCE);
        worker.await_bytes(BLOCK as u64);
        // In the middle of a block and of a sector: its head is a short read, all after it is nothing.
        file.as_file().set_len(BLOCK as u64 / 2 + 100).expect("cut");
        let error = worker.await_end(Duration::from_secs(5));
        assert!(
            matches!(&error, WorkerError::Source { what, why } if what == "the file" && why.contains("cut \
                short")),
            "{error}, {way:?}"
        );
    }
}

#[test]
fn a_worker_that_sends_into_a_full_connection_stops_within_a_second() {
    for way in WAYS {
        let (near, _far) = tcp_pair();
        let worker = AtWork::start(Source::Memory, Destination::Tcp(near), way, PATIENCE);
        std::thread::sleep(Duration::from_millis(200));
        worker.stop.end();
        let asked = Instant::now();
        let _ = worker.worker.join();
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}, {way:?}", asked.elapsed());
        // What the connection took of the last block is not known: nothing to verify by.
        // Without a copy the pool may be away before the connection is full, and what is away is counted.
        assert!(way == Way::ZeroCopy || !worker.counters.whole.load(Ordering::Relaxed));
    }
}
