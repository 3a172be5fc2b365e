//! The servers of a file on its way: which may be asked for it, and what becomes of it where they are gone.

use super::{Ended, FileTransfer};
use crate::get::error::GetError;
use crate::get::journal::BlockMark;
use crate::get::pieces::{Piece, pieces_of};
use crate::get::remote::RemoteFile;
use linerate_system::lock;
use std::collections::BTreeSet;

impl FileTransfer {
    /// A server may be asked for it.
    pub(in crate::get) fn has(&self, server: usize) -> bool {
        let has_parts = self.remote.has_ranges || server == self.reference;
        has_parts && self.copies.get(server).is_some_and(|copy| !copy.is_refused())
    }

    /// A stream of this server is to compare its copy, which nobody has done yet; it calls `was_looked_at` of that
    /// afterwards.
    pub(in crate::get) fn next_comparison(&self, server: usize) -> bool {
        let is_new = self.has(server) && self.copy(server).is_none();
        is_new && !lock(&self.progress).missing.is_empty() && self.copies[server].look()
    }

    /// No server that has it is left, or none whose sums are needed; for the last one who could have had it.
    pub(in crate::get) fn end_unservable(&self, lives: impl Fn(usize) -> bool) -> Ended {
        let mut progress = lock(&self.progress);
        if progress.is_over || progress.at_work > 0 || progress.error.is_some() {
            return Ended::NotYet;
        }
        let url = self.remote.url.to_string();
        let has_it = (0..self.copies.len()).any(|server| lives(server) && self.has(server));
        let is_fetched = progress.missing.is_empty();
        if !is_fetched && !has_it {
            progress.error = Some(GetError::NoServer { url });
        } else if is_fetched
            && !progress.unconfirmed.is_empty()
            && self.confirmable(&progress, &lives).is_none()
        {
            progress.error = Some(GetError::NoSums { url });
        }
        if progress.error.is_some() { progress.ended() } else { Ended::NotYet }
    }

    /// Bytes of a piece that are there.
    pub(in crate::get) fn bytes_there_of(&self, piece: &Piece) -> u64 {
        let progress = lock(&self.progress);
        progress.blocks.range(piece.clone()).map(|(block, _)| self.block_length(*block)).sum()
    }

    /// What a server says of its copy, once that was compared.
    pub(in crate::get) fn copy(&self, server: usize) -> Option<&RemoteFile> {
        if server == self.reference { Some(&self.remote) } else { self.copies.get(server)?.same() }
    }

    /// Mirrors whose blocks are among those that came since this start.
    pub(in crate::get) fn mirrors_used(&self) -> BTreeSet<usize> {
        let servers: BTreeSet<usize> =
            lock(&self.progress).blocks.values().filter_map(|block| block.server).collect();
        servers.into_iter().filter(|server| *server != self.reference).collect()
    }

    /// Blocks of a server are not to be trusted, though the file seemed whole: they come again. Their bytes.
    pub(in crate::get) fn void_from(&self, server: usize) -> Result<u64, GetError> {
        let mut progress = lock(&self.progress);
        let of_server = progress.blocks.iter().filter(|(_, block)| block.server == Some(server));
        let void: Vec<(u64, u64)> = of_server.map(|(block, own)| (*block, own.sum)).collect();
        for (block, _) in &void {
            progress.blocks.remove(block);
        }
        progress.missing.extend(pieces_of(void.iter().map(|(block, _)| *block)));
        progress.is_over &= void.is_empty();
        drop(progress);
        self.note(void.iter().copied(), BlockMark::Void)?;
        Ok(void.iter().map(|(block, _)| self.block_length(*block)).sum())
    }
}
