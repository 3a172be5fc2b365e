//! What clients take of this host, counted over all their sessions, and bounded: streams and rate each for
//! itself, memory all together.
//!
//! What it moved beyond its rate outlives its streams: who closes a stream and opens the next starts with the
//! debt of the last.

use crate::admission::origin;
use crate::flow::allowance::{Allowance, CATCH_UP};
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_system::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Who is ahead of a rate by less than this is let go on: bursts are no offence.
pub(crate) const AHEAD: Duration = Duration::from_millis(500);
/// Nor is so much more than the rate: the limit is of payload, and a sender that paces by trains is not
/// exact.
pub(crate) const AHEAD_FACTOR: f64 = 1.1;

/// Less of the limit than this share is no stream's worth: it is refused instead.
const SMALLEST_SHARE: f64 = 0.001;

/// Memory that streams may take on a host with much of it.
const USUAL_MEMORY_BYTES: u64 = 8 << 30;
/// Share of the memory that is available that they may take: the kernel pins the buffers of sockets.
const MEMORY_SHARE: u64 = 4;

/// The most that one client may take: one address, or one IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Data streams at once.
    pub streams: usize,
    /// Buffers of the streams of all clients together, bytes: those of the sockets and those of the threads.
    pub memory_bytes: u64,
    /// Payload, bytes per second; none: as fast as it goes.
    pub bytes_per_second: Option<f64>,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits { streams: 256, memory_bytes: USUAL_MEMORY_BYTES, bytes_per_second: None }
    }
}

impl ClientLimits {
    /// Memory for the streams of strangers, where so many bytes are available and nobody said otherwise.
    pub fn memory_bytes_of(available: Option<u64>) -> u64 {
        available.map_or(USUAL_MEMORY_BYTES, |bytes| USUAL_MEMORY_BYTES.min(bytes / MEMORY_SHARE))
    }
}

/// Why one more stream does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(crate) enum ShareRefusal {
    #[error(
        "a client may have {most} streams there at once; take fewer, or start the agent with a higher \
         --streams"
    )]
    Streams { most: usize },
    #[error(
        "the buffers of all clients' streams would take more than {} there; ask for smaller buffers or fewer \
         streams{}, or start the agent with a higher --memory-limit",
        show_size(*.most_bytes),
        if *.by_others { ", wait until other clients have finished" } else { "" }
    )]
    Memory { most_bytes: u64, by_others: bool },
    #[error(
        "this client has moved more than the {} that the agent allows it; wait {:.0} s, or start it there \
         with a higher --rate-limit",
        show_bits_rate(*.limit),
        .over.as_secs_f64().ceil()
    )]
    OverRate { limit: f64, over: Duration },
    #[error(
        "this client's streams have all of the {} that the agent allows it; wait until they have ended, or \
         start it there with a higher --rate-limit",
        show_bits_rate(*.limit)
    )]
    RateTaken { limit: f64 },
}

/// Payload of a stream, bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub wish: f64,
    /// Its part of what its client has left.
    pub dealt: f64,
}

impl Rate {
    /// As fast as it goes.
    pub(crate) const UNBOUND: Rate = Rate { wish: f64::INFINITY, dealt: f64::INFINITY };
    /// Nothing of its own: it reads by its client's pace.
    pub(crate) const PACED: Rate = Rate { wish: 0.0, dealt: 0.0 };
}

/// All clients that have streams, or owe for some that they had.
pub(crate) struct Clients {
    limits: ClientLimits,
    inside: Mutex<HashMap<IpAddr, Used>>,
}

struct Used {
    streams: usize,
    memory_bytes: u64,
    bytes_per_second: f64,
    meter: Option<Meter>,
}

/// What a client moved, against its rate.
#[derive(Clone)]
struct Meter {
    /// Its workers read no faster than this.
    pace: Arc<Allowance>,
    /// The same rate with the tolerance of those who pace themselves: who owes here by more than [`AHEAD`] is
    /// over it.
    watch: Arc<Allowance>,
}

