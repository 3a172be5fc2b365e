//! What a stream of `put` does for an object store: whole objects by one PUT, large ones in parts, each with its sum in the
//! header lines, beside when the file was changed.

use super::answers::{AnswerError, parse_completed, parse_upload};
use super::error::S3Error;
use super::requests::{ask_text, probe, refusal};
use super::store::S3Store;
use super::sums::ObjectSum;
use super::upload::{ALGORITHM, OpenUpload, SentPart, Upload, UploadEnd, abort, part_bytes, upload_url};
use crate::blocks::FileId;
use crate::body_paths::CALL_BYTES;
use crate::client::TransferError;
use crate::client::ask::{ask_again, connected, read_body};
use crate::file_bytes::{Afterwards, FileBytes};
use crate::http::head::ResponseHead;
use crate::http::url::{HttpUrl, encoded};
use crate::put::sources::OpenSource;
use crate::put::{PutError, PutStream, SourceFile};
use linerate_measure::run::TransferOutcome;
use linerate_system::{clock, lock};
use linerate_transport::agent::to_hex;
use sha2::{Digest, Sha256};
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// Where there is nothing to do, but a file is beginning, it is looked again.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What became of a file that a stream took.
enum BegunObject {
    Ended(TransferOutcome, Vec<String>),
    InParts(Arc<Upload>),
}

