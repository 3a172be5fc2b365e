//! What a client puts: taken under a name of its own beside its place, summed as it comes, on the disk before
//! it gets its name, never over a file that is there.

use super::Shared;
use super::incoming::IncomingFile;
use super::reply::{self, Reply};
use super::served_stream::{ServedStream, send_interim};
use super::tally::Tally;
use crate::blocks::{BlockSum, FileId, HASH, parse_sum};
use crate::client::TransferError;
use crate::file_bytes::{FileBytes, sum_of};
use crate::get::part::MOST_RESUMABLE_NAME_BYTES;
use crate::http::chunks::ChunkedBody;
use crate::http::conditions::{WantedDigest, parse_date, wanted_digest};
use crate::http::head::RequestHead;
use crate::http::url::segments;
use crate::patience::{Quiet, SLOW_BYTES, SLOW_TIME};
use linerate_system::readiness::is_waiting;
use linerate_transport::admission::Permit;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Bytes of a write, and of a read at most. What did not come yet takes no memory.
const CHUNK_BYTES: usize = 256 << 10;
/// A body that is refused is thrown away up to this length, so that the connection serves on; else it is
/// closed.
const WASTE_BYTES: u64 = 1 << 20;
/// A client that sends next to nothing is given up sooner while others are refused.
const SHORT_SLOW_TIME: Duration = Duration::from_millis(500);

/// A file that came whole and waits for the client's own sum of it. Without that nothing of it stays, unless the client
/// is one that goes on with it.
pub(super) struct HeldFile {
    target: String,
    sum: u64,
    /// Where the client named it.
    sha256: Option<[u8; 32]>,
    modified: Option<u64>,
    file: IncomingFile,
    /// As long as its client may still do something with it.
    _permit: Permit,
}

/// The bytes that follow a request.
pub(super) struct BodyReader<'a> {
    pub(super) stream: &'a ServedStream<'a>,
    /// What came behind the head already.
    pub(super) buffer: &'a mut Vec<u8>,
}

/// Why a body did not come whole.
enum NoBody {
    /// Nobody is there any more to be answered.
    Gone,
    Refused(Reply),
}

/// Takes a file, or puts one that is held at its place.
pub(super) fn take(
    request: &RequestHead,
    body: &mut BodyReader<'_>,
    held: &mut Option<HeldFile>,
    shared: &Shared<'_>,
) -> io::Result<Reply> {
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    let word = |name: &str| query.split('&').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    if word("linerate") == Some("land") {
        return Ok(land_held(request, held.take(), word("sum").and_then(parse_sum), shared));
    }
    let holds = word("linerate") == Some("hold");
    // Another file: the one before does not get its name any more.
    drop(held.take());
    let length = match body_length(request) {
        Ok(length) => length,
        Err(reply) => return Ok(reply),
    };
    let Ok(permit) = shared.incoming.permit(body.client()?) else {
        let reply = Reply::refused(503, "As many files come as may come at a time; try again in a moment.");
        // Nothing is read for it, as that could take as long as its client likes.
        let is_empty = length == BodyLength::Known(0);
        return Ok(if is_empty { reply } else { reply.closing() }.line("Retry-After", 1));
    };
    // From which byte on; a client that says so goes on with what it leaves unfinished.
    let from = match word("from").filter(|_| holds).map(str::parse::<u64>).transpose() {
        Ok(from) => from,
        Err(_) => return Ok(Reply::refused(400, "A file goes on from a number of bytes.").closing()),
    };
    let Destination { mut file, digest, mut sum } = match begin(request, length, from, shared) {
        Ok(destination) => destination,
        Err(reply) => return body.waste(request, length, reply, shared),
    };
    if request.headers.has_word("expect", "100-continue") {
        send_interim(body.stream, shared)?;
    }
    let first = from.unwrap_or(0);
    let (sha256, bytes) = match body.receive(&mut file, first, length, &mut sum, digest.is_some(), shared) {
        Ok(received) => received,
        Err(NoBody::Gone) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Err(NoBody::Refused(reply)) => return Ok(reply.closing()),
    };
    if let (Some(WantedDigest(wanted)), Some(own)) = (digest, sha256)
        && wanted != own
    {
        file.discard();
        return Ok(Reply::refused(422, "The file is not the one of its digest; nothing of it was kept."));
    }
    let modified = request.headers.text("last-modified").and_then(parse_date);
    let target = request.target.split('?').next().unwrap_or_default().to_string();
    let sum = sum.end();
    let whole = HeldFile { target, sum, sha256, modified, file, _permit: permit };
    if holds {
        let json = format!("{{\"hash\":\"{HASH}\",\"bytes\":{bytes},\"sum\":\"{sum:016x}\"}}\n");
        *held = Some(whole);
        return Ok(Reply::new(202).with_body("application/json", json.into_bytes()));
    }
    Ok(land(whole, shared))
}

