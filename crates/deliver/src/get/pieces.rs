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

/// The same of pieces in any order, of which none has a block of another.
pub(super) fn joined(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.start));
    pieces.dedup_by(|before, behind| {
        let are_neighbours = before.end == behind.start;
        if are_neighbours {
            behind.start = before.start;
        }
        are_neighbours
    });
    pieces
}

/// At most so many blocks of a piece, and the rest.
pub(super) fn first_of(piece: Piece, most: u64) -> (Piece, Option<Piece>) {
    let end = piece.end.min(piece.start + most.max(1));
    (piece.start..end, (end < piece.end).then_some(end..piece.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However blocks are spread over pieces, they are the runs that they were.
        #[test]
        fn pieces_in_any_order_are_joined_to_runs(blocks in proptest::collection::btree_set(0_u64..60, 0..60), cut in 1_u64..9, turn in 0_usize..60) {
            let runs = pieces_of(blocks.into_iter());
            let mut cut_pieces: Vec<Piece> = runs.iter().flat_map(|run| {
                run.clone().step_by(cut as usize).map(move |start| start..(start + cut).min(run.end))
            }).collect();
            let turn = turn % cut_pieces.len().max(1);
            cut_pieces.rotate_left(turn);
            prop_assert_eq!(joined(cut_pieces), runs);
        }
    }
}
