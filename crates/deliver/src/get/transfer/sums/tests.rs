//! Who may confirm which blocks, once the first server is gone and before.

use super::*;
use crate::blocks::BlockSum;
use crate::get::dealing::Deal;
use crate::get::pieces::BLOCK_BYTES;
use crate::get::remote::RemoteFile;
use crate::get::transfer::tests::{mirrored, one_of, remote, with_sums};
use crate::get::transfer::{Ended, Work};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A block from each of these servers, at the place of its own number; the mirrors have sums.
fn of_all_servers(place: &Path, is_known: bool) -> FileTransfer {
    let file = mirrored(3 * BLOCK_BYTES, place, true);
    for server in 0..3 {
        let deal = Deal { server, ..one_of(24) };
        let piece = file.next_fetch(&deal, 0).expect("a piece");
        assert_eq!(piece, server as u64..server as u64 + 1);
        file.landed(piece.start, 7, server).expect("noted");
        assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::NotYet));
        let copy = RemoteFile { has_sums: true, ..remote(3 * BLOCK_BYTES) };
        assert!(server == 0 || file.copies[server].was_compared(copy, is_known));
    }
    file
}

/// All that a server that lives can still confirm, with these sums of it.
fn confirmed(file: &FileTransfer, lives: &[usize], sum: u64) -> Vec<(u64, usize)> {
    let mut done = Vec::new();
    while let Some((piece, server)) = file.next_confirm(|server| lives.contains(&server)) {
        let sums = vec![sum; (piece.end - piece.start) as usize];
        assert_eq!(file.compare(piece.start, &sums, server).expect("compared"), ComparedBlocks::default());
        done.extend(piece.clone().map(|block| (block, server)));
        drop(file.done(Work::Confirm(piece), Ok(())));
    }
    done.sort_unstable();
    done
}

#[test]
fn after_the_first_server_a_mirror_confirms_what_others_sent() {
    let place = tempfile::tempdir().expect("a folder");
    let file = of_all_servers(place.path(), false);
    assert_eq!(confirmed(&file, &[1], 7), [(0, 1), (2, 1)], "and not its own");
    assert!(matches!(file.end_unservable(|server| server == 1), Ended::Failed(GetError::NoSums { .. })));
    let other = tempfile::tempdir().expect("a folder");
    let file = of_all_servers(other.path(), false);
    assert_eq!(confirmed(&file, &[1, 2], 7), [(0, 1), (1, 2), (2, 1)]);
    assert!(file.is_verified(), "by another server than the one that sent it, each");
}

/// A copy of which the head alone showed that it is the same is as good as that of a server without sums, and no better.
#[test]
fn what_a_mirror_says_of_its_own_blocks_is_no_verification() {
    let place = tempfile::tempdir().expect("a folder");
    let file = of_all_servers(place.path(), true);
    assert_eq!(confirmed(&file, &[1], 7).len(), 3);
    assert!(!file.is_verified());
}

/// Also where each of them could do without.
#[test]
fn of_two_mirrors_each_confirms_what_the_other_sent() {
    let place = tempfile::tempdir().expect("a folder");
    let file = of_all_servers(place.path(), true);
    assert_eq!(confirmed(&file, &[1, 2], 7), [(0, 1), (1, 2), (2, 1)]);
    assert!(file.is_verified());
}

#[test]
fn a_mirror_alone_convicts_nobody() {
    let place = tempfile::tempdir().expect("a folder");
    let file = of_all_servers(place.path(), true);
    let compared = file.compare(0, &[8, 7, 8], 1).expect("compared");
    assert_eq!(compared, ComparedBlocks { disputed: Some(0), ..ComparedBlocks::default() });
    assert_eq!(file.bytes_there(), 3 * BLOCK_BYTES, "nothing is void");
    // What it sent itself was changed on the way.
    let compared = file.compare(1, &[8], 1).expect("compared");
    assert_eq!(compared.again_bytes, BLOCK_BYTES);
    assert!(compared.differing.is_empty() && compared.disputed.is_none());
}

#[test]
fn what_an_earlier_start_left_wrong_comes_again_however_much_it_is() {
    let place = tempfile::tempdir().expect("a folder");
    let bytes = 8 * BLOCK_BYTES;
    let file = with_sums(bytes, place.path());
    let content = vec![5; BLOCK_BYTES as usize];
    let mut sum = BlockSum::begin();
    sum.add(&content);
    let sum = sum.end();
    for block in 0..8 {
        file.part.file.write_all_at(&content, block * BLOCK_BYTES).expect("written");
        file.landed(block, sum, 0).expect("noted");
    }
    drop(file);
    let file = with_sums(bytes, place.path());
    let (piece, server) = file.next_confirm(|_| true).expect("the server is to confirm them");
    assert_eq!((piece.clone(), server), (0..8, 0));
    let compared = file.compare(0, &[sum ^ 1; 8], 0).expect("no failure of the server or the way");
    assert_eq!((compared.again_bytes, compared.differing.len()), (bytes, 0));
    drop(file.done(Work::Confirm(piece), Ok(())));
    assert_eq!(file.left_bytes(), bytes);
}
