//! Pieces given out and back, what is gone on with, blocks that differ.

mod simulated;

use super::super::pieces::{BLOCK_BYTES, MOST_BLOCKS};
use super::*;
use crate::blocks::BlockSum;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;

fn remote(bytes: u64) -> RemoteFile {
    RemoteFile {
        url: "http://h/f".parse().expect("a URL"),
        bytes,
        entity_tag: Some("\"a\"".into()),
        last_modified: None,
        has_ranges: true,
        has_sums: false,
        is_object: false,
        sum: None,
        md5: None,
        keeps_open: false,
        rate_limit: None,
        address: None,
        has_holes: false,
    }
}

/// The next piece for one of this many streams, which are as fast as each other.
fn next(file: &FileTransfer, streams: u64) -> Option<Piece> {
    file.next_fetch(streams, Some(1.0 / streams as f64))
}

fn broken() -> GetError {
    GetError::CutShort { url: "http://h/f".into(), missing: 1 }
}

/// Of a server that can be asked ahead, and has sums.
fn with_sums(bytes: u64, place: &Path) -> FileTransfer {
    let remote = RemoteFile { has_sums: true, keeps_open: true, ..remote(bytes) };
    FileTransfer::begin_in(BLOCK_BYTES, remote, &place.join("f"), &Stop::new()).expect("begun").0
}

fn begin(bytes: u64, place: &Path) -> (FileTransfer, u64) {
    FileTransfer::begin_in(BLOCK_BYTES, remote(bytes), &place.join("f"), &Stop::new()).expect("begun")
}

#[test]
fn every_block_is_given_out_once_and_given_back_when_it_fails() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, kept) = begin(10 * BLOCK_BYTES + 1, place.path());
    assert_eq!(kept, 0);
    let mut given = Vec::new();
    let mut fails = true;
    while let Some(piece) = next(&file, 2) {
        if std::mem::replace(&mut fails, false) {
            assert!(matches!(file.done(Work::Fetch(piece), Err(broken())), Ended::NotYet));
            continue;
        }
        given.extend(piece.clone());
        piece.clone().for_each(|block| file.landed(block, 0).expect("noted"));
        let ended = file.done(Work::Fetch(piece), Ok(()));
        assert_eq!(matches!(ended, Ended::Whole), given.len() == 11);
    }
    given.sort_unstable();
    assert_eq!(given, (0..11).collect::<Vec<_>>());
    assert!(next(&file, 1).is_none());
    assert_eq!(file.block_length(10), 1);
}

#[test]
fn a_file_that_brings_no_block_is_given_up() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(BLOCK_BYTES, place.path());
    for failure in 1..=MOST_FAILURES {
        let work = next(&file, 1).expect("a piece");
        let ended = file.done(Work::Fetch(work), Err(broken()));
        assert_eq!(matches!(ended, Ended::Failed(_)), failure == MOST_FAILURES, "{failure}");
    }
    assert!(next(&file, 1).is_none());
}

#[test]
fn only_blocks_whose_bytes_are_right_are_gone_on_with() {
    let place = tempfile::tempdir().expect("a folder");
    let bytes = 3 * BLOCK_BYTES;
    let (file, _) = begin(bytes, place.path());
    let sum_of = |fill: u8| {
        let mut sum = BlockSum::begin();
        sum.add(&vec![fill; BLOCK_BYTES as usize]);
        sum.end()
    };
    for block in [0u64, 2] {
        let content = vec![block as u8 + 1; BLOCK_BYTES as usize];
        file.part.file.write_all_at(&content, block * BLOCK_BYTES).expect("written");
        file.landed(block, sum_of(block as u8 + 1)).expect("noted");
    }
    // As after a power cut: the journal is on the disk, the block is not.
    file.part.file.write_all_at(&[9], 2 * BLOCK_BYTES + 5).expect("written");
    drop(file);
    let (file, kept) = begin(bytes, place.path());
    assert_eq!((kept, file.bytes_there()), (BLOCK_BYTES, BLOCK_BYTES));
    assert_eq!(next(&file, 1), Some(1..2));
    drop(file);
    let other = RemoteFile { entity_tag: Some("\"b\"".into()), ..remote(bytes) };
    let stop = Stop::new();
    let (_, kept) =
        FileTransfer::begin_in(BLOCK_BYTES, other, &place.path().join("f"), &stop).expect("begun");
    assert_eq!(kept, 0, "another content begins again");
}

