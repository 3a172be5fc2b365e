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
    #[test]
    fn a_dealt_rate_is_never_exceeded_and_never_left_where_wished(
        rate in 0.0..1e10f64, wishes in prop::collection::vec(prop_oneof![0.0..1e10f64, Just(f64::INFINITY)], 1..20)
    ) {
        let dealt = deal(rate, &wishes);
        let sum: f64 = dealt.iter().sum();
        prop_assert!(sum <= rate * (1.0 + 1e-9));
        prop_assert!(dealt.iter().zip(&wishes).all(|(got, wish)| got <= wish));
        let wished: f64 = wishes.iter().sum();
        prop_assert!(sum >= rate.min(wished) * (1.0 - 1e-9));
    }
}
