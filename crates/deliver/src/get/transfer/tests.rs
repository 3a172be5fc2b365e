//! Pieces given out and back, what is gone on with, blocks that differ.

use super::super::copies::CopyRefusal;
use super::super::pieces::{BLOCK_BYTES, MOST_BLOCKS};
use super::*;
use crate::blocks::BlockSum;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;

pub(super) fn remote(bytes: u64) -> RemoteFile {
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
        digest: None,
        keeps_open: false,
        address: None,
    }
}

/// Of one server alone.
fn copies() -> (Vec<FileCopy>, usize) {
    (vec![FileCopy::new("http://h/f".parse().expect("a URL"))], 0)
}

/// A stream of which nobody knows how fast it is, one of so many.
pub(super) fn one_of(streams: u64) -> Deal {
    Deal { server: 0, streams, stream_rate: None, total_rate: 0.0, fastest_rate: 0.0 }
}

fn broken() -> GetError {
    GetError::CutShort { url: "http://h/f".into(), missing: 1 }
}

/// Of a server that can be asked ahead, and has sums.
pub(super) fn with_sums(bytes: u64, place: &Path) -> FileTransfer {
    let remote = RemoteFile { has_sums: true, keeps_open: true, ..remote(bytes) };
    FileTransfer::begin(remote, copies(), &place.join("f"), &AtomicBool::new(false)).expect("begun").0
}

fn begin(bytes: u64, place: &Path) -> (FileTransfer, u64) {
    FileTransfer::begin(remote(bytes), copies(), &place.join("f"), &AtomicBool::new(false)).expect("begun")
}

#[test]
fn every_block_is_given_out_once_and_given_back_when_it_fails() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, kept) = begin(10 * BLOCK_BYTES + 1, place.path());
    assert_eq!(kept, 0);
    let mut given = Vec::new();
    let mut fails = true;
    while let Some(piece) = file.next_fetch(&one_of(2), 0) {
        if std::mem::replace(&mut fails, false) {
            assert!(matches!(file.done(Work::Fetch(piece), Err(broken())), Ended::NotYet));
            continue;
        }
        given.extend(piece.clone());
        piece.clone().for_each(|block| file.landed(block, 0, 0).expect("noted"));
        let ended = file.done(Work::Fetch(piece), Ok(()));
        assert_eq!(matches!(ended, Ended::Whole), given.len() == 11);
    }
    given.sort_unstable();
    assert_eq!(given, (0..11).collect::<Vec<_>>());
    assert!(file.next_fetch(&one_of(1), 0).is_none());
    assert_eq!(file.block_length(10), 1);
}

#[test]
fn a_file_that_brings_no_block_is_given_up() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(BLOCK_BYTES, place.path());
    for failure in 1..=MOST_FAILURES {
        let work = file.next_fetch(&one_of(1), 0).expect("a piece");
        let ended = file.done(Work::Fetch(work), Err(broken()));
        assert_eq!(matches!(ended, Ended::Failed(_)), failure == MOST_FAILURES, "{failure}");
    }
    assert!(file.next_fetch(&one_of(1), 0).is_none());
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
        file.landed(block, sum_of(block as u8 + 1), 0).expect("noted");
    }
    // As after a power cut: the journal is on the disk, the block is not.
    file.part.file.write_all_at(&[9], 2 * BLOCK_BYTES + 5).expect("written");
    drop(file);
    let (file, kept) = begin(bytes, place.path());
    assert_eq!((kept, file.bytes_there()), (BLOCK_BYTES, BLOCK_BYTES));
    assert_eq!(file.next_fetch(&one_of(1), 0), Some(1..2));
    drop(file);
    let other = RemoteFile { entity_tag: Some("\"b\"".into()), ..remote(bytes) };
    let stop = AtomicBool::new(false);
    let (_, kept) = FileTransfer::begin(other, copies(), &place.path().join("f"), &stop).expect("begun");
    assert_eq!(kept, 0, "another content begins again");
}

