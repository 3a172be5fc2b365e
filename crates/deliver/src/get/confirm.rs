//! What came is held against the server: its sums of the blocks, and at the end whether it has the same file still.

use super::client::HttpConnection;
use super::error::GetError;
use super::pieces::Piece;
use super::remote::{Remote, ask_when_free, length, probe, refuse};
use super::stream::{GetStream, LOOK};
use super::transfer::{FileTransfer, Work};
use crate::blocks::{BlockList, BlockRequest};

impl GetStream<'_> {
    /// Compares sums beside the streams, over a connection of its own, so that none of them waits for the
    /// server to read its blocks. Where the server has no connection for it the streams do that, too, once
    /// they have time.
    pub(super) fn run_confirming(&mut self) {
        while !self.settings.stop.is_ended() && !self.plan.is_over() {
            let plan = self.plan;
            let next = || Some((plan.sums_turn()?, plan.next_confirm()?));
            let Some((_turn, (file, piece))) = next() else {
                plan.rest(LOOK);
                continue;
            };
            self.leave_lost_route();
            if self.connection.is_none() {
                match HttpConnection::open(self.settings, &file.remote.url) {
                    Ok(open) => self.connection = Some(open),
                    Err(error) => {
                        tracing::debug!(%error, "no connection for the sums alone");
                        let ended = file.give_back(Work::Confirm(piece));
                        return self.conclude(&file, ended, false);
                    }
                }
            }
            let first = self.confirm(&file, &piece);
            if matches!(first, Err(GetError::Overloaded { .. } | GetError::Broken { .. })) {
                let ended = file.give_back(Work::Confirm(piece));
                return self.conclude(&file, ended, false);
            }
            let first = first.map_err(|error| self.blamed(&file, error, 0));
            self.end(&file, Work::Confirm(piece), first);
        }
    }

    pub(super) fn confirm_next(&mut self) -> bool {
        let plan = self.plan;
        let next = || Some((plan.sums_turn()?, plan.next_confirm()?));
        let Some((_turn, (file, piece))) = next() else { return false };
        let confirmed = self.confirm(&file, &piece);
        let confirmed = confirmed.map_err(|error| self.blamed(&file, error, 0));
        self.end(&file, Work::Confirm(piece), confirmed);
        true
    }

    /// Asks for the server's sums of these blocks, and compares.
    fn confirm(&mut self, file: &FileTransfer, piece: &Piece) -> Result<(), GetError> {
        let mut first = piece.start;
        while first < piece.end {
            let count = (piece.end - first).min(crate::blocks::most_sums(file.block_bytes));
            let asked = BlockRequest { block_bytes: file.block_bytes, first, count };
            let again_bytes = file.compare(first, &self.sums(file, asked)?)?;
            if again_bytes > 0 {
                tracing::warn!(
                    url = %file.remote.url, bytes = again_bytes, "blocks differ from the server's and come again"
                );
                self.comes_again(again_bytes);
            }
            first += count;
        }
        Ok(())
    }

    /// The server's sums of these blocks.
    fn sums(&mut self, file: &FileTransfer, asked: BlockRequest) -> Result<Vec<u64>, GetError> {
        let url = &file.remote.url;
        let sums_url = url.with_target(&format!("{}?{}", url.path(), asked.query()));
        let tag = file.remote.entity_tag.as_deref();
        let lines = tag.map(|tag| format!("If-Match: {tag}\r\n")).unwrap_or_default();
        let head = ask_when_free(&mut self.connection, self.settings, "GET", &sums_url, &lines)?;
        refuse(&head, &sums_url)?;
        let bytes = length(&head, &sums_url)?;
        let no_length = || GetError::NoLength { url: sums_url.to_string() };
        let body = self.connection.as_mut().ok_or_else(no_length)?.read_text(Some(bytes), &sums_url)?;
        BlockList::parse(&body, asked).map_err(|why| GetError::Blocks { url: url.to_string(), why })
    }

    /// The server has the same file at the end as at the beginning.
    pub(super) fn is_unchanged(&mut self, file: &FileTransfer) -> Result<(), GetError> {
        self.leave_lost_route();
        let (remote, mut failures) = (&file.remote, 0);
        loop {
            match probe(&mut self.connection, self.settings, &remote.url) {
                Ok(Remote::File(now)) if now.is_same(remote) => return Ok(()),
                Ok(other) => {
                    let address = self.connection.as_ref().map(HttpConnection::address);
                    let is_reference = address.is_none_or(|taken| Some(taken.address) == remote.address);
                    if is_reference || !address.is_some_and(|taken| taken.differs()) {
                        return Err(GetError::Changed { url: remote.url.to_string() });
                    }
                    tracing::debug!(?other, "another address of the name has another copy");
                    self.connection = None;
                }
                Err(error) => {
                    self.connection = None;
                    failures += 1;
                    if !error.may_pass() || failures >= 4 || self.wait(failures) {
                        return Err(error);
                    }
                }
            }
        }
    }
}