/// Where a file goes.
struct Destination {
    file: IncomingFile,
    digest: Option<WantedDigest>,
    /// Of what is there of it already.
    sum: BlockSum,
}

/// What the head says of the length of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyLength {
    Known(u64),
    /// It ends with its last chunk.
    Chunked,
}

impl BodyLength {
    /// Bytes that surely come.
    fn least(self) -> u64 {
        match self {
            BodyLength::Known(bytes) => bytes,
            BodyLength::Chunked => 0,
        }
    }
}

fn body_length(request: &RequestHead) -> Result<BodyLength, Reply> {
    let headers = &request.headers;
    let length = headers.content_length();
    let mut codings = headers.all("transfer-encoding");
    if let Some(coding) = codings.next() {
        // Two answers to where the body ends are how requests are smuggled (RFC 9112 section 6.3).
        if length != Ok(None) || !request.is_1_1 {
            let why = "Transfer-Encoding is of HTTP/1.1, and never beside Content-Length.";
            return Err(Reply::refused(400, why).closing());
        }
        if !coding.trim_ascii().eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
            return Err(Reply::refused(501, "Of Transfer-Encoding only chunked is known.").closing());
        }
        return Ok(BodyLength::Chunked);
    }
    match length {
        Ok(Some(length)) => Ok(BodyLength::Known(length)),
        Ok(None) => Err(Reply::refused(411, "Say how long it is: Content-Length, or chunked.")),
        Err(why) => Err(Reply::refused(400, &format!("The request: {why}.")).closing()),
    }
}

/// All that can be said before the body comes.
fn begin(
    request: &RequestHead,
    length: BodyLength,
    from: Option<u64>,
    shared: &Shared<'_>,
) -> Result<Destination, Reply> {
    let headers = &request.headers;
    if headers.all("content-range").next().is_some() {
        return Err(Reply::refused(400, "Only whole files are taken, without Content-Range."));
    }
    if headers.text("expect").is_some_and(|expect| !expect.eq_ignore_ascii_case("100-continue")) {
        return Err(Reply::refused(417, "Only 100-continue can be expected."));
    }
    let encoding = headers.text("content-encoding");
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(Reply::refused(415, "Files are taken as they are, without Content-Encoding."));
    }
    if headers.all("if-match").next().is_some() {
        return Err(Reply::refused(412, "No file is replaced here."));
    }
    let digest = wanted_digest(headers).map_err(|why| Reply::refused(400, &format!("{why}.")))?;
    if digest.is_some() && from.is_some_and(|from| from > 0) {
        return Err(Reply::refused(400, "A digest is of a file that comes from its first byte on."));
    }
    let target = super::answer::origin_form(&request.target);
    let (names, is_folder) =
        segments(target).map_err(|why| Reply::refused(400, &format!("The path: {why}.")))?;
    if is_folder || names.last().is_none_or(|name| name.len() > MOST_RESUMABLE_NAME_BYTES) {
        return Err(Reply::refused(
            400,
            "The path does not end with the name of a file, or with one too long.",
        ));
    }
    let of_error = |error: io::Error| reply::of_error(&error);
    let there = || {
        let status = if headers.all("if-none-match").next().is_some() { 412 } else { 409 };
        Reply::refused(status, "There is something of this name already; it is not replaced.")
    };
    match shared.tree.kind(&names) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // Also what leads out, and a link to nowhere: the name is taken.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => return Err(there()),
        Err(error) => return Err(of_error(error)),
        Ok(_) => return Err(there()),
    }
    let (folder, name) = shared.tree.folder_for(&names).map_err(of_error)?;
    let opened = IncomingFile::open(folder, &name, &shared.incoming, from.is_some());
    let mut file = opened.map_err(|error| refused(&error))?;
    let first = from.unwrap_or(0);
    if !file.keep_first(first, length.least()).map_err(|error| refused(&error))? {
        return Err(Reply::refused(409, "Less of it is held here."));
    }
    let mut sum = BlockSum::begin();
    let stops = || shared.stop.is_ended();
    let there = FileBytes::copied(file.file(), 0..first);
    sum_of(there, &mut sum, stops).map_err(|error| of_error(error).closing())?;
    Ok(Destination { file, digest, sum })
}

