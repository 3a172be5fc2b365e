//! The sink of an agent: what its clients learn of it, and what they may have of it.

use super::protocol::{OpenRequest, SinkOffer};
use super::receivers::StoreReceiver;
use super::session_stream::{Receive, SessionStream, Work};
use crate::flow::sink::{SinkError, SinkFolder, SinkStore};
use linerate_facts::protocol::Protocol;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a client learns of it.
pub(crate) fn offer(sink: &SinkFolder) -> SinkOffer {
    SinkOffer { disk: sink.disk().map(str::to_string), bytes: sink.free_bytes() }
}

/// The files that a test asks for; none where it stores nothing.
pub(crate) fn stores(
    sink: Option<&Arc<SinkFolder>>,
    request: &OpenRequest,
) -> Result<Vec<SinkStore>, SinkError> {
    if request.sink.is_none() {
        return Ok(Vec::new());
    }
    if request.workers.iter().any(|worker| worker.protocol != Protocol::Tcp) {
        return Err(SinkError::Datagrams);
    }
    sink.ok_or(SinkError::None)?.take(request.workers.len(), request.sink_workers)
}

/// Has a worker write blocks of its own, on a thread of its own.
pub(crate) fn write_alone(stream: &Arc<SessionStream>, with: StoreReceiver) -> io::Result<()> {
    let stream = Arc::clone(stream);
    let write = move || {
        stream.run(None, |stop| match &stream.work {
            Work::Receive(receive) => store_with(with, None, receive, stop),
            Work::Stream { .. } => Ok(()),
        });
    };
    std::thread::Builder::new().name("sink".into()).spawn(write).map(drop)
}

/// Stores what comes, or blocks of its own; on the calling thread. Nothing where the worker does not store.
pub(crate) fn store_with(
    with: StoreReceiver,
    stream: Option<TcpStream>,
    receive: &Receive,
    stop: &AtomicBool,
) -> io::Result<()> {
    let Some(store) = &receive.store else { return Ok(()) };
    with(stream, store.file(), &receive.terms, (&receive.received, &store.times), stop)
}