#[test]
fn a_block_that_differs_comes_again_but_not_for_ever() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(2 * BLOCK_BYTES, place.path());
    for round in 1.. {
        let piece = file.next_fetch(&one_of(1), 0).expect("a piece");
        piece.clone().for_each(|block| file.landed(block, 1, 0).expect("noted"));
        let compared = file.compare(piece.start, &vec![2; (piece.end - piece.start) as usize], 0);
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
    while let Some(piece) = file.next_fetch(&one_of(1), 0) {
        let ahead = file.next_fetch(&one_of(1), 0);
        piece.clone().for_each(|block| file.landed(block, 7, 0).expect("noted"));
        fetched += piece.end - piece.start;
        assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::NotYet));
        // Asked for ahead, and then the connection broke.
        ahead.into_iter().for_each(|ahead| drop(file.give_back(Work::Fetch(ahead))));
    }
    assert_eq!(fetched, 3);
    let mut confirmed = 0;
    while let Some(piece) = file.next_confirm(|_| true).map(|(piece, _)| piece) {
        if confirmed == 0 {
            assert!(matches!(file.give_back(Work::Confirm(piece)), Ended::NotYet));
            confirmed = 1;
            continue;
        }
        let sums = vec![7; (piece.end - piece.start) as usize];
        assert_eq!(file.compare(piece.start, &sums, 0).expect("compared"), ComparedBlocks::default());
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
    file.landed(0, sum, 0).expect("noted");
    assert_eq!(file.compare(0, &[sum], 0).expect("compared"), ComparedBlocks::default());
    // Killed here: every block was compared, the file has not got its name.
    drop(file);
    let file = with_sums(BLOCK_BYTES, place.path());
    assert!(file.next_fetch(&one_of(1), 0).is_none() && matches!(file.begun(), Ended::NotYet));
    let (piece, _) = file.next_confirm(|_| true).expect("what an earlier start left");
    assert_eq!((piece.clone(), file.kept_bytes()), (0..1, BLOCK_BYTES));
    let compared = file.compare(0, &[sum ^ 1], 0).expect("no failure of the server");
    assert_eq!((compared.again_bytes, file.kept_bytes()), (BLOCK_BYTES, 0), "it comes again");
    drop(file.done(Work::Confirm(piece), Ok(())));
    // The journal has that, too.
    drop(file);
    let file = with_sums(BLOCK_BYTES, place.path());
    assert!(file.next_fetch(&one_of(1), 0).is_some());
    // A server without sums has nothing to compare it with.
    let other = tempfile::tempdir().expect("a folder");
    let (file, _) = begin(BLOCK_BYTES, other.path());
    file.part.file.write_all_at(&vec![5; BLOCK_BYTES as usize], 0).expect("written");
    file.landed(0, sum, 0).expect("noted");
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
    let (one, other) =
        (file.next_fetch(&one_of(1), 0).expect("a piece"), file.next_fetch(&one_of(1), 0).expect("a piece"));
    let gone = GetError::NotFound { url: "http://h/f".into() };
    assert!(matches!(file.done(Work::Fetch(one), Err(gone)), Ended::NotYet));
    assert!(matches!(file.give_back(Work::Fetch(other)), Ended::Failed(_)));
}

#[test]
fn pieces_of_a_server_that_keeps_connections_are_small() {
    let place = tempfile::tempdir().expect("a folder");
    // Not on a disk: it has no bytes.
    let file = with_sums(4 << 30, place.path());
    assert_eq!(
        file.next_fetch(&one_of(2), 0).map(|piece| piece.end - piece.start),
        Some(KEPT_PIECE_BYTES / BLOCK_BYTES)
    );
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
        let work = file.next_fetch(&one_of(1), 0).expect("a piece");
        assert!(matches!(file.done(Work::Fetch(work), Err(GetError::Revoked)), Ended::NotYet));
    }
    assert_eq!(file.failures(), 0);
    let piece = file.next_fetch(&one_of(1), 0).expect("a piece");
    file.landed(0, 7, 0).expect("noted");
    assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::Whole));
}

pub(super) fn mirrored(bytes: u64, place: &Path, has_sums: bool) -> FileTransfer {
    let copy = |server| FileCopy::new(format!("http://h{server}/f").parse().expect("a URL"));
    let remote = RemoteFile { has_sums, ..remote(bytes) };
    let copies = ((0..3).map(copy).collect(), 0);
    FileTransfer::begin(remote, copies, &place.join("f"), &AtomicBool::new(false)).expect("begun").0
}

fn of_server(server: usize) -> Deal {
    Deal { server, ..one_of(3) }
}

#[test]
fn what_a_mirror_sent_wrong_comes_again_from_others_and_is_no_failure_of_the_file() {
    let place = tempfile::tempdir().expect("a folder");
    let file = mirrored(12 * BLOCK_BYTES, place.path(), true);
    file.copies[1].was_compared(RemoteFile { has_sums: true, ..remote(12 * BLOCK_BYTES) }, false);
    let (mut block, mut sums) = (0, Vec::new());
    while let Some(piece) = file.next_fetch(&of_server(usize::from(block % 2 == 1)), 0) {
        let server = usize::from(block % 2 == 1);
        piece
            .clone()
            .for_each(|block| file.landed(block, block + 100 * server as u64, server).expect("noted"));
        sums.extend(piece.clone());
        assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::NotYet));
        block += 1;
    }
    assert_eq!(file.mirrors_used(), [1].into());
    sums.sort_unstable();
    let compared = file.compare(0, &sums, 0).expect("no failure, however many they are");
    assert!(compared.again_bytes > 4 * BLOCK_BYTES, "{compared:?}");
    assert_eq!(compared.differing.keys().copied().collect::<Vec<_>>(), [1]);
    file.copies[1].refuse(CopyRefusal::OtherContent);
    assert!(file.next_fetch(&of_server(1), 0).is_none(), "nothing more from there");
    assert!(file.next_fetch(&of_server(0), 0).is_some());
    assert!(file.next_confirm(|server| server != 0).is_none(), "its sums are of no use");
    assert_eq!(file.next_confirm(|_| true).map(|(_, server)| server), Some(0));
}

