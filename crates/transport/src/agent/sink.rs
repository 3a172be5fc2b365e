//! The sink of an agent: what its clients learn of it, and what they may have of it.

use super::allow::AllowList;
use super::protocol::{OpenRequest, SinkOffer};
use super::receivers::StoreReceiver;
use super::session_stream::SessionStream;
use crate::flow::sink::{SinkError, SinkFolder, SinkStore};
use crate::flow::stream::StreamRole;
use linerate_facts::protocol::Protocol;
use std::io;
use std::sync::Arc;

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
    let workers = || request.streams.iter().filter(|spec| spec.role == StreamRole::Worker);
    if workers().any(|spec| spec.protocol != Protocol::Tcp) {
        return Err(SinkError::Datagrams);
    }
    sink.ok_or(SinkError::None)?.take(workers().count(), request.sink_workers)
}

/// Has a worker write blocks of its own, on a thread of its own.
pub(crate) fn write_alone(
    stream: &Arc<SessionStream>,
    store: StoreReceiver,
    allow: &AllowList,
) -> io::Result<()> {
    let (stream, terms) = (Arc::clone(stream), stream.terms(allow));
    let write = move || {
        stream.run(None, |stop| match &stream.store {
            Some(into) => store(None, into.file(), &terms, &stream.counters, stop),
            None => Ok(()),
        });
    };
    std::thread::Builder::new().name("sink".into()).spawn(write).map(drop)
}