impl Meter {
    fn new(bytes_per_second: f64, now: Instant) -> Self {
        Meter {
            pace: Arc::new(Allowance::new(bytes_per_second, now).with_credit(CATCH_UP)),
            watch: Arc::new(Allowance::new(bytes_per_second * AHEAD_FACTOR, now)),
        }
    }

    /// How long the client must wait to be within its rate again.
    fn over(&self, now: Instant) -> Option<Duration> {
        self.watch.debt(now).checked_sub(AHEAD).filter(|over| !over.is_zero())
    }
}

/// What one stream takes; given back when this is dropped.
pub(crate) struct Share {
    clients: Arc<Clients>,
    client: IpAddr,
    memory_bytes: u64,
    bytes_per_second: Option<f64>,
    meter: Option<Meter>,
}

impl Clients {
    /// Nobody is here yet.
    pub(crate) fn new(limits: ClientLimits) -> Arc<Self> {
        Arc::new(Clients { limits, inside: Mutex::default() })
    }

    /// The limits.
    pub(crate) fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// Rate that a client has left; none where there is no limit.
    pub(crate) fn rate_left(&self, client: IpAddr) -> Option<f64> {
        let used = lock(&self.inside).get(&origin(client)).map_or(0.0, |used| used.bytes_per_second);
        self.limits.bytes_per_second.map(|limit| (limit - used).max(0.0))
    }

    /// Takes what a stream needs: memory, and so much rate (where there is a limit).
    pub(crate) fn take(
        self: &Arc<Self>,
        client: IpAddr,
        memory_bytes: u64,
        rate: Rate,
    ) -> Result<Share, ShareRefusal> {
        self.take_at(client, memory_bytes, rate, Instant::now())
    }

    fn take_at(
        self: &Arc<Self>,
        client: IpAddr,
        memory_bytes: u64,
        rate: Rate,
        now: Instant,
    ) -> Result<Share, ShareRefusal> {
        let client = origin(client);
        let mut inside = lock(&self.inside);
        let others: u64 =
            inside.iter().filter(|(other, _)| **other != client).map(|(_, used)| used.memory_bytes).sum();
        let used = inside.entry(client).or_insert_with(|| Used {
            streams: 0,
            memory_bytes: 0,
            bytes_per_second: 0.0,
            meter: self.limits.bytes_per_second.map(|limit| Meter::new(limit, now)),
        });
        let fits = self.limits.fit(used, others + used.memory_bytes, memory_bytes, rate, now);
        let meter = used.meter.clone();
        if let Ok(bytes_per_second) = fits {
            used.streams += 1;
            used.memory_bytes += memory_bytes;
            used.bytes_per_second += bytes_per_second.unwrap_or(0.0);
        } else if used.forgettable(now) {
            inside.remove(&client);
        }
        let clients = self.clone();
        fits.map(|bytes_per_second| Share { clients, client, memory_bytes, bytes_per_second, meter })
    }

    /// Forgets who has no stream and owes nothing.
    pub(crate) fn forget(&self, now: Instant) {
        lock(&self.inside).retain(|_, used| !used.forgettable(now));
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.inside).len()
    }
}

impl Used {
    fn forgettable(&self, now: Instant) -> bool {
        let owes = |meter: &Meter| !meter.watch.debt(now).is_zero() || !meter.pace.debt(now).is_zero();
        self.streams == 0 && !self.meter.as_ref().is_some_and(owes)
    }
}

impl ClientLimits {
    /// The rate for one more stream, where there is a limit; or why it does not fit. `taken`: memory of all
    /// clients' streams.
    fn fit(
        &self,
        used: &Used,
        taken: u64,
        memory_bytes: u64,
        rate: Rate,
        now: Instant,
    ) -> Result<Option<f64>, ShareRefusal> {
        if used.streams >= self.streams {
            return Err(ShareRefusal::Streams { most: self.streams });
        }
        if taken.saturating_add(memory_bytes) > self.memory_bytes {
            let by_others = taken != used.memory_bytes;
            return Err(ShareRefusal::Memory { most_bytes: self.memory_bytes, by_others });
        }
        let Some(limit) = self.bytes_per_second else { return Ok(None) };
        if let Some(over) = used.meter.as_ref().and_then(|meter| meter.over(now)) {
            return Err(ShareRefusal::OverRate { limit, over });
        }
        let left = limit - used.bytes_per_second;
        if left < rate.wish.min(limit * SMALLEST_SHARE) {
            return Err(ShareRefusal::RateTaken { limit });
        }
        Ok(Some(rate.dealt.min(left)))
    }
}