#[test]
fn a_file_that_nobody_who_is_left_has_ends() {
    let place = tempfile::tempdir().expect("a folder");
    let file = mirrored(4 * BLOCK_BYTES, place.path(), true);
    let piece = file.next_fetch(&of_server(0), 0).expect("a piece");
    assert!(matches!(file.end_unservable(|_| false), Ended::NotYet), "a stream is at it");
    piece.clone().for_each(|block| file.landed(block, 0, 0).expect("noted"));
    drop(file.done(Work::Fetch(piece), Ok(())));
    assert!(matches!(file.end_unservable(|server| server == 1), Ended::NotYet));
    assert!((1..3).all(|server| file.copies[server].refuse(CopyRefusal::NotServed)));
    assert!(matches!(file.end_unservable(|server| server > 0), Ended::Failed(GetError::NoServer { .. })));
    // All came, and nobody has the sums any more.
    let other = tempfile::tempdir().expect("a folder");
    let file = mirrored(BLOCK_BYTES, other.path(), true);
    let piece = file.next_fetch(&of_server(0), 0).expect("a piece");
    file.landed(0, 0, 0).expect("noted");
    drop(file.done(Work::Fetch(piece), Ok(())));
    assert!(matches!(file.end_unservable(|server| server == 1), Ended::Failed(GetError::NoSums { .. })));
    assert!(file.can_go_on());
}

#[test]
fn blocks_of_a_mirror_that_changed_come_again() {
    let place = tempfile::tempdir().expect("a folder");
    let file = mirrored(2 * BLOCK_BYTES, place.path(), false);
    for server in [0, 1] {
        let piece = file.next_fetch(&of_server(server), 0).expect("a piece");
        assert_eq!(piece, server as u64..server as u64 + 1);
        file.landed(piece.start, 0, server).expect("noted");
        assert_eq!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::Whole), server == 1);
    }
    assert_eq!(file.void_from(1).expect("noted"), BLOCK_BYTES);
    assert_eq!(file.void_from(1).expect("noted"), 0);
    let piece = file.next_fetch(&of_server(0), 0).expect("it is open again");
    assert_eq!(piece, 1..2);
    file.landed(1, 0, 0).expect("noted");
    assert!(matches!(file.done(Work::Fetch(piece), Ok(())), Ended::Whole));
}

#[test]
fn the_last_piece_of_a_slow_stream_is_given_to_one_that_has_nothing_to_do() {
    let place = tempfile::tempdir().expect("a folder");
    let file = mirrored(4 * BLOCK_BYTES, place.path(), false);
    let piece = file.next_fetch(&of_server(0), 0).expect("a piece");
    let watch = file.watch(&piece);
    let fast = Deal { stream_rate: Some(1e9), ..of_server(1) };
    assert!(!file.revoke_late(&fast), "it has just begun");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert!(!file.revoke_late(&of_server(1)), "nobody knows how fast that is");
    assert!(file.revoke_late(&fast) && watch.revoked.load(Ordering::Relaxed));
    assert!(!file.revoke_late(&fast), "once");
    file.unwatch(&watch);
    drop(file.done(Work::Fetch(piece.clone()), Err(GetError::Revoked)));
    assert_eq!((file.left_bytes(), file.failures()), (4 * BLOCK_BYTES, 0));
    // One that would have it later than all others leaves it to them, unless one of those has another copy.
    let slow = Deal { stream_rate: Some(1e3), total_rate: 1e9, fastest_rate: 1e9, ..of_server(0) };
    assert!(file.next_fetch(&slow, 4 * BLOCK_BYTES).is_none());
    file.copies[2].refuse(CopyRefusal::NotServed);
    assert!(file.next_fetch(&slow, 4 * BLOCK_BYTES).is_some());
}

#[test]
fn a_copy_is_compared_by_one_stream_and_its_server_has_no_piece_meanwhile() {
    let place = tempfile::tempdir().expect("a folder");
    let file = mirrored(4 * BLOCK_BYTES, place.path(), false);
    assert!(!file.next_comparison(0), "it is what the others are compared with");
    assert!(file.next_comparison(1) && !file.next_comparison(1));
    assert!(file.next_fetch(&of_server(1), 0).is_none());
    file.copies[1].was_looked_at();
    assert!(file.next_comparison(1), "it could not be compared, so another does");
    assert!(file.copies[1].was_compared(remote(4 * BLOCK_BYTES), true));
    file.copies[1].was_looked_at();
    assert!(!file.next_comparison(1) && file.next_fetch(&of_server(1), 0).is_some());
    assert!(file.copies[2].refuse(CopyRefusal::NotServed) && !file.next_comparison(2));
}
