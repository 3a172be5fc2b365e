//! Small files: each comes in one answer, into memory, and is asked for while those before it are on their
//! way.

use super::finished_files::LandedFile;
use super::part::PartFile;
use super::plan::WantedFile;
use super::remote::{RemoteFile, refuse_answer};
use super::stream::{GetStream, is_small};
use crate::blocks::{BlockSum, HASH, SMALL_BYTES, parse_sum};
use crate::client::TransferError;
use crate::client::ask::{ask_when_free, length};
use crate::http::head::ResponseHead;
use linerate_system::attributes::write_with_holes;
use linerate_system::clock;
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// More are asked for when no more than this are on their way.
const ASK_AHEAD_BELOW: usize = 16;

/// The header line by which `linerate serve` sums a file up before it sends it.
fn sum_line(has_sums: bool) -> &'static str {
    if has_sums { "Linerate-Sum: xxh3-64\r\n" } else { "" }
}

/// Compares what came with each sum that the server has of the file; an error where one differs. Returns the name of one of
/// them, none where the server has none.
fn compared_sums(
    head: &ResponseHead,
    remote: &RemoteFile,
    body: &[u8],
) -> Result<Option<&'static str>, TransferError> {
    let by_sum = remote.sum.map(|sum| sum.checked(body, &remote.url)).transpose()?;
    let by_md5 = remote.md5.as_ref().map(|md5| md5.checked(body, &remote.url)).transpose()?;
    let sum = head.headers.text("linerate-sum").and_then(parse_sum);
    let Some(sum) = sum else { return Ok(by_sum.or(by_md5)) };
    #[cfg(test)]
    planted!(SmallSumIgnored, return Ok(None));
    let mut own = BlockSum::begin();
    own.add(body);
    match own.end() == sum {
        true => Ok(Some(HASH)),
        false => Err(TransferError::Differs { url: remote.url.to_string(), block: 0, times: 1 }),
    }
}

