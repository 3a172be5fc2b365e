//! What one stream does: it takes the next file, sends it, and has the server compare what it wrote.

use super::body::SentBytes;
use super::sources::{OpenSource, PutError, SourceFile};
use super::{PutWork, ServerKind};
use crate::blocks::{BlockSum, FileId, HASH};
use crate::client::ask::connected;
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::file_bytes::{Afterwards, FileBytes, HeldBytes, sum_of};
use crate::http::conditions::{parse_date, show_date};
use crate::http::head::ResponseHead;
use crate::http::url::HttpUrl;
use crate::patience::Retries;
use crate::stream_tally::StreamTally;
use linerate_measure::run::{TransferFile, TransferOutcome};
use linerate_system::{clock, lock};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A file of more bytes is sent once the server has agreed to take it.
const EXPECT_BYTES: u64 = 1 << 20;
/// A server that says nothing for so long does not know the question (RFC 9110 section 10.1.1).
const EXPECT_TIME: Duration = Duration::from_secs(1);
/// What a server reads again of a file that it has a part of, at least.
const REREAD_BYTES_PER_SECOND: u64 = 50_000_000;
/// A longer answer to a PUT is not read.
const MOST_ANSWER_BYTES: u64 = 64 << 10;
/// Failures of a file at a server that is there.
const MOST_FAILURES: u32 = 6;

/// One stream.
pub(crate) struct PutStream<'a> {
    pub(crate) work: &'a PutWork<'a>,
    pub(crate) settings: &'a ClientSettings<'a>,
    pub(crate) tally: &'a StreamTally,
    pub(crate) connection: Option<HttpConnection<'a>>,
    /// Bytes of the file at hand that the server had of an earlier try.
    kept_bytes: u64,
    /// What this try counted as there: it no longer is where the try fails.
    counted_bytes: u64,
    /// What the server has of the bytes that this stream sent.
    pub(super) sent: SentBytes<'a>,
}

/// How far a file went.
enum SendOutcome {
    /// All of it; its sum, where the server compares it.
    Whole(Option<u64>),
    /// The server does not take it.
    Refused(ResponseHead),
}

impl<'a> PutStream<'a> {
    pub(super) fn new(
        work: &'a PutWork<'a>,
        settings: &'a ClientSettings<'a>,
        tally: &'a StreamTally,
    ) -> Self {
        let sent = SentBytes::new(work.windows);
        PutStream { work, settings, tally, connection: None, kept_bytes: 0, counted_bytes: 0, sent }
    }

    /// Until no file is left.
    pub(super) fn run(&mut self) {
        while !self.is_stopped() {
            let Some(file) = lock(&self.work.waiting).pop_front() else { break };
            let begun = clock::now();
            let tally = self.tally;
            match tally.at_work(|| self.retried(|stream, tries| stream.put(&file, tries))) {
                Ok((outcome, bytes)) => {
                    let is_verified =
                        outcome == TransferOutcome::Put && self.work.server == ServerKind::Linerate;
                    let verified = is_verified.then(|| HASH.into()).into_iter().collect();
                    self.report(&file, outcome, (bytes, self.kept_bytes), verified, begun);
                }
                Err(error) => self.work.failed(&file, error),
            }
        }
    }

    /// What became of a file: its bytes, and how many of them the server had of an earlier try; `verified`: what its
    /// content was compared by.
    pub(crate) fn report(
        &self,
        file: &SourceFile,
        outcome: TransferOutcome,
        (bytes, kept_bytes): (u64, u64),
        verified: Vec<String>,
        begun: Instant,
    ) {
        lock(&self.work.files).push(TransferFile {
            bytes,
            kept_bytes,
            seconds: clock::since(begun).as_secs_f64(),
            verified,
            ..TransferFile::new(file.url.to_string(), file.path.clone(), outcome)
        });
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.settings.stop.is_ended()
    }

    /// Tries again what may pass, a bounded number of times, over another connection each time.
    pub(crate) fn retried<T>(
        &mut self,
        mut work: impl FnMut(&mut Self, u32) -> Result<T, PutError>,
    ) -> Result<T, PutError> {
        let mut retries = Retries::new(MOST_FAILURES, self.settings.timeout);
        loop {
            self.counted_bytes = 0;
            let error = match work(self, retries.tries) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            self.count_no_more();
            self.connection = None;
            let may_pass = error.may_pass(retries.tries);
            match retries.failed(may_pass, error.is_unreachable(), error.retry_after()) {
                Some(wait) if self.settings.stop.wait(wait) => return Err(PutError::Interrupted),
                Some(_) => {}
                None => return Err(error),
            }
        }
    }

