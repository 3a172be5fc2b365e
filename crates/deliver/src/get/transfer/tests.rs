//! How long pieces are, and what is not a failure of a file.

mod simulated;

use super::*;
use crate::blocks::{BLOCK_BYTES, MOST_BLOCKS};
use proptest::prelude::*;

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
fn next(file: &FileTransfer, streams: u64) -> Option<BlockRun> {
    file.next_fetch(streams, Some(1.0 / streams as f64), 0)
}

fn broken() -> TransferError {
    TransferError::CutShort { url: "http://h/f".into(), missing: 1 }
}

fn begin(bytes: u64, place: &Path) -> (FileTransfer, u64) {
    FileTransfer::begin_in(BLOCK_BYTES, remote(bytes), &place.join("f"), &Stop::new()).expect("begun")
}

#[test]
fn pieces_of_a_server_that_keeps_connections_are_small() {
    let place = tempfile::tempdir().expect("a folder");
    // Not on a disk: it has no bytes.
    let remote = RemoteFile { keeps_open: true, ..remote(4 << 30) };
    let begun = FileTransfer::begin_in(BLOCK_BYTES, remote, &place.path().join("f"), &Stop::new());
    let (file, _) = begun.expect("begun");
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
    while let Some(piece) = file.next_fetch(16, Some(1.0 / 16.0), 15) {
        given += piece.end - piece.start;
    }
    assert_eq!(60 - given, 15);
    assert!((0..15).all(|_| next(&file, 16).is_some()) && next(&file, 16).is_none());
    // The server's own blocks, where it has sums of them.
    let summed = RemoteFile { has_sums: true, ..remote(bytes) };
    let begun = FileTransfer::begin(summed, &place.path().join("g"), &Stop::new());
    assert_eq!(begun.expect("begun").0.block_bytes, BLOCK_BYTES);
}

/// All of it comes again where a block differs, once the others have compared theirs.
#[test]
fn a_file_that_comes_as_a_whole_is_fetched_by_one_stream() {
    let place = tempfile::tempdir().expect("a folder");
    let remote = RemoteFile { has_ranges: false, has_sums: true, has_holes: true, ..remote(4 << 30) };
    let begun = FileTransfer::begin_in(1 << 30, remote, &place.path().join("f"), &Stop::new());
    let (file, _) = begun.expect("begun");
    let whole = next(&file, 2).expect("all of it");
    (0..4).for_each(|block| file.landed(block, 7).expect("noted"));
    assert!(next(&file, 2).is_none() && matches!(file.done(FileWork::Fetch(whole), Ok(())), Ended::NotYet));
    let [first, second] = [0, 1].map(|_| file.next_confirm().expect("a block"));
    assert_eq!(file.compare(first.start, &[8]).expect("few differ"), 1 << 30);
    assert!(matches!(file.done(FileWork::Confirm(first), Ok(())), Ended::NotYet));
    assert_eq!(next(&file, 2), None, "another stream compares");
    assert!(matches!(file.done(FileWork::Confirm(second), Ok(())), Ended::NotYet));
    assert_eq!(next(&file, 2), Some(0..4));
    assert_eq!((next(&file, 2), file.next_confirm()), (None, None), "one stream has all of it");
}

proptest! {
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
        assert!(matches!(file.done(FileWork::Fetch(work), Err(TransferError::Revoked)), Ended::NotYet));
    }
    assert_eq!(file.failures(), 0);
    let piece = next(&file, 1).expect("a piece");
    file.landed(0, 7).expect("noted");
    assert!(matches!(file.done(FileWork::Fetch(piece), Ok(())), Ended::Whole));
}

#[test]
fn a_stream_takes_half_of_its_share_and_a_block_where_its_rate_is_unknown() {
    let place = tempfile::tempdir().expect("a folder");
    // Not on a disk: it has no bytes.
    let (file, _) = begin(100 * BLOCK_BYTES, place.path());
    let taken = |share| file.next_fetch(2, share, 0).map_or(0, |piece| piece.end - piece.start);
    assert_eq!(taken(None), 1);
    assert_eq!(taken(Some(0.9)), 44, "of 99");
    assert_eq!(taken(Some(0.1)), 2, "of 55");
    assert_eq!(taken(Some(0.0)), 1, "something at least");
}