impl Share {
    /// Rate that this stream may have; none: as fast as it goes.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second
    }

    /// What a worker reads by, where there is a limit: shared by all workers of its client, and charged by
    /// them.
    pub(crate) fn pace(&self) -> Option<Arc<Allowance>> {
        self.meter.as_ref().map(|meter| meter.pace.clone())
    }

    /// Charges the client for bytes that this stream moved. `paced`: its receiver has charged the workers'
    /// pace already.
    pub(crate) fn charge(&self, bytes: u64, paced: bool, now: Instant) {
        let Some(meter) = &self.meter else { return };
        meter.watch.charge(bytes, now);
        if !paced {
            meter.pace.charge(bytes, now);
        }
    }

    /// The client, with all its streams and those that it had, is over its rate.
    pub(crate) fn client_is_over(&self, now: Instant) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.over(now).is_some())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut inside = lock(&self.clients.inside);
        let Some(used) = inside.get_mut(&self.client) else { return };
        used.streams -= 1;
        used.memory_bytes -= self.memory_bytes;
        used.bytes_per_second = (used.bytes_per_second - self.bytes_per_second.unwrap_or(0.0)).max(0.0);
        if used.streams == 0 {
            // Ends what rounding has left of the rates.
            used.bytes_per_second = 0.0;
        }
        if used.forgettable(Instant::now()) {
            inside.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

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
        assert!(why.contains("--streams"), "{why}");
        clients.take(other, 0, rate(10.0)).map(drop).expect("another client's bounds are its own");
        drop(second);
        assert_eq!(clients.rate_left(one), Some(4.0));
        let _again = clients.take(one, 0, rate(4.0)).expect("it fits");
        drop(first);
        let _six = clients.take(one, 0, rate(6.0)).expect("it fits");
        let why =
            clients.take(address("192.0.2.1"), 0, rate(1.0)).map(drop).expect_err("two streams").to_string();
        assert!(why.contains("--streams"), "{why}");
    }

    #[test]
    fn memory_is_one_bound_for_all_clients_together() {
        let clients = Clients::new(ClientLimits { memory_bytes: 100, ..ClientLimits::default() });
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let first = clients.take(one, 60, Rate::UNBOUND).expect("it fits");
        let _second = clients.take(other, 40, Rate::UNBOUND).expect("it fits beside");
        for who in [one, other, address("2001:db8::3")] {
            let why = clients
                .take(who, 1, Rate::UNBOUND)
                .map(drop)
                .expect_err("the machine has no more")
                .to_string();
            assert!(why.contains("--memory-limit") && why.contains("other clients"), "{why}");
        }
        drop(first);
        clients.take(other, 60, Rate::UNBOUND).map(drop).expect("given back");
        let why = clients.take(other, 61, Rate::UNBOUND).map(drop).expect_err("too much for one").to_string();
        assert!(!why.contains("other clients"), "{why}");
        clients.take(one, u64::MAX, Rate::UNBOUND).map(drop).expect_err("no sum wraps round");
    }

    #[test]
    fn a_small_host_gives_less_than_a_large_one() {
        let of = |gib: u64| ClientLimits::memory_bytes_of(Some(gib << 30));
        assert_eq!((of(2), of(31), of(33), of(1024)), (1 << 29, 31 << 28, 8 << 30, 8 << 30));
        assert_eq!(
            (ClientLimits::memory_bytes_of(Some(0)), ClientLimits::memory_bytes_of(None)),
            (0, 8 << 30)
        );
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
}