fn refused(error: &TransferError) -> Reply {
    match error {
        TransferError::Busy { .. } => {
            let reply = Reply::refused(409, "Another client puts a file of this name just now.");
            reply.line("Retry-After", 1)
        }
        TransferError::AlreadyThere { .. } => {
            Reply::refused(409, "There is something of this name already; it is not replaced.")
        }
        TransferError::NoSpace { .. } => Reply::refused(507, "The server has no room for it."),
        TransferError::Destination { error, .. } => reply::of_error(error),
        _ => Reply::refused(500, "The file cannot be written."),
    }
}

fn land_held(request: &RequestHead, held: Option<HeldFile>, sum: Option<u64>, shared: &Shared<'_>) -> Reply {
    let target = request.target.split('?').next().unwrap_or_default();
    let Some(held) = held.filter(|held| held.target == target) else {
        return Reply::refused(409, "No file of this name is held for this connection.");
    };
    #[cfg(test)]
    planted!(SumNotCompared, return land(held, shared));
    match sum {
        Some(sum) if sum == held.sum => land(held, shared),
        Some(_) => {
            held.file.discard();
            Reply::refused(422, "The file is not the one that was sent; nothing of it was kept.")
        }
        None => Reply::refused(400, "A sum has sixteen hexadecimal digits."),
    }
}

/// On the disk, then at its place.
fn land(mut held: HeldFile, shared: &Shared<'_>) -> Reply {
    let sync = |file: &File| shared.flow.taken.at_disk(|| file.sync_all());
    match held.file.land(held.modified, sync) {
        Ok(()) => {
            if let (Some(sha256), Ok(id)) = (held.sha256, FileId::of(held.file.file())) {
                shared.digests.keep(id, sha256);
            }
            Tally::add(&shared.tally.files_taken, 1);
            Reply::new(201).line("Content-Length", 0)
        }
        Err(error) => refused(&error),
    }
}

