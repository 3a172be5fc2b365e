//! Permits that are counted: for connections, sessions, tests, streams. One origin cannot have so many that
//! nobody else gets one; where there is one permit alone, who had it last lets others go first that came
//! meanwhile.

#[cfg(test)]
use crate::tests::PlantedBug;
use linerate_system::lock;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Counted permits.
#[derive(Debug)]
pub struct Permits {
    bound: usize,
    /// The most that one origin may have.
    each: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One permit, or several that were taken together; given back when this is dropped.
#[derive(Debug)]
pub struct Permit {
    permits: Arc<Permits>,
    origin: IpAddr,
    count: usize,
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPermit {
    #[error("all {bound} are taken")]
    AllTaken { bound: usize },
    #[error("this origin has {own} of {bound} already, which is the most for one")]
    OriginHasHalf { own: usize, bound: usize },
}

impl Permits {
    /// `bound` permits, of which one origin gets half at most, even when the others are free: who holds a permit gives
    /// it back when he likes, so what others need must never be given away. A single permit goes to who comes first.
    pub fn shared(bound: usize) -> Arc<Self> {
        Arc::new(Permits { bound, each: bound.div_ceil(2), taken: Mutex::default() })
    }

    /// `bound` permits for anyone; something else bounds what one origin takes.
    pub fn open(bound: usize) -> Arc<Self> {
        Arc::new(Permits { bound, each: bound, taken: Mutex::default() })
    }

    /// `bound` permits, of which one origin gets `each` at most.
    pub fn with_share(bound: usize, each: usize) -> Arc<Self> {
        Arc::new(Permits { bound, each, taken: Mutex::default() })
    }

    /// Takes a permit for a peer.
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Result<Permit, NoPermit> {
        self.take_many(peer, 1)
    }

    /// Takes several at once; more than one origin may have counts as all that it may have.
    pub fn take_many(self: &Arc<Self>, peer: IpAddr, count: usize) -> Result<Permit, NoPermit> {
        let (origin, count) = (origin(peer), count.min(self.each.max(1)));
        let mut taken = self.lock();
        let all = taken.values().sum::<usize>();
        #[cfg(test)]
        let all = all.saturating_sub(usize::from(linerate_testing::is_planted(PlantedBug::PermitBeyond)));
        if all + count > self.bound {
            return Err(NoPermit::AllTaken { bound: self.bound });
        }
        let own = taken.get(&origin).copied().unwrap_or(0);
        #[cfg(test)]
        planted!(AllForOne, {
            taken.insert(origin, own + count);
            return Ok(Permit { permits: self.clone(), origin, count });
        });
        if own + count > self.each {
            return Err(NoPermit::OriginHasHalf { own, bound: self.bound });
        }
        taken.insert(origin, own + count);
        Ok(Permit { permits: self.clone(), origin, count })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.lock().values().sum()
    }

    /// How many of them a peer's origin has.
    pub fn taken_by(&self, peer: IpAddr) -> usize {
        self.lock().get(&origin(peer)).copied().unwrap_or(0)
    }

    /// Every change under the lock is one step: the counts are whole even if a holder panics.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.taken)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        #[cfg(test)]
        planted!(PermitKept, return);
        let mut taken = self.permits.lock();
        if let Some(own) = taken.get_mut(&self.origin) {
            *own -= self.count;
            if *own == 0 {
                taken.remove(&self.origin);
            }
        }
    }
}

/// Who was told that the server is busy comes again within this time, or has lost the turn.
const TURN_ENDS: Duration = Duration::from_secs(10);
/// As many who wait are remembered; a crowd of more has no order.
const MOST_TURNS: usize = 16;

/// Who was served last, and who came and was not.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Option<IpAddr>,
    waiting: Vec<(IpAddr, Instant)>,
}

impl Turns {
    /// This origin came while the permit was taken.
    pub(crate) fn came(&mut self, origin: IpAddr, now: Instant) {
        self.waiting.retain(|(waiting, since)| *waiting != origin && is_fresh(*since, now));
        if self.waiting.len() < MOST_TURNS {
            self.waiting.push((origin, now));
        }
    }

    /// The permit is free: may this origin have it?
    pub(crate) fn may(&self, origin: IpAddr, now: Instant) -> bool {
        let another = |(waiting, since): &(IpAddr, Instant)| *waiting != origin && is_fresh(*since, now);
        self.last != Some(origin) || !self.waiting.iter().any(another)
    }

    /// This origin has the permit.
    pub(crate) fn serve(&mut self, origin: IpAddr) {
        self.last = Some(origin);
        self.waiting.retain(|(waiting, _)| *waiting != origin);
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < TURN_ENDS
}

/// What counts as one origin: an IPv4 address, or an IPv6 network of 64 bits, for a host can have all addresses of it.
pub fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// An IPv4 address that came through an IPv6 socket, as IPv4; a link-local IPv6 address keeps its interface.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => (v4, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn several_are_taken_together_and_one_origin_has_no_more_than_its_share() {
        let permits = Permits::with_share(8, 2);
        let own = [permits.take(peer(1)), permits.take(peer(1))];
        assert!(own.iter().all(Result::is_ok) && permits.take(peer(1)).is_err());
        // More than its share counts as the share.
        let others: Vec<_> = (2..5).map(|number| permits.take_many(peer(number), 100)).collect();
        assert!(others.iter().all(Result::is_ok));
        assert_eq!((permits.taken(), permits.taken_by(peer(4)), permits.taken_by(peer(9))), (8, 2, 0));
        assert!(permits.take(peer(9)).is_err());
        drop((own, others));
        assert_eq!(permits.taken(), 0);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_origin() {
        let permits = Permits::shared(2);
        let _one = permits.take("2001:db8::1".parse().expect("an address"));
        let same = permits.take("2001:db8::2".parse().expect("an address")).err();
        assert_eq!(same, Some(NoPermit::OriginHasHalf { own: 1, bound: 2 }));
        assert!(permits.take("2001:db8:0:1::1".parse().expect("an address")).is_ok());
    }

    #[test]
    fn a_fast_client_does_not_keep_the_only_permit() {
        let [fast, slow, other] = [1, 2, 3].map(|number| IpAddr::from([192, 0, 2, number]));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut turns = Turns::default();
        assert!(turns.may(fast, at(0)));
        turns.serve(fast);
        assert!(turns.may(fast, at(1)), "nobody else came");
        turns.came(fast, at(1));
        assert!(turns.may(fast, at(1)), "its own second connection is nobody else");
        turns.came(slow, at(2));
        assert!(!turns.may(fast, at(3)) && turns.may(slow, at(3)) && turns.may(other, at(3)));
        turns.serve(slow);
        assert!(turns.may(fast, at(4)));
        turns.came(fast, at(4));
        assert!(!turns.may(slow, at(5)), "now it is the other way round");
        turns.serve(fast);
        turns.came(slow, at(20));
        assert!(
            !turns.may(fast, at(29)) && turns.may(fast, at(30)),
            "who does not come again has lost its turn"
        );
    }

    #[test]
    fn a_network_of_ipv6_is_one_and_an_address_of_ipv4_is() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(origin(address("2001:db8::1")), origin(address("2001:db8::ffff:2")));
        assert_ne!(origin(address("2001:db8::1")), origin(address("2001:db8:0:1::1")));
        assert_ne!(origin(address("192.0.2.1")), origin(address("192.0.2.2")));
        assert_eq!(origin(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }
}