    /// The server has so many bytes more.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.counted_bytes += bytes;
        self.work.there.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What this try sent was for nothing.
    pub(crate) fn count_no_more(&mut self) {
        #[cfg(test)]
        planted!(SentForNothingCounts, self.counted_bytes = 0);
        self.work.there.fetch_sub(std::mem::take(&mut self.counted_bytes), Ordering::Relaxed);
    }

    /// The server has these bytes, whatever this try sent of them.
    pub(crate) fn count_as_there(&mut self, bytes: u64) {
        self.count_no_more();
        self.count(bytes);
    }

    fn put(&mut self, file: &SourceFile, tries: u32) -> Result<(TransferOutcome, u64), PutError> {
        self.kept_bytes = 0;
        let source = OpenSource::open(file)?;
        let OpenSource { content, before, .. } = &source;
        // A server of another kind may replace what is there; what a try of ours left behind is there, too.
        if (self.work.server == ServerKind::Other || tries > 1) && self.is_there(&source)? {
            self.count_as_there(before.len());
            return Ok((TransferOutcome::AlreadyThere, before.len()));
        }
        let from = self.held_bytes(&source)?;
        let sum = match self.send(&source, from)? {
            SendOutcome::Whole(sum) => sum,
            SendOutcome::Refused(head) => return self.refused(&source, &head),
        };
        let after = content.metadata().map_err(|error| file.failed(error))?;
        #[cfg(test)]
        let after = if linerate_testing::is_planted(crate::tests::PlantedBug::ChangeUnnoticed) {
            before.clone()
        } else {
            after
        };
        if FileId::new(&after) != FileId::new(before) {
            // Without its sum it does not get its name, and the next start compares what is there.
            self.connection = None;
            return Err(PutError::Changed { path: file.path.clone() });
        }
        let head = self.end(file, sum)?;
        match head.status {
            200 | 201 | 204 => Ok((TransferOutcome::Put, before.len())),
            422 => Err(PutError::Differs { url: file.url.to_string(), times: tries }),
            _ => self.refused(&source, &head),
        }
    }

    /// How many bytes of the file the server has of an earlier start or try; none of a small file, which is sent as a whole
    /// again.
    fn held_bytes(&mut self, source: &OpenSource) -> Result<Option<u64>, PutError> {
        let OpenSource { file, content, .. } = source;
        if self.work.server != ServerKind::Linerate || file.bytes <= EXPECT_BYTES {
            return Ok(None);
        }
        let asked = file.url.with_target(&format!("{}?linerate=held", file.url.path()));
        let connection = connected(&mut self.connection, self.settings, &asked)?;
        let head = connection.ask("GET", &asked, "")?;
        check_busy(self.work.server, file, &head)?;
        let length = head.headers.content_length().ok().flatten();
        if head.status == 200 && !head.headers.has_word("linerate", "held") {
            // It is of a version that does not know the question, and gives the file.
            connection.spend();
            return Ok(Some(0));
        }
        let text = connection.read_text(length, &asked)?;
        let Some(held) = HeldBytes::parse(&text).filter(|_| head.status == 200) else { return Ok(Some(0)) };
        let is_own = held.are_of(content).map_err(|error| file.failed(error))?;
        self.kept_bytes = if is_own { held.bytes } else { 0 };
        Ok(Some(self.kept_bytes))
    }

    /// The head, and the body once the server takes it, from this byte on.
    fn send(&mut self, source: &OpenSource, from: Option<u64>) -> Result<SendOutcome, PutError> {
        let OpenSource { file, content, before } = source;
        let (bytes, url, first) = (before.len(), &file.url, from.unwrap_or(0));
        let modified = show_date(FileId::new(before).seconds());
        let expects = bytes > EXPECT_BYTES;
        let expect = if expects { "Expect: 100-continue\r\n" } else { "" };
        let length = bytes.saturating_sub(first);
        let lines =
            format!("Content-Length: {length}\r\nLast-Modified: {modified}\r\nIf-None-Match: *\r\n{expect}");
        let asked = match self.work.server {
            ServerKind::Linerate => {
                let from = from.map_or_else(String::new, |from| format!("&from={from}"));
                url.with_target(&format!("{}?linerate=hold{from}", url.path()))
            }
            ServerKind::Other => url.clone(),
        };
        let connection = connected(&mut self.connection, self.settings, &asked)?;
        connection.send(&[("PUT", &asked, &lines)])?;
        // Before it answers it reads what it has of the file.
        let patience = EXPECT_TIME + Duration::from_secs(first / REREAD_BYTES_PER_SECOND);
        if expects && let Some(head) = connection.answer_within(patience, &asked)? {
            return match head.status {
                200..300 => Err(PutError::Early { url: url.to_string(), status: head.status }),
                _ => Ok(SendOutcome::Refused(head)),
            };
        }
        let mut sum = (self.work.server == ServerKind::Linerate).then(BlockSum::begin);
        if let Some(sum) = &mut sum {
            let held = FileBytes::of(content, 0..first, Afterwards::Gone);
            let read = sum_of(held, sum, || self.is_stopped());
            read.map_err(|error| match error.kind() {
                std::io::ErrorKind::Interrupted => PutError::Interrupted,
                _ => file.failed(error),
            })?;
        }
        self.count(first);
        let sent = self.body(file, content, first..bytes, sum.as_mut());
        if let Some(connection) = self.connection.as_mut() {
            connection.count_tcp(self.tally);
        }
        match sent {
            Ok(()) => Ok(SendOutcome::Whole(sum.map(|sum| sum.end()))),
            // It may have said why before it closed the connection.
            Err(PutError::Client(error @ TransferError::Broken { .. })) => {
                let answer = self.connection.as_mut().and_then(|open| open.answer(url).ok());
                answer
                    .filter(|head| head.status >= 400)
                    .map(SendOutcome::Refused)
                    .ok_or(PutError::Client(error))
            }
            Err(error) => Err(error),
        }
    }

