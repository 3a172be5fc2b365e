//! What each client takes of this host: streams, memory and rate, counted over all its sessions, and bounded.

use super::admission::{lock, origin};
use crate::units::{show_bits_rate, show_size};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Less of the limit than this share is no stream's worth: it is refused instead.
const SMALLEST_SHARE: f64 = 0.001;

/// The most that one client may take: one address, or one IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Data streams at once.
    pub streams: usize,
    /// Buffers of its streams, bytes: those of the sockets and those of the threads.
    pub memory_bytes: u64,
    /// Payload, bytes per second; none: as fast as it goes.
    pub bytes_per_second: Option<f64>,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits { streams: 256, memory_bytes: 8 << 30, bytes_per_second: None }
    }
}

/// Payload of a stream, bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub wish: f64,
    /// Its part of what its client has left.
    pub dealt: f64,
}

impl Rate {
    /// As fast as it goes.
    pub const UNBOUND: Rate = Rate { wish: f64::INFINITY, dealt: f64::INFINITY };
}

/// All clients that have streams.
pub struct Clients {
    limits: ClientLimits,
    inside: Mutex<HashMap<IpAddr, Used>>,
}

#[derive(Default)]
struct Used {
    streams: usize,
    memory_bytes: u64,
    bytes_per_second: f64,
}

/// What one stream takes; given back when this is dropped.
pub struct Share {
    clients: Arc<Clients>,
    client: IpAddr,
    memory_bytes: u64,
    bytes_per_second: Option<f64>,
}

impl Clients {
    /// Nobody is here yet.
    pub fn new(limits: ClientLimits) -> Arc<Self> {
        Arc::new(Clients { limits, inside: Mutex::default() })
    }

    /// The limits.
    pub fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// Rate that a client has left; none where there is no limit.
    pub fn rate_left(&self, client: IpAddr) -> Option<f64> {
        let used = lock(&self.inside).get(&origin(client)).map_or(0.0, |used| used.bytes_per_second);
        self.limits.bytes_per_second.map(|limit| (limit - used).max(0.0))
    }

    /// Takes what a stream needs: memory, and so much rate (where there is a limit).
    pub fn take(self: &Arc<Self>, client: IpAddr, memory_bytes: u64, rate: Rate) -> Result<Share, String> {
        let client = origin(client);
        let mut inside = lock(&self.inside);
        let used = inside.entry(client).or_default();
        let fits = self.limits.fit(used, memory_bytes, rate);
        if let Ok(bytes_per_second) = fits {
            used.streams += 1;
            used.memory_bytes += memory_bytes;
            used.bytes_per_second += bytes_per_second.unwrap_or(0.0);
        } else if used.streams == 0 {
            inside.remove(&client);
        }
        fits.map(|bytes_per_second| Share { clients: self.clone(), client, memory_bytes, bytes_per_second })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.inside).len()
    }
}

impl ClientLimits {
    /// The rate for one more stream, where there is a limit; or why it does not fit.
    fn fit(&self, used: &Used, memory_bytes: u64, rate: Rate) -> Result<Option<f64>, String> {
        if used.streams >= self.streams {
            return Err(format!(
                "a client may have {} streams there at once; take fewer, or start the agent with a higher --streams",
                self.streams
            ));
        }
        if used.memory_bytes.saturating_add(memory_bytes) > self.memory_bytes {
            return Err(format!(
                "the buffers of this client's streams would take more than {}; ask for smaller buffers or fewer streams, or start \
                 the agent with a higher --memory-limit",
                show_size(self.memory_bytes)
            ));
        }
        let Some(limit) = self.bytes_per_second else { return Ok(None) };
        let left = limit - used.bytes_per_second;
        if left < rate.wish.min(limit * SMALLEST_SHARE) {
            return Err(format!(
                "this client's streams have all of the {} that the agent allows it; wait until they have ended, or start it there \
                 with a higher --rate-limit",
                show_bits_rate(limit)
            ));
        }
        Ok(Some(rate.dealt.min(left)))
    }
}

impl Share {
    /// Rate that this stream may have; none: as fast as it goes.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second
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
            // Also ends what rounding has left of the rates.
            inside.remove(&self.client);
        }
    }
}

/// Deals a rate to streams: none gets more than it wishes, and what one leaves is shared by the others.
pub fn deal(rate: f64, wishes: &[f64]) -> Vec<f64> {
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
        let why = clients.take(one, 60, rate(1.0)).map(drop).expect_err("too much memory");
        assert!(why.contains("--memory-limit"), "{why}");
        let second = clients.take(one, 40, rate(f64::INFINITY)).expect("the rest");
        assert_eq!(second.bytes_per_second(), Some(4.0));
        let why = clients.take(one, 0, rate(1.0)).map(drop).expect_err("too many");
        assert!(why.contains("--streams"), "{why}");
        clients.take(other, 100, rate(10.0)).map(drop).expect("another client's bounds are its own");
        drop(second);
        assert_eq!(clients.rate_left(one), Some(4.0));
        let _again = clients.take(one, 0, rate(4.0)).expect("it fits");
        drop(first);
        let _six = clients.take(one, 0, rate(6.0)).expect("it fits");
        let why = clients.take(address("192.0.2.1"), 0, rate(1.0)).map(drop).expect_err("two streams");
        assert!(why.contains("--streams"), "{why}");
    }

    #[test]
    fn a_rate_that_is_used_up_is_refused_and_nobody_who_left_is_kept() {
        let clients = Clients::new(ClientLimits { bytes_per_second: Some(1e9), ..ClientLimits::default() });
        let all = clients.take(address("2001:db8::1"), 0, rate(f64::INFINITY)).expect("all of it");
        let why = clients.take(address("2001:db8::2"), 0, rate(1e9)).map(drop).expect_err("the same network");
        assert!(why.contains("--rate-limit") && why.contains("8"), "{why}");
        drop(all);
        assert_eq!(clients.len(), 0);
        let unlimited = Clients::new(ClientLimits { streams: 0, ..ClientLimits::default() });
        assert!(unlimited.take(address("::1"), 0, rate(1.0)).is_err());
        assert_eq!((unlimited.len(), unlimited.rate_left(address("::1"))), (0, None));
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
}
