//! A kernel that says things late, never and twice.

use super::*;
use crate::buffers::Pool;
use proptest::prelude::*;

const BLOCKS: usize = 3;

/// A send without a copy, and what was said of it.
struct Send {
    tag: u64,
    number: usize,
    taken: bool,
    noticed: bool,
}

fn notice(tag: u64) -> Ended {
    Ended { tag, result: 0, what: What::Notice { copied: false } }
}

fn taken(tag: u64) -> Ended {
    Ended { tag, result: 4096, what: What::Taken }
}

proptest! {
    /// In any order, also of sends that were over long ago: what comes twice, or too late, is counted and changes
    /// nothing.
    #[test]
    fn a_block_comes_back_with_its_own_notification_alone(
        steps in proptest::collection::vec((0u8..4, any::<prop::sample::Index>()), 1..300),
    ) {
        let mut pool = Pool::new(BLOCKS, 4096).expect("a pool");
        let mut requests = Requests::new(BLOCKS);
        let mut sends: Vec<Send> = Vec::new();
        for (step, index) in steps {
            if step == 0 && let Some(lease) = pool.take() {
                let number = lease.number();
                let tag = requests.tag(number);
                requests.begin(lease, true, 1);
                sends.push(Send { tag, number, taken: false, noticed: false });
                continue;
            }
            if sends.is_empty() {
                continue;
            }
            let send = index.get_mut(&mut sends);
            let (ended, said) = match step % 2 {
                0 => (taken(send.tag), &mut send.taken),
                _ => (notice(send.tag), &mut send.noticed),
            };
            let again = std::mem::replace(said, true);
            let before = requests.zero_copy_sends().unexpected;
            let back = requests.end(ended);
            prop_assert_eq!(requests.zero_copy_sends().unexpected - before, u64::from(again));
            prop_assert_eq!(back.is_some(), !again && send.taken && send.noticed);
            if let Some(Completion { lease, result }) = back {
                prop_assert_eq!(lease.number(), send.number);
                prop_assert!(matches!(result, Ok(4096)), "{:?}", result);
                pool.give_back(lease);
            }
        }
        prop_assert_eq!(pool.free() + requests.in_flight(), BLOCKS);
        let mut each = Vec::new();
        requests.taken(&mut each);
        prop_assert_eq!(each.len(), sends.iter().filter(|send| send.taken).count());
    }
}

#[test]
fn a_second_notification_does_not_free_the_block_of_the_next_request() {
    let mut pool = Pool::new(1, 4096).expect("a pool");
    let mut requests = Requests::new(1);
    let first = requests.tag(0);
    requests.begin(pool.take().expect("a block"), true, 1);
    assert!(requests.end(taken(first)).is_none());
    let lease = requests.end(notice(first)).expect("the block is back").lease;
    let second = requests.tag(0);
    requests.begin(lease, true, 1);
    assert!(requests.end(taken(second)).is_none());
    assert!(requests.end(notice(first)).is_none(), "it is the first one's");
    assert_eq!((requests.in_flight(), requests.zero_copy_sends().unexpected), (1, 1));
    assert!(requests.end(notice(second)).is_some());
    assert_eq!(requests.zero_copy_sends().sends, 2, "what came twice is one send");
}

/// What the ring never had a request for.
#[test]
fn a_completion_of_no_request_is_counted() {
    let mut requests = Requests::new(2);
    for tag in [0, 1, 7, u64::MAX, 1 << NUMBER_BITS] {
        assert!(requests.end(notice(tag)).is_none());
    }
    assert_eq!(requests.zero_copy_sends(), ZeroCopySends { unexpected: 5, ..ZeroCopySends::default() });
}

/// A notification with the failure of the send itself, which has no more of its own.
#[test]
fn a_send_that_fails_comes_back_with_its_error() {
    let mut pool = Pool::new(1, 4096).expect("a pool");
    for what in [What::Whole, What::Taken] {
        let mut requests = Requests::new(1);
        let tag = requests.tag(0);
        requests.begin(pool.take().expect("a block"), true, 1);
        let mut back = requests.end(Ended { tag, result: -libc::ECONNRESET, what });
        if what == What::Taken {
            assert!(back.is_none());
            back = requests.end(notice(tag));
        }
        let Completion { lease, result } = back.expect("the block is back");
        assert_eq!(result.expect_err("it failed").raw_os_error(), Some(libc::ECONNRESET));
        pool.give_back(lease);
        let mut each = Vec::new();
        requests.taken(&mut each);
        assert!(each.is_empty(), "{each:?}");
    }
}
