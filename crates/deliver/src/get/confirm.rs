//! What came is held against the server: its sums of the blocks, and at the end whether it has the same file still.

use super::client::HttpConnection;
use super::copies::CopyDifference;
use super::error::GetError;
use super::pieces::Piece;
use super::remote::{Remote, RemoteFile, ask_when_free, length, probe, refuse};
use super::stream::{GetStream, LOOK};
use super::transfer::{FileTransfer, Work};
use crate::blocks::{BlockList, BlockRequest};
use std::sync::atomic::Ordering;

impl GetStream<'_> {
    /// Compares sums beside the streams, over a connection of its own, so that none of them waits for the
    /// server to read its blocks. Where the server has no connection for it the streams do that, too, once
    /// they have time.
    pub(super) fn run_confirming(&mut self) {
        while !self.settings.stop.load(Ordering::Relaxed) && !self.plan.is_over() {
            let (ways, plan) = (self.ways, self.plan);
            let next = || Some((plan.sums_turn()?, plan.next_confirm(|server| ways.lives(server))?));
            let Some((_turn, (file, piece, server))) = next() else {
                std::thread::sleep(LOOK);
                continue;
            };
            let Some(way) = ways.way_to(server, self.way) else {
                // It was left out just now: another server's sums may decide about other blocks.
                let ended = file.give_back(Work::Confirm(piece));
                self.conclude(&file, ended, false);
                continue;
            };
            if way != self.way {
                (self.way, self.settings, self.connection) = (way, ways.settings(way), None);
            }
            if self.connection.is_none() {
                let url = &file.copy(server).unwrap_or(&file.remote).url;
                match HttpConnection::open(self.settings, url) {
                    Ok(open) => self.connection = Some(open),
                    Err(error) => {
                        tracing::debug!(%error, "no connection for the sums alone");
                        let ended = file.give_back(Work::Confirm(piece));
                        return self.conclude(&file, ended, false);
                    }
                }
            }
            let first = self.confirm(&file, &piece, way);
            if matches!(first, Err(GetError::Overloaded { .. } | GetError::Broken { .. })) {
                let ended = file.give_back(Work::Confirm(piece));
                return self.conclude(&file, ended, false);
            }
            let first = first.map_err(|error| self.blamed(&file, error, way, 0));
            self.end(&file, Work::Confirm(piece), first);
        }
    }

    pub(super) fn confirm_next(&mut self) -> bool {
        let (ways, plan) = (self.ways, self.plan);
        let next = || Some((plan.sums_turn()?, plan.next_confirm(|server| ways.lives(server))?));
        let Some((_turn, (file, piece, server))) = next() else {
            return false;
        };
        let Some(way) = ways.way_to(server, self.way) else {
            let ended = file.give_back(Work::Confirm(piece));
            self.conclude(&file, ended, false);
            return true;
        };
        let confirmed = self.confirm(&file, &piece, way);
        let confirmed = confirmed.map_err(|error| self.blamed(&file, error, way, 0));
        self.end(&file, Work::Confirm(piece), confirmed);
        true
    }

    /// Asks for the server's sums of these blocks, and compares.
    fn confirm(&mut self, file: &FileTransfer, piece: &Piece, way: usize) -> Result<(), GetError> {
        let server = self.ways.server_of(way);
        let remote = file.copy(server).unwrap_or(&file.remote);
        let mut first = piece.start;
        while first < piece.end {
            let count = (piece.end - first).min(crate::blocks::most_sums(file.block_bytes));
            let asked = BlockRequest { block_bytes: file.block_bytes, first, count };
            let sums = self.sums(remote, asked, way)?;
            let compared = file.compare(first, &sums, server)?;
            if compared.again_bytes > 0 {
                let bytes = compared.again_bytes;
                tracing::warn!(url = %remote.url, bytes, "blocks differ from the server's and come again");
                self.comes_again(bytes);
            }
            for (mirror, block) in compared.differing {
                self.leave_out_differing(file, mirror, block);
            }
            if let Some(block) = compared.disputed {
                let why = CopyDifference::SumOfBlock { block };
                return Err(GetError::OtherAtMirror { url: remote.url.to_string(), why });
            }
            first += count;
        }
        Ok(())
    }

    /// What a server says of these blocks.
    pub(super) fn sums(
        &mut self,
        remote: &RemoteFile,
        asked: BlockRequest,
        way: usize,
    ) -> Result<Vec<u64>, GetError> {
        let url = &remote.url;
        let sums_url = url.with_target(&format!("{}?{}", url.path(), asked.query()));
        let tag = remote.entity_tag.as_deref();
        let lines = tag.map(|tag| format!("If-Match: {tag}\r\n")).unwrap_or_default();
        let (connection, settings) = self.asking(way);
        let head = ask_when_free(connection, settings, "GET", &sums_url, &lines)?;
        refuse(&head, &sums_url)?;
        let bytes = length(&head, &sums_url)?;
        let no_length = || GetError::NoLength { url: sums_url.to_string() };
        let body = connection.as_mut().ok_or_else(no_length)?.read_text(Some(bytes), &sums_url)?;
        BlockList::parse(&body, asked).map_err(|why| GetError::Blocks { url: url.to_string(), why })
    }

    /// The server has the same file at the end as at the beginning; where it does not answer any more, another that
    /// has the same.
    pub(super) fn is_unchanged(&mut self, file: &FileTransfer) -> Result<(), GetError> {
        let mut said = Err(GetError::NoServer { url: file.remote.url.to_string() });
        for server in self.witnesses(file) {
            said = self.is_unchanged_at(file, server);
            if !said.as_ref().is_err_and(GetError::may_pass) {
                break;
            }
        }
        said
    }

    fn is_unchanged_at(&mut self, file: &FileTransfer, server: usize) -> Result<(), GetError> {
        let remote = file.copy(server).unwrap_or(&file.remote);
        let way = self.ways.way_to(server, self.way).unwrap_or(self.way);
        let mut failures = 0;
        loop {
            let (connection, settings) = self.asking(way);
            let looked = probe(connection, settings, &remote.url);
            match looked {
                Ok(Remote::File(now)) if now.is_same(remote) => return Ok(()),
                Ok(other) => {
                    let address = connection.as_ref().map(HttpConnection::address);
                    let is_reference = address.is_none_or(|taken| Some(taken.address) == remote.address);
                    if is_reference || !address.is_some_and(|taken| taken.differs()) {
                        return Err(GetError::Changed { url: remote.url.to_string() });
                    }
                    tracing::debug!(?other, "another address of the name has another copy");
                    *connection = None;
                }
                Err(error) => {
                    *connection = None;
                    failures += 1;
                    if !error.may_pass() || failures >= 4 || self.wait(failures) {
                        return Err(error);
                    }
                }
            }
        }
    }
}