#[test]
fn a_block_that_differs_comes_again_but_not_for_ever() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(2 * BLOCK_BYTES, place.path());
    for round in 1.. {
        let piece = next(&file, 1).expect("a piece");
        piece.clone().for_each(|block| file.landed(block, 1).expect("noted"));
        let compared = file.compare(piece.start, &vec![2; (piece.end - piece.start) as usize]);
        let failed = compared.is_err();
        let ended = file.done(Work::Fetch(piece), compared.map(drop));
        assert_eq!(matches!(ended, Ended::Failed(GetError::Differs { .. })), failed);
        if failed {
            assert!(round > 2);
            return;
        }
    }
}

/// The stream that fetched a piece goes on with the next; the file is whole once all sums were compared.
#[test]
fn what_came_waits_for_its_sums_and_is_whole_after_them() {
    let place = tempfile::tempdir().expect("a folder");
    let file = with_sums(3 * BLOCK_BYTES, place.path());
    let mut fetched = 0;
    while let Some(piece) = next(&file, 1) {
        let ahead = next(&file, 1);
        piece.clone().for_each(|block| file.landed(block, 7).expect("noted"));
        fetched += piece.end - piece.start;
        assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::NotYet));
        // Asked for ahead, and then the connection broke.
        ahead.into_iter().for_each(|ahead| drop(file.give_back(Work::Fetch(ahead))));
    }
    assert_eq!(fetched, 3);
    let mut confirmed = 0;
    while let Some(piece) = file.next_confirm() {
        if confirmed == 0 {
            assert!(matches!(file.give_back(Work::Confirm(piece)), Ended::NotYet));
            confirmed = 1;
            continue;
        }
        let sums = vec![7; (piece.end - piece.start) as usize];
        assert_eq!(file.compare(piece.start, &sums).expect("compared"), 0);
        confirmed += piece.end - piece.start;
        assert_eq!(matches!(file.done(Work::Confirm(piece), Ok(())), Ended::Whole), confirmed == 4);
    }
    assert_eq!(confirmed, 4);
}

/// What an earlier process compared is compared again: its journal may be somebody else's.
#[test]
fn a_file_of_which_nothing_is_missing_ends_once_all_of_it_is_compared() {
    let place = tempfile::tempdir().expect("a folder");
    let file = with_sums(BLOCK_BYTES, place.path());
    assert!(matches!(file.begun(), Ended::NotYet));
    let sum = {
        let mut sum = BlockSum::begin();
        sum.add(&vec![5; BLOCK_BYTES as usize]);
        sum.end()
    };
    file.part.file.write_all_at(&vec![5; BLOCK_BYTES as usize], 0).expect("written");
    file.landed(0, sum).expect("noted");
    assert_eq!(file.compare(0, &[sum]).expect("compared"), 0);
    // Killed here: every block was compared, the file has not got its name.
    drop(file);
    let file = with_sums(BLOCK_BYTES, place.path());
    assert!(next(&file, 1).is_none() && matches!(file.begun(), Ended::NotYet));
    let piece = file.next_confirm().expect("what an earlier start left");
    assert_eq!((piece.clone(), file.kept_bytes()), (0..1, BLOCK_BYTES));
    let again_bytes = file.compare(0, &[sum ^ 1]).expect("no failure of the server");
    assert_eq!((again_bytes, file.kept_bytes()), (BLOCK_BYTES, 0), "it comes again");
    drop(file.done(Work::Confirm(piece), Ok(())));
    // The journal has that, too.
    drop(file);
    let file = with_sums(BLOCK_BYTES, place.path());
    assert!(next(&file, 1).is_some());
    // A server without sums has nothing to compare it with.
    let other = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(BLOCK_BYTES, other.path());
    file.part.file.write_all_at(&vec![5; BLOCK_BYTES as usize], 0).expect("written");
    file.landed(0, sum).expect("noted");
    drop(file);
    let (file, kept) = begin(BLOCK_BYTES, other.path());
    assert_eq!((kept, file.is_verified()), (BLOCK_BYTES, false));
    assert!(matches!(file.begun(), Ended::Whole));
    assert!(matches!(file.begun(), Ended::NotYet), "said once");
}

#[test]
fn the_last_who_gives_work_back_ends_a_file_that_failed() {
    let place = tempfile::tempdir().expect("a folder");
    let file = with_sums(4 * BLOCK_BYTES, place.path());
    let (one, other) = (next(&file, 1).expect("a piece"), next(&file, 1).expect("a piece"));
    let gone = GetError::NotFound { url: "http://h/f".into() };
    assert!(matches!(file.done(Work::Fetch(one), Err(gone)), Ended::NotYet));
    assert!(matches!(file.give_back(Work::Fetch(other)), Ended::Failed(_)));
}

