//! The file of a tile, opened for a worker: past the page cache where its file system allows.

use crate::geometry::TileId;
use crate::movie::Movie;
use linerate_system::buffers::Pool;
use linerate_system::file::{lies_in_memory, open_to_read};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// O_DIRECT wants whole logical sectors of the device, at most a page everywhere.
pub(crate) const ALIGNMENT_BYTES: u64 = 4096;

/// One tile's file.
#[derive(Debug)]
pub(crate) struct TileFile {
    pub file: File,
    /// For errors.
    pub label: String,
}

impl TileFile {
    /// Opens the file of a tile, or says what is wrong with it.
    pub(crate) fn open(movie: &Movie, tile: TileId) -> Result<TileFile, String> {
        if let Some(problem) = movie.problem_of(tile) {
            return Err(problem);
        }
        let path = movie.tile_path(tile);
        let label = path.display().to_string();
        let wrong = |error: std::io::Error| format!("tile {tile}: {label}: cannot be read: {error}");
        let buffered = open_to_read(&path, false).map_err(wrong)?;
        // What lies in memory has no device to be read from directly.
        let direct = if lies_in_memory(&buffered) { None } else { open_to_read(&path, true).ok() };
        // Some file systems refuse O_DIRECT at open and others at the first read: both are tried.
        Ok(TileFile { file: direct.filter(reads).unwrap_or(buffered), label })
    }
}

fn reads(file: &File) -> bool {
    let block = Pool::new(1, ALIGNMENT_BYTES as usize).ok().and_then(|mut pool| pool.take());
    block.is_some_and(|mut block| file.read_at(block.bytes_mut(), 0).is_ok())
}

/// The bytes to read so that a frame is among them and O_DIRECT takes it: whole blocks of 4 KiB around it.
pub(crate) fn read_range(frame: u32, frame_bytes: usize) -> Range<u64> {
    let start = u64::from(frame) * frame_bytes as u64;
    let end = start + frame_bytes as u64;
    start / ALIGNMENT_BYTES * ALIGNMENT_BYTES..end.next_multiple_of(ALIGNMENT_BYTES)
}

/// Memory for any frame read like this.
pub(crate) fn slot_bytes(frame_bytes: usize) -> usize {
    let block = ALIGNMENT_BYTES as usize;
    // A frame that begins anywhere may lie across one block more than it is long.
    let whole = frame_bytes.next_multiple_of(block);
    if frame_bytes.is_multiple_of(block) { whole } else { whole + block }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_lies_within_what_is_read(frame in 0u32..1_000_000, bytes in 1usize..20_000_000) {
            let range = read_range(frame, bytes);
            let start = u64::from(frame) * bytes as u64;
            prop_assert!(range.start <= start && range.end >= start + bytes as u64);
            prop_assert!(range.start.is_multiple_of(4096) && range.end.is_multiple_of(4096));
            prop_assert!((range.end - range.start) as usize <= slot_bytes(bytes));
        }
    }
}
