//! Blocks that are here already, read again: what an earlier start left of a file by its journal, and a file in whose
//! place another is to come by the server's sums.

use super::pieces::block_length;
use crate::blocks::BlockSum;
use crate::s3::BlockSums;
use linerate_system::buffers::Pool;
use linerate_system::stop::Stop;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a read of what is there already.
const CHECK_BYTES: usize = 1 << 20;

/// Those of these blocks, by their sums, that a file has: of a part and its journal a power cut may have taken any.
pub(super) fn still_there(
    file: &File,
    blocks: &BTreeMap<u64, u64>,
    (block_bytes, bytes): (u64, u64),
    object_sums: Option<&BlockSums>,
    stop: &Stop,
) -> io::Result<BTreeMap<u64, u64>> {
    #[cfg(test)]
    planted!(JournalBelieved, return Ok(blocks.clone()));
    let mut pool = Pool::new(1, CHECK_BYTES)?;
    let mut there = BTreeMap::new();
    let Some(mut lease) = pool.take() else { return Ok(there) };
    for (block, sum) in blocks {
        if stop.is_ended() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (mut at, end) =
            (block * block_bytes, block * block_bytes + block_length(*block, block_bytes, bytes));
        let (mut own, mut of_object) = (BlockSum::begin(), object_sums.map(BlockSums::begin));
        while at < end {
            let most = (end - at).min(CHECK_BYTES as u64) as usize;
            // A file that is shorter lacks the block.
            match file.read_at(&mut lease.bytes_mut()[..most], at) {
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    own.add(&lease.bytes()[..read]);
                    of_object.iter_mut().for_each(|sum| sum.update(&lease.bytes()[..read]));
                    at += read as u64;
                }
            }
        }
        if at == end && own.end() == *sum {
            there.insert(*block, *sum);
            object_sums.zip(of_object).inspect(|(sums, own)| sums.add(*block, own));
        }
    }
    Ok(there)
}
