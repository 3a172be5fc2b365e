//! A file in blocks, and runs of blocks: what a stream asks for at a time.

pub(super) use crate::blocks::block_bytes_of;
#[cfg(test)]
pub(super) use crate::blocks::{BLOCK_BYTES, MOST_BLOCKS};
use std::ops::Range;

/// Blocks of a file from the first to before the last.
pub(super) type Piece = Range<u64>;

/// Bytes of this block; the last one is shorter.
pub(super) fn block_length(block: u64, block_bytes: u64, bytes: u64) -> u64 {
    block_bytes.min(bytes.saturating_sub(block.saturating_mul(block_bytes)))
}

/// Runs of neighbours, the last first: they are taken from the end.
pub(super) fn pieces_of(blocks: impl Iterator<Item = u64>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for block in blocks {
        match pieces.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => pieces.push(block..block + 1),
        }
    }
    pieces.reverse();
    pieces
}

/// At most so many blocks of a piece, and the rest.
pub(super) fn first_of(piece: Piece, most: u64) -> (Piece, Option<Piece>) {
    let end = piece.end.min(piece.start + most.max(1));
    (piece.start..end, (end < piece.end).then_some(end..piece.end))
}