impl BodyReader<'_> {
    fn client(&self) -> io::Result<IpAddr> {
        Ok(self.stream.socket.peer_addr()?.ip())
    }

    /// Into the part from its byte `first` on: XXH3 of all of it, SHA-256 where it is wanted; and where the file ends.
    fn receive(
        &mut self,
        file: &mut IncomingFile,
        first: u64,
        length: BodyLength,
        sum: &mut BlockSum,
        with_sha256: bool,
        shared: &Shared<'_>,
    ) -> Result<(Option<[u8; 32]>, u64), NoBody> {
        let mut sha256 = with_sha256.then(Sha256::new);
        let route = shared.flow.sockets.route_of(self.stream.socket);
        let mut at = first;
        let mut keep = |bytes: &[u8], end: Option<u64>| {
            sum.add(bytes);
            if let Some(sha256) = &mut sha256 {
                sha256.update(bytes);
            }
            let came = bytes.len() as u64;
            // Where its end is unknown no room is reserved ahead.
            let end = end.unwrap_or(at + came);
            let written = shared.flow.taken.at_disk(|| file.write(bytes, at, end));
            written.map_err(|error| NoBody::Refused(refused(&error)))?;
            Tally::add(&shared.tally.taken, came);
            shared.flow.taken.add_moved(came);
            route.add(bytes.len());
            at += came;
            Ok::<(), NoBody>(())
        };
        match length {
            BodyLength::Known(bytes) => {
                let end = first + bytes;
                let mut left = bytes;
                let mut chunk =
                    vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES)).max(1)];
                while left > 0 {
                    let most = left.min(chunk.len() as u64) as usize;
                    let (filled, ended) = self.fill(&mut chunk[..most], shared);
                    keep(&chunk[..filled], Some(end))?;
                    left -= filled as u64;
                    ended?;
                }
            }
            BodyLength::Chunked => self.chunks(shared, |content| keep(content, None))?,
        }
        Ok((sha256.map(|sha256| sha256.finalize().into()), at))
    }

    /// Takes a body in chunks apart; what follows its last one stays in the buffer.
    fn chunks(
        &mut self,
        shared: &Shared<'_>,
        mut keep: impl FnMut(&[u8]) -> Result<(), NoBody>,
    ) -> Result<(), NoBody> {
        let (mut body, mut content) = (ChunkedBody::begin(), Vec::with_capacity(CHUNK_BYTES));
        let (mut came, mut quiet) = (vec![0; SLOW_BYTES as usize], Quiet::new(SLOW_BYTES));
        while !body.is_over() {
            let read = self.some(&mut came, &mut quiet, shared);
            let (mut rest, ended) = match read {
                Ok(read) => (&came[..read], Ok(())),
                Err(why) => (&[][..], Err(why)),
            };
            while !rest.is_empty() && !body.is_over() {
                let (next, behind) = rest.split_at(body.wants(rest.len()));
                let taken = body.take(next, &mut content);
                taken.map_err(|why| NoBody::Refused(Reply::refused(400, &format!("The body: {why}."))))?;
                rest = behind;
            }
            drop(self.buffer.splice(..0, rest.iter().copied()));
            if body.is_over() || ended.is_err() || content.len() >= CHUNK_BYTES {
                keep(&content)?;
                content.clear();
            }
            ended?;
        }
        Ok(())
    }

    /// Fills all of it, unless the client is slow or leaves: then less came.
    fn fill(&mut self, into: &mut [u8], shared: &Shared<'_>) -> (usize, Result<(), NoBody>) {
        let (mut filled, mut quiet) = (0, Quiet::new(SLOW_BYTES));
        while filled < into.len() {
            match self.some(&mut into[filled..], &mut quiet, shared) {
                Ok(read) => filled += read,
                Err(why) => return (filled, Err(why)),
            }
        }
        (filled, Ok(()))
    }

    /// Some bytes, as soon as there are any; none: nothing came within a tenth of a second, and the client has not been
    /// slow for too long.
    fn some(&mut self, into: &mut [u8], quiet: &mut Quiet, shared: &Shared<'_>) -> Result<usize, NoBody> {
        let read = self.read(into).ok().filter(|_| !shared.stop.is_ended()).ok_or(NoBody::Gone)?;
        quiet.came(read);
        let waited = quiet.time();
        if waited >= SLOW_TIME
            || waited >= SHORT_SLOW_TIME && self.client().is_ok_and(|client| shared.incoming.is_short(client))
        {
            return Err(NoBody::Refused(Reply::refused(408, "Next to nothing came for too long.")));
        }
        Ok(read)
    }

    /// Some bytes; none: nothing came within a tenth of a second.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.buffer.is_empty() {
            let taken = self.buffer.len().min(into.len());
            into[..taken].copy_from_slice(&self.buffer[..taken]);
            self.buffer.drain(..taken);
            return Ok(taken);
        }
        match self.stream.read(into) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if is_waiting(&error) => Ok(0),
            read => read,
        }
    }

    /// A body that is not wanted: taken where it is small and on its way, so that the connection serves on.
    fn waste(
        &mut self,
        request: &RequestHead,
        length: BodyLength,
        reply: Reply,
        shared: &Shared<'_>,
    ) -> io::Result<Reply> {
        let BodyLength::Known(length) = length else { return Ok(reply.closing()) };
        if length == 0 {
            return Ok(reply);
        }
        if length > WASTE_BYTES || request.headers.has_word("expect", "100-continue") {
            return Ok(reply.closing());
        }
        let (mut waste, mut left) = (vec![0; SLOW_BYTES as usize], length as usize);
        while left > 0 {
            let most = left.min(waste.len());
            match self.fill(&mut waste[..most], shared).1 {
                Ok(()) => left -= most,
                Err(NoBody::Gone) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(NoBody::Refused(_)) => return Ok(reply.closing()),
            }
        }
        Ok(reply)
    }
}

#[cfg(test)]
pub(super) mod tests;
