//! Starting a worker: its thread, its core, its buffers, its ring (or threads where io_uring is off), and its
//! end. And of a flow that comes in: a thread of this host takes a TCP stream and throws it away or stores it, as an
//! agent's receivers do; or bytes of another program, which are not a stream of an agent. Without either it stores blocks
//! of its own: the disk alone, written as the flow writes it.

use super::counters::{IncomingCounts, WorkerCounters};
use super::rate_limit::RateLimit;
use super::receive::{SentStream, Terms, take_to_memory};
use super::sink::SinkStore;
use super::source::{self, Source};
use super::store::{BLOCK_BYTES, DEPTH, SinkHangs, store_counted};
use super::udp::UdpSender;
use super::worker::{Sink, Worker, WorkerError};
use linerate_facts::units::show_size;
use linerate_system::affinity;
use linerate_system::buffers::Pool;
use linerate_system::queue::{self, Queue};
use linerate_system::stop::Stop;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Where the bytes go, with what is needed to send there.
#[derive(Debug)]
pub enum Destination {
    /// Nowhere. `reads`: each block is read once by the CPU, as a send would read it.
    Null { reads: bool },
    /// An admitted TCP data connection.
    Tcp(TcpStream),
    /// An admitted UDP data path.
    Udp(Box<UdpSender>),
}

/// Everything a worker needs to start.
#[derive(Debug)]
pub struct WorkerStart {
    /// Processor to pin to; none: the kernel chooses.
    pub core: Option<u32>,
    pub source: Source,
    pub destination: Destination,
    /// Bytes a read.
    pub block_bytes: usize,
    /// Reads in flight.
    pub depth: usize,
    /// Blocks beyond the depth, so that reading goes on while one is sent.
    pub extra_blocks: usize,
    /// Checksum what is sent.
    pub verify: bool,
    /// No progress for this long is a failure.
    pub patience: Duration,
    /// The most that all workers of the flow move together.
    pub rate_limit: Option<Arc<RateLimit>>,
    /// Blocks go out from where they lie, where the kernel can (TCP, io_uring).
    pub zero_copy: bool,
    /// Use io_uring if it is there.
    pub io_uring: bool,
}

/// A running worker.
#[derive(Debug)]
pub struct RunningWorker {
    thread: JoinHandle<()>,
    result: Receiver<Result<(), WorkerError>>,
    method: Receiver<String>,
}

impl RunningWorker {
    /// Starts a thread for the work; it is told where to say what moves the bytes.
    pub(super) fn spawn(
        name: &str,
        work: impl FnOnce(Sender<String>) -> Result<(), WorkerError> + Send + 'static,
    ) -> io::Result<Self> {
        let ((tell, method), (end, result)) = (channel(), channel());
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let worked = work(tell);
            // anyone who started it may not want to know.
            let _ = end.send(worked);
        })?;
        Ok(RunningWorker { thread, result, method })
    }

    /// What moves its bytes, once the worker has set itself up.
    pub fn method(&self) -> Option<String> {
        self.method.recv_timeout(Duration::from_secs(2)).ok()
    }

    /// It has ended, by itself or because it was stopped.
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of its work. The thread itself is not waited for: one that has requests at a disk that hangs
    /// stays in the kernel, on its way out, for as long as the disk does.
    pub fn join(self) -> Result<(), WorkerError> {
        let panicked =
            |_| Err(WorkerError::Io(io::Error::other("the worker's thread panicked: please report this")));
        self.result.recv().unwrap_or_else(panicked)
    }
}

/// Starts a worker's thread.
pub fn start(
    worker: WorkerStart,
    counters: Arc<WorkerCounters>,
    stop: Arc<Stop>,
) -> io::Result<RunningWorker> {
    RunningWorker::spawn("worker", move |tell| {
        if let Some(core) = worker.core {
            // A core that went offline meanwhile: run anywhere rather than not at all.
            let _ = affinity::pin_to(core);
        }
        let blocks = worker.depth + worker.extra_blocks;
        let mut pool = Pool::new(blocks, worker.block_bytes)?;
        fill(&mut pool, &worker.source);
        let files = descriptors(&worker.source, &worker.destination)?;
        let (mut queue, method) = queue::open(worker.io_uring, files, &pool)?;
        tracing::debug!(%method, "a worker reads and sends");
        // anyone who started it may not want to know.
        let _ = tell.send(method);
        run(worker, &counters, &stop, &mut *queue, &mut pool)
    })
}