impl PutStream<'_> {
    /// Until no file and no part is left.
    pub(crate) fn run_objects(&mut self, store: &S3Store) {
        let (work, tally) = (self.work, self.tally);
        while !self.is_stopped() {
            if let Some((upload, number)) = work.uploads.next_part() {
                tally.at_work(|| self.send_next(store, &upload, number));
                continue;
            }
            match work.uploads.next_file(|| lock(&work.waiting).pop_front()) {
                Some(file) => {
                    tally.at_work(|| self.begin_object(store, &file));
                    work.uploads.begun();
                }
                None if work.uploads.is_over() => match work.uploads.next_part() {
                    // Begun since it was looked at.
                    Some((upload, number)) => tally.at_work(|| self.send_next(store, &upload, number)),
                    None => break,
                },
                None => drop(self.settings.stop.wait(POLL_INTERVAL)),
            }
        }
    }

    fn begin_object(&mut self, store: &S3Store, file: &SourceFile) {
        let begun = clock::now();
        match self.retried(|stream, _| stream.object(store, file)) {
            Ok(BegunObject::Ended(outcome, verified)) => {
                self.report(file, outcome, (file.bytes, 0), verified, begun)
            }
            Ok(BegunObject::InParts(upload)) => self.work.uploads.add(upload),
            Err(error) => self.work.failed(file, error),
        }
    }

    /// Puts it where it is small, else begins its upload.
    fn object(&mut self, store: &S3Store, file: &SourceFile) -> Result<BegunObject, PutError> {
        let source = Arc::new(OpenSource::open(file)?);
        let bytes = source.file.bytes;
        if self.is_object_there(store, &source)? {
            self.count_as_there(bytes);
            return Ok(BegunObject::Ended(TransferOutcome::AlreadyThere, Vec::new()));
        }
        let was_plain = store.is_plain();
        let begun = match part_bytes(bytes, self.work.streams) {
            None => self.put_object(store, &source),
            Some(part_bytes) => self.begin_upload(store, &source, part_bytes),
        };
        match begun {
            Err(PutError::Client(TransferError::Store(error)))
                if error.is_not_implemented() && !was_plain =>
            {
                store.found_plain();
                self.count_no_more();
                self.connection = None;
                self.object(store, file)
            }
            // Somebody else put one, or this one's answer was lost.
            Err(PutError::Client(TransferError::Changed { .. })) => {
                self.connection = None;
                match self.is_object_there(store, &source)? {
                    true => {
                        self.count_as_there(bytes);
                        Ok(BegunObject::Ended(TransferOutcome::AlreadyThere, Vec::new()))
                    }
                    false => Err(PutError::AlreadyThere { url: file.url.to_string() }),
                }
            }
            begun => begun,
        }
    }

    fn put_object(&mut self, store: &S3Store, source: &OpenSource) -> Result<BegunObject, PutError> {
        let file = &source.file;
        let sums = self.sums_of(store, source, 0..file.bytes)?;
        let mut lines = format!("Content-Length: {}\r\n{}", file.bytes, modified_line(&source.before));
        lines.push_str(&sums.lines(store));
        if !store.is_plain() {
            lines.push_str("If-None-Match: *\r\n");
        }
        let head = self.send_body(store, &file.url, &lines, source, 0..file.bytes)?;
        check_unchanged(source)?;
        let verified = sums.confirmed(&head, file)?.then(|| ALGORITHM.name().to_string());
        Ok(BegunObject::Ended(TransferOutcome::Put, verified.into_iter().collect()))
    }

    /// Goes on with the upload of an earlier start, or creates one.
    fn begin_upload(
        &mut self,
        store: &S3Store,
        source: &Arc<OpenSource>,
        part_bytes: u64,
    ) -> Result<BegunObject, PutError> {
        let begun = clock::now();
        let open = match self.unfinished(store, source, part_bytes)? {
            Some(open) => open,
            None => {
                let id = self.create_upload(store, source)?;
                OpenUpload { id, part_bytes, held: Default::default() }
            }
        };
        store.opened_upload(&open.id, &store.place(&source.file.url));
        Ok(BegunObject::InParts(Arc::new(Upload::new(Arc::clone(source), open, begun))))
    }

    /// The name that the store gives it.
    fn create_upload(&mut self, store: &S3Store, source: &OpenSource) -> Result<String, PutError> {
        let file = &source.file;
        let url = file.url.with_target(&format!("{}?uploads", file.url.path()));
        let mut lines = format!("Content-Length: 0\r\n{}", modified_line(&source.before));
        if !store.is_plain() {
            lines.push_str("x-amz-checksum-algorithm: CRC64NVME\r\nx-amz-checksum-type: FULL_OBJECT\r\n");
        }
        let location = store.place(&file.url);
        let asked = ("POST", &url, lines.as_str());
        let answer = ask_text(&mut self.connection, self.settings, (store, &location), asked, &[])?;
        let id = parse_upload(&answer);
        Ok(id.map_err(|why| TransferError::from(S3Error::Answer { place: location, why }))?)
    }

    /// One part, and the end of the upload for who is the last at it.
    fn send_next(&mut self, store: &S3Store, upload: &Arc<Upload>, number: u32) {
        let sent = self.retried(|stream, _| stream.send_part(store, upload, number));
        let ended = match upload.done(number, sent) {
            UploadEnd::NotYet => return,
            UploadEnd::Failed(error) => Err(error),
            UploadEnd::Sent => self.retried(|stream, tries| stream.complete(store, upload, tries)),
        };
        let ended = ended.or_else(|error| self.ended_elsewhere(store, upload, error));
        self.work.uploads.ended(upload);
        match ended {
            Ok((outcome, verified)) => {
                store.closed_upload(&upload.open.id);
                let bytes = (upload.source.file.bytes, upload.held_bytes());
                self.report(&upload.source.file, outcome, bytes, verified, upload.begun);
            }
            Err(error) => {
                self.work.failed(&upload.source.file, error);
                let aborted = abort(&self.work.abort_settings, store, upload);
                lock(&self.work.errors).extend(aborted.err());
            }
        }
    }

    fn send_part(&mut self, store: &S3Store, upload: &Upload, number: u32) -> Result<SentPart, PutError> {
        let (source, range) = (&upload.source, upload.range(number));
        let file = &source.file;
        let sums = self.sums_of(store, source, range.clone())?;
        if let Some(held) = upload.open.held.get(&number).filter(|held| held.sum == Some(sums.sum.value)) {
            let (tag, sum) = (held.tag.clone(), sums.sum.value);
            self.count_as_there(range.end - range.start);
            return Ok(SentPart { tag, sum, is_confirmed: true, was_held: true });
        }
        let lines = format!("Content-Length: {}\r\n{}", range.end - range.start, sums.lines(store));
        let (path, id) = (file.url.path(), encoded(upload.open.id.as_bytes()));
        let url = file.url.with_target(&format!("{path}?partNumber={number}&uploadId={id}"));
        let sent = self.send_body(store, &url, &lines, source, range);
        // A store that finds other bytes than those that were summed has them of a file that changes.
        let head = sent.or_else(|error| check_unchanged(source).and(Err(error)))?;
        let is_confirmed = sums.confirmed(&head, file)?;
        let tag = head.headers.text("etag").filter(|tag| !tag.is_empty()).map(String::from);
        let (place, why) = (store.place(&file.url), AnswerError::Lacks("ETag"));
        let tag = tag.ok_or_else(|| TransferError::from(S3Error::Answer { place, why }))?;
        Ok(SentPart { tag, sum: sums.sum.value, is_confirmed, was_held: false })
    }

    /// All parts are there: the store puts them together, unless they are not what was sent.
    fn complete(
        &mut self,
        store: &S3Store,
        upload: &Upload,
        tries: u32,
    ) -> Result<(TransferOutcome, Vec<String>), PutError> {
        let file = &upload.source.file;
        let location = store.place(&file.url);
        check_unchanged(&upload.source)?;
        let (sum, is_confirmed) = upload.sum();
        let body = upload.body(!store.is_plain());
        let payload = to_hex(&Sha256::digest(&body));
        let mut lines = format!(
            "Content-Length: {}\r\nContent-Type: application/xml\r\nx-amz-content-sha256: {payload}\r\n",
            body.len()
        );
        if !store.is_plain() {
            lines.push_str("If-None-Match: *\r\n");
        }
        if is_confirmed {
            lines.push_str(&format!("x-amz-checksum-type: FULL_OBJECT\r\n{}", sum_line(&sum)));
        }
        let url = upload_url(upload);
        let (of, asked) = ((store, &location), ("POST", &url, lines.as_str()));
        let answer = ask_text(&mut self.connection, self.settings, of, asked, body.as_bytes());
        let verified = || is_confirmed.then(|| ALGORITHM.name().to_string()).into_iter().collect();
        let there = |stream: &mut Self| stream.is_object_there(store, &upload.source);
        // The answer to an earlier try was lost: the upload is over, or its own object is in the way.
        let may_be_done = |error: &TransferError| {
            tries > 1 && (error.is_no_upload() || matches!(error, TransferError::Changed { .. }))
        };
        match answer {
            Ok(answer) => match parse_completed(&answer) {
                Ok(Ok(())) => Ok((TransferOutcome::Put, verified())),
                Ok(Err(fault)) => Err(S3Error::of_fault(location, fault).into()),
                Err(why) => Err(TransferError::from(S3Error::Answer { place: location, why }).into()),
            },
            Err(error) if may_be_done(&error) && there(self)? => {
                // Where somebody else has put the same, the parts are still there.
                lock(&self.work.errors).extend(abort(&self.work.abort_settings, store, upload).err());
                Ok((TransferOutcome::Put, verified()))
            }
            Err(TransferError::Changed { .. }) => Err(PutError::AlreadyThere { url: file.url.to_string() }),
            Err(error) => Err(error.into()),
        }
    }

    /// Another `put` of the same file may have gone on with this upload, and completed it.
    fn ended_elsewhere(
        &mut self,
        store: &S3Store,
        upload: &Upload,
        error: PutError,
    ) -> Result<(TransferOutcome, Vec<String>), PutError> {
        let is_over = matches!(&error, PutError::Client(error) if error.is_no_upload());
        match is_over && self.is_object_there(store, &upload.source)? {
            true => Ok((TransferOutcome::AlreadyThere, Vec::new())),
            false => Err(error),
        }
    }

    /// The same object is there already; another one is an error.
    fn is_object_there(&mut self, store: &S3Store, source: &OpenSource) -> Result<bool, PutError> {
        let OpenSource { file, before, .. } = source;
        let head = ask_again(&mut self.connection, self.settings, "HEAD", &file.url, "")?;
        match head.status {
            200 => {}
            404 => return Ok(false),
            // Who may only write gets no answer; the store itself refuses to replace one.
            403 if !store.is_plain() => return Ok(false),
            status => match probe(&mut self.connection, self.settings, store, &file.url) {
                Err(TransferError::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
                // It is there after all: another try looks whether it is the same.
                Ok(_) => {
                    let url = file.url.to_string();
                    return Err(TransferError::Overloaded { url, status, retry_after: None }.into());
                }
            },
        }
        let same_length = head.headers.content_length() == Ok(Some(file.bytes));
        let same_time = head.headers.text("x-amz-meta-mtime") == Some(modified(before).as_str());
        let same_sum = |stream: &mut Self| match ObjectSum::of_lines(&head.headers) {
            Some(sum) if sum.algorithm == ALGORITHM => {
                let own = stream.sums_of(store, source, 0..file.bytes)?;
                Ok::<_, PutError>(own.sum == sum)
            }
            _ => Ok(false),
        };
        match same_length && (same_time || same_sum(self)?) {
            true => Ok(true),
            false => Err(PutError::AlreadyThere { url: file.url.to_string() }),
        }
    }

    /// Reads what is sent next: its sums go before it.
    pub(super) fn sums_of(
        &mut self,
        store: &S3Store,
        OpenSource { file, content, .. }: &OpenSource,
        bytes: Range<u64>,
    ) -> Result<BodySums, PutError> {
        let (mut sum, mut sha256) = (ALGORITHM.begin(), store.signs_bodies().then(Sha256::new));
        let mut bytes = FileBytes::of(content, bytes, Afterwards::Cached);
        while !bytes.is_over() {
            if self.is_stopped() {
                return Err(PutError::Interrupted);
            }
            let next = self.tally.at_disk(|| bytes.next(CALL_BYTES)).map_err(|error| file.failed(error))?;
            sum.update(next);
            sha256.iter_mut().for_each(|sha256| sha256.update(next));
        }
        let payload = sha256.map_or_else(|| "UNSIGNED-PAYLOAD".into(), |sha256| to_hex(&sha256.finalize()));
        Ok(BodySums { sum: ObjectSum { algorithm: ALGORITHM, value: sum.finalize() }, payload })
    }

    /// A request with a part of a file as its body, and the head of its answer if that is a success.
    fn send_body(
        &mut self,
        store: &S3Store,
        url: &HttpUrl,
        lines: &str,
        OpenSource { file, content, .. }: &OpenSource,
        bytes: Range<u64>,
    ) -> Result<ResponseHead, PutError> {
        connected(&mut self.connection, self.settings, url)?.send(&[("PUT", url, lines)])?;
        let sent = self.body(file, content, bytes, None);
        let connection = self.connection.as_mut().ok_or_else(|| TransferError::closed(url))?;
        connection.count_tcp(self.tally);
        let head = match sent {
            Ok(()) => connection.answer(url)?,
            // It may have said why before it closed the connection.
            Err(PutError::Client(error @ TransferError::Broken { .. })) => match connection.answer(url) {
                Ok(head) if head.status >= 300 => head,
                _ => return Err(error.into()),
            },
            Err(error) => return Err(error),
        };
        if head.status != 200 {
            return Err(refusal(connection, store, store.place(&file.url), &head, url).into());
        }
        read_body(connection, &head, url)?;
        Ok(head)
    }
}

