//! Bounds of clients: each its own, memory together, and no way around a rate.

use super::*;
use proptest::prelude::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const UNBOUND: Rate = Rate { wish: f64::INFINITY, dealt: f64::INFINITY };

fn rate(rate: f64) -> Rate {
    Rate { wish: rate, dealt: rate }
}

#[test]
fn each_client_has_its_own_bounds_and_gets_back_what_it_gives() {
    let limits = ClientLimits { streams: 2, memory_bytes: 100, bytes_per_second: Some(10.0) };
    let clients = Clients::new(limits);
    let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
    let first = clients.take(one, 60, rate(6.0)).expect("it fits");
    assert_eq!((first.bytes_per_second(), clients.rate_left(one)), (Some(6.0), Some(4.0)));
    let why = clients.take(one, 60, rate(1.0)).map(drop).expect_err("too much memory").to_string();
    assert!(why.contains("--memory-limit"), "{why}");
    let second = clients.take(one, 40, rate(f64::INFINITY)).expect("the rest");
    assert_eq!(second.bytes_per_second(), Some(4.0));
    let why = clients.take(one, 0, rate(1.0)).map(drop).expect_err("too many").to_string();
    assert!(why.contains("take fewer"), "{why}");
    clients.take(other, 0, rate(10.0)).map(drop).expect("another client's bounds are its own");
    drop(second);
    assert_eq!(clients.rate_left(one), Some(4.0));
    let _again = clients.take(one, 0, rate(4.0)).expect("it fits");
    drop(first);
    let _six = clients.take(one, 0, rate(6.0)).expect("it fits");
    let why =
        clients.take(address("192.0.2.1"), 0, rate(1.0)).map(drop).expect_err("two streams").to_string();
    assert!(why.contains("take fewer"), "{why}");
}

#[test]
fn memory_is_one_bound_for_all_clients_together() {
    let clients = Clients::new(ClientLimits { memory_bytes: 100, ..ClientLimits::default() });
    let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
    let first = clients.take(one, 60, UNBOUND).expect("it fits");
    let _second = clients.take(other, 40, UNBOUND).expect("it fits beside");
    for who in [one, other, address("2001:db8::3")] {
        let why = clients.take(who, 1, UNBOUND).map(drop).expect_err("the machine has no more").to_string();
        assert!(why.contains("--memory-limit") && why.contains("other clients"), "{why}");
    }
    drop(first);
    clients.take(other, 60, UNBOUND).map(drop).expect("given back");
    let why = clients.take(other, 61, UNBOUND).map(drop).expect_err("too much for one").to_string();
    assert!(!why.contains("other clients"), "{why}");
    clients.take(one, u64::MAX, UNBOUND).map(drop).expect_err("no sum wraps round");
}

#[test]
fn a_small_host_gives_less_than_a_large_one() {
    let of = |gib: u64| ClientLimits::memory_bytes_of(Some(gib << 30));
    assert_eq!((of(2), of(31), of(33), of(1024)), (1 << 29, 31 << 28, 8 << 30, 8 << 30));
    assert_eq!((ClientLimits::memory_bytes_of(Some(0)), ClientLimits::memory_bytes_of(None)), (0, 8 << 30));
}

#[test]
fn a_rate_that_is_used_up_is_refused_and_nobody_who_left_is_kept() {
    let clients = Clients::new(ClientLimits { bytes_per_second: Some(1e9), ..ClientLimits::default() });
    let all = clients.take(address("2001:db8::1"), 0, rate(f64::INFINITY)).expect("all of it");
    let why = clients
        .take(address("2001:db8::2"), 0, rate(1e9))
        .map(drop)
        .expect_err("the same network")
        .to_string();
    assert!(why.contains("--rate-limit") && why.contains("8"), "{why}");
    drop(all);
    assert_eq!(clients.len(), 0);
    let unlimited = Clients::new(ClientLimits { streams: 0, ..ClientLimits::default() });
    assert!(unlimited.take(address("::1"), 0, rate(1.0)).is_err());
    assert_eq!((unlimited.len(), unlimited.rate_left(address("::1"))), (0, None));
}

#[test]
fn who_opens_and_closes_in_turn_starts_with_its_debt() {
    let clients = Clients::new(ClientLimits { bytes_per_second: Some(1e6), ..ClientLimits::default() });
    let (start, client) = (Instant::now(), address("192.0.2.1"));
    let at = |millis| start + Duration::from_millis(millis);
    // Each stream alone moves less than a burst may be.
    let mut moved = 0;
    for turn in 0..3 {
        let share = clients.take_at(client, 0, rate(f64::INFINITY), at(turn)).expect("not over yet");
        share.charge(300_000, false, at(turn));
        moved += 300_000;
        assert_eq!(share.client_is_over(at(turn)), moved > 550_000);
        if share.client_is_over(at(turn)) {
            break;
        }
    }
    let why = clients.take_at(client, 0, rate(1.0), at(10)).map(drop).expect_err("in debt").to_string();
    assert!(why.contains("wait 1 s") && why.contains("--rate-limit"), "{why}");
    clients
        .take_at(address("192.0.2.2"), 0, rate(1.0), at(10))
        .map(drop)
        .expect("another client owes nothing");
    clients.take_at(client, 0, rate(1.0), at(600)).map(drop).expect("paid off");
    clients.forget(at(100));
    assert_eq!(clients.len(), 1, "the debt outlives the streams");
    clients.forget(at(5000));
    assert_eq!(clients.len(), 0);
}

proptest! {
    /// However a client cuts what it moves into streams, over any time it gets no more than its rate, the
    /// tolerance, and what one stream can move until somebody looks.
    #[test]
    fn no_pattern_of_streams_evades_the_rate(
        turns in prop::collection::vec((1u64..2_000_000, 0u64..300, 1u64..4), 1..120)
    ) {
        let limit = 1e6;
        let clients = Clients::new(ClientLimits { bytes_per_second: Some(limit), ..ClientLimits::default() });
        let (start, client) = (Instant::now(), address("2001:db8::1"));
        let (mut now, mut moved, mut largest) = (start, 0.0, 0.0f64);
        for (bytes, pause_millis, looks) in turns {
            if let Ok(share) = clients.take_at(client, 0, rate(f64::INFINITY), now) {
                let mut turn = 0.0;
                for _ in 0..looks {
                    now += Duration::from_millis(100);
                    share.charge(bytes, false, now);
                    turn += bytes as f64;
                    if share.client_is_over(now) {
                        break;
                    }
                }
                moved += turn;
                largest = largest.max(bytes as f64);
            }
            now += Duration::from_millis(pause_millis);
            clients.forget(now);
            let time = now.duration_since(start) + AHEAD;
            prop_assert!(moved <= limit * AHEAD_FACTOR * time.as_secs_f64() + largest + 1.0, "{moved}");
        }
    }
}