impl GetStream<'_> {
    /// Fetches these files, and further small ones until there are none. A server that keeps its connections is asked for
    /// several ahead; where that fails the next is asked for alone (RFC 9112 section 9.3.2).
    pub(super) fn begin_small(&mut self, files: Vec<WantedFile>) {
        let mut rest = self.absent(files);
        let mut asked = 0;
        loop {
            if self.routes.is_lost(self.route) {
                // Streams of other routes have them.
                self.connection = None;
                for wanted in rest {
                    self.plan.put_back(wanted);
                    self.plan.file_begun();
                }
                return;
            }
            if rest.len() <= ASK_AHEAD_BELOW && !self.settings.stop.is_ended() {
                let more = self.plan.next_small(is_small);
                rest.extend(self.absent(more));
            }
            if asked <= ASK_AHEAD_BELOW {
                asked += self.ask_ahead(rest.range(asked..));
            }
            let Some(next) = rest.pop_front() else { return };
            let came = (asked > 0).then(|| self.take_next(&next));
            asked = asked.saturating_sub(1);
            match came {
                Some(Ok(())) => {}
                // Its answer was read whole: those behind it still come. Another try would fail as well.
                Some(Err(error)) if error.is_of_disk() => self.finished.failed(&next, error, 0),
                came => {
                    // What was asked for behind it is lost with the connection.
                    if came.is_some() {
                        self.connection = None;
                        asked = 0;
                    }
                    match self.settings.stop.is_ended() {
                        true => self.finished.failed(&next, TransferError::Interrupted, 0),
                        false => self.begin(next),
                    }
                }
            }
            self.plan.file_begun();
        }
    }

    /// The answer that is the next on the connection.
    fn take_next(&mut self, wanted: &WantedFile) -> Result<(), TransferError> {
        let begun = clock::now();
        let Some(connection) = self.connection.as_mut() else {
            return Err(TransferError::closed(&wanted.url));
        };
        let head = connection.answer(&wanted.url)?;
        self.take(wanted, None, &head, begun)
    }

    /// Those of the files that are not at their places; the others are reported.
    fn absent(&self, files: Vec<WantedFile>) -> VecDeque<WantedFile> {
        let is_absent = |wanted: &WantedFile| {
            let there = self.accept_existing(wanted, wanted.bytes.unwrap_or(0), wanted.modified);
            let is_absent = matches!(there, Ok(false));
            if let Err(error) = there {
                self.finished.failed(wanted, error, 0);
            }
            if !is_absent {
                self.plan.file_begun();
            }
            is_absent
        };
        files.into_iter().filter(is_absent).collect()
    }

    /// Sends the requests for all of them, or for none: how many.
    fn ask_ahead<'w>(&mut self, files: impl Iterator<Item = &'w WantedFile> + Clone) -> usize {
        let Some(connection) = self.connection.as_mut() else { return 0 };
        let serves = |wanted: &&WantedFile| connection.serves_ahead(&wanted.url);
        let requests: Vec<_> =
            files.take_while(serves).map(|wanted| ("GET", &wanted.url, sum_line(wanted.has_sums))).collect();
        match connection.send(&requests) {
            Ok(()) => requests.len(),
            Err(_) => 0,
        }
    }

    /// Asks for a file alone; its bytes come in one answer, into one buffer, and go to the disk in one write.
    pub(super) fn fetch_small(
        &mut self,
        wanted: &WantedFile,
        known: Option<RemoteFile>,
    ) -> Result<(), TransferError> {
        let url = known.as_ref().map_or(&wanted.url, |known| &known.url);
        if known.is_none() && self.accept_existing(wanted, wanted.bytes.unwrap_or(0), wanted.modified)? {
            return Ok(());
        }
        let begun = clock::now();
        let lines = sum_line(wanted.has_sums || known.as_ref().is_some_and(|known| known.has_sums));
        let head = ask_when_free(&mut self.connection, self.settings, "GET", url, lines)?;
        self.take(wanted, known.as_ref(), &head, begun)
    }

    /// The body that follows a head, into its part.
    fn take(
        &mut self,
        wanted: &WantedFile,
        known: Option<&RemoteFile>,
        head: &ResponseHead,
        begun: Instant,
    ) -> Result<(), TransferError> {
        let url = known.map_or(&wanted.url, |known| &known.url);
        refuse_answer(&mut self.connection, self.settings, head, url)?;
        let bytes = length(head, url)?;
        let remote = match self.settings.store_of(url) {
            Some(_) => RemoteFile::object(url, head, bytes),
            None => RemoteFile::new(url, head, bytes),
        };
        self.plan.server.learn(remote.rate_limit);
        let is_other = known.is_some_and(|known| !known.is_same(&remote));
        if is_other || bytes > SMALL_BYTES || head.status != 200 {
            return Err(TransferError::Changed { url: url.to_string() });
        }
        let Some(connection) = self.connection.as_mut() else { return Err(TransferError::closed(url)) };
        let windows = &self.plan.server.windows;
        if !std::mem::replace(&mut self.receives, true) {
            windows.stream_started();
        }
        let body = connection.read_whole(Some(bytes), url, |bytes| windows.add_bytes(bytes))?;
        let verified =
            compared_sums(head, &remote, &body).inspect_err(|_| self.finished.came_again(url, bytes))?;
        self.tally.add_moved(bytes);
        self.routes.add_bytes(self.route, bytes, clock::since(begun));
        self.routes.succeeded(self.route);
        self.tally.paced(|| self.plan.add_bytes(bytes));
        let part = self.tally.at_disk(|| {
            let part = PartFile::fleeting(&wanted.destination)?;
            let written = match wanted.has_holes() {
                true => part.file.set_len(bytes).and_then(|()| write_with_holes(&part.file, &body, 0)),
                false => part.file.write_all_at(&body, 0),
            };
            written.inspect_err(|_| part.discard()).map_err(|error| part.failed(error, bytes))?;
            Ok::<_, TransferError>(part)
        });
        let part = part.inspect_err(|_| self.plan.uncount(bytes))?;
        let landed =
            LandedFile { wanted: wanted.clone(), part, bytes, modified: remote.modified(), verified, begun };
        // With the last of a batch all of it goes to the disk.
        self.tally.at_disk(|| self.finished.add_small(landed));
        Ok(())
    }
}