fn run(
    start: WorkerStart,
    counters: &WorkerCounters,
    stop: &Stop,
    queue: &mut dyn Queue,
    pool: &mut Pool,
) -> Result<(), WorkerError> {
    let WorkerStart {
        source, destination, block_bytes, depth, verify, patience, rate_limit, zero_copy, ..
    } = start;
    let (sink, stream) = match destination {
        Destination::Null { reads } => (Sink::Null { reads }, None),
        Destination::Tcp(stream) => (Sink::Tcp, Some(stream)),
        Destination::Udp(sender) => (Sink::Udp(sender), None),
    };
    let rate_limit = rate_limit.as_deref();
    let source = &source;
    let worker = Worker {
        source,
        sink,
        block_bytes,
        depth,
        verify,
        patience,
        rate_limit,
        zero_copy,
        counters,
        stop: stop.flag(),
    };
    let result = worker.run(queue, pool);
    if let Some(stream) = stream {
        // The queue holds copies of the descriptor: end the stream for the receiver all the same.
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    result
}

/// Memory sources send something that does not compress; also maps the pages before they are
/// measured.
fn fill(pool: &mut Pool, source: &Source) {
    let mut leases = Vec::new();
    while let Some(mut lease) = pool.take() {
        if matches!(source, Source::Memory) {
            source::fill(lease.bytes_mut());
        } else {
            for page in lease.bytes_mut().chunks_mut(4096) {
                page[0] = 0;
            }
        }
        leases.push(lease);
    }
    leases.into_iter().for_each(|lease| pool.give_back(lease));
}

/// Copies of the descriptors, file first, as `worker::FILE` expects.
fn descriptors(source: &Source, destination: &Destination) -> io::Result<Vec<Arc<File>>> {
    let mut files = Vec::with_capacity(2);
    match source {
        Source::File { file, .. } => files.push(Arc::new(file.try_clone()?)),
        Source::Range { file, .. } => files.push(Arc::clone(file)),
        Source::Memory => {}
    }
    let socket: Option<OwnedFd> = match destination {
        Destination::Null { .. } => None,
        Destination::Tcp(stream) => Some(stream.try_clone()?.into()),
        Destination::Udp(sender) => Some(sender.socket().try_clone()?.into()),
    };
    files.extend(socket.map(|socket| Arc::new(File::from(socket))));
    Ok(files)
}

/// What a worker does with the bytes that it is given, until their end.
pub type TakeBytes<'a> = &'a mut dyn FnMut(&mut dyn Read) -> io::Result<()>;

/// What another program sends for one worker.
pub trait ForeignBytes: Debug + Send {
    /// Opens it and has it read, on the worker's thread. Who ends the worker has its reads end as well, as ones that only
    /// wait; any other error of them is a sentence.
    fn read_by(self: Box<Self>, take: TakeBytes<'_>) -> io::Result<()>;
}

/// Where the bytes come from.
#[derive(Debug)]
pub enum IncomingBytes {
    /// Admitted by an agent.
    Tcp(TcpStream),
    Foreign(Box<dyn ForeignBytes>),
}

impl IncomingBytes {
    fn read_by(self, take: TakeBytes<'_>) -> io::Result<()> {
        match self {
            IncomingBytes::Tcp(stream) => take(&mut SentStream::new(stream)?),
            IncomingBytes::Foreign(bytes) => bytes.read_by(take),
        }
    }
}

/// Everything that a worker of such a flow needs to start.
pub struct IncomingStart {
    /// Processor to pin to; none: the kernel chooses.
    pub core: Option<u32>,
    /// None: blocks of its own.
    pub bytes: Option<IncomingBytes>,
    /// Where it stores; none: nowhere.
    pub store: Option<Arc<SinkStore>>,
    /// Checksum and pace.
    pub terms: Terms,
}

impl IncomingStart {
    /// What it does with the bytes.
    fn method(&self) -> String {
        let Some(store) = &self.store else { return "thrown away".into() };
        let how = if store.file().direct { "O_DIRECT" } else { "buffered" };
        format!("stored, {how} {} × {DEPTH}", show_size(BLOCK_BYTES))
    }
}

/// Starts a worker's thread. It ends with its stream, with `stop`, or once its file settles.
pub fn start_incoming(
    incoming: IncomingStart,
    counters: Arc<WorkerCounters>,
    stop: Arc<Stop>,
) -> io::Result<RunningWorker> {
    RunningWorker::spawn("receiver", move |tell| {
        if let Some(core) = incoming.core {
            // A core that went offline meanwhile: run anywhere rather than not at all.
            let _ = affinity::pin_to(core);
        }
        // Anyone who started it may not want to know.
        let _ = tell.send(incoming.method());
        let counts = IncomingCounts::of_worker(&counters);
        let IncomingStart { bytes, store, terms, .. } = incoming;
        let taken = match (store, bytes) {
            (Some(store), None) => store_counted(None, store.file(), &terms, counts, &stop),
            (Some(store), Some(bytes)) => {
                bytes.read_by(&mut |input| store_counted(Some(input), store.file(), &terms, counts, &stop))
            }
            (None, Some(bytes)) => bytes.read_by(&mut |input| take_to_memory(input, &terms, counts, &stop)),
            (None, None) => Ok(()),
        };
        // After `stop` the end of a stream was not waited for.
        counters.whole.store(taken.is_ok() && !stop.is_ended(), Ordering::Release);
        taken.map_err(|error| match (error.to_string(), SinkHangs::is_why(&error)) {
            (why, true) => WorkerError::SinkHangs { why },
            (why, false) => WorkerError::Incoming { why },
        })
    })
}
