//! The bytes of a server's file, again and again until all was measured: part after part, over a connection of the worker's
//! own.

use super::ServerFlowSpec;
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::flow_sockets::FlowSockets;
use crate::get::remote::{AHEAD_BYTES, RemoteFile, begin_part, range_lines};
use crate::http::ranges::ByteRange;
use linerate_system::stop::Stop;
use linerate_transport::flow::start::{ForeignBytes, TakeBytes};
use std::io::{self, Read};
use std::sync::Arc;

/// A part, where the server sends parts.
const PART_BYTES: u64 = 64 << 20;

/// What one worker reads: every part whose number is its own, round and round.
#[derive(Debug)]
pub(super) struct ServerBytes {
    pub(super) spec: Arc<ServerFlowSpec>,
    pub(super) file: Arc<RemoteFile>,
    pub(super) sockets: Arc<FlowSockets>,
    /// Its number, from 0, of so many.
    pub(super) worker: u64,
    pub(super) workers: u64,
    /// All was measured, or nobody wants it any more: what does not come is not waited for.
    pub(super) settled: Arc<Stop>,
}

impl ForeignBytes for ServerBytes {
    fn read_by(self: Box<Self>, take: TakeBytes<'_>) -> io::Result<()> {
        let settings = self.spec.settings(&self.settled).counted_in(&self.sockets);
        let mut reader = PartReader {
            settings: &settings,
            file: &self.file,
            connection: None,
            next: self.worker,
            step: self.workers.max(1),
            left: 0,
            ahead: None,
        };
        take(&mut reader)
    }
}

/// How far a worker has read.
struct PartReader<'a> {
    settings: &'a ClientSettings<'a>,
    file: &'a RemoteFile,
    connection: Option<HttpConnection<'a>>,
    /// Number of the part after the one at hand.
    next: u64,
    step: u64,
    /// Bytes of the part at hand that are still to come.
    left: u64,
    /// The next part, where it was to be asked for ahead.
    ahead: Option<AheadPart>,
}

/// A part that comes after the one at hand.
struct AheadPart {
    part: ByteRange,
    /// Its request is on the way, over the connection that there is.
    is_asked: bool,
}

impl Read for PartReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_part(into).map_err(|error| match error {
            // What a server does once all was measured is not a failure: its reader looks whether to stop.
            _ if self.settings.stop.is_ended() => io::ErrorKind::WouldBlock.into(),
            error => io::Error::other(error.to_string()),
        })
    }
}

impl PartReader<'_> {
    fn read_part(&mut self, into: &mut [u8]) -> Result<usize, TransferError> {
        if self.left == 0 {
            self.begin_next_part()?;
        }
        let url = &self.file.url;
        let broken = || TransferError::CutShort { url: url.to_string(), missing: self.left };
        let Some(connection) = self.connection.as_mut() else { return Err(broken()) };
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = connection.read(&mut into[..most], url)?;
        if read == 0 {
            return Err(broken());
        }
        self.left -= read as u64;
        if self.ahead.is_none() && self.left <= AHEAD_BYTES && connection.serves_ahead(url) {
            let part = next_part(self.file, &mut self.next, self.step);
            // Where that fails, what is left of this part may come all the same.
            let sent = connection.send(&[("GET", url, &range_lines(self.file, part))]);
            self.ahead = Some(AheadPart { part, is_asked: sent.is_ok() });
        }
        Ok(read)
    }

    fn begin_next_part(&mut self) -> Result<(), TransferError> {
        let AheadPart { part, is_asked } = self.ahead.take().unwrap_or_else(|| AheadPart {
            part: next_part(self.file, &mut self.next, self.step),
            is_asked: false,
        });
        let lines = range_lines(self.file, part);
        begin_part(&mut self.connection, self.settings, self.file, part, &lines, is_asked)?;
        self.left = part.last - part.first + 1;
        Ok(())
    }
}

/// The part of this number, round and round the file; a server without parts sends all of it.
fn next_part(file: &RemoteFile, number: &mut u64, step: u64) -> ByteRange {
    if !file.has_ranges {
        return ByteRange { first: 0, last: file.bytes - 1 };
    }
    let first = (*number % file.bytes.div_ceil(PART_BYTES)) * PART_BYTES;
    *number = number.wrapping_add(step);
    ByteRange { first, last: (first + PART_BYTES).min(file.bytes) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::TlsTrust;
    use linerate_facts::room::StorageLimits;
    use linerate_model::plan::Goal;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    /// A server that sends the beginning of a part and then nothing more, as long as the other end is there.
    fn silent_server() -> (std::thread::JoinHandle<()>, crate::http::url::HttpUrl) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let url = format!("http://{}/file", listener.local_addr().expect("an address")).parse();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepted");
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&[7; 100])).expect("sent");
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        (served, url.expect("a URL"))
    }

    #[test]
    fn a_server_that_is_silent_once_all_was_measured_is_no_failure() {
        let (served, url) = silent_server();
        let head = crate::http::head::parse_response(b"HTTP/1.1 200 OK\r\n\r\n");
        let spec = ServerFlowSpec {
            url: url.clone(),
            goal: Goal::default(),
            sink_space: StorageLimits::default(),
            token: None,
            trust: TlsTrust::Host,
        };
        let settled = Arc::<Stop>::default();
        let bytes = Box::new(ServerBytes {
            spec: Arc::new(spec),
            file: Arc::new(RemoteFile::new(&url, &head.expect("a head").expect("whole").0, 1_000_000)),
            sockets: Arc::default(),
            worker: 0,
            workers: 1,
            settled: Arc::clone(&settled),
        });
        let ended = bytes.read_by(&mut |input| {
            let mut room = [0; 4096];
            input.read_exact(&mut room[..100])?;
            let end = Arc::clone(&settled);
            let measured = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                end.end();
            });
            // It waits in this read when the end comes.
            let waits = input.read(&mut room).expect_err("nothing comes");
            measured.join().expect("ended");
            assert_eq!(waits.kind(), io::ErrorKind::WouldBlock, "{waits}");
            Ok(())
        });
        ended.expect("no failure");
        served.join().expect("it saw the end");
    }
}
