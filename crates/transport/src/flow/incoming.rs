//! A flow that comes in: a thread of this host takes a TCP stream and throws it away or stores it, as an agent's
//! receivers do; or bytes of another program, which are no stream of an agent. Without either it stores blocks of its
//! own: the disk alone, written as the flow writes it.

use super::counters::{IncomingCounts, WorkerCounters};
use super::receive::{SentStream, Terms, take_to_memory};
use super::sink::SinkStore;
use super::start::RunningWorker;
use super::store::{BLOCK_BYTES, DEPTH, SinkHangs, store_counted};
use super::worker::WorkerError;
use linerate_facts::units::show_size;
use linerate_system::affinity;
use linerate_system::stop::Stop;
use std::fmt::Debug;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
