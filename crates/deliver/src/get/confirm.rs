//! What came is compared with the server's: the sums of its blocks, and at the end whether it still has the same file. So
//! is a local file that may have the server's content already.

use super::journal::still_there;
use super::plan::WantedFile;
use super::remote::{Remote, RemoteFile, probe};
use super::stream::{GetStream, MOST_TRIES, POLL_INTERVAL};
use super::transfer::{FileTransfer, FileWork};
use crate::blocks::{BlockList, BlockRequest, BlockRun, block_bytes_of, most_sums};
use crate::client::ask::{ask_when_free, length, refuse};
use crate::client::{HttpConnection, TransferError};
use crate::patience::Retries;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, SystemTime};

impl GetStream<'_> {
    /// Compares sums beside the streams, over a connection of its own, so that none of them waits for the
    /// server to read its blocks. Where the server has no connection for it the streams do that, too, once
    /// they have time.
    pub(super) fn run_confirming(&mut self) {
        while !self.settings.stop.is_ended() && !self.plan.is_over() {
            let Some((_turn, file, piece)) = self.plan.next_confirm() else {
                self.plan.rest(POLL_INTERVAL);
                continue;
            };
            self.leave_lost_route();
            if self.connection.is_none() {
                match HttpConnection::open(self.settings, &file.remote.url) {
                    Ok(open) => self.connection = Some(open),
                    Err(error) => {
                        tracing::debug!(%error, "no connection for the sums alone");
                        let ended = file.give_back(FileWork::Confirm(piece));
                        return self.conclude(&file, ended, None);
                    }
                }
            }
            let first = self.confirm(&file, &piece);
            if matches!(first, Err(TransferError::Overloaded { .. } | TransferError::Broken { .. })) {
                let ended = file.give_back(FileWork::Confirm(piece));
                return self.conclude(&file, ended, None);
            }
            let first = first.map_err(|error| self.blamed(&file, error, 0));
            self.end(&file, FileWork::Confirm(piece), first);
        }
    }

    pub(super) fn confirm_next(&mut self) -> bool {
        let Some((_turn, file, piece)) = self.plan.next_confirm() else { return false };
        let confirmed = self.confirm(&file, &piece);
        let confirmed = confirmed.map_err(|error| self.blamed(&file, error, 0));
        self.end(&file, FileWork::Confirm(piece), confirmed);
        true
    }

    /// Asks for the server's sums of these blocks, and compares.
    fn confirm(&mut self, file: &FileTransfer, piece: &BlockRun) -> Result<(), TransferError> {
        let mut first = piece.start;
        while first < piece.end {
            let count = (piece.end - first).min(most_sums(file.block_bytes));
            let asked = BlockRequest { block_bytes: file.block_bytes, first, count };
            let again_bytes = file.compare(first, &self.sums(&file.remote, asked)?)?;
            if again_bytes > 0 {
                self.finished.came_again(&file.remote.url, again_bytes);
                self.plan.uncount(again_bytes);
            }
            first += count;
        }
        Ok(())
    }

    /// The server's sums of these blocks.
    fn sums(&mut self, remote: &RemoteFile, request: BlockRequest) -> Result<Vec<u64>, TransferError> {
        let url = &remote.url;
        let sums_url = url.with_target(&format!("{}?{}", url.path(), request.query()));
        let tag = remote.entity_tag.as_deref();
        let lines = tag.map(|tag| format!("If-Match: {tag}\r\n")).unwrap_or_default();
        let head = ask_when_free(&mut self.connection, self.settings, "GET", &sums_url, &lines)?;
        refuse(&head, &sums_url)?;
        let bytes = length(&head, &sums_url)?;
        let no_length = || TransferError::NoLength { url: sums_url.to_string() };
        let body = self.connection.as_mut().ok_or_else(no_length)?.read_text(Some(bytes), &sums_url)?;
        BlockList::parse(&body, request).map_err(|why| TransferError::Blocks { url: url.to_string(), why })
    }

    /// A local file that has the server's content, by the sums of its blocks, gets the server's time and stays. Each
    /// question is for twice as many, so a difference is found early.
    pub(super) fn adopt_same_content(
        &mut self,
        wanted: &WantedFile,
        remote: &RemoteFile,
    ) -> Result<bool, TransferError> {
        let place = &wanted.destination;
        let is_as_long = |here: std::fs::Metadata| here.is_file() && here.len() == remote.bytes;
        let may_be = self.finished.keeps_same && remote.has_sums;
        if !may_be || !std::fs::symlink_metadata(place).is_ok_and(is_as_long) {
            return Ok(false);
        }
        let Some((modified, here)) = remote.modified().zip(File::open(place).ok()) else { return Ok(false) };
        let block_bytes = block_bytes_of(remote.bytes);
        let (mut first, mut most, blocks) = (0, 1, remote.bytes.div_ceil(block_bytes));
        while first < blocks {
            let asked = BlockRequest { block_bytes, first, count: most.min(blocks - first) };
            let of_server: BTreeMap<u64, u64> = (first..).zip(self.sums(remote, asked)?).collect();
            let (lengths, stop) = ((block_bytes, remote.bytes), self.settings.stop);
            let own = self.tally.at_disk(|| still_there(&here, &of_server, lengths, None, stop));
            self.settings.check_stop()?;
            if own.map_or(0, |own| own.len() as u64) < asked.count {
                return Ok(false);
            }
            first += asked.count;
            most = (2 * most).min(most_sums(block_bytes));
        }
        Ok(here.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(modified)).is_ok())
    }

    /// The server has the same file at the end as at the beginning.
    pub(super) fn check_unchanged(&mut self, file: &FileTransfer) -> Result<(), TransferError> {
        self.leave_lost_route();
        let (remote, mut retries) = (&file.remote, Retries::new(MOST_TRIES, Duration::ZERO));
        loop {
            let error = match probe(&mut self.connection, self.settings, &remote.url) {
                Ok(Remote::File(now)) if now.is_same(remote) => return Ok(()),
                Ok(_) => self.blamed(file, TransferError::Changed { url: remote.url.to_string() }, 0),
                Err(error) => error,
            };
            tracing::debug!(%error, "the server did not confirm that the file is unchanged");
            self.connection = None;
            let wait = retries.failed(error.may_pass(), false, error.retry_after());
            if wait.is_none_or(|wait| self.plan.rest(wait)) {
                return Err(error);
            }
        }
    }
}