fn check_unchanged(OpenSource { file, content, before }: &OpenSource) -> Result<(), PutError> {
    let is_unchanged = FileId::of(content).map_err(|error| file.failed(error))? == FileId::new(before);
    if is_unchanged { Ok(()) } else { Err(PutError::Changed { path: file.path.clone() }) }
}

/// The sums of bytes that are sent.
pub(super) struct BodySums {
    pub(super) sum: ObjectSum,
    /// What the body is signed as.
    pub(super) payload: String,
}

impl BodySums {
    pub(super) fn lines(&self, store: &S3Store) -> String {
        let sum = if store.is_plain() { String::new() } else { sum_line(&self.sum) };
        let payload = store.access_key().map(|_| format!("x-amz-content-sha256: {}\r\n", self.payload));
        sum + &payload.unwrap_or_default()
    }

    /// The store says the same sum; false: it says none.
    pub(super) fn confirmed(&self, head: &ResponseHead, file: &SourceFile) -> Result<bool, PutError> {
        let said = ObjectSum::of_lines(&head.headers).filter(|said| said.algorithm == ALGORITHM);
        match said {
            Some(said) if said != self.sum => Err(PutError::Differs { url: file.url.to_string(), times: 1 }),
            said => Ok(said.is_some()),
        }
    }
}

pub(super) fn sum_line(sum: &ObjectSum) -> String {
    format!("x-amz-checksum-{}: {}\r\n", sum.algorithm.name(), sum.show())
}

/// When the file was changed last, as other tools keep it with an object: seconds with a fraction.
pub(super) fn modified(metadata: &Metadata) -> String {
    format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec())
}

fn modified_line(metadata: &Metadata) -> String {
    format!("x-amz-meta-mtime: {}\r\n", modified(metadata))
}