    /// What the server says of the whole file: from `linerate serve` once it has compared the sum.
    fn end(&mut self, file: &SourceFile, sum: Option<u64>) -> Result<ResponseHead, PutError> {
        let url = &file.url;
        let connection = self.connection.as_mut().ok_or_else(|| TransferError::closed(url))?;
        if let Some(sum) = sum {
            // Sent at once: the server comes to it when it has the file.
            let land = url.with_target(&format!("{}?linerate=land&sum={sum:016x}", url.path()));
            connection.send(&[("PUT", &land, "Content-Length: 0\r\n")])?;
            let held = answered(connection, url)?;
            if held.status != 202 {
                // The answer to the second says no more than this one.
                self.connection = None;
                return Ok(held);
            }
        }
        answered(connection, url)
    }

    fn refused(
        &mut self,
        source: &OpenSource,
        head: &ResponseHead,
    ) -> Result<(TransferOutcome, u64), PutError> {
        let file = &source.file;
        self.connection = None;
        check_busy(self.work.server, file, head)?;
        let (url, status) = (file.url.to_string(), head.status);
        match status {
            409 | 412 if self.is_there(source)? => {
                self.count_as_there(file.bytes);
                Ok((TransferOutcome::AlreadyThere, file.bytes))
            }
            401 | 403 | 407 => Err(PutError::NotAllowed { url, status }),
            507 => Err(PutError::NoSpace { url }),
            503 => Err(TransferError::Overloaded { url, status, retry_after: None }.into()),
            408 | 500 | 502 | 504 => Err(TransferError::Status { url, status }.into()),
            _ => Err(PutError::Refused { url, status }),
        }
    }

    /// The same file is there already; another one is an error.
    fn is_there(&mut self, OpenSource { file, before, .. }: &OpenSource) -> Result<bool, PutError> {
        let url = &file.url;
        let head = connected(&mut self.connection, self.settings, url)?.ask("HEAD", url, "")?;
        check_busy(self.work.server, file, &head)?;
        if head.status != 200 {
            return Ok(false);
        }
        let modified = head.headers.text("last-modified").and_then(parse_date);
        let same_length = head.headers.content_length() == Ok(Some(before.len()));
        match same_length && modified == Some(FileId::new(before).seconds()) {
            true => Ok(true),
            false => Err(PutError::AlreadyThere { url: url.to_string() }),
        }
    }
}

/// The server is to be asked again later, as it says itself: it has other clients, too (503), or another connection has
/// the file, mostly that of a client that is gone (409). The time that `linerate serve` names is kept to.
fn check_busy(server: ServerKind, file: &SourceFile, head: &ResponseHead) -> Result<(), PutError> {
    let Some(retry_after) = head.retry_after().filter(|_| matches!(head.status, 409 | 503)) else {
        return Ok(());
    };
    let retry_after = (server == ServerKind::Linerate).then_some(retry_after);
    let (url, status) = (file.url.to_string(), head.status);
    Err(TransferError::Overloaded { url, status, retry_after }.into())
}

/// A head; a short text that follows it is taken from the connection, which a long one ends: nobody reads it.
fn answered(connection: &mut HttpConnection<'_>, url: &HttpUrl) -> Result<ResponseHead, PutError> {
    let head = connection.answer(url)?;
    match head.headers.content_length().ok().flatten() {
        _ if head.status == 204 => {}
        Some(length) if length <= MOST_ANSWER_BYTES => drop(connection.read_text(Some(length), url)?),
        _ => connection.spend(),
    }
    Ok(head)
}
