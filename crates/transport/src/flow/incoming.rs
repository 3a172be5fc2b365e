//! A flow that comes in: a thread of this host takes a TCP stream and throws it away or stores it, as an agent's
//! receivers do; or bytes of another program, which are no stream of an agent. Without either it stores blocks of its
//! own: the disk alone, written as the flow writes it.

use super::counters::WorkerCounters;
use super::progress::Progress;
use super::receive::{Received, SentStream, Terms, take};
use super::sink::SinkStore;
use super::start::RunningWorker;
use super::store::{BLOCK_BYTES, DEPTH, SinkHangs, StoreCounters, store_counted};
use super::worker::WorkerError;
use linerate_facts::units::show_size;
use linerate_system::affinity;
use std::fmt::Debug;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where a thread that takes a stream counts: in an agent's worker, or in one of a run on this host.
#[derive(Clone, Copy)]
pub(super) struct IncomingCounts<'a> {
    pub progress: &'a Progress,
    pub cpu_nanos: &'a AtomicU64,
    pub checksum: &'a AtomicU64,
    /// Nanoseconds; none: nobody asks for them.
    pub waiting_network: Option<&'a AtomicU64>,
    pub waiting_disk: Option<&'a AtomicU64>,
    /// The fsync at the end, nanoseconds.
    pub sync: Option<&'a AtomicU64>,
}

impl<'a> IncomingCounts<'a> {
    /// An agent's; `times` where it stores.
    pub(super) fn of_agent(received: &'a Received, times: Option<&'a StoreCounters>) -> Self {
        IncomingCounts {
            progress: &received.progress,
            cpu_nanos: &received.cpu_nanos,
            checksum: &received.checksum,
            waiting_network: times.map(|times| &times.waiting_network),
            waiting_disk: times.map(|times| &times.waiting_disk),
            sync: times.map(|times| &times.sync),
        }
    }

    fn of_worker(counters: &'a WorkerCounters) -> Self {
        IncomingCounts {
            progress: &counters.progress,
            cpu_nanos: &counters.cpu_nanos,
            checksum: &counters.checksum,
            waiting_network: Some(&counters.waiting_source_nanos),
            waiting_disk: Some(&counters.waiting_sink_nanos),
            sync: Some(&counters.sync_nanos),
        }
    }
}

/// What a worker does with the bytes that it is given, until their end.
pub type TakeBytes<'a> = &'a mut dyn FnMut(&mut dyn Read) -> io::Result<()>;

/// What another program sends for one worker.
pub trait ForeignBytes: Debug + Send {
    /// Opens it and has it read, on the worker's thread. A read that waits ends soon after `stop`, as one that only
    /// waits; any other error of it is a sentence.
    fn read_by(self: Box<Self>, stop: &AtomicBool, take: TakeBytes<'_>) -> io::Result<()>;
}

/// Where the bytes come from.
#[derive(Debug)]
pub enum IncomingBytes {
    /// Admitted by an agent.
    Tcp(TcpStream),
    Foreign(Box<dyn ForeignBytes>),
}

impl IncomingBytes {
    fn read_by(self, stop: &AtomicBool, take: TakeBytes<'_>) -> io::Result<()> {
        match self {
            IncomingBytes::Tcp(stream) => take(&mut SentStream::new(stream)?),
            IncomingBytes::Foreign(bytes) => bytes.read_by(stop, take),
        }
    }
}

/// Everything that a worker of such a flow needs to start.
#[derive(Debug)]
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
    stop: Arc<AtomicBool>,
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
            (Some(store), Some(bytes)) => bytes
                .read_by(&stop, &mut |input| store_counted(Some(input), store.file(), &terms, counts, &stop)),
            (None, Some(bytes)) => bytes.read_by(&stop, &mut |input| take(input, &terms, counts, &stop)),
            (None, None) => Ok(()),
        };
        // After `stop` the end of a stream was not waited for.
        counters.whole.store(taken.is_ok() && !stop.load(Ordering::Relaxed), Ordering::Release);
        taken.map_err(|error| match (error.to_string(), SinkHangs::is_why(&error)) {
            (why, true) => WorkerError::SinkHangs { why },
            (why, false) => WorkerError::Incoming { why },
        })
    })
}
