//! A limit of each connection, as servers of downloads set it, or as TCP's window is one: a stream gets the same whether
//! it is alone or one of many. What streams share (a link, a shaper, a disk, a server's limit of all) is parted among
//! them: alone a stream gets more.

use serde::{Deserialize, Serialize};

/// One of many gets this share at least of what one of few gets, and at most the inverse: shared by twice as many it
/// would be half.
const SAME: f64 = 0.8;
/// Streams that are limited one by one are as fast as each other: the slowest has this share of the fastest.
const EQUAL: f64 = 0.75;
/// A stream that is getting faster (TCP's slow start) shows no limit yet: both halves of the windows of few streams are
/// within this of their mean.
const STEADY: f64 = 0.25;
/// Over all a stream, which opens files and waits for answers as well, has this share at least of what it got at first.
const LASTS: f64 = 0.5;
/// Windows of few streams, and of many, are so long together, seconds.
const LEAST_SECONDS: f64 = 0.09;
/// Many are so many times as many as few.
const MANY: u32 = 2;

/// What came in one stretch of time from so many streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrivalCount {
    pub streams: u32,
    pub seconds: f64,
    pub bytes: u64,
}

/// What each connection gets, however many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionLimit {
    /// Of one of them.
    pub bytes_per_second: f64,
    /// The fewest and the most at once that showed it.
    pub streams: [u32; 2],
}

/// The limit of each connection that a flow of several streams shows: by windows of its beginning, in their order, and
/// by what each stream got over all. None: the windows show none, or not enough.
pub fn each_connection(windows: &[ArrivalCount], rates: &[f64]) -> Option<ConnectionLimit> {
    let most = windows.iter().map(|window| window.streams).max()?;
    // Once there were many, fewer again do not show what one gets alone: what the others leave is taken up slowly.
    let begin = windows.iter().position(|window| window.streams == most)?;
    let fewest = windows[..begin].iter().map(|window| window.streams).min()?;
    let few = Group::of(&windows[..begin], fewest)?;
    // Of some of them nothing has come yet as the last one begins.
    let many = Group::of(&windows[begin + 1..], most)?;
    let enough = fewest > 0 && most >= MANY.saturating_mul(fewest);
    let ratio = many.each / few.each;
    let same = (SAME..=1.0 / SAME).contains(&ratio);
    // What buffers on the way took at first is over soon.
    let lasts = rates.iter().sum::<f64>() >= LASTS * many.each * rates.len() as f64;
    (enough && few.is_steady && same && lasts && are_equal(rates))
        .then_some(ConnectionLimit { bytes_per_second: many.each, streams: [fewest, most] })
}

/// Windows of one number of streams.
struct Group {
    /// Bytes per second of one stream.
    each: f64,
    is_steady: bool,
}

impl Group {
    fn of(windows: &[ArrivalCount], streams: u32) -> Option<Self> {
        let own = windows.iter().filter(|window| window.streams == streams && window.seconds > 0.0);
        let own: Vec<&ArrivalCount> = own.collect();
        let seconds = |windows: &[&ArrivalCount]| windows.iter().map(|window| window.seconds).sum::<f64>();
        let rate = |windows: &[&ArrivalCount]| {
            windows.iter().map(|window| window.bytes as f64).sum::<f64>() / seconds(windows)
        };
        let (first, second) = own.split_at(own.len() / 2);
        let (seconds, all) = (seconds(&own), rate(&own));
        let is_steady = [first, second].iter().all(|half| (rate(half) - all).abs() <= STEADY * all);
        let each = all / f64::from(streams.max(1));
        (seconds >= LEAST_SECONDS && each > 0.0 && each.is_finite()).then_some(Group { each, is_steady })
    }
}

