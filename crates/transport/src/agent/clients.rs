//! Bounds on everything that comes from outside: what clients take of this host, counted over all their
//! sessions. Streams and rate are bounded each for itself, memory all together. A rate
//! is dealt to the streams that want some of it.
//!
//! What a client moved beyond its rate outlives its streams: who closes a stream and opens the next starts
//! with the debt of the last.

use crate::admission::{PENDING_CONNECTIONS, TIME_TO_PROVE, origin};
use crate::flow::rate_limit::{Allowance, CATCH_UP};
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_system::{clock, lock};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bounds on everything that comes from outside.
#[derive(Clone, Copy, Debug)]
pub struct AgentLimits {
    /// Connections that have shown neither key nor token.
    pub unknown_connections: usize,
    /// Time that such a connection has to show one.
    pub admission: Duration,
    /// Control connections at once; one client has half of them at most.
    pub sessions: usize,
    /// Tests at once; each session has one at most, and one client half of all.
    pub tests: usize,
    /// Data streams of one test. All tests together may have four times as many.
    pub streams: usize,
    /// Time in which a token must be used.
    pub token_life: Duration,
    /// Time between two requests after which a session is dropped.
    pub idle: Duration,
    /// The same while the agent sends datagrams: nobody may be there any more to take them.
    pub idle_sending: Duration,
    /// Length of one test; none: as long as the client likes.
    pub test_time: Option<Duration>,
    /// What one client may take.
    pub client: ClientLimits,
}

impl Default for AgentLimits {
    fn default() -> Self {
        AgentLimits {
            unknown_connections: PENDING_CONNECTIONS,
            admission: TIME_TO_PROVE,
            sessions: 128,
            tests: 64,
            streams: 256,
            token_life: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            idle_sending: Duration::from_secs(10),
            test_time: None,
            client: ClientLimits::default(),
        }
    }
}

/// Who is ahead of a rate by less than this is let go on: bursts are not an offence.
pub(crate) const AHEAD: Duration = Duration::from_millis(500);
/// Nor is so much more than the rate: the limit is of payload, and a sender that paces by trains is not
/// exact.
pub(crate) const AHEAD_FACTOR: f64 = 1.1;

/// Less of the limit than this share is not a stream's worth: it is refused instead.
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
    #[error("a client may have {most} streams there at once; take fewer")]
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
        self.take_at(client, memory_bytes, rate, clock::now())
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
        #[cfg(test)]
        let others =
            if linerate_testing::is_planted(crate::tests::PlantedBug::MemoryEach) { 0 } else { others };
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
    pub(super) fn len(&self) -> usize {
        lock(&self.inside).len()
    }
}

impl Used {
    fn forgettable(&self, now: Instant) -> bool {
        #[cfg(test)]
        planted!(DebtForgotten, return self.streams == 0);
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
        #[cfg(test)]
        planted!(ShareKept, return);
        let mut inside = lock(&self.clients.inside);
        let Some(used) = inside.get_mut(&self.client) else { return };
        used.streams -= 1;
        used.memory_bytes -= self.memory_bytes;
        used.bytes_per_second = (used.bytes_per_second - self.bytes_per_second.unwrap_or(0.0)).max(0.0);
        if used.streams == 0 {
            // Ends what rounding has left of the rates.
            used.bytes_per_second = 0.0;
        }
        if used.forgettable(clock::now()) {
            inside.remove(&self.client);
        }
    }
}

/// Deals a rate to streams: none gets more than it wishes, and what one leaves is shared by the others.
pub(crate) fn deal(rate: f64, wishes: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|a, b| wishes[*a].total_cmp(&wishes[*b]));
    let mut dealt = vec![0.0; wishes.len()];
    let mut left = rate;
    for (place, index) in order.into_iter().enumerate() {
        let even = left / (wishes.len() - place) as f64;
        dealt[index] = wishes[index].min(even);
        left -= dealt[index];
    }
    dealt
}

#[cfg(test)]
mod tests;
