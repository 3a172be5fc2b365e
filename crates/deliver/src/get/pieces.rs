//! A file in blocks, and runs of blocks: what a stream asks for at a time.

use std::ops::Range;

/// A run of consecutive blocks of a file, by their numbers, end exclusive.
pub(super) type BlockRun = Range<u64>;

/// Bytes of this block; the last one is shorter.
pub(super) fn block_length(block: u64, block_bytes: u64, bytes: u64) -> u64 {
    block_bytes.min(bytes.saturating_sub(block.saturating_mul(block_bytes)))
}

/// Runs of neighbours, the last first: they are taken from the end.
pub(super) fn runs_of(blocks: impl Iterator<Item = u64>) -> Vec<BlockRun> {
    let mut runs: Vec<BlockRun> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs.reverse();
    runs
}

/// The same of runs in any order, of which none has a block of another.
pub(super) fn joined(mut runs: Vec<BlockRun>) -> Vec<BlockRun> {
    runs.sort_by_key(|run| std::cmp::Reverse(run.start));
    runs.dedup_by(|before, behind| {
        let are_neighbours = before.end == behind.start;
        if are_neighbours {
            behind.start = before.start;
        }
        are_neighbours
    });
    runs
}

/// At most so many blocks of a run, and the rest.
pub(super) fn first_of(run: BlockRun, most: u64) -> (BlockRun, Option<BlockRun>) {
    let end = run.end.min(run.start + most.max(1));
    (run.start..end, (end < run.end).then_some(end..run.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the blocks of runs are cut into smaller ones, they are joined to the runs that they were.
        #[test]
        fn pieces_in_any_order_are_joined_to_runs(blocks in proptest::collection::btree_set(0_u64..60, 0..60), cut in 1_u64..9, turn in 0_usize..60) {
            let runs = runs_of(blocks.into_iter());
            let mut cut_runs: Vec<BlockRun> = runs.iter().flat_map(|run| {
                run.clone().step_by(cut as usize).map(move |start| start..(start + cut).min(run.end))
            }).collect();
            let turn = turn % cut_runs.len().max(1);
            cut_runs.rotate_left(turn);
            prop_assert_eq!(joined(cut_runs), runs);
        }
    }
}