fn are_equal(rates: &[f64]) -> bool {
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    rates.len() >= 2 && slowest >= EQUAL * fastest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Windows of 50 ms: so many of `few` streams at a rate together, then of `many`.
    fn windows(few: (u32, &[f64]), many: (u32, &[f64])) -> Vec<ArrivalCount> {
        let of = |(streams, rates): (u32, &[f64])| {
            let window = |rate: &f64| ArrivalCount { streams, seconds: 0.05, bytes: (rate * 0.05) as u64 };
            rates.iter().map(window).collect::<Vec<_>>()
        };
        [of(few), of(many)].concat()
    }

    const EACH: f64 = 5.2e6;

    #[test]
    fn a_stream_that_gets_the_same_alone_and_among_many_is_limited_itself() {
        for many in [2, 4, 16] {
            let together = f64::from(many) * EACH;
            let seen =
                windows((1, &[5.3e6, 5.1e6, 5.2e6]), (many, &[together, together * 1.05, together * 0.95]));
            let found = each_connection(&seen, &vec![EACH; many as usize]).expect("a limit");
            assert_eq!(found.streams, [1, many]);
            assert!((found.bytes_per_second / EACH - 1.0).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn what_is_shared_is_no_limit_of_each_connection() {
        let rates = [EACH; 16];
        // A shaper, a link with fair queues, a server's limit of all: equal shares, and the same together.
        let shared = windows((1, &[83e6, 83e6, 83e6]), (16, &[83e6, 83e6, 83e6]));
        assert_eq!(each_connection(&shared, &rates), None);
        // A link that one stream fills by two thirds.
        let link = windows((1, &[55e6, 56e6, 55e6]), (16, &[83e6, 83e6]));
        assert_eq!(each_connection(&link, &rates), None);
        // A slow disk of the server: with more streams it seeks, and gives less together.
        let disk = windows((1, &[83e6, 83e6]), (16, &[40e6, 42e6]));
        assert_eq!(each_connection(&disk, &rates), None);
        // Two on one link.
        let two = windows((1, &[10e6, 10e6]), (2, &[10e6, 10e6]));
        assert_eq!(each_connection(&two, &[5e6; 2]), None);
    }

    #[test]
    fn what_shows_too_little_is_no_limit_of_each_connection() {
        let limited = windows((1, &[EACH; 3]), (16, &[16.0 * EACH; 3]));
        // Slow start: what a stream gets alone grows, and is by chance what it gets later.
        let grows = windows((1, &[1e6, 4e6, 10.6e6]), (16, &[16.0 * EACH; 3]));
        assert_eq!(each_connection(&grows, &[EACH; 16]), None);
        // A server that takes 83 MB/s of all, once its buffers are full.
        assert_eq!(each_connection(&limited, &[EACH / 3.0; 16]), None);
        // Streams of unlike paths.
        assert_eq!(each_connection(&limited, &[EACH, 3.0 * EACH]), None);
        // One stream, no stream, no windows, one window alone.
        assert_eq!(each_connection(&windows((1, &[EACH; 3]), (1, &[EACH; 3])), &[EACH]), None);
        assert_eq!(each_connection(&[], &[EACH; 16]), None);
        assert_eq!(each_connection(&limited, &[]), None);
        assert_eq!(each_connection(&limited[2..], &[EACH; 16]), None);
        // Fewer at the end, where the others' share is taken up slowly.
        let end = windows((16, &[83e6; 3]), (1, &[EACH; 3]));
        assert_eq!(each_connection(&end, &[EACH; 16]), None);
        // Too close in number to tell.
        let near = windows((3, &[3.0 * EACH; 3]), (4, &[4.0 * EACH; 3]));
        assert_eq!(each_connection(&near, &[EACH; 4]), None);
    }

    proptest! {
        /// However streams share one capacity, and whatever was recorded.
        #[test]
        fn equal_shares_of_one_thing_are_never_called_so(capacity in 1e5f64..1e10, many in 2u32..64, noise in 0.9f64..1.1) {
            let seen = windows((1, &[capacity; 3]), (many, &[capacity * noise; 3]));
            prop_assert_eq!(each_connection(&seen, &vec![capacity / f64::from(many); many as usize]), None);
        }

        #[test]
        fn any_record_is_judged(
            seen in proptest::collection::vec((any::<u32>(), any::<f64>(), any::<u64>()), 0..20),
            rates in proptest::collection::vec(any::<f64>(), 0..5),
        ) {
            let window = |(streams, seconds, bytes)| ArrivalCount { streams, seconds, bytes };
            let seen: Vec<_> = seen.into_iter().map(window).collect();
            if let Some(found) = each_connection(&seen, &rates) {
                prop_assert!(found.bytes_per_second.is_finite() && found.bytes_per_second > 0.0);
            }
        }
    }
}