#[test]
fn pieces_of_a_server_that_keeps_connections_are_small() {
    let place = tempfile::tempdir().expect("a folder");
    // Not on a disk: it has no bytes.
    let file = with_sums(4 << 30, place.path());
    assert_eq!(next(&file, 2).map(|piece| piece.end - piece.start), Some(KEPT_PIECE_BYTES / BLOCK_BYTES));
}

#[test]
fn a_small_file_has_a_piece_for_each_of_many_streams() {
    let place = tempfile::tempdir().expect("a folder");
    let bytes = 60 << 20;
    let begun = FileTransfer::begin(remote(bytes), &place.path().join("f"), &Stop::new());
    let (file, _) = begun.expect("begun");
    assert_eq!(file.block_bytes, FINE_BLOCK_BYTES);
    // Fifteen others have none yet: what is left is theirs as soon as it is no more than they are.
    let mut given = 0;
    while let Some(piece) = file.next_beside(16, Some(1.0 / 16.0), 15) {
        given += piece.end - piece.start;
    }
    assert_eq!(60 - given, 15);
    assert!((0..15).all(|_| next(&file, 16).is_some()) && next(&file, 16).is_none());
    // The server's own blocks, where it has sums of them.
    let summed = RemoteFile { has_sums: true, ..remote(bytes) };
    let begun = FileTransfer::begin(summed, &place.path().join("g"), &Stop::new());
    assert_eq!(begun.expect("begun").0.block_bytes, BLOCK_BYTES);
}

proptest! {
    #[test]
    fn pieces_hold_just_their_blocks(blocks in proptest::collection::btree_set(0u64..50, 0..50)) {
        let pieces = pieces_of(blocks.iter().copied());
        let mut held: Vec<u64> = pieces.iter().cloned().flatten().collect();
        held.sort_unstable();
        prop_assert_eq!(held, blocks.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn blocks_are_few_and_cover_the_file(bytes in any::<u64>()) {
        let block_bytes = block_bytes_of(bytes);
        prop_assert!(block_bytes.is_power_of_two());
        prop_assert!(bytes.div_ceil(block_bytes) <= MOST_BLOCKS || block_bytes == crate::blocks::MOST_BLOCK_BYTES);
    }
}

#[test]
fn what_another_stream_goes_on_with_is_no_failure_of_the_file() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(BLOCK_BYTES, place.path());
    for _ in 0..3 * MOST_FAILURES {
        let work = next(&file, 1).expect("a piece");
        assert!(matches!(file.done(Work::Fetch(work), Err(GetError::Revoked)), Ended::NotYet));
    }
    assert_eq!(file.failures(), 0);
    let piece = next(&file, 1).expect("a piece");
    file.landed(0, 7).expect("noted");
    assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::Whole));
}

#[test]
fn a_stream_takes_half_of_its_share_and_a_block_where_its_rate_is_unknown() {
    let place = tempfile::tempdir().expect("a folder");
    // Not on a disk: it has no bytes.
    let (file, _) = begin(100 * BLOCK_BYTES, place.path());
    let taken = |share| file.next_fetch(2, share).map_or(0, |piece| piece.end - piece.start);
    assert_eq!(taken(None), 1);
    assert_eq!(taken(Some(0.9)), 44, "of 99");
    assert_eq!(taken(Some(0.1)), 2, "of 55");
    assert_eq!(taken(Some(0.0)), 1, "something at least");
}

#[test]
fn blocks_of_an_earlier_start_that_differ_come_again_however_many_they_are() {
    let place = tempfile::tempdir().expect("a folder");
    let bytes = 8 * BLOCK_BYTES;
    let file = with_sums(bytes, place.path());
    let content = vec![5; BLOCK_BYTES as usize];
    let mut sum = BlockSum::begin();
    sum.add(&content);
    let sum = sum.end();
    for block in 0..8 {
        file.part.file.write_all_at(&content, block * BLOCK_BYTES).expect("written");
        file.landed(block, sum).expect("noted");
    }
    drop(file);
    let file = with_sums(bytes, place.path());
    let piece = file.next_confirm().expect("the server is to confirm them");
    assert_eq!(piece, 0..8);
    let again_bytes = file.compare(0, &[sum ^ 1; 8]).expect("no failure of the server or the path");
    assert_eq!(again_bytes, bytes);
    drop(file.done(Work::Confirm(piece), Ok(())));
    assert_eq!(file.bytes_there(), 0);
    let all: u64 = std::iter::from_fn(|| next(&file, 1)).map(|piece| piece.end - piece.start).sum();
    assert_eq!(all, 8);
}
