//! Places that are counted: for sessions, tests and streams. One client cannot have so many that nobody else gets one.

use super::admission::lock;
use crate::flow::origin::origin;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Counted places.
pub struct Places {
    bound: usize,
    /// The most that one client may have.
    each: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One place; given back when this is dropped.
pub struct Place {
    places: Arc<Places>,
    client: IpAddr,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All are taken: so many.
    All(usize),
    /// This client has as many as one may have: so many, of so many.
    Yours(usize, usize),
}

impl Places {
    /// `bound` places, of which one client gets half at most, be the others free or not: those who hold a place give it back when they like,
    /// so what is to be had for others must never be given away. A single place is whose comes first.
    pub fn shared(bound: usize) -> Arc<Self> {
        Arc::new(Places { bound, each: bound.div_ceil(2), taken: Mutex::default() })
    }

    /// `bound` places for whoever comes; something else bounds what one client takes.
    pub fn open(bound: usize) -> Arc<Self> {
        Arc::new(Places { bound, each: bound, taken: Mutex::default() })
    }

    /// Takes a place for a client.
    pub fn take(self: &Arc<Self>, client: IpAddr) -> Result<Place, Full> {
        let client = origin(client);
        let mut taken = lock(&self.taken);
        if taken.values().sum::<usize>() >= self.bound {
            return Err(Full::All(self.bound));
        }
        let own = taken.get(&client).copied().unwrap_or(0);
        if own >= self.each {
            return Err(Full::Yours(self.each, self.bound));
        }
        taken.insert(client, own + 1);
        Ok(Place { places: self.clone(), client })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        lock(&self.taken).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        if let Some(own) = taken.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let places = Places::shared(3);
        let (one, two) = (places.take(client(1)), places.take(client(1)));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(places.take(client(1)).err(), Some(Full::Yours(2, 3)));
        let other = places.take(client(2));
        assert!(other.is_ok());
        assert_eq!(places.take(client(3)).err(), Some(Full::All(3)));
        drop((one, two));
        assert_eq!(places.taken(), 1);
        assert!(places.take(client(1)).is_ok());
        assert!(Places::shared(1).take(client(1)).is_ok(), "a single place can be had");
        assert!(Places::shared(0).take(client(1)).is_err());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let places = Places::shared(2);
        let _one = places.take("2001:db8::1".parse().expect("an address"));
        let same = places.take("2001:db8::2".parse().expect("an address")).err();
        assert_eq!(same, Some(Full::Yours(1, 2)));
        assert!(places.take("2001:db8:0:1::1".parse().expect("an address")).is_ok());
    }

    proptest! {
        /// Whatever one client takes and gives back, somebody else finds a place, where there are two.
        #[test]
        fn nobody_can_shut_out_the_others(bound in 2usize..40, wishes in prop::collection::vec(any::<bool>(), 0..200)) {
            let places = Places::shared(bound);
            let mut held = Vec::new();
            for wish in wishes {
                if wish { held.extend(places.take(client(1))) } else { drop(held.pop()) }
                prop_assert!(places.taken() == held.len() && held.len() <= bound.div_ceil(2));
                prop_assert!(places.take(client(2)).is_ok());
            }
        }
    }
}
