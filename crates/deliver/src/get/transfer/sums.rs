//! The blocks of a file on its way, held against the sums that servers have of them. What the first server says decides.
//! Once it is gone its mirrors' sums can show that blocks are right, and never that another server's are wrong; what a
//! mirror says of what it sent itself shows no more than that it came as it was sent.

use super::{BlockProgress, ComparedBlocks, FileTransfer};
use crate::get::error::GetError;
use crate::get::journal::BlockMark;
use crate::get::pieces::Piece;
use linerate_system::lock;

/// Blocks that differ from the server's before a file is given up.
const MOST_DIFFERENT: u32 = 4;

impl FileTransfer {
    /// The next blocks of which the sums are to be compared, and the server whose sums; as
    /// [`FileTransfer::next_fetch`].
    pub(in crate::get) fn next_confirm(&self, lives: impl Fn(usize) -> bool) -> Option<(Piece, usize)> {
        let mut progress = lock(&self.progress);
        if progress.is_over || progress.error.is_some() {
            return None;
        }
        let (place, now, server) = self.confirmable(&progress, &lives)?;
        let whole = progress.unconfirmed.swap_remove(place);
        let rest = [whole.start..now.start, now.end..whole.end];
        progress.unconfirmed.extend(rest.into_iter().filter(|piece| !piece.is_empty()));
        progress.at_work += 1;
        Some((now, server))
    }

    /// Blocks that wait for their sums, by their place in the list, and a server whose sums decide about all of them:
    /// the first one as long as it lives, then one that has the same, better one that did not send them.
    pub(super) fn confirmable(
        &self,
        progress: &BlockProgress,
        lives: &impl Fn(usize) -> bool,
    ) -> Option<(usize, Piece, usize)> {
        let most = crate::blocks::most_sums(self.block_bytes);
        let has_sums = |server: &usize| {
            lives(*server) && self.has(*server) && self.copy(*server).is_some_and(|copy| copy.has_sums)
        };
        let servers = [self.reference].into_iter().chain(0..self.copies.len()).filter(has_sums);
        let servers: Vec<usize> = servers.collect();
        let found = |(of_own, server): (bool, usize)| {
            let decides = |block: &u64| self.decides(progress, server, *block, of_own);
            progress.unconfirmed.iter().enumerate().rev().find_map(|(place, piece)| {
                let start = piece.clone().find(decides)?;
                let most = piece.end.min(start + most);
                let end = (start..most).find(|block| !decides(block));
                Some((place, start..end.unwrap_or(most), server))
            })
        };
        let each = |of_own| servers.iter().map(move |server| (of_own, *server));
        each(false).chain(each(true)).find_map(found)
    }

    /// A mirror's own blocks need more than its own sums, unless its copy was known to be the same without any: then those
    /// do, where nobody else has some (`of_own`).
    fn decides(&self, progress: &BlockProgress, server: usize, block: u64, of_own: bool) -> bool {
        let is_own = progress.blocks.get(&block).is_some_and(|own| own.server == Some(server));
        server == self.reference || !is_own || of_own && self.copies[server].is_known()
    }

    /// A server's sums of blocks from `first` on: those that differ have to come again.
    pub(in crate::get) fn compare(
        &self,
        first: u64,
        sums: &[u64],
        server: usize,
    ) -> Result<ComparedBlocks, GetError> {
        let mut progress = lock(&self.progress);
        let (mut wrong, mut compared) = (Vec::new(), ComparedBlocks::default());
        let (is_mirror, mut is_verified) = (server != self.reference, true);
        for (block, sum) in (first..).zip(sums) {
            let Some(own) = progress.blocks.get(&block) else { continue };
            let is_own = own.server == Some(server);
            match own.sum == *sum {
                true => is_verified &= !(is_mirror && is_own),
                false if is_mirror && !is_own => drop(compared.disputed.get_or_insert(block)),
                false => wrong.push((block, *own)),
            }
        }
        progress.is_verified &= is_verified;
        let mut of_server = None;
        for (block, own) in &wrong {
            progress.blocks.remove(block);
            progress.missing.push(*block..block + 1);
            compared.again_bytes += self.block_length(*block);
            match own.server {
                // What an earlier start left says nothing of the server, nor of the way.
                None => {}
                Some(from) if from == server => {
                    progress.different += 1;
                    of_server.get_or_insert(*block);
                }
                // What a mirror sent says nothing of the file: others have it.
                Some(mirror) => drop(compared.differing.entry(mirror).or_insert(*block)),
            }
        }
        let times = progress.different;
        drop(progress);
        self.note(wrong.iter().map(|(block, own)| (*block, own.sum)), BlockMark::Void)?;
        match of_server {
            Some(block) if times > MOST_DIFFERENT => {
                Err(GetError::Differs { url: self.remote.url.to_string(), block, times })
            }
            _ => Ok(compared),
        }
    }

    /// Once it is whole: all its blocks were compared with the sums of a server that had not sent them itself, or is the
    /// first one.
    pub(in crate::get) fn is_verified(&self) -> bool {
        self.remote.has_sums && lock(&self.progress).is_verified
    }
}

#[cfg(test)]
mod tests;
